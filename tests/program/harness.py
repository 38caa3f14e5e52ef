"""Runs a Pulumi program to its end under a monitor that records, and hands back plain data.

Decided here: what the SDK's own mocks leave out. A URN that stands twice is refused, as the engine does; options are
kept as they were sent; invokes are refused; and nothing leaks from one run to the next, because each has its own event
loop and its own context variables. Tests assert on what is handed back and never inside an `apply`, which a preview
skips without a word.
"""

import asyncio
import contextvars
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc

STACK_TYPE = "pulumi:pulumi:Stack"

# The language host does the same: what asyncio has to say at the end of a loop is noise.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)


class DuplicateUrnError(Exception):
    """What the engine says of a second resource with the URN of a first."""


@dataclass(frozen=True)
class Registered:
    """One resource as the program asked for it."""

    type: str
    name: str
    urn: str
    parent: str
    inputs: dict[str, Any]
    dependencies: tuple[str, ...]
    # Input property → URNs that it comes from.
    property_dependencies: dict[str, tuple[str, ...]]
    # The request itself: every option, under the engine's own name.
    request: Any


@dataclass
class Deployment:
    """What came of a run, even of one that failed."""

    resources: list[Registered] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def of_type(self, ending: str) -> list[Registered]:
        return [resource for resource in self.resources if resource.type.endswith(ending)]

    def one(self, ending: str) -> Registered:
        (only,) = self.of_type(ending)
        return only


class _Echo(mocks.Mocks):
    """Every resource gets what it asked for."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        return (f"{args.name}-id" if args.custom else None), args.inputs

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"the program asked a provider: {args.token}")


class _Recorder(mocks.MockMonitor):
    def __init__(self, deployment: Deployment) -> None:
        super().__init__(_Echo())
        self._deployment = deployment
        self._urns: set[str] = set()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        urn = self.make_urn(request.parent, request.type, request.name)
        if urn in self._urns:
            raise DuplicateUrnError(f"Duplicate resource URN '{urn}'; try giving it a unique name")
        self._urns.add(urn)
        if request.type != STACK_TYPE:
            self._deployment.resources.append(
                Registered(
                    type=request.type,
                    name=request.name,
                    urn=urn,
                    parent=request.parent,
                    inputs=rpc.deserialize_properties(request.object),
                    dependencies=tuple(request.dependencies),
                    property_dependencies={key: tuple(of.urns) for key, of in request.propertyDependencies.items()},
                    request=request,
                )
            )
        return super().RegisterResource(request)


class _Listener(logging.Handler):
    def __init__(self, deployment: Deployment) -> None:
        super().__init__(logging.WARNING)
        self._deployment = deployment

    def emit(self, record: logging.LogRecord) -> None:
        self._deployment.warnings.append(record.getMessage())


def run(
    program: Callable[[], object],
    *,
    stack: str = "exp",
    project: str = "tfcluster",
    preview: bool = False,
    config: Mapping[str, Any] | None = None,
    into: Deployment | None = None,
) -> Deployment:
    """Runs `program`; what it raises is raised here. `into` keeps what was registered before that."""
    deployment = Deployment() if into is None else into
    contextvars.copy_context().run(_isolated, program, stack, project, preview, config or {}, deployment)
    # Resources that do not wait for each other are registered in any order.
    deployment.resources.sort(key=lambda resource: resource.urn)
    return deployment


def as_the_engine_hands_it_over(config: Mapping[str, Any]) -> dict[str, str]:
    """Stack configuration as the program gets it: everything but text is JSON, with sorted keys."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in config.items()
    }


def _isolated(
    program: Callable[[], object],
    stack: str,
    project: str,
    preview: bool,
    config: Mapping[str, Any],
    deployment: Deployment,
) -> None:
    logger = logging.Logger("engine")
    logger.addHandler(_Listener(deployment))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        pulumi.runtime.set_all_config(as_the_engine_hands_it_over(config))
        monitor = _Recorder(deployment)
        mocks.set_mocks(monitor.mocks, project=project, stack=stack, preview=preview, logger=logger, monitor=monitor)

        def to_its_end() -> None:
            program()

        mocks.test(to_its_end)()
        deployment.outputs.update(loop.run_until_complete(_resolved(pulumi.runtime.get_root_resource())))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)


async def _resolved(root: Any) -> dict[str, Any]:
    """The stack's outputs; what is not known yet is `pulumi.UNKNOWN`."""
    outputs: dict[str, Any] = {}
    for name, value in root.outputs.items():
        output = pulumi.Output.from_input(value)
        outputs[name] = await output.future() if await output.is_known() else pulumi.UNKNOWN
    return outputs
