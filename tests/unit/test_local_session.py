"""Where Pulumi keeps a stack's state, and what `local env` gives to a shell."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from local import paths, session, tools
from modules import stackfile


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a login, with a stack for the embedded cluster and one for another; their home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "cache"))
    for name in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", "PULUMI_HOME", "PULUMI_CREDENTIALS_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stackfile, "STACKS", tmp_path)
    for stack, context in (("local", paths.LOCAL_CONTEXT), ("here", paths.LOCAL_CONTEXT), ("far", "gke")):
        settings = {"config": {stackfile.CONFIG_KEY: {"context": context}}}
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def log_in(home: Path) -> None:
    (home / ".pulumi").mkdir()
    (home / ".pulumi" / "credentials.json").write_text(json.dumps({"current": "s3://state"}))


def test_without_a_login_only_stacks_of_the_embedded_cluster_go_with_it() -> None:
    assert session.backend("local") == session.backend("here") == paths.cluster() / "pulumi"
    elsewhere = session.backend("far")
    assert elsewhere is not None and not elsewhere.is_relative_to(paths.cluster())


@pytest.mark.parametrize("how", ["login", "token", "url"])
def test_with_a_login_every_stack_but_local_is_kept_there(
    user: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "login":
        log_in(user)
    elif how == "token":
        monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "pul-x")
    else:
        monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://state")
    assert session.backend("here") is None and session.backend("far") is None
    assert session.backend("local") == paths.cluster() / "pulumi"


def test_a_shell_with_our_environment_is_not_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{session.backend('local')}")
    assert session.backend("far") is not None


@pytest.mark.parametrize(
    ("arguments", "stack"),
    [
        (["up", "-s", "far"], "far"),
        (["up", "--stack", "far", "--yes"], "far"),
        (["up", "--stack=far"], "far"),
        (["up", "-sfar"], "far"),
        (["up", "--skip-preview"], None),
    ],
)
def test_the_stack_is_found_in_pulumi_s_arguments(arguments: list[str], stack: str | None) -> None:
    assert session._stack_in(arguments) == stack


def test_a_shell_gets_only_what_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "secret")
    monkeypatch.setattr(
        tools, "ensure", lambda *_: SimpleNamespace(pulumi_env=lambda: os.environ | {"PATH": "/pulumi:/bin"})
    )
    monkeypatch.setattr(tools, "found", lambda *_: tools.Missing(()))
    lines = session.exports().splitlines()
    assert "export PATH=/pulumi:/bin" in lines
    assert f"export PULUMI_BACKEND_URL=file://{paths.cluster() / 'pulumi'}" in lines
    assert not any("MINE" in line or "HOME" in line for line in lines)
