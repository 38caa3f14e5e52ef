"""What a user sees of the program when the stack or the cluster is at fault."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from modules import stackfile
from tests import loopback
from tests.program.conftest import run_main
from tests.program.harness import Deployment, run

GOOD: dict[str, Any] = {"image": "x", "context": "there", "roles": {"chief": {}, "worker": {}}}


def attempt(settings: Any, *, preview: bool) -> tuple[str, Deployment]:
    """The message that stops the program, and what it had registered by then."""
    deployment = Deployment()
    config = {} if settings is None else {stackfile.CONFIG_KEY: settings}
    # The language host prints a RunError as its message alone, and anything else as a traceback.
    with pytest.raises(pulumi.RunError) as caught:
        run(run_main, preview=preview, config=config, into=deployment)
    return str(caught.value), deployment


@pytest.mark.parametrize("preview", [True, False])
def test_a_bad_stack_stops_before_the_first_resource_with_all_its_problems(preview: bool) -> None:
    told, deployment = attempt({"imagee": "x", "roles": {"chief": {"replicas": 0}, "master": {}}}, preview=preview)
    assert told.startswith("stacks/Pulumi.exp.yaml: 4 problems\n")
    for words in ("imagee: unknown key", "image: is required", "roles.chief.replicas: must be at least 1", "one chief"):
        assert words in told
    assert deployment.resources == []


def test_a_stack_without_settings_says_what_it_needs() -> None:
    told, _ = attempt(None, preview=True)
    assert "tfcluster:cluster: must be a map with at least `image` and `roles`" in told


def test_code_that_is_not_there_stops_before_the_component(
    user: Callable[..., Path], cluster: loopback.ApiServer
) -> None:
    user(cluster.url)
    told, deployment = attempt({**GOOD, "code": "nowhere"}, preview=False)
    assert "code: there is no such file or folder (got 'nowhere')" in told
    assert deployment.of_type("TfCluster") == deployment.of_type(":Job") == []


def test_an_update_of_an_unreachable_cluster_stops_before_the_first_resource(user: Callable[..., Path]) -> None:
    server = loopback.refusing_server()
    user(server)
    told, deployment = attempt(GOOD, preview=False)
    assert f"the cluster cannot be reached: context 'there', server {server}" in told
    assert deployment.resources == []


def test_a_preview_of_an_unreachable_cluster_shows_everything_and_warns_once(user: Callable[..., Path]) -> None:
    server = loopback.refusing_server()
    user(server)
    deployment = run(run_main, preview=True, config={stackfile.CONFIG_KEY: GOOD})
    assert [job.name for job in deployment.of_type(":Job")] == ["exp-chief", "exp-worker"]
    (warning,) = deployment.warnings
    assert f"context 'there', server {server}" in warning
    assert "Not checked in this preview" in warning
    settings = deployment.one("providers:kubernetes").inputs["kubeClientSettings"]
    assert "timeout" in str(settings), "the provider must not wait a minute for each object"


def test_a_preview_without_any_kubeconfig_shows_everything_and_warns_once(tmp_path: Path) -> None:
    deployment = run(run_main, preview=True, config={stackfile.CONFIG_KEY: GOOD})
    assert len(deployment.of_type(":Job")) == 2
    (warning,) = deployment.warnings
    assert str(tmp_path / "kubeconfig") in warning


def test_a_preview_of_a_missing_namespace_warns_and_keeps_the_provider_s_patience(user: Callable[..., Path]) -> None:
    with loopback.api_server(status=404) as server:
        user(server.url)
        deployment = run(run_main, preview=True, config={stackfile.CONFIG_KEY: GOOD})
    (warning,) = deployment.warnings
    assert "kubectl create namespace default" in warning
    assert "kubeClientSettings" not in deployment.one("providers:kubernetes").inputs
