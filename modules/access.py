"""Which cluster a stack means, and whether it answers. SHELL: reads the kubeconfig and asks the API server once.

Decided here: where a context is looked for, and what is said when the cluster cannot be had. The engine's own preview
is silent then, or hangs for a minute when packets are dropped, and its `up` complains once for every resource: so
this check comes first. Not decided here: what is deployed.
"""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from local import paths
from modules.errors import EnvironmentFault

# The whole check, DNS and credential helpers included.
TIMEOUT_SECONDS = 5

START_LOCAL = "start the embedded cluster: ./tfcluster local up"


@dataclass(frozen=True)
class Access:
    """The cluster of a stack: what the provider is told, and what could not be checked."""

    context: str | None
    kubeconfig: Path | None
    server: str = ""
    silent: bool = False
    warnings: tuple[str, ...] = field(default=())


def reach(context: str | None, namespace: str, *, preview: bool) -> Access:
    """The cluster of `context`. If it does not serve, a preview gets a warning, all else an EnvironmentFault."""
    kubeconfig = _kubeconfig_with(context)
    try:
        found = find(context)
    except EnvironmentFault as fault:
        if not preview:
            raise
        return Access(context, kubeconfig, silent=True, warnings=(_unchecked(fault),))
    try:
        _check(found, namespace)
    except EnvironmentFault as fault:
        if not preview:
            raise
        answers = isinstance(fault, NamespaceMissing)
        return Access(found.context, kubeconfig, found.server, silent=not answers, warnings=(_unchecked(fault),))
    return found


class NamespaceMissing(EnvironmentFault):
    """The cluster answers, but has no such namespace."""


def find(context: str | None) -> Access:
    """The context in the kubeconfig, by its name; the current one when there is none. Asks no cluster."""
    kubeconfig = _kubeconfig_with(context)
    contexts: Any
    current: Any
    try:
        contexts, current = config.list_kube_config_contexts(str(kubeconfig) if kubeconfig else None)
    except (config.ConfigException, TypeError, AttributeError) as error:
        raise EnvironmentFault(
            f"no usable kubeconfig: {_where(kubeconfig)}", why=str(error), fix=f"set KUBECONFIG, or {START_LOCAL}"
        ) from None
    known = {entry["name"] for entry in contexts}
    name: str = context or (current or {}).get("name") or ""
    if name not in known:
        fix = START_LOCAL if name == paths.LOCAL_CONTEXT else f"known there: {', '.join(sorted(known)) or 'none'}"
        raise EnvironmentFault(f"context '{name}' is not in the kubeconfig: {_where(kubeconfig)}", fix=fix)
    return Access(name, kubeconfig, _server(kubeconfig, name))


def api_client(access: Access) -> client.ApiClient:
    """A client of the API server, with the credentials of the kubeconfig."""
    try:
        kubeconfig = str(access.kubeconfig) if access.kubeconfig else None
        return config.new_client_from_config(kubeconfig, context=access.context)
    except (config.ConfigException, OSError, ValueError) as error:
        raise EnvironmentFault(
            f"the credentials of context '{access.context}' cannot be used: {_where(access.kubeconfig)}", why=str(error)
        ) from None


def _check(access: Access, namespace: str) -> None:
    """One question to the API server, with a deadline over everything that it takes to ask it."""
    outcome: list[BaseException | None] = []

    def ask() -> None:
        try:
            core = client.CoreV1Api(api_client(access))
            core.api_client.configuration.retries = False
            core.read_namespace(namespace, _request_timeout=TIMEOUT_SECONDS)
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(TIMEOUT_SECONDS)
    where = f"context '{access.context}', server {access.server}"
    if not outcome:
        raise EnvironmentFault(f"the cluster does not answer within {TIMEOUT_SECONDS} s: {where}", fix=_fix(access))
    match outcome[0]:
        case None:
            return
        case ApiException(status=404):
            raise NamespaceMissing(
                f"there is no namespace '{namespace}': {where}", fix=f"kubectl create namespace {namespace}"
            )
        case ApiException(status=403):
            # Who may not read namespaces may still create what the stack needs.
            return
        case ApiException(status=401):
            raise EnvironmentFault(f"the cluster refuses the credentials: {where}", fix="log in to the cluster again")
        case ApiException() as answer:
            raise EnvironmentFault(f"the cluster answers {answer.status} {answer.reason}: {where}")
        case EnvironmentFault() as fault:
            raise fault
        case HTTPError() | OSError() as error:
            raise EnvironmentFault(f"the cluster cannot be reached: {where}", why=_cause(error), fix=_fix(access))
        case error:
            raise error


def _kubeconfig_with(context: str | None) -> Path | None:
    """The embedded cluster has a kubeconfig of its own; other contexts are in the user's. None: the usual places."""
    if context != paths.LOCAL_CONTEXT or not paths.kubeconfig().exists():
        return None
    return paths.kubeconfig()


def _server(kubeconfig: Path | None, context: str) -> str:
    settings: Any = client.Configuration()
    try:
        config.load_kube_config(str(kubeconfig) if kubeconfig else None, context, settings, persist_config=False)
    except (config.ConfigException, OSError, ValueError):
        return "unknown"
    return settings.host


def _where(kubeconfig: Path | None) -> str:
    return str(kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())


def _fix(access: Access) -> str:
    return START_LOCAL if access.context == paths.LOCAL_CONTEXT else "check the network, VPN or tunnel to the cluster"


def _unchecked(fault: EnvironmentFault) -> str:
    return (
        f"{fault}\n  Not checked in this preview: whether the cluster accepts these objects, and what is already there."
    )


def _cause(error: BaseException) -> str:
    """The innermost reason: urllib3 wraps it three times."""
    reason = getattr(error, "reason", None)
    while isinstance(reason, BaseException):
        error, reason = reason, getattr(reason, "reason", None)
    text = str(error)
    return text.rsplit(": ", 1)[-1] if "Failed to establish" in text else text
