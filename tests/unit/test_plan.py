"""Spec → Plan: what a stack means."""

from decimal import Decimal
from typing import Any

import pytest

from modules import manifests, names, tf_config
from modules import plan as planning
from modules.errors import SpecError
from modules.plan import Role
from tests import kubelet, shapes


def roles(settings: dict[str, Any]) -> dict[str, Role]:
    return {role.name: role for role in shapes.planned({"image": "x", **settings}).roles}


def test_tensorflow_s_roles_stand_in_the_cluster_and_others_only_when_they_ask() -> None:
    plan = shapes.planned(shapes.shapes()["evaluator"])
    assert list(plan.cluster) == ["chief", "ps", "worker"]
    assert list(shapes.planned(shapes.shapes()["companion-outside"]).cluster) == ["chief", "worker"]
    assert list(shapes.planned(shapes.shapes()["companion-inside"]).cluster) == ["chief", "data-server"]
    listed = {"image": "x", "roles": {"chief": {}, "evaluator": {"inCluster": True}, "worker": {"inCluster": False}}}
    assert list(shapes.planned(listed).cluster) == ["chief", "evaluator"]


@pytest.mark.parametrize(
    ("given", "decider"),
    [
        (["worker", "chief", "ps"], "chief"),
        (["worker", "master"], "master"),
        (["evaluator", "worker", "a"], "worker"),
    ],
)
def test_the_chief_decides_else_the_workers(given: list[str], decider: str) -> None:
    planned = shapes.planned({"image": "x", "roles": {role: {} for role in given}})
    assert [role.name for role in planned.roles if role.decides] == [decider]
    assert planned.decider.name == decider
    assert planned.decider.retries == planning.CHIEF_RETRIES
    assert {role.retries for role in planned.roles if not role.decides} == {planning.ALWAYS_BACK}


def test_the_order_of_a_file_means_nothing_because_the_engine_sorts_it() -> None:
    roles = {"worker": {"env": {"B": "$(A)", "A": 1}}, "zeta": {}, "chief": {}, "alpha": {}, "ps": {}, "evaluator": {}}
    backwards = {role: {**settings} for role, settings in reversed(roles.items())}
    backwards["worker"] = {"env": {"A": 1, "B": "$(A)"}}
    there, back = (shapes.planned({"image": "x", "roles": order}) for order in (roles, backwards))
    assert there == back
    assert [role.name for role in there.roles] == ["chief", "ps", "worker", "evaluator", "alpha", "zeta"]
    assert manifests.render(there) == manifests.render(back)


def test_a_ps_without_a_command_runs_the_builtin_server_and_others_their_image() -> None:
    resolved = roles({"roles": {"chief": {}, "ps": {}, "worker": {"entrypoint": "builtin"}}})
    assert resolved["ps"].command == resolved["worker"].command == planning.BUILTIN_COMMAND
    assert (resolved["chief"].command, resolved["chief"].args) == ((), ())


@pytest.mark.parametrize(
    ("settings", "command", "args"),
    [
        ({"entrypoint": "image"}, (), ()),
        ({"command": ["a"]}, ("a",), ()),
        ({"args": ["b"]}, (), ("b",)),
        ({"command": ["a"], "args": ["b"]}, ("a",), ("b",)),
    ],
)
def test_a_ps_that_brings_its_own_program_keeps_it(
    settings: dict[str, Any], command: tuple[str, ...], args: tuple[str, ...]
) -> None:
    role = roles({"roles": {"chief": {}, "ps": settings}})["ps"]
    assert (role.command, role.args) == (command, args)


def test_a_role_s_image_comes_before_the_cluster_s() -> None:
    resolved = roles({"image": "all", "roles": {"chief": {"image": "own"}, "ps": {}}})
    assert (resolved["chief"].image, resolved["ps"].image) == ("own", "all")


def test_addresses_are_in_the_order_of_the_index() -> None:
    role = roles({"name": "m", "roles": {"worker": {"replicas": 11}}})["worker"]
    assert role.addresses == tuple(f"m-worker-{index}.m:2222" for index in range(11))
    assert role.job == "m-worker"


def test_one_replica_is_no_distributed_training() -> None:
    def distributed(**given: Any) -> bool:
        return shapes.planned({"image": "x", "roles": given}).distributed

    assert not distributed(worker={})
    assert not distributed(worker={}, tensorboard={})
    assert not distributed(chief={}, helper={"replicas": 3})
    assert distributed(worker={"replicas": 2})
    assert distributed(chief={}, ps={})
    assert distributed(chief={}, evaluator={})
    assert distributed(chief={}, helper={"inCluster": True})


def test_totals_count_every_replica() -> None:
    plan = shapes.planned(
        {
            "image": "x",
            "roles": {
                "chief": {"resources": {"cpu": "500m"}},
                "worker": {"replicas": 3, "resources": {"cpu": 1, "memory": "1Gi"}},
            },
        }
    )
    assert (plan.cpu, plan.memory) == (Decimal("3.5"), 3 * 2**30)


# --- limits -----------------------------------------------------------------------------------------------------------


def workers(count: int) -> dict[str, Any]:
    return {"image": "x", "name": "t", "roles": {"chief": {}, "worker": {"replicas": count}}}


def most_workers() -> int:
    """The largest number of workers that is not refused."""
    low, high = 1, 10_000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            shapes.rendered(workers(middle))
            low = middle
        except SpecError:
            high = middle - 1
    return low


def test_the_largest_cluster_that_is_taken_fits_into_the_environment_and_the_next_is_refused() -> None:
    most = most_workers()
    assert 4_000 < most < 10_000
    objects = shapes.rendered(workers(most))
    environment = kubelet.environment(shapes.jobs(objects)["worker"], most - 1, shapes.of_kind(objects, "ConfigMap"))
    longest = max(len(f"{name}={value}") for name, value in environment.items())
    # One address more would not fit: the limit is the kernel's, not a round number.
    assert planning.ENV_LIMIT - 2 * len('"t-worker-9999.t:2222",') < longest <= planning.ENV_LIMIT
    with pytest.raises(SpecError, match=r"roles: the addresses in TF_CONFIG are .* variable takes 131,071"):
        shapes.rendered(workers(most + 1))


def test_a_companion_s_host_list_is_held_to_the_same_limit() -> None:
    settings = {"image": "x", "name": "t", "roles": {"chief": {}, "helper": {"replicas": 10_000}}}
    with pytest.raises(SpecError, match="the addresses in HELPER_HOSTS are"):
        shapes.rendered(settings)


def test_ten_thousand_replicas_in_several_roles_are_as_many_objects_as_one_each() -> None:
    def settings(replicas: int) -> dict[str, Any]:
        companions = {f"part-{letter}": {"replicas": replicas} for letter in "abcd"}
        return {"image": "x", "name": "t", "roles": {"chief": {}, **companions}}

    many = shapes.rendered(settings(2_500))
    assert len(many) == len(shapes.rendered(settings(1)))
    last = shapes.jobs(many)["part-d"]
    environment = kubelet.environment(last, 2_499, shapes.of_kind(many, "ConfigMap"))
    hosts = environment["PART_D_HOSTS"].split(",")
    assert len(hosts) == 2_500
    assert hosts[int(environment["TASK_INDEX"])] == "t-part-d-2499.t:2222"
    assert last["spec"]["completions"] == last["spec"]["parallelism"] == 2_500


@pytest.mark.parametrize("byte", [b"x", b"\xff"])
def test_code_that_a_config_map_cannot_hold_is_refused_and_what_it_can_is_not(byte: bytes) -> None:
    settings = {"image": "x", "code": "src", "roles": {"worker": {}}}
    (almost_empty,) = shapes.of_kind(shapes.rendered(settings, code={"big": b""}), "ConfigMap")
    used = sum(len(key) + len(value) for key, value in almost_empty["data"].items())
    room = planning.CONFIG_MAP_LIMIT - used
    (config_map,) = shapes.of_kind(shapes.rendered(settings, code={"big": byte * (room - 4)}), "ConfigMap")
    assert any("big" in key for key in (*config_map["data"], *config_map.get("binaryData", {})))
    with pytest.raises(SpecError, match=r"code: code and host lists are .* a ConfigMap takes 1,040,384"):
        shapes.rendered(settings, code={"big": byte * (room + 4)})


def test_both_limits_are_reported_together() -> None:
    settings = {**workers(10_000), "code": "src"}
    with pytest.raises(SpecError) as caught:
        shapes.rendered(settings, code={"big": b"x" * 2**20})
    assert [problem.path for problem in caught.value.problems] == ["code", "roles"]


def test_the_variables_that_are_checked_are_those_that_a_pod_gets() -> None:
    plan = shapes.planned(shapes.shapes()["chief-ps-workers"])
    objects = manifests.render(plan)
    checked = tf_config.growing_variables(plan)
    assert set(checked) == {"TF_CONFIG", *(names.hosts_variable(role.name) for role in plan.roles)}
    for role in plan.roles:
        got = kubelet.environment(shapes.jobs(objects)[role.name], 0, shapes.of_kind(objects, "ConfigMap"))
        for name, text in checked.items():
            assert len(got[name]) <= len(text)
