"""Images without a registry: made from Debian packages and PyPI wheels, and put into every node.

    ensure()                                    tfcluster.local/tensorflow:<version>, the image of the examples
    ensure("mylab/train:1", Path("reqs.txt"))   the same with your packages on top
    basics()                                    what a node needs before its first pod, and all that was made before

Decided here: which images there are, what they are stacked from, and what their names may be. How a layer is made is in
rootfs.py and wheels.py, how images get into containerd in store.py.
"""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from local import containerd, debian, layers, locks, oci, paths, recipes, records, rootfs, store, wheels
from local.progress import Progress
from modules.errors import EnvironmentFault, Problem, SpecError

# As a pod names them. The host in front is nowhere: a node that lacks the image asks nobody for it.
PAUSE = "tfcluster.local/pause:1"
BUSYBOX = "tfcluster.local/busybox:1"
TENSORFLOW = f"tfcluster.local/tensorflow:{recipes.tensorflow_version()}"

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Holds a pod's namespaces. With a shared process namespace it is everyone's parent in the end: `wait` takes in what
# they leave; and it must not ignore SIGTERM, as a first process does that has no handler for it.
_PAUSE_PROGRAM = "trap exit TERM INT; while :; do sleep 2147483647 & wait; done"

_TENSORFLOW_SETTINGS = oci.Settings(
    command=("python3",),
    env={
        "PATH": f"{wheels.VENV}/bin:{_SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        # With a read-only root, /tmp (an emptyDir) is where a program may write; many write to their home.
        "HOME": "/tmp",
        # A line that a training prints is in `kubectl logs` at once, and not lost when it is killed.
        "PYTHONUNBUFFERED": "1",
    },
    # By number, so that `runAsNonRoot` can be checked; Pod Security "restricted" asks for it.
    user="1000:1000",
)


def ensure(name: str = TENSORFLOW, requirements: Path | None = None, progress: Progress | None = None) -> str:
    """Make the image unless it is made, put it where it is missing, and return the name for a stack's `image:`."""
    reference = full_reference(name)
    if (requirements is None) != _is_ours(reference):
        raise _misnamed(name, requirements)
    with _shown(progress) as shown:
        image = _made(reference, requirements, shown)
        _into_store(image, shown)
        _into_nodes(image, shown)
    return name


def basics(progress: Progress | None = None) -> None:
    """What a node needs before its first pod, and every image that was made before: all in the golden store."""
    with _shown(progress) as shown:
        for name in (PAUSE, BUSYBOX):
            _made(full_reference(name), None, shown)
        for image in records.known():
            _into_store(image, shown)


def main(requirements: Path | None, name: str | None) -> int:
    """The call `tfcluster local image`."""
    print(f"image: {ensure(name or TENSORFLOW, requirements)}")
    return 0


def full_reference(name: str) -> str:
    """The name as containerd stores it: `mylab/train:1` is docker.io/mylab/train:1."""
    host, slash, rest = name.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, rest = "docker.io", name if slash else f"library/{name}"
    word = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
    matched = re.fullmatch(rf"{word}(?:/{word})*:(\w[\w.-]{{0,127}})", rest, re.ASCII)
    if not matched or not re.fullmatch(r"[\w.-]+(:\d+)?", host, re.ASCII) or matched[1] == "latest":
        # Kubernetes asks a registry for `latest` (or no tag) each time, and there is none.
        fix = "like mylab/train:1, in small letters, not :latest"
        raise _bad("--name", "not an image name with a tag of its own", name, fix)
    return f"{host}/{rest}"


def _made(reference: str, requirements: Path | None, progress: Progress) -> oci.Image:
    """The image, its layers made and on record."""
    with locks.in_use(paths.images()):
        image = _make(reference, requirements, progress)
        if not records.keep(image):
            return image
    with locks.unused(paths.images()) as nobody:
        if nobody:  # who is making an image may count on layers that no record names yet
            layers.prune({layer.path.stem for known in records.known() for layer in known.layers})
    return image


def _make(reference: str, requirements: Path | None, progress: Progress) -> oci.Image:
    _need_root()
    release = rootfs.of_this_machine()
    debian.ensure_packages(*debian.IMAGE, *debian.CLUSTER, progress=progress)
    pause = full_reference(PAUSE)
    if reference in (pause, full_reference(BUSYBOX)):
        layer = layers.ensure(recipes.busybox(), progress)
        command = ("sh", "-c", _PAUSE_PROGRAM) if reference == pause else ("sh",)
        user = "65535:65535" if reference == pause else ""
        settings = oci.Settings(command, {"PATH": _SYSTEM_PATH}, user)
        return oci.Image(reference, release.architecture, settings, (layer,))
    stack = recipes.tensorflow(release, requirements)
    return oci.Image(
        reference,
        release.architecture,
        _TENSORFLOW_SETTINGS,
        tuple(layers.ensure(recipe, progress) for recipe in stack),
    )


def _into_store(image: oci.Image, progress: Progress) -> None:
    if not store.has(image):
        with progress.step(f"unpacking {_short(image)}"):
            store.add(image)


def _into_nodes(image: oci.Image, progress: Progress) -> None:
    """Nodes that start later get it from the store; those that run are sent it, side by side."""
    from local import node

    def send(running: node.Node) -> None:
        try:
            if not containerd.has(running.containerd_socket, image):
                with progress.step(f"{_short(image)} → {running.name}"):
                    containerd.send(running.containerd_socket, running.containerd_root, image)
        except EnvironmentFault as fault:
            what = f"{running.name} did not get {_short(image)}"
            raise EnvironmentFault(
                what, why=str(fault), fix="./tfcluster local up repairs the node; then run this again"
            ) from None

    nodes = node.running_nodes()
    if nodes:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(send, nodes))


def _short(image: oci.Image) -> str:
    return image.reference.removeprefix("docker.io/")


def _need_root() -> None:
    if os.geteuid():
        raise EnvironmentFault(
            "images are made by root only",
            why="a minimal Debian is unpacked with its owners, and containerd mounts file systems",
            fix="sudo ./tfcluster local image; or, in a cluster that pulls images, name one in the stack's `image:`",
        )


@contextmanager
def _shown(progress: Progress | None) -> Iterator[Progress]:
    if progress:
        yield progress
        return
    with Progress("image") as own:
        yield own


def _is_ours(reference: str) -> bool:
    return reference in {full_reference(name) for name in (PAUSE, BUSYBOX, TENSORFLOW)}


def _misnamed(name: str, requirements: Path | None) -> SpecError:
    if requirements:
        return _bad("--name", "this one is tfcluster's own; yours needs another", name, "like --name mylab/train:1")
    return _bad(
        "--requirements", "an image of your own needs a file with its packages", "nothing", "--requirements FILE"
    )


def _bad(path: str, rule: str, got: str, fix: str) -> SpecError:
    return SpecError([Problem(path, rule, got, fix)], "tfcluster local image")
