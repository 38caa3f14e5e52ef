"""Distribution packages: what counts as missing, and how it is installed or asked for."""

from pathlib import Path

import pytest

from local import debian, paths
from local.debian import Package
from modules.errors import EnvironmentFault

SERVICE = Package("containerd", ("containerd", "ctr"), service="containerd.service")
ONLY_PACKAGE = Package("busybox-static", ())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Debian whose commands are a test's own scripts; they note how they were called in `calls`."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setattr(debian, "SBIN", str(tmp_path / "sbin"))
    monkeypatch.setattr(debian, "SYSTEMD", tmp_path / "systemd")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    command(tmp_path, "dpkg-query", "exit 1")
    command(tmp_path, "apt-get", "exit 0")
    command(tmp_path, "systemctl", "exit 0")
    return tmp_path


def command(machine: Path, name: str, does: str) -> None:
    file = machine / "bin" / name
    file.write_text(f"#!/bin/sh\necho {name} \"$@\" >> '{machine}/calls'\n{does}\n")
    file.chmod(0o755)


def calls(machine: Path, name: str) -> list[str]:
    file = machine / "calls"
    return [line for line in file.read_text().splitlines() if line.startswith(name)] if file.exists() else []


def test_an_installed_package_is_not_missing(machine: Path) -> None:
    command(machine, "dpkg-query", "echo installed busybox-static; echo config-files containerd; exit 1")
    assert debian.missing_packages((ONLY_PACKAGE, SERVICE)) == (SERVICE,)


def test_a_package_whose_commands_came_another_way_is_not_missing(machine: Path) -> None:
    command(machine, "containerd", "exit 0")
    assert debian.missing_packages((SERVICE,)) == (SERVICE,)
    command(machine, "ctr", "exit 0")
    assert debian.missing_packages((SERVICE,)) == ()


def test_nothing_missing_means_that_apt_is_not_run(machine: Path) -> None:
    command(machine, "dpkg-query", "echo installed containerd")
    debian.ensure_packages(SERVICE)
    assert calls(machine, "apt-get") == []


def test_root_installs_what_is_missing_and_removes_nothing(machine: Path) -> None:
    command(
        machine, "apt-get", f"[ -n \"${{7:-}}\" ] && echo '#' > {machine}/bin/nft && /bin/chmod +x {machine}/bin/nft; :"
    )
    debian.ensure_packages(Package("nftables", ("nft",)))
    update, install = calls(machine, "apt-get")
    assert update.endswith("update")
    assert "--no-remove" in install
    assert "DPkg::Lock::Timeout=" in install
    assert install.endswith(" nftables")


def test_without_root_one_error_lists_all_and_the_command(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(EnvironmentFault) as raised:
        debian.ensure_packages(SERVICE, ONLY_PACKAGE)
    assert "containerd, busybox-static" in raised.value.what
    assert raised.value.fix == "sudo apt-get install --no-install-recommends containerd busybox-static"
    assert calls(machine, "apt-get") == []


def test_on_another_distribution_the_error_does_not_speak_of_apt(machine: Path) -> None:
    (machine / "bin" / "apt-get").unlink()
    with pytest.raises(EnvironmentFault, match="missing on this machine: containerd") as raised:
        debian.ensure_packages(SERVICE)
    assert "apt-get" not in str(raised.value)


def test_a_service_of_a_package_is_kept_down_under_systemd(machine: Path) -> None:
    (machine / "systemd").mkdir()
    command(machine, "apt-get", "case $* in *install*) exit 100 ;; esac")
    with pytest.raises(EnvironmentFault):
        debian.ensure_packages(SERVICE)
    told = (machine / "calls").read_text().splitlines()
    order = [line.split()[:2] for line in told if line.startswith(("apt-get", "systemctl"))]
    assert order == [
        ["apt-get", "-o"],
        ["systemctl", "mask"],
        ["apt-get", "-o"],
        ["systemctl", "unmask"],
        ["systemctl", "disable"],
    ]


@pytest.mark.parametrize(
    ("says", "what"),
    [
        ("Err:1 http://deb.example Could not resolve deb.example", "the package archive does not answer"),
        ("E: Unable to locate package busybox-static", "this distribution does not have one"),
        ("dpkg: error: No space left on device", "the disk is full"),
        ("E: Could not get lock /var/lib/dpkg/lock", "another apt has been running"),
        ("E: Sub-process returned an error code", "installing packages failed"),
    ],
)
def test_what_went_wrong_with_apt_is_said_in_words(machine: Path, says: str, what: str) -> None:
    command(machine, "apt-get", f"case $* in *install*) echo '{says}'; exit 100 ;; esac")
    with pytest.raises(EnvironmentFault) as raised:
        debian.ensure_packages(ONLY_PACKAGE)
    assert what in raised.value.what
    assert says in raised.value.why
    assert says in (paths.logs() / "packages.log").read_text()


def test_a_package_that_installs_but_does_not_serve_is_an_error(machine: Path) -> None:
    with pytest.raises(EnvironmentFault, match="installed, yet not usable: busybox-static"):
        debian.ensure_packages(ONLY_PACKAGE)
    assert calls(machine, "apt-get")
