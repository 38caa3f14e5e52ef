"""`tfcluster local build`: every tool made ready, and a table of what there is."""

import time

from local import catalog, making, paths, tools
from local.progress import duration, size
from local.tools import Located
from modules.errors import Problem, SpecError, did_you_mean

COLUMNS = ("tool", "version", "source", "size", "path")


def build(groups: tuple[str, ...] = ()) -> None:
    """Make the tools of these groups (all when none is named) ready and say where they are."""
    unknown = [group for group in groups if group not in catalog.GROUPS]
    if unknown:
        problems = [
            Problem(group, "no such group of tools", fix=did_you_mean(group, catalog.GROUPS)) for group in unknown
        ]
        raise SpecError(problems, "tfcluster local build")
    began = time.monotonic()
    toolchain = tools.ensure(*groups)
    took = time.monotonic() - began
    rows = [row for located in toolchain.located for row in _rows(located)]
    print(table(COLUMNS, rows))
    print(f"\n{len(rows)} binaries ready in {duration(took)}. The cache is {paths.cache()}:")
    for folder in (paths.tools(), paths.go(), paths.downloads(), paths.images(), paths.venvs()):
        if folder.exists():
            print(f"  {folder.name:<10} {size(making.folder_size(folder)):>9}")


def _rows(located: Located) -> list[tuple[str, ...]]:
    origin = tools.origin(located)
    source = located.source if located.source != "cache" else f"cache ({origin})"
    apart = catalog.BUILT_VERSIONS if origin == "built" else {}
    return [
        (name, apart.get(name, located.version), source, size(file.stat().st_size), str(file))
        for name, file in located.binaries.items()
    ]


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Columns as wide as they need to be; never folded, so that a pipe can read them."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in (head, *rows)]
    return "\n".join("  ".join(cells).rstrip() for cells in lines)
