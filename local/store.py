"""The golden store: a containerd folder with our images unpacked, made once and linked into every node.

    add(image)        import an image, by a private containerd that lives for that long
    seed(node_root)   a node's containerd folder, in a second and for no space

Contents and unpacked files are hard links: containerd never changes either in place (a container writes to a layer of
its own), so a node may go away, or the golden store may, without hurting the other. The databases are real copies.

Decided here: what is shared and what is copied, and that a store which was left in the middle of a change is thrown
away. Not decided here: which images there are (image.py) and what is in them (oci.py).
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from local import containerd, oci, paths
from modules.errors import EnvironmentFault

_SNAPSHOTTER = f"io.containerd.snapshotter.v1.{containerd.SNAPSHOTTER}"
_SHARED = (f"{containerd.CONTENT}/blobs", f"{_SNAPSHOTTER}/snapshots")
_COPIED = ("io.containerd.metadata.v1.bolt/meta.db", f"{_SNAPSHOTTER}/metadata.db")


def golden() -> Path:
    """containerd's root folder with everything unpacked."""
    return paths.store() / "golden"


def has(image: oci.Image) -> bool:
    """Whether exactly this image is there, complete."""
    return not _unfinished().exists() and _recorded().get(image.reference) == image.digest


def add(image: oci.Image) -> None:
    """Import and unpack an image, unless it is there."""
    with _locked():
        _drop_if_unfinished()
        if has(image):
            return
        _unfinished().touch()
        golden().mkdir(exist_ok=True)
        with containerd.private(golden(), paths.logs() / "containerd-store.log") as socket:
            containerd.send(socket, golden(), image)
        _record(image)
        _unfinished().unlink()


def seed(node_root: Path) -> None:
    """Fill the containerd root of a node that never ran. One that has something in it is left as it is."""
    if node_root.exists() and any(node_root.iterdir()):
        return
    with _locked():
        _drop_if_unfinished()
        if not golden().exists():
            raise EnvironmentFault("there is no image that a node could start with", fix="./tfcluster local image")
        aside = node_root.with_name(f"{node_root.name}.partial")
        shutil.rmtree(aside, ignore_errors=True)
        for name in _SHARED:
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            _link_tree(golden() / name, aside / name)
        for name in _COPIED:
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(golden() / name, aside / name)
        # As containerd makes it: containers of other users pass through, nobody but root lists it.
        aside.chmod(0o711)
        if node_root.exists():
            node_root.rmdir()
        aside.rename(node_root)


def _link_tree(source: Path, target: Path) -> None:
    """A copy whose files are the same files; on another file system, a real copy."""
    same = target.parent.stat().st_dev == source.stat().st_dev
    how = "--link" if same else "--reflink=auto"
    done = subprocess.run(
        ["cp", "--archive", how, str(source), str(target)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise EnvironmentFault(f"{target} could not be filled with images", why=said[-1] if said else "cp failed")


def _record(image: oci.Image) -> None:
    aside = _records().with_suffix(".partial")
    aside.write_text(json.dumps(_recorded() | {image.reference: image.digest}, indent=2))
    aside.rename(_records())


def _recorded() -> dict[str, str]:
    return json.loads(_records().read_text()) if _records().exists() else {}


def _records() -> Path:
    return paths.store() / "images.json"


def _unfinished() -> Path:
    """There while the golden store is being changed."""
    return paths.store() / "unfinished"


def _drop_if_unfinished() -> None:
    if _unfinished().exists():
        shutil.rmtree(golden(), ignore_errors=True)
        _records().unlink(missing_ok=True)
        _unfinished().unlink()


@contextmanager
def _locked() -> Iterator[None]:
    paths.store().mkdir(parents=True, exist_ok=True)
    with FileLock(paths.store() / "lock"):
        yield
