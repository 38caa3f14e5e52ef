"""`code:` → the files that are shipped. Decided here: which files of a folder count. SHELL: reads the disk."""

from pathlib import Path

from modules.errors import Problem, SpecError

# Never part of an experiment, and often large.
_LEFT_OUT = {"__pycache__", "node_modules", "venv"}


def files_below(code: str | None, base: Path = Path()) -> dict[str, bytes]:
    """Path below the mount → content. A single file stands at the top of the mount; hidden files stay at home.

    A relative path starts at `base`: the project for its stacks, which is where the engine runs the program.
    """
    if code is None:
        return {}
    root = base / code
    try:
        return _files_at(root, code, base)
    except OSError as error:
        raise SpecError([Problem("code", f"cannot be read: {error}")]) from None


def _files_at(root: Path, code: str, base: Path) -> dict[str, bytes]:
    if root.is_file():
        return {root.name: root.read_bytes()}
    if not root.is_dir():
        fix = f"relative paths start at {base.absolute()}"
        raise SpecError([Problem("code", "there is no such file or folder", repr(code), fix)])
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not _left_out(path.relative_to(root))
    }
    if not found:
        raise SpecError([Problem("code", "the folder has no files", repr(code))])
    return found


def _left_out(path: Path) -> bool:
    return any(part.startswith(".") or part in _LEFT_OUT for part in path.parts)
