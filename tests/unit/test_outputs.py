"""What `pulumi stack output` says."""

import json

from modules.outputs import outputs
from tests import shapes


def test_outputs_name_the_jobs_the_addresses_and_the_totals() -> None:
    assert outputs(shapes.planned(shapes.shapes()["chief-ps-workers"])) == {
        "name": "mnist",
        "namespace": "train",
        "cluster": {
            "chief": ["mnist-chief-0.mnist:2222"],
            "ps": ["mnist-ps-0.mnist:2222", "mnist-ps-1.mnist:2222"],
            "worker": [f"mnist-worker-{index}.mnist:2222" for index in range(4)],
        },
        "jobs": {"chief": "mnist-chief", "ps": "mnist-ps", "worker": "mnist-worker"},
        "resources": {"replicas": 7, "cpu": "6", "memory": "8Gi"},
    }


def test_totals_are_nought_when_nothing_is_asked_for() -> None:
    resources = outputs(shapes.planned(shapes.shapes()["single"]))["resources"]
    assert resources == {"replicas": 1, "cpu": "0", "memory": "0"}


def test_outputs_are_plain_json_for_every_shape() -> None:
    for settings in shapes.shapes().values():
        values = outputs(shapes.planned(settings))
        assert json.loads(json.dumps(values)) == values
