"""The tools that there are: what each is called, where its release lies, how it is built, which foreign version serves.

Decided here: facts about tools only. Not decided here: versions (versions.py), and in which order the sources of a
tool are tried (tools.py).
"""

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from local import paths, versions

GROUPS = ("pulumi", "kubernetes", "coredns", "kwok")


@dataclass(frozen=True)
class Release:
    """An official release file, and the file with its SHA-256 that is published beside it."""

    url: str
    checksums: str
    members: tuple[str, ...] = ()  # what is taken out of the archive; none: the file itself is the binary


@dataclass(frozen=True)
class GoBuild:
    """One binary made by one `go build` in local/go/<module>/."""

    binary: str
    module: str
    package: str
    stamps: tuple[str, ...] = ()  # -X definitions: without them the tools report garbage as their version
    carries: tuple[str, str] | None = None  # (module, file): a script of that module that belongs beside the binary
    embeds_schema_of: str = ""  # a module whose schema.json, stamped with our version, is compiled in


@dataclass(frozen=True)
class Tool:
    """What is fetched, built and cached as one."""

    name: str
    group: str
    version: str
    binaries: tuple[str, ...]
    builds: tuple[GoBuild, ...]
    release: Release | None
    asked_by: tuple[str, ...]  # arguments that make it print its version; none: a copy on PATH is not looked for
    serves: Callable[[str], bool]  # whether a copy on PATH with this version is good enough

    @property
    def folder(self) -> Path:
        return paths.tools() / f"{self.name}-{self.version}-{_key(self)}"


def module_folder(name: str) -> Path:
    return paths.PROJECT / "local" / "go" / name


def chosen(groups: tuple[str, ...]) -> tuple[Tool, ...]:
    """The tools of these groups in the order in which they are best built; no group means all."""
    unknown = set(groups) - set(GROUPS)
    if unknown:
        raise ValueError(f"no such group of tools: {', '.join(sorted(unknown))}")
    return tuple(tool for tool in TOOLS if not groups or tool.group in groups)


def _key(tool: Tool) -> str:
    """A short hash over all that decides how the tool is built: any change of it is another folder in the cache."""
    digest = hashlib.sha256(f"{platform.machine()} {tool.builds}".encode())
    for build in tool.builds:
        for file in sorted(module_folder(build.module).iterdir()):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:10]


def _at_least(least: str) -> Callable[[str], bool]:
    return lambda version: versions.numbers(version) >= versions.numbers(least)


def _same_minor(wanted: str) -> Callable[[str], bool]:
    return lambda version: versions.minor(version) == versions.minor(wanted)


def _kubectl_skew(version: str) -> bool:
    """Kubernetes supports a kubectl that is one minor version older or newer than the API server."""
    major, minor = versions.minor(versions.KUBERNETES)
    return versions.minor(version) in {(major, minor - 1), (major, minor), (major, minor + 1)}


# What differs from its tool's version when we build it; the official release has one version for all of its parts.
BUILT_VERSIONS = {
    "pulumi-language-python": versions.LANGUAGE_HOST,
    "pulumi-language-python-exec": versions.LANGUAGE_HOST,
}

_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_PULUMI_ARCH = {"amd64": "x64"}.get(_ARCH, _ARCH)

_PULUMI_BASE = f"https://github.com/pulumi/pulumi/releases/download/v{versions.PULUMI}"
_PROVIDER_BASE = f"https://github.com/pulumi/pulumi-kubernetes/releases/download/v{versions.KUBERNETES_PROVIDER}"
_KUBERNETES_BASE = f"https://dl.k8s.io/release/v{versions.KUBERNETES}/bin/linux/{_ARCH}"
_ETCD_BASE = f"https://github.com/etcd-io/etcd/releases/download/v{versions.ETCD}"
_ETCD_NAME = f"etcd-v{versions.ETCD}-linux-{_ARCH}"
_COREDNS_FILE = (
    f"https://github.com/coredns/coredns/releases/download/v{versions.COREDNS}"
    f"/coredns_{versions.COREDNS}_linux_{_ARCH}.tgz"
)

_LANGUAGE_SHIM = "pulumi-language-python-exec"
_PULUMI_BINARIES = ("pulumi", "pulumi-language-python", _LANGUAGE_SHIM)
_SDK_VERSION = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"
_PROVIDER_MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"

_KUBERNETES_MAJOR, _KUBERNETES_MINOR = versions.minor(versions.KUBERNETES)
_KUBERNETES_STAMPS = tuple(
    f"{package}.{name}={value}"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for name, value in (
        ("gitVersion", f"v{versions.KUBERNETES}"),
        ("gitMajor", _KUBERNETES_MAJOR),
        ("gitMinor", _KUBERNETES_MINOR),
        ("gitTreeState", "clean"),
    )
)


def _kubernetes(name: str) -> Tool:
    kubectl = name == "kubectl"
    return Tool(
        name=name,
        group="kubernetes",
        version=versions.KUBERNETES,
        binaries=(name,),
        builds=(GoBuild(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", _KUBERNETES_STAMPS),),
        release=Release(f"{_KUBERNETES_BASE}/{name}", f"{_KUBERNETES_BASE}/{name}.sha256"),
        asked_by=("version", "--client") if kubectl else ("--version",),
        serves=_kubectl_skew if kubectl else _same_minor(versions.KUBERNETES),
    )


TOOLS = (
    Tool(
        name="pulumi",
        group="pulumi",
        version=versions.PULUMI,
        binaries=_PULUMI_BINARIES,
        builds=(
            GoBuild(
                "pulumi",
                "pulumi",
                "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
                (f"{_SDK_VERSION}=v{versions.PULUMI}",),
            ),
            GoBuild(
                "pulumi-language-python",
                "language",
                "github.com/pulumi/pulumi/sdk/python/cmd/pulumi-language-python/v3",
                (f"{_SDK_VERSION}=v{versions.LANGUAGE_HOST}",),
                carries=("github.com/pulumi/pulumi/sdk/v3", f"python/cmd/{_LANGUAGE_SHIM}"),
            ),
        ),
        release=Release(
            f"{_PULUMI_BASE}/pulumi-v{versions.PULUMI}-linux-{_PULUMI_ARCH}.tar.gz",
            f"{_PULUMI_BASE}/pulumi-{versions.PULUMI}-checksums.txt",
            tuple(f"pulumi/{binary}" for binary in _PULUMI_BINARIES),
        ),
        asked_by=("version",),
        serves=_at_least(versions.PULUMI_MINIMUM),
    ),
    Tool(
        name="pulumi-resource-kubernetes",
        group="pulumi",
        version=versions.KUBERNETES_PROVIDER,
        binaries=("pulumi-resource-kubernetes",),
        builds=(
            GoBuild(
                "pulumi-resource-kubernetes",
                "provider",
                ".",
                (f"{_PROVIDER_MODULE}/pkg/version.Version={versions.KUBERNETES_PROVIDER}",),
                embeds_schema_of=_PROVIDER_MODULE,
            ),
        ),
        release=Release(
            f"{_PROVIDER_BASE}/pulumi-resource-kubernetes-v{versions.KUBERNETES_PROVIDER}-linux-{_ARCH}.tar.gz",
            f"{_PROVIDER_BASE}/pulumi-kubernetes_{versions.KUBERNETES_PROVIDER}_checksums.txt",
            ("pulumi-resource-kubernetes",),
        ),
        asked_by=(),
        serves=_same_minor(versions.KUBERNETES_PROVIDER),
    ),
    Tool(
        name="etcd",
        group="kubernetes",
        version=versions.ETCD,
        binaries=("etcd",),
        builds=(GoBuild("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),),
        release=Release(f"{_ETCD_BASE}/{_ETCD_NAME}.tar.gz", f"{_ETCD_BASE}/SHA256SUMS", (f"{_ETCD_NAME}/etcd",)),
        asked_by=("--version",),
        serves=_same_minor(versions.ETCD),
    ),
    *(
        _kubernetes(name)
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
            "kubectl",
        )
    ),
    Tool(
        name="coredns",
        group="coredns",
        version=versions.COREDNS,
        binaries=("coredns",),
        builds=(GoBuild("coredns", "coredns", "github.com/coredns/coredns"),),
        release=Release(_COREDNS_FILE, f"{_COREDNS_FILE}.sha256", ("coredns",)),
        asked_by=("-version",),
        serves=_at_least(versions.COREDNS_MINIMUM),
    ),
    Tool(
        name="kwok",
        group="kwok",
        version=versions.KWOK,
        binaries=("kwok",),
        builds=(
            GoBuild(
                "kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", (f"sigs.k8s.io/kwok/pkg/consts.Version=v{versions.KWOK}",)
            ),
        ),
        release=None,  # kwok publishes no checksums beside its binaries, and unverified files are not run
        asked_by=("--version",),
        serves=_at_least(versions.KWOK_MINIMUM),
    ),
)
