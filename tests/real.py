"""What the tests of the real thing share: one cluster, a real Pulumi engine, namespaces that go away again.

Decided here: that a test which cannot run on this machine skips with the reason, and that in CI the same is a failure.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from local import cluster, config, paths, tools
from modules.errors import EnvironmentFault

PROJECT = Path(__file__).resolve().parent.parent

# Generous: a loaded machine must not turn a right behaviour into a red test.
PATIENCE_SECONDS = 180


def cannot_run(reason: object) -> None:
    """Skips here, fails where everything must run."""
    if os.environ.get("CI"):
        pytest.fail(f"must not be skipped in CI: {reason}")
    pytest.skip(str(reason))


@contextmanager
def running_cluster(nodes: int) -> Iterator[None]:
    """A cluster with at least so many nodes: the one that is here, else one that is gone afterwards."""
    mine = config.load() is None
    try:
        tools.ensure("pulumi", "kubernetes", "coredns")
        cluster.up(nodes=nodes)
    except EnvironmentFault as fault:
        cannot_run(fault)
    try:
        yield
    finally:
        if mine:
            cluster.down()


def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
    """What kubectl prints on standard output."""
    kubectl_path = tools.ensure("kubernetes").path("kubectl")
    command = [str(kubectl_path), "--kubeconfig", str(paths.kubeconfig()), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}{done.stdout}")
    return done.stdout


def objects(kind: str, namespace: str) -> list[dict[str, Any]]:
    return json.loads(kubectl("get", kind, "-n", namespace, "-o", "json"))["items"]


def eventually(holds: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """The first true answer of `holds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = holds()
        if answer:
            return answer
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


@contextmanager
def namespace(**labels: str) -> Iterator[str]:
    """A namespace of its own for one test."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": {key.replace("__", "/").replace("_", "-"): v for key, v in labels.items()}}
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    try:
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false", check=False)


@dataclass(frozen=True)
class Ran:
    """How a call of pulumi ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Engine:
    """The real Pulumi engine on the real program, with stacks and a backend of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stacks").mkdir(parents=True)
        (folder / "backend").mkdir()
        for name in ("Pulumi.yaml", "__main__.py"):
            shutil.copy(PROJECT / name, folder / name)
        for name in ("modules", "local", "examples"):
            (folder / name).symlink_to(PROJECT / name)
        # The environment of the tests has all that the program's has.
        (folder / "venv").symlink_to(sys.prefix)
        self.env = {
            **os.environ,
            **tools.ensure("pulumi").pulumi_env(),
            "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "KUBECONFIG": str(paths.kubeconfig()),
        }
        self._known: set[str] = set()

    def write(self, stack: str, settings: dict[str, Any]) -> None:
        """Makes or changes the stack's file; the engine's own lines in it stay."""
        path = self.folder / "stacks" / f"Pulumi.{stack}.yaml"
        content = yaml.safe_load(path.read_text()) if path.exists() else {}
        path.write_text(yaml.safe_dump({**content, "config": {"tfcluster:cluster": settings}}))
        if stack not in self._known:
            self._known.add(stack)
            done = self.run("stack", "init", stack)
            assert done.code == 0, done.text

    def run(self, *arguments: str, **env: str) -> Ran:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            env={**self.env, **env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def up(self, stack: str) -> Ran:
        return self.run("up", "--stack", stack, "--yes", "--skip-preview")

    def destroy(self, stack: str) -> Ran:
        return self.run("destroy", "--stack", stack, "--yes", "--skip-preview")

    def planned(self, stack: str) -> dict[str, list[str]]:
        """What a preview says it would do: operation → types and names, without what stays the same."""
        done = self.run("preview", "--stack", stack, "--json")
        assert done.code == 0, done.text
        steps: dict[str, list[str]] = {}
        for step in json.loads(done.out).get("steps", []):
            if step["op"] not in ("same", "read"):
                steps.setdefault(step["op"], []).append("::".join(step["urn"].split("::")[2:]).split("$")[-1])
        return {operation: sorted(names) for operation, names in steps.items()}

    def outputs(self, stack: str) -> dict[str, Any]:
        return json.loads(self.run("stack", "output", "--json", "--stack", stack).out)
