"""One experiment, from nothing to its outcome, and back: `make up`, `make down`, `make preview`.

Decided here: in which environment Pulumi runs, and where it keeps a stack's state:

    the stack `local`                       beside the embedded cluster, and gone with it
    any other, with a login to a backend    where the user is logged in
    any other, without one                  beside the embedded cluster when it is deployed there, else in the cache
"""

import os
import shlex
import subprocess
from pathlib import Path

from local import paths, tools
from modules import access, errors, live, spec, stackfile
from modules.errors import EnvironmentFault, SpecError

LOCAL_STACK = "local"


def backend(stack: str = LOCAL_STACK) -> Path | None:
    """The folder of a stack's state; None when it is kept where the user is logged in."""
    if stack != LOCAL_STACK and tools.logged_in(but_not_at=_urls()):
        return None
    return _backends()[not _embedded(stack)]


def environment(stack: str = LOCAL_STACK) -> dict[str, str]:
    """What a process needs to find Pulumi and the stack's state."""
    env = dict(tools.ensure("pulumi").pulumi_env())
    folder = backend(stack)
    if folder:
        env["PULUMI_BACKEND_URL"] = _url(folder)
        # Stacks in these folders keep no secrets; the engine wants a passphrase all the same.
        if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & env.keys():
            env["PULUMI_CONFIG_PASSPHRASE"] = ""
    return env


def exports() -> str:
    """Shell lines for `eval`: what makes pulumi and kubectl mean the embedded cluster."""
    env = environment()
    if isinstance(there := tools.found("kubernetes"), tools.Toolchain):
        env["PATH"] = f"{there.path('kubectl').parent}{os.pathsep}{env['PATH']}"
    if paths.kubeconfig().exists():
        env["KUBECONFIG"] = str(paths.kubeconfig())
    changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in changed.items())


def pulumi(arguments: list[str], stack: str | None = None) -> int:
    """Runs pulumi in the project; its exit code."""
    stack = stack or _stack_in(arguments) or LOCAL_STACK
    env = environment(stack)
    folder = backend(stack)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        if not _known(folder, stack) and arguments[:2] != ["stack", "init"]:
            init = ["pulumi", "stack", "init", stack, "--no-select", "--non-interactive"]
            subprocess.run(init, env=env, cwd=stackfile.PROJECT, check=False, stdout=subprocess.DEVNULL)
    return subprocess.run(["pulumi", *arguments], env=env, cwd=stackfile.PROJECT, check=False).returncode


def train(stack: str) -> int:
    """From whatever is there to the outcome of the training: 0 when it succeeded, 1 when it failed."""
    from modules import cli

    settings = spec.load(stackfile.settings_of_stack(stack), stack=stack, source=str(stackfile.stack_path(stack)))
    if settings.context == paths.LOCAL_CONTEXT:
        _have_cluster()
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
    """Destroys the stack; then stops the embedded cluster, if that is where the stack was."""
    from local import cluster

    embedded = _embedded(stack)
    folder = backend(stack)
    # A stack whose cluster is gone has nothing to destroy: its state goes with the cluster's.
    if (cluster.running() or not embedded) and (folder is None or _known(folder, stack)):
        code = pulumi(["destroy", "--stack", stack, "--yes", "--skip-preview"], stack)
        if code:
            fix = "./tfcluster local down stops the cluster all the same, and removes its state" if embedded else ""
            what = f"pulumi destroy of stack {stack} ended with exit code {code}; its message stands above"
            raise EnvironmentFault(what, fix=fix)
    if embedded:
        cluster.down()
    return errors.EXIT_OK


def _have_cluster() -> None:
    """Tools, images and nodes; what stands in the way is said before the first of them is made."""
    from local import cluster, config, image, machine

    machine.check_for_nodes()
    machine.refuse_second_cluster(paths.cluster())
    there = config.load()
    if there and there.control_plane_only:
        what = "the embedded cluster was started with --control-plane-only: no pod runs there"
        raise EnvironmentFault(what, fix="./tfcluster local down, then again")
    tools.ensure("pulumi", "kubernetes", "coredns")
    image.ensure()
    cluster.up()


def _embedded(stack: str) -> bool:
    """Whether the stack is for the embedded cluster, as far as its file can be read."""
    try:
        settings = stackfile.settings_of_stack(stack)
    except SpecError:
        return stack == LOCAL_STACK
    return isinstance(settings, dict) and settings.get("context") == paths.LOCAL_CONTEXT


def _backends() -> tuple[Path, Path]:
    """For stacks on the embedded cluster, and for others."""
    return paths.cluster() / "pulumi", paths.cache() / "pulumi-state"


def _url(folder: Path) -> str:
    return f"file://{folder}"


def _urls() -> tuple[str, ...]:
    """Ours: `local env` puts one of them into a shell, and that is no login."""
    return tuple(map(_url, _backends()))


def _known(folder: Path, stack: str) -> bool:
    """Whether the backend has the stack: a question to its files, where the engine would take a second."""
    return (folder / ".pulumi" / "stacks" / "tfcluster" / f"{stack}.json").exists()


def _stack_in(arguments: list[str]) -> str | None:
    """The value of -s, --stack in pulumi's arguments."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument in ("-s", "--stack"):
            return following
        if argument.startswith("--stack="):
            return argument.removeprefix("--stack=")
        if argument.startswith("-s") and not argument.startswith("--"):
            return argument.removeprefix("-s").removeprefix("=")
    return None


def _say_what_next(stack: str, settings: spec.ClusterSpec) -> None:
    file = stackfile.stack_path(stack).relative_to(stackfile.PROJECT)
    pods = f"kubectl -n {settings.namespace} get pods"
    steps = [(f"./tfcluster status -s {stack}", "its roles (ps and workers serve until the stack is destroyed)")]
    if settings.context == paths.LOCAL_CONTEXT:
        steps += [('eval "$(./tfcluster local env)"', f"then pulumi and kubectl mean this cluster: {pods}")]
    again = "" if stack == LOCAL_STACK else f" STACK={stack}"
    steps += [
        (f"edit {file}", f"then `make preview{again}` shows the change, `make up{again}` makes it"),
        (f"make down{again}", "destroys the stack, and stops the embedded cluster if it ran there"),
    ]
    width = max(len(call) for call, _ in steps)
    print("\nWhat next")
    for call, effect in steps:
        print(f"  {call:<{width}}  {effect}")
