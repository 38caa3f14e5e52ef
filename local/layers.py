"""Layers that were made once are kept, under a key of everything that they are made from.

    images/layers/<key>.tar   the layer
    images/layers/<key>.json  its digest and size; written last, so it tells that the tar is whole

Decided here: that a layer is made aside, alone, and comes to be by one rename. Not decided here: what goes into one.
"""

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from local import locks, oci, paths
from local.progress import Progress, Step, size
from modules.errors import EnvironmentFault

# Raise it when the same recipe gives another content: slimming, the form of the tar.
FORMAT = 1


@dataclass(frozen=True)
class Recipe:
    """How to make one layer: `make` fills a folder in a scratch folder of its own, and says which."""

    title: str
    key: str
    make: Callable[[Path, Step], Path]


def key(*inputs: str) -> str:
    """A name for everything that decides what is in a layer."""
    return hashlib.sha256(json.dumps([FORMAT, *inputs]).encode()).hexdigest()[:16]


def cached(name: str) -> oci.Layer | None:
    """The layer of this key, if it was made."""
    about = _folder() / f"{name}.json"
    if not about.exists():
        return None
    return oci.Layer(_folder() / f"{name}.tar", **json.loads(about.read_text()))


def ensure(recipe: Recipe, progress: Progress) -> oci.Layer:
    """The layer, made now if it is not there."""
    if layer := cached(recipe.key):
        return layer
    with progress.step(recipe.title) as step, locks.alone(paths.images() / f".lock-{recipe.key}", step):
        layer = cached(recipe.key) or _make(recipe, step)
        step.outcome = size(layer.size)
    return layer


def prune(keep: Collection[str]) -> None:
    """Remove the layers of other keys: those of images that have been made anew since."""
    for about in _folder().glob("*.json"):
        if about.stem not in keep:
            about.unlink()
            about.with_suffix(".tar").unlink(missing_ok=True)


def _make(recipe: Recipe, step: Step) -> oci.Layer:
    scratch = paths.images() / f"scratch-{recipe.key}"
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed; the lock says that it is nobody's
    target = _folder() / f"{recipe.key}.tar"
    try:
        scratch.mkdir(parents=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        tree = recipe.make(scratch, step)
        step.note("writing the layer")
        written = oci.write_layer(tree, scratch / "layer.tar")
        written.path.rename(target)
        about = scratch / "layer.json"
        about.write_text(json.dumps({"digest": written.digest, "size": written.size}))
        about.rename(target.with_suffix(".json"))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EnvironmentFault(
                f"{recipe.title} could not be made",
                why=f"the disk of {paths.images()} is full",
                fix="free some space, or set TFCLUSTER_CACHE to a folder on a larger disk",
            ) from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return oci.Layer(target, written.digest, written.size)


def _folder() -> Path:
    return paths.images() / "layers"
