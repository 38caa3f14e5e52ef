"""Names, labels and their limits, and the content hash that makes a changed cluster a new one.

Decided here: how every object, host and label of a training cluster is called. These are a contract with users'
scripts and dashboards: a change here breaks them.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

# A Service name is a DNS-1035 label and a pod's hostname a DNS-1123 label: both end at 63 characters.
DNS_LABEL_MAX = 63
SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"

# Pods of the training itself. TensorBoard and helpers get other names, so that neither the headless Service nor the
# NetworkPolicy of the gRPC ports takes them in.
APP = "tfcluster"

# The Job controller sets this label on every pod of an Indexed Job (GA in Kubernetes 1.32).
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"

CONTAINER = "tensorflow"
GRPC_PORT_NAME = "grpc"

HASH_LENGTH = 10


def job(cluster: str, role: str) -> str:
    return f"{cluster}-{role}"


def host(cluster: str, role: str, index: int) -> str:
    """The DNS name of one replica within its namespace: pod hostname, then the headless Service."""
    return f"{job(cluster, role)}-{index}.{cluster}"


def config_map(cluster: str, content_hash: str) -> str:
    return f"{cluster}-cluster-{content_hash}"


def network_policy(cluster: str) -> str:
    return f"{cluster}-grpc"


def longest_hostname(cluster: str, role: str, replicas: int) -> str:
    return f"{job(cluster, role)}-{replicas - 1}"


def hosts_variable(role: str) -> str:
    """`PS_HOSTS` for ps: what a TF 1-style program reads."""
    return role.upper().replace("-", "_") + "_HOSTS"


def hosts_key(role: str) -> str:
    """The same list as a key of the ConfigMap, and so as a file."""
    return f"{role}_hosts"


def selector(cluster: str) -> dict[str, str]:
    """What picks all training pods of one cluster and nothing else."""
    return {LABEL_NAME: APP, LABEL_INSTANCE: cluster}


def labels(cluster: str, component: str) -> dict[str, str]:
    return {**selector(cluster), LABEL_COMPONENT: component, LABEL_MANAGED_BY: APP}


def content_hash(content: Mapping[str, Any]) -> str:
    """Short and stable over key order: part of names, so only characters that a name may have."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
