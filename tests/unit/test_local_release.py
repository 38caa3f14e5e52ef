"""Official releases: only what has its published checksum comes in, and a host that is away costs its time once."""

import contextlib
import hashlib
import io
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from local.catalog import Release
from local.progress import PlainDisplay, Step
from local.release import Releases, Unavailable

BINARY = b"\x7fELF" + bytes(range(256)) * 2000
NAME = "kubectl"
SUMS = "https://releases.example/v1/kubectl.sha256"
RELEASE = Release("https://releases.example/v1/kubectl", SUMS)


class Server:
    """A release page on loopback: what it answers, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.announced = 0  # bytes of a binary that are promised beyond those that come
        self.trickle = False  # a binary comes as a few bytes at a time
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.asked.append(self.path)
                content = page.answers.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                binary = len(content) > 1000
                self.send_response(200)
                self.send_header("Content-Length", str(len(content) + (page.announced if binary else 0)))
                self.end_headers()
                portion = 1000 if binary and page.trickle else len(content)
                with contextlib.suppress(ConnectionError):  # the client may have seen enough
                    for start in range(0, len(content), portion):
                        self.wfile.write(content[start : start + portion])
                        time.sleep(0.01 if page.trickle else 0)

            def log_message(self, format: str, *args: object) -> None:
                """Not on the test's stderr."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_port}"

    def serve(self, path: str, content: bytes) -> None:
        self.answers[f"/releases.example/v1/{path}"] = content


@pytest.fixture
def server() -> Iterator[Server]:
    page = Server()
    thread = threading.Thread(target=page.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield page
    page.http.shutdown()
    page.http.server_close()


@pytest.fixture
def step() -> Step:
    return Step("test", PlainDisplay("test", io.StringIO()))


def fetched(releases: Releases, release: Release, tmp_path: Path, step: Step) -> Path:
    into, scratch = tmp_path / "bin", tmp_path / "scratch"
    into.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)
    releases.fetch(release, into, scratch, step)
    return into


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def test_a_file_with_its_published_checksum_comes_in_executable(server: Server, step: Step, tmp_path: Path) -> None:
    server.serve("kubectl", BINARY)
    server.serve("kubectl.sha256", sha256(BINARY))
    binary = fetched(Releases(server.base), RELEASE, tmp_path, step) / NAME
    assert binary.read_bytes() == BINARY
    assert binary.stat().st_mode & 0o111


def test_of_an_archive_only_the_named_members_come_in(server: Server, step: Step, tmp_path: Path) -> None:
    content = archive({"./tool-v1/tool": BINARY, "tool-v1/README": b"read", "../../outside": b"out"})
    server.serve("tool.tar.gz", content)
    server.serve("SHA256SUMS", b"0" * 64 + b"  other.tar.gz\n" + sha256(content) + b"  ./tool.tar.gz\n")
    release = Release(
        "https://releases.example/v1/tool.tar.gz", "https://releases.example/v1/SHA256SUMS", ("tool-v1/tool",)
    )
    into = fetched(Releases(server.base), release, tmp_path, step)
    assert [file.name for file in into.iterdir()] == ["tool"]


@pytest.mark.parametrize(
    ("content", "published", "says"),
    [
        (b"x" + BINARY[1:], sha256(BINARY), "does not have its published checksum"),
        (BINARY, hashlib.sha1(BINARY).hexdigest().encode(), "no SHA-256 is published"),
        (BINARY, b"<html>login first</html>", "no SHA-256 is published"),
        (BINARY, sha256(BINARY) + b"  another-file", "no SHA-256 is published"),
    ],
    ids=["corrupted", "sha1", "captive-portal", "of-another-file"],
)
def test_an_unverified_file_does_not_come_in(
    server: Server, step: Step, tmp_path: Path, content: bytes, published: bytes, says: str
) -> None:
    server.serve("kubectl", content)
    server.serve("kubectl.sha256", published)
    with pytest.raises(Unavailable, match=says):
        fetched(Releases(server.base), RELEASE, tmp_path, step)
    assert not (tmp_path / "bin" / NAME).exists()


def test_a_truncated_file_does_not_come_in(server: Server, step: Step, tmp_path: Path) -> None:
    server.serve("kubectl", BINARY)
    server.serve("kubectl.sha256", sha256(BINARY))
    server.announced = 5
    with pytest.raises(Unavailable, match=r"broke off|ended after"):
        fetched(Releases(server.base), RELEASE, tmp_path, step)
    assert not (tmp_path / "bin" / NAME).exists()


def test_a_missing_file_says_404_and_the_host_is_asked_again_for_others(
    server: Server, step: Step, tmp_path: Path
) -> None:
    releases = Releases(server.base)
    with pytest.raises(Unavailable, match="404"):
        fetched(releases, RELEASE, tmp_path, step)
    server.serve("kubectl", BINARY)
    server.serve("kubectl.sha256", sha256(BINARY))
    assert (fetched(releases, RELEASE, tmp_path, step) / NAME).exists()


def test_a_host_that_is_too_slow_is_given_up_and_not_asked_again(server: Server, step: Step, tmp_path: Path) -> None:
    server.serve("kubectl", BINARY)
    server.serve("kubectl.sha256", sha256(BINARY))
    server.trickle = True
    releases = Releases(server.base, slowest=1e9, grace=0.05)
    with pytest.raises(Unavailable, match="gives only"):
        fetched(releases, RELEASE, tmp_path, step)
    asked = len(server.asked)
    with pytest.raises(Unavailable, match="gives only"):
        fetched(releases, RELEASE, tmp_path, step)
    assert len(server.asked) == asked


def test_a_host_that_is_away_is_tried_once_and_told_once(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(address: tuple[str, int], timeout: float) -> None:
        tried.append((address, timeout))
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    releases = Releases("http://127.0.0.1:9")
    reasons = []
    for _ in range(9):
        with pytest.raises(Unavailable) as raised:
            fetched(releases, RELEASE, tmp_path, step)
        reasons.append(raised.value)
    assert len(tried) == 1
    assert [releases.is_news(reason) for reason in reasons] == [True] + [False] * 8


def test_downloads_can_be_switched_off(step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCLUSTER_RELEASES", "off")
    with pytest.raises(Unavailable, match="switched off"):
        fetched(Releases(), RELEASE, tmp_path, step)
