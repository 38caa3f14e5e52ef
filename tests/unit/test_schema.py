"""The JSON schema of stack files, which editors read."""

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import yaml

from modules import spec, stackfile
from tests import shapes

SCHEMA = stackfile.STACKS / "schema.json"
COMMAND = "python -m modules.cli schema > stacks/schema.json"


def _errors(settings: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(spec.json_schema())
    return [error.message for error in validator.iter_errors({"config": {stackfile.CONFIG_KEY: settings}})]


def test_the_schema_in_the_repository_is_the_one_of_the_models() -> None:
    written = json.loads(SCHEMA.read_text()) if SCHEMA.is_file() else None
    assert written == spec.json_schema(), f"stacks/schema.json is stale; write it anew: {COMMAND}"


def test_the_command_prints_the_schema() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modules.cli", "schema"],
        capture_output=True,
        text=True,
        check=True,
        cwd=stackfile.PROJECT,
    )
    assert json.loads(done.stdout) == spec.json_schema()


def test_the_schema_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(spec.json_schema())


@pytest.mark.parametrize("stack", stackfile.stacks())
def test_every_stack_of_the_project_fits_the_schema_and_names_it(stack: str) -> None:
    text = stackfile.stack_path(stack).read_text()
    jsonschema.Draft202012Validator(spec.json_schema()).validate(yaml.safe_load(text))
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")


@pytest.mark.parametrize("shape", shapes.NAMES)
def test_what_the_models_take_the_schema_takes(shape: str) -> None:
    assert _errors(shapes.shapes()[shape]) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"imagee": "x", "roles": {"worker": {}}},
        {"roles": {}},
        {"roles": []},
        {"image": "x"},
        {"roles": {"worker": {"replicas": 0}}},
        {"roles": {"worker": {"replicas": 10_001}}},
        {"roles": {"worker": {"command": "python train.py"}}},
        {"roles": {"worker": {"entrypoint": "mine"}}},
        {"roles": {"Worker": {}}},
        {"roles": {"worker": {"env": {"1A": "x"}}}},
        {"roles": {"worker": {"resources": {"gpu": 1}}}},
        {"run": 0, "roles": {"worker": {}}},
    ],
)
def test_what_the_models_refuse_the_schema_refuses(settings: dict[str, object]) -> None:
    assert _errors(settings)


def test_every_field_explains_itself() -> None:
    schema = spec.json_schema()
    cluster = schema["properties"]["config"]["properties"][stackfile.CONFIG_KEY]
    for model in (cluster, *schema["$defs"].values()):
        for key, field in model["properties"].items():
            assert field.get("description"), key
