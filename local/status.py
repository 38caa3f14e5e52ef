"""How the cluster is: every part with its health and memory, every node, the whole.

Decided here: what is asked and how it is shown. Nothing is changed by asking.
"""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil

from local import config, daemon, node, paths, tools, versions
from local.daemon import Daemon, Marked, Running
from local.progress import size
from local.site import Site

MEMORY_BOUND = int(1.2 * (1 << 30))  # bytes: of an idle cluster with one node
_PATIENCE = 3.0  # seconds that the API server gets to say how the nodes are


@dataclass(frozen=True)
class Part:
    """One daemon."""

    name: str
    pid: int | None
    problem: str  # "" when it is well
    memory: int  # bytes, its share of shared pages included; with what it started outside of containers
    log: str


@dataclass(frozen=True)
class NodeState:
    """One node, as the API server knows it."""

    name: str
    problem: str  # "" when it is ready
    gpus: int


@dataclass(frozen=True)
class Status:
    """The whole cluster. Without one, `exists` is false and everything else empty."""

    exists: bool
    control_plane_only: bool = False
    parts: tuple[Part, ...] = ()
    nodes: tuple[NodeState, ...] = ()
    kubernetes: str = ""
    kubeconfig: str = ""

    @property
    def healthy(self) -> bool:
        return self.exists and not any(one.problem for one in (*self.parts, *self.nodes))

    @property
    def memory(self) -> int:
        return sum(part.memory for part in self.parts)

    def to_json(self) -> str:
        derived = {"healthy": self.healthy, "memory": self.memory, "memory_bound": MEMORY_BOUND}
        return json.dumps(dataclasses.asdict(self) | derived, indent=2)

    def to_table(self) -> str:
        if not self.exists:
            return "no cluster is here; start one: ./tfcluster local up"
        rows = [("PART", "PID", "HEALTH", "MEMORY", "LOG")]
        rows += [
            (part.name, str(part.pid or "-"), part.problem or "well", size(part.memory) if part.pid else "-", part.log)
            for part in self.parts
        ]
        rows += [("", "", "", "", ""), ("NODE", "", "HEALTH", "GPUS", "")]
        rows += [
            (one.name, "", one.problem or "ready", f"{one.gpus} (not real)" if one.gpus else "0", "")
            for one in self.nodes
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        within = "within" if self.memory <= MEMORY_BOUND else "above"
        lines += [
            "",
            f"memory: {size(self.memory)} in all ({within} the {size(MEMORY_BOUND)} of an idle cluster)",
            f"Kubernetes {self.kubernetes}; export KUBECONFIG={self.kubeconfig}",
        ]
        if not self.healthy:
            lines.append("something is wrong: ./tfcluster local up repairs what died")
        return "\n".join(lines)


def status() -> Status:
    """The cluster as it is now."""
    from local import start

    settings = config.load()
    if settings is None:
        return Status(exists=False)
    found = tools.found("kubernetes")
    # Where a program lies does not matter for asking how it is.
    site = Site(settings, Path)
    marked = daemon.marked(site.state)
    alive = daemon.running(site.state)
    nodes = [node.at(index).found_in(alive) for index in range(1, settings.nodes + 1)]
    with ThreadPoolExecutor(8) as pool:
        parts = tuple(pool.map(lambda one: _part(one, alive, marked), start.everything(site, nodes)))
    return Status(
        exists=True,
        control_plane_only=settings.control_plane_only,
        parts=parts,
        nodes=_nodes(settings),
        kubernetes=versions.KUBERNETES if isinstance(found, tools.Missing) else found.version("kube-apiserver"),
        kubeconfig=str(paths.kubeconfig()),
    )


def _part(wanted: Daemon, alive: tuple[Running, ...], marked: tuple[Marked, ...]) -> Part:
    mine = [one for one in alive if one.name == wanted.name]
    problem = "it does not run" if not mine else wanted.check()
    memory = sum(_memory(one.process) for one in marked if one.mark["name"] == wanted.name)
    return Part(wanted.name, mine[0].process.pid if mine else None, problem, memory, str(wanted.log))


def _memory(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss
    except psutil.Error:  # it ended meanwhile
        return 0


def _nodes(settings: config.Config) -> tuple[NodeState, ...]:
    names = [node.at(index).name for index in range(1, settings.nodes + 1)]
    if not (names or settings.kwok):
        return ()
    from local import api

    try:
        known = api.Api(paths.kubeconfig(), retries=0).nodes(timeout=_PATIENCE)
    except api.FAILURES as error:
        return tuple(NodeState(name, f"unknown: {api.in_words(error)}", 0) for name in names)
    found = [NodeState(name, api.unready(known.get(name)), api.gpus(known.get(name))) for name in names]
    if settings.kwok:
        fakes = [one for name, one in known.items() if name.startswith(api.FAKE_PREFIX)]
        ready = sum(not api.unready(one) for one in fakes)
        problem = "" if ready == settings.kwok else f"{ready} of {settings.kwok} ready"
        found.append(NodeState(f"{settings.kwok} played by kwok", problem, sum(map(api.gpus, fakes))))
    return tuple(found)
