"""One experiment on the embedded cluster, from nothing to its outcome, and back: `make up`, `make down`, `make
preview`.

Decided here: in which environment Pulumi runs, and with which backend. The stack `local` keeps its state beside the
embedded cluster's own, so that the two live and die together. Every other stack goes to the backend that the user is
logged in to, and to the same place as `local` when there is none.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

from local import paths, tools
from modules import access, errors, live, spec, stackfile
from modules.errors import EnvironmentFault

LOCAL_STACK = "local"


def backend() -> Path:
    """Where the state of local stacks is kept."""
    return paths.cluster() / "pulumi"


def environment(stack: str = LOCAL_STACK) -> dict[str, str]:
    """What a process needs to find Pulumi, the cluster and the backend of `stack`."""
    env = dict(tools.ensure("pulumi").pulumi_env())
    if paths.kubeconfig().exists():
        env["KUBECONFIG"] = str(paths.kubeconfig())
    if not _is_users_own(stack):
        env["PULUMI_BACKEND_URL"] = f"file://{backend()}"
        # Stacks in this backend keep no secrets; the engine wants a passphrase all the same.
        if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys():
            env["PULUMI_CONFIG_PASSPHRASE"] = ""
    return env


def exports() -> str:
    """Shell lines for `eval`."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment().items())


def pulumi(arguments: list[str], stack: str | None = None) -> int:
    """Runs pulumi in the project, on a stack that exists; its exit code."""
    stack = stack or _stack_in(arguments) or LOCAL_STACK
    env = {**os.environ, **environment(stack)}
    if not _is_users_own(stack):
        backend().mkdir(parents=True, exist_ok=True)
        if not _known(stack) and arguments[:2] != ["stack", "init"]:
            init = ["pulumi", "stack", "init", stack, "--no-select", "--non-interactive"]
            subprocess.run(init, env=env, cwd=stackfile.PROJECT, check=False, stdout=subprocess.DEVNULL)
    return subprocess.run(["pulumi", *arguments], env=env, cwd=stackfile.PROJECT, check=False).returncode


def train(stack: str) -> int:
    """From whatever is there to the outcome of the training: 0 when it succeeded, 1 when it failed."""
    from local import cluster, image
    from modules import cli

    settings = spec.load(stackfile.settings_of_stack(stack), stack=stack, source=str(stackfile.stack_path(stack)))
    if settings.context == paths.LOCAL_CONTEXT:
        tools.ensure("pulumi", "kubernetes", "coredns")
        image.ensure()
        cluster.up()
    training = live.Live(
        access.reach(settings.context, settings.namespace, preview=False), settings.name, settings.namespace
    )
    before = training.job_ids()
    code = pulumi(["up", "--stack", stack, "--yes", "--skip-preview"], stack)
    if code:
        raise EnvironmentFault(f"pulumi up of stack {stack} ended with exit code {code}; its message stands above")
    if before and training.job_ids() == before:
        print("\nNo change: this experiment is deployed as it is. Raise `run:` in the stack to run it again.\n")
    outcome = cli.main(["wait", "--stack", stack])
    _say_what_next(stack, settings)
    return outcome


def clear(stack: str) -> int:
    """Destroys the stack, then stops the cluster."""
    from local import cluster

    if cluster.running() is not None and (_is_users_own(stack) or _known(stack)):
        code = pulumi(["destroy", "--stack", stack, "--yes", "--skip-preview"], stack)
        if code:
            raise EnvironmentFault(
                f"pulumi destroy of stack {stack} ended with exit code {code}; its message stands above",
                fix="./tfcluster local down stops the cluster all the same, and removes its state",
            )
    cluster.down()
    return errors.EXIT_OK


def _is_users_own(stack: str) -> bool:
    """Whether the stack's state is kept where the user is logged in."""
    if stack == LOCAL_STACK:
        return False
    if os.environ.get("PULUMI_BACKEND_URL"):
        return True
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    try:
        return bool(json.loads((home / "credentials.json").read_text()).get("current"))
    except (OSError, ValueError):
        return False


def _known(stack: str) -> bool:
    """Whether the local backend has the stack: a question to its files, where the engine would take a second."""
    return (backend() / ".pulumi" / "stacks" / "tfcluster" / f"{stack}.json").exists()


def _stack_in(arguments: list[str]) -> str | None:
    """The value of -s, --stack in pulumi's arguments."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument in ("-s", "--stack"):
            return following
        if argument.startswith("--stack="):
            return argument.removeprefix("--stack=")
    return None


def _say_what_next(stack: str, settings: spec.ClusterSpec) -> None:
    file = stackfile.stack_path(stack).relative_to(stackfile.PROJECT)
    print(f"""
What next
  ./tfcluster status -s {stack}              its roles (ps and workers serve until the stack is destroyed)
  eval "$(./tfcluster local env)"         then kubectl and pulumi mean this cluster, for example
    kubectl -n {settings.namespace} logs job/{settings.name}-worker
  edit {file}, then `make preview` shows the change and `make up` makes it
  make down                               destroys the stack and stops the cluster""")
