"""Progress without a terminal: lines that a log can be read by, and no more of them than say something."""

import io
import threading

import pytest

from local.progress import PlainDisplay, Progress


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


def test_a_quick_step_is_one_line_whatever_it_noted(shown: io.StringIO) -> None:
    with Progress("up", PlainDisplay("up", shown)) as progress, progress.step("etcd") as step:
        step.note("starting")
        step.far(1, 2, "tries")
        step.outcome = "ready"
    (line,) = shown.getvalue().splitlines()
    assert line.startswith("up: etcd: ready, 0.")


def test_a_long_step_tells_each_change_but_not_each_count(shown: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.progress.QUIET_FIRST", 0.0)
    with Progress("build", PlainDisplay("build", shown)) as progress, progress.step("kubelet") as step:
        for count in range(100):
            step.note("compiling")
            step.far(count, 100, "packages")
        step.note("linking")
    first, second, last = (line.rsplit(" (")[0] for line in shown.getvalue().splitlines())
    assert (first, second) == ("build: kubelet: compiling", "build: kubelet: linking")
    assert last.startswith("build: kubelet: linking, ")


def test_a_silent_step_shows_that_it_is_alive_and_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.progress.QUIET_FIRST", 0.0)
    monkeypatch.setattr("local.progress.HEARTBEAT", 0.0)
    beat = threading.Event()

    class Listening(io.StringIO):
        def write(self, text: str) -> int:
            if "34 MiB of 70 MiB" in text:
                beat.set()
            return super().write(text)

    with Progress("build", PlainDisplay("build", Listening())) as progress, progress.step("etcd") as step:
        step.far(34 << 20, 70 << 20, "B")
        assert beat.wait(5)


@pytest.mark.parametrize(("error", "word"), [(ValueError(), "failed"), (KeyboardInterrupt(), "interrupted")])
def test_a_step_that_does_not_end_well_says_so_and_passes_the_error_on(
    shown: io.StringIO, error: BaseException, word: str
) -> None:
    with pytest.raises(type(error)), Progress("up", PlainDisplay("up", shown)) as progress, progress.step("etcd"):
        raise error
    assert f"up: etcd: {word} after " in shown.getvalue()
