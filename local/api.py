"""What the embedded cluster itself asks of its API server: its nodes, and the rights of its parts.

Not decided here: anything about experiments (modules/live.py).
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import urllib3.exceptions
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from modules.errors import EnvironmentFault

GPU = "nvidia.com/gpu"
NOT_REAL = "tfcluster.local/gpus"  # the annotation that says so on the node
FAKE_PREFIX = "kwok-"  # names of nodes that exist in the API only
_RIGHTS = Path(__file__).parent / "manifests" / "rights.yaml"
_FAKE_LABEL = {"type": "kwok"}
_FAKE_TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
_LEAVING_SECONDS = 5  # that pods get to end when their node is taken away
_FAKE_SECONDS = 120.0  # that kwok gets to make its nodes ready; ten thousand take it a minute
_POLL = 0.1
_TIMEOUT = 10.0  # seconds; it answers in milliseconds, even while everything starts at once
_MERGE: Any = {"_content_type": "application/strategic-merge-patch+json", "_request_timeout": _TIMEOUT}

FAILURES = (ApiException, urllib3.exceptions.HTTPError, OSError)  # what any call here may end in


Node = Any  # kubernetes.client.V1Node: its fields are typed as optional throughout


class Api:
    """The API server, as the cluster's admin."""

    def __init__(self, kubeconfig: Path, *, retries: int = 3) -> None:
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        # No proxy of the user's between this machine and itself.
        settings.proxy = None
        settings.retries = retries
        api = client.ApiClient(settings)
        self._core, self._rights = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)

    def grant_rights(self) -> None:
        """The roles of manifests/rights.yaml."""
        patches: dict[str, Any] = {"ClusterRole": self._rights.patch_cluster_role}
        patches["ClusterRoleBinding"] = self._rights.patch_cluster_role_binding
        for item in yaml.safe_load_all(_RIGHTS.read_text()):
            patches[item["kind"]](
                item["metadata"]["name"],
                item,
                field_manager="tfcluster-local",
                force=True,
                _content_type="application/apply-patch+yaml",
            )

    def nodes(self, timeout: float = _TIMEOUT) -> dict[str, Node]:
        return {node.metadata.name: node for node in self._items(self._core.list_node, timeout)}

    def declare_node(self, name: str, pod_range: str) -> None:
        """The node's object, before its kubelet comes: the pod range is ours to say."""
        present = self.nodes().get(name)
        if present is None:
            self._core.create_node(_as_node({"metadata": {"name": name}, "spec": {"podCIDR": pod_range}}))
        elif present.spec.unschedulable:
            self._core.patch_node(name, {"spec": {"unschedulable": None}}, **_MERGE)

    def claim_gpus(self, name: str, count: int) -> None:
        """Have a node say that it has GPUs."""
        if gpus(self.nodes()[name]) != count:
            value = str(count) if count else None
            self._core.patch_node_status(
                name, {"status": {"capacity": {GPU: value}, "allocatable": {GPU: value}}}, **_MERGE
            )
        note = "these GPUs are not real" if count else None
        self._core.patch_node(name, {"metadata": {"annotations": {NOT_REAL: note}}}, **_MERGE)

    def empty_node(self, name: str) -> None:
        """No new pods on the node, and an end to those that run there."""
        if name not in self.nodes():
            return
        self._core.patch_node(name, {"spec": {"unschedulable": True}}, **_MERGE)
        deadline = time.monotonic() + 2 * _LEAVING_SECONDS
        while pods := self._items(self._core.list_pod_for_all_namespaces, field_selector=f"spec.nodeName={name}"):
            for pod in pods:
                late = time.monotonic() > deadline
                if late or not pod.metadata.deletion_timestamp:
                    self._delete_pod(pod.metadata, 0 if late else _LEAVING_SECONDS)
            time.sleep(_POLL)

    def remove_node(self, name: str) -> None:
        self._ignoring_absence(lambda: self._core.delete_node(name))

    def set_fakes(self, count: int, *, beside_real_ones: bool, far: Callable[[int], None] = lambda _: None) -> None:
        """Exactly so many nodes that exist in the API only."""
        label = ",".join(f"{key}={value}" for key, value in _FAKE_LABEL.items())
        present = {node.metadata.name for node in self._items(self._core.list_node, label_selector=label)}
        wanted = [f"{FAKE_PREFIX}{index}" for index in range(count)]
        for name in wanted:
            if name not in present:
                self._core.create_node(_fake(name, tainted=beside_real_ones))
        for name in present - set(wanted):
            self.remove_node(name)
        self.wait_ready(wanted, _FAKE_SECONDS, far)

    def wait_ready(self, names: Iterable[str], seconds: float, ready: Callable[[int], None]) -> None:
        """Until every one of these nodes is ready."""
        names, deadline = list(names), time.monotonic() + seconds
        while True:
            nodes = self.nodes()
            waiting = {name: why for name in names if (why := unready(nodes.get(name)))}
            ready(len(names) - len(waiting))
            if not waiting:
                return
            if time.monotonic() > deadline:
                name, why = next(iter(waiting.items()))
                raise EnvironmentFault(f"node {name} is not ready after {seconds:.0f} s", why=why)
            time.sleep(_POLL)

    def _delete_pod(self, pod: Any, grace: int) -> None:
        self._ignoring_absence(
            lambda: self._core.delete_namespaced_pod(pod.name, pod.namespace, grace_period_seconds=grace)
        )

    @staticmethod
    def _items(listing: Callable[..., Any], timeout: float = _TIMEOUT, **chosen: str) -> list[Any]:
        return listing(_request_timeout=timeout, **chosen).items

    @staticmethod
    def _ignoring_absence(action: Callable[[], object]) -> None:
        try:
            action()
        except ApiException as error:
            if error.status != 404:
                raise


def in_words(failure: Exception) -> str:
    """What the API server, or the way to it, says."""
    return str(getattr(failure, "reason", None) or failure)


def unready(node: Node) -> str:
    """Why a node is not ready; "" when it is."""
    if node is None:
        return "it is not registered"
    for condition in node.status.conditions or ():
        if condition.type == "Ready":
            return "" if condition.status == "True" else condition.message or "its kubelet says nothing"
    return "its kubelet has not reported yet"


def gpus(node: Node) -> int:
    """How many GPUs a node says that it has."""
    return int((node.status.capacity or {}).get(GPU, 0)) if node else 0


def _fake(name: str, *, tainted: bool) -> Node:
    """A large GPU node. Beside real nodes it is tainted, so that a pod that should run is not lost on it."""
    has = {"cpu": "64", "memory": "512Gi", "pods": "500", GPU: "8"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **_FAKE_LABEL}
    return _as_node(
        {
            "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": [_FAKE_TAINT] if tainted else []},
            "status": {"capacity": has, "allocatable": has},
        }
    )


def _as_node(manifest: dict[str, Any]) -> Node:
    return client.V1Node.model_validate(manifest)
