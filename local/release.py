"""Official release files: fetched, and trusted only when their SHA-256 is the one published beside them.

Decided here: how long a host may take to answer before a tool is built instead. A host that did not answer once is not
asked again by the same command.

TFCLUSTER_RELEASES replaces the hosts: `http://mirror/x` makes https://dl.k8s.io/a/b into http://mirror/x/dl.k8s.io/a/b;
`off` means that nothing is fetched.
"""

import hashlib
import os
import re
import socket
import tarfile
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, getproxies, proxy_bypass, urlopen

from local.catalog import Release
from local.progress import Step, size

CONNECT = 3.0  # seconds to resolve a host's name and connect to it: more means that there is no way
STALL = 20.0  # seconds without a byte
SLOWEST = 200 * 1024  # bytes a second, over GRACE seconds and more: below this, building is quicker
GRACE = 15.0
CHUNK = 256 * 1024


class Unavailable(Exception):
    """A release that cannot be had or trusted; the text says why."""


class Releases:
    """The release pages, as one command sees them."""

    def __init__(self, base: str | None = None, *, slowest: float = SLOWEST, grace: float = GRACE) -> None:
        self._base = (os.environ.get("TFCLUSTER_RELEASES", "") if base is None else base).rstrip("/")
        self._slowest, self._grace = slowest, grace
        self._silent: dict[str, str] = {}  # host → why it is not asked again
        self._heard: set[str] = set()
        self._told: set[str] = set()

    def fetch(self, release: Release, into: Path, scratch: Path, step: Step) -> None:
        """The binaries of a release, verified, in `into`; raises Unavailable."""
        if self._base == "off":
            raise Unavailable("downloads are switched off (TFCLUSTER_RELEASES=off)")
        name = Path(urlsplit(release.url).path).name
        file = scratch / name
        step.note("looking for the official release")
        wanted = _checksum(self._read(self._placed(release.checksums)), name)
        step.note("fetching the official release")
        got = self._save(self._placed(release.url), file, step)
        if got != wanted:
            raise Unavailable(f"{name} does not have its published checksum")
        if release.members:
            _unpack(file, release.members, into)
        else:
            file.rename(into / name)
            (into / name).chmod(0o755)

    def is_news(self, reason: Unavailable) -> bool:
        """Whether this reason was not told before: a host that is away is so for every tool."""
        text = str(reason)
        return text not in self._told and not self._told.add(text)

    def _placed(self, url: str) -> str:
        """Where the file is really asked for."""
        return f"{self._base}/{url.split('://', 1)[1]}" if self._base else url

    def _read(self, url: str) -> str:
        with self._open(url) as answer:
            return answer.read(1 << 20).decode(errors="replace")

    def _save(self, url: str, file: Path, step: Step) -> str:
        """The file at `url` on disk; its SHA-256."""
        digest = hashlib.sha256()
        began, done = time.monotonic(), 0
        with self._open(url) as answer, file.open("wb") as target:
            total = int(getattr(answer, "headers", {}).get("Content-Length") or 0)
            while chunk := self._chunk(answer, url):
                digest.update(chunk)
                target.write(chunk)
                done += len(chunk)
                step.far(done, total, "B")
                took = time.monotonic() - began
                if took > self._grace and done / took < self._slowest:
                    raise self._give_up(url, f"gives only {size(done / took)} per second")
        if total and done < total:
            raise Unavailable(f"{url} ended after {size(done)} of {size(total)}")
        return digest.hexdigest()

    def _chunk(self, answer: IO[bytes], url: str) -> bytes:
        try:
            # read1: what is there, so that a trickle is noticed as one.
            return answer.read1(CHUNK)  # pyright: ignore[reportAttributeAccessIssue]
        except (OSError, HTTPException) as error:
            raise self._give_up(url, f"broke off ({error})") from error

    def _open(self, url: str) -> IO[bytes]:
        host = urlsplit(url).netloc
        if host not in self._heard and host not in self._silent:
            reason = _unreachable(url)
            if reason:
                self._silent[host] = reason
            self._heard.add(host)
        if host in self._silent:
            raise Unavailable(f"{host} {self._silent[host]}")
        try:
            return urlopen(Request(url, headers={"User-Agent": "tfcluster"}), timeout=STALL)
        except HTTPError as error:
            raise Unavailable(f"{url} answers {error.code}") from error
        except (URLError, HTTPException, OSError) as error:
            raise self._give_up(url, f"does not answer ({getattr(error, 'reason', error)})") from error

    def _give_up(self, url: str, reason: str) -> Unavailable:
        host = urlsplit(url).netloc
        self._silent[host] = reason
        return Unavailable(f"{host} {reason}")


def _unreachable(url: str) -> str:
    """Why no connection to the host of `url` (or to its proxy) comes about in time; empty when it does."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = "" if proxy_bypass(host) else getproxies().get(parts.scheme, "")
    through = urlsplit(proxy) if proxy else parts
    port = through.port or (443 if through.scheme == "https" else 80)
    outcome: list[str] = []

    def connect() -> None:
        try:
            socket.create_connection((through.hostname, port), CONNECT).close()
            outcome.append("")
        except OSError as error:
            outcome.append(f"cannot be reached ({error.strerror or error})")

    # Resolving a name has no timeout of its own: hence a thread that is left behind when it takes too long.
    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(CONNECT)
    return outcome[0] if outcome else f"did not answer in {CONNECT:.0f} s"


def _checksum(text: str, name: str) -> str:
    """The SHA-256 of a file in what is published beside it: lines `hash  name`, or the hash alone."""
    lone = ""
    for line in text.splitlines():
        words = line.split()
        if not words or not re.fullmatch(r"[0-9a-fA-F]{64}", words[0]):
            continue
        if len(words) == 1:
            lone = words[0]
        elif Path(words[-1].lstrip("*")).name == name:
            return words[0].lower()
    if not lone:
        raise Unavailable(f"no SHA-256 is published for {name}")
    return lone.lower()


def _unpack(archive: Path, members: tuple[str, ...], into: Path) -> None:
    """These files of a tar archive, executable, in `into`; nothing else leaves the archive."""
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                member = entry.name.removeprefix("./")
                if member not in members or not entry.isfile():
                    continue
                content = tar.extractfile(entry)
                if content is None:
                    continue
                target = into / Path(member).name
                with content, target.open("wb") as file:
                    while chunk := content.read(CHUNK):
                        file.write(chunk)
                target.chmod(0o755)
    except (tarfile.TarError, EOFError) as error:
        raise Unavailable(f"{archive.name} is not a readable archive ({error})") from error
    missing = [member for member in members if not (into / Path(member).name).exists()]
    if missing:
        raise Unavailable(f"{archive.name} does not contain {', '.join(missing)}")
