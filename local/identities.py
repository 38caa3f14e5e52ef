"""Who is who in the cluster: the user, the groups and the addresses of every certificate.

Each part has an identity of its own, with the rights that Kubernetes' own roles (and manifests/rights.yaml) give to it;
only `admin`, the user's, may do everything.
"""

from local import network
from local.config import Config
from local.pki import Identity

ADMIN = "admin"
KUBELET_READER = "kube-apiserver-kubelet-client"  # what the API server is towards kubelets


def node_user(node: str) -> str:
    """The name of a node's client certificate."""
    return f"{node}-kubelet"


def node_server(node: str) -> str:
    return f"{node}-kubelet-server"


def all_of(config: Config) -> list[Identity]:
    """Every identity that this cluster needs."""
    identities = [
        Identity(ADMIN, "tfcluster-admin", ("system:masters",)),
        _server("etcd", ("127.0.0.1", "localhost"), usages=("server", "client")),
        Identity("kube-apiserver-etcd-client", "kube-apiserver-etcd-client"),
        Identity(KUBELET_READER, KUBELET_READER),
        _server("kube-apiserver", _api_addresses(config)),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        _server("kube-controller-manager-server", ("127.0.0.1", "localhost")),
        Identity("kube-scheduler", "system:kube-scheduler"),
        _server("kube-scheduler-server", ("127.0.0.1", "localhost")),
    ]
    if config.kwok:
        identities.append(Identity("kwok", "tfcluster:kwok"))
    if not config.control_plane_only:
        identities.append(Identity("coredns", "tfcluster:coredns"))
        identities.append(Identity("kube-proxy", "system:kube-proxy"))
    for index in range(1, config.nodes + 1):
        name = f"tfcluster-{index}"
        identities.append(Identity(node_user(name), f"system:node:{name}", ("system:nodes",)))
        identities.append(_server(node_server(name), (network.node_ip(index), name)))
    return identities


def with_kubeconfig(config: Config) -> list[str]:
    """The identities that talk to the API server from a file that says how."""
    names = ["kube-controller-manager", "kube-scheduler"]
    names += ["kwok"] * bool(config.kwok)
    if config.nodes:
        names += ["coredns", "kube-proxy"]
    return names + [node_user(f"tfcluster-{index}") for index in range(1, config.nodes + 1)]


def _api_addresses(config: Config) -> tuple[str, ...]:
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    own = ("127.0.0.1", "localhost") if config.control_plane_only else (network.HOST_IP,)
    return (*names, network.SERVICE_IP, *own)


def _server(name: str, addresses: tuple[str, ...], usages: tuple[str, ...] = ("server",)) -> Identity:
    return Identity(name, name, usages=usages, addresses=addresses)
