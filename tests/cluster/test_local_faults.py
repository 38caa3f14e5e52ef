"""What may happen to a cluster, done to a real one: parts killed, hung or outdated, a reboot, another cluster, the end.

After each `up` has to bring back what is lost, and only that. The cluster of someone who uses it is left alone.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from local import cgroups, cluster, command, config, daemon, image, network, node, node_init, paths
from local.node import Node
from modules.errors import EnvironmentFault
from tests import real
from tests.real import eventually, kubectl

# Looked at before any fixture starts one.
SOMEONE_USES_IT = config.load() is not None

RUNS_ON = "while :; do date +%s > /tmp/beat; sleep 1; done"


@pytest.fixture
def ours(local_cluster: None) -> Iterator[None]:  # noqa: ARG001
    """The cluster, to be broken; whole again afterwards."""
    if SOMEONE_USES_IT:
        real.cannot_run("a cluster is in use here, and this breaks it: ./tfcluster local down")
    cluster.up(nodes=2)
    yield
    cluster.up(nodes=2)


@pytest.fixture
def beating(ours: None, namespace: str) -> str:  # noqa: ARG001
    """A pod on the first node that has run for a while; its namespace."""
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": "tfcluster-1"},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "it", "image": image.BUSYBOX, "command": ["sh", "-c", RUNS_ON]}],
    }
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "beating"}, "spec": spec}
    # Controllers that lost their API server may take some seconds to find it again.
    apply = ("apply", "-n", namespace, "-f", "-")
    eventually(lambda: kubectl(*apply, stdin=json.dumps(item), check=False), "the namespace can be used", 60)
    kubectl("wait", "-n", namespace, "pod/beating", "--for=condition=Ready", "--timeout=60s")
    return namespace


def pids() -> dict[str, int]:
    return {one.name: one.process.pid for one in daemon.running(paths.cluster())}


def process(name: str) -> psutil.Process:
    return next(one.process for one in daemon.running(paths.cluster()) if one.name == name)


def kill(name: str) -> None:
    found = process(name)
    found.kill()
    psutil.wait_procs([found], timeout=10)


def container(namespace: str) -> dict[str, Any]:
    pod = json.loads(kubectl("get", "pod", "beating", "-n", namespace, "-o", "json"))
    return pod["status"]["containerStatuses"][0]


def beats(namespace: str) -> str:
    return kubectl("exec", "-n", namespace, "beating", "--", "cat", "/tmp/beat", check=False)


def test_up_again_starts_nothing_anew(ours: None) -> None:  # noqa: ARG001
    before = pids()
    cluster.up()
    assert pids() == before
    assert len(before) == 5 + 2 * 4


@pytest.mark.parametrize(
    "part",
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"]
    + [f"tfcluster-1/{name}" for name in ("containerd", "kubelet", "kube-proxy")],
)
def test_a_killed_part_is_started_and_nothing_else_and_pods_run_on(beating: str, part: str) -> None:
    before, ran = pids(), container(beating)
    kill(part)
    assert not cluster.status().healthy
    cluster.up()
    assert cluster.status().healthy
    after = pids()
    assert {name for name in before if after[name] != before[name]} == {part}
    assert container(beating)["containerID"] == ran["containerID"]
    assert container(beating)["restartCount"] == 0
    at = beats(beating)
    eventually(lambda: beats(beating) not in (at, ""), "the container still works", 20)


def test_a_part_that_hangs_is_started_anew(ours: None) -> None:  # noqa: ARG001
    before = pids()
    process("kube-scheduler").send_signal(signal.SIGSTOP)
    assert not cluster.status().healthy
    cluster.up()
    after = pids()
    assert {name for name in before if after[name] != before[name]} == {"kube-scheduler"}


def test_a_part_whose_settings_changed_is_started_anew(ours: None) -> None:  # noqa: ARG001
    before = pids()
    certificate = paths.cluster() / "pki" / "kube-scheduler-server.crt"
    certificate.unlink()
    cluster.up()
    after = pids()
    assert {name for name in before if after[name] != before[name]} == {"kube-scheduler"}


def test_a_dead_node_comes_back_with_its_pod(beating: str) -> None:
    before, ran = pids(), container(beating)
    kill("tfcluster-1/init")
    gone = [name for name in before if name.startswith("tfcluster-1/")]
    assert len(gone) == 4
    eventually(lambda: not set(gone) & set(pids()), "the node's processes are gone with its first", 10)
    cluster.up()
    after = pids()
    assert {name for name in before if after[name] != before[name]} == set(gone)

    def again() -> bool:
        return "running" in container(beating)["state"] and container(beating)["containerID"] != ran["containerID"]

    eventually(again, "its pod runs again")
    eventually(lambda: beats(beating), "its pod works again", 20)


def test_a_removed_bridge_is_made_again_and_nodes_are_plugged_in(beating: str) -> None:
    before = pids()
    command.output(["ip", "link", "delete", network.BRIDGE])
    command.succeeds(["nft", "delete", "table", "ip", "tfcluster"])
    cluster.up()
    assert pids()["tfcluster-1/init"] == before["tfcluster-1/init"]
    assert "tfcluster" in command.output(["nft", "list", "tables"])
    eventually(lambda: beats(beating), "the API server reaches the kubelet", 20)


def test_after_a_reboot_everything_is_back(beating: str) -> None:
    """As after a reboot: nothing runs, no network, no control groups, other ports taken; the files are there."""
    daemon.stop(daemon.marked(paths.cluster()), grace=0)
    assert pids() == {}
    for index in (1, 2):
        command.succeeds(["ip", "link", "delete", network.cable(index)])
    command.output(["ip", "link", "delete", network.BRIDGE])
    command.output(["nft", "delete", "table", "ip", "tfcluster"])
    cgroups.remove()
    kept = config.load()
    assert kept
    taken = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import socket; s = socket.create_server(('127.0.0.1', {kept.ports['etcd']})); s.accept()",
        ]
    )
    try:
        eventually(lambda: not _free(kept.ports["etcd"]), "someone else has etcd's port", 10)
        cluster.up()
    finally:
        taken.kill()
        taken.wait()
    assert cluster.status().healthy
    # The container of before is gone with the machine; the kubelet notices and makes another one.
    eventually(lambda: "running" in container(beating)["state"] and beats(beating), "the pod runs again")


def _free(port: int) -> bool:
    return command.succeeds(["sh", "-c", f"! ss -tln | grep -q 127.0.0.1:{port}"])


def test_data_that_etcd_cannot_read_are_set_aside_and_the_cluster_begins_anew(
    beating: str, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.stop(one for one in daemon.running(paths.cluster()) if one.name == "etcd")
    database = paths.cluster() / "etcd" / "member" / "snap" / "db"
    database.write_bytes(os.urandom(database.stat().st_size))
    cluster.up()
    assert cluster.status().healthy
    assert "set aside" in capsys.readouterr().err
    assert list(paths.cluster().glob("etcd.broken-*"))
    assert beating not in kubectl("get", "namespaces", "-o", "name")
    kubectl("create", "namespace", beating)  # the fixture removes it
    eventually(lambda: not _containers(node.at(1)), "containers that nobody knows any more are ended", 60)


def _containers(of: Node) -> list[str]:
    there = next(one for one in node.running_nodes() if one.index == of.index)
    listed = command.output(there.enter(["ctr", "--namespace", "k8s.io", "tasks", "list", "--quiet"]))
    return listed.split()


def test_nodes_come_and_go(ours: None, namespace: str) -> None:  # noqa: ARG001
    before = pids()
    cluster.up(nodes=1, gpus=3)
    assert [one.index for one in node.running_nodes()] == [1]
    assert kubectl("get", "nodes", "-o", "name").split() == ["node/tfcluster-1"]
    assert {name for name in before if name not in pids()} == {
        name for name in before if name.startswith("tfcluster-2/")
    }
    assert not (cgroups.MOUNT / "memory" / cgroups.TOP / "tfcluster-2").exists()
    cluster.up(nodes=2)
    assert [one.gpus for one in cluster.status().nodes] == [3, 3]
    kill("tfcluster-1/kubelet")
    cluster.up()
    assert [one.gpus for one in cluster.status().nodes] == [3, 3]
    cluster.up(gpus=0)
    assert [one.gpus for one in cluster.status().nodes] == [0, 0]


def test_a_second_cluster_is_refused_and_told_where_the_first_is(
    ours: None,  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = paths.cluster()
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path))
    wishes: tuple[dict[str, Any], ...] = ({"nodes": 1}, {"control_plane_only": True})
    for wish in wishes:
        with pytest.raises(EnvironmentFault) as refused:
            cluster.up(**wish)
        assert str(first) in str(refused.value)
        assert f"TFCLUSTER_CACHE={first.parent} ./tfcluster local down" in str(refused.value)
    assert not (tmp_path / "cluster").exists()


def test_a_cluster_with_nodes_does_not_become_one_without(ours: None) -> None:  # noqa: ARG001
    with pytest.raises(EnvironmentFault, match="cannot become the other kind"):
        cluster.up(control_plane_only=True)


def test_two_ups_at_once_end_in_one_cluster(ours: None) -> None:  # noqa: ARG001
    kill("kube-scheduler")
    kill("tfcluster-2/kubelet")
    call = [sys.executable, "-c", "from local import cluster; cluster.up()"]
    both = [subprocess.Popen(call, cwd=paths.PROJECT, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [one.wait(120) for one in both] == [0, 0]
    names = [one.name for one in daemon.running(paths.cluster())]
    assert sorted(names) == sorted(set(names))
    assert cluster.status().healthy


def test_an_interrupted_up_is_finished_by_the_next(ours: None) -> None:  # noqa: ARG001
    kill("tfcluster-1/init")
    kill("kube-apiserver")
    call = [sys.executable, "-c", "from local import cluster; cluster.up()"]
    broken_off = subprocess.Popen(call, cwd=paths.PROJECT, stderr=subprocess.DEVNULL)
    eventually(lambda: "tfcluster-1/init" in pids(), "it has begun", 60)
    broken_off.kill()
    broken_off.wait()
    cluster.up()
    assert cluster.status().healthy
    names = [one.name for one in daemon.running(paths.cluster())]
    assert sorted(names) == sorted(set(names))


def test_down_leaves_nothing(beating: str) -> None:  # noqa: ARG001
    state = paths.cluster()
    places = [*node_init.OWN.values(), *node_init.OWN_MEMORY]
    made = [place for place in node.places_made(state) if place in places]
    forwarding = state / "ip_forward.before"
    before = forwarding.read_text() if forwarding.exists() else Path("/proc/sys/net/ipv4/ip_forward").read_text()
    inside = [namespace_of(one) for one in node.running_nodes()]
    assert len(inside) == 2
    cluster.down()
    assert not daemon.marked(state)
    assert not [one for one in psutil.process_iter() if namespaces(one) & set(inside)]
    assert str(state) not in Path("/proc/self/mountinfo").read_text()
    links = json.loads(command.output(["ip", "-json", "link", "show"]))
    assert not [link["ifname"] for link in links if link["ifname"].startswith(("tfcluster", "tfcnode"))]
    assert "tfcluster" not in command.output(["nft", "list", "tables"])
    assert "10.244." not in command.output(["ip", "route", "show"])
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == before
    assert not list(cgroups.MOUNT.glob(f"*/{cgroups.TOP}")) + list(cgroups.MOUNT.glob(cgroups.TOP))
    assert not [place for place in made if Path(place).exists()]
    assert not state.exists()
    assert not cluster.status().exists
    cluster.down()  # and once more is no mistake


def namespace_of(of: Node) -> str:
    return os.readlink(f"/proc/{of.pid}/ns/net")  # noqa: PTH115 - a link of the kernel's, to nothing


def namespaces(of: psutil.Process) -> set[str]:
    try:
        return {os.readlink(f"/proc/{of.pid}/ns/net")}  # noqa: PTH115
    except OSError:
        return set()


def test_up_after_the_cache_folder_was_removed_under_a_running_cluster(ours: None) -> None:  # noqa: ARG001
    for file in ("config.json", "kubeconfig"):
        (paths.cluster() / file).unlink()
    assert not cluster.status().exists
    cluster.up(nodes=2)
    assert cluster.status().healthy
    time.sleep(1)  # a part that was started on the remains of another would have ended by now
    assert cluster.status().healthy
