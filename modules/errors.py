"""What a user is told when something of theirs cannot work.

    TfclusterError
      + SpecError           the stack file says something that cannot be done   exit code 2
      + EnvironmentFault    the machine or the cluster does not serve           exit code 3

Decided here: the shape of a problem and how a list of them reads. Not decided here: what is wrong (spec.py, plan.py)
and how it reaches the user (cli.py prints, __main__.py raises pulumi.RunError).
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

EXIT_OK = 0
EXIT_EXPERIMENT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_ENVIRONMENT = 3


class TfclusterError(Exception):
    """The root of all errors that are shown as a message, never as a traceback."""

    exit_code = EXIT_BAD_INPUT


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, which rule, what was given, what to do."""

    path: str
    rule: str
    got: str = ""
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.rule}" if self.path else self.rule
        if self.got:
            text += f" (got {self.got})"
        return f"{text}\n      → {self.fix}" if self.fix else text


class SpecError(TfclusterError):
    """Every problem of a stack file at once."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, problems: Iterable[Problem], source: str = "the stack") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self.source, self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{self.source}: {count} problem{'s' if count != 1 else ''}"
        return "\n".join([head, *(f"  - {problem}" for problem in self.problems)])


class EnvironmentFault(TfclusterError):
    """The machine or the cluster does not serve: what failed, why, and what to type."""

    exit_code = EXIT_ENVIRONMENT

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The hint for a wrong word: the nearest right one, else all right ones."""
    known = sorted(known)
    lowered = {word.lower(): word for word in known}
    near = difflib.get_close_matches(given.lower(), lowered, n=1, cutoff=0.6)
    if near:
        return f"did you mean '{lowered[near[0]]}'?"
    return "known here: " + ", ".join(known)
