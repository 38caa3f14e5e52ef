"""The launcher and the Python environment behind it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from local import environment, paths
from modules.errors import EnvironmentFault


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the launcher with requirements of its own, and an empty cache."""
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folder = tmp_path / "project"
    (folder / "local").mkdir(parents=True)
    (folder / "requirements.txt").write_text("one==1\n")
    (folder / "requirements-dev.txt").write_text("-r requirements.txt\ntwo==2\n")
    shutil.copy(paths.PROJECT / "tfcluster", folder)
    script(folder / "local" / "setup.sh", "echo asked >> $TFCLUSTER_CACHE/asked; exit 3")
    return folder


def script(file: Path, does: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{does}\n")
    file.chmod(0o755)


def pip_by(monkeypatch: pytest.MonkeyPatch, fails: str = "") -> list[list[str]]:
    """venv and pip replaced; the commands that were run."""
    ran = []

    def run(command: list[str], log: TextIO, heard: Callable[[str], None]) -> None:
        ran.append(command)
        if "venv" in command:
            script(Path(command[-1]) / "bin" / "python", 'echo "$PWD $PYTHONPATH $*"')
        heard("Collecting one==1\n")
        if fails and "pip" in command:
            raise environment._failure(command, fails.splitlines(), Path(log.name))

    monkeypatch.setattr(environment, "_run", run)
    return ran


def launched(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, "render", "-f", "a b"], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_launcher_keeps_arguments_and_folder_and_runs_our_modules(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_by(monkeypatch)
    environment.environment(project=project)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tfc").symlink_to(project / "tfcluster")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    said = f"{tmp_path} {project} -P -m modules.cli render -f a b\n"
    for command in (str(project / "tfcluster"), "project/tfcluster", "project/local/../tfcluster", "tfc"):
        assert launched(command, tmp_path).stdout == said
    assert not (paths.cache() / "asked").exists()


@pytest.mark.parametrize("broken", ["changed", "unfinished", "no-python", "no-link"])
def test_the_launcher_asks_for_setup_when_the_environment_does_not_fit(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    pip_by(monkeypatch)
    folder = environment.environment(project=project)
    match broken:
        case "changed":
            (project / "requirements.txt").write_text("one==2\n")
        case "unfinished":
            (folder / "requirements.txt").unlink()
        case "no-python":
            (folder / "bin" / "python").unlink()
        case "no-link":
            (project / "venv").unlink()
    assert launched(str(project / "tfcluster"), tmp_path).returncode == 3
    assert (paths.cache() / "asked").read_text() == "asked\n"


def test_an_environment_is_made_once_and_anew_for_other_requirements(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = pip_by(monkeypatch)
    first = environment.environment(project=project)
    assert environment.environment(project=project) == first
    assert len(ran) == 2
    (project / "requirements.txt").write_text("one==2\n")
    second = environment.environment(project=project)
    assert second != first
    assert (project / "venv").resolve() == second
    assert environment.environment(project=project, dev=True) not in (first, second)
    assert (project / "venv").resolve() == second


def test_a_users_own_venv_folder_is_left_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip_by(monkeypatch)
    (project / "venv").mkdir()
    environment.environment(project=project)
    assert not (project / "venv").is_symlink()


def test_a_link_that_serves_is_kept_and_a_dangling_one_is_renewed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_by(monkeypatch)
    ours = environment.environment(project=project)
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "another"))
    theirs = environment.environment(project=project)
    assert (project / "venv").resolve() == ours
    shutil.rmtree(ours)
    environment.environment(project=project)
    assert (project / "venv").resolve() == theirs


@pytest.mark.parametrize(
    ("says", "what"),
    [
        ("Retrying after NewConnectionError\nNo matching distribution found", "the package index does not answer"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: No matching distribution found for one==1", "making the Python environment failed"),
    ],
)
def test_a_failed_installation_is_said_in_words_and_leaves_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, says: str, what: str
) -> None:
    pip_by(monkeypatch, fails=says)
    with pytest.raises(EnvironmentFault, match=what):
        environment.environment(project=project)
    assert [file.name for file in paths.venvs().iterdir() if file.is_dir()] == []
    assert not (project / "venv").exists()


def test_setup_without_a_python_that_fits_says_what_to_install(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    for name in ("readlink", "id", "cat"):
        found = shutil.which(name)
        assert found
        tools.mkdir(exist_ok=True)
        (tools / name).symlink_to(found)
    setup = (paths.PROJECT / "local" / "setup.sh").read_text().replace("/usr/bin/python3", "python3")
    script(tmp_path / "local" / "setup.sh", setup)
    script(tools / "python3", "exit 1")
    told = subprocess.run(
        ["/bin/sh", tmp_path / "local" / "setup.sh"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 3
    assert "needs Python 3.11" in told.stderr
    assert "apt-get install python3 python3-venv" in told.stderr
