"""The numbers that the project holds itself to: `python -m tests.bench` measures them and fails when one is broken.

Decided here: what each number means and how it is taken. These are measurements, not tests: the machine's load is in
them, so nothing but this program asserts on time.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from local import tools
from modules import manifests, spec, stackfile
from modules import plan as planning
from modules.errors import SpecError
from tests import loopback

RUNS = 5
MIB = 2**20

# One role cannot have 10,000 replicas: the addresses in TF_CONFIG end at what Linux takes as one variable. So the
# replicas are four companion roles beside a chief; that is as many addresses in as many bytes.
TEN_THOUSAND: dict[str, Any] = {
    "image": "x",
    "name": "t",
    "roles": {"chief": {}, **{f"part-{letter}": {"replicas": 2_500} for letter in "abcd"}},
}


@dataclass(frozen=True)
class Row:
    """One number: what it is, what it must be, what it is here."""

    what: str
    bound: str
    measured: str
    holds: bool | None  # None: not measured on this machine


def workers(count: int) -> dict[str, Any]:
    return {"image": "x", "name": "t", "roles": {"chief": {}, "ps": {}, "worker": {"replicas": count}}}


def rendered(settings: dict[str, Any]) -> list[manifests.Manifest]:
    return manifests.render(planning.plan(spec.load(settings, stack="t")))


def milliseconds(*actions: Callable[[], object]) -> list[float]:
    """The fastest of some runs of each, which is the least disturbed; by turns, so that all meet the same machine."""
    taken: list[list[float]] = [[] for _ in actions]
    for _ in range(RUNS):
        for action, times in zip(actions, taken, strict=True):
            started = time.perf_counter()
            action()
            times.append((time.perf_counter() - started) * 1000)
    return [min(times) for times in taken]


def ran(*command: str, cwd: Path = stackfile.PROJECT, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def plan_and_render() -> Iterator[Row]:
    (taken,) = milliseconds(lambda: rendered(TEN_THOUSAND))
    yield Row("plan + render, 10,000 replicas in 5 roles", "< 150 ms", f"{taken:.0f} ms", taken < 150)
    program = (
        "import resource; from tests import bench; bench.rendered(bench.TEN_THOUSAND); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=stackfile.PROJECT, capture_output=True, check=True)
    peak = int(done.stdout) / MIB
    yield Row("  peak memory of the whole process", "< 100 MiB", f"{peak:.0f} MiB", peak < 100)
    most = most_workers()
    yield Row("most workers in one TF_CONFIG", "", f"{most:,}", None)
    (taken,) = milliseconds(lambda: rendered(workers(most)))
    yield Row("  plan + render of these", "< 150 ms", f"{taken:.0f} ms", taken < 150)


def most_workers() -> int:
    low, high = 1, spec.MAX_REPLICAS
    while low < high:
        middle = (low + high + 1) // 2
        try:
            rendered(workers(middle))
            low = middle
        except SpecError:
            high = middle - 1
    return low


def object_counts() -> Iterator[Row]:
    few, many = len(rendered(workers(1))), len(rendered(workers(4_000)))
    yield Row("objects of 3 roles: 1 and 4,000 workers", "the same", f"{few} and {many}", few == many)


def render_cold() -> Iterator[Row]:
    python, render = milliseconds(
        lambda: ran(sys.executable, "-c", "pass"),
        lambda: ran(sys.executable, "-m", "modules.cli", "render", "-s", "local"),
    )
    yield Row("tfcluster render -s local, a new process", "< 600 ms", f"{render:.0f} ms", render < 600)
    yield Row("  times `python -c pass`", "", f"{render / python:.1f} ({python:.0f} ms)", None)


# As many objects as ours, of the same kinds and in the same order – Jobs after the map – and nothing else.
BARE = """
    import pulumi
    from pulumi_kubernetes import Provider
    from pulumi_kubernetes.batch.v1 import Job
    from pulumi_kubernetes.core.v1 import ConfigMap, Service
    from pulumi_kubernetes.networking.v1 import NetworkPolicy

    opts = pulumi.ResourceOptions(provider=Provider("cluster", context="there"))
    barrier = ConfigMap("map", metadata={"name": "map"}, data={"a": "b"}, opts=opts)
    Service("service", metadata={"name": "service"}, spec={"clusterIP": "None"}, opts=opts)
    NetworkPolicy("policy", metadata={"name": "policy"}, spec={"podSelector": {}}, opts=opts)
    container = {"name": "x", "image": "x"}
    for role in ("chief", "ps", "worker"):
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        metadata = {"name": role, "labels": {"map": barrier.metadata.name}}
        Job(role, metadata=metadata, spec={"template": template}, opts=opts)
"""


def preview() -> Iterator[Row]:
    what, bound = "pulumi preview, 1,000 workers, of a bare program", "< 1.2 times"
    there = tools.found("pulumi")
    if isinstance(there, tools.Missing):
        missing = ", ".join(tool.name for tool in there.tools)
        yield Row(what, bound, f"not measured: no {missing} yet", None)
        return
    there = tools.ensure("pulumi")
    with tempfile.TemporaryDirectory() as folder:
        ours, bare = Path(folder) / "ours", Path(folder) / "bare"
        main = f"import runpy\nrunpy.run_path({str(stackfile.PROJECT / '__main__.py')!r}, run_name='__main__')\n"
        env = there.pulumi_env() | {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), there.pulumi_env()["PATH"])),
            "PYTHONPATH": str(stackfile.PROJECT),
            "PULUMI_BACKEND_URL": f"file://{folder}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "KUBECONFIG": str(loopback.kubeconfig(Path(folder) / "kubeconfig", loopback.refusing_server())),
        }
        mine, theirs = milliseconds(
            _preview(ours, main, workers(1_000) | {"context": "there"}, env),
            _preview(bare, textwrap.dedent(BARE), None, env),
        )
    measured = f"{mine / theirs:.2f} times ({mine / 1000:.1f} and {theirs / 1000:.1f} s)"
    yield Row(what, bound, measured, mine < 1.2 * theirs)


def _preview(folder: Path, main: str, settings: dict[str, Any] | None, env: dict[str, str]) -> Callable[[], None]:
    """A preview of this program. No cluster is there, for either of the two, and only ours looks for one first."""
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "tfcluster", "runtime": "python"}))
    (folder / "__main__.py").write_text(main)
    config = {stackfile.CONFIG_KEY: settings} if settings else {}
    (folder / f"Pulumi.{folder.name}.yaml").write_text(yaml.safe_dump({"config": config}))
    pulumi = ("pulumi", "--non-interactive")
    ran(*pulumi, "stack", "init", folder.name, cwd=folder, env=env)
    return lambda: ran(*pulumi, "preview", "--stack", folder.name, cwd=folder, env=env)


def main() -> int:
    table = Table("what", "bound", "measured", "")
    rows = [row for part in (plan_and_render, object_counts, render_cold, preview) for row in part()]
    for row in rows:
        mark = {True: "[green]holds[/]", False: "[red]BROKEN[/]", None: ""}[row.holds]
        table.add_row(row.what, row.bound, row.measured, mark)
    Console(width=120).print(table)
    return 1 if any(row.holds is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
