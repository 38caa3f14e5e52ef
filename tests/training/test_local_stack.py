"""Real trainings: TensorFlow in real pods, deployed by the real engine."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from local import image
from modules import access, live, stackfile
from modules.live import SUCCEEDED, Live
from tests.real import Engine, eventually, objects

FINAL = re.compile(r"final loss ([0-9.]+) accuracy ([0-9.]+)")


@pytest.fixture(scope="session", autouse=True)
def tensorflow_image(local_cluster: None) -> str:  # noqa: ARG001
    return image.ensure()


def local_stack(namespace: str) -> dict[str, Any]:
    """The settings of the stack that `make up` deploys, in a namespace of the test's own."""
    settings = yaml.safe_load(stackfile.stack_path("local").read_text())["config"][stackfile.CONFIG_KEY]
    return {**settings, "namespace": namespace}


def training(settings: dict[str, Any]) -> Live:
    reached = access.reach(settings["context"], settings["namespace"], preview=False)
    return Live(reached, settings["name"], settings["namespace"])


def final_line(lines: list[str]) -> tuple[float, float]:
    found = [match for match in map(FINAL.search, lines) if match]
    assert len(found) == 1, lines
    return float(found[0][1]), float(found[0][2])


def assert_learned(trained: Live) -> None:
    eventually(lambda: trained.snapshot().state in (SUCCEEDED, live.FAILED), "the training has an outcome")
    lines = trained.last_lines("chief", count=200)
    assert trained.snapshot().state == SUCCEEDED, lines
    loss, accuracy = final_line(lines)
    assert loss < 0.5 and accuracy > 0.8, lines


def test_the_local_stack_trains_through_pulumi_up(engine: Engine, namespace: str) -> None:
    settings = local_stack(namespace)
    engine.write("local", settings)
    deployed = engine.up("local")
    assert deployed.code == 0, deployed.text
    assert_learned(training(settings))
    assert engine.planned("local") == {}, "a finished training is no change"


def test_chief_and_ps_on_different_nodes_train_together(engine: Engine, namespace: str) -> None:
    settings = local_stack(namespace)
    cores = len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
    # Each asks for more than half of a node's cores, so that no node takes both.
    half = {"cpu": f"{cores * 600}m", "memory": "1Gi"}
    for role in ("chief", "ps"):
        settings["roles"][role]["resources"] = half
    settings["roles"]["worker"]["resources"] = {"cpu": "100m", "memory": "1Gi"}
    engine.write("two-nodes", settings)
    assert engine.up("two-nodes").code == 0
    assert_learned(training(settings))
    node_of = {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod["spec"]["nodeName"]
        for pod in objects("pods", namespace)
    }
    assert node_of["chief"] != node_of["ps"]
