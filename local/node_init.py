"""The first process of a node: it makes the node's view of the machine, then buries the dead.

A node sees the machine's files at the machine's paths, so that a hostPath volume means what it says; only what the
kubelet and containerd insist on having at fixed places is the node's own. It runs in mount, PID, network and UTS
namespaces of its own: when it is killed the kernel ends every process and every mount of the node.

Run as `python node_init.py NAME FOLDER`, standard library only: this process stays, so it is kept small.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

# Node's folder → where its programs look for it. Kept on disk, as a real node keeps them.
OWN = {
    "containerd": "/var/lib/containerd",
    "kubelet": "/var/lib/kubelet",
    "pod-logs": "/var/log/pods",
    "container-logs": "/var/log/containers",
}
# What must not outlive the node's processes: sockets, containers that run and the addresses that they have.
OWN_MEMORY = ("/run/containerd", "/run/netns", "/var/lib/cni")
READY = "/run/containerd/.node-ready"  # in the node's memory, so that it goes when the node goes


def main(name: str, folder: Path) -> None:
    socket.sethostname(name)
    # What the machine mounts later is seen here, not the other way round; pods may share mounts with the node.
    _mount("--make-rslave", "/")
    _mount("--make-rshared", "/")
    _mount("-t", "proc", "proc", "/proc")
    for own, place in OWN.items():
        _mount("--bind", str(folder / own), place)
    for place in OWN_MEMORY:
        _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", place)
    if Path("/etc/resolv.conf").exists():
        # The machine's own may name a resolver on its loopback, which is not the node's.
        _mount("--bind", str(folder / "resolv.conf"), "/etc/resolv.conf")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
    Path(READY).touch()
    _reap()


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _reap() -> None:
    signals = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if signal.sigwait(signals) == signal.SIGTERM:
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
