"""The one ConfigMap of a cluster: addresses, host lists, the scripts we bring and the user's code.

Decided here: its keys, and its name. The name ends in a hash over its data and over all pod templates, so any change
of the training makes a new ConfigMap, and with it new Jobs (deploy.py turns that into the barrier between two
generations).
"""

import base64
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from modules import names, tf_config
from modules import plan as planning
from modules.plan import Plan

# Fields that Kubernetes lets change in a running Job: they are no reason for a new generation.
_CHANGED_IN_PLACE = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")


@dataclass(frozen=True)
class Content:
    """What the ConfigMap holds, and which key is which file of the user's code."""

    text: dict[str, str]
    binary: dict[str, str]
    code_paths: dict[str, str]


def content(plan: Plan) -> Content:
    text = {tf_config.CLUSTER_KEY: tf_config.cluster_json(plan), **tf_config.host_lists(plan), "run": str(plan.run)}
    binary: dict[str, str] = {}
    if planning.uses_builtin_server(plan):
        text[planning.BUILTIN_SERVER] = planning.builtin_server_text()
    code_paths = code_keys(plan)
    for key, path in code_paths.items():
        try:
            text[key] = plan.code[path].decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(plan.code[path]).decode()
    planning.check_sizes(text, binary, tf_config.growing_variables(plan))
    return Content(text, binary, code_paths)


def code_keys(plan: Plan) -> dict[str, str]:
    """Key → path below the code mount. A key has no slash, so folders live in the mount's items instead."""
    return {f"code.{number:03d}.{_plain(path)}": path for number, path in enumerate(plan.code)}


def _plain(path: str) -> str:
    allowed = "".join(c if (c.isalnum() and c.isascii()) or c in "-_." else "-" for c in PurePosixPath(path).name)
    return allowed[:100]


def name(plan: Plan, data: Content, jobs: list[dict[str, Any]]) -> str:
    specs = [{key: value for key, value in job["spec"].items() if key not in _CHANGED_IN_PLACE} for job in jobs]
    covered = {"text": data.text, "binary": data.binary, "paths": data.code_paths, "jobs": specs}
    return names.config_map(plan.name, names.content_hash(covered))


def manifest(plan: Plan, name: str, data: Content) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": plan.namespace, "labels": names.labels(plan.name, "cluster")},
        "immutable": True,
        "data": data.text,
        **({"binaryData": data.binary} if data.binary else {}),
    }
