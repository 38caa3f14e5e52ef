"""Deploys the training cluster that the stack's configuration describes."""

import pulumi

from modules import access, deploy, spec
from modules.component import TfCluster
from modules.errors import TfclusterError

try:
    stack = pulumi.get_stack()
    settings = spec.load(pulumi.Config().get_object("cluster"), stack=stack, source=f"stacks/Pulumi.{stack}.yaml")
    reached = access.reach(settings.context, settings.namespace, preview=pulumi.runtime.is_dry_run())
except TfclusterError as problem:
    raise pulumi.RunError(str(problem)) from None

for warning in reached.warnings:
    pulumi.log.warn(warning)

cluster = TfCluster(settings.name, settings, pulumi.ResourceOptions(provider=deploy.provider(reached)))
for key, value in cluster.values.items():
    pulumi.export(key, value)
