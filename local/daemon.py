"""One long-running process of the cluster: how it is started, found again, checked and stopped.

A daemon carries in its environment who it is and what it was started from. So the list of what runs is the kernel's,
always: no pid file that outlives a crash or a reboot, no process that runs unknown, no pid taken for another.

Decided here: all of that, for any daemon. Not decided here: which daemons there are (control_plane.py, node.py).
"""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import psutil

from modules.errors import EnvironmentFault

_MARK = "TFCLUSTER_DAEMON"
_POLL = 0.05
_GRACE = 5.0  # seconds between asking a daemon to end and ending it
_START_SECONDS = 180.0  # that a part gets to become healthy; most need 3, on a machine that is busy with other things
_HUNG = 10.0  # seconds after which a daemon that runs but does not answer is started again
_LOG_KEPT = 10 << 20  # bytes: a log that is longer when its daemon starts is set aside
_TAIL = 8  # lines of the log that an error shows

# System folders first: a node's tools are those of the distribution.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Daemon:
    """What should run."""

    name: str
    state: Path  # the cluster that it belongs to
    argv: tuple[str, ...]
    check: Callable[[], str]  # why it is not healthy; "" when it is
    settings: dict[Path, str] = field(default_factory=dict)  # files that are written for it when it starts
    inputs: tuple[Path, ...] = ()  # other files that it reads when it starts
    environment: dict[str, str] = field(default_factory=dict)
    incarnation: str = ""
    within: Callable[[], list[str]] = list  # the command in front of it that starts it inside a node

    @property
    def log(self) -> Path:
        return self.state / "logs" / f"{self.name.replace('/', '-')}.log"

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that makes a running one outdated when it changes."""
        program = Path(self.argv[0])
        binary = program.stat() if program.exists() else None
        seen = [
            self.argv,
            sorted(self.environment.items()),
            self.incarnation,
            binary and (binary.st_size, binary.st_mtime_ns),
        ]
        digest = hashlib.sha256(json.dumps(seen).encode())
        for text in self.settings.values():
            digest.update(text.encode())
        for file in self.inputs:
            digest.update(file.read_bytes() if file.exists() else b"")
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Running:
    """What does run."""

    name: str
    fingerprint: str
    process: psutil.Process

    def alive(self) -> bool:
        return self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE


@dataclass(frozen=True)
class Marked:
    """A process that a daemon of ours is, wraps or started."""

    mark: dict[str, str]
    process: psutil.Process
    program: str

    @property
    def is_daemon(self) -> bool:
        """The daemon itself: not the nsenter around it, nor a shim that inherited its environment."""
        return self.program == self.mark["program"]


def marked(state: Path) -> tuple[Marked, ...]:
    """Every process of the cluster except those in containers."""
    found = []
    for process in psutil.process_iter():
        try:
            text = process.environ().get(_MARK)
            if not text:
                continue
            mark = json.loads(text)
            if mark["state"] == str(state) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(Marked(mark, process, Path(process.cmdline()[0]).name))
        except (psutil.Error, IndexError, ValueError):
            continue  # it ended while we looked, or it is not ours to look into
    return tuple(found)


def running(state: Path) -> tuple[Running, ...]:
    """Every daemon of the cluster that runs."""
    return tuple(
        Running(one.mark["name"], one.mark["fingerprint"], one.process) for one in marked(state) if one.is_daemon
    )


def start(daemon: Daemon) -> "subprocess.Popen[bytes]":
    """Start it, detached from this terminal."""
    for file, text in daemon.settings.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    mark = {
        "state": str(daemon.state),
        "name": daemon.name,
        "program": Path(daemon.argv[0]).name,
        "fingerprint": daemon.fingerprint,
    }
    # Not our own environment: a proxy setting of the user's shell would be used towards the cluster's addresses.
    environment = {
        "PATH": SYSTEM_PATH,
        "HOME": os.environ.get("HOME", "/"),
        **daemon.environment,
        _MARK: json.dumps(mark),
    }
    daemon.log.parent.mkdir(parents=True, exist_ok=True)
    if daemon.log.exists() and daemon.log.stat().st_size > _LOG_KEPT:
        daemon.log.rename(daemon.log.with_suffix(".log.1"))
    with daemon.log.open("ab") as log:
        log.write(f"--- {time.strftime('%F %T')} start of {daemon.name}\n".encode())
        log.flush()
        return subprocess.Popen(
            [*daemon.within(), *daemon.argv],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )


class Started:
    """A daemon of this `up`: kept as it ran, or started now."""

    def __init__(self, daemon: Daemon, all_running: Iterable[Running]) -> None:
        """Have it run with its present settings; an outdated or doubled one is ended first."""
        self.daemon = daemon
        mine = [one for one in all_running if one.name == daemon.name]
        self._process: subprocess.Popen[bytes] | None = None
        if len(mine) == 1 and mine[0].fingerprint == daemon.fingerprint and mine[0].alive():
            self.action = "kept"
            return
        stop(mine)
        self.action = "restarted" if mine else "started"
        self._process = start(daemon)

    def wait(self, seconds: float = _START_SECONDS) -> None:
        """Until it is healthy. One that ran before and hangs is started again."""
        if self._process is None:
            if not self._unhealthy(_HUNG):
                return
            stop([one for one in running(self.daemon.state) if one.name == self.daemon.name])
            self.action = "restarted"
            self._process = start(self.daemon)
        if reason := self._unhealthy(seconds):
            raise EnvironmentFault(
                f"{self.daemon.name} does not work",
                why=f"{reason}; its last lines:\n{self.tail()}",
                fix=f"read {self.daemon.log}",
            )

    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def tail(self) -> str:
        """The end of its log, since it was started last."""
        text = self.daemon.log.read_text(errors="replace") if self.daemon.log.exists() else ""
        lines = text.rpartition("--- ")[2].splitlines()[1:]
        return "\n".join(f"    {line[:300]}" for line in lines[-_TAIL:])

    def _unhealthy(self, seconds: float) -> str:
        """Why it is not healthy after that time; "" as soon as it is."""
        deadline = time.monotonic() + seconds
        while True:
            if self.ended():
                return "it ended by itself"
            reason = self.daemon.check()
            if not reason or time.monotonic() > deadline:
                return reason and f"not healthy after {seconds:.0f} s: {reason}"
            time.sleep(_POLL)


def stop(processes: Iterable[Running | Marked], grace: float = _GRACE) -> None:
    """End them; those that do not listen are killed. Returns when the kernel has no more of them."""
    left = [one.process for one in processes]
    if grace:
        _signal(left, "terminate")
        _, left = psutil.wait_procs(left, timeout=grace)
    _signal(left, "kill")
    _, left = psutil.wait_procs(left, timeout=5)
    left = [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    if left:
        raise EnvironmentFault(
            f"the kernel does not end process {left[0].pid}", why="it waits for a device or a network file system"
        )


def _signal(processes: Iterable[psutil.Process], how: str) -> None:
    for process in processes:
        try:
            getattr(process, how)()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            raise EnvironmentFault(
                f"process {process.pid} of the cluster belongs to another user",
                fix="run this as the user who started it",
            ) from None
