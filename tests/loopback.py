"""A cluster as far as a check of it goes: an HTTP server on loopback, and a kubeconfig that leads there."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml


@dataclass
class ApiServer:
    """What it was asked: path and credentials of every request."""

    url: str
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def api_server(status: int = 200) -> Iterator[ApiServer]:
    """Answers every question for a namespace with `status`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append((self.path, self.headers.get("Authorization")))
            name = self.path.rpartition("/")[2]
            body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: ARG002
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = ApiServer(f"http://127.0.0.1:{http.server_port}")
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def refusing_server() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def kubeconfig(path: Path, server: str, contexts: tuple[str, ...] = ("there",), user: Any = None) -> Path:
    """Writes a kubeconfig in which every context is `server`; the first one is current."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": {"server": server}}],
        "users": [{"name": "user", "user": {"token": "secret"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": "cluster", "user": "user"}} for name in contexts],
        "current-context": contexts[0],
    }
    path.write_text(yaml.safe_dump(content))
    return path
