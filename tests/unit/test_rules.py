"""What the fields mean together."""

from typing import Any

import pytest

from modules import names, spec
from modules.errors import SpecError


def told(raw: dict[str, Any], stack: str = "exp") -> list[str]:
    """The problems of a stack, as text."""
    try:
        spec.load(raw, stack=stack)
    except SpecError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_an_image_is_needed_once_for_all_or_in_each_role() -> None:
    (problem,) = told({"roles": {"chief": {}, "ps": {}}})
    assert problem == "image: is required\n      → name an image here, or one in each role"
    (problem,) = told({"roles": {"chief": {"image": "x"}, "ps": {}}})
    assert problem.startswith("roles.ps.image: is required")
    assert told({"roles": {"chief": {"image": "x"}, "ps": {"image": "x"}}}) == []


def test_a_cluster_has_one_chief() -> None:
    (problem,) = told({"image": "x", "roles": {"chief": {}, "master": {}}})
    assert problem == "roles.master: a cluster has one chief (got both chief and master)\n      → keep one of the two"
    for role in ("chief", "master"):
        (problem,) = told({"image": "x", "roles": {role: {"replicas": 2}}})
        assert problem.startswith(f"roles.{role}.replicas: a cluster has one chief (got 2)")


def test_someone_must_be_able_to_finish() -> None:
    (problem,) = told({"image": "x", "roles": {"ps": {}, "evaluator": {}}})
    assert problem.startswith("roles: nobody can finish the training (got ps, evaluator)")
    for role in ("chief", "master", "worker"):
        assert told({"image": "x", "roles": {"ps": {}, role: {}}}) == []


@pytest.mark.parametrize("name", ["A", "a_b", "1a", "-a", "a-", "ä", "a.b", "a b", "a\n"])
def test_a_name_that_cannot_name_a_service_is_refused(name: str) -> None:
    (problem,) = told({"image": "x", "name": name, "roles": {"worker": {}}})
    assert problem.startswith("name: cannot name Kubernetes objects")


def test_a_stack_whose_name_cannot_serve_is_told_of_the_name_setting() -> None:
    (problem,) = told({"image": "x", "roles": {"worker": {}}}, stack="My_Stack")
    assert "(got 'My_Stack')" in problem
    assert "set `name:` when the stack's name cannot serve" in problem


@pytest.mark.parametrize("namespace", ["A", "a_b", "-a", "a.b", "a" * 64])
def test_a_namespace_that_cannot_be_is_refused(namespace: str) -> None:
    (problem,) = told({"image": "x", "namespace": namespace, "roles": {"worker": {}}})
    assert problem.startswith("namespace: is not a Kubernetes namespace")


@pytest.mark.parametrize("replicas", [1, 10, 11, 10_000])
def test_the_longest_pod_hostname_just_fits(replicas: int) -> None:
    roles = {"worker": {"replicas": replicas}, "ps": {}}
    room = names.DNS_LABEL_MAX - len(f"-worker-{replicas - 1}")
    assert told({"image": "x", "name": "m" * room, "roles": roles}) == []
    (problem,) = told({"image": "x", "name": "m" * (room + 1), "roles": roles})
    assert f"-worker-{replicas - 1}' would have 64 characters of 63" in problem
    assert f"→ at most {room} characters, because of the role worker" in problem


def test_what_runs_without_a_command_is_said_only_without_a_command() -> None:
    for entrypoint in ("builtin", "image"):
        (problem,) = told({"image": "x", "roles": {"worker": {"entrypoint": entrypoint, "args": ["a"]}}})
        assert problem.startswith("roles.worker.entrypoint: says what runs without a command, but there is one")
        assert told({"image": "x", "roles": {"worker": {"entrypoint": entrypoint}}}) == []


@pytest.mark.parametrize("variable", ["TF_CONFIG", "TASK_INDEX", "JOB_COMPLETION_INDEX", "WORKER_HOSTS", "PS_HOSTS"])
def test_the_variables_that_say_who_a_replica_is_cannot_be_set(variable: str) -> None:
    (problem,) = told({"image": "x", "roles": {"worker": {"env": {variable: "mine"}}, "ps": {}}})
    assert problem.startswith(f"roles.worker.env.{variable}: is set for every replica by tfcluster")


def test_a_host_list_of_a_role_that_is_not_there_is_a_variable_like_any_other() -> None:
    assert told({"image": "x", "roles": {"worker": {"env": {"PS_HOSTS": "elsewhere:2222"}}}}) == []
