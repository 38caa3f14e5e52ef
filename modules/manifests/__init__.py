"""Plan → Kubernetes objects, as plain camelCase dicts in the order in which they are to be made.

Decided here: which objects a cluster consists of. Their number depends on the roles, never on the replicas.
"""

from typing import Any

from modules.manifests import config_map, jobs, network
from modules.plan import Plan

Manifest = dict[str, Any]


def render(plan: Plan) -> list[Manifest]:
    """All objects of the cluster."""
    data = config_map.content(plan)
    # The name stands in every pod template, and its hash covers every pod template: so the hash is taken of templates
    # with an empty name, and the real name is put in afterwards.
    name = config_map.name(plan, data, [jobs.job(plan, role, "") for role in plan.roles])
    return [
        config_map.manifest(plan, name, data),
        network.service(plan),
        network.policy(plan),
        *(jobs.job(plan, role, name) for role in plan.roles),
    ]
