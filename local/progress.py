"""How long work shows itself: what is being done, how far it is, how long it takes.

    with Progress("build") as progress, progress.step("kube-apiserver") as step:
        step.note("fetching modules")          # what: a change, so a line of its own without a terminal
        step.far(120, 900, "packages")         # how far: drawn live, or told by the next heartbeat

Decided here: the two ways of showing it. On a terminal, lines that live (rich); elsewhere, plain lines on stderr: one
per change, and a heartbeat so that a log never looks dead. Steps may run in threads side by side.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import TaskID

QUIET_FIRST = 2.0  # seconds: a step that is quicker than this is told once, when it is done
HEARTBEAT = 30.0  # seconds of silence after which a running step says that it is alive


def duration(seconds: float) -> str:
    """Seconds as people say them: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def size(count: float) -> str:
    """Bytes as people say them: 812 B, 34 MiB, 1.8 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


class Step:
    """One piece of work that is under way."""

    def __init__(self, name: str, shown_by: "Display") -> None:
        self.name = name
        self.what = ""
        self.done = 0.0
        self.total = 0.0
        self.unit = ""
        self.outcome = ""  # what the line says with which it ends; empty: its last state
        self.began = time.monotonic()
        self._display = shown_by

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def note(self, what: str) -> None:
        """What is being done now; it starts a new count."""
        if what != self.what:
            self.what, self.done, self.total, self.unit = what, 0.0, 0.0, ""
            self._display.changed(self, told=True)

    def far(self, done: float, total: float = 0.0, unit: str = "") -> None:
        """How far it is: a count, of a total when that is known. Call it as often as you like."""
        self.done, self.total, self.unit = done, total, unit
        self._display.changed(self, told=False)

    def measure(self) -> str:
        """How far, in words: `120 of 900 packages`, `34 MiB of 70 MiB`, `7 files`."""
        if not self.done and not self.total:
            return ""
        if self.unit == "B":
            return size(self.done) + (f" of {size(self.total)}" if self.total else "")
        return f"{self.done:.0f}" + (f" of {self.total:.0f}" if self.total else "") + f" {self.unit}".rstrip()

    def state(self) -> str:
        return ", ".join(part for part in (self.what, self.measure()) if part)


class Display(Protocol):
    """Where steps are shown."""

    def begin(self) -> None: ...
    def end(self) -> None: ...
    def opened(self, step: Step) -> None: ...
    def changed(self, step: Step, *, told: bool) -> None: ...
    def closed(self, step: Step, outcome: str) -> None: ...
    def say(self, text: str) -> None: ...


class PlainDisplay:
    """Lines for logs and pipes."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title = title
        self._stream = stream
        self._lock = threading.Lock()
        self._last_line: dict[Step, float] = {}  # open steps; 0.0: not mentioned yet
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def begin(self) -> None:
        self._ticker.start()

    def end(self) -> None:
        self._over.set()
        self._ticker.join()

    def opened(self, step: Step) -> None:
        with self._lock:
            self._last_line[step] = 0.0

    def changed(self, step: Step, *, told: bool) -> None:
        if told and step.elapsed >= QUIET_FIRST:
            with self._lock:
                self._tell(step)

    def closed(self, step: Step, outcome: str) -> None:
        with self._lock:
            self._last_line.pop(step, None)
            self._line(f"{step.name}: {outcome}")

    def say(self, text: str) -> None:
        with self._lock:
            self._line(text)

    def _tick(self) -> None:
        while not self._over.wait(0.5):
            with self._lock:
                now = time.monotonic()
                for step, last in self._last_line.items():
                    if now - last >= HEARTBEAT and step.elapsed >= QUIET_FIRST:
                        self._tell(step)

    def _tell(self, step: Step) -> None:
        self._last_line[step] = time.monotonic()
        self._line(f"{step.name}: {step.state() or 'at work'} ({duration(step.elapsed)})")

    def _line(self, text: str) -> None:
        print(f"{self._title}: {text}", file=self._stream, flush=True)


class LiveDisplay:
    """Lines that live, for a person at a terminal."""

    def __init__(self, title: str) -> None:
        # rich costs 0.1 s to import, which only those pay who see it.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._title = title
        self._tasks: dict[Step, TaskID] = {}
        self._live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )

    def begin(self) -> None:
        self._live.start()

    def end(self) -> None:
        self._live.stop()

    def opened(self, step: Step) -> None:
        self._tasks[step] = self._live.add_task(step.name, total=None, state="")

    def changed(self, step: Step, *, told: bool) -> None:  # noqa: ARG002 (everything is drawn)
        self._live.update(self._tasks[step], completed=step.done, total=step.total or None, state=step.state())

    def closed(self, step: Step, outcome: str) -> None:
        self._live.remove_task(self._tasks.pop(step))
        self.say(f"{step.name}: {outcome}")

    def say(self, text: str) -> None:
        self._live.console.print(f"{self._title}: {text}", markup=False, soft_wrap=True)


def _live_wanted() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Progress:
    """The steps of one command, shown in the way that fits where it runs."""

    def __init__(self, title: str, display: Display | None = None) -> None:
        self._display = display or (LiveDisplay(title) if _live_wanted() else PlainDisplay(title, sys.stderr))

    def __enter__(self) -> Self:
        self._display.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._display.end()

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """One step: its time is told when it ends, and that it failed when it did."""
        step = Step(name, self._display)
        self._display.opened(step)
        try:
            yield step
        except BaseException as error:
            word = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self._display.closed(step, f"{word} after {duration(step.elapsed)}")
            raise
        self._display.closed(step, f"{step.outcome or step.state() or 'done'}, {duration(step.elapsed)}")

    def say(self, text: str) -> None:
        """A line that stays, above the steps."""
        self._display.say(text)
