"""The harness itself: an upgrade of the SDK shows here first."""

import pulumi
import pytest
from pulumi_kubernetes.core.v1 import ConfigMap

from tests.program.harness import DuplicateUrnError, run


class Component(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("test:index:Component", name, {}, opts)


def test_a_second_resource_with_the_same_urn_is_refused_as_the_engine_refuses_it() -> None:
    def program() -> None:
        ConfigMap("same", metadata={"name": "a"})
        ConfigMap("same", metadata={"name": "b"})

    with pytest.raises(DuplicateUrnError, match=r"kubernetes:core/v1:ConfigMap::same"):
        run(program)


def test_children_of_the_same_name_under_different_components_are_duplicates_too() -> None:
    def program() -> None:
        for name in ("a", "b"):
            ConfigMap("same", metadata={"name": name}, opts=pulumi.ResourceOptions(parent=Component(name)))

    with pytest.raises(DuplicateUrnError):
        run(program)


def test_an_invoke_fails_the_run() -> None:
    def program() -> None:
        pulumi.export("answer", pulumi.runtime.invoke_output("test:index:ask", {}))

    with pytest.raises(Exception, match="the program asked a provider: test:index:ask"):
        run(program)


def test_what_a_program_raises_is_raised() -> None:
    def program() -> None:
        ConfigMap("made", metadata={"name": "a"})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(program)


def test_exports_config_and_names_do_not_leak_from_run_to_run() -> None:
    def first() -> None:
        pulumi.export("leak", pulumi.Config().require("leak"))

    def second() -> None:
        pulumi.export("stack", pulumi.get_stack())
        pulumi.export("leak?", pulumi.Config().get("leak") or "")

    assert run(first, config={"tfcluster:leak": "x"}).outputs == {"leak": "x"}
    assert run(second, stack="other").outputs == {"stack": "other", "leak?": ""}


def test_what_only_an_update_knows_is_unknown_at_preview() -> None:
    def program() -> None:
        made = ConfigMap("made", metadata={"name": "a"})
        pulumi.export("name", made.metadata.name)
        pulumi.export("binary", made.binary_data)

    assert run(program).outputs == {"name": "a", "binary": None}
    assert run(program, preview=True).outputs == {"name": "a", "binary": pulumi.UNKNOWN}


def test_warnings_are_kept() -> None:
    assert run(lambda: pulumi.log.warn("careful")).warnings == ["careful"]
