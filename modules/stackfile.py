"""A stack file on disk → its raw settings. SHELL: reads files.

Decided here: where stack files are and how their YAML is read – as the engine reads it: `on` and `yes` are text, and
a key that stands twice is an error. What the settings mean is in spec.py.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from modules.errors import Problem, SpecError, did_you_mean

PROJECT = Path(__file__).resolve().parent.parent
STACKS = PROJECT / "stacks"
CONFIG_KEY = "tfcluster:cluster"


class _Loader(yaml.SafeLoader):
    """YAML as the engine reads it."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(problem=f"line {line}: the key '{key}' stands here twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 has on/off/yes/no as booleans; the engine's YAML 1.2 reader does not.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


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
    return settings_in(path.read_text(), str(path))


def settings_of_file(name: str) -> object:
    """The settings in a file, or in standard input for `-`."""
    if name == "-":
        return settings_in(sys.stdin.read(), "standard input")
    try:
        return settings_in(Path(name).read_text(), name)
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Problem("", f"cannot be read: {error}")], name) from None


def settings_in(text: str, source: str) -> object:
    """What stands under `tfcluster:cluster`; None when nothing does."""
    try:
        content = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise SpecError([Problem("", f"is not YAML: {' '.join(str(error).split())}")], source) from None
    config = content.get("config") if isinstance(content, dict) else None
    if not isinstance(config, dict) or CONFIG_KEY not in config:
        rule = f"has no `config:` with `{CONFIG_KEY}:` in it"
        raise SpecError([Problem("", rule, fix="see stacks/Pulumi.local.yaml for one that works")], source)
    return config[CONFIG_KEY]
