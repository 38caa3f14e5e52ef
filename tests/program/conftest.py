"""A cluster on loopback for every program: what is asked of it is recorded, and nothing else is reached."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local import paths
from modules import access, probe, stackfile
from modules.access import Access
from tests import loopback


def run_main() -> None:
    """The program as the engine runs it: __main__.py in the project's folder."""
    runpy.run_path(str(stackfile.PROJECT / "__main__.py"), run_name="__main__")


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A user in the project's folder with a cache and a kubeconfig of their own; makes the kubeconfig anew."""
    monkeypatch.chdir(stackfile.PROJECT)
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def asked_here(reached: Access, namespace: str) -> dict[str, str | int]:
        """tests/unit/test_access.py asks through a process, which costs half a second each time."""
        return probe.answer(reached.kubeconfig, reached.context or "", namespace)

    monkeypatch.setattr(access, "_asked", asked_here)

    def write(server: str, contexts: tuple[str, ...] = ("there",)) -> Path:
        loopback.kubeconfig(paths.kubeconfig(), server, contexts=(paths.LOCAL_CONTEXT,))
        return loopback.kubeconfig(tmp_path / "kubeconfig", server, contexts)

    return write


@pytest.fixture
def cluster() -> Iterator[loopback.ApiServer]:
    with loopback.api_server() as server:
        yield server
