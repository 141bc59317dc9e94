"""Every public method of the original SDK's objects (1.32.0) has an equal here, with the same parameters."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import runloop_api_client.sdk as original
import typing_extensions
from runloop_api_client.sdk import _types, async_devbox, devbox

from benchyard.client import methods
from benchyard.client.resources.access import DevboxNetwork
from benchyard.client.resources.devboxes import Devbox, Snapshot
from benchyard.client.resources.executions import CommandResult, Commands, Execution
from benchyard.client.resources.files import DevboxFiles
from benchyard.client.sdk.agents import Agent, AgentOps
from benchyard.client.sdk.benchmarks import Benchmark, BenchmarkOps
from benchyard.client.sdk.benchyard import AsyncBenchyard, Benchyard
from benchyard.client.sdk.blueprints import Blueprint, BlueprintOps
from benchyard.client.sdk.devboxes import AsyncDevboxOps, SnapshotOps, SyncDevboxOps
from benchyard.client.sdk.network import GatewayConfig, GatewayConfigOps, NetworkPolicy, NetworkPolicyOps
from benchyard.client.sdk.runs import BenchmarkRun, ScenarioRun
from benchyard.client.sdk.scenarios import Scenario, ScenarioBuilder, ScenarioOps, Scorer, ScorerOps
from benchyard.client.sdk.secrets import Secret, SecretOps
from benchyard.client.sdk.storage_objects import StorageObject, StorageObjectOps

EQUALS: dict[str, type] = {
    "Agent": Agent,
    "AgentOps": AgentOps,
    "Benchmark": Benchmark,
    "BenchmarkOps": BenchmarkOps,
    "BenchmarkRun": BenchmarkRun,
    "Blueprint": Blueprint,
    "BlueprintOps": BlueprintOps,
    "CommandInterface": Commands,
    "Devbox": Devbox,
    "DevboxOps": SyncDevboxOps,
    "Execution": Execution,
    "ExecutionResult": CommandResult,
    "FileInterface": DevboxFiles,
    "GatewayConfig": GatewayConfig,
    "GatewayConfigOps": GatewayConfigOps,
    "NamedShell": Commands,
    "NetworkInterface": DevboxNetwork,
    "NetworkPolicy": NetworkPolicy,
    "NetworkPolicyOps": NetworkPolicyOps,
    "RunloopSDK": Benchyard,
    "Scenario": Scenario,
    "ScenarioBuilder": ScenarioBuilder,
    "ScenarioOps": ScenarioOps,
    "ScenarioRun": ScenarioRun,
    "Scorer": Scorer,
    "ScorerOps": ScorerOps,
    "Secret": Secret,
    "SecretOps": SecretOps,
    "Snapshot": Snapshot,
    "SnapshotOps": SnapshotOps,
    "StorageObject": StorageObject,
    "StorageObjectOps": StorageObjectOps,
}

ABSENT = {
    "Axon": "axons are not supported; `yard.axon` says so",
    "AxonOps": "axons are not supported; `yard.axon` says so",
    "AxonSqlOps": "axons are not supported; `yard.axon` says so",
    "McpConfig": "MCP configs are not supported; `yard.mcp_config` says so",
    "McpConfigOps": "MCP configs are not supported; `yard.mcp_config` says so",
    "ScenarioPreview": "a plain dictionary here, which `ScenarioBuilder.preview` returns",
}


_SAYS_SOURCE = "the method itself says what the source is; the original would overwrite it"
EXCEPTIONS = {
    "AgentOps": {f"create_from_{kind}(source=)": _SAYS_SOURCE for kind in ("git", "npm", "object", "pip")},
}
"""Class -> what is left out -> why."""


def classes() -> Iterator[tuple[str, type, type | None]]:
    """Each class of the original's object layer, both kinds, and its equal."""
    found = {name: getattr(original, name) for name in original.__all__}
    for module in (devbox, async_devbox):
        found |= {name: kind for name, kind in vars(module).items() if name.endswith(("Interface", "Shell"))}
    for name, kind in sorted(found.items()):
        if not inspect.isclass(kind):
            continue
        plain = name.removeprefix("Async")
        if plain in ABSENT:
            continue
        ours = {"AsyncRunloopSDK": AsyncBenchyard, "AsyncDevboxOps": AsyncDevboxOps}.get(name)
        yield name, kind, ours or EQUALS.get(plain)


def parameters_of(method: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a method of the original, those in `**params` each by its name."""
    found = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name == "self":
            continue
        if parameter.kind is not parameter.VAR_KEYWORD:
            found[name] = parameter
            continue
        annotation = parameter.annotation
        if isinstance(annotation, str):
            annotation = eval(annotation, {**vars(typing_extensions), **vars(_types)})
        for field in typing_extensions.get_type_hints(get_args(annotation)[0]):
            found[field] = inspect.Parameter(field, parameter.KEYWORD_ONLY)
    return found


def test_every_class_has_an_equal_or_a_reason() -> None:
    assert [name for name, _, ours in classes() if ours is None] == []


@pytest.mark.parametrize(
    ("name", "theirs", "ours"), [each for each in classes() if each[2]], ids=lambda each: str(each)[:40]
)
def test_every_method_has_an_equal_with_the_same_parameters(name: str, theirs: type, ours: type) -> None:
    missing = []
    sources = [inspect.getsource(each) for each in ours.__mro__ if each.__module__.startswith("benchyard.")]
    for verb, method in inspect.getmembers(theirs):
        if verb.startswith("_"):
            continue
        if not callable(method):
            if not hasattr(ours, verb) and not any(f"self.{verb}" in source for source in sources):
                missing.append(verb)
            continue
        if not hasattr(ours, verb):
            missing.append(f"{verb}()")
            continue
        equal = inspect.getattr_static(ours, verb)
        known = getattr(equal, "__signature__", None) or inspect.signature(equal)
        taken = {*known.parameters, *(methods.OPTION_NAMES if isinstance(equal, methods.call) else ())}
        missing += [f"{verb}({field}=)" for field in parameters_of(method) if field not in taken]
    assert [each for each in missing if each not in EXCEPTIONS.get(name.removeprefix("Async"), {})] == []


def test_nouns_of_the_original_are_there_on_the_client() -> None:
    theirs = set(original.RunloopSDK.__annotations__) - {"api"}
    with Benchyard("http://127.0.0.1:9", "key_of_nobody") as yard:
        assert theirs - set(vars(yard)) == set()
