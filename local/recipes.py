"""What each image is stacked from.

    busybox      one static program and its names
    tensorflow   Debian with Python < TensorFlow's wheels < the user's wheels: a change remakes what stands above it

Decided here: the layers, and what the key of each depends on. How they are filled is in rootfs.py and wheels.py.
"""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from local import layers, paths, rootfs, wheels
from local.layers import Recipe
from local.progress import Step
from modules.errors import EnvironmentFault

_REQUIREMENTS = Path(__file__).with_name("requirements-tensorflow.txt")


def tensorflow_version() -> str:
    """The version that the image's requirements pin."""
    pinned = re.search(r"^tensorflow-cpu==([\w.]+)", _REQUIREMENTS.read_text(), re.MULTILINE)
    assert pinned, f"{_REQUIREMENTS} pins no tensorflow-cpu"
    return pinned[1]


def busybox() -> Recipe:
    program = shutil.which("busybox")
    if not program:
        raise EnvironmentFault("busybox is missing", fix="apt-get install busybox-static")

    def make(scratch: Path, _: Step) -> Path:
        tree = scratch / "tree"
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev"):
            (tree / folder).mkdir(parents=True)
        (tree / "tmp").chmod(0o1777)
        shutil.copy(program, tree / "bin/busybox")
        (tree / "bin/busybox").chmod(0o755)
        for applet in subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if applet != "busybox":
                (tree / "bin" / applet).symlink_to("busybox")
        (tree / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        (tree / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
        return tree

    return Recipe("busybox", layers.key("busybox", hashlib.sha256(Path(program).read_bytes()).hexdigest()), make)


def tensorflow(release: rootfs.Release, requirements: Path | None) -> list[Recipe]:
    def make(scratch: Path, step: Step) -> Path:
        rootfs.make(scratch / "tree", release, paths.logs() / "image-base.log", step)
        return scratch / "tree"

    title = f"{release.distribution} {release.suite} with Python"
    inputs = (release.distribution, release.suite, release.architecture, *rootfs.PACKAGES)
    base = Recipe(title, layers.key("base", *inputs), make)
    tensorflow = _wheels(f"TensorFlow {tensorflow_version()}", _REQUIREMENTS, [base])
    return [
        base,
        tensorflow,
        *([_wheels(requirements.name, requirements.absolute(), [base, tensorflow])] if requirements else []),
    ]


def _wheels(title: str, requirements: Path, below: list[Recipe]) -> Recipe:
    def make(scratch: Path, step: Step) -> Path:
        step.note("unpacking what is beneath")
        lower = scratch / "lower"
        lower.mkdir()
        for recipe in below:
            layer = layers.cached(recipe.key)
            assert layer, f"{recipe.title} is made before {title}"
            subprocess.run(
                [
                    "tar",
                    "--extract",
                    "--numeric-owner",
                    "--same-permissions",
                    "--file",
                    layer.path,
                    "--directory",
                    lower,
                ],
                check=True,
            )
        return wheels.install(
            lower, requirements, scratch / "run", paths.logs() / f"image-{requirements.stem}.log", step
        )

    return Recipe(title, layers.key("wheels", below[-1].key, wheels.content(requirements)), make)
