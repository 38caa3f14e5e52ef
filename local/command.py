"""A short command of the system: its output, or one error that shows what it said.

Not decided here: long commands with progress and a log (logged.py).
"""

import shlex
import subprocess
from collections.abc import Sequence

from modules.errors import EnvironmentFault

_TIMEOUT = 30  # seconds; `ip`, `nft` and their like answer in milliseconds, or something is very wrong


def output(command: Sequence[str], stdin: str = "") -> str:
    """What the command writes to stdout."""
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except FileNotFoundError:
        raise EnvironmentFault(f"the command `{command[0]}` is missing", fix=f"install it: {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"`{shlex.join(command)}` did not end within {_TIMEOUT} s") from None
    if done.returncode:
        raise EnvironmentFault(
            f"`{shlex.join(command)}` failed", why=done.stderr.strip() or f"exit code {done.returncode}"
        )
    return done.stdout


def succeeds(command: Sequence[str]) -> bool:
    """Whether the command exists and ends well."""
    try:
        return not subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False).returncode
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
