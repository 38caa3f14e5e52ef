"""Asks an API server one question and says on standard output what came of it: `python -m modules.probe …`.

It is a process of its own so that it can be ended at a deadline whatever it hangs in – a credential helper, a name
server, a handshake – and so that the Pulumi program need not load a Kubernetes client. access.py runs it and turns the
answer into words.
"""

import json
import sys
from urllib.parse import quote

from urllib3.exceptions import HTTPError

from modules.api import api_client
from modules.errors import EnvironmentFault


def answer(kubeconfig: str, context: str, namespace: str) -> dict[str, str | int]:
    """`status` of the HTTP answer; or `unreachable`, or `credentials`, with the reason."""
    try:
        api = api_client(kubeconfig, context)
        api.rest_client.pool_manager.connection_pool_kw["retries"] = False
        # The path itself: the client's typed objects take longer to load than a server to answer.
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}"
        answered = api.call_api(*api.param_serialize("GET", path, auth_settings=["BearerToken"]))
    except EnvironmentFault as fault:
        return {"credentials": fault.what, "why": fault.why, "fix": fault.fix}
    except (HTTPError, OSError) as error:
        return {"unreachable": _innermost(error)}
    return {"status": answered.status, "why": answered.reason or ""}


def _innermost(error: BaseException) -> str:
    """The reason at the bottom: the library wraps it several times."""
    reason = getattr(error, "reason", None)
    while isinstance(reason, BaseException):
        error, reason = reason, getattr(reason, "reason", None)
    text = " ".join(str(error).split())
    return text.rsplit(": ", 1)[-1] if "Failed to establish" in text else text


if __name__ == "__main__":
    json.dump(answer(*sys.argv[1:]), sys.stdout)
