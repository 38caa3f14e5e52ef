"""The `tfcluster` command. SHELL.

Decided here: which calls exist, their words, and the exit codes: 0 fine, 1 the experiment failed, 2 bad input,
3 environment. What a call does is in the module it imports; imports are late because `render` must answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modules import errors
from modules.errors import EnvironmentFault, SpecError, TfclusterError

if TYPE_CHECKING:
    from modules.live import Live, Snapshot

Handler = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one call; the exit code."""
    given = _parser().parse_args(arguments)
    handler: Handler = given.handler
    try:
        return handler(given)
    except TfclusterError as problem:
        print(f"{problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe went away: `tfcluster render | head`.
        sys.stderr.close()
        return errors.EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tfcluster",
        description="Distributed TensorFlow experiments on Kubernetes, one stack an experiment.",
        epilog="exit codes: 0 fine, 1 the experiment failed, 2 bad input, 3 environment",
    )
    calls = parser.add_subparsers(metavar="CALL", required=True)

    render = calls.add_parser("render", help="the objects of a stack as YAML; no cluster, no Pulumi")
    source = render.add_mutually_exclusive_group(required=True)
    source.add_argument("-s", "--stack", help="a stack of this project: stacks/Pulumi.STACK.yaml")
    source.add_argument("-f", "--file", help="a stack file anywhere, or - for standard input")
    render.set_defaults(handler=_render)

    schema = calls.add_parser("schema", help="the JSON schema of the stack file")
    schema.set_defaults(handler=_schema)

    for name, text in (("status", "phase and roles of a training"), ("wait", "follow a training until its outcome")):
        call = calls.add_parser(name, help=text)
        call.add_argument("-s", "--stack", required=True, help="a stack of this project")
        call.set_defaults(handler=_status if name == "status" else _wait)
        if name == "wait":
            call.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after this long (exit code 3)")

    from local import cli as local_cli

    local_cli.add_calls(calls.add_parser("local", help="a real Kubernetes on this machine, and its tools"))
    return parser


def _render(given: argparse.Namespace) -> int:
    from modules import manifests, plan, spec, stackfile, yaml_text
    from modules.code import files_below

    if given.stack:
        raw, stack, source = (
            stackfile.settings_of_stack(given.stack),
            given.stack,
            str(stackfile.stack_path(given.stack)),
        )
        base = stackfile.PROJECT
    else:
        source = "standard input" if given.file == "-" else given.file
        raw, stack, base = stackfile.settings_of_file(given.file), _stack_named_by(given.file), Path()
    settings = spec.load(raw, stack=stack, source=source)
    try:
        objects = manifests.render(plan.plan(settings, files_below(settings.code, base)))
    except SpecError as problem:
        raise SpecError(problem.problems, source) from None
    sys.stdout.write(yaml_text.dump(objects))
    return errors.EXIT_OK


def _stack_named_by(file: str) -> str:
    """`Pulumi.mnist.yaml` is the stack mnist; any other file's name serves as it is."""
    return "stdin" if file == "-" else Path(file).stem.removeprefix("Pulumi.")


def _schema(_given: argparse.Namespace) -> int:
    import json

    from modules import spec

    json.dump(spec.json_schema(), sys.stdout, indent=2, ensure_ascii=False)
    print()
    return errors.EXIT_OK


def _status(given: argparse.Namespace) -> int:
    from rich.console import Console

    from modules import view

    Console().print(view.table(_live(given.stack).snapshot()))
    return errors.EXIT_OK


def _wait(given: argparse.Namespace) -> int:
    from modules import live, view

    training = _live(given.stack)
    try:
        seen = view.watch(training, given.timeout)
    except KeyboardInterrupt:
        print(f"\nNo longer watching; the training goes on. Again: tfcluster wait -s {given.stack}", file=sys.stderr)
        return 130
    if seen.state == live.SUCCEEDED:
        _show_last_lines(training, seen)
        return errors.EXIT_OK
    if seen.state == live.FAILED:
        _show_last_lines(training, seen)
        return errors.EXIT_EXPERIMENT_FAILED
    raise EnvironmentFault(
        f"no outcome within {given.timeout:.0f} s", fix=f"go on with: tfcluster wait -s {given.stack}"
    )


def _show_last_lines(training: Live, seen: Snapshot) -> None:
    decider = seen.decider
    if decider is None:
        return
    print(f"--- last lines of {decider.name} {decider.state} {f'({decider.note})' if decider.note else ''}".rstrip())
    print("\n".join(training.last_lines(decider.name)))


def _live(stack: str) -> Live:
    from modules import access, live, spec, stackfile

    path = stackfile.stack_path(stack)
    settings = spec.load(stackfile.settings_of_stack(stack), stack=stack, source=str(path))
    return live.Live(
        access.reach(settings.context, settings.namespace, preview=False), settings.name, settings.namespace
    )


if __name__ == "__main__":
    sys.exit(main())
