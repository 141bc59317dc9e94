"""What differs between a scenario as it is kept and as a folder describes it."""

from collections.abc import Iterable, Mapping
from typing import Any

from benchyard.models.benchmarks import BenchmarkChange, BenchmarkRequest, BenchmarkView
from benchyard.models.scenarios import (
    RULES_IN_METADATA,
    SCORER_SECONDS_DEFAULT,
    InputContext,
    ScenarioChange,
    ScenarioEnvironment,
    ScenarioRequest,
    ScenarioView,
    ScoringContract,
    Step,
)

Difference = tuple[str, Any, Any]
"""Where, what it was, what it shall be; None is nothing."""

_DEFAULTS: dict[str, Any] = {
    "scoring_isolation": "auto",
    "answer_paths": [],
    "nop_score": 0.0,
    "scoring_network": "none",
    "scoring_secrets": {},
    "scoring_tracing": False,
    "agent_network_policy": "",
    "agent_timeout_sec": None,
    "answer_excludes": [],
    "scoring_blueprint_id": "",
    "attachments": {},
    "collect_commands": [],
    "tries": 1,
    "retry_prompt": "",
    "reward_strategy": "mean",
    "validation_type": "UNSPECIFIED",
    "required_environment_variables": [],
    "required_secret_names": [],
    "scorer_timeout_sec": SCORER_SECONDS_DEFAULT,
    "metadata": {},
    "reference_output": "",
    "attribution": "",
    "description": "",
}
"""Field -> what it means to say nothing, and what is sent to say so."""
_PLAIN = (
    "name",
    "scoring_isolation",
    "answer_paths",
    "nop_score",
    "scoring_network",
    "scoring_secrets",
    "scoring_tracing",
    "agent_network_policy",
    "agent_timeout_sec",
    "answer_excludes",
    "scoring_blueprint_id",
    "attachments",
    "collect_commands",
    "tries",
    "retry_prompt",
    "reward_strategy",
    "validation_type",
    "required_environment_variables",
    "required_secret_names",
    "scorer_timeout_sec",
    "reference_output",
)
_BENCHMARK = (
    "name",
    "attribution",
    "description",
    "required_environment_variables",
    "required_secret_names",
    "metadata",
    "scenario_ids",
)


def scenario_differences(view: ScenarioView, wanted: ScenarioRequest) -> list[Difference]:
    """Field by field; empty where pushing would change nothing."""
    found = list(_plain(_PLAIN, view, wanted))
    if wanted.validated_isolation is not None:
        # A folder that says nothing of it leaves what validation found on the server.
        found += _plain(("validated_isolation",), view, wanted)
    found += _each("metadata", _labels(view.metadata), _labels(wanted.metadata))
    found += _each("input_context", _context(view.input_context), _context(wanted.input_context))
    environment = wanted.environment_parameters or ScenarioEnvironment()
    found += _each("environment", _dump(view.environment or ScenarioEnvironment()), _dump(environment))
    old, new = _functions(view.scoring_contract), _functions(wanted.scoring_contract)
    found += _each("scorers", dict(old), dict(new))
    if not any(place.startswith("scorers") for place, _, _ in found) and old != new:
        found.append(("scorers", [name for name, _ in old], [name for name, _ in new]))
    return [*found, *_steps(view.steps or [], wanted.steps or [])]


def _steps(old: list[Step], new: list[Step]) -> list[Difference]:
    was, shall = {each.name: _step(each) for each in old}, {each.name: _step(each) for each in new}
    found = _each("steps", was, shall)
    return found or ([] if [*was] == [*shall] else [("steps", [*was], [*shall])])


def _step(step: Step) -> dict[str, Any]:
    said = step.model_dump(exclude={"scoring_contract"}, exclude_none=True)
    scorers = _functions(step.scoring_contract) if step.scoring_contract else []
    return {name: value for name, value in {**said, "scorers": scorers}.items() if value not in ("", [])}


def scenario_change(wanted: ScenarioRequest, differences: Iterable[Difference]) -> ScenarioChange:
    """The update that takes these differences away; what is not wanted any more is cleared."""
    places = {place.split(".")[0] for place, _, _ in differences}
    said: dict[str, Any] = {
        name: _said(wanted, name) for name in (*_PLAIN, "metadata", "validated_isolation") if name in places
    }
    if "input_context" in places:
        more = wanted.input_context.additional_context
        said["input_context"] = {
            "problem_statement": wanted.input_context.problem_statement,
            "additional_context": {} if more is None else more,
        }
    if "steps" in places:
        said["steps"] = wanted.steps or []
    if "scorers" in places:
        said["scoring_contract"] = wanted.scoring_contract.model_dump()
    if "environment" in places:
        environment = wanted.environment_parameters or ScenarioEnvironment()
        said["environment_parameters"] = environment.model_dump()
    return ScenarioChange.model_validate(said)


def benchmark_differences(view: BenchmarkView, wanted: BenchmarkRequest) -> list[Difference]:
    """Field by field; empty where pushing would change nothing."""
    return list(_plain(_BENCHMARK, view, wanted))


def benchmark_change(wanted: BenchmarkRequest) -> BenchmarkChange:
    """The update that makes a benchmark what is wanted."""
    said = {name: _said(wanted, name) for name in _BENCHMARK}
    return BenchmarkChange.model_validate({**said, "scenario_ids": wanted.scenario_ids or []})


def _said(owner: Any, name: str) -> Any:
    value = getattr(owner, name)
    return _DEFAULTS.get(name) if value is None else value


def _plain(names: tuple[str, ...], view: Any, wanted: Any) -> list[Difference]:
    pairs = ((name, _said(view, name), _said(wanted, name)) for name in names)
    return [(name, old, new) for name, old, new in pairs if (old or None) != (new or None)]


def _each(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    names = [*old, *(name for name in new if name not in old)]
    return [
        (f"{place}.{name}", old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
    ]


def _labels(metadata: Mapping[str, str] | None) -> dict[str, str]:
    # What metadata says of the rules is in fields of its own too.
    return {key: value for key, value in (metadata or {}).items() if key not in RULES_IN_METADATA}


def _context(context: InputContext) -> dict[str, Any]:
    return {name: value for name, value in context.model_dump().items() if value not in (None, {}, "")}


def _dump(environment: ScenarioEnvironment) -> dict[str, Any]:
    found = environment.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in found.items() if value not in ({}, "")}


def _functions(contract: ScoringContract) -> list[tuple[str, Any]]:
    """Names made unique -> scorers without what says nothing."""
    found: list[tuple[str, Any]] = []
    taken: dict[str, int] = {}
    for each in contract.scoring_function_parameters:
        taken[each.name] = taken.get(each.name, 0) + 1
        name = each.name if taken[each.name] == 1 else f"{each.name} ({taken[each.name]})"
        scorer = {key: value for key, value in each.scorer.items() if value not in (None, [], {})}
        if "test_files" in scorer:
            files = scorer["test_files"]
            scorer["test_files"] = [[each["file_path"], each.get("file_contents") or ""] for each in files]
        found.append((name, {"weight": each.weight, **scorer}))
    return found
