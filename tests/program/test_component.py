"""TfCluster in programs of other people: the class is all that they import."""

import re
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes import Provider

from modules import spec
from modules.component import TfCluster
from tests.program.harness import Deployment, run

ARGS: dict[str, Any] = {"image": "x", "roles": {"chief": {}, "worker": {"replicas": 2}}}

ENDS = ("", "-cluster", "-grpc", "-chief", "-worker")


def of_cluster(deployment: Deployment, name: str) -> set[str]:
    """The names of all objects that a cluster has in Kubernetes, without the hash of its map."""
    parent = next(resource.urn for resource in deployment.of_type("TfCluster") if resource.name == name)
    names = [r.inputs["metadata"]["name"] for r in deployment.resources if r.parent == parent]
    return {re.sub("-cluster-[0-9a-f]{10}$", "-cluster", each) for each in names}


def test_a_dict_is_enough_and_the_cluster_is_called_after_the_component() -> None:
    seen: dict[str, Any] = {}

    def program() -> None:
        mnist = TfCluster("mnist", ARGS)
        seen.update(name=mnist.name, jobs=mnist.jobs, cluster=mnist.cluster, resources=mnist.resources)

    deployment = run(program, project="theirs", preview=True)
    assert seen["name"] == "mnist"
    assert seen["jobs"] == {"chief": "mnist-chief", "worker": "mnist-worker"}
    assert seen["cluster"]["worker"] == ["mnist-worker-0.mnist:2222", "mnist-worker-1.mnist:2222"]
    assert seen["resources"]["replicas"] == 3
    assert of_cluster(deployment, "mnist") == {"mnist" + end for end in ENDS}


def test_a_spec_serves_as_well_as_a_dict() -> None:
    settings = spec.load(ARGS, stack="mnist")
    from_spec = run(lambda: TfCluster("mnist", settings))
    from_dict = run(lambda: TfCluster("mnist", ARGS))
    assert [r.inputs for r in from_spec.resources] == [r.inputs for r in from_dict.resources]


def test_several_clusters_stand_beside_each_other_in_one_program() -> None:
    def program() -> None:
        TfCluster("one", ARGS)
        TfCluster("two", ARGS)
        TfCluster("three", {**ARGS, "name": "one", "namespace": "elsewhere"})

    deployment = run(program)
    assert len(deployment.resources) == 3 * 6
    assert of_cluster(deployment, "one") == {"one" + end for end in ENDS}
    assert of_cluster(deployment, "two") == {"two" + end for end in ENDS}
    barriers = {resource.urn for resource in deployment.of_type("ConfigMap")}
    assert {job.property_dependencies["spec"][0] for job in deployment.of_type(":Job")} == barriers


def test_the_caller_s_parent_and_provider_reach_every_object() -> None:
    class Experiment(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("theirs:index:Experiment", "experiment")
            provider = Provider("theirs", context="far", opts=pulumi.ResourceOptions(parent=self))
            TfCluster("mnist", ARGS, pulumi.ResourceOptions(parent=self, provider=provider))

    deployment = run(Experiment)
    component, provider = deployment.one("TfCluster"), deployment.one("providers:kubernetes")
    assert component.parent == deployment.one("Experiment").urn
    children = [resource for resource in deployment.resources if resource.parent == component.urn]
    assert len(children) == 5
    assert {child.request.provider for child in children} == {f"{provider.urn}::theirs-id"}


def test_a_component_whose_parent_has_a_provider_inherits_it() -> None:
    def program() -> None:
        provider = Provider("theirs", context="far")
        outer = pulumi.ComponentResource(
            "theirs:index:Outer", "outer", {}, pulumi.ResourceOptions(providers={"kubernetes": provider})
        )
        TfCluster("mnist", ARGS, pulumi.ResourceOptions(parent=outer))

    deployment = run(program)
    (job, _) = deployment.of_type(":Job")
    assert job.request.provider == f"{deployment.one('providers:kubernetes').urn}::theirs-id"


def test_protection_is_inherited_from_the_component() -> None:
    deployment = run(lambda: TfCluster("mnist", ARGS, pulumi.ResourceOptions(protect=True)))
    assert all(resource.request.protect for resource in deployment.resources)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({**ARGS, "imgae": "y"}, "mnist: 1 problem\n  - imgae: unknown key"),
        ({"image": "x", "roles": {"worker": {"replicas": 10_000}}}, "roles: the addresses in TF_CONFIG"),
        ({**ARGS, "code": "nowhere"}, "code: there is no such file or folder"),
        (None, "must be a map"),
    ],
)
def test_bad_arguments_are_a_message_and_leave_no_component_behind(args: Any, words: str) -> None:
    deployment = Deployment()
    with pytest.raises(pulumi.RunError) as caught:
        run(lambda: TfCluster("mnist", args), into=deployment)
    assert words in str(caught.value)
    assert deployment.resources == []


def test_another_generation_has_another_config_map_and_the_same_resources() -> None:
    before, after = (run(lambda number=number: TfCluster("mnist", {**ARGS, "run": number})) for number in (1, 2))
    assert [resource.urn for resource in before.resources] == [resource.urn for resource in after.resources]
    names = [deployment.one("ConfigMap").inputs["metadata"]["name"] for deployment in (before, after)]
    assert names[0] != names[1]
    for deployment, name in zip((before, after), names, strict=True):
        assert all(name in str(job.inputs["spec"]) for job in deployment.of_type(":Job"))
