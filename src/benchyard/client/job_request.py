"""Builds the request of a job from a file or another job, and from the short form of the flags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from benchyard.agents import catalog
from benchyard.benchmarks.files.located_values import (
    FilePart,
    KeyPath,
    LocatedData,
    read_yaml,
    stray_keys,
    unknown_key,
    validate,
)
from benchyard.client.lookup import find_benchmark, find_scenario
from benchyard.client.nouns import SyncNouns
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound, UsageError
from benchyard.models.conditions import parse_condition
from benchyard.models.jobs import (
    AgentConfig,
    BenchmarkJobView,
    BenchmarkSpec,
    HarborSpec,
    JobRequest,
    ScenariosSpec,
)
from benchyard.models.model_access import Budget
from benchyard.models.trials import SuspectRule

TIMEOUT_SECONDS = 7200.0
ATTEMPTS = 1
CONCURRENT = 10
MULTIPLIER = 1.0
LARGEST_FILE = 8 * 1024**2
_SCENARIO_PREFIX = "scn_"

Body = dict[str, Any]
"""An unfinished request: the JSON of a JobRequest."""

_SPECS: dict[str, type[BaseModel]] = {
    "benchmark": BenchmarkSpec,
    "scenarios": ScenariosSpec,
    "harbor": HarborSpec,
}
_ORCHESTRATOR = (
    "n_attempts",
    "n_concurrent_trials",
    "timeout_multiplier",
    "trial_budget",
    "job_budget",
    "suspect",
)
_OF_AGENTS = ("base_url", "logprobs")
_SELECTION = ("limit", "sample", "seed", "include", "exclude")


class ShortFlags(FilePart):
    """The flags of `job run`, which a job's file may have too."""

    name: str | None = None
    agents: list[str | dict[str, Any]] | None = None
    """`agent[@version][:model]`, or the fields of an agent's configuration."""
    benchmark: str | None = None
    scenarios: list[str] | None = None
    env_vars: dict[str, str] | None = None
    secrets: dict[str, str] | None = None
    agent_kwargs: dict[str, str] | None = None
    timeout: float | None = None
    n_attempts: int | None = None
    n_concurrent_trials: int | None = None
    timeout_multiplier: float | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int | None = None
    filter: dict[str, str | list[str]] | list[str] | str | None = None
    """Conditions, or keys with the values that each key may have."""
    include: list[str] | None = None
    exclude: list[str] | None = None
    trial_budget: dict[str, float] | None = None
    job_budget: dict[str, float] | None = None
    base_url: str | None = None
    logprobs: bool | None = None
    suspect: SuspectRule | None = None
    metadata: dict[str, Any] | None = None


class JobFile(ShortFlags):
    """A job's file: the body of a request, the short form, or a mixture of both."""

    spec: dict[str, Any] | None = None


def body_of_file(path: Path) -> Body:
    """Return the request that a file describes; raises UsageError with the line of the mistake."""
    if path.stat().st_size > LARGEST_FILE:
        raise UsageError(f"{path} is larger than {LARGEST_FILE} bytes; is it a job's file?")
    try:
        marked = read_yaml(path, path.read_text())
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    file = validate(marked, JobFile)
    _check_spec(marked, file.spec)
    for number, agent in enumerate(file.agents or []):
        _check_known(marked, AgentConfig, agent, ("agents", number))
    for key in ("trial_budget", "job_budget"):
        # A misunderstood budget would be no limit at all.
        _check_known(marked, Budget, getattr(file, key), (key,))
    return apply_flags({"spec": file.spec} if file.spec is not None else {}, file)


def body_of_job(view: BenchmarkJobView, *, of_benchmark: bool, is_whole: bool = True) -> Body:
    """Return a request for the same agents on the same scenarios, by benchmark or by their ids."""
    spec = view.job_spec.model_dump(mode="json", exclude_none=True)
    if of_benchmark:
        # The job may have run a random sample of its benchmark, or the benchmark may have grown since.
        part = spec.pop("scenario_ids")
        spec |= {"type": "benchmark", "benchmark_id": view.job_source.benchmark_id}
        if not is_whole:
            spec["selection"] = {"scenario_ids": part}
    else:
        spec |= {"type": "scenarios"}
    return {"name": view.name, "spec": spec, "metadata": dict(view.metadata) or None}


def apply_flags(body: Body, short: ShortFlags) -> Body:
    """Return the body with the fields of the short form that are set; all others stay as they are."""
    said = {key for key in ShortFlags.model_fields if getattr(short, key) is not None}
    spec: Body = dict(body.get("spec") or {})
    if spec.get("type") == "harbor" and (more := sorted(said - {"name", "metadata"})):
        raise UsageError(f"a Harbor job says all this itself; {', '.join(more)} cannot be added to it")
    _apply_source(spec, short)
    if short.agents is not None:
        spec["agent_configs"] = [agent_from_text(agent) for agent in short.agents]
    spec["agent_configs"] = [_agent_with(dict(each), short) for each in spec.get("agent_configs") or []]
    _check_kwargs(spec["agent_configs"], short.agent_kwargs or {})
    _update(spec, "orchestrator_config", {key: getattr(short, key) for key in _ORCHESTRATOR})
    selection = {key: getattr(short, key) for key in _SELECTION}
    _update(spec, "selection", {**selection, **_selection_fields(short.filter)})
    if spec.get("type") == "harbor":
        del spec["agent_configs"]
    found = {**body, "spec": spec, "name": short.name or body.get("name")}
    if short.metadata is not None:
        found["metadata"] = {**(body.get("metadata") or {}), **short.metadata}
    return found


def finish_body(body: Body) -> JobRequest:
    """Complete the request with the command line's defaults; raises UsageError if a field is missing."""
    spec = dict(body["spec"])
    if spec.get("type") != "harbor":
        _check_whole(spec)
        spec["agent_configs"] = [
            {"timeout_seconds": TIMEOUT_SECONDS} | each for each in spec["agent_configs"]
        ]
        defaults = {
            "n_attempts": ATTEMPTS,
            "n_concurrent_trials": CONCURRENT,
            "timeout_multiplier": MULTIPLIER,
            "quiet": False,
        }
        spec["orchestrator_config"] = defaults | (spec.get("orchestrator_config") or {})
    return JobRequest.model_validate({**body, "spec": spec})


def agent_from_text(given: str | Body) -> Body:
    """Parse `agent[@version][:model]` into configuration fields; models may have colons, names have none."""
    if not isinstance(given, str):
        return dict(given)
    name, _, model = given.partition(":")
    before, at, version = name.rpartition("@")
    if not at or not before:
        # npm's scoped names begin with `@`.
        before, version = name, ""
    if not before or (":" in given and not model):
        raise UsageError(f"{given!r} must look like agent[@version][:model]")
    found = {"name": before, "version": version, "model_name": model}
    return {key: value for key, value in found.items() if value}


def _selection_fields(given: dict[str, str | list[str]] | list[str] | str | None) -> Body:
    """Return conditions as the fields of a selection, if possible in the form that every server knows."""
    if not given:
        return {}
    texts = [given] if isinstance(given, str) else given
    if isinstance(texts, dict):
        texts = [
            f"{key}={value}"
            for key, values in texts.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
    plain = [alternatives[0] for text in texts if len(alternatives := parse_condition(text)) == 1]
    keys = {each.key for each in plain if each.operator == "="}
    if len(keys) == len(texts):
        return {"filters": {each.key: each.value for each in plain}}
    return {"where": list(texts)}


def _apply_source(spec: Body, short: ShortFlags) -> None:
    if short.benchmark is not None and short.scenarios is not None:
        raise UsageError("give a benchmark or scenarios, not both")
    if (short.benchmark is not None or short.scenarios is not None) and spec.get("selection"):
        # The ids were chosen from another benchmark.
        spec["selection"] = {k: v for k, v in spec["selection"].items() if k != "scenario_ids"} or None
    if short.benchmark is not None:
        spec.pop("scenario_ids", None)
        spec |= {"type": "benchmark", "benchmark_id": short.benchmark}
    if short.scenarios is not None:
        spec.pop("benchmark_id", None)
        spec |= {"type": "scenarios", "scenario_ids": list(short.scenarios)}


def _agent_with(agent: Body, short: ShortFlags) -> Body:
    environment: Body = dict(agent.get("agent_environment") or {})
    _update(environment, "environment_variables", short.env_vars or {})
    _update(environment, "secrets", short.secrets or {})
    if environment:
        agent["agent_environment"] = environment
    _update(agent, "kwargs", _kwargs_for(str(agent.get("name")), short.agent_kwargs or {}))
    if short.timeout is not None:
        agent["timeout_seconds"] = short.timeout
    said = {key: getattr(short, key) for key in _OF_AGENTS}
    return agent | {key: value for key, value in said.items() if value is not None}


def _kwargs_for(name: str, given: Body) -> Body:
    """Return the kwargs for one agent: `agent.key` for it alone, `key` for every agent that may take it."""
    known = catalog.kwargs_of(name)
    # An agent that takes no kwargs may run beside the agents that the kwargs are meant for.
    shared = {} if known is not None and not known else {k: v for k, v in given.items() if "." not in k}
    own = f"{name}."
    return {**shared, **{k.removeprefix(own): v for k, v in given.items() if k.startswith(own)}}


def _check_kwargs(agents: list[Body], given: Body) -> None:
    named = tuple(f"{agent.get('name')}." for agent in agents)
    for key in given:
        if "." in key and agents and not key.startswith(named):
            raise UsageError(f"--agent-kwargs {key}=...: no --agent is called {key.partition('.')[0]!r}")
        known = [catalog.kwargs_of(str(agent.get("name"))) for agent in agents]
        if "." not in key and agents and all(each is not None and not each for each in known):
            names = ", ".join(str(agent.get("name")) for agent in agents)
            raise UsageError(
                f"--agent-kwargs {key}=...: no agent takes it; {names}: no kwargs. "
                "`benchyard agent show NAME` lists what an agent takes"
            )


def _update(outer: Body, key: str, values: Body) -> None:
    said = {name: value for name, value in values.items() if value is not None}
    if said:
        outer[key] = {**(outer.get(key) or {}), **said}


def _check_whole(spec: Body) -> None:
    if "type" not in spec:
        raise UsageError("say what to run: --benchmark ID|NAME, or --scenarios IDS...")
    if not spec.get("agent_configs"):
        raise UsageError("say who is to run it: --agent agent[@version][:model], such as --agent oracle")
    selection = spec.get("selection") or {}
    if selection.get("seed") is not None and selection.get("sample") is None:
        raise UsageError("--seed chooses a sample: say how large with --sample N")


def _check_spec(marked: LocatedData, spec: Body | None) -> None:
    if spec is None:
        return
    model = _SPECS.get(str(spec.get("type")))
    if model is None:
        raise marked.refuse(("spec", "type"), f"`spec.type` must be one of {', '.join(_SPECS)}")
    _check_known(marked, model, spec, ("spec",))
    agents = spec.get("agent_configs")
    for number, agent in enumerate(agents if isinstance(agents, list) else []):
        _check_known(marked, AgentConfig, agent, ("spec", "agent_configs", number))


def _check_known(marked: LocatedData, model: type[BaseModel], data: Any, place: KeyPath) -> None:
    """Refuse unknown keys: the models of the wire ignore them, but in a file they are a mistake."""
    for where, known in stray_keys(model, data, place):
        raise marked.refuse(where, unknown_key(str(where[-1]), known))


def body_like(client: SyncNouns, view: BenchmarkJobView, tell: Callable[[str], None]) -> Body:
    """Return the request of an earlier job; its benchmark may have other scenarios now than the job had."""
    id = view.job_source.benchmark_id
    of_benchmark = is_whole = False
    if id is not None:
        try:
            now = client.benchmarks.retrieve(id).scenario_ids
        except NotFound:
            tell(f"benchmark {id} is gone; its scenarios are run by themselves")
        else:
            is_whole = now == view.job_spec.scenario_ids
            of_benchmark = set(view.job_spec.scenario_ids) <= set(now)
            if not of_benchmark:
                name = clean(view.job_source.benchmark_name or id)
                told = f"{name} has not all of these scenarios any more; they are run by themselves"
                tell(told)
    return body_of_job(view, of_benchmark=of_benchmark, is_whole=is_whole)


def with_ids(client: SyncNouns, body: Body) -> Body:
    """Return the body with ids in place of names."""
    spec = dict(body["spec"])
    if benchmark := spec.get("benchmark_id"):
        spec["benchmark_id"] = find_benchmark(client, str(benchmark)).id
    if scenarios := spec.get("scenario_ids"):
        spec["scenario_ids"] = [
            scenario
            if str(scenario).startswith(_SCENARIO_PREFIX)
            else find_scenario(client, str(scenario)).id
            for scenario in scenarios
        ]
    return {**body, "spec": spec}
