"""The stack file's shape: what is taken, what is refused, and in which words."""

import copy
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modules import manifests, spec
from modules import plan as planning
from modules.errors import Problem, SpecError
from tests import shapes, strict

MINIMAL: dict[str, Any] = {"image": "x", "roles": {"worker": {}}}


def problems(raw: object, stack: str = "exp") -> list[Problem]:
    """What is wrong with `raw`; nothing: an empty list."""
    try:
        spec.load(raw, stack=stack)
    except SpecError as error:
        return list(error.problems)
    return []


def worker(**settings: Any) -> dict[str, Any]:
    return {"image": "x", "roles": {"worker": settings}}


def test_little_is_needed_and_the_rest_has_defaults() -> None:
    loaded = spec.load(MINIMAL, stack="exp")
    assert (loaded.name, loaded.namespace, loaded.context, loaded.run, loaded.engine) == (
        "exp",
        "default",
        None,
        1,
        "jobs",
    )
    role = loaded.roles["worker"]
    assert (role.replicas, role.command, role.in_cluster, dict(role.env)) == (1, None, None, {})


def test_numbers_and_truths_become_the_text_that_an_environment_has() -> None:
    raw = worker(env={"A": 3, "B": 0.5, "C": True, "D": False, "E": ""}, command=["run", 1, 2.5, True])
    role = spec.load(raw, stack="exp").roles["worker"]
    assert dict(role.env) == {"A": "3", "B": "0.5", "C": "true", "D": "false", "E": ""}
    assert role.command == ("run", "1", "2.5", "true")


def test_quantities_may_be_numbers() -> None:
    resources = spec.load(worker(resources={"cpu": 2, "memory": "4Gi"}), stack="exp").roles["worker"].resources
    assert (resources.cpu, resources.memory) == ("2", "4Gi")


def test_loading_leaves_what_it_is_given_as_it_was() -> None:
    raw = {"imagee": "x", "roles": {"worker": {"replicas": 0}, "chief": None}}
    before = copy.deepcopy(raw)
    assert problems(raw)
    assert raw == before


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        ({**MINIMAL, "imgae": "y"}, "imgae", "unknown key\n      → did you mean 'image'?"),
        (worker(replica=2), "roles.worker.replica", "unknown key\n      → did you mean 'replicas'?"),
        (worker(zzz=2), "roles.worker.zzz", "known here: args, command,"),
        (worker(resources={"gpus": 1}), "roles.worker.resources.gpus", "known here: cpu, memory"),
        ({"image": "x"}, "roles", "is required"),
        ({**MINIMAL, "cloud": "gkee"}, "cloud", "must be one of 'custom' (got 'gkee')"),
        ({**MINIMAL, "run": 0}, "run", "must be at least 1 (got 0)"),
        ({**MINIMAL, "run": True}, "run", "must be a whole number (got True, true/false)"),
        ({**MINIMAL, "image": ""}, "image", "must not be empty"),
        ({**MINIMAL, "image": 5}, "image", "must be text (got 5, a whole number)"),
        ({**MINIMAL, "name": None}, "name", "must be text (got None, nothing)"),
        (worker(replicas=0), "roles.worker.replicas", "must be at least 1 (got 0)"),
        (worker(replicas=10_001), "roles.worker.replicas", "must be at most 10000 (got 10001)"),
        (worker(replicas="2"), "roles.worker.replicas", "must be a whole number (got '2', text)"),
        (worker(replicas=1.5), "roles.worker.replicas", "must be a whole number (got 1.5, a number)"),
        (worker(replicas=None), "roles.worker.replicas", "must be a whole number (got None, nothing)"),
        (worker(inCluster="yes"), "roles.worker.inCluster", "must be true or false (got 'yes', text)"),
        (worker(command="python t.py"), "roles.worker.command", "must be a list (got 'python t.py', text)"),
        (worker(command="python t.py"), "roles.worker.command", "→ write it as [python, t.py]"),
        (worker(command=[]), "roles.worker.command", "must not be empty"),
        (worker(command=[None]), "roles.worker.command[0]", "must be text (got None, nothing)"),
        (worker(command=["a", ["b"]]), "roles.worker.command[1]", "must be text (got ['b'], a list)"),
        (worker(command={"a": 1}), "roles.worker.command", "must be a list (got {'a': 1}, a map)"),
        (worker(env=["A=1"]), "roles.worker.env", "must be a map (got ['A=1'], a list)"),
        (worker(env={"A": None}), "roles.worker.env.A", "must be text (got None, nothing)"),
        (worker(env={"A": ["x"]}), "roles.worker.env.A", "must be text (got ['x'], a list)"),
        (worker(env={"1A": "x"}), "roles.worker.env.1A", "is not a valid name here (got '1A')"),
        (worker(entrypoint="mine"), "roles.worker.entrypoint", "must be one of 'image' or 'builtin' (got 'mine')"),
        (worker(resources={"cpu": "two"}), "roles.worker.resources.cpu", "must be a Kubernetes quantity such as"),
        (worker(resources={"cpu": -1}), "roles.worker.resources.cpu", "must be a Kubernetes quantity such as"),
        (worker(resources={"cpu": "1e999999999"}), "roles.worker.resources.cpu", "must be a Kubernetes quantity"),
        (worker(resources=[]), "roles.worker.resources", "must be a map (got [], a list)"),
        ({"image": "x", "roles": {}}, "roles", "must not be empty"),
        ({"image": "x", "roles": None}, "roles", "must be a map (got None, nothing)"),
        ({"image": "x", "roles": ["chief"]}, "roles", "must be a map (got ['chief'], a list)"),
        ({"image": "x", "roles": {"chief": None}}, "roles.chief", "must be a map (got None, nothing)"),
        ({"image": "x", "roles": {"chief": []}}, "roles.chief", "must be a map (got [], a list)"),
        ({"image": "x", "roles": {"Worker": {}}}, "roles.Worker", "is not a valid name here (got 'Worker')"),
        ({"image": "x", "roles": {"-a": {}}}, "roles.-a", "it must match ^[a-z]"),
        ({"image": "x", "roles": {"a_b": {}}}, "roles.a_b", "is not a valid name here"),
        ({"image": "x", "roles": {"": {}}}, "roles.", "is not a valid name here"),
        ({"image": "x", "roles": {1: {}}}, "roles[1]", "must be text (got 1, a whole number)"),
        ({**MINIMAL, 1: 2}, "[1]", "Keys should be strings"),
    ],
)
def test_each_mistake_is_one_problem_with_its_path_and_the_way_out(raw: object, path: str, words: str) -> None:
    (found,) = problems(raw)
    assert found.path == path
    assert words in str(found)


@pytest.mark.parametrize("raw", [None, [], "text", 3, True])
def test_settings_that_are_no_map_are_one_problem(raw: object) -> None:
    (found,) = problems(raw)
    assert str(found).startswith("tfcluster:cluster: must be a map with at least `image` and `roles`")


def test_all_mistakes_of_a_file_are_reported_together() -> None:
    raw = {
        "imagee": "x",
        "name": "m" * 60,
        "run": "one",
        "roles": {
            "chief": {"replicas": 0},
            "master": {},
            "ps": {"command": "run"},
            "worker": {"imgae": "x", "replicas": 10, "env": {"A": None}},
        },
    }
    assert {found.path for found in problems(raw)} == {
        "imagee",
        "image",
        "name",
        "run",
        "roles.chief.replicas",
        "roles.master",
        "roles.ps.command",
        "roles.worker.imgae",
        "roles.worker.env.A",
    }


def test_a_broken_key_and_a_broken_value_of_one_role_are_both_reported() -> None:
    assert {found.path for found in problems({"image": "x", "roles": {"Bad": {"replicas": 0}, "worker": {}}})} == {
        "roles.Bad",
        "roles.Bad.replicas",
    }


def test_a_broken_field_brings_no_second_problem_about_itself() -> None:
    assert [found.path for found in problems({"image": 5, "roles": {"worker": {}}})] == ["image"]
    assert [found.path for found in problems({"image": "x", "roles": {"ps": {}, "chief": None}})] == ["roles.chief"]
    assert [found.path for found in problems({**MINIMAL, "name": 5})] == ["name"]


def test_a_long_value_is_cut_in_the_message() -> None:
    (found,) = problems({**MINIMAL, "cloud": "x" * 1000})
    assert len(str(found)) < 150


def test_the_message_names_the_file() -> None:
    with pytest.raises(SpecError) as caught:
        spec.load({}, stack="exp", source="stacks/Pulumi.exp.yaml")
    assert str(caught.value).startswith("stacks/Pulumi.exp.yaml: ")


# --- any stack: either valid Kubernetes or a SpecError ----------------------------------------------------------------

KNOWN_CLUSTER_KEYS = {"cloud", "context", "name", "namespace", "image", "code", "engine", "run", "roles"}
KNOWN_ROLE_KEYS = {"replicas", "image", "command", "args", "entrypoint", "env", "resources", "inCluster"}
_odd_name = st.text("abz019-", min_size=1, max_size=70) | st.text(max_size=5)
UNKNOWN = st.sampled_from(["replica", "gpus", "Image", "x", "", "volumes", "restart"])

_junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-3, max_value=10_100),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(max_value=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(max_value=3), max_size=2),
)
_words = st.lists(st.one_of(st.text(max_size=6), st.integers(), st.booleans()), min_size=1, max_size=3)
_role = st.fixed_dictionaries(
    {},
    optional={
        "image": st.text("ab/:1", min_size=1, max_size=8),
        "command": _words,
        "args": _words,
        "env": st.dictionaries(st.from_regex(r"[A-Z_]{1,6}", fullmatch=True), st.text(max_size=6), max_size=3),
        "resources": st.fixed_dictionaries(
            {}, optional={"cpu": st.sampled_from([1, 0.5, "250m"]), "memory": st.sampled_from(["1Gi", "512Mi", 1024])}
        ),
        "inCluster": st.booleans(),
    },
)
_role_names = st.sets(st.sampled_from(["ps", "worker", "evaluator", "data-server", "x1"]), max_size=3)
_stack = st.fixed_dictionaries(
    {"image": st.just("x")},
    optional={
        "name": st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
        "namespace": st.sampled_from(["train", "0-1"]),
        "run": st.integers(min_value=1, max_value=9),
        "code": st.just("src"),
    },
)


@st.composite
def _mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A stack that is right, or has junk in some places, odd names, or keys that nobody knows."""
    raw: dict[str, Any] = {**draw(_stack)}
    names = sorted(draw(_role_names) | {draw(st.sampled_from(["chief", "master", "worker"]))})
    roles: dict[str, dict[str, Any]] = {name: {**draw(_role)} for name in names}
    for role in set(names) - {"chief", "master"}:
        roles[role]["replicas"] = draw(st.integers(min_value=1, max_value=30))
    raw["roles"] = roles
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        place = draw(st.sampled_from(["cluster", "role", "name", "roleName"]))
        if place == "cluster":
            raw[draw(st.sampled_from(sorted(KNOWN_CLUSTER_KEYS)) | UNKNOWN)] = draw(_junk)
        elif place == "name":
            raw[draw(st.sampled_from(["name", "namespace"]))] = draw(_odd_name)
        elif not isinstance(raw["roles"], dict) or not raw["roles"]:
            continue
        elif place == "roleName":
            raw["roles"][draw(_odd_name)] = draw(_role)
        elif isinstance(role := raw["roles"][draw(st.sampled_from(sorted(raw["roles"])))], dict):
            role[draw(st.sampled_from(sorted(KNOWN_ROLE_KEYS)) | UNKNOWN)] = draw(_junk)
    return raw


def _unknown_keys(raw: dict[str, Any]) -> list[str]:
    roles = raw.get("roles")
    below = [role for role in roles.values() if isinstance(role, dict)] if isinstance(roles, dict) else []
    return [key for key in raw if key not in KNOWN_CLUSTER_KEYS] + [
        key for role in below for key in role if key not in KNOWN_ROLE_KEYS
    ]


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(_mutated())
def test_any_stack_is_valid_kubernetes_or_a_spec_error_and_no_key_is_ignored(raw: dict[str, Any]) -> None:
    try:
        objects = manifests.render(planning.plan(spec.load(raw, stack="exp"), shapes.CODE if raw.get("code") else {}))
    except SpecError as error:
        assert error.problems
        assert "Traceback" not in str(error)
        return
    assert _unknown_keys(raw) == []
    for manifest in objects:
        strict.check(manifest)


def test_the_property_above_would_see_a_manifest_that_is_not_valid() -> None:
    (job,) = shapes.of_kind(shapes.rendered(MINIMAL), "Job")
    job["spec"]["backoffLimt"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        strict.check(job)
