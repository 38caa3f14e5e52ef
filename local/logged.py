"""A long command of another program: its output goes to a log file, what it does shows as progress.

Decided here: that a failure is told with the end of its log and, when the log says so, in words: disk full, no network.
"""

import collections
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from modules.errors import EnvironmentFault

_TAIL = 12  # lines of the log that a failure shows
_FULL = 64 << 20  # bytes; with less left on its disk, that is why a build failed
_WIDTH = 160  # characters of each
_ERROR_LINE = ("error:", "e:", "w:")  # how pip, debootstrap and apt begin the lines that name a cause

# What programs write when the machine is at fault and not they: a part of the line → why, what to do.
_CAUSES = (
    (
        "no space left on device",
        "the disk is full",
        "free some space, or set TFCLUSTER_CACHE to a folder on a larger disk",
    ),
    (
        "name resolution",
        "no network: a host name could not be resolved",
        "check the network, then run the command again",
    ),
    ("resolving ", "no network: a host name could not be resolved", "check the network, then run the command again"),
    (
        "failed to establish a new connection",
        "no network: a server does not answer",
        "check the network and proxy settings",
    ),
    ("failed getting release file", "the package mirror does not answer", "check the network, and apt's mirror"),
    ("network is unreachable", "no network", "check the network, then run the command again"),
    ("certificate_verify_failed", "a server's certificate could not be verified", "check SSL_CERT_FILE or PIP_CERT"),
)


def run(
    command: Sequence[str],
    *,
    doing: str,
    log: Path,
    env: Mapping[str, str] | None = None,
    line: Callable[[str], None] = lambda _: None,
) -> None:
    """Run it to its end; `line` gets each line of its output. Interrupted, it takes the command down with it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    last: collections.deque[str] = collections.deque(maxlen=200)
    with log.open("w", encoding="utf-8") as written:
        written.write(f"$ {' '.join(command)}\n")
        process = subprocess.Popen(
            command,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout

        def hear(text: str) -> None:
            last.append(text.rstrip())
            written.write(text)
            written.flush()
            line(text.rstrip())

        code = exit_code(process, process.stdout, hear)
    if code:
        raise fault(f"{doing} failed", tuple(last), log)


def exit_code(process: subprocess.Popen[str], output: Iterable[str], hear: Callable[[str], None]) -> int:
    """Of a command in a session of its own, once all its lines are heard. Interrupted, it takes it down with it."""
    try:
        for text in output:
            hear(text)
        return process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def fault(what: str, lines: Sequence[str], log: Path) -> EnvironmentFault:
    """The error of a command that wrote these lines last."""
    shown = [text for text in lines if text][-_TAIL:]
    tail = "\n".join(f"    {text[:_WIDTH]}" for text in shown)
    if shutil.disk_usage(log.parent).free < _FULL:
        lines = [*lines, _CAUSES[0][0]]  # not every program says so: to debootstrap it is a file that exists already
    for text in reversed(lines):
        for sign, why, fix in _CAUSES:
            if sign in text.lower() and (sign != "resolving " or "failed" in text.lower()):
                return EnvironmentFault(what, why=f"{why}\n{tail}", fix=f"{fix} (the whole log: {log})")
    named = [text for text in lines if text.lower().startswith(_ERROR_LINE)]
    return EnvironmentFault(what, why=f"{named[-1] if named else 'its last lines'}\n{tail}", fix=f"read {log}")
