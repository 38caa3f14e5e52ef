"""A node: a set of namespaces with a first process, a folder on disk, a control group and a cable.

Decided here: how a node comes to be, is found, is entered, and goes. Not decided here: what runs in it
(node_daemons.py), what it sees of the machine (node_init.py), its addresses (network.py).
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from local import cgroups, config, daemon, network, node_init, paths, trees
from local.daemon import Daemon, Running
from local.site import Site
from modules.errors import EnvironmentFault

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"  # as programs in the node see it


@dataclass(frozen=True)
class Node:
    """One node. `pid` is that of its first process, seen from the machine; 0 while it does not run."""

    index: int
    folder: Path
    pid: int = 0

    @property
    def name(self) -> str:
        return f"tfcluster-{self.index}"

    @property
    def ip(self) -> str:
        return network.node_ip(self.index)

    @property
    def containerd_root(self) -> Path:
        """Its images and containers on disk."""
        return self.folder / "containerd"

    @property
    def containerd_socket(self) -> Path:
        """Its containerd, seen from the machine; a path that is short enough for a socket wherever the cache lies."""
        return self.seen_from_machine(CONTAINERD_SOCKET)

    def seen_from_machine(self, path: str) -> Path:
        """A path of the node's own file system."""
        return Path(f"/proc/{self.pid}/root{path}")

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command that runs `command` in the node."""
        if not self.pid:
            raise EnvironmentFault(f"node {self.name} does not run", fix="./tfcluster local up")
        # Not `ip netns exec`, which mounts another /sys, without control groups.
        return ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--uts", "--", *command]

    def found_in(self, running: Sequence[Running]) -> "Node":
        """The same node with the pid that it has now."""
        pids = [one.process.pid for one in running if one.name == init_name(self) and one.alive()]
        return replace(self, pid=pids[0] if pids else 0)


def at(index: int) -> Node:
    name = f"tfcluster-{index}"
    return Node(index, paths.cluster() / "nodes" / name)


def running_nodes() -> tuple[Node, ...]:
    """The nodes that can be entered now."""
    settings = config.load()
    if settings is None or not settings.nodes:
        return ()
    running = daemon.running(paths.cluster())
    nodes = (at(index).found_in(running) for index in range(1, settings.nodes + 1))
    return tuple(node for node in nodes if node.pid)


def beyond(count: int) -> list[Node]:
    """Nodes that have a folder here, but a number above `count`; the highest first."""
    folders = (paths.cluster() / "nodes").glob("tfcluster-*")
    indexes = [int(folder.name.rpartition("-")[2]) for folder in folders]
    return [at(index) for index in sorted(indexes, reverse=True) if index > count]


def init_name(node: Node) -> str:
    return f"{node.name}/init"


def init(site: Site, node: Node) -> Daemon:
    """The first process of a node."""
    # The interpreter itself, not that of a virtual environment: a new one must not restart the node.
    python = os.path.realpath(sys.executable)
    program = Path(node_init.__file__).resolve()

    def check() -> str:
        found = node.found_in(daemon.running(site.state))
        ready = found.pid and found.seen_from_machine(node_init.READY).exists()
        return "" if ready else "its mounts are not made yet"

    return Daemon(
        init_name(node),
        site.state,
        (python, "-I", "-S", str(program), node.name, str(node.folder)),
        check=check,
        inputs=(program,),
        within=lambda: ["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child"],
    )


def prepare(node: Node) -> None:
    """What has to be there before its first process starts."""
    for own in node_init.OWN:
        (node.folder / own).mkdir(parents=True, exist_ok=True)
    (node.folder / "resolv.conf").write_text(_resolv_conf())
    _make_places()
    cgroups.make(node.name)


def remove(node: Node) -> None:
    """What is left of a node whose processes have ended."""
    cgroups.remove(node.name)
    trees.remove(node.folder)


def places_made(state: Path) -> list[str]:
    """The folders that were not on the machine before its first node."""
    file = _places_file(state)
    return json.loads(file.read_text()) if file.exists() else []


def remove_places(state: Path) -> None:
    """Give the machine back without them."""
    for place in reversed(places_made(state)):
        if Path(place).is_dir() and not any(Path(place).iterdir()):
            Path(place).rmdir()


def _make_places() -> None:
    """A place that a node mounts its own over must exist on the machine. Noted first: it goes with the cluster."""
    state = paths.cluster()
    missing: list[Path] = []
    for place in map(Path, (*node_init.OWN.values(), *node_init.OWN_MEMORY)):
        missing += [
            folder for folder in (*reversed(place.parents), place) if not folder.exists() and folder not in missing
        ]
    if missing:
        noted = [*places_made(state), *map(str, missing)]
        _places_file(state).write_text(json.dumps(list(dict.fromkeys(noted))))
        for folder in missing:
            folder.mkdir()


def _places_file(state: Path) -> Path:
    return state / "places-made.json"


def _resolv_conf() -> str:
    """Every name through the cluster's DNS, with the machine's search domains."""
    machine = Path("/etc/resolv.conf")
    lines = machine.read_text(errors="replace").splitlines() if machine.exists() else []
    search = [line for line in lines if line.split()[:1] in (["search"], ["domain"])]
    return "\n".join([f"nameserver {network.HOST_IP}", *search, ""])
