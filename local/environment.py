"""The Python environments that tfcluster runs in, made by `local/setup.sh` with nothing but the standard library.

    venv/<hash>/                 what one state of the requirements needs; `requirements.txt` in it is written last
    venv/of/<project>/venv       link to the environment of the project at that path: the launcher goes through it
    <project>/venv               link for Pulumi.yaml (`virtualenv: venv`), unless a folder of the user's is there

Decided here: when an environment is complete, and which one belongs to a copy of the project. An environment is made at
its final place, because its scripts hold their own absolute path; one without its last file is made anew.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from local import paths
from local.progress import Progress, Step
from modules.errors import EnvironmentFault

NO_NETWORK = ("name resolution", "newconnectionerror", "connecttimeouterror", "connection refused", "unreachable")

RUNTIME, DEVELOPMENT = "requirements.txt", "requirements-dev.txt"


def environment(*, dev: bool = False, project: Path = paths.PROJECT) -> Path:
    """The folder of the environment for this copy of the project; made when it is not there."""
    names = (RUNTIME, DEVELOPMENT) if dev else (RUNTIME,)
    stamp = names[-1]
    folder = paths.venvs() / _hash([project / name for name in names])
    try:
        if not (folder / stamp).exists():
            _make_alone(folder, project / stamp)
    except OSError as error:
        raise _no_room() if error.errno in (errno.ENOSPC, errno.EDQUOT) else error from error
    if not dev:
        _link(paths.venvs() / "of" / project.relative_to("/") / "venv", folder)
        _link_for_pulumi(project, folder)
    return folder


def _hash(requirements: list[Path]) -> str:
    digest = hashlib.sha256(f"{sysconfig.get_python_version()} {sysconfig.get_platform()}".encode())
    for file in requirements:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _make_alone(folder: Path, requirements: Path) -> None:
    """One process makes it; another one that wants it too waits, and finds it made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock_file = folder.parent / f".lock-{folder.name}"
    with lock_file.open("w") as lock, Progress("setup") as progress, progress.step("Python environment") as step:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            step.note("waiting: another tfcluster is making it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / requirements.name).exists():
            step.outcome = "made by another tfcluster"
            return
        try:
            count = _make(folder, requirements, step)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        step.outcome = f"{count} packages in {folder}"
        shutil.copyfile(requirements, folder / requirements.name)


def _make(folder: Path, requirements: Path, step: Step) -> int:
    """The environment at its place; how many packages it got."""
    shutil.rmtree(folder, ignore_errors=True)
    log = paths.logs() / f"setup-{folder.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    collected = 0

    def heard(line: str) -> None:
        nonlocal collected
        if line.startswith("Collecting "):
            collected += 1
            step.far(collected, unit="packages")
        elif line.startswith("Installing collected packages"):
            step.note(f"installing {collected} packages")

    with log.open("w") as stream:
        step.note("creating it")
        # With the interpreter's full name: after an upgrade of `python3` the environment is plainly broken, not subtly.
        _run([str(Path(sys.executable).resolve()), "-m", "venv", str(folder)], stream, heard)
        step.note("fetching packages")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        _run([*pip, "--progress-bar", "off", "-r", str(requirements)], stream, heard)
    return collected


def _run(command: list[str], log: TextIO, heard: Callable[[str], None]) -> None:
    tail: deque[str] = deque(maxlen=20)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=_pip_env()
    )
    assert process.stdout is not None
    for line in process.stdout:
        log.write(line)
        tail.append(line.rstrip())
        heard(line)
    if process.wait():
        log.flush()
        raise _failure(command, list(tail), Path(log.name))


def _pip_env() -> dict[str, str]:
    """PYTHONPATH is ours at this moment, and must not make pip see packages that are not in the environment."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _failure(command: list[str], tail: list[str], log: Path) -> EnvironmentFault:
    told = "\n".join(tail).lower()
    if "no space left on device" in told:
        return _no_room()
    away = next((line for line in tail if any(sign in line.lower() for sign in NO_NETWORK)), "")
    if away:
        return EnvironmentFault(
            "making the Python environment: the package index does not answer",
            why=away,
            fix=f"check the network (or pip's settings) and run it again; whole log: {log}",
        )
    shown = "\n       ".join([" ".join(command), *tail])
    return EnvironmentFault("making the Python environment failed", why=shown, fix=f"the whole log is {log}")


def _no_room() -> EnvironmentFault:
    return EnvironmentFault(
        "making the Python environment: the disk is full",
        why=f"{paths.cache()} has {shutil.disk_usage(paths.cache()).free / 2**20:.0f} MiB left",
        fix="free some space, or set TFCLUSTER_CACHE to a folder on a larger disk, and run it again",
    )


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    aside = link.with_name(f".{link.name}-{os.getpid()}")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.rename(link)


def _link_for_pulumi(project: Path, folder: Path) -> None:
    """Pulumi's way to the environment. One that serves already stays: it may be of another cache, or the user's own."""
    link = project / "venv"
    if link.exists() and not link.is_symlink():
        return
    stamp = link / RUNTIME
    if stamp.exists() and stamp.read_bytes() == (project / RUNTIME).read_bytes():
        return
    try:
        _link(link, folder)
    except OSError as error:
        print(f"setup: {link} cannot be made ({error.strerror}); Pulumi.yaml expects it", file=sys.stderr)


def main() -> int:
    try:
        print(environment(dev="--dev" in sys.argv[1:]))
    except EnvironmentFault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
