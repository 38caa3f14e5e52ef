"""What the fields of a spec mean together: rules that no single field can break.

Each rule is a function from the spec to the Problems it finds. Field rules are in spec.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from modules import names
from modules.errors import Problem

if TYPE_CHECKING:
    from modules.spec import ClusterSpec, RoleSpec

# TensorFlow calls the coordinating replica `chief`, older programs `master`; there is one of it in a cluster.
CHIEFS = ("chief", "master")
# What stands in the cluster part of TF_CONFIG.
IN_CLUSTER = (*CHIEFS, "ps", "worker")
# It reads checkpoints beside the cluster, and knows itself by its task alone: TensorFlow's estimators hang when it is
# listed.
EVALUATOR = "evaluator"

# What tells a replica who it is, besides the host lists of the roles.
IDENTITY_VARIABLES = ("JOB_COMPLETION_INDEX", "JOB_NAME", "TASK_INDEX", "TF_CLUSTER", "TF_CONFIG")


def rank(role: str) -> tuple[int, str]:
    """TensorFlow's roles first. The order of the file means nothing: the engine hands it over sorted by name."""
    known = (*IN_CLUSTER, EVALUATOR)
    return known.index(role) if role in known else len(known), role


def decider(roles: Collection[str]) -> str | None:
    """The role whose end is the end of the training."""
    return next((role for role in (*CHIEFS, "worker") if role in roles), None)


def stands_in_cluster(role: str, asked: bool | None) -> bool:
    """Whether a role stands in the cluster part of TF_CONFIG."""
    return role in IN_CLUSTER if asked is None else asked


def runs_builtin_server(role: str, settings: RoleSpec) -> bool:
    """Whether a role's program is the parameter server that we bring."""
    builtin = settings.entrypoint == "builtin" or (role == "ps" and settings.entrypoint is None)
    return builtin and not (settings.command or settings.args)


def broken(spec: ClusterSpec) -> list[Problem]:
    return [problem for rule in _RULES for problem in rule(spec)]


def _every_role_has_an_image(spec: ClusterSpec) -> Iterator[Problem]:
    without = [role for role, settings in spec.roles.items() if not (settings.image or spec.image)]
    if without and len(without) == len(spec.roles):
        yield Problem("image", "is required", fix="name an image here, or one in each role")
    elif without:
        for role in without:
            yield Problem(f"roles.{role}.image", "is required", fix="name an image here or for the whole cluster")


def _one_chief(spec: ClusterSpec) -> Iterator[Problem]:
    if all(role in spec.roles for role in CHIEFS):
        yield Problem("roles.master", "a cluster has one chief", "both chief and master", fix="keep one of the two")
    for role in CHIEFS:
        if role in spec.roles and spec.roles[role].replicas != 1:
            replicas = spec.roles[role].replicas
            yield Problem(f"roles.{role}.replicas", "a cluster has one chief", str(replicas), fix="leave it at 1")


def _someone_decides_the_outcome(spec: ClusterSpec) -> Iterator[Problem]:
    if not decider(spec.roles):
        yield Problem("roles", "nobody can finish the training", ", ".join(spec.roles), fix="add a chief or a worker")


def _names_fit(spec: ClusterSpec) -> Iterator[Problem]:
    if not names.SERVICE_NAME.fullmatch(spec.name):
        fix = "lower-case letters, digits and '-', a letter first; set `name:` when the stack's name cannot serve"
        yield Problem("name", "cannot name Kubernetes objects", repr(spec.name), fix)
    if not names.DNS_LABEL.fullmatch(spec.namespace) or len(spec.namespace) > names.DNS_LABEL_MAX:
        yield Problem("namespace", "is not a Kubernetes namespace", repr(spec.namespace))
    hostnames = {role: names.longest_hostname(spec.name, role, has.replicas) for role, has in spec.roles.items()}
    role, longest = max(hostnames.items(), key=lambda item: len(item[1]))
    excess = len(longest) - names.DNS_LABEL_MAX
    if excess > 0:
        rule = f"too long: the pod hostname '{longest}' would have {len(longest)} characters of {names.DNS_LABEL_MAX}"
        room = len(spec.name) - excess
        fix = f"at most {room} characters, because of the role {role}" if room > 0 else f"shorten the role {role}"
        yield Problem("name", rule, fix=fix)


def _the_identity_is_ours(spec: ClusterSpec) -> Iterator[Problem]:
    ours = {*IDENTITY_VARIABLES, *(names.hosts_variable(role) for role in spec.roles)}
    for role, settings in spec.roles.items():
        for variable in sorted(ours & settings.env.keys()):
            rule = "is set for every replica by tfcluster, from the roles of this file"
            yield Problem(f"roles.{role}.env.{variable}", rule, fix="remove it, or choose another name")


def _a_builtin_server_has_no_command(spec: ClusterSpec) -> Iterator[Problem]:
    for role, settings in spec.roles.items():
        if settings.entrypoint and (settings.command or settings.args):
            fix = "remove one of the two"
            yield Problem(f"roles.{role}.entrypoint", "says what runs without a command, but there is one", fix=fix)


def _a_server_is_part_of_the_cluster(spec: ClusterSpec) -> Iterator[Problem]:
    for role, settings in spec.roles.items():
        if runs_builtin_server(role, settings) and not stands_in_cluster(role, settings.in_cluster):
            fix = "`inCluster: true`, or a command of its own"
            yield Problem(f"roles.{role}", "runs the built-in server, but stands outside the cluster", fix=fix)


_RULES = (
    _every_role_has_an_image,
    _one_chief,
    _someone_decides_the_outcome,
    _names_fit,
    _the_identity_is_ours,
    _a_builtin_server_has_no_command,
    _a_server_is_part_of_the_cluster,
)
