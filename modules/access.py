"""Which cluster a stack means, and whether it answers. SHELL: reads the kubeconfig and asks the API server once.

Decided here: where a context is looked for, and what is said when the cluster cannot be had. The engine's own preview
is silent then, or hangs for a minute when packets are dropped, and its `up` complains once for every resource: so
this check comes first. Not decided here: what is deployed.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from local import paths
from modules.errors import EnvironmentFault

# The whole check, name servers and credential helpers included.
TIMEOUT_SECONDS = 5

START_LOCAL = "start the embedded cluster: ./tfcluster local up"
LOG_IN = "log in to the cluster again"


@dataclass(frozen=True)
class Access:
    """The cluster of a stack: what the provider is told, and what could not be checked."""

    context: str | None
    kubeconfig: str
    server: str = ""
    # Whether the kubeconfig is the embedded cluster's own, which only this project knows to look for.
    embedded: bool = False
    # Whether the cluster did not answer, or could not be asked.
    silent: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"context '{self.context}', server {self.server}"


class NamespaceMissing(EnvironmentFault):
    """The cluster answers, but has no such namespace."""


def reach(context: str | None, namespace: str, *, preview: bool) -> Access:
    """The cluster of `context`. If it does not serve, a preview gets a warning, all else an EnvironmentFault."""
    found = Access(context, *_kubeconfig_for(context), silent=True)
    try:
        found = find(context)
        _check(found, namespace)
    except EnvironmentFault as fault:
        if not preview:
            raise
        silent = not isinstance(fault, NamespaceMissing)
        return Access(found.context, found.kubeconfig, found.server, found.embedded, silent, (_unchecked(fault),))
    return found


def find(context: str | None) -> Access:
    """The context in the kubeconfig, by its name; the current one when there is none.

    Asks neither the cluster nor a credential helper: both may hang.
    """
    kubeconfig, server, embedded = _kubeconfig_for(context)
    if context == paths.LOCAL_CONTEXT and not embedded and not _mentions(kubeconfig, context):
        raise EnvironmentFault(f"the embedded cluster is not running (context '{context}')", fix=START_LOCAL)
    try:
        contexts, clusters, current = _content(kubeconfig)
        name = context or current
        if name and name in contexts:
            server = clusters[contexts[name]["cluster"]]["server"]
    except (OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError) as error:
        why = f"no cluster {error} in it" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise EnvironmentFault(
            f"no usable kubeconfig: {kubeconfig}", why=why, fix=f"set KUBECONFIG, or {START_LOCAL}"
        ) from None
    known = f"known there: {', '.join(sorted(contexts)) or 'none'}"
    if not name:
        fix = f"name one in the stack (`context:`); {known}"
        raise EnvironmentFault(f"the kubeconfig has no current context: {kubeconfig}", fix=fix)
    if name not in contexts:
        raise EnvironmentFault(f"context '{name}' is not in the kubeconfig: {kubeconfig}", fix=known)
    return Access(name, kubeconfig, server, embedded)


def _kubeconfig_for(context: str | None) -> tuple[str, str, bool]:
    """Kubeconfig, server (not known yet), and whether it is the embedded cluster's own."""
    if context == paths.LOCAL_CONTEXT and paths.kubeconfig().exists():
        return str(paths.kubeconfig()), "", True
    files = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    return os.pathsep.join(str(Path(file).absolute()) for file in files.split(os.pathsep) if file), "", False


def _mentions(kubeconfig: str, context: str) -> bool:
    """Whether the user has a context of this name, whatever else their kubeconfig says."""
    files = [Path(file) for file in kubeconfig.split(os.pathsep)]
    return any(context in file.read_text(errors="replace") for file in files if file.is_file())


def _content(kubeconfig: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Contexts, clusters and the current context of all its files; as in kubectl, the first to say something wins."""
    contexts: dict[str, Any] = {}
    clusters: dict[str, Any] = {}
    current = ""
    files = [Path(file) for file in kubeconfig.split(os.pathsep) if Path(file).exists()]
    if not files:
        raise ValueError("no such file")
    for file in files:
        content = yaml.safe_load(file.read_text()) or {}
        contexts = {entry["name"]: entry["context"] for entry in content.get("contexts") or ()} | contexts
        clusters = {entry["name"]: entry["cluster"] for entry in content.get("clusters") or ()} | clusters
        current = current or content.get("current-context") or ""
    return contexts, clusters, current


def _check(access: Access, namespace: str) -> None:
    """One question to the API server; returns when its answer means that a stack can be deployed."""
    said = _asked(access, namespace)
    fix = START_LOCAL if access.embedded else "check the network, VPN or tunnel to the cluster"
    match said:
        case None:
            raise EnvironmentFault(f"the cluster does not answer within {TIMEOUT_SECONDS} s: {access.where}", fix=fix)
        case {"unreachable": why}:
            raise EnvironmentFault(f"the cluster cannot be reached: {access.where}", why=why, fix=fix)
        case {"credentials": what, "why": why, "fix": login}:
            raise EnvironmentFault(what, why=why, fix=login)
        # Who may not read namespaces (403) may still create what the stack needs.
        case {"status": 200 | 403}:
            return
        case {"status": 401}:
            raise EnvironmentFault(f"the cluster refuses the credentials: {access.where}", fix=LOG_IN)
        case {"status": 404}:
            raise NamespaceMissing(
                f"there is no namespace '{namespace}': {access.where}", fix=f"kubectl create namespace {namespace}"
            )
        case _:
            answer = f"{said.get('status')} {said.get('why', '')}".strip()
            raise EnvironmentFault(f"the cluster answers {answer}: {access.where}")


def _asked(access: Access, namespace: str) -> dict[str, Any] | None:
    """What modules/probe.py says; None when it has said nothing by the deadline."""
    command = [sys.executable, "-m", "modules.probe", access.kubeconfig, access.context or "", namespace]
    home = Path(__file__).resolve().parent.parent
    with subprocess.Popen(
        command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            # Its credential helper, too.
            os.killpg(process.pid, signal.SIGKILL)
            return None
    if process.returncode:
        why = err.strip().splitlines()[-1] if err.strip() else f"exit code {process.returncode}"
        return {"credentials": f"the check of the cluster failed: {access.where}", "why": why, "fix": ""}
    return json.loads(out)


def _unchecked(fault: EnvironmentFault) -> str:
    return (
        f"{fault}\n  Not checked in this preview: whether the cluster accepts these objects, and what is already there."
    )
