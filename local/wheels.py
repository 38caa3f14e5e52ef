"""Layers of Python packages, installed by pip inside the image that they are for.

Decided here: where packages live in an image, what a requirements file may refer to, and what of TensorFlow's files no
training reads. Not decided here: which packages (requirements-tensorflow.txt, or the user's file).
"""

import hashlib
import re
import shutil
from pathlib import Path

from local import chroot, elf
from local.progress import Step
from modules.errors import Problem, SpecError

VENV = "/opt/venv"

# 350 MB that only a compiler would read: C++ headers, and the clang that generates bindings.
_SUPERFLUOUS = ("tensorflow/include", "clang/native")

# Packages that fit each other are asked for by pip alone when it resolves them; here they are installed over others.
_INSTALL = """\
test -d {venv} || python3 -m venv {venv}
{venv}/bin/pip install --requirement {file}
{venv}/bin/pip check
"""


def install(lower: Path, requirements: Path, scratch: Path, log: Path, step: Step) -> Path:
    """Install the file's packages over `lower`; the folder with everything that this added or removed."""
    script = _INSTALL.format(venv=VENV, file=requirements.name)
    upper = chroot.run(
        lower,
        scratch,
        ["sh", "-euc", script],
        doing=f"installing {requirements.name}",
        log=log,
        visible=[requirements.parent],
        folder=requirements.parent,
        line=lambda text: _show(text, step),
    )
    for site in upper.glob(f"{VENV[1:]}/lib/python3*/site-packages"):
        for name in _SUPERFLUOUS:
            shutil.rmtree(site / name, ignore_errors=True)
        for library in (site / "tensorflow").rglob("*.so*"):
            if library.is_file() and not library.is_symlink():
                elf.cut(library)
    return upper


def content(requirements: Path) -> str:
    """Everything that the file says, with the files that it refers to: the layer's key depends on it."""
    return "\n".join(_content(requirements, seen=set()))


def _content(file: Path, seen: set[Path]) -> list[str]:
    if file in seen:
        return []
    seen.add(file)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise SpecError(
            [Problem("--requirements", reason, str(file), "name a requirements file of pip")], "tfcluster local image"
        ) from None
    parts = []
    for line in lines:
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text:
            continue
        parts.append(text)
        included = re.match(r"(?:-r|-c|--requirement|--constraint)[ =]*(\S+)", text)
        if included:
            parts += _content(file.parent / included[1], seen)
        elif (file.parent / text).is_dir() or text.startswith(("-e", "--editable")):
            raise SpecError(
                [
                    Problem(
                        str(file),
                        "a folder cannot be installed into an image",
                        text,
                        "make a wheel of it first: pip wheel --no-deps .",
                    )
                ],
                "tfcluster local image",
            )
        elif (file.parent / text).is_file():
            parts.append(hashlib.sha256((file.parent / text).read_bytes()).hexdigest())
    return parts


def _show(line: str, step: Step) -> None:
    """pip's output as progress."""
    word, _, rest = line.strip().partition(" ")
    if word == "Collecting":
        if step.what != "fetching packages":
            step.note("fetching packages")
        step.far(step.done + 1, unit=f"packages, {rest.split()[0]}")
    elif line.startswith("Installing collected"):
        step.note("installing")
    elif line.startswith("Building wheel"):
        step.note(f"building {rest.removeprefix('wheel for ')}")
