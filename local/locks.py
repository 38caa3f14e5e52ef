"""Who may work on what in the cache when several commands run at once.

Locks are those of the kernel (flock): they end with the process that holds them, however that ends.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from local.progress import Step


@contextmanager
def alone(file: Path, step: Step) -> Iterator[None]:
    """One process at a time; the others are told that they wait."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        step.note("waiting: another tfcluster is at it")
        lock.acquire()
        step.note("")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """While this lasts, `unused` is not granted for the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".users").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Whether nobody uses the folder; while it is granted, newcomers wait."""
    with (folder / ".users").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
