"""The embedded cluster as a whole: up, down, status.

`up` makes what should be from what is: the same call starts a cluster, repairs it after a crash or a reboot, and
changes its size. `down` leaves nothing: what the kernel holds goes first, the files last.

Decided here: what these three mean. Not decided here: in which order a cluster comes up (start.py), how its state reads
(status.py).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from local import cgroups, config, daemon, machine, network, node, paths, trees
from local.config import Config
from local.daemon import Started
from local.progress import Progress
from local.status import Status, status
from modules.errors import EnvironmentFault

__all__ = ["Config", "Status", "down", "running", "show_status", "status", "up"]


def running() -> Config | None:
    """The choices of the cluster whose API server runs here; None when there is none."""
    there = any(one.name == "kube-apiserver" for one in daemon.running(paths.cluster()))
    return config.load() if there else None


def up(
    nodes: int | None = None, gpus: int | None = None, control_plane_only: bool = False, kwok: int | None = None
) -> None:
    """Have the cluster run as asked; what is not asked for stays as it is."""
    # Late: each of these costs a tenth of a second that `status` and `down` need not spend.
    from local import debian, image, tools
    from local.start import Start

    with Progress("cluster") as progress, _alone(progress):
        wanted = config.chosen(config.load(), nodes=nodes, gpus=gpus, control_plane_only=control_plane_only, kwok=kwok)
        machine.refuse_second_cluster(paths.cluster())
        if wanted.nodes:
            machine.check_for_nodes()
        if warning := machine.check_disk():
            progress.say(f"warning: {warning}")
        groups = ["kubernetes"] + ["coredns"] * bool(wanted.nodes) + ["kwok"] * bool(wanted.kwok)
        toolchain = tools.ensure(*groups, progress=progress)
        if wanted.nodes:
            debian.ensure_packages(*debian.CLUSTER, progress=progress)
            image.basics(progress)
        start = Start(wanted, toolchain, progress)
        start.run()
        progress.say(_done(start.started))
    print(_closing_words(wanted, str(toolchain.path("kubectl"))), file=sys.stderr)


def down() -> None:
    """End the cluster and remove every trace of it, its data too."""
    state = paths.cluster()
    if not state.exists() and not daemon.marked(state) and network.owner() != network.alias(state):
        print("cluster: there is none here", file=sys.stderr)
        return
    with Progress("cluster") as progress, _alone(progress), progress.step("down") as step:
        marked = daemon.marked(state)
        step.note(f"{len(marked)} processes")
        # The first processes of nodes go first: with them the kernel ends all that is in a node, pods too.
        daemon.stop([one for one in marked if one.mark["name"].endswith("/init") and one.is_daemon], grace=0)
        daemon.stop(daemon.marked(state), grace=0)
        step.note("network and control groups")
        network.remove(state)
        cgroups.remove()
        node.remove_places(state)
        step.note("files")
        _remove_files(state)


def show_status(output: str) -> int:
    """Print what `status` says; the exit code."""
    found = status()
    print(found.to_json() if output == "json" else found.to_table())
    return 0 if found.healthy else EnvironmentFault.exit_code


@contextmanager
def _alone(progress: Progress) -> Iterator[None]:
    """One `up` or `down` at a time. The lock is the kernel's: it ends with its holder, however that ends."""
    paths.cache().mkdir(parents=True, exist_ok=True)
    # Not in the cluster's folder, which `down` removes.
    lock = FileLock(paths.cache() / "cluster.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress.say("waiting: another `local up` or `local down` is at work")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _remove_files(state: Path) -> None:
    """Never through a mount: what lies behind one is not ours."""
    inside = f" {state}/"
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if inside in line]
    if mounted:
        raise EnvironmentFault(f"{mounted[0]} is a mount in the cluster's folder", fix=f"umount {mounted[0]}")
    trees.remove(state)


def _done(started: list[Started]) -> str:
    changed = [f"{one.daemon.name} {one.action}" for one in started if one.action != "kept"]
    if not changed:
        return "everything runs as it should; nothing to do"
    if len(changed) == len(started):
        return "started"
    return f"{', '.join(changed)}; the rest was running"


def _closing_words(settled: Config, kubectl: str) -> str:
    lines = []
    if settled.gpus:
        lines.append(
            f"Each node says that it has {settled.gpus} nvidia.com/gpu. They are not real: no CUDA, no driver."
        )
    if settled.kwok:
        lines.append(f"{settled.kwok} nodes are played by kwok: pods there never run.")
    if settled.control_plane_only and not settled.kwok:
        lines.append("There are no nodes: pods stay pending.")
    lines += ["", "Use it:", f"  export KUBECONFIG={paths.kubeconfig()}", f"  {kubectl} get nodes", ""]
    lines.append("State and health: ./tfcluster local status     End: ./tfcluster local down")
    return "\n".join(lines)
