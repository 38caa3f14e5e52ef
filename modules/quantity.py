"""Kubernetes quantities: `500m`, `2Gi`. Decided here: which texts are one, and what number it is."""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"(?P<number>[0-9]+(\.[0-9]*)?|\.[0-9]+)(?P<suffix>[eE][-+]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i|)")

_MULTIPLIERS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse(text: str) -> Decimal:
    """The number that `text` stands for; ValueError says what a quantity looks like."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError("must be a Kubernetes quantity such as 2, 500m, 4Gi")
    number, suffix = Decimal(match["number"]), match["suffix"]
    if suffix in _MULTIPLIERS:
        return number * _MULTIPLIERS[suffix]
    return number * Decimal(10) ** int(suffix[1:])


def text_of_cores(cores: Decimal) -> str:
    """`1500m` and `2`, as kubectl shows CPU."""
    return str(int(cores)) if cores == int(cores) else f"{int(cores * 1000)}m"


def text_of_bytes(size: Decimal) -> str:
    """The largest binary unit that leaves a whole number: `4Gi`, `1536Mi`."""
    whole = int(size)
    for suffix in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        unit = int(_MULTIPLIERS[suffix])
        if whole >= unit and whole % unit == 0:
            return f"{whole // unit}{suffix}"
    return str(whole)
