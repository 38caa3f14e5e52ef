"""The built-in parameter server: what it reads, and what it says when it cannot serve."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modules.runtime import ps_server

CLUSTER = {"chief": ["c:1"], "ps": ["p0:1", "p1:1"]}


def _config(job: str = "ps", index: int = 1) -> str:
    return json.dumps({"cluster": CLUSTER, "task": {"type": job, "index": index}})


def test_its_syntax_is_that_of_the_last_images_of_tensorflow_1() -> None:
    ast.parse(Path(ps_server.__file__).read_text(), feature_version=(3, 6))


def test_it_is_the_task_that_tf_config_names() -> None:
    assert ps_server.read_config({"TF_CONFIG": _config()}) == (CLUSTER, "ps", 1, "p1:1")


def test_a_cluster_too_large_for_the_environment_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(_config(index=0))
    assert ps_server.read_config({"TF_CONFIG_FILE": str(tmp_path / "config")})[3] == "p0:1"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "neither TF_CONFIG nor TF_CONFIG_FILE"),
        ({"TF_CONFIG": "{"}, "not valid"),
        ({"TF_CONFIG": "[]"}, "must have cluster"),
        ({"TF_CONFIG": '{"cluster": {}}'}, "must have cluster"),
        ({"TF_CONFIG": _config(index=2)}, "must be in the cluster"),
        ({"TF_CONFIG": _config(job="worker")}, "must be in the cluster"),
        ({"TF_CONFIG_FILE": "/nowhere/config"}, "cannot be read"),
    ],
)
def test_what_is_wrong_with_the_configuration_is_one_line(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ps_server.Fault) as fault:
        ps_server.read_config(environ)
    assert said in str(fault.value) and "\n" not in str(fault.value)


class _Server:
    def __init__(self, spec: Any, job_name: str, task_index: int) -> None:
        self.told = (spec, job_name, task_index)


def _tensorflow(**parts: Any) -> SimpleNamespace:
    train = SimpleNamespace(ClusterSpec=lambda cluster: cluster, **parts.pop("train", {}))
    return SimpleNamespace(train=train, **parts)


def test_tensorflow_2_and_1_name_the_server_differently() -> None:
    two = _tensorflow(distribute=SimpleNamespace(Server=_Server))
    one = _tensorflow(train={"Server": _Server})
    for tensorflow in (two, one):
        assert ps_server.open_server(tensorflow, CLUSTER, "ps", 1, "p1:1").told == (CLUSTER, "ps", 1)


def test_a_port_in_use_is_named() -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise RuntimeError("Could not start gRPC server\nmany\nlines")

    with pytest.raises(ps_server.Fault) as fault:
        ps_server.open_server(_tensorflow(train={"Server": refuses}), CLUSTER, "ps", 1, "p1:1")
    assert "p1:1" in str(fault.value) and "in use" in str(fault.value) and "\n" not in str(fault.value)
