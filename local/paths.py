"""Where everything that tfcluster makes for itself lies on disk.

    venv/<hash>/                     Python environments
    tools/<tool>-<version>-<key>/    one folder per tool, `bin/` in it
    downloads/                       release archives on their way in
    go/{mod,build,toolchain}         what compiling needs
    pulumi/                          PULUMI_HOME of our own Pulumi (its plugins)
    logs/  images/  store/
    cluster/                         all state of the one embedded cluster; `local down` removes it

Decided here: names and places. Nothing is created here, and importing this costs nothing: the folders are functions, so
that the environment is read when they are asked for.
"""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

# The name under which the embedded cluster stands in its kubeconfig, and in `context:` of a stack.
LOCAL_CONTEXT = "tfcluster-local"


def cache() -> Path:
    """The root of the cache: TFCLUSTER_CACHE, else the user's cache folder."""
    chosen = os.environ.get("TFCLUSTER_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path here is to be ignored.
    base = Path(xdg) if xdg.startswith("/") else Path.home() / ".cache"
    return base / "tfcluster"


def venvs() -> Path:
    return cache() / "venv"


def tools() -> Path:
    return cache() / "tools"


def downloads() -> Path:
    return cache() / "downloads"


def go() -> Path:
    return cache() / "go"


def pulumi_home() -> Path:
    return cache() / "pulumi"


def logs() -> Path:
    return cache() / "logs"


def images() -> Path:
    return cache() / "images"


def store() -> Path:
    return cache() / "store"


def cluster() -> Path:
    return cache() / "cluster"


def kubeconfig() -> Path:
    return cluster() / "kubeconfig"
