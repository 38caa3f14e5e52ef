"""Files that say how to reach the API server, and as whom: the user's own, and one for every part of the cluster.

Certificates and keys stand in them, so that a file can be copied; so only the owner may read them.
"""

import base64
import os
from pathlib import Path

import yaml

from local.paths import LOCAL_CONTEXT as CONTEXT
from local.pki import Pki


def write(file: Path, pki: Pki, identity: str, server: str) -> Path:
    """The file, for this identity; untouched when it says so already."""

    def embedded(source: Path) -> str:
        return base64.b64encode(source.read_bytes()).decode()

    user = {
        "client-certificate-data": embedded(pki.certificate(identity)),
        "client-key-data": embedded(pki.key(identity)),
    }
    cluster = {"server": server, "certificate-authority-data": embedded(pki.authority)}
    content = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": CONTEXT, "user": user}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
            "current-context": CONTEXT,
        },
        sort_keys=False,
    )
    if not file.exists() or file.read_text() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f"{file.name}.partial")
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(content)
        aside.rename(file)
    return file
