"""What the one embedded cluster of this cache is: the choices that `up` was given, kept for the next `up`.

Decided here: how new choices meet those of a cluster that exists. Everything else of the cluster's state follows from
this, stands in the files beside it, or is the kernel's to say.
"""

import dataclasses
import json
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from local import network, paths
from modules.errors import EnvironmentFault

# Where the search for a free loopback port begins: below the range that the kernel gives to outgoing connections.
_PORT_BASES = {
    "kube-apiserver": 16443,
    "etcd": 12379,
    "etcd-peer": 12479,
    "kube-controller-manager": 12579,
    "kube-scheduler": 12679,
    "kwok": 12779,
}


@dataclass(frozen=True)
class Config:
    """The cluster as it was asked for."""

    control_plane_only: bool
    nodes: int  # real ones; 0 when control_plane_only
    gpus: int  # that each real node claims to have
    kwok: int  # nodes that exist in the API only
    ports: dict[str, int]  # of what listens on loopback
    incarnation: str  # new whenever the cluster's memory (etcd) is: whatever remembers an older one is restarted

    def save(self) -> None:
        aside = _file().with_suffix(".partial")
        aside.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        aside.rename(_file())

    def anew(self) -> "Config":
        """The same cluster, with its memory lost."""
        return dataclasses.replace(self, incarnation=secrets.token_hex(4))


def _file() -> Path:
    return paths.cluster() / "config.json"


def load() -> Config | None:
    """The choices of the cluster that exists here, running or not."""
    try:
        return Config(**json.loads(_file().read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise EnvironmentFault(f"{_file()} cannot be read", why=str(error), fix="./tfcluster local down") from None


def chosen(
    before: Config | None, *, nodes: int | None, gpus: int | None, control_plane_only: bool, kwok: int | None
) -> Config:
    """The choices of this `up`: what was asked, else what was there, else one node and nothing fancy."""
    for name, asked, most in (("nodes", nodes, network.MAX_NODES), ("gpus", gpus, 1000), ("kwok", kwok, 10_000)):
        if asked is not None and not (name == "nodes") <= asked <= most:
            raise EnvironmentFault(f"--{name} {asked} cannot be", why=f"it goes from {int(name == 'nodes')} to {most}")
    if control_plane_only and (nodes is not None or gpus is not None):
        raise EnvironmentFault(
            "--control-plane-only has no nodes of its own",
            fix="leave --nodes and --gpus out; --kwok N adds nodes without pods",
        )
    if before is None:
        real = 0 if control_plane_only else nodes or 1
        return Config(control_plane_only, real, gpus or 0, kwok or 0, dict(_PORT_BASES), secrets.token_hex(4))
    if control_plane_only and not before.control_plane_only:
        raise _other_kind("a cluster with nodes")
    if before.control_plane_only and (nodes is not None or gpus is not None):
        raise _other_kind("a control plane without nodes")
    return dataclasses.replace(
        before,
        nodes=before.nodes if nodes is None else nodes,
        gpus=before.gpus if gpus is None else gpus,
        kwok=before.kwok if kwok is None else kwok,
    )


def _other_kind(what: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"{what} exists here already, and cannot become the other kind", fix="./tfcluster local down, then up again"
    )


def with_free_ports(config: Config, in_use_by_us: set[str]) -> Config:
    """Ports that nobody else listens on; those of our own running parts stay."""
    ports: dict[str, int] = {}
    for name, base in _PORT_BASES.items():
        kept = config.ports.get(name, base)
        ours = name.removesuffix("-peer") in in_use_by_us
        ports[name] = kept if ours or _free(kept) else _free_from(base)
    return dataclasses.replace(config, ports=ports)


def _free_from(base: int) -> int:
    for port in range(base, base + 100):
        if _free(port):
            return port
    raise EnvironmentFault(f"no free port between {base} and {base + 99} on 127.0.0.1")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a connection of a dead predecessor that lingers is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
