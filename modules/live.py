"""What the cluster says of a training: read from the cluster alone, no Pulumi state. SHELL.

Decided here: how Jobs and pods add up to the state of a role and the outcome of a training. How that is shown is in
view.py.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from modules import names, rules
from modules.access import Access
from modules.api import api_client
from modules.errors import EnvironmentFault

RUNNING, SUCCEEDED, FAILED, UNKNOWN = "Running", "Succeeded", "Failed", "Unknown"


@dataclass(frozen=True)
class RoleState:
    """One role as it is now."""

    name: str
    desired: int
    pending: int
    running: int
    succeeded: int
    failed: int
    restarts: int
    state: str
    note: str = ""


@dataclass(frozen=True)
class Snapshot:
    """A training as it is now."""

    name: str
    namespace: str
    roles: tuple[RoleState, ...]

    @property
    def decider(self) -> RoleState | None:
        by_name = {role.name: role for role in self.roles}
        return by_name.get(rules.decider(by_name) or "")

    @property
    def state(self) -> str:
        """Unknown until a pod runs, then Running until the deciding role has succeeded or failed."""
        if self.decider and self.decider.state in (SUCCEEDED, FAILED):
            return self.decider.state
        return RUNNING if any(role.running for role in self.roles) else UNKNOWN


class NoTraining(EnvironmentFault):
    """The cluster answers, but has no such training."""


class Live:
    """The objects of one training in one cluster."""

    def __init__(self, access: Access, name: str, namespace: str) -> None:
        api = api_client(access.kubeconfig, access.context)
        self.name, self.namespace = name, namespace
        self._where = access.where
        self._batch, self._core = client.BatchV1Api(api), client.CoreV1Api(api)
        self._selector = ",".join(f"{key}={value}" for key, value in names.selector(name).items())

    def snapshot(self) -> Snapshot:
        jobs = self._listed(self._batch.list_namespaced_job)
        pods = self._listed(self._core.list_namespaced_pod)
        if not jobs:
            raise NoTraining(
                f"no training '{self.name}' in namespace '{self.namespace}': {self._where}", fix="deploy it: pulumi up"
            )
        roles = [_role_state(job, [pod for pod in pods if _role(pod) == _role(job)]) for job in jobs]
        roles.sort(key=lambda role: rules.rank(role.name))
        return Snapshot(self.name, self.namespace, tuple(roles))

    def job_ids(self) -> set[str]:
        """The identities of all Jobs; another set means another generation. Empty when nothing is deployed."""
        return {job["metadata"]["uid"] for job in self._listed(self._batch.list_namespaced_job)}

    def last_lines(self, role: str, index: int = 0, count: int = 15) -> list[str]:
        """The end of the newest log of one replica."""
        pods = [
            pod
            for pod in self._listed(self._core.list_namespaced_pod)
            if _role(pod) == role and pod["metadata"]["labels"].get(names.INDEX_LABEL) == str(index)
        ]
        if not pods:
            return []
        newest = max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])
        try:
            text = self._core.read_namespaced_pod_log(
                newest["metadata"]["name"], self.namespace, container=names.CONTAINER, tail_lines=count
            )
        except ApiException as error:
            return [f"(no log: {error.reason})"]
        return text.splitlines()

    def _listed(self, method: Any) -> list[dict[str, Any]]:
        """All objects of a kind, as plain dicts: the client's typed objects cost ten times as much to make."""
        items: list[dict[str, Any]] = []
        following = None
        while following != "":
            try:
                answer = method(
                    self.namespace,
                    label_selector=self._selector,
                    limit=500,
                    _continue=following,
                    _preload_content=False,
                    _request_timeout=10,
                )
            except Exception as error:
                raise EnvironmentFault(f"the cluster does not answer: {self._where}", why=str(error)) from None
            page = json.loads(answer.data)
            items += page["items"]
            following = page["metadata"].get("continue", "")
        return items


def _role(item: Mapping[str, Any]) -> str:
    return item["metadata"]["labels"][names.LABEL_COMPONENT]


def _role_state(job: Mapping[str, Any], pods: list[dict[str, Any]]) -> RoleState:
    status = job.get("status", {})
    true = {condition["type"]: condition for condition in status.get("conditions", []) if condition["status"] == "True"}
    phases = [pod.get("status", {}).get("phase") for pod in pods]
    if "Complete" in true or "SuccessCriteriaMet" in true:
        state = SUCCEEDED
    elif "Failed" in true or "FailureTarget" in true:
        state = FAILED
    else:
        # A pod that has ended before its Job says so is still part of a running role.
        state = UNKNOWN if set(phases) <= {"Pending", "Unknown", None} else RUNNING
    ended = true.get("Failed") or true.get("FailureTarget") or {}
    return RoleState(
        name=_role(job),
        desired=job["spec"]["completions"],
        pending=phases.count("Pending"),
        running=phases.count("Running"),
        succeeded=status.get("succeeded", 0),
        failed=status.get("failed", 0),
        restarts=sum(sum(c.get("restartCount", 0) for c in _container_states(pod)) for pod in pods),
        state=state,
        note=ended.get("message") or next(filter(None, map(_hindrance, pods)), ""),
    )


def _container_states(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return pod.get("status", {}).get("containerStatuses", [])


def _hindrance(pod: Mapping[str, Any]) -> str:
    """Why a pod does not run, in the cluster's own words; empty when it does."""
    for container in _container_states(pod):
        waiting = container.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in ("ContainerCreating", "PodInitializing"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return ""
