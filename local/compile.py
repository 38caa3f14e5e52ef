"""Building one tool from its pinned Go modules.

Decided here: the commands, how far a build is, and what a failure is called. Not decided here: when to build and where
the result goes (tools.py).
"""

import json
import shlex
import shutil
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from local import golang, logged, paths
from local.catalog import GoBuild, Tool, module_folder
from local.progress import Step, size
from modules.errors import EnvironmentFault

TAIL = 20  # lines of the log that a failure shows
SPACE_NEEDED = 14 << 30  # bytes, measured: modules, compiler's cache and tools when all of them are built
# Debug information is stripped from the binaries; not making it saves a fifth of the compiler's cache and some time.
# It does not change what a tool does, so the cached tools are not keyed by it.
COMPILER = "-gcflags=all=-dwarf=false"
STALE = "{{if .Stale}}{{.ImportPath}}{{end}}"  # prints the packages that the compiler's cache does not hold yet

_DISK_FULL = ("no space left on device", "disk quota exceeded")
_NO_NETWORK = (
    "no such host",
    "connection refused",
    "network is unreachable",
    "i/o timeout",
    "temporary failure in name resolution",
    "tls handshake timeout",
    "connection reset by peer",
)
_UNVERIFIED = ("checksum mismatch", "security error", "missing go.sum entry")


@dataclass(frozen=True)
class _Shop:
    """Where one tool is being built."""

    tool: Tool
    go: Path
    scratch: Path
    log: TextIO

    def run(self, folder: Path, *arguments: str, heard: Callable[[str], None] | None = None) -> str:
        """One `go` command: its stdout; every line of its stderr is heard and logged."""
        command = [str(self.go), *arguments]
        self.log.write(f"$ {shlex.join(command)}\n")
        tail: deque[str] = deque(maxlen=TAIL)
        output = self.scratch / "stdout"
        with output.open("w") as stdout:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=golang.environment(self.go, self.scratch),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # so that the compilers which it starts can be ended with it
            )
            assert process.stderr is not None

            def hear(line: str) -> None:
                self.log.write(line)
                tail.append(line.rstrip())
                if heard:
                    heard(line.strip())

            code = logged.exit_code(process, process.stderr, hear)
        if code:
            self.log.flush()
            raise _failure(self.tool, command, list(tail), Path(self.log.name))
        return output.read_text()


def compile_tool(tool: Tool, into: Path, scratch: Path, step: Step) -> None:
    """Every binary of the tool, in `into`. The log is a file of the tool's own."""
    log = paths.logs() / f"build-{tool.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    go = golang.compiler(step)
    with log.open("w", buffering=1) as stream:
        shop = _Shop(tool, go, scratch, stream)
        for build in tool.builds:
            _compile(shop, build, into, step)


def _compile(shop: _Shop, build: GoBuild, into: Path, step: Step) -> None:
    source = module_folder(build.module)
    label = "compiling" if len(shop.tool.builds) == 1 else f"compiling {build.binary}"
    fetched = 0

    def modules(line: str) -> None:
        nonlocal fetched
        if line.startswith("go: downloading"):
            fetched += 1
            step.note("fetching Go modules")
            step.far(fetched, unit="modules")

    if build.embeds_schema_of:
        source = _with_schema(shop, build, source, modules)
    step.note("looking for what is to compile")
    stale = set(shop.run(source, "list", "-deps", COMPILER, "-f", STALE, build.package, heard=modules).split())
    compiled = 0

    def packages(line: str) -> None:
        nonlocal compiled
        if line in stale:
            compiled += 1
            step.far(compiled, len(stale), "packages")
        else:
            modules(line)

    step.note(label)
    flags = " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in build.stamps)])
    target = str(into / build.binary)
    shop.run(source, "build", "-v", COMPILER, "-o", target, "-ldflags", flags, build.package, heard=packages)
    if build.carries:
        module, file = build.carries
        script = into / Path(file).name
        shutil.copyfile(_module_source(shop, source, module) / file, script)
        script.chmod(0o755)


def _with_schema(shop: _Shop, build: GoBuild, source: Path, heard: Callable[[str], None]) -> Path:
    """A copy of our module with the schema beside it that it embeds."""
    shop.run(source, "mod", "download", build.embeds_schema_of, heard=heard)
    published = _module_source(shop, source, build.embeds_schema_of)
    schema = json.loads((published / "cmd" / build.binary / "schema.json").read_bytes())
    copy = shop.scratch / build.module
    shutil.copytree(source, copy)
    (copy / "schema.json").write_text(json.dumps(schema | {"version": shop.tool.version}))
    return copy


def _module_source(shop: _Shop, folder: Path, module: str) -> Path:
    return Path(shop.run(folder, "list", "-m", "-f", "{{.Dir}}", module).strip())


def _failure(tool: Tool, command: list[str], tail: list[str], log: Path) -> EnvironmentFault:
    """What went wrong, in words when it is something that the user can mend."""
    told = "\n".join(tail).lower()
    if any(sign in told for sign in _DISK_FULL):
        return disk_full(f"building {tool.name}")
    shown = "\n       ".join([shlex.join(command), *tail])
    if any(sign in told for sign in _UNVERIFIED):
        fix = f"the Go modules on their way here are not the pinned ones: check GOPROXY; whole log: {log}"
        return EnvironmentFault(f"building {tool.name}: a Go module failed its verification", why=shown, fix=fix)
    if any(sign in told for sign in _NO_NETWORK):
        reason = next(line for line in reversed(tail) if any(sign in line.lower() for sign in _NO_NETWORK))
        return EnvironmentFault(
            f"building {tool.name}: the Go module proxy does not answer",
            why=reason,
            fix=f"check the network (or GOPROXY) and run it again, it goes on where it stopped; whole log: {log}",
        )
    return EnvironmentFault(f"building {tool.name} failed", why=shown, fix=f"the whole log is {log}")


def disk_full(doing: str) -> EnvironmentFault:
    root = paths.cache()
    free = shutil.disk_usage(root).free
    return EnvironmentFault(
        f"{doing}: the disk is full",
        why=f"{root} has {size(free)} left; building everything takes {size(SPACE_NEEDED)} for a while",
        fix="free some space, or set TFCLUSTER_CACHE to a folder on a larger disk, and run it again",
    )
