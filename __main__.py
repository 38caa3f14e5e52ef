"""Deploys the training cluster that the stack's configuration describes."""

from concurrent.futures import ThreadPoolExecutor

import pulumi

from modules import access, spec
from modules.errors import TfclusterError

stack = pulumi.get_stack()
try:
    settings = spec.load(pulumi.Config().get_object("cluster"), stack=stack, source=f"stacks/Pulumi.{stack}.yaml")
    with ThreadPoolExecutor() as aside:
        asked = aside.submit(access.reach, settings.context, settings.namespace, preview=pulumi.runtime.is_dry_run())
        # Loading the Kubernetes SDK takes as long as the answer does: both at the same time.
        from modules import deploy
        from modules.component import TfCluster
    reached = asked.result()
except TfclusterError as problem:
    raise pulumi.RunError(str(problem)) from None

for warning in reached.warnings:
    pulumi.log.warn(warning)

cluster = TfCluster(settings.name, settings, pulumi.ResourceOptions(provider=deploy.provider(reached)))
for key, value in cluster.values.items():
    pulumi.export(key, value)
