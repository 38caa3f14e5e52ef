"""What a kubelet and the Job controller make of a pod template, as far as the environment goes.

Written after the rules of Kubernetes, not after our manifests: variables are resolved in the order of the list, `$(X)`
only from what stands before it, `$$` is a dollar, an unknown `$(X)` stays as it is, and what comes from a ConfigMap is
not expanded.
"""

import re
from typing import Any

from modules.manifests import Manifest

INDEX = "JOB_COMPLETION_INDEX"
INDEX_PATHS = (
    "metadata.labels['batch.kubernetes.io/job-completion-index']",
    "metadata.annotations['batch.kubernetes.io/job-completion-index']",
)

_REFERENCE = re.compile(r"\$\$|\$\((?P<name>[^)]*)\)")


def expand(text: str, known: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return "$" if match["name"] is None else known.get(match["name"], match[0])

    return _REFERENCE.sub(value, text)


def environment(job: Manifest, index: int, config_maps: list[Manifest]) -> dict[str, str]:
    """The environment of the replica `index`, as its program sees it."""
    data = {config_map["metadata"]["name"]: config_map["data"] for config_map in config_maps}
    entries = job["spec"]["template"]["spec"]["containers"][0]["env"]
    if not any(entry["name"] == INDEX for entry in entries):
        # The Job controller appends its own when the template has none.
        entries = [*entries, {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": INDEX_PATHS[0]}}}]
    seen: dict[str, str] = {}
    for entry in entries:
        seen[entry["name"]] = _value(entry, index, data, seen)
    return seen


def _value(entry: dict[str, Any], index: int, data: dict[str, dict[str, str]], seen: dict[str, str]) -> str:
    if "value" in entry:
        return expand(entry["value"], seen)
    source = entry["valueFrom"]
    if "fieldRef" in source:
        assert source["fieldRef"]["fieldPath"] in INDEX_PATHS, source
        return str(index)
    return data[source["configMapKeyRef"]["name"]][source["configMapKeyRef"]["key"]]
