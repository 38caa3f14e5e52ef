"""A client of the API server with the credentials of a kubeconfig. SHELL.

Decided here: how the client library's ways of failing become one message. Which kubeconfig and context: access.py.
"""

import logging
from pathlib import Path

from kubernetes import client, config

from modules.errors import EnvironmentFault


def api_client(kubeconfig: str, context: str | None) -> client.ApiClient:
    """A client for a context; `kubeconfig` may be several files, as in KUBECONFIG."""
    what = f"the credentials of context '{context}' cannot be used: {kubeconfig}"
    helper = _Overheard()
    logging.getLogger().addHandler(helper)
    try:
        api = config.new_client_from_config(kubeconfig, context=context)
    except (config.ConfigException, OSError, ValueError) as error:
        raise EnvironmentFault(what, why=" ".join(str(error).split())) from None
    finally:
        logging.getLogger().removeHandler(helper)
    if helper.errors:
        raise EnvironmentFault(what, why=helper.errors[0], fix="log in to the cluster again")
    return api


class _Overheard(logging.Handler):
    """The library goes on without credentials when a helper of the kubeconfig fails, and only logs why."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if Path(record.pathname).name == "kube_config.py":
            self.errors.append(" ".join(record.getMessage().split()))
