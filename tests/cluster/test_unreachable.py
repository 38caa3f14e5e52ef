"""A cluster that cannot be had: previews render and say so once, all else stops before the first resource."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from local import paths
from tests.cluster.test_engine import settings
from tests.real import Engine, Ran


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def kubeconfig(folder: Path, server: str, token: str | None = None) -> Path:
    """The embedded cluster's kubeconfig with another server, or other credentials, under the name `elsewhere`."""
    content = yaml.safe_load(paths.kubeconfig().read_text())
    cluster = {**content["clusters"][0]["cluster"], "server": server} if server else content["clusters"][0]["cluster"]
    user = {"token": token} if token else content["users"][0]["user"]
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "elsewhere", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return path


def both(engine: Engine, config: Path, context: str = "elsewhere") -> tuple[Ran, Ran]:
    """How preview and up end with this kubeconfig."""
    engine.write("exp", {**settings("default"), "context": context})
    preview = engine.run("preview", "--stack", "exp", KUBECONFIG=str(config))
    up = engine.run("up", "--stack", "exp", "--yes", "--skip-preview", KUBECONFIG=str(config))
    return preview, up


def assert_told(preview: Ran, up: Ran, *words: str) -> None:
    assert preview.code == 0, preview.text
    assert "kubernetes:batch/v1:Job" in preview.text, "the preview still shows what would be made"
    assert preview.text.count("Not checked in this preview") == 1
    assert up.code != 0
    assert "kubernetes:batch/v1:Job" not in up.text, "up stops before the first resource"
    for word in words:
        assert word in preview.text and word in up.text, (word, preview.text, up.text)
    assert "Traceback" not in preview.text + up.text


def test_a_server_that_refuses_connections(engine: Engine, tmp_path: Path) -> None:
    preview, up = both(engine, kubeconfig(tmp_path, "https://127.0.0.1:9"))
    assert_told(preview, up, "cannot be reached", "context 'elsewhere'", "https://127.0.0.1:9")


def test_a_server_that_never_answers(engine: Engine, tmp_path: Path, silent_port: int) -> None:
    server = f"https://127.0.0.1:{silent_port}"
    preview, up = both(engine, kubeconfig(tmp_path, server))
    assert_told(preview, up, "does not answer", "context 'elsewhere'", server)


def test_an_unknown_context(engine: Engine, tmp_path: Path) -> None:
    preview, up = both(engine, kubeconfig(tmp_path, ""), context="nowhere")
    assert_told(preview, up, "context 'nowhere' is not in the kubeconfig", "known there: elsewhere")


def test_a_missing_kubeconfig(engine: Engine, tmp_path: Path) -> None:
    preview, up = both(engine, tmp_path / "none")
    assert_told(preview, up, "no usable kubeconfig", str(tmp_path / "none"))


def test_a_wrong_token(engine: Engine, tmp_path: Path) -> None:
    preview, up = both(engine, kubeconfig(tmp_path, "", token="wrong"))
    assert_told(preview, up, "refuses the credentials", "context 'elsewhere'")


def test_a_missing_namespace(engine: Engine) -> None:
    engine.write("exp", settings("no-such-namespace"))
    preview = engine.run("preview", "--stack", "exp")
    up = engine.up("exp")
    assert_told(preview, up, "no namespace 'no-such-namespace'", "kubectl create namespace no-such-namespace")
