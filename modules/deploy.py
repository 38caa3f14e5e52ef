"""Kubernetes objects → Pulumi resources. The only file that imports pulumi_kubernetes.

Decided here: which options the engine gets, so that `up` returns when objects are accepted and two generations of one
cluster never run at the same time. What the objects say is decided in manifests/.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes import Provider
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, Service
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from modules import names
from modules.access import Access
from modules.manifests import Manifest

_CLASSES = {"Service": Service, "NetworkPolicy": NetworkPolicy}

# The provider waits for a Job to complete, ten minutes at most: a training takes longer. This condition is true as soon
# as the Job exists; its deletion is still waited for, which `skipAwait` would give up.
_ACCEPTED = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}

# The API server holds these immutable; the provider knows of completions, parallelism, selector and template only.
_IMMUTABLE_IN_JOBS = [
    "spec.backoffLimitPerIndex",
    "spec.completionMode",
    "spec.managedBy",
    "spec.podFailurePolicy",
    "spec.successPolicy",
]

# Our own check has waited five seconds for such a cluster; the provider asks it several times more.
_SILENT_CLUSTER_TIMEOUT = 1


def provider(access: Access) -> Provider:
    """The connection to the cluster of the stack."""
    return Provider(
        "cluster",
        context=access.context,
        # Other kubeconfigs are where the provider looks by itself, and differ from one machine to the next.
        kubeconfig=access.kubeconfig if access.embedded else None,
        # Without it a changed server address would replace every object.
        cluster_identifier=access.context or "current",
        kube_client_settings={"timeout": _SILENT_CLUSTER_TIMEOUT} if access.silent else None,
    )


def deploy(name: str, manifests: list[Manifest], parent: pulumi.Resource) -> None:
    """Registers all objects as children of `parent`, named by role and not by position.

    The names start with `name`, the parent's own: a URN has the parent's type and not its name, and one program may
    have several clusters.
    """
    jobs = [manifest for manifest in manifests if manifest["kind"] == "Job"]
    others = {manifest["kind"]: manifest for manifest in manifests if manifest["kind"] != "Job"}
    generation = others.pop("ConfigMap")
    # All Jobs are deleted before this map is, and made after it: so no pod of the old generation lives beside one of
    # the new. That holds because its name reaches every Job as an output.
    barrier = ConfigMap(f"{name}-cluster", **_arguments(generation), opts=_options(parent, delete_before_replace=True))
    made = {
        kind: _CLASSES[kind](f"{name}-{kind.lower()}", **_arguments(manifest), opts=_options(parent))
        for kind, manifest in others.items()
    }
    for manifest in jobs:
        role = manifest["metadata"]["labels"][names.LABEL_COMPONENT]
        arguments = _accepted_at_once(_arguments(manifest))
        options = _options(
            parent,
            delete_before_replace=True,
            replace_on_changes=_IMMUTABLE_IN_JOBS,
            # No server listens before the policy that closes its port is there.
            depends_on=[made["NetworkPolicy"]],
        )
        arguments = _with_output(arguments, generation["metadata"]["name"], barrier.metadata.name)
        Job(f"{name}-{role}", **arguments, opts=options)


def _options(parent: pulumi.Resource, **more: Any) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(parent=parent, **more)


def _arguments(manifest: Manifest) -> dict[str, Any]:
    """The manifest as keyword arguments of its resource class, which wants its top level in snake_case."""
    renamed = {"binaryData": "binary_data"}
    return {renamed.get(key, key): value for key, value in manifest.items() if key not in ("apiVersion", "kind")}


def _accepted_at_once(arguments: Mapping[str, Any]) -> dict[str, Any]:
    metadata = arguments["metadata"]
    return {**arguments, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **_ACCEPTED}}}


def _with_output(value: Any, text: str, output: pulumi.Output[str]) -> Any:
    """`value` with every string that is `text` replaced by `output`."""
    if isinstance(value, dict):
        return {key: _with_output(item, text, output) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_output(item, text, output) for item in value]
    return output if value == text else value
