"""One Indexed Job a role.

Decided here: the Job's options and the pod template, which holds to Pod Security "restricted". Who a replica is comes
from tf_config.py; how the Job is replaced from deploy.py.
"""

from typing import Any

from modules import names, tf_config
from modules.manifests import config_map as config_maps
from modules.plan import CLUSTER_MOUNT, CODE_MOUNT, Plan, Role

# Any user but root will do; images need not know it. The group owns what the pod mounts.
USER = 1000

# TensorFlow's server answers SIGTERM at once; a chief gets this long to write a last checkpoint (Kubernetes' default).
GRACE_SECONDS = 30


def job(plan: Plan, role: Role, config_map: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": role.job,
            "namespace": plan.namespace,
            "labels": names.labels(plan.name, role.name),
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": role.replicas,
            "parallelism": role.replicas,
            "backoffLimit": role.retries,
            # Two pods must never be the same replica: the new one waits until the old one is gone.
            "podReplacementPolicy": "Failed",
            **({"podFailurePolicy": _failure_policy()} if role.decides else {}),
            "template": {
                "metadata": {"labels": names.labels(plan.name, role.name)},
                "spec": _pod(plan, role, config_map),
            },
        },
    }


def _failure_policy() -> dict[str, Any]:
    """What a dead chief means. The first rule that fits counts, so an evicted pod is told apart from a failed one."""
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ended_by_itself = {
        "action": "FailJob",
        "onExitCodes": {"containerName": names.CONTAINER, "operator": "In", "values": list(range(1, 128))},
    }
    return {"rules": [disrupted, ended_by_itself]}


def _pod(plan: Plan, role: Role, config_map: str) -> dict[str, Any]:
    mounts = [
        {"name": "cluster", "mountPath": CLUSTER_MOUNT, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[dict[str, Any]] = [
        {"name": "cluster", "configMap": {"name": config_map}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if plan.code:
        items = [{"key": key, "path": path} for key, path in config_maps.code_keys(plan).items()]
        mounts.append({"name": "code", "mountPath": CODE_MOUNT, "readOnly": True})
        volumes.append({"name": "code", "configMap": {"name": config_map, "items": items}})
    return {
        "subdomain": plan.name,
        # A servant starts again in place: same pod, same address, no heap of dead pods. The deciding role gets a new
        # pod each time, because Kubernetes reads its exit code only from a pod that never restarts.
        "restartPolicy": "Never" if role.decides else "OnFailure",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        # Training code needs no API access, and no environment full of other people's services.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(plan, role, config_map, mounts)],
        "volumes": volumes,
    }


def _container(plan: Plan, role: Role, config_map: str, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    home = {} if "HOME" in role.env else {"HOME": "/tmp"}
    user_env = [{"name": name, "value": value} for name, value in {**home, **role.env}.items()]
    container: dict[str, Any] = {
        "name": names.CONTAINER,
        "image": role.image,
        "command": list(role.command),
        "args": list(role.args),
        "env": tf_config.environment(plan, role, config_map) + user_env,
        "ports": [{"name": names.GRPC_PORT_NAME, "containerPort": role.port}],
        "resources": _resources(role),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {key: value for key, value in container.items() if value or key == "name"}


def _resources(role: Role) -> dict[str, Any]:
    """CPU is a request only: a limit throttles TensorFlow's threads. Memory is both: what was asked is what it gets."""
    requests = {name: value for name, value in (("cpu", role.cpu), ("memory", role.memory)) if value}
    limits = {"limits": {"memory": role.memory}} if role.memory else {}
    return {"requests": requests, **limits} if requests else {}
