"""How a replica learns who it is: TF_CONFIG, host lists, job name and index.

Decided here: the content of the cluster JSON and the environment's order. The kubelet expands `$(X)` only from
variables that stand before it, and the Job controller appends its own index variable last unless it is declared: so
the index is declared first.
"""

import json
from typing import Any

from modules import names, rules
from modules.plan import Plan, Role

CLUSTER_KEY = "cluster.json"

# TF_CONFIG is put together in the pod, so that one template serves every replica of a role.
_TF_CONFIG = (
    '{{"cluster":$(TF_CLUSTER),"task":{{"type":"{role}","index":$(JOB_COMPLETION_INDEX)}},"environment":"cloud"}}'
)


def cluster_json(plan: Plan) -> str:
    """The addresses of every role in the cluster: the same text for every replica."""
    return json.dumps({role: list(addresses) for role, addresses in plan.cluster.items()}, separators=(",", ":"))


def host_lists(plan: Plan) -> dict[str, str]:
    """ConfigMap key → comma list without spaces, for TF 1-style flags: `--ps_hosts=$(PS_HOSTS)`."""
    return {names.hosts_key(role.name): ",".join(role.addresses) for role in plan.roles}


def growing_variables(plan: Plan) -> dict[str, str]:
    """The variables whose length depends on the number of replicas, as a pod gets them."""
    lists = {names.hosts_variable(role.name): ",".join(role.addresses) for role in plan.roles}
    role = max((role.name for role in plan.roles), key=len)
    return {**lists, "TF_CONFIG": _TF_CONFIG.format(role=role).replace("$(TF_CLUSTER)", cluster_json(plan))}


def environment(plan: Plan, role: Role, config_map: str) -> list[dict[str, Any]]:
    """The env that makes each replica of `role` itself. What the user sets comes after it and may refer to it."""

    def from_config(variable: str, key: str) -> dict[str, Any]:
        return {"name": variable, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}

    index_path = f"metadata.labels['{names.INDEX_LABEL}']"
    env = [
        {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": index_path}}},
        {"name": "JOB_NAME", "value": role.name},
        {"name": "TASK_INDEX", "value": "$(JOB_COMPLETION_INDEX)"},
        *(from_config(names.hosts_variable(other.name), names.hosts_key(other.name)) for other in plan.roles),
    ]
    if plan.distributed and (role.in_cluster or role.name == rules.EVALUATOR):
        env += [
            from_config("TF_CLUSTER", CLUSTER_KEY),
            {"name": "TF_CONFIG", "value": _TF_CONFIG.format(role=role.name)},
        ]
    return env
