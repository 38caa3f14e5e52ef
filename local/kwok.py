"""Nodes that exist in the API only: kwok says that they are ready and that their pods run.

Pods that land there never end by themselves: nothing runs in them. Decided here: how kwok is told to run; what it says
is in manifests/kwok-stages.yaml. Which such nodes there are is decided in api.py.
"""

from pathlib import Path

from local import health
from local.daemon import Daemon
from local.site import Site

_STAGES = Path(__file__).parent / "manifests" / "kwok-stages.yaml"
# Addresses that pods seem to have; nothing answers there. Outside of the ranges of real nodes.
_POD_NET = "10.245.0.0/16"


def controller(site: Site) -> Daemon:
    """kwok itself."""
    address = f"127.0.0.1:{site.config.ports['kwok']}"
    identity = site.kubeconfig_of("kwok")
    return Daemon(
        "kwok",
        site.state,
        (
            str(site.program("kwok")),
            f"--kubeconfig={identity}",
            f"--config={_STAGES}",
            "--manage-nodes-with-label-selector=type=kwok",
            "--node-lease-duration-seconds=40",
            f"--cidr={_POD_NET}",
            "--node-ip=127.0.0.1",
            f"--server-address={address}",
            "--v=WARN",  # it would tell of every lease of every node
        ),
        check=lambda: health.http_page(f"http://{address}/healthz"),
        inputs=(_STAGES, identity),
        incarnation=site.config.incarnation,
    )
