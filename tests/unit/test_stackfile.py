"""How stack files are found and read: as the engine reads them."""

import io
from pathlib import Path
from typing import Any

import pytest

from modules import stackfile
from modules.errors import SpecError


def read(below: str) -> Any:
    """The settings in a file that has `below`, indented, under `tfcluster:cluster`."""
    lines = "".join(f"    {line}\n" for line in below.splitlines())
    return stackfile.settings_in(f"config:\n  tfcluster:cluster:\n{lines}", "exp.yaml")


def fault(below: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(below)
    return str(caught.value)


def test_the_stacks_of_the_project_are_found() -> None:
    assert "local" in stackfile.stacks()
    assert stackfile.stack_path("local") == stackfile.PROJECT / "stacks" / "Pulumi.local.yaml"


# What the engine makes of these words, as `pulumi config --json` shows it.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("OFF", "OFF"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("=", "="),
        ("3.0", 3),
        ("1.5", 1.5),
        ("1e-3", 0.001),
        ("1e3", 1000),
        (".5", 0.5),
        ("0x10", 16),
        ("0777", 511),
        ("0o777", 511),
        ("1_000", 1000),
        ("-7", -7),
        ("'3'", "3"),
        ("'2020-01-01'", "2020-01-01"),
        ("e3", "e3"),
        ("1.2.3", "1.2.3"),
        ("onward", "onward"),
    ],
)
def test_words_and_numbers_mean_what_they_mean_to_the_engine(text: str, value: object) -> None:
    got = read(f"key: {text}")["key"]
    assert (got, type(got)) == (value, type(value))


def test_anchors_and_merge_keys_work() -> None:
    settings = read("base: &base {cpu: 1, memory: 2}\nmine: {<<: *base, cpu: 3}\nagain: {<<: *base}")
    assert settings["mine"] == {"cpu": 3, "memory": 2}
    assert settings["again"] == {"cpu": 1, "memory": 2}


@pytest.mark.parametrize(
    ("below", "words"),
    [
        ("a: 1\nb: 2\na: 3", "line 5: the key 'a' stands here twice"),
        ("roles:\n  ps: {a: 1, a: 2}", "line 4: the key 'a' stands here twice"),
        ("day: 2020-01-01", "line 3: put the date '2020-01-01' into quotes"),
        ("day: 2020-99-99", "line 3: put the date '2020-99-99' into quotes"),
        ("a: [1", "is not YAML"),
        ("a: {", "is not YAML"),
        ("a: \0", "is not YAML"),
        ("a: *nobody", "undefined alias"),
        ("a: !mine x", "could not determine a constructor"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("? [a]\n: b", "unhashable key"),
        (f"a: {'1' * 5000}", "is not YAML"),
        (f"a: {'[' * 1000}", "is not YAML"),
    ],
)
def test_what_the_engine_would_not_read_is_one_problem_with_its_place(below: str, words: str) -> None:
    text = fault(below)
    assert text.startswith("exp.yaml: 1 problem\n")
    assert words in text


@pytest.mark.parametrize("text", ["", "[]", "config:", "config: []", "config: {other:key: 1}", "tfcluster:cluster: {}"])
def test_a_file_without_the_settings_says_what_it_lacks_and_which_file_shows_it(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        stackfile.settings_in(text, "exp.yaml")
    assert "has no `config:` with `tfcluster:cluster:` in it" in str(caught.value)
    assert "stacks/Pulumi.local.yaml" in str(caught.value)


def test_settings_that_are_empty_are_left_to_the_spec() -> None:
    assert stackfile.settings_in("config: {tfcluster:cluster: }", "exp.yaml") is None


def test_an_unknown_stack_gets_the_nearest_known_one() -> None:
    with pytest.raises(SpecError, match="did you mean 'local'"):
        stackfile.settings_of_stack("locale")


def test_a_file_that_cannot_be_read_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("config: grün".encode("latin-1"))
    for name in (tmp_path / "nowhere.yaml", tmp_path, latin, tmp_path / ("a" * 300)):
        with pytest.raises(SpecError, match="cannot be read"):
            stackfile.settings_of_file(str(name))


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("config: {tfcluster:cluster: {run: 2}}"))
    assert stackfile.settings_of_file("-") == {"run": 2}


def test_standard_input_that_is_no_text_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))
    with pytest.raises(SpecError, match="standard input: 1 problem"):
        stackfile.settings_of_file("-")
