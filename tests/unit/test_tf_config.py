"""How a replica learns who it is: checked on the environment that a kubelet would make of the manifests."""

import json

import pytest

from modules import names
from modules.manifests import Manifest
from tests import kubelet, shapes

DISTRIBUTED = [name for name in shapes.NAMES if name != "single"]


def replicas(shape: str) -> dict[tuple[str, int], dict[str, str]]:
    """(role, index) → environment, for every replica of a shape."""
    objects = shapes.rendered(shapes.shapes()[shape])
    config_maps = shapes.of_kind(objects, "ConfigMap")
    return {
        (role, index): kubelet.environment(job, index, config_maps)
        for role, job in shapes.jobs(objects).items()
        for index in range(job["spec"]["completions"])
    }


@pytest.mark.parametrize("shape", DISTRIBUTED)
def test_every_replica_in_the_cluster_gets_the_same_cluster_and_its_own_task(shape: str) -> None:
    plan = shapes.planned(shapes.shapes()[shape])
    cluster = {role: list(addresses) for role, addresses in plan.cluster.items()}
    seen = []
    for (role, index), environment in replicas(shape).items():
        if "TF_CONFIG" not in environment:
            assert role not in (*cluster, "evaluator")
            continue
        config = json.loads(environment["TF_CONFIG"])
        assert config == {"cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud"}
        assert type(config["task"]["index"]) is int
        if role in cluster:
            assert cluster[role][index] == f"{names.host(plan.name, role, index)}:2222"
        seen.append(role)
    assert set(seen) == {*cluster, *({"evaluator"} if shape == "evaluator" else set())}


def test_one_replica_alone_gets_no_tf_config() -> None:
    (environment,) = replicas("single").values()
    assert not {"TF_CONFIG", "TF_CLUSTER"} & set(environment)
    assert environment["TASK_INDEX"] == "0"


def test_the_evaluator_knows_its_task_and_stands_in_no_cluster() -> None:
    found = replicas("evaluator")
    config = json.loads(found["evaluator", 0]["TF_CONFIG"])
    assert config["task"] == {"type": "evaluator", "index": 0}
    assert all("evaluator" not in json.loads(environment["TF_CONFIG"])["cluster"] for environment in found.values())


def test_a_companion_outside_the_cluster_gets_host_lists_but_no_tf_config() -> None:
    environment = replicas("companion-outside")["data-server", 0]
    assert "TF_CONFIG" not in environment
    assert environment["WORKER_HOSTS"] == "exp-worker-0.exp:2222"


@pytest.mark.parametrize("shape", shapes.NAMES)
def test_every_replica_gets_name_index_and_the_host_lists_of_all_roles(shape: str) -> None:
    plan = shapes.planned(shapes.shapes()[shape])
    for (role, index), environment in replicas(shape).items():
        assert environment["JOB_NAME"] == role
        assert environment["TASK_INDEX"] == environment["JOB_COMPLETION_INDEX"] == str(index)
        for other in plan.roles:
            assert environment[names.hosts_variable(other.name)] == ",".join(other.addresses)


def test_flags_of_tf_1_programs_are_expanded_in_their_arguments() -> None:
    job = shapes.jobs(shapes.rendered(shapes.shapes()["chief-ps-workers"]))["worker"]
    environment = replicas("chief-ps-workers")["worker", 3]
    assert [kubelet.expand(word, environment) for word in shapes.container(job)["args"]] == [
        "--ps_hosts=mnist-ps-0.mnist:2222,mnist-ps-1.mnist:2222",
        "--task_index=3",
    ]


def with_env(env: dict[str, str]) -> Manifest:
    settings = {"image": "x", "roles": {"worker": {"replicas": 2, "env": env}}}
    objects = shapes.rendered(settings)
    return {"job": shapes.jobs(objects)["worker"], "maps": shapes.of_kind(objects, "ConfigMap")}


def test_what_the_user_sets_comes_after_ours_and_may_refer_to_it() -> None:
    made = with_env({"OUT": "/logs/$(JOB_NAME)-$(TASK_INDEX)", "PRICE": "$$(JOB_NAME)", "LATE": "$(ZULU)", "ZULU": "z"})
    environment = kubelet.environment(made["job"], 1, made["maps"])
    assert environment["OUT"] == "/logs/worker-1"
    assert environment["PRICE"] == "$(JOB_NAME)"
    assert environment["LATE"] == "$(ZULU)", "only what stands before is known"


def test_home_is_writable_unless_the_user_says_where_it_is() -> None:
    assert kubelet.environment(with_env({})["job"], 0, with_env({})["maps"])["HOME"] == "/tmp"
    made = with_env({"HOME": "/mine"})
    assert [entry for entry in shapes.container(made["job"])["env"] if entry["name"] == "HOME"] == [
        {"name": "HOME", "value": "/mine"}
    ]


def test_the_index_is_declared_first_or_the_controller_would_append_it_too_late() -> None:
    for settings in shapes.shapes().values():
        for job in shapes.jobs(shapes.rendered(settings)).values():
            assert shapes.container(job)["env"][0]["name"] == "JOB_COMPLETION_INDEX"


# --- the test's own kubelet -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$(A)$(A)", "11"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(B)", "$(B)"),
        ("$A", "$A"),
        ("$(", "$("),
        ("a$", "a$"),
        ("{$(A)}", "{1}"),
    ],
)
def test_the_expander_follows_kubernetes_rules(text: str, expanded: str) -> None:
    assert kubelet.expand(text, {"A": "1"}) == expanded


def test_the_expander_would_notice_an_index_that_comes_too_late() -> None:
    objects = shapes.rendered(shapes.shapes()["worker-only"])
    job = shapes.jobs(objects)["worker"]
    shapes.container(job)["env"] = shapes.container(job)["env"][1:]
    environment = kubelet.environment(job, 0, shapes.of_kind(objects, "ConfigMap"))
    with pytest.raises(json.JSONDecodeError):
        json.loads(environment["TF_CONFIG"])
