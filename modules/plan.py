"""Spec → Plan: every role, count, name, address and program resolved, nothing left to default.

Decided here: what a spec means. How it is written down as Kubernetes objects is in manifests/; how a replica learns
who it is in tf_config.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from importlib.resources import files

from modules import names, quantity, rules
from modules.errors import Problem, SpecError
from modules.spec import ClusterSpec, RoleSpec

# TensorFlow's own convention for the gRPC port.
DEFAULT_PORT = 2222

CODE_MOUNT = "/code"
# Everything that a pod may read about its cluster: host lists, cluster JSON, the scripts that we bring.
CLUSTER_MOUNT = "/etc/tfcluster"

# The API server takes at most 1 MiB of data in a ConfigMap; keys and metadata need a little of it.
CONFIG_MAP_LIMIT = 1024 * 1024 - 8 * 1024
# Linux takes no longer string in an environment (MAX_ARG_STRLEN: 32 pages, with the variable's name and its end).
ENV_LIMIT = 131_071

# A chief that dies by a signal (128 and above: killed, lost node) starts again this often; one that ends by itself
# with a code from 1 to 127 has failed.
CHIEF_RETRIES = 3
# ps, workers and companions are servants: they come back whenever they fall over.
ALWAYS_BACK = 2**31 - 1

BUILTIN_SERVER = "ps_server.py"
BUILTIN_COMMAND = ("python3", f"{CLUSTER_MOUNT}/{BUILTIN_SERVER}")


@dataclass(frozen=True)
class Role:
    """One role, resolved."""

    name: str
    job: str
    replicas: int
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    cpu: str | None
    memory: str | None
    port: int
    in_cluster: bool
    decides: bool
    retries: int
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One training cluster, resolved: the value that everything downstream is computed from."""

    name: str
    namespace: str
    context: str | None
    run: int
    roles: tuple[Role, ...]
    code: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def cluster(self) -> dict[str, tuple[str, ...]]:
        """The cluster part of TF_CONFIG: the addresses of each role in it, in the order of their index."""
        return {role.name: role.addresses for role in self.roles if role.in_cluster}

    @property
    def distributed(self) -> bool:
        """TensorFlow takes a TF_CONFIG of one replica for a cluster and waits for peers: it gets none."""
        return sum(role.replicas for role in self.roles if role.in_cluster or role.name == rules.EVALUATOR) > 1

    @property
    def decider(self) -> Role:
        """The role whose end is the end of the training."""
        return next(role for role in self.roles if role.decides)

    @property
    def cpu(self) -> Decimal:
        return sum((quantity.parse(role.cpu) * role.replicas for role in self.roles if role.cpu), Decimal(0))

    @property
    def memory(self) -> Decimal:
        return sum((quantity.parse(role.memory) * role.replicas for role in self.roles if role.memory), Decimal(0))


def plan(spec: ClusterSpec, code: Mapping[str, bytes] | None = None) -> Plan:
    """What `spec` means, with the files of its `code:` folder."""
    decider = rules.decider(spec.roles)
    return Plan(
        name=spec.name,
        namespace=spec.namespace,
        context=spec.context,
        run=spec.run,
        roles=tuple(
            _role(spec, name, spec.roles[name], decides=name == decider) for name in sorted(spec.roles, key=rules.rank)
        ),
        code=dict(sorted((code or {}).items())),
    )


def _role(spec: ClusterSpec, name: str, settings: RoleSpec, *, decides: bool) -> Role:
    command, args = _program(name, settings)
    return Role(
        name=name,
        job=names.job(spec.name, name),
        replicas=settings.replicas,
        image=settings.image or spec.image or "",
        command=command,
        args=args,
        env=dict(sorted(settings.env.items())),
        cpu=settings.resources.cpu,
        memory=settings.resources.memory,
        port=DEFAULT_PORT,
        in_cluster=rules.stands_in_cluster(name, settings.in_cluster),
        decides=decides,
        retries=CHIEF_RETRIES if decides else ALWAYS_BACK,
        addresses=tuple(f"{names.host(spec.name, name, i)}:{DEFAULT_PORT}" for i in range(settings.replicas)),
    )


def _program(name: str, settings: RoleSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Command and args; both empty: the image's own program."""
    if rules.runs_builtin_server(name, settings):
        return BUILTIN_COMMAND, ()
    return settings.command or (), settings.args or ()


def builtin_server_text() -> str:
    """The script of the built-in parameter server, as it is shipped to pods."""
    return files("modules.runtime").joinpath(BUILTIN_SERVER).read_text()


def uses_builtin_server(plan: Plan) -> bool:
    return any(role.command == BUILTIN_COMMAND for role in plan.roles)


def check_sizes(data: Mapping[str, str], binary: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """Refuses what the API server or the kernel would refuse later, with words that name the cause."""
    problems: list[Problem] = []
    size = sum(len(key) + len(value.encode()) for key, value in data.items())
    size += sum(len(key) + len(value) * 3 // 4 for key, value in binary.items())
    if size > CONFIG_MAP_LIMIT:
        rule = f"code and host lists are {size:,} bytes; a ConfigMap takes {CONFIG_MAP_LIMIT:,}"
        problems.append(Problem("code", rule, fix="ship less, or put the code into the image"))
    longest = max((f"{name}={value}" for name, value in variables.items()), key=len)
    if len(longest) > ENV_LIMIT:
        name = longest.partition("=")[0]
        rule = f"the addresses in {name} are {len(longest):,} bytes; an environment variable takes {ENV_LIMIT:,}"
        problems.append(Problem("roles", rule, fix="fewer replicas, or a shorter `name:`"))
    if problems:
        raise SpecError(problems)
