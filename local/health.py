"""Asking a part of the cluster whether it is well. An answer is "" for yes, or the reason why not."""

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from local.pki import Pki

_TIMEOUT = 2.0  # seconds; they answer in milliseconds


def https(url: str, pki: Pki, identity: str) -> str:
    """A health page behind TLS, asked as one of our identities; the server's certificate must be ours too."""
    if not pki.certificate(identity).exists():
        return "its certificate is missing"
    context = ssl.create_default_context(cafile=str(pki.authority))
    context.load_cert_chain(pki.certificate(identity), pki.key(identity))
    return _answer(url, urllib.request.HTTPSHandler(context=context))


def http_page(url: str) -> str:
    return _answer(url)


def unix_socket(path: Path) -> str:
    """Whether something listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_TIMEOUT)
        try:
            probe.connect(str(path))
        except OSError as error:
            return f"its socket: {error.strerror or error}"
    return ""


def _answer(url: str, *handlers: urllib.request.BaseHandler) -> str:
    # No proxy: the user's is for the world outside.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)
    try:
        with opener.open(url, timeout=_TIMEOUT):
            return ""
    except urllib.error.HTTPError as error:
        body = error.read().decode(errors="replace")
        failing = [line for line in body.splitlines() if line.startswith("[-]")] or [body[:100].strip()]
        return f"{url} answers {error.code}: {'; '.join(failing)}"
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        return f"{url}: {getattr(error, 'reason', error)}"
