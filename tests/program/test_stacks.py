"""Every stack of the project, previewed and deployed, as the engine sees it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from local import paths
from modules import code, spec, stackfile
from modules import plan as planning
from modules.manifests import Manifest, render
from modules.outputs import outputs
from modules.plan import Plan
from tests import loopback
from tests.program.conftest import run_main
from tests.program.harness import Deployment, Registered, run

WAIT = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
KINDS = {
    "kubernetes:core/v1:ConfigMap": "ConfigMap",
    "kubernetes:core/v1:Service": "Service",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": "NetworkPolicy",
    "kubernetes:batch/v1:Job": "Job",
}


def planned(stack: str) -> Plan:
    settings = spec.load(stackfile.settings_of_stack(stack), stack=stack)
    return planning.plan(settings, code.files_below(settings.code, stackfile.PROJECT))


@pytest.fixture(params=stackfile.stacks())
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[True, False], ids=["preview", "up"])
def deployed(
    request: pytest.FixtureRequest, stack: str, user: Callable[..., Path], cluster: loopback.ApiServer
) -> Deployment:
    settings: Any = stackfile.settings_of_stack(stack)
    user(cluster.url, (settings.get("context") or "there",))
    deployment = run(run_main, stack=stack, preview=request.param, config={stackfile.CONFIG_KEY: settings})
    assert [path for path, _ in cluster.asked] == [f"/api/v1/namespaces/{planned(stack).namespace}"]
    return deployment


def objects(deployment: Deployment) -> list[Registered]:
    return [resource for resource in deployment.resources if resource.type in KINDS]


def manifest_of(resource: Registered) -> Manifest:
    """What the provider is sent, without what is for the provider alone."""
    manifest = json.loads(json.dumps(resource.inputs))
    manifest["metadata"].pop("annotations", None)
    return manifest


def test_what_is_deployed_is_what_render_shows(stack: str, deployed: Deployment) -> None:
    rendered = {(m["kind"], m["metadata"]["name"]): m for m in render(planned(stack))}
    assert {(KINDS[r.type], r.inputs["metadata"]["name"]): manifest_of(r) for r in objects(deployed)} == rendered


def test_a_provider_and_a_component_carry_all_objects_and_nothing_else_is_there(deployed: Deployment) -> None:
    provider, component = deployed.one("providers:kubernetes"), deployed.one("TfCluster")
    assert len(deployed.resources) == len(objects(deployed)) + 2
    assert provider.parent == component.parent
    for resource in objects(deployed):
        assert resource.parent == component.urn
        assert resource.request.provider == f"{provider.urn}::{provider.name}-id"


def test_resources_are_called_after_cluster_and_role(stack: str, deployed: Deployment) -> None:
    name = planned(stack).name
    assert deployed.one("TfCluster").name == name
    assert deployed.one("ConfigMap").name == f"{name}-cluster"
    assert {job.name for job in deployed.of_type(":Job")} == {f"{name}-{role.name}" for role in planned(stack).roles}


def test_the_provider_keeps_its_objects_when_the_server_s_address_changes(stack: str, deployed: Deployment) -> None:
    provider = deployed.one("providers:kubernetes")
    context = planned(stack).context
    assert provider.inputs["clusterIdentifier"] == provider.inputs["context"]
    if context:
        assert provider.inputs["context"] == context
    assert provider.inputs.get("kubeconfig") == (str(paths.kubeconfig()) if context == paths.LOCAL_CONTEXT else None)
    assert "kubeClientSettings" not in provider.inputs, "a cluster that answers gets the provider's own patience"


def test_jobs_are_accepted_at_once_and_others_are_awaited_as_ever(deployed: Deployment) -> None:
    for resource in objects(deployed):
        annotations = resource.inputs["metadata"].get("annotations", {})
        assert annotations == (WAIT if resource.type.endswith(":Job") else {})


def test_a_job_is_gone_before_the_next_of_its_name_is_made(deployed: Deployment) -> None:
    for job in deployed.of_type(":Job"):
        assert job.request.deleteBeforeReplace
        # camelCase, or it has no effect; `*` would replace running Jobs after a refresh.
        assert set(job.request.replaceOnChanges) == {
            "spec.backoffLimitPerIndex",
            "spec.completionMode",
            "spec.managedBy",
            "spec.podFailurePolicy",
            "spec.successPolicy",
        }


def test_every_job_hangs_on_the_config_map_s_name_as_an_output(deployed: Deployment) -> None:
    barrier = deployed.one("ConfigMap")
    assert barrier.request.deleteBeforeReplace
    assert barrier.dependencies == ()
    policy = deployed.one("NetworkPolicy")
    for job in deployed.of_type(":Job"):
        assert set(job.dependencies) == {barrier.urn, policy.urn}
        assert job.property_dependencies["spec"] == (barrier.urn,)


def test_the_number_of_dependencies_does_not_grow_with_the_objects(deployed: Deployment) -> None:
    assert all(len(resource.dependencies) <= 2 for resource in deployed.resources)


def test_nothing_is_protected_retained_or_allowed_to_differ(deployed: Deployment) -> None:
    for resource in deployed.resources:
        request = resource.request
        assert not request.protect and not request.retainOnDelete
        assert list(request.ignoreChanges) == []


def test_outputs_are_the_plan_s_at_preview_and_at_update(stack: str, deployed: Deployment) -> None:
    assert deployed.outputs == outputs(planned(stack))
    assert pulumi.UNKNOWN not in deployed.outputs.values()


def test_a_cluster_that_answers_gives_no_warning(deployed: Deployment) -> None:
    assert deployed.warnings == []
