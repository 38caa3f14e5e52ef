"""Talking to a containerd: a private one for a moment, or the one of a node.

Decided here: how a private containerd leaves nothing behind, and how a layer gets into any of them without a copy.
Which images belong where is decided in store.py and image.py.
"""

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local import oci
from modules.errors import EnvironmentFault

NAMESPACE = "k8s.io"  # the one that the kubelet's side of containerd looks into
SNAPSHOTTER = "overlayfs"
CONTENT = "io.containerd.content.v1.content"  # where in its folder it has the contents of images

_KEPT = "containerd.io/gc.root"  # what has this label is not cleared away

_START_SECONDS = 20.0  # it answers in 0.2 s; a busy machine may take its time
_STOP_SECONDS = 10.0
_ATTEMPTS = 5  # containerd clears up after a start and after a removal, each once

# A process that gets SIGTERM when we end, however we end, and whose mounts end with it.
_WITH_US = ("setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "--propagation", "private")

# Contents and snapshots only: no pods, no networks, nothing that wants a device of its own.
_CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
temp = "{state}/tmp"
disabled_plugins = [
  "io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{socket}"
"""


@contextmanager
def private(root: Path, log: Path) -> Iterator[Path]:
    """A containerd on `root`, and its socket. It ends with us, however we end, and its mounts end with it.

    One at a time for one root: the caller sees to that.
    """
    # A short path, because that of a socket has at most 107 characters.
    state = Path("/run") / f"tfcluster-{hashlib.sha256(bytes(root)).hexdigest()[:12]}"
    shutil.rmtree(state, ignore_errors=True)  # of a run that was killed
    config, socket = state / "config.toml", state / "s"
    (state / "tmp").mkdir(parents=True)
    config.write_text(_CONFIG.format(root=root, state=state, socket=socket))
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_WITH_US, "containerd", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone; we end it in order
            )
        try:
            _await(process, socket, log)
            yield socket
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(state, ignore_errors=True)


def has(socket: Path, image: oci.Image) -> bool:
    """Whether it has exactly this image."""
    return image.digest in _ctr(socket, "images", "list", f"name=={image.reference}").split()


def send(socket: Path, root: Path, image: oci.Image) -> None:
    """Give an image to the containerd that has its folder at `root`, and have it unpacked.

    Layers are not sent: each is linked into the folder, where containerd finds it under its digest and takes it over as
    it is. One that is unpacked already, for this image or another, is not unpacked again.
    """
    try:
        for layer in image.layers:
            _give(socket, root, layer)
        with _predecessor_kept(socket, image), tempfile.NamedTemporaryFile() as archive:
            archive.write(oci.archive(image))
            archive.flush()
            _ctr(socket, "images", "import", "--snapshotter", SNAPSHOTTER, archive.name)
    except EnvironmentFault as fault:
        raise EnvironmentFault(
            f"containerd could not take in {image.reference}", why=fault.why, fix=fault.fix
        ) from None
    for layer in image.layers:
        _ctr(socket, "content", "label", layer.digest, f"{_KEPT}=")


@contextmanager
def _predecessor_kept(socket: Path, image: oci.Image) -> Iterator[None]:
    """Keep the image that has the name now, until the new one is unpacked: otherwise containerd clears away what is
    unpacked of the layers that both have, while it counts on them for the new one.
    """
    kept = f"{image.reference}-replaced"
    if image.reference in _ctr(socket, "images", "list", "--quiet").split():
        _ctr(socket, "images", "tag", "--force", image.reference, kept)
    try:
        yield
    finally:
        _ctr(socket, "images", "remove", kept)


def _give(socket: Path, root: Path, layer: oci.Layer) -> None:
    blob = root / CONTENT / "blobs" / layer.digest.replace(":", "/")
    expected = ("--expected-size", str(layer.size), "--expected-digest", layer.digest)
    for attempt in range(_ATTEMPTS):
        # On another file system, or when it is there: containerd makes its own copy of what it reads.
        with contextlib.suppress(OSError):
            blob.parent.mkdir(parents=True, exist_ok=True)
            blob.hardlink_to(layer.path)
        _ctr(socket, "content", "ingest", *expected, f"tfcluster-{layer.digest}", given=layer.path)
        try:
            # Until the image refers to the layer, nothing does: containerd would clear it away.
            _ctr(socket, "content", "label", layer.digest, f"{_KEPT}=until-imported")
            return
        except EnvironmentFault as fault:
            if "not found" not in fault.why or attempt == _ATTEMPTS - 1:
                raise  # "not found": it was cleared away between the two commands


def _await(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if (
            socket.exists()
            and not subprocess.run(_command(socket, "version"), capture_output=True, check=False).returncode
        ):
            return
        time.sleep(0.05)
    raise _fault("containerd does not start", "\n".join(log.read_text(errors="replace").splitlines()[-6:]))


def _command(socket: Path, *arguments: str) -> list[str]:
    return ["ctr", "--address", str(socket), "--namespace", NAMESPACE, *arguments]


def _ctr(socket: Path, *arguments: str, given: Path | None = None) -> str:
    """What ctr says, to the content of the file. Ctrl-C ends it; containerd drops what it did not finish."""
    with (given or Path("/dev/null")).open("rb") as stdin:
        done = subprocess.run(
            _command(socket, *arguments),
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
    if done.returncode:
        raise _fault(f"containerd at {socket} could not do: {' '.join(arguments)}", done.stderr.strip())
    return done.stdout


def _fault(what: str, said: str) -> EnvironmentFault:
    if "no space left on device" in said.lower():
        return EnvironmentFault(
            what, why="the disk is full", fix="free some space, or set TFCLUSTER_CACHE to a folder on a larger disk"
        )
    return EnvironmentFault(what, why=said)
