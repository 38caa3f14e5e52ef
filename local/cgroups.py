"""The control groups that the nodes' pods live in: /tfcluster/<node>, on machines with cgroup v1 and v2.

The kubelet makes everything below; here its root is made, so that a limit really holds, and removed, so that nothing
stays.
"""

import os
import time
from pathlib import Path

from modules.errors import EnvironmentFault

MOUNT = Path("/sys/fs/cgroup")
TOP = "tfcluster"

_NEEDED = ("cpu", "memory", "pids")  # without these the kubelet does not start
_USED = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")  # what the kubelet manages where the kernel has it
_REMOVAL_SECONDS = 5.0  # a group is busy until the kernel has buried its last process


def path(node: str) -> str:
    """A node's group, as the kubelet is told."""
    return f"/{TOP}/{node}"


def unified(mount: Path = MOUNT) -> bool:
    """Whether this is cgroup v2 alone."""
    return (mount / "cgroup.controllers").exists()


def missing(mount: Path = MOUNT) -> list[str]:
    """Needed controllers that this machine does not offer."""
    offered = (mount / "cgroup.controllers").read_text().split() if unified(mount) else _names(mount)
    return [name for name in _NEEDED if name not in offered]


def make(node: str, mount: Path = MOUNT) -> None:
    """A node's group in every hierarchy."""
    for hierarchy in [mount] if unified(mount) else _hierarchies(mount):
        folder = hierarchy
        for name in (TOP, node):
            if unified(mount):
                _pass_controllers_down(folder)
            folder = folder / name
            folder.mkdir(exist_ok=True)
            _inherit_cpuset(folder)
        if unified(mount):
            _pass_controllers_down(folder)


def remove(node: str = "", mount: Path = MOUNT) -> None:
    """A node's group with everything below, or that of all nodes."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    tops = [hierarchy / TOP / node for hierarchy in ([mount] if unified(mount) else _hierarchies(mount))]
    while left := [top for top in tops if not _removed(top)]:
        if time.monotonic() > deadline:
            raise EnvironmentFault(f"the control group {left[0]} is still in use", fix=f"see {left[0]}/cgroup.procs")
        time.sleep(0.05)


def _removed(top: Path) -> bool:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _hierarchies(mount: Path) -> list[Path]:
    """Each once: `cpu` is often a link to `cpu,cpuacct`. On a hybrid machine v2 is one of them, as `unified`."""
    return [entry for entry in sorted(mount.iterdir()) if entry.is_dir() and not entry.is_symlink()]


def _names(mount: Path) -> set[str]:
    return {entry.name for entry in mount.iterdir()} if mount.is_dir() else set()


def _pass_controllers_down(folder: Path) -> None:
    """v2: what a group may limit is what the one above it hands down."""
    offered = (folder / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in _USED if name in offered)
    try:
        (folder / "cgroup.subtree_control").write_text(wanted)
    except OSError as error:
        raise EnvironmentFault(
            f"the control group {folder} does not hand its controllers down",
            why=str(error),
            fix="use another Kubernetes: `kind create cluster`, then `context:` in the stack",
        ) from None


def _inherit_cpuset(folder: Path) -> None:
    """v1: a new group has no CPUs and no memory nodes, and so no process may enter it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if not unified(folder) and file.exists() and not file.read_text().strip():
            file.write_text((folder.parent / name).read_text())
