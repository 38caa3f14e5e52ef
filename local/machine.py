"""Whether this machine can carry the cluster, and whether it carries another one already.

What stands in the way is told in one error, with the way out: any other Kubernetes serves as well.
"""

import os
import platform
import shutil
from pathlib import Path

import psutil

from local import cgroups, network, paths
from local.progress import size
from modules.errors import EnvironmentFault

_WAY_OUT = (
    "use another Kubernetes: `kind create cluster` (with Docker), then `context: kind-kind` in the stack;"
    " for the API alone, without pods: ./tfcluster local up --control-plane-only"
)
# Bits in CapEff: without them a root, as that of many containers is, cannot make what a node is made of.
_CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12}

_DISK_NEEDED = 512 << 20  # bytes: logs, etcd, what pods write at their start
_DISK_TIGHT = 3 << 30  # below this an image is likely not to fit any more


def check_for_nodes() -> None:
    """Everything that a node needs of the machine, other than installed programs."""
    if platform.system() != "Linux":
        raise EnvironmentFault(f"nodes need Linux, and this is {platform.system()}", fix=_WAY_OUT)
    if os.geteuid() != 0:
        raise EnvironmentFault(
            "nodes need root",
            why="they are made of network and mount namespaces",
            fix=f"run it with sudo, or {_WAY_OUT}",
        )
    reasons = []
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    lacking = [name for name, bit in _CAPABILITIES.items() if not int(held.split()[1], 16) >> bit & 1]
    if lacking:
        reasons.append(f"this root lacks {' and '.join(lacking)}: probably a container without --privileged")
    if absent := cgroups.missing():
        reasons.append(f"no control group for {', '.join(absent)} under {cgroups.MOUNT}")
    if not lacking and not os.access(cgroups.MOUNT, os.W_OK):
        reasons.append(f"{cgroups.MOUNT} is read-only")
    if "\toverlay" not in Path("/proc/filesystems").read_text() and not Path("/sys/module/overlay").exists():
        reasons.append("no overlay file system in this kernel (try: modprobe overlay)")
    if reasons:
        raise EnvironmentFault("this machine cannot carry nodes", why="; ".join(reasons), fix=_WAY_OUT)


def check_disk() -> str:
    """A warning when the disk is nearly full; an error when nothing would start any more."""
    folder = paths.cluster()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < _DISK_NEEDED:
        raise EnvironmentFault(
            f"the disk of {paths.cache()} is full",
            why=f"{size(free)} are free, the cluster needs {size(_DISK_NEEDED)} to start",
            fix="free some space, or set TFCLUSTER_CACHE to a folder on a larger disk",
        )
    return f"only {size(free)} are free on the disk of {paths.cache()}" if free < _DISK_TIGHT else ""


def refuse_second_cluster(state: Path) -> None:
    """One cluster a machine: they would share addresses, and the context's name."""
    other = _running_elsewhere(state) or _bridge_elsewhere(state)
    if other:
        folder, user = other
        as_user = f" as {user}" if user and user != psutil.Process().username() else ""
        raise EnvironmentFault(
            "another tfcluster cluster is on this machine",
            why=f"its folder is {folder}" + (f", its user {user}" if user else ""),
            fix=f"use it, or stop it first{as_user}: TFCLUSTER_CACHE={folder.parent} ./tfcluster local down",
        )


def _running_elsewhere(state: Path) -> tuple[Path, str] | None:
    """Every cluster has an etcd, and everybody may see how it was called."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if "--name=tfcluster" not in words:
                continue
            data = next(word for word in words if word.startswith("--data-dir=")).partition("=")[2]
            if Path(data).parent != state:
                return Path(data).parent, process.username()
        except (psutil.Error, StopIteration):
            continue
    return None


def _bridge_elsewhere(state: Path) -> tuple[Path, str] | None:
    """A cluster that crashed keeps its bridge. One whose folder is gone as well is nobody's any more."""
    owner = network.owner() if shutil.which("ip") else ""
    if owner and owner != network.alias(state) and Path(owner).exists():
        return Path(owner), ""
    return None
