"""The control plane: etcd, API server, controller-manager, scheduler and DNS, as processes of this machine.

Decided here: how each is told to run. They listen on loopback, except for the two that nodes and pods talk to: API
server and DNS, which listen on the cluster's bridge. Not decided here: in which order they start (cluster.py).
"""

import time
from pathlib import Path

import yaml

from local import health, identities, kubeconfig, network
from local.daemon import Daemon, Running, Started
from local.site import Site
from modules.errors import EnvironmentFault

DNS_READY_PORT = 8181

# What etcd says when its data are not to blame for its end. Whatever else ends it at its start does so for ever.
_NOT_THE_DATA = ("address already in use", "no space left", "permission denied", "too many open files", "certificate")

_RESOLV_CONF = Path("/etc/resolv.conf")

_COREFILE = """\
.:53 {{
  bind {host}
  errors
  ready {host}:{ready}
  kubernetes cluster.local in-addr.arpa ip6.arpa {{
    kubeconfig {kubeconfig} {context}
    ttl 2
    fallthrough in-addr.arpa ip6.arpa
  }}
  cache 30 {{
    denial 9984 2
  }}
{forward}}}
"""


def etcd(site: Site) -> Daemon:
    client = f"https://127.0.0.1:{site.config.ports['etcd']}"
    peer = f"https://127.0.0.1:{site.config.ports['etcd-peer']}"
    key, certificate, authority = site.pki.key("etcd"), site.pki.certificate("etcd"), site.pki.authority
    return Daemon(
        "etcd",
        site.state,
        (
            str(site.program("etcd")),
            "--name=tfcluster",
            f"--data-dir={data_of_etcd(site)}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=tfcluster={peer}",
            "--client-cert-auth",
            f"--trusted-ca-file={authority}",
            f"--cert-file={certificate}",
            f"--key-file={key}",
            "--peer-client-cert-auth",
            f"--peer-trusted-ca-file={authority}",
            f"--peer-cert-file={certificate}",
            f"--peer-key-file={key}",
            # A killed etcd loses nothing by this, only a machine that loses its power may; then the data are set aside
            # and stacks are deployed again. With it, a laptop's slow disk does not slow every write of the API.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ),
        check=lambda: health.https(f"{client}/health", site.pki, "kube-apiserver-etcd-client"),
        inputs=(key, certificate, authority),
    )


def data_of_etcd(site: Site) -> Path:
    return site.state / "etcd"


def has_data(site: Site) -> bool:
    return (data_of_etcd(site) / "member").exists()


def start_etcd(site: Site, running: tuple[Running, ...]) -> tuple[Started, Path | None]:
    """etcd on its data. Data that it cannot start with are set aside; then the second value says where."""
    data = data_of_etcd(site)
    had_data = has_data(site)
    started = Started(etcd(site), running)
    try:
        started.wait()
    except EnvironmentFault:
        said = started.tail().lower()
        if not had_data or not started.ended() or any(sign in said for sign in _NOT_THE_DATA):
            raise
    else:
        return started, None
    aside = data.with_name(f"etcd.broken-{time.strftime('%Y%m%d-%H%M%S')}")
    data.rename(aside)
    started = Started(etcd(site), ())
    started.wait()
    return started, aside


def api_server(site: Site) -> Daemon:
    pki = site.pki
    files = {
        "etcd-cafile": pki.authority,
        "etcd-certfile": pki.certificate("kube-apiserver-etcd-client"),
        "etcd-keyfile": pki.key("kube-apiserver-etcd-client"),
        "client-ca-file": pki.authority,
        "tls-cert-file": pki.certificate("kube-apiserver"),
        "tls-private-key-file": pki.key("kube-apiserver"),
        "kubelet-certificate-authority": pki.authority,
        "kubelet-client-certificate": pki.certificate(identities.KUBELET_READER),
        "kubelet-client-key": pki.key(identities.KUBELET_READER),
        "service-account-key-file": pki.token_public_key,
        "service-account-signing-key-file": pki.token_key,
    }
    flags = [
        f"--etcd-servers=https://127.0.0.1:{site.config.ports['etcd']}",
        f"--bind-address={site.api_host}",
        f"--advertise-address={site.api_host}",
        f"--secure-port={site.api_port}",
        f"--service-cluster-ip-range={network.SERVICE_NET}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction,PodSecurity",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",  # nodes' names are known to nobody outside the cluster
        "--enable-aggregator-routing=true",  # webhooks are called at pods: service addresses exist inside nodes only
        "--profiling=false",
    ]
    if site.config.control_plane_only:
        flags.append("--endpoint-reconciler-type=none")  # a loopback address cannot be an endpoint
    return Daemon(
        "kube-apiserver",
        site.state,
        (str(site.program("kube-apiserver")), *flags, *(f"--{flag}={file}" for flag, file in files.items())),
        check=lambda: health.https(f"{site.server}/readyz", pki, identities.ADMIN),
        inputs=tuple(files.values()),
        incarnation=site.config.incarnation,
    )


def controller_manager(site: Site) -> Daemon:
    name = "kube-controller-manager"
    files = _component_files(site, name) | {
        "kubeconfig": site.kubeconfig_of(name),
        "root-ca-file": site.pki.authority,
        "service-account-private-key-file": site.pki.token_key,
        "cluster-signing-cert-file": site.pki.authority,
        "cluster-signing-key-file": site.pki.key("ca"),
    }
    flags = [
        "--bind-address=127.0.0.1",
        f"--secure-port={site.config.ports[name]}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        "--allocate-node-cidrs=false",  # a node's pod range follows from its number (network.py)
        # The defaults are for one among many clients of a busy server, and make 300 pods take 15 s instead of 4.
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        "--profiling=false",
    ]
    return _component(site, name, flags, files)


def scheduler(site: Site) -> Daemon:
    name = "kube-scheduler"
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(site.kubeconfig_of(name)), "qps": 300, "burst": 600},
        "leaderElection": {"leaderElect": False},
        "enableProfiling": False,
    }
    file = site.settings("kube-scheduler.yaml")
    flags = [f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={site.config.ports[name]}"]
    return _component(site, name, flags, _component_files(site, name), {file: yaml.safe_dump(settings)})


def dns(site: Site) -> Daemon:
    """CoreDNS: the cluster's names itself, all others from where this machine asks."""
    text = _COREFILE.format(
        host=network.HOST_IP,
        ready=DNS_READY_PORT,
        kubeconfig=site.kubeconfig_of("coredns"),
        context=kubeconfig.CONTEXT,
        forward=f"  forward . {_RESOLV_CONF}\n" if _machine_resolves() else "",
    )
    corefile = site.settings("Corefile")
    return Daemon(
        "coredns",
        site.state,
        (str(site.program("coredns")), "-conf", str(corefile)),
        check=lambda: health.http_page(f"http://{network.HOST_IP}:{DNS_READY_PORT}/ready"),
        settings={corefile: text},
        inputs=(site.kubeconfig_of("coredns"), _RESOLV_CONF),
        incarnation=site.config.incarnation,
    )


def _component_files(site: Site, name: str) -> dict[str, Path]:
    """How a component of the control plane shows who it is, and knows who asks it."""
    return {
        "authentication-kubeconfig": site.kubeconfig_of(name),
        "authorization-kubeconfig": site.kubeconfig_of(name),
        "client-ca-file": site.pki.authority,
        "tls-cert-file": site.pki.certificate(f"{name}-server"),
        "tls-private-key-file": site.pki.key(f"{name}-server"),
    }


def _component(
    site: Site, name: str, flags: list[str], files: dict[str, Path], settings: dict[Path, str] | None = None
) -> Daemon:
    return Daemon(
        name,
        site.state,
        (str(site.program(name)), *flags, *(f"--{flag}={file}" for flag, file in files.items())),
        check=lambda: health.https(f"https://127.0.0.1:{site.config.ports[name]}/healthz", site.pki, identities.ADMIN),
        settings=settings or {},
        inputs=tuple(files.values()),
        incarnation=site.config.incarnation,
    )


def _machine_resolves() -> bool:
    return _RESOLV_CONF.exists() and any(
        line.split()[:1] == ["nameserver"] for line in _RESOLV_CONF.read_text(errors="replace").splitlines()
    )
