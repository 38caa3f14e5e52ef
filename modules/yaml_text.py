"""Objects → YAML for people to read and to review: no anchors, scripts as blocks, lists of numbers on one line."""

from collections.abc import Iterable
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


def _list(dumper: Any, value: list[Any]) -> Any:
    numbers = bool(value) and all(type(item) is int for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=numbers)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


def dump(objects: Iterable[Any]) -> str:
    """All objects as one stream of documents."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
