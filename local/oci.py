"""Folders → layers → an image that containerd can import.

    layer   one tar file of one folder; the same folder always gives the same digest
    image   a stack of layers, with what runs in it by default, under one reference
    archive what an image is, in the OCI layout

Decided here: what makes a layer deterministic, and how removed files are written down in it. Not decided here: what is
in a layer (image.py) and who imports it (store.py).
"""

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

# No file keeps its own time, so that a layer depends on contents alone. 1980 is the first year that zip can store:
# a program that zips files of the image (a wheel, a model archive) would fail on an older one.
MTIME = 315_532_800

_WHITEOUT = ".wh."  # an empty file of this prefix removes the name from the layers beneath (OCI image-spec, layer.md)
_OPAQUE = ".wh..wh..opq"  # hides everything that lower layers have in its folder
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Layer:
    """An uncompressed tar: its digest is both the blob's and the content's."""

    path: Path
    digest: str
    size: int


@dataclass(frozen=True)
class Settings:
    """What a container of the image does unless the pod says otherwise."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""


@dataclass(frozen=True)
class Image:
    """One image under its full reference."""

    reference: str
    architecture: str
    settings: Settings
    layers: tuple[Layer, ...]

    @property
    def config(self) -> bytes:
        return _json(
            {
                "architecture": self.architecture,
                "os": "linux",
                "config": {
                    "User": self.settings.user,
                    "Env": [f"{name}={value}" for name, value in self.settings.env.items()],
                    "Cmd": list(self.settings.command),
                    "WorkingDir": "/",
                },
                "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in self.layers]},
            }
        )

    @property
    def manifest(self) -> bytes:
        return _json(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": _descriptor("application/vnd.oci.image.config.v1+json", self.config),
                "layers": [
                    {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer.digest, "size": layer.size}
                    for layer in self.layers
                ],
            }
        )

    @property
    def digest(self) -> str:
        """What containerd calls the image's target."""
        return _digest(self.manifest)


def write_layer(tree: Path, target: Path) -> Layer:
    """The folder as a layer. An overlay's upper folder is a layer too: its whiteouts become those of the format."""
    with target.open("wb") as file:
        sink = _Digesting(file)
        # GNU rather than pax: a long name costs one block, and no time or user name is recorded anywhere.
        with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT, copybufsize=_CHUNK) as tar:  # type: ignore[arg-type]
            first_of: dict[tuple[int, int], str] = {}
            for path, name in _below(tree, ""):
                _add(tar, path, name, first_of)
        file.flush()
        os.fsync(file.fileno())  # the layer is on the disk before anything says that it is there
    return Layer(target, f"sha256:{sink.hash.hexdigest()}", sink.size)


def archive(image: Image) -> bytes:
    """The image in the OCI layout, without its layers: for a store that has them already."""
    described = _descriptor("application/vnd.oci.image.manifest.v1+json", image.manifest)
    index = {
        "schemaVersion": 2,
        "manifests": [described | {"annotations": {"io.containerd.image.name": image.reference}}],
    }
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        _add_bytes(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add_bytes(tar, "index.json", _json(index))
        for blob in (image.manifest, image.config):
            _add_bytes(tar, "blobs/" + _digest(blob).replace(":", "/"), blob)
    return file.getvalue()


class _Digesting:
    """A file that knows the digest of what was written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self.size


def _below(folder: Path, prefix: str) -> Iterator[tuple[Path, str]]:
    """Everything in a folder in the order of names, parents first."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path, name = Path(entry.path), f"{prefix}{entry.name}"
        yield path, name
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path, f"{name}/")


def _add(tar: tarfile.TarFile, path: Path, name: str, first_of: dict[tuple[int, int], str]) -> None:
    status = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid, info.mtime = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, MTIME
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        if _opaque(path):
            _add_bytes(tar, f"{name}/{_OPAQUE}", b"")
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        tar.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        inode = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and inode in first_of:
            info.type, info.linkname = tarfile.LNKTYPE, first_of[inode]
            tar.addfile(info)
            return
        first_of[inode] = name
        info.size = status.st_size
        with path.open("rb") as content:
            tar.addfile(info, content)
    elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        parent, _, base = name.rpartition("/")
        _add_bytes(tar, f"{parent}/{_WHITEOUT}{base}" if parent else f"{_WHITEOUT}{base}", b"")
    # Devices, pipes and sockets stay out: a container gets its own.


def _opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, "trusted.overlay.opaque") == b"y"
    except OSError:  # no such attribute, or a file system without any
        return False


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(content), MTIME
    tar.addfile(info, io.BytesIO(content))


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
