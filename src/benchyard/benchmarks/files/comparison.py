"""Differences between a stored scenario or benchmark and its description in a folder."""

from collections.abc import Iterable, Mapping
from typing import Any

from benchyard.models.benchmarks import BenchmarkChange, BenchmarkRequest, BenchmarkView
from benchyard.models.scenarios import (
    NOTES,
    RULES_IN_METADATA,
    InputContext,
    ScenarioChange,
    ScenarioEnvironment,
    ScenarioRequest,
    ScenarioView,
    ScoringContract,
    Step,
)

Difference = tuple[str, Any, Any]
"""Place, old value and new value; None is no value."""

_PLAIN = ("name", *(name for name in NOTES if name not in ("validated_isolation", "steps")))
_SCENARIO_DEFAULTS = {**{name: note.default for name, note in NOTES.items()}, "metadata": {}}
_BENCHMARK_DEFAULTS: Mapping[str, Any] = {
    "name": None,
    "attribution": "",
    "description": "",
    "required_environment_variables": [],
    "required_secret_names": [],
    "metadata": {},
    "scenario_ids": None,
}
"""Field -> the value that leaving it out means, which is also sent to clear it."""


def scenario_differences(view: ScenarioView, wanted: ScenarioRequest) -> list[Difference]:
    """Return the differences field by field; empty if pushing would change nothing."""
    found = list(_plain(_PLAIN, view, wanted, _SCENARIO_DEFAULTS))
    if wanted.validated_isolation is not None:
        # A folder without this field leaves the server's result of a validation.
        found += _plain(("validated_isolation",), view, wanted, _SCENARIO_DEFAULTS)
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
    """Return the update that removes these differences; fields that are no longer wanted are cleared."""
    places = {place.split(".")[0] for place, _, _ in differences}
    said: dict[str, Any] = {
        name: _value_or_default(wanted, name, _SCENARIO_DEFAULTS)
        for name in (*_PLAIN, "metadata", "validated_isolation")
        if name in places
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
    """Return the differences field by field; empty if pushing would change nothing."""
    return list(_plain(_BENCHMARK_DEFAULTS, view, wanted, _BENCHMARK_DEFAULTS))


def benchmark_change(wanted: BenchmarkRequest) -> BenchmarkChange:
    """Return the update that turns a benchmark into the wanted one."""
    said = {name: _value_or_default(wanted, name, _BENCHMARK_DEFAULTS) for name in _BENCHMARK_DEFAULTS}
    return BenchmarkChange.model_validate({**said, "scenario_ids": wanted.scenario_ids or []})


def _value_or_default(owner: Any, name: str, defaults: Mapping[str, Any]) -> Any:
    value = getattr(owner, name)
    return defaults.get(name) if value is None else value


def _plain(names: Iterable[str], view: Any, wanted: Any, defaults: Mapping[str, Any]) -> list[Difference]:
    pairs = (
        (name, _value_or_default(view, name, defaults), _value_or_default(wanted, name, defaults))
        for name in names
    )
    return [(name, old, new) for name, old, new in pairs if (old or None) != (new or None)]


def _each(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    names = [*old, *(name for name in new if name not in old)]
    return [
        (f"{place}.{name}", old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
    ]


def _labels(metadata: Mapping[str, str] | None) -> dict[str, str]:
    # The scoring rules in metadata are compared as fields of their own.
    return {key: value for key, value in (metadata or {}).items() if key not in RULES_IN_METADATA}


def _context(context: InputContext) -> dict[str, Any]:
    return {name: value for name, value in context.model_dump().items() if value not in (None, {}, "")}


def _dump(environment: ScenarioEnvironment) -> dict[str, Any]:
    found = environment.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in found.items() if value not in ({}, "")}


def _functions(contract: ScoringContract) -> list[tuple[str, Any]]:
    """Return unique names -> scorers without empty fields."""
    found: list[tuple[str, Any]] = []
    taken: dict[str, int] = {}
    for parameter in contract.scoring_function_parameters:
        taken[parameter.name] = taken.get(parameter.name, 0) + 1
        name = parameter.name if taken[parameter.name] == 1 else f"{parameter.name} ({taken[parameter.name]})"
        scorer = {key: value for key, value in parameter.scorer.items() if value not in (None, [], {})}
        if "test_files" in scorer:
            files = scorer["test_files"]
            scorer["test_files"] = [[file["file_path"], file.get("file_contents") or ""] for file in files]
        found.append((name, {"weight": parameter.weight, **scorer}))
    return found
