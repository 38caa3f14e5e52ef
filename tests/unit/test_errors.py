"""How problems and faults read."""

import pytest

from modules.errors import EnvironmentFault, Problem, SpecError, TfclusterError, did_you_mean


def test_a_problem_says_where_what_and_the_way_out() -> None:
    problem = Problem("roles.ps.replicas", "must be at least 1", "0", "raise it")
    assert str(problem) == "roles.ps.replicas: must be at least 1 (got 0)\n      → raise it"


def test_a_problem_leaves_out_what_it_does_not_know() -> None:
    assert str(Problem("", "is not YAML")) == "is not YAML"
    assert str(Problem("image", "is required")) == "image: is required"


@pytest.mark.parametrize(("count", "head"), [(1, "exp.yaml: 1 problem"), (2, "exp.yaml: 2 problems")])
def test_a_spec_error_counts_its_problems(count: int, head: str) -> None:
    error = SpecError([Problem(f"key{number}", "is wrong") for number in range(count)], "exp.yaml")
    assert str(error).splitlines() == [head, *(f"  - key{number}: is wrong" for number in range(count))]


def test_a_fault_says_what_why_and_fix_on_lines_of_their_own() -> None:
    fault = EnvironmentFault("no cluster", why="refused", fix="start it")
    assert str(fault) == "no cluster\n  why: refused\n  fix: start it"
    assert str(EnvironmentFault("no cluster")) == "no cluster"


def test_exit_codes_tell_bad_input_from_a_bad_environment() -> None:
    assert (SpecError([]).exit_code, EnvironmentFault("x").exit_code) == (2, 3)
    assert issubclass(SpecError, TfclusterError) and issubclass(EnvironmentFault, TfclusterError)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("imgae", "did you mean 'image'?"),
        ("incluster", "did you mean 'inCluster'?"),
        ("zzz", "known here: image, inCluster, roles"),
    ],
)
def test_a_wrong_word_gets_the_nearest_right_one_or_all(given: str, hint: str) -> None:
    assert did_you_mean(given, ["roles", "image", "inCluster"]) == hint
