"""TfCluster: a training cluster as a Pulumi component.

    TfCluster("mnist", {"image": "…", "roles": {"chief": {…}, "ps": {…}, "worker": {"replicas": 8, …}}})

Decided here: what a Pulumi program sees of a cluster. Everything else is decided before any resource exists.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

from modules import deploy, outputs, spec
from modules.code import files_below
from modules.errors import TfclusterError
from modules.manifests import render
from modules.plan import plan


class TfCluster(pulumi.ComponentResource):
    """Chief, parameter servers, workers and whatever else a stack file describes.

    `args` is the content of `tfcluster:cluster` as a dict, or a ClusterSpec. The attributes are plain values, known at
    preview.
    """

    name: str
    namespace: str
    cluster: dict[str, list[str]]
    jobs: dict[str, str]
    resources: dict[str, Any]

    def __init__(
        self, name: str, args: spec.ClusterSpec | Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        try:
            settings = args if isinstance(args, spec.ClusterSpec) else spec.load(args, stack=name, source=name)
            planned = plan(settings, files_below(settings.code))
            manifests = render(planned)
        except TfclusterError as problem:
            raise pulumi.RunError(str(problem)) from None
        super().__init__("tfcluster:index:TfCluster", name, {}, opts)
        deploy.deploy(name, manifests, parent=self)
        self.values = outputs.outputs(planned)
        for key, value in self.values.items():
            setattr(self, key, value)
        # The addresses grow with the replicas; a program that wants them in its state exports them.
        self.register_outputs({key: value for key, value in self.values.items() if key != "cluster"})
