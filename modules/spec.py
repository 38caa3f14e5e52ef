"""The stack file's shape: YAML under `tfcluster:cluster` → frozen models.

Decided here: which keys exist, their types, defaults and single-field rules, and how pydantic's findings become
Problems. What several fields mean together is in rules.py; what follows from them in plan.py.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from modules import quantity, rules
from modules.errors import Problem, SpecError, did_you_mean

# More replicas than this in one role is a mistake of the keyboard: the older systems stop at the same number.
MAX_REPLICAS = 10_000

ROLE_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"

# pydantic writes down the pattern of a map's keys, but not that other keys are refused.
_ONLY_VALID_NAMES: dict[str, Any] = {"additionalProperties": False}


def _as_env_text(value: object) -> object:
    """YAML reads `EPOCHS: 3` as a number; an environment has only text. Booleans keep YAML's spelling."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _as_quantity(value: object) -> object:
    """`cpu: 2` is what people write; Kubernetes wants "2"."""
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if isinstance(text, str):
        quantity.parse(text)
    return text


EnvText = Annotated[
    str, BeforeValidator(_as_env_text), WithJsonSchema({"type": ["string", "number", "boolean"]}, mode="validation")
]
EnvName = Annotated[str, StringConstraints(pattern=ENV_NAME)]
RoleName = Annotated[str, StringConstraints(pattern=ROLE_NAME)]
Quantity = Annotated[
    str, BeforeValidator(_as_quantity), WithJsonSchema({"type": ["string", "number"]}, mode="validation")
]
Words = Annotated[tuple[EnvText, ...], Field(min_length=1)]


class Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class ResourcesSpec(Model):
    """What each replica asks for, and is held to."""

    cpu: Quantity | None = Field(
        default=None, description="CPU cores a replica requests: `2`, `500m`. It may use more."
    )
    memory: Quantity | None = Field(
        default=None, description="Memory a replica requests and is held to: `4Gi`, `512Mi`."
    )


class RoleSpec(Model):
    """A group of replicas that are alike."""

    replicas: int = Field(default=1, ge=1, le=MAX_REPLICAS, description="How many replicas the role has.")
    image: str | None = Field(default=None, min_length=1, description="Image of the role; default: the cluster's.")
    command: Words | None = Field(
        default=None,
        strict=False,
        description="The program, a list of words; `$(PS_HOSTS)` and the like are expanded.",
    )
    args: Words | None = Field(default=None, strict=False, description="Arguments of the command or the image's own.")
    entrypoint: Literal["image", "builtin"] | None = Field(
        default=None,
        description="What runs without a command: the image's own program, or the built-in parameter server. "
        "Default: `builtin` for ps, `image` for every other role.",
    )
    env: Mapping[EnvName, EnvText] = Field(
        default_factory=dict,
        description="Environment variables of the program.",
        json_schema_extra=_ONLY_VALID_NAMES,
    )
    resources: ResourcesSpec = Field(default_factory=ResourcesSpec, description="CPU and memory of each replica.")
    in_cluster: bool | None = Field(
        default=None,
        description="Whether the role stands in TF_CONFIG. Default: yes for chief, master, ps and worker, "
        "no for every other role.",
    )


class ClusterSpec(Model):
    """One training cluster: everything under `tfcluster:cluster`."""

    cloud: Literal["custom"] = Field(default="custom", description="Cloud preset; `custom` presumes nothing.")
    context: str | None = Field(
        default=None,
        min_length=1,
        description="Context in the kubeconfig. Default: the one that is current.",
    )
    name: str = Field(min_length=1, description="Name of the cluster, prefix of its objects; default: the stack's.")
    namespace: str = Field(default="default", min_length=1, description="Namespace of all objects. It must exist.")
    image: str | None = Field(default=None, min_length=1, description="Image of every role that names none.")
    code: str | None = Field(
        default=None, min_length=1, description="Folder or file that is shipped with the cluster and mounted at /code."
    )
    engine: Literal["jobs"] = Field(default="jobs", description="What runs the roles: one Indexed Job each.")
    run: int = Field(default=1, ge=1, description="Raise it to run the same experiment again.")
    roles: Mapping[RoleName, RoleSpec] = Field(
        min_length=1,
        description="chief (or master), ps, worker, evaluator; any other name is a companion role.",
        json_schema_extra=_ONLY_VALID_NAMES,
    )


def load(raw: object, *, stack: str, source: str = "the stack") -> ClusterSpec:
    """The spec that `raw` describes; raises one SpecError with every problem in it."""
    if not isinstance(raw, Mapping):
        rule = "must be a map with at least `image` and `roles`"
        raise SpecError([Problem("tfcluster:cluster", rule, got=_shown(raw))], source)
    data = {"name": stack, **raw}
    spec, problems = _salvaged(data)
    broken = {problem.path for problem in problems}
    if spec is not None:
        problems += [found for found in rules.broken(spec) if not _touches(found.path, broken)]
    if spec is None or problems:
        raise SpecError(problems, source)
    return spec


def _salvaged(data: dict[str, Any]) -> tuple[ClusterSpec | None, list[Problem]]:
    """All field problems, and the spec without the broken fields, so that the other rules can be asked as well.

    Only the first look finds problems of the user's: later ones see what this function removed.
    """
    problems: list[Problem] = []
    data = copy.deepcopy(data)
    while True:
        try:
            return ClusterSpec.model_validate(data, by_alias=True, by_name=False), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
            # A list with a broken word in it counts as empty, too: that is no problem of its own.
            problems = problems or [_problem(d) for d in details if not (d["type"] == "too_short" and d["input"])]
            broken = [_innermost(data, detail) for detail in details]
            for place in broken:
                if place is None:
                    return None, problems
                container, key = place
                container.pop(key, None)


def _innermost(data: Any, detail: ErrorDetails) -> tuple[Any, Any] | None:
    """The innermost part of `data` that `detail` speaks of: the map that it is in, and its key there."""
    place = None
    for step in detail["loc"]:
        if isinstance(data, Mapping) and step in data:
            place = (data, step)
            data = data[step]
    return place


def _problem(detail: ErrorDetails) -> Problem:
    """pydantic's finding in this project's words."""
    steps = [step for step in detail["loc"] if step != "[key]"]
    path = _dotted(steps)
    context = detail.get("ctx", {})
    got = _shown(detail["input"])
    match detail["type"]:
        case "extra_forbidden":
            return Problem(path, "unknown key", fix=did_you_mean(str(steps[-1]), _known_keys(steps[:-1])))
        case "missing":
            return Problem(path, "is required")
        case "literal_error":
            return Problem(path, f"must be one of {context['expected']}", got)
        case "greater_than_equal":
            return Problem(path, f"must be at least {context['ge']}", got)
        case "less_than_equal":
            return Problem(path, f"must be at most {context['le']}", got)
        case "too_short" | "string_too_short":
            return Problem(path, "must not be empty")
        case "string_pattern_mismatch":
            return Problem(path, "is not a valid name here", got, fix=f"it must match {context['pattern']}")
        case "value_error":
            return Problem(path, str(context["error"]), got)
        case kind if kind in _WORDS_FOR_TYPES:
            fix = _as_list(detail["input"]) if kind == "tuple_type" else ""
            return Problem(path, f"must be {_WORDS_FOR_TYPES[kind]}", f"{got}, {_type_name(detail['input'])}", fix)
        case _:
            return Problem(path, detail["msg"], got)


_WORDS_FOR_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a map",
    "mapping_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}


def _as_list(value: object) -> str:
    """A command line is often given as one text."""
    return f"write it as [{', '.join(value.split())}]" if isinstance(value, str) else ""


def _type_name(value: object) -> str:
    names = {bool: "true/false", int: "a whole number", float: "a number", str: "text", type(None): "nothing"}
    if isinstance(value, list | tuple):
        return "a list"
    return "a map" if isinstance(value, Mapping) else names.get(type(value), type(value).__name__)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _dotted(steps: list[int | str]) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else step)
    return text


def _touches(path: str, broken: set[str]) -> bool:
    """Whether this path is broken, or lies below what is, or has lost a part that is."""
    return any(path in (other, _parent(other)) or path.startswith((f"{other}.", f"{other}[")) for other in broken)


def _parent(path: str) -> str:
    return path[: max(path.rfind("."), path.rfind("["), 0)]


def _known_keys(steps: list[int | str]) -> list[str]:
    """The keys that the model at this place of the file has."""
    model: Any = ClusterSpec
    for step in steps:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if str(step) in fields:
            model = next(_models_in(fields[str(step)].annotation), model)
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_in(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def json_schema() -> dict[str, Any]:
    """The schema of a whole stack file, for editors."""
    cluster = ClusterSpec.model_json_schema(by_alias=True)
    definitions = cluster.pop("$defs", {})
    cluster["required"] = [key for key in cluster["required"] if key != "name"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tfcluster stack file",
        "type": "object",
        "properties": {"config": {"type": "object", "properties": {"tfcluster:cluster": cluster}}},
        "$defs": definitions,
    }
