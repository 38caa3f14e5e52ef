"""How replicas find each other, and who may not find them.

Decided here: the headless Service that gives each pod its DNS name, and the NetworkPolicy that closes the gRPC port to
everyone outside the cluster: TensorFlow's server has no authentication and runs whatever graph it is sent.
"""

from typing import Any

from modules import names
from modules.plan import Plan


def _ports(plan: Plan) -> list[int]:
    return sorted({role.port for role in plan.roles})


def service(plan: Plan) -> dict[str, Any]:
    ports = _ports(plan)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": names.labels(plan.name, "cluster"),
        },
        "spec": {
            "clusterIP": "None",
            # Peers must find each other before anything is ready: TensorFlow connects while it starts.
            "publishNotReadyAddresses": True,
            "selector": names.selector(plan.name),
            "ports": [
                {"name": names.GRPC_PORT_NAME if len(ports) == 1 else f"{names.GRPC_PORT_NAME}-{port}", "port": port}
                for port in ports
            ],
        },
    }


def policy(plan: Plan) -> dict[str, Any]:
    own_pods = {"podSelector": {"matchLabels": names.selector(plan.name)}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": names.network_policy(plan.name),
            "namespace": plan.namespace,
            "labels": names.labels(plan.name, "cluster"),
        },
        "spec": {
            **own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [own_pods], "ports": [{"protocol": "TCP", "port": port} for port in _ports(plan)]}],
        },
    }
