"""Plan → what `pulumi stack output` says: plain values, known at preview."""

from typing import Any

from modules import quantity
from modules.plan import Plan


def outputs(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "namespace": plan.namespace,
        "cluster": {role: list(addresses) for role, addresses in plan.cluster.items()},
        "jobs": {role.name: role.job for role in plan.roles},
        "resources": {
            "replicas": sum(role.replicas for role in plan.roles),
            "cpu": quantity.text_of_cores(plan.cpu),
            "memory": quantity.text_of_bytes(plan.memory),
        },
    }
