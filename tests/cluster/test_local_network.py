"""What pods and users count on from a cluster: names, addresses, logs, the API from inside, limits that hold."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local import command, identities, image, network, node, paths, tools
from local.pki import Pki
from tests import real
from tests.real import eventually, kubectl

SERVED = "served by web"
FOREVER = ["sh", "-c", "trap exit TERM; echo started; while :; do sleep 1; done"]

# Asks the API server as a pod does. Run by the machine's Python in the pod's network, as the image has none.
ASK_API = """
import http.client, os, ssl, sys
context = ssl.create_default_context(cadata=os.environ["CA"])
connection = http.client.HTTPSConnection("kubernetes.default.svc", 443, context=context)
connection._create_connection = lambda address, *rest: __import__("socket").create_connection((sys.argv[1], 443), 10)
headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}
connection.request("GET", "/api/v1/namespaces/" + sys.argv[2] + "/pods", headers=headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""
SECRETS = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(name: str, runs: list[str], *, on: str = "", **container: Any) -> dict[str, Any]:
    mounts = {"volumeMounts": [{"name": "machine", "mountPath": "/machine", "readOnly": True}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": on} if on else {},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "it", "image": image.BUSYBOX, "command": runs, **mounts, **container}],
            "volumes": [{"name": "machine", "hostPath": {"path": "/"}}],
        },
    }


def service(name: str) -> dict[str, Any]:
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def create(namespace: str, *items: dict[str, Any]) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def shell(namespace: str, name: str, script: str) -> str:
    return kubectl("exec", "-n", namespace, name, "--", "sh", "-c", script)


@pytest.fixture(scope="module")
def pods(local_cluster: None) -> Iterator[str]:  # noqa: ARG001
    """`web` on the first node behind a service, `near` beside it, `far` on the second node; their namespace."""
    with real.namespace() as name:
        start_pods(name)
        yield name


def start_pods(namespace: str) -> None:
    serve = f"mkdir /tmp/w; echo {SERVED} > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w"
    create(
        namespace,
        service("web"),
        pod("web", ["sh", "-c", serve], on="tfcluster-1"),
        pod("near", FOREVER, on="tfcluster-1"),
        pod("far", FOREVER, on="tfcluster-2"),
    )
    kubectl("wait", "-n", namespace, "pod", "--all", "--for=condition=Ready", "--timeout=60s")


@pytest.mark.parametrize("client", ["near", "far", "web"])
def test_a_service_answers_by_name_from_its_own_node_another_and_itself(pods: str, client: str) -> None:
    script = f"timeout 5 wget -qO- http://web.{pods}.svc.cluster.local"
    assert eventually(lambda: shell(pods, client, script), "the service answers", 30).strip() == SERVED


def test_pods_of_two_nodes_reach_each_other_under_their_own_addresses(pods: str) -> None:
    listed = json.loads(kubectl("get", "pods", "-n", pods, "-o", "json"))["items"]
    address = {item["metadata"]["name"]: item["status"]["podIP"] for item in listed}
    assert address["web"].startswith("10.244.1.") and address["far"].startswith("10.244.2.")
    shell(pods, "far", f"nc -w 5 {address['web']} 8080 </dev/null")
    shell(pods, "far", f"timeout 5 wget -qO- http://{address['web']}:8080")
    with urllib.request.urlopen(f"http://{address['web']}:8080", timeout=5) as answer:  # the host, as webhooks need
        assert answer.read().decode().strip() == SERVED


def test_pods_resolve_names_of_the_outside_as_the_machine_does(pods: str) -> None:
    name = next((name for name in ("deb.debian.org", "pypi.org") if _resolves(name)), None)
    if name is None:
        real.cannot_run("this machine resolves no public names")
    assert name
    assert re.search(r"Address.*: *[0-9.]+", shell(pods, "far", f"nslookup {name}").partition(name)[2])


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, 443)
    except OSError:
        return False
    return True


def test_pods_reach_the_outside_which_need_not_know_their_addresses(pods: str) -> None:
    here, there = "198.51.100.1", "198.51.100.2"
    serve = (
        "import socket; server = socket.create_server(('0.0.0.0', 8000))\n"
        "while True: server.accept()[0].sendall(b'from outside')"
    )
    outside = subprocess.Popen(["unshare", "--net", sys.executable, "-c", serve])
    try:
        eventually(lambda: _network_of(outside.pid) != _network_of(os.getpid()), "it has a network of its own", 10)
        command.output(
            ["ip", "link", "add", "tftest", "type", "veth", "peer", "name", "eth0", "netns", str(outside.pid)]
        )
        command.output(["ip", "address", "add", f"{here}/30", "dev", "tftest"])
        command.output(["ip", "link", "set", "tftest", "up"])
        inside = ["nsenter", "--target", str(outside.pid), "--net", "ip"]
        command.output([*inside, "address", "add", f"{there}/30", "dev", "eth0"])
        command.output([*inside, "link", "set", "eth0", "up"])
        heard = eventually(lambda: shell(pods, "far", f"nc -w 5 {there} 8000 </dev/null; true"), "an answer", 20)
        assert heard.strip() == "from outside"
    finally:
        outside.kill()
        outside.wait()


def _network_of(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def test_logs_exec_and_port_forward_work_on_every_node(pods: str) -> None:
    for name in ("near", "far"):
        assert kubectl("logs", "-n", pods, name).strip() == "started"
        assert shell(pods, name, "hostname").strip() == name
    kubectl_path = tools.ensure("kubernetes").path("kubectl")
    call = [kubectl_path, "--kubeconfig", paths.kubeconfig(), "port-forward", "-n", pods, "pod/web", ":8080"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout
            port = forward.stdout.readline().split(":")[1].split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10) as answer:
                assert answer.read().decode().strip() == SERVED
        finally:
            forward.terminate()


def test_a_pod_reaches_the_api_by_name_with_its_token_and_a_certificate_that_verifies(pods: str) -> None:
    kubectl("create", "rolebinding", "reads", "-n", pods, "--clusterrole=view", f"--serviceaccount={pods}:default")
    found = shell(pods, "far", "nslookup kubernetes.default.svc.cluster.local")
    assert network.SERVICE_IP in found
    script = (
        f"TOKEN=$(cat {SECRETS}/token) CA=$(cat {SECRETS}/ca.crt) "
        f"chroot /machine {Path(sys.executable).resolve()} -c '{ASK_API}' {network.SERVICE_IP} {pods}"
    )
    # A role that was bound a moment ago may not be known to the API server yet.
    answer = eventually(lambda: _starts(shell(pods, "far", script), "200 "), "the API answers a pod", 20)
    assert sorted(item["metadata"]["name"] for item in json.loads(answer[4:])["items"]) == ["far", "near", "web"]


def _starts(text: str, beginning: str) -> str:
    return text if text.startswith(beginning) else ""


def test_a_container_over_its_memory_limit_is_killed_for_it(namespace: str) -> None:
    create(namespace, pod("greedy", ["tail", "/dev/zero"], resources={"limits": {"memory": "40Mi"}}))

    def end() -> dict[str, Any]:
        status = json.loads(kubectl("get", "pod", "greedy", "-n", namespace, "-o", "json"))["status"]
        return status.get("containerStatuses", [{}])[0].get("state", {}).get("terminated", {})

    ended = eventually(end, "the container ends")
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_host_path_is_the_machines_own(namespace: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("from the machine\n")
    create(namespace, pod("reader", ["cat", f"/machine{tmp_path}/data"]))
    logs = eventually(lambda: kubectl("logs", "-n", namespace, "reader", check=False), "it has read the file")
    assert logs == "from the machine\n"


def test_a_kubelet_answers_nobody_without_a_certificate(local_cluster: None) -> None:  # noqa: ARG001
    from local import health

    url = f"https://{node.at(1).ip}:10250/pods"
    pki = Pki(paths.cluster() / "pki")
    assert health.https(url, pki, identities.KUBELET_READER) == ""
    assert "403" in health.https(url, pki, "coredns")


def test_the_api_server_listens_on_the_clusters_bridge_only(local_cluster: None) -> None:  # noqa: ARG001
    with socket.create_connection((network.HOST_IP, network.API_PORT), 5):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", network.API_PORT), 5)


def test_keys_are_readable_by_their_owner_only(local_cluster: None) -> None:  # noqa: ARG001
    state = paths.cluster()
    secret = [*(state / "pki").glob("*.key"), *(state / "kubeconfigs").iterdir(), state / "kubeconfig"]
    assert len(secret) > 10
    assert {oct(file.stat().st_mode & 0o777) for file in secret} == {"0o600"}
