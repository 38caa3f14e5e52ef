"""How the state of a training is shown: a live table on a terminal, one line per change elsewhere. SHELL: writes to
stderr.

Decided here: what a person sees while a training runs, and when watching ends. What is so is decided in live.py.
"""

import sys
import time

from rich.console import Console
from rich.live import Live as Screen
from rich.table import Table

from modules.live import FAILED, SUCCEEDED, Live, RoleState, Snapshot

# Often enough to feel live, seldom enough not to be felt by an API server.
PERIOD_SECONDS = 1.0
# Without a terminal somebody still wants to know that it is alive.
HEARTBEAT_SECONDS = 30.0

_STYLES = {SUCCEEDED: "green", FAILED: "red", "Running": "cyan", "Unknown": "yellow"}


def table(snapshot: Snapshot, seconds: float) -> Table:
    grid = Table(
        title=f"{snapshot.name} · {snapshot.state} · {seconds:.0f} s", title_justify="left", title_style="bold"
    )
    for heading in ("role", "state"):
        grid.add_column(heading)
    for heading in ("desired", "pending", "running", "succeeded", "failed", "restarts"):
        grid.add_column(heading, justify="right")
    grid.add_column("note", overflow="fold")
    for role in snapshot.roles:
        counts = (role.desired, role.pending, role.running, role.succeeded, role.failed, role.restarts)
        state = f"[{_STYLES[role.state]}]{role.state}[/]"
        grid.add_row(role.name, state, *(str(count) for count in counts), role.note)
    return grid


def line(snapshot: Snapshot) -> str:
    def of(role: RoleState) -> str:
        text = f"{role.name} {role.running + role.succeeded}/{role.desired} {role.state}"
        return f"{text} ({role.note})" if role.note else text

    roles = " · ".join(of(role) for role in snapshot.roles)
    return f"{snapshot.name}: {snapshot.state} · {roles}"


def watch(live: Live, timeout: float | None) -> Snapshot:
    """Shows the training until its outcome is decided; the last snapshot, undecided when the time is over."""
    console = Console(stderr=True)
    started = said = time.monotonic()
    shown = ""
    snapshot = live.snapshot()
    with Screen(console=console, auto_refresh=False, transient=False) as screen:
        while True:
            elapsed = time.monotonic() - started
            if console.is_terminal:
                screen.update(table(snapshot, elapsed), refresh=True)
            elif line(snapshot) != shown or time.monotonic() - said >= HEARTBEAT_SECONDS:
                shown, said = line(snapshot), time.monotonic()
                print(f"{elapsed:5.0f} s  {shown}", file=sys.stderr, flush=True)
            if snapshot.state in (SUCCEEDED, FAILED) or (timeout is not None and elapsed >= timeout):
                return snapshot
            time.sleep(PERIOD_SECONDS)
            snapshot = live.snapshot()
