"""Which copy of a tool is taken, and what the cache is trusted with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local import catalog, locks, making, paths, tools, versions
from local.catalog import Release, Tool
from local.progress import Step
from local.release import Releases, Unavailable
from local.tools import Missing, Toolchain
from modules.errors import EnvironmentFault


@pytest.fixture(autouse=True)
def path_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH that has nothing but the shell and what a test puts there."""
    folder = tmp_path / "path"
    folder.mkdir()
    shell = tmp_path / "shell"
    shell.mkdir()
    (shell / "sh").symlink_to("/bin/sh")
    (shell / "sleep").symlink_to("/bin/sleep")
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("PULUMI_HOME", "PULUMI_CREDENTIALS_PATH", "TFCLUSTER_RELEASES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{folder}:{shell}")
    return folder


def put(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{says}\n")
    file.chmod(0o755)
    return file


def named(name: str) -> Tool:
    return next(tool for tool in catalog.TOOLS if tool.name == name)


def into_cache(tool: Tool) -> None:
    for binary in tool.binaries:
        put(tool.folder / "bin", binary, "exit 0")
    (tool.folder / making.ORIGIN).write_text("built")


def source_of(name: str, group: str) -> str:
    for tool in catalog.chosen((group,)):
        into_cache(tool)
    there = tools.found(group)
    assert isinstance(there, Toolchain)
    return there.source(name)


@pytest.mark.parametrize(
    ("name", "group", "says", "source"),
    [
        ("kube-apiserver", "kubernetes", "echo Kubernetes v1.36.0", "path"),
        ("kube-apiserver", "kubernetes", "echo Kubernetes v1.35.9", "cache"),
        ("kubectl", "kubernetes", "echo Client Version: v1.35.1", "path"),
        ("kubectl", "kubernetes", "echo Client Version: v1.37.0", "path"),
        ("kubectl", "kubernetes", "echo Client Version: v1.34.9", "cache"),
        ("kubelet", "kubernetes", "echo Kubernetes v0.0.0-master+$Format:%H$", "cache"),
        ("etcd", "kubernetes", "echo etcd Version: 3.6.1", "path"),
        ("etcd", "kubernetes", "echo etcd Version: 3.5.21", "cache"),
        ("etcd", "kubernetes", "exit 1", "cache"),
        ("coredns", "coredns", "echo CoreDNS-1.12.0", "path"),
        ("kwok", "kwok", "echo kwok version v0.7.9 go1.25.0", "cache"),
    ],
)
def test_a_tool_on_path_serves_from_its_minimum_version_on(
    path_folder: Path, name: str, group: str, says: str, source: str
) -> None:
    put(path_folder, name, says)
    assert source_of(name, group) == source


def test_a_tool_on_path_that_does_not_answer_in_time_does_not_serve(
    path_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local.onpath.ASK_TIMEOUT", 0.1)
    put(path_folder, "coredns", "echo CoreDNS-1.15.0; exec sleep 5")
    assert source_of("coredns", "coredns") == "cache"


def test_a_users_own_pulumi_is_used_with_its_own_home_and_provider(path_folder: Path, tmp_path: Path) -> None:
    # As package managers install it: a link on PATH, the other parts beside the file it points to.
    store = tmp_path / "store" / "bin"
    (path_folder / "pulumi").symlink_to(put(store, "pulumi", "echo v3.300.1"))
    for part in ("pulumi-language-python", "pulumi-language-python-exec"):
        put(store, part, "exit 0")
    there = tools.found("pulumi")
    assert isinstance(there, Toolchain)
    assert there.source("pulumi") == "path"
    assert there.version("pulumi") == "3.300.1"
    env = there.pulumi_env()
    assert env["PATH"].startswith(f"{path_folder}:")
    assert "PULUMI_HOME" not in env
    with pytest.raises(KeyError):
        there.path(tools.PROVIDER)


@pytest.mark.parametrize(("version", "parts"), [("3.199.0", True), ("3.300.1", False)], ids=["old", "no-python-host"])
def test_a_pulumi_that_is_too_old_or_cannot_run_python_is_not_used(
    path_folder: Path, version: str, parts: bool
) -> None:
    put(path_folder, "pulumi", f"echo v{version}")
    if parts:
        for part in ("pulumi-language-python", "pulumi-language-python-exec"):
            put(path_folder, part, "exit 0")
    assert source_of("pulumi", "pulumi") == "cache"


def test_our_pulumi_finds_our_provider_and_the_users_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in catalog.chosen(("pulumi",)):
        into_cache(tool)
    env = tools.ensure("pulumi").pulumi_env()
    plugin = Path(env["PULUMI_HOME"], "plugins", f"resource-kubernetes-v{versions.KUBERNETES_PROVIDER}", tools.PROVIDER)
    assert not plugin.parent.is_symlink()
    assert plugin.resolve() == named(tools.PROVIDER).folder / "bin" / tools.PROVIDER
    assert env["PULUMI_SKIP_UPDATE_CHECK"] == "true"
    assert "PULUMI_CREDENTIALS_PATH" not in env

    login = Path.home() / ".pulumi"
    login.mkdir(parents=True)
    (login / "credentials.json").write_text("{}")
    assert tools.ensure("pulumi").pulumi_env()["PULUMI_CREDENTIALS_PATH"] == str(login)
    monkeypatch.setenv("PULUMI_HOME", str(login))
    assert tools.ensure("pulumi").pulumi_env()["PULUMI_CREDENTIALS_PATH"] == str(login)


def test_what_is_missing_is_named_and_nothing_is_made() -> None:
    there = tools.found("coredns", "kwok")
    assert isinstance(there, Missing)
    assert [tool.name for tool in there.tools] == ["coredns", "kwok"]
    assert not paths.cache().exists()


class NoReleases(Releases):
    def fetch(self, release: Release, into: Path, scratch: Path, step: Step) -> None:  # noqa: ARG002
        raise Unavailable("there are no releases")


def built_by(monkeypatch: pytest.MonkeyPatch, says: str = "exit 0") -> list[str]:
    """Compiling replaced by writing a script; the names of what was compiled."""
    compiled = []

    def compile_tool(tool: Tool, into: Path, scratch: Path, step: Step) -> None:
        assert scratch.is_dir()
        step.note("compiling")
        compiled.append(tool.name)
        for binary in tool.binaries:
            put(into, binary, says)

    monkeypatch.setattr("local.compile.compile_tool", compile_tool)
    return compiled


def test_a_tool_that_cannot_be_downloaded_is_built_once_and_then_cached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TFCLUSTER_KEEP_GO", "1")
    compiled = built_by(monkeypatch)
    assert tools.ensure("coredns", releases=NoReleases()).source("coredns") == "built"
    assert "there are no releases: building from source instead" in capsys.readouterr().err
    assert tools.ensure("coredns", releases=NoReleases()).source("coredns") == "cache"
    assert compiled == ["coredns"]


def test_what_a_killed_build_left_is_not_trusted_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCLUSTER_KEEP_GO", "1")
    left = put(paths.tools() / ".part-coredns.99999" / "bin", "coredns", "echo half")
    assert isinstance(tools.found("coredns"), Missing)
    built_by(monkeypatch)
    tools.ensure("coredns", releases=NoReleases())
    assert not left.exists()


def test_cleaning_up_after_one_tool_spares_another_whose_name_begins_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCLUSTER_KEEP_GO", "1")
    others = put(paths.tools() / f".part-{tools.PROVIDER}.99999" / "bin", tools.PROVIDER, "echo half")
    into_cache(named(tools.PROVIDER))
    built_by(monkeypatch)
    tools.ensure("pulumi", releases=NoReleases())
    assert others.exists()


def test_a_build_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tool: Tool, into: Path, scratch: Path, step: Step) -> None:  # noqa: ARG001
        put(into, tool.name, "echo half")
        raise EnvironmentFault("no")

    monkeypatch.setattr("local.compile.compile_tool", fails)
    with pytest.raises(EnvironmentFault):
        tools.ensure("coredns", releases=NoReleases())
    assert isinstance(tools.found("coredns"), Missing)
    assert [file.name for file in paths.tools().iterdir()] == [".lock-coredns"]


def test_a_full_disk_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("local.compile.compile_tool", full)
    with pytest.raises(EnvironmentFault, match="the disk is full"):
        tools.ensure("coredns", releases=NoReleases())


def test_the_compilers_cache_goes_when_all_is_built_but_not_under_another_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TFCLUSTER_KEEP_GO", raising=False)
    built_by(monkeypatch)
    module = paths.go() / "mod" / "module.go"
    module.parent.mkdir(parents=True)
    module.write_text("package m")
    with locks.in_use(paths.go()):
        tools.ensure("coredns", releases=NoReleases())
        assert module.exists()
        assert "left to that one" in capsys.readouterr().err
    tools.ensure("kwok", releases=NoReleases())
    assert not module.exists()
    assert "removed" in capsys.readouterr().err


def test_a_second_builder_waits_and_finds_the_tool_made(tmp_path: Path) -> None:
    # Two real processes: each "compiles" for a moment and notes that it did.
    program = tmp_path / "builder.py"
    program.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        "from local import compile, tools\n"
        "def slow(tool, into, scratch, step):\n"
        "    time.sleep(0.5)\n"
        "    (into / 'kwok').write_text('made')\n"
        f"    open({str(tmp_path / 'compiled')!r}, 'a').write('once ')\n"
        "compile.compile_tool = slow\n"
        "print(tools.ensure('kwok').path('kwok').read_text())\n"
    )
    env = os.environ | {"PYTHONPATH": str(paths.PROJECT), "TFCLUSTER_KEEP_GO": "1"}
    both = [
        subprocess.Popen([sys.executable, str(program)], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate(timeout=20)[0].strip() for process in both] == ["made", "made"]
    assert (tmp_path / "compiled").read_text() == "once "


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(ValueError, match="no such group"):
        tools.found("kubernets")
