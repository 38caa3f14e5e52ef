"""What tests share: the golden files, and for those of the real thing one cluster, one engine, one namespace each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import real

GOLDEN = Path(__file__).parent / "unit" / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew; then read the diff")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a golden file, or writes the file."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.yaml"
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.is_file(), f"no golden file {path.name}: pytest --update-golden"
        assert text == path.read_text(), f"{path.name} differs; if that is meant: pytest --update-golden"

    return check


@pytest.fixture(scope="session")
def local_cluster() -> Iterator[None]:
    """The embedded cluster with two nodes."""
    with real.running_cluster(nodes=2):
        yield


@pytest.fixture
def namespace(local_cluster: None) -> Iterator[str]:  # noqa: ARG001
    with real.namespace() as name:
        yield name


@pytest.fixture
def engine(local_cluster: None, tmp_path: Path) -> real.Engine:  # noqa: ARG001
    return real.Engine(tmp_path / "project")
