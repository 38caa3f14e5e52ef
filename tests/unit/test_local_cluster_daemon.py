"""Daemons: real processes that are found again by what they carry, kept, replaced and ended."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local import daemon
from local.daemon import Daemon, Started
from modules.errors import EnvironmentFault

SLEEPS = "import time; print('hello', flush=True); time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
)
FORKS = "import os, sys, time; os.fork() or os.execv('/bin/sleep', ['sleep', '60']); time.sleep(60)"


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Daemon]:
    yield Daemon("group/part", tmp_path, (sys.executable, "-c", SLEEPS), check=lambda: "")
    daemon.stop(daemon.marked(tmp_path), grace=0)


def saying(one: Daemon, word: str) -> Callable[[], str]:
    return lambda: "" if word in one.log.read_text() else f"it has not said {word}"


def have(one: Daemon) -> Started:
    started = Started(one, daemon.running(one.state))
    started.wait(10)
    # A check that is content at once may be sooner than the program's start.
    _until(lambda: bool(pids(one)))
    return started


def pids(one: Daemon) -> list[int]:
    return [found.process.pid for found in daemon.running(one.state) if found.name == one.name]


def test_one_that_runs_is_found_and_kept(sleeper: Daemon) -> None:
    assert have(sleeper).action == "started"
    before = pids(sleeper)
    assert len(before) == 1
    assert have(sleeper).action == "kept"
    assert pids(sleeper) == before


def test_it_is_unknown_to_another_cluster(sleeper: Daemon, tmp_path: Path) -> None:
    have(sleeper)
    assert daemon.marked(tmp_path / "other") == ()


@pytest.mark.parametrize("change", ["argv", "environment", "incarnation", "settings", "inputs"])
def test_one_that_is_outdated_is_replaced(sleeper: Daemon, change: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("old")
    first = replace(sleeper, inputs=(key,))
    have(first)
    before = pids(first)
    changed = {
        "argv": replace(first, argv=(*first.argv, "more")),
        "environment": replace(first, environment={"A": "1"}),
        "incarnation": replace(first, incarnation="second"),
        "settings": replace(first, settings={tmp_path / "new" / "settings": "text"}),
        "inputs": replace(first),
    }[change]
    if change == "inputs":
        key.write_text("new")
    assert have(changed).action == "restarted"
    after = pids(changed)
    assert len(after) == 1 and after != before
    assert change != "settings" or (tmp_path / "new" / "settings").read_text() == "text"


def test_a_double_is_cleared_away(sleeper: Daemon) -> None:
    daemon.start(sleeper)
    daemon.start(sleeper)
    _until(lambda: len(pids(sleeper)) == 2)
    assert have(sleeper).action == "restarted"
    assert len(pids(sleeper)) == 1


def test_what_a_daemon_started_is_not_taken_for_it_and_goes_with_the_rest(sleeper: Daemon) -> None:
    forking = replace(sleeper, argv=(sys.executable, "-c", FORKS))
    have(forking)
    _until(lambda: [one.program for one in daemon.marked(forking.state)].count("sleep") == 1)
    assert len(pids(forking)) == 1
    daemon.stop(daemon.marked(forking.state), grace=0)
    assert daemon.marked(forking.state) == ()


def test_one_that_runs_but_does_not_answer_is_replaced(sleeper: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    have(sleeper)
    before = pids(sleeper)
    monkeypatch.setattr(daemon, "_HUNG", 0.2)
    ill = replace(sleeper, check=lambda: "no answer" if pids(sleeper) == before else "")
    assert have(ill).action == "restarted"
    assert pids(sleeper) != before


def test_one_that_ends_by_itself_is_told_with_the_end_of_its_log(sleeper: Daemon) -> None:
    failing = replace(sleeper, argv=(sys.executable, "-c", "import sys; sys.exit('no such option')"), check=lambda: "-")
    failing.log.parent.mkdir()
    failing.log.write_text("--- an earlier start\nold news\n")
    with pytest.raises(EnvironmentFault) as told:
        have(failing)
    text = str(told.value)
    assert "group/part does not work" in text and "ended by itself" in text
    assert "no such option" in text and "old news" not in text and str(failing.log) in text


def test_one_that_stays_ill_is_told_with_the_reason(sleeper: Daemon) -> None:
    with pytest.raises(EnvironmentFault, match="does not work") as told:
        Started(replace(sleeper, check=lambda: "its door is shut"), ()).wait(0.2)
    assert "its door is shut" in str(told.value)


def test_one_that_does_not_listen_is_killed(sleeper: Daemon) -> None:
    deaf = replace(sleeper, argv=(sys.executable, "-c", STUBBORN))
    have(replace(deaf, check=saying(deaf, "deaf")))
    daemon.stop(daemon.running(deaf.state), grace=0.1)
    assert pids(deaf) == []


def test_a_stopped_one_ends_too(sleeper: Daemon) -> None:
    have(sleeper)
    daemon.running(sleeper.state)[0].process.send_signal(signal.SIGSTOP)
    daemon.stop(daemon.running(sleeper.state), grace=0.1)
    assert pids(sleeper) == []


def test_a_long_log_is_set_aside_when_its_daemon_starts(sleeper: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_LOG_KEPT", 10)
    sleeper.log.parent.mkdir()
    sleeper.log.write_text("x" * 11)
    have(replace(sleeper, check=saying(sleeper, "hello")))
    assert "x" not in sleeper.log.read_text().replace("exec", "")
    assert sleeper.log.with_suffix(".log.1").read_text() == "x" * 11


def test_the_users_proxy_is_not_passed_on(sleeper: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:1")
    have(sleeper)
    assert "HTTPS_PROXY" not in daemon.running(sleeper.state)[0].process.environ()


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
