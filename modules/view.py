"""How the state of a training is shown: a live table on a terminal, one line per change elsewhere. SHELL: writes to
stderr.

Decided here: what a person sees while a training runs, and when watching ends. What is so is decided in live.py.
"""

import sys
import time

from rich.console import Console
from rich.live import Live as Screen
from rich.table import Table
from rich.text import Text

from modules.errors import EnvironmentFault
from modules.live import FAILED, SUCCEEDED, Live, NoTraining, RoleState, Snapshot

# Often enough to feel live, seldom enough not to be felt by an API server.
PERIOD_SECONDS = 1.0
# Without a terminal somebody still wants to know that it is alive.
HEARTBEAT_SECONDS = 30.0

# A training outlives a restart of the API server, and so does whoever watches it.
SILENCE_SECONDS = 120.0

_STYLES = {SUCCEEDED: "green", FAILED: "red", "Running": "cyan", "Unknown": "yellow"}


def table(snapshot: Snapshot, remark: str = "") -> Table:
    title = " · ".join(filter(None, (snapshot.name, snapshot.state, remark)))
    grid = Table(title=Text(title), title_justify="left", title_style="bold")
    for heading in ("role", "state"):
        grid.add_column(heading)
    for heading in ("desired", "pending", "running", "succeeded", "failed", "restarts"):
        grid.add_column(heading, justify="right")
    grid.add_column("note", overflow="fold")
    for role in snapshot.roles:
        counts = (role.desired, role.pending, role.running, role.succeeded, role.failed, role.restarts)
        state = f"[{_STYLES[role.state]}]{role.state}[/]"
        grid.add_row(role.name, state, *(str(count) for count in counts), Text(role.note))
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
    started = said = answered = time.monotonic()
    shown = remark = ""
    snapshot = live.snapshot()
    with Screen(console=console, auto_refresh=False) as screen:
        while True:
            elapsed = time.monotonic() - started
            text = " · ".join(filter(None, (line(snapshot), remark)))
            if console.is_terminal:
                screen.update(table(snapshot, f"{elapsed:.0f} s {remark}".strip()), refresh=True)
            elif text != shown or time.monotonic() - said >= HEARTBEAT_SECONDS:
                shown, said = text, time.monotonic()
                print(f"{elapsed:5.0f} s  {text}", file=sys.stderr, flush=True)
            if snapshot.state in (SUCCEEDED, FAILED) or (timeout is not None and elapsed >= timeout):
                return snapshot
            time.sleep(PERIOD_SECONDS)
            try:
                snapshot, answered, remark = live.snapshot(), time.monotonic(), ""
            except NoTraining:
                raise
            except EnvironmentFault:
                remark = "the cluster does not answer"
                if time.monotonic() - answered > SILENCE_SECONDS:
                    raise
