"""What the embedded cluster and the image maker take from the distribution.

    ensure_packages(*CLUSTER)
    ensure_packages(*IMAGE)

Decided here: which packages, and how they are installed: only as root on Debian or Ubuntu, never removing anything, and
without starting a service that was not there before. containerd's package brings a system service; ours run apart from
it. Under systemd that unit is masked until the next boot while the package is installed, and disabled after; without
systemd nothing starts anyway.
"""

import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local import paths
from local.progress import Progress, Step
from modules.errors import EnvironmentFault

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # not on every user's PATH, yet where half of these tools are
SYSTEMD = Path("/run/systemd/system")  # there when systemd is the init of this machine
NO_NETWORK = ("Could not resolve", "Temporary failure", "Could not connect", "Unable to connect", "Unable to fetch")
LOCK_TIMEOUT = 300  # seconds to wait for another apt


@dataclass(frozen=True)
class Package:
    """A Debian package, and what of it is used: present by any other way, it serves as well."""

    name: str
    uses: tuple[str, ...]  # commands, or files by their full path; none: only the package itself will do
    service: str = ""


CLUSTER = (
    # docker-ce's containerd.io brings these two commands as well, and conflicts with Debian's packages.
    Package("containerd", ("containerd", "ctr"), service="containerd.service"),
    Package("runc", ("runc",)),
    Package("containernetworking-plugins", ("/usr/lib/cni/bridge", "/usr/lib/cni/host-local", "/usr/lib/cni/portmap")),
    Package("nftables", ("nft",)),
    Package("iptables", ("iptables",)),  # the bridge and portmap plugins, and the kubelet, call it
    Package("conntrack", ("conntrack",)),
    Package("iproute2", ("ip",)),
    Package("util-linux", ("nsenter", "unshare", "mount")),
)
IMAGE = (
    Package("debootstrap", ("debootstrap",)),
    Package("busybox-static", ()),  # `busybox` alone may be linked dynamically, which is of no use in an empty image
)


def ensure_packages(*packages: Package, progress: Progress | None = None) -> None:
    """Installs what is missing of these packages, or says in one error what to install."""
    missing = missing_packages(packages)
    if not missing:
        return
    names = [package.name for package in missing]
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise _not_installable(names)
    if progress is None:
        with Progress("packages") as shown:
            _install(missing, shown)
    else:
        _install(missing, progress)
    left = [package.name for package in missing_packages(missing)]
    if left:
        raise EnvironmentFault(
            f"installed, yet not usable: {', '.join(left)}",
            why="apt-get ended well, but their commands are not on this machine",
            fix=f"look into {_log()}",
        )


def missing_packages(packages: tuple[Package, ...]) -> tuple[Package, ...]:
    """Those that are neither installed as a package nor there in another way."""
    installed = _installed([package.name for package in packages])
    return tuple(package for package in packages if package.name not in installed and not _there(package))


def _installed(names: list[str]) -> set[str]:
    if not shutil.which("dpkg-query"):
        return set()
    asked = ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\n", *names]
    # Exit code 1 when one of them is unknown; the others are printed all the same.
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return {line.split()[1] for line in told.stdout.splitlines() if line.startswith("installed ")}


def _there(package: Package) -> bool:
    search = os.pathsep.join((os.environ.get("PATH", os.defpath), SBIN))
    return bool(package.uses) and all(shutil.which(used, path=search) for used in package.uses)


def _not_installable(names: list[str]) -> EnvironmentFault:
    listed = " ".join(names)
    if shutil.which("apt-get"):
        why = "installing them needs root"
        fix = f"sudo apt-get install --no-install-recommends {listed}"
    else:
        why = "this is not Debian or Ubuntu, so their packages are not known here"
        fix = f"install what gives you the same as Debian's {listed}"
    return EnvironmentFault(f"missing on this machine: {', '.join(names)}", why=why, fix=fix)


def _log() -> Path:
    return paths.logs() / "packages.log"


def _install(packages: tuple[Package, ...], progress: Progress) -> None:
    names = [package.name for package in packages]
    apt = ["apt-get", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT}", "--yes"]
    _log().parent.mkdir(parents=True, exist_ok=True)
    _log().write_text("")
    with progress.step(", ".join(names)) as step:
        step.note("fetching the package lists")
        # A list that cannot be renewed is not the end: the packages may be in those that are there.
        _apt([*apt, "update"], step, must=False)
        step.note("installing")
        with _services_kept_down(packages):
            # --no-remove: rather fail than take a package away that conflicts with ours.
            _apt([*apt, "install", "--no-remove", "--no-install-recommends", *names], step)
        step.outcome = "installed"


@contextmanager
def _services_kept_down(packages: tuple[Package, ...]) -> Iterator[None]:
    services = [package.service for package in packages if package.service]
    if not services or not SYSTEMD.exists():
        yield
        return
    # --runtime: should this process be killed, the mask ends with the next boot.
    subprocess.run(["systemctl", "mask", "--runtime", *services], check=False, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["systemctl", "unmask", "--runtime", *services], check=False, capture_output=True)
        subprocess.run(["systemctl", "disable", *services], check=False, capture_output=True)


def _apt(command: list[str], step: Step, *, must: bool = True) -> None:
    tail: deque[str] = deque(maxlen=20)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
    )
    assert process.stdout is not None
    counted = _counter(step)
    with _log().open("a") as log:
        log.write(f"$ {' '.join(command)}\n")
        for line in process.stdout:
            log.write(line)
            tail.append(line.rstrip())
            counted(line)
    if process.wait() and must:
        raise _failure(command, list(tail))


def _counter(step: Step) -> Callable[[str], None]:
    """How far apt is: it fetches, unpacks and sets up each package, one line each."""
    total = done = 0

    def heard(line: str) -> None:
        nonlocal total, done
        planned = re.search(r"(\d+) upgraded, (\d+) newly installed", line)
        if planned:
            total = 3 * (int(planned[1]) + int(planned[2]))
        elif total and line.startswith(("Get:", "Unpacking ", "Setting up ")):
            done += 1
            step.far(min(done, total), total, "steps")

    return heard


def _failure(command: list[str], tail: list[str]) -> EnvironmentFault:
    told = "\n".join(tail)
    fix = f"the whole log is {_log()}"
    if "No space left on device" in told or "enough free space" in told:
        return EnvironmentFault("installing packages: the disk is full", why=tail[-1], fix=f"free some space; {fix}")
    away = next((line for line in tail if any(sign in line for sign in NO_NETWORK)), "")
    if away:
        return EnvironmentFault(
            "installing packages: the package archive does not answer",
            why=away.strip(),
            fix=f"check the network and /etc/apt/sources.list, and run it again; {fix}",
        )
    if "Could not get lock" in told:
        return EnvironmentFault(
            f"installing packages: another apt has been running for {LOCK_TIMEOUT // 60} minutes", why=tail[-1], fix=fix
        )
    if "Unable to locate package" in told:
        missing = next(line for line in tail if "Unable to locate package" in line)
        return EnvironmentFault("installing packages: this distribution does not have one", why=missing, fix=fix)
    shown = "\n       ".join([" ".join(command), *tail])
    return EnvironmentFault("installing packages failed", why=shown, fix=fix)
