"""A stack file on disk → its raw settings. SHELL: reads files.

Decided here: where stack files are and how their YAML is read – as the engine reads it, so that `render` shows what
`pulumi up` deploys: `on` and `1:30` are text, `1e-3` is a number, and a key that stands twice is an error. What the
settings mean is in spec.py.
"""

import re
import sys
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from modules.errors import Problem, SpecError, did_you_mean

PROJECT = Path(__file__).resolve().parent.parent
STACKS = PROJECT / "stacks"
CONFIG_KEY = "tfcluster:cluster"


class _Loader(yaml.SafeLoader):
    """YAML as the engine reads it."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise ComposerError(problem=f"line {line}: the key '{key.value}' stands here twice")
                seen.add(key.value)
        return node

    def construct_yaml_float(self, node: Any) -> float | int:
        """The engine hands settings over as JSON, where 3.0 is 3."""
        value = super().construct_yaml_float(node)
        return int(value) if value.is_integer() else value

    def construct_date(self, node: yaml.ScalarNode) -> str:
        line = node.start_mark.line + 1
        raise ConstructorError(problem=f"line {line}: put the date '{node.value}' into quotes")


_TAG = "tag:yaml.org,2002:"
# What YAML 1.1 takes for a boolean (on, off, yes, no), a number in base 60 or a special key, and the engine for text.
_TEXT = re.compile(r"(on|off|yes|no|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|=)$", re.IGNORECASE)
# What the engine takes for a number, and YAML 1.1 for text.
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
_OCTAL = re.compile(r"0o[0-7]+$")

_Loader.yaml_implicit_resolvers = {
    first: [(f"{_TAG}str", _TEXT), (f"{_TAG}float", _FLOAT), (f"{_TAG}int", _OCTAL), *resolvers]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor(f"{_TAG}float", _Loader.construct_yaml_float)
_Loader.add_constructor(f"{_TAG}timestamp", _Loader.construct_date)


def stack_path(stack: str) -> Path:
    return STACKS / f"Pulumi.{stack}.yaml"


def stacks() -> list[str]:
    """All stacks that have a file."""
    return sorted(path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in STACKS.glob("Pulumi.*.yaml"))


def settings_of_stack(stack: str) -> object:
    path = stack_path(stack)
    if not path.is_file():
        raise SpecError(
            [Problem("", f"there is no stack file {path}", fix=did_you_mean(stack, stacks()))], f"stack {stack}"
        )
    return settings_in(_text_of(path), str(path))


def settings_of_file(name: str) -> object:
    """The settings in a file, or in standard input for `-`."""
    return settings_in(_text_of(None if name == "-" else Path(name)), "standard input" if name == "-" else name)


def _text_of(path: Path | None) -> str:
    try:
        return sys.stdin.read() if path is None else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Problem("", f"cannot be read: {error}")], str(path or "standard input")) from None


def settings_in(text: str, source: str) -> object:
    """What stands under `tfcluster:cluster`; None when nothing does."""
    try:
        content = yaml.load(text, _Loader)
    # ValueError: what looks like a number, and is none. RecursionError: lists in lists without end.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError([Problem("", f"is not YAML: {' '.join(str(error).split())}")], source) from None
    config = content.get("config") if isinstance(content, dict) else None
    if not isinstance(config, dict) or CONFIG_KEY not in config:
        rule = f"has no `config:` with `{CONFIG_KEY}:` in it"
        raise SpecError([Problem("", rule, fix="see stacks/Pulumi.local.yaml for one that works")], source)
    return config[CONFIG_KEY]
