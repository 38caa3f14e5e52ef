"""The shapes of training clusters that the tests render: raw settings, as they stand under `tfcluster:cluster`.

Decided here: which shapes are worth a golden file. The built-in server and the code are replaced by fixed texts, so
that a golden file changes with what manifests/ does and not with every word of a script.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from modules import manifests, spec, stackfile
from modules import plan as planning
from modules.manifests import Manifest
from modules.plan import Plan

IMAGE = "tensorflow/tensorflow:2.21.0"
TRAIN = ["python3", "/code/train.py"]
CODE = {"train.py": b"print('training')\n"}
SERVER = "print('the built-in parameter server')\n"


def local() -> dict[str, Any]:
    """The stack `local` as its file has it."""
    settings = stackfile.settings_of_stack("local")
    assert isinstance(settings, dict)
    return settings


def shapes() -> dict[str, dict[str, Any]]:
    worker = {"command": TRAIN}
    return {
        "local": local(),
        "single": {"image": IMAGE, "roles": {"worker": worker}},
        "worker-only": {"image": IMAGE, "code": "src", "roles": {"worker": {**worker, "replicas": 3}}},
        "chief-ps-workers": {
            "image": IMAGE,
            "name": "mnist",
            "namespace": "train",
            "code": "src",
            "run": 2,
            "roles": {
                "chief": {"command": [*TRAIN, "--epochs", 3], "env": {"EPOCHS": 3, "VERBOSE": True}},
                "ps": {"replicas": 2, "resources": {"cpu": 2, "memory": "4Gi"}},
                "worker": {
                    "replicas": 4,
                    "image": "example.org/gpu:1",
                    "args": ["--ps_hosts=$(PS_HOSTS)", "--task_index=$(TASK_INDEX)"],
                    "resources": {"cpu": "500m"},
                },
            },
        },
        "master": {"image": IMAGE, "roles": {"master": worker, "worker": {**worker, "replicas": 2}, "ps": {}}},
        "evaluator": {"image": IMAGE, "roles": {"chief": worker, "worker": worker, "evaluator": worker, "ps": {}}},
        "companion-outside": {"image": IMAGE, "roles": {"chief": worker, "worker": worker, "data-server": worker}},
        "companion-inside": {
            "image": IMAGE,
            "roles": {"chief": worker, "data-server": {"replicas": 2, "inCluster": True, "entrypoint": "builtin"}},
        },
    }


NAMES = tuple(shapes())


def planned(settings: Mapping[str, Any], *, stack: str = "exp", code: Mapping[str, bytes] | None = None) -> Plan:
    shipped = CODE if settings.get("code") else {}
    return planning.plan(spec.load(settings, stack=stack), shipped if code is None else code)


def rendered(settings: Mapping[str, Any], **how: Any) -> list[Manifest]:
    return manifests.render(planned(settings, **how))


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in objects if manifest["kind"] == kind]


def jobs(objects: list[Manifest]) -> dict[str, Manifest]:
    """Role → its Job."""
    return {job["metadata"]["labels"]["app.kubernetes.io/component"]: job for job in of_kind(objects, "Job")}


def container(job: Manifest) -> dict[str, Any]:
    return job["spec"]["template"]["spec"]["containers"][0]


def fixed_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ships a fixed text as the built-in server."""
    monkeypatch.setattr(planning, "builtin_server_text", lambda: SERVER)
