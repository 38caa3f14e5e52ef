"""The base of an image: a minimal Debian (or Ubuntu) with Python, made from the machine's own package mirror.

Decided here: which packages, which mirror and release, and what a container never needs. Not decided here: the wheels
on top (image.py).
"""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from local import chroot, command, logged
from local.progress import Step
from modules.errors import EnvironmentFault

PACKAGES = (
    "python3",
    "python3-venv",  # brings pip, for the wheels on top
    "ca-certificates",  # training programs that fetch their data by https
)

_MIRRORS = "$(CODENAME) $(COMPONENT) $(REPO_URI)"  # what is asked of apt: one line for each list that it has

_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "DPKG_FORCE": "unsafe-io",  # no sync after each file: a base that is cut short is thrown away anyway
    # Packages compile their Python files: these then carry a hash of the source instead of a time.
    "SOURCE_DATE_EPOCH": "315532800",
    "PYTHONHASHSEED": "0",
}

_UID = 1000  # the user that images run as; Pod Security "restricted" refuses root

# Made anew wherever the image runs, different on every machine, or read by nobody in a container.
_SUPERFLUOUS = (
    *("dev", "proc", "sys", "run", "tmp", "var/tmp", "var/log", "var/cache", "var/lib/apt/lists", "debootstrap"),
    *("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/linda"),
)
_OF_THE_HOST = ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/lib/dbus/machine-id", "etc/.pwd.lock")
_BACKUPS = (
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/diversions-old",
)


@dataclass(frozen=True)
class Release:
    """A release of a distribution for one kind of processor."""

    distribution: str
    suite: str
    architecture: str  # as Debian names it; images use the same two names


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def of_this_machine() -> Release:
    """What the machine itself runs: its package mirror is configured, reachable and trusted already."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    distribution, suite = system.get("ID", ""), system.get("VERSION_CODENAME", "")
    architecture = _ARCHITECTURES.get(platform.machine(), "")
    if distribution not in ("debian", "ubuntu") or not suite or not architecture:
        runs = f"{system.get('PRETTY_NAME', platform.system())} on {platform.machine()}"
        raise EnvironmentFault(
            "images are made on Debian and Ubuntu, on x86_64 and aarch64",
            why=f"they are made from the machine's own packages, and this is {runs}",
            fix="in a cluster that pulls images, name one in the stack's `image:`",
        )
    return Release(distribution, suite, architecture)


def mirror_of(suite: str, listed: str) -> str:
    """Where the main packages of the suite come from, by apt's lines of `codename component address`; else empty."""
    for line in listed.splitlines():
        codename, component, address = [*line.split(maxsplit=2), "", "", ""][:3]
        if codename != suite or component != "main":
            continue
        if address.startswith("mirror+file:"):  # cloud images name a file with one mirror a line
            file = Path("/" + address.removeprefix("mirror+file:").strip("/"))
            address = file.read_text().split()[0] if file.exists() else ""
        if address.startswith(("http:", "https:", "file:")):
            return address
    return ""


def make(target: Path, release: Release, log: Path, step: Step) -> None:
    """Fill `target` with the release, the packages and nothing that differs from one run to the next."""
    arguments = [
        "debootstrap",
        "--variant=minbase",
        f"--arch={release.architecture}",
        f"--include={','.join(PACKAGES)}",
    ]
    if release.distribution == "ubuntu":
        arguments.append("--components=main,universe")  # where python3-venv is
    listed = command.output(["apt-get", "indextargets", "--format", _MIRRORS, "Identifier: Packages"])
    # Without a mirror, debootstrap takes the distribution's own.
    arguments += [release.suite, str(target), *filter(None, [mirror_of(release.suite, listed)])]
    logged.run(
        [*chroot.ISOLATED, *arguments],  # what debootstrap mounts in the target ends with it
        doing=f"debootstrap of {release.suite}",
        log=log,
        env=_proxies() | os.environ | _ENVIRONMENT,
        line=lambda text: _show(text, step),
    )
    _slim(target)
    _add_user(target)


def _slim(target: Path) -> None:
    for name in _SUPERFLUOUS:
        folder = target / name
        kept = folder.exists() and name not in ("debootstrap",)
        mode = folder.stat().st_mode if kept else 0
        shutil.rmtree(folder, ignore_errors=True)
        if kept:
            folder.mkdir()
            folder.chmod(mode)
    for name in (*_OF_THE_HOST, *_BACKUPS):
        (target / name).unlink(missing_ok=True)
    # Days since a password was set: the day of the build, otherwise.
    shadow = target / "etc/shadow"
    entries = [entry.split(":") for entry in shadow.read_text().splitlines()]
    shadow.write_text("".join(":".join([*entry[:2], "0", *entry[3:]]) + "\n" for entry in entries))


def _add_user(target: Path) -> None:
    """Programs ask for the name and home of the user they run as, and stumble when there is none."""
    with (target / "etc/passwd").open("a") as users, (target / "etc/group").open("a") as groups:
        users.write(f"tfcluster:x:{_UID}:{_UID}::/tmp:/usr/sbin/nologin\n")
        groups.write(f"tfcluster:x:{_UID}:\n")


def _proxies() -> dict[str, str]:
    """apt's own proxy, for debootstrap's downloads. The environment's, if any, goes before it."""
    configured = command.output(["apt-config", "shell", "PROXY", "Acquire::http::Proxy"]).strip()
    address = configured.removeprefix("PROXY=").strip("'\"")
    return {"http_proxy": address} if address and address != "DIRECT" else {}


def _show(line: str, step: Step) -> None:
    """debootstrap's output as progress: `I: Retrieving libc6 2.36-9` and the like."""
    mark, _, rest = line.partition(" ")
    doing = rest.partition(" ")[0].lower().rstrip(".")
    if mark != "I:" or doing not in ("retrieving", "extracting", "unpacking", "configuring"):
        return
    if step.what != f"{doing} packages":
        step.note(f"{doing} packages")
    step.far(step.done + 1)
