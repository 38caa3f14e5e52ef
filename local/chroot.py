"""One command inside a folder that holds a Debian, with the host's network and pip settings.

    run(lower, scratch, ["/opt/venv/bin/pip", "install", …]) → the folder with everything that the command wrote

The command sees `lower` through an overlay: it may write anywhere, and `lower` stays as it is. It runs in a mount and
process namespace of its own, so that nothing stays mounted and nothing keeps running, however it ends.

Decided here: what of the host is visible inside (resolver, certificates, proxies, pip's settings) and what is left out
of the layer.
"""

import configparser
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from local import logged

# Before a command: mounts and processes of its own, which end with it, as it does with us.
ISOLATED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL"),
)

# Folders whose content dies with the command. Mount points for the host's files may stand below them, too.
_TRANSIENT = ("tmp", "var/tmp", "run", "root", "home", "dev", "proc")

# Everything of the host that decides where wheels come from, and how far that is to be trusted.
_ENV_PREFIXES = ("PIP_",)
_ENV_NAMES = frozenset(
    {"HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NETRC"}
    | {name for word in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (word, word.upper())}
)
# Settings of pip that say where to install on the host, not where from.
_PIP_HOST_ONLY = frozenset(
    f"PIP_{name}"
    for name in ("TARGET", "PREFIX", "ROOT", "USER", "PYTHON", "CACHE_DIR", "LOG", "REPORT", "DRY_RUN", "REQUIREMENT")
)
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def run(
    lower: Path,
    scratch: Path,
    command: Sequence[str],
    *,
    doing: str,
    log: Path,
    visible: Iterable[Path] = (),
    folder: Path = Path("/"),
    line: Callable[[str], None] = lambda _: None,
) -> Path:
    """Run `command` in `folder` over `lower`. `visible` host paths stand at their own path, read-only."""
    for name in ("upper", "work", "merged", "places", "tmp"):
        (scratch / name).mkdir(parents=True)
    environment = host_environment(os.environ)
    binds = dict(_host_files(environment)) | {path: path for path in visible}
    for target in binds:
        _make_place(scratch / "places", target, is_dir=binds[target].is_dir())
    logged.run(
        [*ISOLATED, "sh", "-euc", _script(lower, scratch, binds, folder, command)],
        doing=doing,
        log=log,
        env=environment | {"TMPDIR": "/tmp"},
        line=line,
    )
    upper = scratch / "upper"
    for name in _TRANSIENT:
        shutil.rmtree(upper / name, ignore_errors=True)
    return upper


def host_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command: the host's settings for reaching an index, and a fixed rest."""
    passed = {
        name: value
        for name, value in env.items()
        if (name in _ENV_NAMES or name.startswith(_ENV_PREFIXES)) and name not in _PIP_HOST_ONLY
    }
    if _BUNDLE.exists():
        # A certificate authority that the host trusts (a company's proxy) is not among pip's own.
        passed.setdefault("PIP_CERT", str(_BUNDLE))
    return passed | {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_PROGRESS_BAR": "off",
        # Compiled files then carry a hash of their source instead of its time, which layers do not keep.
        "SOURCE_DATE_EPOCH": "315532800",
        "PYTHONHASHSEED": "0",
    }


def _host_files(env: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Path inside → path of the host, for everything that the settings above refer to."""
    resolver = Path("/etc/resolv.conf")
    home = Path(env.get("HOME", "/root"))
    configs = [Path("/etc/pip.conf"), home / ".config/pip/pip.conf", home / ".pip/pip.conf"]
    configs += [Path(value) for name, value in env.items() if name == "PIP_CONFIG_FILE"]
    named = [value for name, value in env.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_", "NETRC"))]
    for config in configs:
        named += _values(config)
    files = [resolver, Path("/etc/hosts"), home / ".netrc", *configs]
    files += [Path(word) for value in named for word in value.split() if word.startswith("/")]
    for file in files:
        if file.exists() and file != Path("/dev/null"):
            yield file, file.resolve()  # the resolver's file is often a link to where the chroot has nothing


def _values(config: Path) -> list[str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(config)
    except (configparser.Error, UnicodeDecodeError):
        return []  # pip itself says what is wrong with it
    return [value for section in parser.sections() for _, value in parser.items(section)]


def _make_place(places: Path, target: Path, *, is_dir: bool) -> None:
    """A mount point in the lowest folder of the overlay: it is there to be mounted on and never part of the layer."""
    place = places / target.relative_to("/")
    if is_dir:
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _script(lower: Path, scratch: Path, binds: Mapping[Path, Path], folder: Path, command: Sequence[str]) -> str:
    """Mounts, then the command. Names in the overlay's options are relative: a colon or comma would end them."""
    base = os.path.relpath(lower, scratch)
    lines = [
        f"cd {shlex.quote(str(scratch))}",
        "mount -t overlay overlay merged"
        f" -o {shlex.quote(f'lowerdir={base}:places,upperdir=upper,workdir=work,redirect_dir=off')}",
        "mount --bind /dev merged/dev",
        "mount -t proc proc merged/proc",
    ]
    for inside, outside in binds.items():
        target = shlex.quote(f"merged{inside}")
        lines += [f"mount --bind {shlex.quote(str(outside))} {target}", f"mount -o remount,bind,ro {target}"]
    lines.append(f"exec chroot merged env -C {shlex.quote(str(folder))} {shlex.join(command)}")
    return "\n".join(lines)
