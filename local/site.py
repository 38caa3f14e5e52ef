"""What every part of the cluster needs to know about the others: where files lie, where the API server answers.

Decided here: the layout of the cluster's folder. Nothing is created here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from local import network, paths
from local.config import Config
from local.pki import Pki


@dataclass(frozen=True)
class Site:
    """One cluster on this machine."""

    config: Config
    program: Callable[[str], Path]  # the file of a tool

    @property
    def state(self) -> Path:
        return paths.cluster()

    @property
    def pki(self) -> Pki:
        return Pki(self.state / "pki")

    @property
    def api_host(self) -> str:
        """Where the API server listens: where nodes reach it, or on loopback when there are none."""
        return "127.0.0.1" if self.config.control_plane_only else network.HOST_IP

    @property
    def api_port(self) -> int:
        return self.config.ports["kube-apiserver"] if self.config.control_plane_only else network.API_PORT

    @property
    def server(self) -> str:
        return f"https://{self.api_host}:{self.api_port}"

    def kubeconfig_of(self, identity: str) -> Path:
        return self.state / "kubeconfigs" / f"{identity}.yaml"

    def settings(self, name: str) -> Path:
        """The settings file of a part of the control plane."""
        return self.state / "settings" / name
