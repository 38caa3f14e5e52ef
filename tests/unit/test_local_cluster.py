"""The cluster's own decisions: what an `up` asks for, what stands in the way, how its state reads."""

import json
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from local import cgroups, cluster, config, control_plane, machine, network, node, node_init, paths, trees
from local.config import Config
from local.site import Site
from local.status import NodeState, Part, Status
from modules.errors import EnvironmentFault


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def chosen(before: Config | None, **asked: Any) -> Config:
    return config.chosen(before, **{"nodes": None, "gpus": None, "control_plane_only": False, "kwok": None, **asked})


def test_the_first_up_has_one_node() -> None:
    settled = chosen(None)
    assert (settled.nodes, settled.gpus, settled.kwok, settled.control_plane_only) == (1, 0, 0, False)


def test_what_is_not_asked_for_stays() -> None:
    settled = chosen(chosen(None, nodes=3, gpus=2, kwok=5), nodes=2)
    assert (settled.nodes, settled.gpus, settled.kwok) == (2, 2, 5)
    alone = chosen(None, control_plane_only=True, kwok=4)
    assert (alone.nodes, chosen(alone)) == (0, alone)
    assert chosen(alone, kwok=0).kwok == 0


@pytest.mark.parametrize(
    ("before", "asked", "says"),
    [
        ({}, {"nodes": 0}, "from 1 to 16"),
        ({}, {"nodes": 17}, "from 1 to 16"),
        ({}, {"gpus": -1}, "--gpus -1"),
        ({}, {"control_plane_only": True, "nodes": 1}, "has no nodes of its own"),
        ({"nodes": 1}, {"control_plane_only": True}, "cannot become the other kind"),
        ({"control_plane_only": True}, {"nodes": 1}, "cannot become the other kind"),
    ],
)
def test_wishes_that_cannot_be_are_refused(before: dict[str, Any], asked: dict[str, Any], says: str) -> None:
    existing = chosen(None, **before) if before else None
    with pytest.raises(EnvironmentFault) as refused:
        chosen(existing, **asked)
    assert says in str(refused.value)


def test_choices_are_read_as_they_were_saved_and_a_damaged_file_is_told() -> None:
    assert config.load() is None
    settled = chosen(None, nodes=2)
    settled.save()
    assert config.load() == settled
    (paths.cluster() / "config.json").write_text("{")
    with pytest.raises(EnvironmentFault, match=r"config\.json cannot be read"):
        config.load()


def test_a_port_that_someone_else_has_is_left_to_them_and_our_own_stays() -> None:
    settled = chosen(None, control_plane_only=True)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = Config(**{**vars(settled), "ports": {**settled.ports, "etcd": port, "kwok": port}})
        moved = config.with_free_ports(taken, {"kwok"})
    assert moved.ports["etcd"] != port
    assert moved.ports["kwok"] == port
    assert len(set(moved.ports.values()) - {port}) == len(moved.ports) - 1


def test_a_lost_memory_makes_another_incarnation() -> None:
    settled = chosen(None)
    assert len({settled.incarnation, settled.anew().incarnation, settled.anew().incarnation}) == 3


def test_addresses_of_as_many_nodes_as_there_can_be_are_distinct() -> None:
    indexes = range(1, network.MAX_NODES + 1)
    everything = [
        address(index) for index in indexes for address in (network.node_ip, network.pod_range, network.cable)
    ]
    assert len({*everything, network.HOST_IP}) == 3 * network.MAX_NODES + 1
    assert max(len(network.cable(index)) for index in indexes) <= 15  # the kernel's limit


@pytest.fixture
def other_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A process that looks like the etcd of another cluster; the only one that is seen."""
    folder = tmp_path / "theirs" / "cluster"
    words = ["--name=tfcluster", f"--data-dir={folder}/etcd"]
    etcd = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *words])
    seen = psutil.Process(etcd.pid)
    monkeypatch.setattr(psutil, "process_iter", lambda: [seen])
    monkeypatch.setattr(network, "owner", lambda: "")
    yield folder
    etcd.kill()
    etcd.wait()


def test_another_cluster_is_named_with_the_way_to_end_it(other_cluster: Path) -> None:
    with pytest.raises(EnvironmentFault) as refused:
        machine.refuse_second_cluster(paths.cluster())
    assert str(other_cluster) in str(refused.value)
    assert f"TFCLUSTER_CACHE={other_cluster.parent} ./tfcluster local down" in str(refused.value)
    machine.refuse_second_cluster(other_cluster)  # to itself it is no other


def test_the_bridge_of_a_crashed_cluster_counts_while_its_folder_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    monkeypatch.setattr(psutil, "process_iter", list)
    monkeypatch.setattr(network, "owner", lambda: str(theirs))
    machine.refuse_second_cluster(paths.cluster())
    theirs.mkdir()
    with pytest.raises(EnvironmentFault, match="another tfcluster cluster"):
        machine.refuse_second_cluster(paths.cluster())


def test_nodes_without_root_or_without_linux_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentFault, match="nodes need root") as refused:
        machine.check_for_nodes()
    assert "kind create cluster" in str(refused.value) and "--control-plane-only" in str(refused.value)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(EnvironmentFault, match="need Linux, and this is Darwin"):
        machine.check_for_nodes()


def test_a_machine_without_control_groups_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine.os, "geteuid", lambda: 0)
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path)
    monkeypatch.setattr(cgroups, "missing", lambda: ["memory"])
    with pytest.raises(EnvironmentFault) as refused:
        machine.check_for_nodes()
    assert "no control group for memory" in str(refused.value) and "kind create cluster" in str(refused.value)


def test_a_nearly_full_disk_is_warned_of_and_a_full_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(machine.shutil.disk_usage("/"))
    for free, outcome in ((1 << 40, ""), (1 << 30, "only 1.0 GiB are free")):
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda _, free=free: usage(1 << 41, 0, free))
        assert machine.check_disk()[: len(outcome) or None] == outcome
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage(1 << 41, 0, 1 << 20))
    with pytest.raises(EnvironmentFault, match=r"disk of .* is full"):
        machine.check_disk()


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_controllers_are_handed_down_to_a_node_on_cgroup_v2(tmp_path: Path) -> None:
    chain = [tmp_path, tmp_path / "tfcluster", tmp_path / "tfcluster" / "n1"]
    for folder in chain:
        group(folder, cgroup__controllers="cpuset cpu io memory pids rdma\n", cpuset__cpus="")
    assert cgroups.unified(tmp_path) and cgroups.missing(tmp_path) == []
    cgroups.make("n1", tmp_path)
    for folder in chain:
        assert (folder / "cgroup.subtree_control").read_text() == "+cpuset +cpu +io +memory +pids"
        assert (folder / "cpuset.cpus").read_text() == ""  # empty means all, on v2


def test_a_node_may_use_all_cpus_in_every_hierarchy_of_cgroup_v1(tmp_path: Path) -> None:
    for name in ("cpu,cpuacct", "memory", "pids", "cpuset"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    group(tmp_path / "cpuset", cpuset__cpus="0-1\n", cpuset__mems="0\n")
    for folder in ("tfcluster", "tfcluster/n1"):
        group(tmp_path / "cpuset" / folder, cpuset__cpus="\n", cpuset__mems="\n")
    assert not cgroups.unified(tmp_path) and cgroups.missing(tmp_path) == []
    cgroups.make("n1", tmp_path)
    assert (tmp_path / "cpuset" / "tfcluster" / "n1" / "cpuset.cpus").read_text() == "0-1\n"
    assert (tmp_path / "memory" / "tfcluster" / "n1").is_dir()
    for name in ("cpu,cpuacct", "memory", "pids"):
        (tmp_path / name / "tfcluster" / "n1" / "kubepods").mkdir()
    for folder in ("tfcluster", "tfcluster/n1"):  # files of a real control group go with it
        for file in ("cpuset.cpus", "cpuset.mems"):
            (tmp_path / "cpuset" / folder / file).unlink()
    cgroups.remove(mount=tmp_path)
    assert not list(tmp_path.glob("*/tfcluster"))


def test_missing_controllers_are_named(tmp_path: Path) -> None:
    assert cgroups.missing(tmp_path) == ["cpu", "memory", "pids"]
    group(tmp_path, cgroup__controllers="cpu pids\n")
    assert cgroups.missing(tmp_path) == ["memory"]


def site(**asked: Any) -> Site:
    return Site(chosen(None, **asked), lambda name: Path("/tools") / name)


def test_a_control_plane_without_nodes_listens_on_loopback_only() -> None:
    alone = site(control_plane_only=True)
    argv = " ".join(control_plane.api_server(alone).argv)
    assert "--bind-address=127.0.0.1 " in argv and "10.243" not in argv
    assert "--endpoint-reconciler-type=none" in argv
    assert alone.server == f"https://127.0.0.1:{alone.config.ports['kube-apiserver']}"


def test_nothing_but_api_and_dns_leaves_loopback() -> None:
    settled = site(nodes=1)
    argvs = {one.name: " ".join(one.argv) for one in (control_plane.etcd(settled), control_plane.scheduler(settled))}
    assert "127.0.0.1" in argvs["etcd"] and "0.0.0.0" not in argvs["etcd"] and "http://" not in argvs["etcd"]
    assert "--bind-address=127.0.0.1" in argvs["kube-scheduler"]
    assert "--bind-address=10.243.0.1 " in " ".join(control_plane.api_server(settled).argv)
    dns = control_plane.dns(settled)
    assert "bind 10.243.0.1" in next(iter(dns.settings.values()))


def test_names_of_the_outside_are_asked_for_only_where_the_machine_has_a_resolver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = tmp_path / "resolv.conf"
    monkeypatch.setattr(control_plane, "_RESOLV_CONF", resolver)
    for content, forwards in ((None, False), ("# nothing\nsearch lab\n", False), ("nameserver 192.0.2.1\n", True)):
        if content is not None:
            resolver.write_text(content)
        corefile = next(iter(control_plane.dns(site(nodes=1)).settings.values()))
        assert ("forward . " in corefile) is forwards


def test_a_nodes_own_places_are_absolute_and_apart() -> None:
    places = [*node_init.OWN.values(), *node_init.OWN_MEMORY]
    assert len(set(places)) == len(places) and all(place.startswith("/") for place in places)
    assert node_init.READY.startswith(tuple(node_init.OWN_MEMORY))


def test_a_node_that_does_not_run_cannot_be_entered() -> None:
    with pytest.raises(EnvironmentFault, match="tfcluster-2 does not run"):
        node.at(2).enter(["true"])
    assert node.running_nodes() == ()


def test_removing_many_files_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    top = tmp_path / "top"
    for index in range(40):
        (top / f"{index}" / "deep").mkdir(parents=True)
        (top / f"{index}" / "deep" / "file").write_text("")
    (top / "1" / "link").symlink_to(outside)
    (top / "1" / "broken").symlink_to(tmp_path / "nowhere")
    trees.remove(top)
    assert not top.exists() and (outside / "precious").read_text() == "kept"
    trees.remove(top)  # gone already is fine


WELL = Part("etcd", 7, "", 40 << 20, "/logs/etcd.log")
ILL = Part("kubelet", None, "it does not run", 0, "/logs/kubelet.log")


def test_a_status_is_well_when_every_part_and_node_is() -> None:
    ready, lost = NodeState("tfcluster-1", "", 2), NodeState("tfcluster-1", "its kubelet says nothing", 0)
    assert Status(True, parts=(WELL,), nodes=(ready,)).healthy
    assert not Status(True, parts=(WELL, ILL), nodes=(ready,)).healthy
    assert not Status(True, parts=(WELL,), nodes=(lost,)).healthy
    assert not Status(False).healthy


def test_a_status_tells_what_is_ill_and_that_gpus_are_not_real() -> None:
    table = Status(True, parts=(WELL, ILL), nodes=(NodeState("tfcluster-1", "", 2),), kubernetes="1.2.3").to_table()
    assert "it does not run" in table and "2 (not real)" in table and "local up repairs" in table
    assert "memory: 40 MiB in all (within" in table
    assert "local up" in Status(False).to_table()


def test_a_status_as_json_has_the_derived_values_too() -> None:
    read = json.loads(Status(True, parts=(WELL,)).to_json())
    assert read["healthy"] is True and read["memory"] == 40 << 20 and read["parts"][0]["pid"] == 7


def test_status_without_a_cluster_creates_nothing(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.show_status("table") == 3
    assert "no cluster is here" in capsys.readouterr().out
    assert cluster.running() is None
    assert not cache.exists()
