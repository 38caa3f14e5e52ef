"""What runs in a node: containerd, kubelet and kube-proxy, and how they are told to.

Decided here: their settings. They start in the namespaces of a node that runs (node.py).
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import yaml

from local import cgroups, daemon, health, identities, image, network
from local.daemon import Daemon
from local.node import CONTAINERD_SOCKET, Node
from local.site import Site
from modules.errors import EnvironmentFault

_KUBELET_PORT = 10250
_PROXY_HEALTH_PORT = 10256

# Where distributions, and installations by hand, put the CNI plugins.
_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
_CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")

# restrict_oom_score_adj: a root without CAP_SYS_RESOURCE may not protect a sandbox from the OOM killer, and no sandbox
# would start. The folders are those that containerd has anyway, each node's own (node_init.py).
_CONTAINERD = """\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_programs}"
    conf_dir = "{cni_settings}"
"""

# Towards an image registry the user's proxy is right; towards the cluster it never is.
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


def containerd(site: Site, node: Node) -> Daemon:
    cni, settings = node.folder / "cni" / "10-tfcluster.conflist", node.folder / "containerd.toml"
    text = _CONTAINERD.format(
        socket=CONTAINERD_SOCKET, pause=image.PAUSE, cni_programs=_cni_programs(), cni_settings=cni.parent
    )
    proxies = {name: os.environ[name] for name in _PROXY_VARIABLES if name in os.environ}
    return _in_node(
        site, node, "containerd", (str(_system_program("containerd")), "--config", str(settings)),
        check=lambda: health.unix_socket(node.containerd_socket),
        settings={settings: text, cni: json.dumps(_pod_network(node), indent=2)},
        environment=proxies,
    )  # fmt: skip


def kubelet(site: Site, node: Node) -> Daemon:
    settings = node.folder / "kubelet.yaml"
    identity = site.kubeconfig_of(identities.node_user(node.name))
    server = identities.node_server(node.name)
    return _in_node(
        site, node, "kubelet",
        (
            str(site.program("kubelet")),
            f"--config={settings}",
            f"--kubeconfig={identity}",
            f"--node-ip={node.ip}",
            f"--hostname-override={node.name}",
        ),
        check=lambda: health.https(f"https://{node.ip}:{_KUBELET_PORT}/healthz", site.pki, identities.KUBELET_READER),
        settings={settings: yaml.safe_dump(_kubelet_settings(site, node))},
        inputs=(identity, site.pki.authority, site.pki.certificate(server), site.pki.key(server)),
        incarnation=site.config.incarnation,
    )  # fmt: skip


def kube_proxy(site: Site, node: Node) -> Daemon:
    settings = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": network.POD_NET,
        "clientConnection": {"kubeconfig": str(site.kubeconfig_of("kube-proxy"))},
        "conntrack": {"maxPerCore": 0},  # a setting of the whole machine, not of a node
        "healthzBindAddress": f"{node.ip}:{_PROXY_HEALTH_PORT}",
        "hostnameOverride": node.name,
    }
    file = node.folder / "kube-proxy.yaml"
    return _in_node(
        site, node, "kube-proxy", (str(site.program("kube-proxy")), f"--config={file}"),
        check=lambda: health.http_page(f"http://{node.ip}:{_PROXY_HEALTH_PORT}/livez"),
        settings={file: yaml.safe_dump(settings)},
        inputs=(site.kubeconfig_of("kube-proxy"),),
        incarnation=site.config.incarnation,
    )  # fmt: skip


def _in_node(
    site: Site,
    node: Node,
    name: str,
    argv: tuple[str, ...],
    *,
    check: Callable[[], str],
    settings: dict[Path, str],
    inputs: tuple[Path, ...] = (),
    environment: dict[str, str] | None = None,
    incarnation: str = "",
) -> Daemon:
    return Daemon(
        f"{node.name}/{name}", site.state, argv, check, settings, inputs, environment or {}, incarnation,
        within=lambda: node.enter([]),
    )  # fmt: skip


def _kubelet_settings(site: Site, node: Node) -> dict[str, object]:
    server = identities.node_server(node.name)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDNS": [network.HOST_IP],
        "clusterDomain": "cluster.local",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(site.pki.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(site.pki.certificate(server)),
        "tlsPrivateKeyFile": str(site.pki.key(server)),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.path(node.name),
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": False,
        "failSwapOn": False,
        "maxPods": 200,  # of the 254 addresses of its range
        # The node's disk is the user's: it being full by their own files is no reason to end a training. Memory is.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        # Our images come from no registry: one that the kubelet cleans away could not be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "imageMaximumGCAge": "0s",
        # Wants to know the disk behind a folder, which on some machines nobody can tell; then no pod would start.
        "localStorageCapacityIsolation": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",  # its default lies outside of what is the node's own
    }


def _pod_network(node: Node) -> dict[str, object]:
    # ptp: every pod on a cable of its own, all routed. A bridge in the node would need br_netfilter for services.
    ranges = [[{"subnet": network.pod_range(node.index)}]]
    addresses = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    return {
        "cniVersion": "0.4.0",
        "name": "tfcluster",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _cni_programs() -> Path:
    for folder in _CNI_FOLDERS:
        if all((folder / plugin).exists() for plugin in _CNI_PLUGINS):
            return folder
    raise EnvironmentFault(
        f"the CNI plugins {', '.join(_CNI_PLUGINS)} are missing", fix="apt-get install containernetworking-plugins"
    )


def _system_program(name: str) -> Path:
    found = shutil.which(name, path=daemon.SYSTEM_PATH)
    if not found:
        raise EnvironmentFault(f"{name} is missing", fix=f"apt-get install {name}")
    return Path(found)
