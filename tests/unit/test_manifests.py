"""Plan → Kubernetes objects. One golden file a shape; the rest says what must hold for all of them."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from modules import plan as planning
from modules import yaml_text
from modules.manifests import Manifest
from tests import shapes


@pytest.fixture(autouse=True)
def _fixed_server(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes.fixed_server(monkeypatch)


@pytest.fixture(params=shapes.NAMES)
def objects(request: pytest.FixtureRequest) -> list[Manifest]:
    return shapes.rendered(shapes.shapes()[request.param])


def name_of_map(settings: dict[str, Any], **how: Any) -> str:
    """The name that stands for everything that a training consists of."""
    return shapes.of_kind(shapes.rendered(settings, **how), "ConfigMap")[0]["metadata"]["name"]


def values(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in a manifest, with its path."""
    yield path, tree
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield from values(child, f"{path}.{key}")


@pytest.mark.parametrize("shape", shapes.NAMES)
def test_a_shape_renders_as_its_golden_file(shape: str, golden: Callable[[str, str], None]) -> None:
    golden(shape, yaml_text.dump(shapes.rendered(shapes.shapes()[shape])))


def test_no_object_has_an_empty_place(objects: list[Manifest]) -> None:
    # `{}` means something in exactly one place: an emptyDir with defaults.
    empty = [path for manifest in objects for path, value in values(manifest) if value is None or value in ({}, [])]
    assert [path for path in empty if not path.endswith(".emptyDir")] == []


def test_rendering_twice_gives_the_same_and_leaves_the_plan_alone() -> None:
    for settings in shapes.shapes().values():
        before = copy.deepcopy(settings)
        assert shapes.rendered(settings) == shapes.rendered(settings)
        assert settings == before


# --- which objects ----------------------------------------------------------------------------------------------------


def test_objects_come_in_the_order_in_which_they_are_made(objects: list[Manifest]) -> None:
    kinds = [manifest["kind"] for manifest in objects]
    assert kinds == ["ConfigMap", "Service", "NetworkPolicy", *["Job"] * (len(kinds) - 3)]


@pytest.mark.parametrize("replicas", [1, 2, 1_000])
def test_the_number_of_objects_depends_on_the_roles_alone(replicas: int) -> None:
    roles = {"chief": {}, "ps": {"replicas": replicas}, "worker": {"replicas": replicas}}
    assert len(shapes.rendered({"image": "x", "roles": roles})) == 3 + 3


def test_every_object_is_in_the_namespace_with_the_labels_of_the_cluster(objects: list[Manifest]) -> None:
    namespaces = {manifest["metadata"]["namespace"] for manifest in objects}
    instances = {manifest["metadata"]["labels"]["app.kubernetes.io/instance"] for manifest in objects}
    assert len(namespaces) == len(instances) == 1
    assert {manifest["metadata"]["labels"]["app.kubernetes.io/managed-by"] for manifest in objects} == {"tfcluster"}


def test_no_two_objects_of_a_kind_have_one_name(objects: list[Manifest]) -> None:
    identities = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in objects]
    assert len(set(identities)) == len(identities)


# --- network ----------------------------------------------------------------------------------------------------------


def test_the_service_gives_names_to_pods_that_are_not_ready_yet(objects: list[Manifest]) -> None:
    (service,) = shapes.of_kind(objects, "Service")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for job in shapes.of_kind(objects, "Job"):
        assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_only_pods_of_the_cluster_reach_the_port_of_its_servers(objects: list[Manifest]) -> None:
    (policy,) = shapes.of_kind(objects, "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert rule["from"] == [{"podSelector": policy["spec"]["podSelector"]}]
    assert rule["ports"] == [{"protocol": "TCP", "port": 2222}]
    for job in shapes.of_kind(objects, "Job"):
        labels = job["spec"]["template"]["metadata"]["labels"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        assert [port["containerPort"] for port in shapes.container(job)["ports"]] == [2222]


# --- Jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_is_indexed_and_runs_all_replicas_at_once(objects: list[Manifest]) -> None:
    for job in shapes.of_kind(objects, "Job"):
        spec = job["spec"]
        assert spec["completionMode"] == "Indexed"
        assert spec["completions"] == spec["parallelism"] >= 1
        assert spec["podReplacementPolicy"] == "Failed"
        # Someone else's suspension must not conflict with ours, and nothing is ever removed by time.
        assert not {"suspend", "ttlSecondsAfterFinished"} & set(spec)


def test_a_dead_chief_is_judged_by_its_exit_code_and_a_servant_comes_back(objects: list[Manifest]) -> None:
    deciders = [job for job in shapes.of_kind(objects, "Job") if "podFailurePolicy" in job["spec"]]
    assert len(deciders) == 1
    for job in shapes.of_kind(objects, "Job"):
        pod = job["spec"]["template"]["spec"]
        if job not in deciders:
            assert (pod["restartPolicy"], job["spec"]["backoffLimit"]) == ("OnFailure", 2**31 - 1)
            continue
        assert (pod["restartPolicy"], job["spec"]["backoffLimit"]) == ("Never", planning.CHIEF_RETRIES)
        disrupted, ended = job["spec"]["podFailurePolicy"]["rules"]
        assert disrupted["action"] == "Ignore", "an evicted pod must be told apart before its exit code is looked at"
        assert ended["onExitCodes"]["containerName"] == shapes.container(job)["name"]
        assert ended["onExitCodes"]["values"] == list(range(1, 128))


def test_every_pod_holds_to_pod_security_restricted(objects: list[Manifest]) -> None:
    for job in shapes.of_kind(objects, "Job"):
        pod = job["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)
        assert {key for volume in pod["volumes"] for key in volume} <= {"name", "configMap", "emptyDir"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert not any("hostPort" in port for port in container["ports"])


def test_training_code_gets_no_token_of_the_api(objects: list[Manifest]) -> None:
    for job in shapes.of_kind(objects, "Job"):
        assert job["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_memory_is_a_limit_and_cpu_is_not() -> None:
    jobs = shapes.jobs(shapes.rendered(shapes.shapes()["chief-ps-workers"]))
    assert shapes.container(jobs["ps"])["resources"] == {
        "requests": {"cpu": "2", "memory": "4Gi"},
        "limits": {"memory": "4Gi"},
    }
    assert shapes.container(jobs["worker"])["resources"] == {"requests": {"cpu": "500m"}}
    assert "resources" not in shapes.container(jobs["chief"])


def test_an_image_s_own_program_stays_when_no_command_is_given() -> None:
    jobs = shapes.jobs(shapes.rendered(shapes.shapes()["chief-ps-workers"]))
    assert "command" not in shapes.container(jobs["worker"])
    assert "args" not in shapes.container(jobs["chief"])
    assert shapes.container(jobs["chief"])["command"] == ["python3", "/code/train.py", "--epochs", "3"]


# --- the ConfigMap and the code ---------------------------------------------------------------------------------------


def test_every_key_that_a_pod_refers_to_is_in_the_immutable_map(objects: list[Manifest]) -> None:
    (config_map,) = shapes.of_kind(objects, "ConfigMap")
    assert config_map["immutable"] is True
    keys = {*config_map["data"], *config_map.get("binaryData", {})}
    for job in shapes.of_kind(objects, "Job"):
        for path, value in values(job):
            if path.endswith((".configMapKeyRef", ".configMap")):
                assert value["name"] == config_map["metadata"]["name"]
                assert {value["key"]} if "key" in value else {item["key"] for item in value.get("items", [])} <= keys


def test_the_builtin_server_is_shipped_only_when_a_role_runs_it() -> None:
    def shipped(settings: dict[str, Any]) -> bool:
        return planning.BUILTIN_SERVER in shapes.of_kind(shapes.rendered(settings), "ConfigMap")[0]["data"]

    assert shipped({"image": "x", "roles": {"chief": {}, "ps": {}}})
    assert not shipped({"image": "x", "roles": {"chief": {}, "ps": {"command": ["mine"]}}})


def test_code_keeps_its_paths_although_keys_have_no_slash() -> None:
    code = {"lib/a b.py": b"1", "lib/a-b.py": b"2", "ü.py": b"3", "data.bin": b"\xff\x00", f"{'n' * 250}": b"4"}
    objects = shapes.rendered({"image": "x", "code": "src", "roles": {"worker": {}}}, code=code)
    (config_map,), (job,) = shapes.of_kind(objects, "ConfigMap"), shapes.of_kind(objects, "Job")
    (volume,) = (v for v in job["spec"]["template"]["spec"]["volumes"] if v["name"] == "code")
    mounted = {item["path"]: item["key"] for item in volume["configMap"]["items"]}
    assert set(mounted) == set(code)
    assert len(set(mounted.values())) == len(code)
    assert config_map["data"][mounted["lib/a b.py"]] == "1"
    assert config_map["binaryData"] == {mounted["data.bin"]: "/wA="}


# --- the content hash: what makes a new generation --------------------------------------------------------------------

BASE: dict[str, Any] = {
    "image": "x",
    "code": "src",
    "roles": {"chief": {"command": ["a"]}, "worker": {"replicas": 2, "env": {"A": "1", "B": "2"}}},
}


def changed(**roles: dict[str, Any]) -> dict[str, Any]:
    return {**BASE, "roles": {name: {**BASE["roles"][name], **roles.get(name, {})} for name in BASE["roles"]}}


@pytest.mark.parametrize(
    "settings",
    [
        {**BASE, "run": 2},
        {**BASE, "image": "y"},
        changed(chief={"command": ["b"]}),
        changed(chief={"args": ["b"]}),
        changed(worker={"replicas": 3}),
        changed(worker={"env": {"A": "1", "B": "3"}}),
        changed(worker={"resources": {"memory": "1Gi"}}),
        changed(worker={"inCluster": False}),
        {**BASE, "roles": {**BASE["roles"], "helper": {}}},
        {**BASE, "roles": {**BASE["roles"], "ps": {}}},
    ],
)
def test_any_change_of_the_training_is_a_new_map(settings: dict[str, Any]) -> None:
    assert name_of_map(settings) != name_of_map(BASE)


@pytest.mark.parametrize("code", [{"train.py": b"2"}, {"other.py": b"1"}, {"train.py": b"1", "b.py": b""}, {}])
def test_any_change_of_the_code_is_a_new_map(code: dict[str, bytes]) -> None:
    assert name_of_map(BASE, code=code) != name_of_map(BASE, code={"train.py": b"1"})


def test_another_builtin_server_is_a_new_map(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"image": "x", "roles": {"chief": {}, "ps": {}}}
    before = name_of_map(settings)
    monkeypatch.setattr(planning, "builtin_server_text", lambda: "another")
    assert name_of_map(settings) != before


def test_the_order_of_keys_and_files_is_no_change() -> None:
    turned = dict(reversed({**BASE, "roles": dict(reversed(BASE["roles"].items()))}.items()))
    turned["roles"]["worker"] = {"env": {"B": "2", "A": "1"}, "replicas": 2}
    assert name_of_map(turned) == name_of_map(BASE)
    assert name_of_map(BASE, code={"b": b"1", "a": b"2"}) == name_of_map(BASE, code={"a": b"2", "b": b"1"})


def test_what_changes_in_place_is_no_new_map(monkeypatch: pytest.MonkeyPatch) -> None:
    before = name_of_map(BASE)
    monkeypatch.setattr(planning, "CHIEF_RETRIES", 7)
    assert shapes.jobs(shapes.rendered(BASE))["chief"]["spec"]["backoffLimit"] == 7
    assert name_of_map(BASE) == before


def test_another_context_is_no_new_map() -> None:
    assert name_of_map({**BASE, "context": "elsewhere"}) == name_of_map(BASE)
