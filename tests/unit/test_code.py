"""Which files `code:` ships."""

from pathlib import Path

import pytest

from modules.code import files_below
from modules.errors import SpecError


def test_nothing_is_shipped_without_code() -> None:
    assert files_below(None) == {}


def test_a_single_file_stands_at_the_top(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x")
    assert files_below("train.py", tmp_path) == {"train.py": b"x"}


def test_a_folder_keeps_its_shape_and_an_absolute_path_needs_no_base(tmp_path: Path) -> None:
    (tmp_path / "lib" / "deep").mkdir(parents=True)
    (tmp_path / "train.py").write_bytes(b"\xff")
    (tmp_path / "lib" / "deep" / "data.py").write_text("d")
    assert files_below(str(tmp_path), Path("/nowhere")) == {"lib/deep/data.py": b"d", "train.py": b"\xff"}


@pytest.mark.parametrize(
    "left_out", [".git/config", "__pycache__/a.pyc", "lib/__pycache__/a.pyc", "venv/bin/python", ".env", "lib/.hidden"]
)
def test_hidden_files_and_leftovers_stay_at_home(tmp_path: Path, left_out: str) -> None:
    for name in (left_out, "train.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert set(files_below(".", tmp_path)) == {"train.py"}


def test_a_hidden_folder_above_the_code_does_not_matter(tmp_path: Path) -> None:
    folder = tmp_path / ".work" / "src"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("x")
    assert set(files_below(str(folder))) == {"train.py"}


@pytest.mark.parametrize("code", ["nowhere", "a" * 300, "nul\0"])
def test_code_that_is_not_there_is_a_problem_of_the_stack(tmp_path: Path, code: str) -> None:
    with pytest.raises(SpecError, match="code: "):
        files_below(code, tmp_path)


def test_a_missing_folder_says_where_relative_paths_start(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"relative paths start at {tmp_path}"):
        files_below("src", tmp_path)


def test_an_empty_folder_is_a_problem_of_the_stack(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the folder has no files"):
        files_below(".", tmp_path)
