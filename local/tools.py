"""The tools that everything in `local/` and `make up` run with.

    toolchain = tools.ensure("pulumi", "kubernetes")
    toolchain.path("kube-apiserver"), toolchain.source("etcd"), toolchain.pulumi_env()

Decided here: that a tool on PATH in a sufficient version comes first, then the cache; and what Pulumi's environment is.
What is in neither is made (making.py).
"""

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from local import catalog, making, onpath, paths
from local.catalog import Tool
from local.progress import Progress
from local.release import Releases
from modules.errors import EnvironmentFault

PROVIDER = "pulumi-resource-kubernetes"


@dataclass(frozen=True)
class Located:
    """A tool, and where it was found or made."""

    tool: Tool
    version: str
    source: str  # path | cache | release | built
    binaries: dict[str, Path]

    @property
    def ours(self) -> bool:
        return self.source != "path"


@dataclass(frozen=True)
class Missing:
    """What a toolchain would need that is neither on PATH nor in the cache."""

    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class Toolchain:
    """Every binary that was asked for."""

    located: tuple[Located, ...]

    def path(self, name: str) -> Path:
        """The file of a binary: `kubelet`, `pulumi-language-python`, …"""
        return self._of(name).binaries[name]

    def source(self, name: str) -> str:
        return self._of(name).source

    def version(self, name: str) -> str:
        return self._of(name).version

    def pulumi_env(self) -> dict[str, str]:
        """The whole environment for a process that runs Pulumi."""
        pulumi = self._of("pulumi")
        folder = str(pulumi.binaries["pulumi"].parent)
        env = os.environ | {
            "PATH": os.pathsep.join((folder, os.environ.get("PATH", os.defpath))),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        if not pulumi.ours:
            return env
        if (login := _login_folder()) != paths.pulumi_home() and (login / "credentials.json").exists():
            env["PULUMI_CREDENTIALS_PATH"] = str(login)
        env["PULUMI_HOME"] = str(paths.pulumi_home())
        return env

    def _of(self, name: str) -> Located:
        for located in self.located:
            if name in located.binaries:
                return located
        raise KeyError(f"{name} was not asked for")


def logged_in(but_not_at: tuple[str, ...] = ()) -> bool:
    """Whether the user has chosen a Pulumi backend: by environment, or by `pulumi login`."""
    url = os.environ.get("PULUMI_BACKEND_URL")
    if url:
        return url not in but_not_at
    if os.environ.get("PULUMI_ACCESS_TOKEN"):
        return True
    try:
        return bool(json.loads((_login_folder() / "credentials.json").read_text()).get("current"))
    except (OSError, ValueError):
        return False


def _login_folder() -> Path:
    """Where `pulumi login` leaves its mark."""
    env = os.environ
    return Path(env.get("PULUMI_CREDENTIALS_PATH") or env.get("PULUMI_HOME") or Path.home() / ".pulumi")


def found(*groups: str) -> Toolchain | Missing:
    """The toolchain of these groups (all when none is named) if it is there already. Makes nothing."""
    tools = catalog.chosen(groups)
    on_path = onpath.serving(tools)
    located, missing = [], []
    for tool in _needed(tools, on_path):
        if tool in on_path:
            version, binaries = on_path[tool]
            located.append(Located(tool, version, "path", binaries))
        elif making.complete(tool):
            located.append(_ours(tool, "cache"))
        else:
            missing.append(tool)
    if missing:
        return Missing(tuple(missing))
    return Toolchain(tuple(located))


def ensure(*groups: str, progress: Progress | None = None, releases: Releases | None = None) -> Toolchain:
    """The toolchain of these groups (all when none is named); what is missing is fetched or built."""
    there = found(*groups)
    if isinstance(there, Missing):
        with ExitStack() as stack:
            shown = stack.enter_context(Progress("tools")) if progress is None else progress
            made = making.make(there.tools, releases or Releases(), shown)
        settled = found(*groups)
        if isinstance(settled, Missing):
            names = ", ".join(tool.name for tool in settled.tools)
            raise EnvironmentFault(f"tools vanished from the cache while they were being made: {names}")
        there = Toolchain(tuple(_with_source(located, made) for located in settled.located))
    if any(located.tool.name == PROVIDER for located in there.located):
        _install_plugin(there.path(PROVIDER))
    return there


def _needed(tools: tuple[Tool, ...], on_path: dict[Tool, tuple[str, dict[str, Path]]]) -> list[Tool]:
    """A user's own Pulumi fetches its provider itself, as it always does."""
    own_pulumi = any(tool.name == "pulumi" for tool in on_path)
    return [tool for tool in tools if not (own_pulumi and tool.name == PROVIDER)]


def _with_source(located: Located, made: dict[Tool, str]) -> Located:
    return replace(located, source=made.get(located.tool, located.source))


def _ours(tool: Tool, source: str) -> Located:
    return Located(tool, tool.version, source, {name: tool.folder / "bin" / name for name in tool.binaries})


def origin(located: Located) -> str:
    """Where a tool came from in the first place: `path`, `release` or `built`."""
    return making.origin(located.tool) if located.ours else "path"


def _install_plugin(provider: Path) -> None:
    """The provider where Pulumi looks for it. It skips folders that are links, hence a link to the file."""
    version = next(tool.version for tool in catalog.TOOLS if tool.name == PROVIDER)
    folder = paths.pulumi_home() / "plugins" / f"resource-kubernetes-v{version}"
    link = folder / PROVIDER
    if link.is_symlink() and link.readlink() == provider:
        return
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{PROVIDER}-{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(provider)
    aside.rename(link)
