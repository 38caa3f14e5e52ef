"""Which images were made on this machine, and of which layers: images/made/<reference>.json.

Decided here: that an image is known while all its layers are there.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from local import layers, oci, paths


def keep(image: oci.Image) -> bool:
    """Remember the image, in place of the one that had its name. Whether that was news."""
    file = _folder() / f"{quote(image.reference, safe='')}.json"
    text = json.dumps(asdict(image), indent=2, default=str)
    if file.exists() and file.read_text() == text:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".partial")
    aside.write_text(text)
    aside.rename(file)
    return True


def known() -> Iterator[oci.Image]:
    """Every image that was made and can still be given to a node."""
    for file in sorted(_folder().glob("*.json")):
        said = json.loads(file.read_text())
        stack = [layers.cached(Path(layer["path"]).stem) for layer in said["layers"]]
        there = tuple(layer for layer in stack if layer)
        if len(there) == len(stack):
            settings = said["settings"]
            yield oci.Image(
                reference=said["reference"],
                architecture=said["architecture"],
                settings=oci.Settings(tuple(settings["command"]), settings["env"], settings["user"]),
                layers=there,
            )


def _folder() -> Path:
    return paths.images() / "made"
