"""Certificates: who gets one, when it is made again, and that TLS with them works as they say."""

import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509

from local import config, health, identities, kubeconfig, pki
from local.pki import Identity, Pki

SERVER = Identity("api", "api", usages=("server",), addresses=("127.0.0.1", "localhost"))
CLIENT = Identity("admin", "someone", ("system:masters",))
BOTH = [SERVER, CLIENT]


@pytest.fixture
def made(tmp_path: Path) -> Pki:
    made = Pki(tmp_path / "pki")
    assert made.issue(BOTH) == ["api", "admin"]
    return made


def test_what_is_there_and_lasts_is_not_made_again(made: Pki) -> None:
    before = {file: file.read_bytes() for file in made.folder.iterdir()}
    assert made.issue(BOTH) == []
    assert {file: file.read_bytes() for file in made.folder.iterdir()} == before


def test_keys_are_for_their_owner_only(made: Pki) -> None:
    assert {oct(key.stat().st_mode & 0o777) for key in made.folder.glob("*.key")} == {"0o600"}
    assert len(list(made.folder.glob("*.key"))) == 4  # the authority's, the tokens', two identities'


def test_subject_and_addresses_are_those_of_the_identity(made: Pki) -> None:
    subject = x509.load_pem_x509_certificate(made.certificate("admin").read_bytes()).subject
    assert subject.rfc4514_string() == "CN=someone,O=system:masters"
    served = x509.load_pem_x509_certificate(made.certificate("api").read_bytes())
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["127.0.0.1", "localhost"]


@pytest.mark.parametrize(
    "changed",
    [
        replace(SERVER, addresses=("127.0.0.1",)),
        replace(SERVER, common_name="other"),
        replace(SERVER, groups=("new",)),
        replace(SERVER, usages=("server", "client")),
    ],
)
def test_an_identity_that_changed_gets_a_new_certificate(made: Pki, changed: Identity) -> None:
    assert made.issue([changed, CLIENT]) == ["api"]
    assert made.issue([changed, CLIENT]) == []


def test_a_certificate_that_ends_soon_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Pki(tmp_path / "pki")
    monkeypatch.setattr(pki, "_DAYS", 29)
    made.issue(BOTH)
    monkeypatch.setattr(pki, "_DAYS", 31)
    assert made.issue(BOTH) == ["api", "admin"]
    assert made.issue(BOTH) == []


@pytest.mark.parametrize("damage", ["ca.crt", "ca.key"])
def test_with_a_new_authority_everything_is_made_again(made: Pki, damage: str) -> None:
    (made.folder / damage).write_text("not a certificate")
    assert made.issue(BOTH) == ["api", "admin"]


def test_a_damaged_or_foreign_key_is_made_again(made: Pki) -> None:
    made.key("admin").write_bytes(made.key("api").read_bytes())
    made.key("api").unlink()
    assert made.issue(BOTH) == ["api", "admin"]


class Page(BaseHTTPRequestHandler):
    """Well at /well, unwell elsewhere."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/well" else 500)
        self.end_headers()
        self.wfile.write(b"[+]ping ok\n[-]etcd failed: reason withheld\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port(made: Pki) -> Iterator[int]:
    """A server that asks for a certificate of ours."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made.authority))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(made.certificate("api"), made.key("api"))
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_tls_works_with_them_and_a_failing_check_is_told(made: Pki, port: int) -> None:
    assert health.https(f"https://127.0.0.1:{port}/well", made, "admin") == ""
    said = health.https(f"https://127.0.0.1:{port}/unwell", made, "admin")
    assert "500" in said and "[-]etcd failed" in said and "[+]" not in said


def test_a_server_of_another_authority_is_not_believed(made: Pki, port: int, tmp_path: Path) -> None:
    other = Pki(tmp_path / "other")
    other.issue([CLIENT])
    assert "CERTIFICATE_VERIFY_FAILED" in health.https(f"https://127.0.0.1:{port}/well", other, "admin")
    assert made.authority.exists()


def test_nobody_there_is_told_as_such(made: Pki) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    assert "refused" in health.https(f"https://127.0.0.1:{free}/", made, "admin")
    assert "missing" in health.https(f"https://127.0.0.1:{free}/", made, "unknown")


def test_a_kubeconfig_is_written_once_for_its_owner_only(made: Pki, tmp_path: Path) -> None:
    file = kubeconfig.write(tmp_path / "deep" / "config", made, "admin", "https://10.243.0.1:6443")
    assert file.stat().st_mode & 0o777 == 0o600
    written = file.stat().st_ino
    kubeconfig.write(file, made, "admin", "https://10.243.0.1:6443")
    assert file.stat().st_ino == written
    kubeconfig.write(file, made, "admin", "https://127.0.0.1:1")
    assert "https://127.0.0.1:1" in file.read_text() and "insecure" not in file.read_text()


@pytest.mark.parametrize(
    "wish",
    [
        {"control_plane_only": True, "kwok": 3},
        {"control_plane_only": False, "nodes": 3},
        {"control_plane_only": False, "nodes": 1, "kwok": 2},
    ],
)
def test_every_part_that_asks_the_api_has_an_identity_of_its_own(wish: dict[str, int]) -> None:
    settled = config.chosen(None, **{"nodes": None, "gpus": None, "kwok": None, **wish})  # pyright: ignore
    everyone = identities.all_of(settled)
    assert set(identities.with_kubeconfig(settled)) <= {one.name for one in everyone}
    for seen_as in ("name", "common_name"):
        assert len({getattr(one, seen_as) for one in everyone}) == len(everyone)
    assert [one.name for one in everyone if "system:masters" in one.groups] == [identities.ADMIN]
