"""Making tools, and the cache that holds them.

Decided here: that a release is tried before a build, and that the cache holds whole tools only: each is made aside,
under a lock of its own, and comes into the cache by one rename.
"""

import errno
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

from local import compile, locks, paths
from local.catalog import Tool
from local.progress import Progress, Step, size
from local.release import Releases, Unavailable

ORIGIN = "origin"  # a file in each tool's folder: `release` or `built`


def complete(tool: Tool) -> bool:
    return (tool.folder / ORIGIN).exists()


def origin(tool: Tool) -> str:
    """How a tool in the cache was come by: `release` or `built`."""
    return (tool.folder / ORIGIN).read_text()


def make(tools: tuple[Tool, ...], releases: Releases, progress: Progress) -> dict[Tool, str]:
    """Fetch or build each tool; how each was come by."""
    made = {}
    paths.tools().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(paths.tools()).free
    if free < compile.SPACE_NEEDED and not (paths.go() / "build").exists():
        progress.say(f"only {size(free)} free: building everything takes {size(compile.SPACE_NEEDED)} for a while")
    try:
        with locks.in_use(paths.go()):
            for number, tool in enumerate(tools, 1):
                with progress.step(f"{tool.name} {tool.version} ({number} of {len(tools)})") as step:
                    made[tool] = _obtain(tool, releases, progress, step)
                    step.outcome = made[tool]
        _clear_compiler_cache(progress)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise compile.disk_full("making the tools") from error
        raise
    return made


def _obtain(tool: Tool, releases: Releases, progress: Progress, step: Step) -> str:
    with locks.alone(paths.tools() / f".lock-{tool.name}", step):
        if complete(tool):
            return "cache"
        # Under the lock nobody else works on this tool: what lies here was left by a process that was killed.
        for left in paths.tools().glob(f".part-{tool.name}.*"):
            shutil.rmtree(left, ignore_errors=True)
        part = paths.tools() / f".part-{tool.name}.{os.getpid()}"
        try:
            scratch = part / "scratch"
            source = _fetch_or_build(tool, releases, part / "bin", scratch, progress, step)
            shutil.rmtree(scratch)
            (part / ORIGIN).write_text(source)
            _flush(part)
            part.rename(tool.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return source


def _fetch_or_build(tool: Tool, releases: Releases, into: Path, scratch: Path, progress: Progress, step: Step) -> str:
    if tool.release:
        try:
            _fresh(into, scratch)
            releases.fetch(tool.release, into, scratch, step)
            return "release"
        except Unavailable as reason:
            if releases.is_news(reason):
                progress.say(f"{reason}: building from source instead")
    _fresh(into, scratch)
    compile.compile_tool(tool, into, scratch, step)
    return "built"


def _fresh(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)


def _flush(folder: Path) -> None:
    """Onto the disk before the rename: a machine that stops now must not leave an empty file under a trusted name."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())


def _clear_compiler_cache(progress: Progress) -> None:
    """Modules and compiled packages are gigabytes that serve nobody once the tools are there."""
    folders = [folder for folder in (paths.go() / "mod", paths.go() / "build") if folder.exists()]
    if os.environ.get("TFCLUSTER_KEEP_GO") or not folders:
        return
    with locks.unused(paths.go()) as free, progress.step("compiler's cache") if free else nullcontext() as step:
        if step is None:
            progress.say("compiler's cache: another tfcluster builds with it, so it is left to that one")
            return
        step.note("removing")
        gone = sum(folder_size(folder) for folder in folders)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        step.outcome = f"removed {size(gone)}"


def folder_size(folder: Path) -> int:
    """Bytes that a folder takes on disk."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118 (a million files)
    return total
