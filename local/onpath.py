"""Tools that the user already has on PATH.

Decided here: that a tool says its own version, in time, and that a Pulumi comes with its Python language host. Which
version is good enough is said by the catalog.
"""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local.catalog import Tool

ASK_TIMEOUT = 10.0  # seconds; a tool that does not say its version in this time does not serve


def serving(tools: tuple[Tool, ...]) -> dict[Tool, tuple[str, dict[str, Path]]]:
    """For each tool that PATH has in a sufficient version: that version, and where its binaries are."""
    with ThreadPoolExecutor(max_workers=4) as pool:  # they are asked side by side: some take half a second
        answers = zip(tools, pool.map(_look, tools), strict=True)
        return {tool: found for tool, found in answers if found}


def _look(tool: Tool) -> tuple[str, dict[str, Path]] | None:
    command = shutil.which(tool.name) if tool.asked_by else None
    if not command:
        return None
    places = {name: _beside(Path(command), name) for name in tool.binaries}
    complete = {name: place for name, place in places.items() if place}
    if len(complete) < len(places):
        return None
    version = _version(command, tool.asked_by)
    return (version, complete) if version and tool.serves(version) else None


def _beside(command: Path, name: str) -> Path | None:
    """Where Pulumi itself looks for its parts: on PATH, and in the folder that it really lies in."""
    found = shutil.which(name) or shutil.which(name, path=str(command.resolve().parent))
    return Path(found) if found else None


def _version(command: str, arguments: tuple[str, ...]) -> str:
    quiet = os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        told = subprocess.run(
            [command, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_TIMEOUT,
            stdin=subprocess.DEVNULL,
            env=quiet,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\d+\.\d+\.\d+", told.stdout)
    return found[0] if found and told.returncode == 0 else ""
