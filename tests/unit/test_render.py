"""The `render` call as people type it: a process with exit code, standard output and standard error."""

import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from modules import stackfile
from tests import shapes, strict
from tests.conftest import GOLDEN

GOOD = "config:\n  tfcluster:cluster:\n    image: x\n    roles: {worker: {}}\n"

EVERYTHING_WRONG = f"""
config:
  tfcluster:cluster:
    imagee: x
    name: {"m" * 60}
    roles:
      chief: {{replicas: 0}}
      master: {{}}
      worker: {{command: python train.py}}
"""


def call(*arguments: str, stdin: str | bytes = "", cwd: Path = stackfile.PROJECT) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "modules.cli", *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={"PYTHONPATH": str(stackfile.PROJECT), "PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"},
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_stack_renders_to_yaml_on_standard_output_and_nothing_else() -> None:
    done = call("render", "-s", "local")
    assert (done.returncode, done.stderr) == (0, "")
    kinds = [manifest["kind"] for manifest in yaml.safe_load_all(done.stdout)]
    assert kinds == ["ConfigMap", "Service", "NetworkPolicy", "Job", "Job", "Job"]


def test_a_file_anywhere_gives_its_name_and_ships_code_from_where_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("here")
    (tmp_path / "Pulumi.mnist.yaml").write_text(GOOD + "    code: src\n")
    done = call("render", "-f", "Pulumi.mnist.yaml", cwd=tmp_path)
    config_map = next(yaml.safe_load_all(done.stdout))
    assert config_map["metadata"]["name"].startswith("mnist-cluster-")
    assert "here" in config_map["data"].values()


def test_standard_input_renders_as_the_file_does(tmp_path: Path) -> None:
    (tmp_path / "stdin.yaml").write_text(GOOD)
    assert call("render", "-f", "-", stdin=GOOD).stdout == call("render", "-f", str(tmp_path / "stdin.yaml")).stdout


@pytest.mark.parametrize("how", ["file", "pipe"])
def test_all_mistakes_end_in_one_message_and_exit_code_2(how: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(EVERYTHING_WRONG)
    source = str(tmp_path / "bad.yaml") if how == "file" else "-"
    done = call("render", "-f", source, stdin=EVERYTHING_WRONG)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{source if how == 'file' else 'standard input'}: 6 problems\n")
    for line in (
        "imagee: unknown key\n      → did you mean 'image'?",
        "image: is required",
        "name: too long: the pod hostname '",
        "roles.chief.replicas: must be at least 1 (got 0)",
        "roles.master: a cluster has one chief (got both chief and master)\n      → keep one of the two",
        "roles.worker.command: must be a list (got 'python train.py', text)\n      → write it as [python, train.py]",
    ):
        assert f"  - {line}" in done.stderr


def test_too_many_replicas_and_missing_code_name_the_file_too() -> None:
    many = "config: {tfcluster:cluster: {image: x, roles: {worker: {replicas: 10000}}}}"
    assert call("render", "-f", "-", stdin=many).stderr.startswith(
        "standard input: 1 problem\n  - roles: the addresses"
    )
    lost = "config: {tfcluster:cluster: {image: x, code: nowhere, roles: {worker: {}}}}"
    done = call("render", "-f", "-", stdin=lost)
    assert done.returncode == 2
    assert "code: there is no such file or folder (got 'nowhere')" in done.stderr
    assert done.stderr.startswith("standard input: 1 problem")


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (["-s", "locale"], "", "did you mean 'local'?"),
        (["-f", "/nowhere.yaml"], "", "/nowhere.yaml: 1 problem\n  - cannot be read: "),
        (["-f", "-"], "a: [", "standard input: 1 problem\n  - is not YAML: "),
        (["-f", "-"], "a: 1\na: 2", "the key 'a' stands here twice"),
        (["-f", "-"], "config: {}", "has no `config:` with `tfcluster:cluster:` in it"),
        (["-f", "-"], "config: {tfcluster:cluster: }", "must be a map with at least `image` and `roles`"),
        (["-f", "-"], b"\xff", "standard input: 1 problem\n"),
        ([], "", "one of the arguments -s/--stack -f/--file is required"),
        (["-s", "local", "-f", "-"], "", "not allowed with argument"),
    ],
)
def test_bad_input_is_exit_code_2_and_no_traceback(arguments: list[str], stdin: str | bytes, words: str) -> None:
    done = call("render", *arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    pipe = f"{sys.executable} -m modules.cli render -s local | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=True, cwd=stackfile.PROJECT)
    assert done.stdout.split() == ["apiVersion:", "v1", "0"]
    assert done.stderr == ""


# --- Kubernetes' own schemas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", strict.SUPPORTED)
def test_all_golden_files_and_all_stacks_are_valid_in_every_version(version: str) -> None:
    objects = [manifest for path in GOLDEN.glob("*.yaml") for manifest in yaml.safe_load_all(path.read_text())]
    for stack in stackfile.stacks():
        settings = stackfile.settings_of_stack(stack)
        assert isinstance(settings, dict)
        objects += shapes.rendered(settings, stack=stack)
    assert len(objects) > 6 * len(shapes.NAMES) - 10
    for manifest in objects:
        strict.check(manifest, version)


def test_older_versions_lack_what_keeps_two_pods_from_being_one_replica() -> None:
    (job,) = shapes.of_kind(shapes.rendered(shapes.shapes()["single"]), "Job")
    del job["spec"]["podFailurePolicy"]
    with pytest.raises(kubernetes_validate.ValidationError, match="podReplacementPolicy"):
        strict.check(job, "1.27")
