"""Manifests against the strict schemas of Kubernetes itself, offline."""

import functools
from typing import Any

import kubernetes_validate
from kubernetes_validate import utils

# The oldest Kubernetes on which a cluster of ours works with its default feature gates: the Job controller labels pods
# with their index since 1.28, and waits for a failed pod's end before it makes the next (podReplacementPolicy) since
# 1.29.
OLDEST = "1.29"

# Each validation reads the schema files again, and they are megabytes.
utils.schema_contents = functools.cache(utils.schema_contents)

# The versions of the installed package; it lists each twice, plain and strict.
SHIPPED = tuple(dict.fromkeys(utils.major_minor(version) for version in utils.all_versions()))
SUPPORTED = SHIPPED[SHIPPED.index(OLDEST) :]


def check(manifest: dict[str, Any], version: str = SHIPPED[-1]) -> None:
    """Raises kubernetes_validate.ValidationError when this version would refuse the object or drop a field of it."""
    assert kubernetes_validate.validate(manifest, version, strict=True) == version
