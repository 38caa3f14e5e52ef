"""`make up` and its companions, as a newcomer types them."""

import os
import subprocess
from pathlib import Path

import pytest

from local import paths, session, tools
from tests.real import PROJECT, objects


def make(target: str, **env: str) -> tuple[int, str]:
    """Exit code and everything that was said."""
    done = subprocess.run(
        ["make", target],
        cwd=PROJECT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )
    return done.returncode, done.stdout


def test_make_up_trains_and_make_up_again_says_that_nothing_changed(local_cluster: None) -> None:  # noqa: ARG001
    was_there = any(job["metadata"]["name"] == "ps-training-chief" for job in objects("jobs", "default"))
    before = subprocess.run(["git", "status", "--short", "stacks"], cwd=PROJECT, capture_output=True, check=True).stdout
    try:
        code, said = make("up")
        assert code == 0, said
        assert said.count("final loss") == 1
        assert "What next" in said
        code, said = make("up")
        assert code == 0, said
        assert "No change: this experiment is deployed as it is" in said
        assert said.count("final loss") == 1
    finally:
        if not was_there:
            assert session.pulumi(["destroy", "--stack", "local", "--yes", "--skip-preview", "--non-interactive"]) == 0
    after = subprocess.run(["git", "status", "--short", "stacks"], cwd=PROJECT, capture_output=True, check=True).stdout
    assert after == before, "deploying writes nothing into the stack file"


def test_make_preview_needs_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools.ensure("pulumi")
    cache = paths.cache()
    for name in ("tools", "pulumi", "venv"):
        (tmp_path / name).symlink_to(cache / name)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    code, said = make("preview", TFCLUSTER_CACHE=str(tmp_path), HOME=str(tmp_path))
    assert code == 0, said
    assert said.count("Not checked in this preview") == 1
    assert "start the embedded cluster: ./tfcluster local up" in said
    assert "kubernetes:batch/v1:Job" in said
