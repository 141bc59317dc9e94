"""What `job run` asks for: flags, files and other jobs."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from benchyard.cli.multi_value_options import repeat_flags
from benchyard.client.job_request import (
    ShortFlags,
    agent_from_text,
    apply_flags,
    body_of_file,
    body_of_job,
    finish_body,
)
from benchyard.errors import UsageError
from benchyard.models.jobs import BenchmarkJobView, BenchmarkSpec, ScenariosSpec, Selection
from tests.client.test_jobs import job


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("-a x y -b z", "-a x -a y -b z"),
        ("-a x -a y", "-a x -a y"),
        ("-a=x y -w", "-a=x -a y -w"),
        ("-a - -w", "-a - -w"),
        ("-a -1 x", "-a -1 -a x"),
        ("-w x", "-w x"),
        ("", ""),
    ],
)
def test_words_after_a_repeatable_flag_are_its_values(given: str, understood: str) -> None:
    assert " ".join(repeat_flags(given.split(), {"-a"})) == understood


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ("oracle", {"name": "oracle"}),
        ("a:b:c/d@e", {"name": "a", "model_name": "b:c/d@e"}),
        ("a@1.2:m", {"name": "a", "version": "1.2", "model_name": "m"}),
        ("@scope/agent@2", {"name": "@scope/agent", "version": "2"}),
        ("@scope/agent", {"name": "@scope/agent"}),
    ],
)
def test_an_agent_is_a_name_a_version_and_a_model(given: str, fields: dict[str, str]) -> None:
    assert agent_from_text(given) == fields


@pytest.mark.parametrize("given", ["", ":m", "a:"])
def test_invalid_agent_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="must look like"):
        agent_from_text(given)


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return path


def test_a_file_in_the_short_form_and_flags_that_override_it(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        """
name: nightly
agents: [oracle, {name: command, kwargs: {run: "true"}, timeout_seconds: 5}]
benchmark: quickstart
env_vars: {A: "1", B: "2"}
secrets: {KEY: STORED}
n_attempts: 3
timeout: 60
limit: 4
suspect: zero
filter: {difficulty: easy}
metadata: {team: x}
""",
    )
    short = ShortFlags(
        env_vars={"B": "3"}, n_attempts=2, sample=2, agent_kwargs={"deep": "yes"}, name="other"
    )
    request = finish_body(apply_flags(body_of_file(path), short))
    assert (request.name, request.metadata) == ("other", {"team": "x"})
    spec = request.spec
    assert isinstance(spec, BenchmarkSpec)
    assert spec.benchmark_id == "quickstart"
    first, second = spec.agent_configs
    assert first.agent_environment is not None
    assert first.agent_environment.environment_variables == {"A": "1", "B": "3"}
    assert first.agent_environment.secrets == {"KEY": "STORED"}
    assert (first.timeout_seconds, second.timeout_seconds) == (60, 60)
    assert second.kwargs == {"run": "true", "deep": "yes"}
    config = spec.orchestrator_config
    assert config is not None
    assert (config.n_attempts, config.n_concurrent_trials, config.timeout_multiplier) == (2, 10, 1.0)
    assert config.suspect == "zero"
    told = finish_body(apply_flags(body_of_file(path), ShortFlags(suspect="fail"))).spec
    assert isinstance(told, BenchmarkSpec)
    assert told.orchestrator_config is not None
    assert told.orchestrator_config.suspect == "fail"
    assert spec.selection is not None
    assert spec.selection == Selection(filters={"difficulty": "easy"}, sample=2, limit=4)


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ({"a": "1", "b": "2"}, Selection(filters={"a": "1", "b": "2"})),
        (["a=1", "b=2"], Selection(filters={"a": "1", "b": "2"})),
        ({"a": ["1", "2"]}, Selection(where=["a=1", "a=2"])),
        ("a!=1", Selection(where=["a!=1"])),
        (["a=1 or b=2", "c~=^x"], Selection(where=["a=1 or b=2", "c~=^x"])),
    ],
)
def test_filters_are_written_in_several_ways(given: Any, selection: Selection) -> None:
    short = ShortFlags(benchmark="b", agents=["a"], filter=given)
    spec = finish_body(apply_flags({}, short)).spec
    assert isinstance(spec, BenchmarkSpec)
    assert spec.selection == selection


def test_globs_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("benchmark: b\nagents: [a]\ninclude: [fix-*]\nexclude: ['*bug']\n")
    spec = finish_body(body_of_file(path)).spec
    assert isinstance(spec, BenchmarkSpec)
    assert spec.selection == Selection(include=["fix-*"], exclude=["*bug"])


def test_a_file_with_the_body_of_a_request(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        """
spec:
  type: scenarios
  scenario_ids: [scn_1]
  agent_configs: [{name: nop, type: job_agent}]
  orchestrator_config: {max_retries: 0, deadline_seconds: 100}
""",
    )
    spec = finish_body(body_of_file(path)).spec
    assert isinstance(spec, ScenariosSpec)
    assert spec.agent_configs[0].timeout_seconds == 7200
    assert spec.orchestrator_config is not None
    assert (spec.orchestrator_config.retries, spec.orchestrator_config.attempts) == (0, 1)
    other = finish_body(
        apply_flags(body_of_file(path), ShortFlags(benchmark="quickstart", agents=["oracle:m"]))
    ).spec
    assert isinstance(other, BenchmarkSpec)
    assert [each.label for each in other.agent_configs] == ["oracle:m"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents: [oracle]\ntrial_budget: {dollars: 5}\n", "2: unknown key `dollars`"),
        ("n_attempt: 3", "job.yaml:1: unknown key `n_attempt`; did you mean `n_attempts`?"),
        ("name: x\nspec: {type: benchmark, benchmarkid: y}", "job.yaml:2: unknown key `benchmarkid`"),
        ("spec:\n  type: other", "job.yaml:2: `spec.type` must be one of"),
        (
            "spec:\n  type: scenarios\n  agent_configs:\n    - {name: a, modelname: b}",
            "job.yaml:4: unknown key `modelname`; did you mean `model_name`?",
        ),
        ("agents:\n- name: a\n  kwarg: {}", "job.yaml:3: unknown key `kwarg`; did you mean `kwargs`?"),
        ("env_vars: {A: 1}", "put it in quotes"),
        ("- a", "is expected here"),
        ("a: [", "job.yaml"),
        ("spec: {type: harbor, inline_yaml: 'x'}\ntimeout: 3", "timeout cannot be added"),
    ],
)
def test_mistake_in_a_file_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        body_of_file(file(tmp_path, text))
    assert said in error.value.message


def test_a_harbor_job_is_taken_as_it_is(tmp_path: Path) -> None:
    path = file(tmp_path, "name: h\nspec: {type: harbor, inline_yaml: 'agents: []'}")
    assert finish_body(body_of_file(path)).spec.model_dump() == {
        "type": "harbor",
        "inline_yaml": "agents: []",
    }


@pytest.mark.parametrize(
    ("short", "said"),
    [
        (ShortFlags(), "--benchmark"),
        (ShortFlags(benchmark="b"), "--agent"),
        (ShortFlags(benchmark="b", scenarios=["s"], agents=["a"]), "not both"),
        (ShortFlags(benchmark="b", agents=["a"], seed=3), "--sample"),
    ],
)
def test_missing_options_are_named(short: ShortFlags, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        finish_body(apply_flags({}, short))


def test_values_that_the_server_refuses_are_refused_here() -> None:
    with pytest.raises(ValidationError):
        finish_body(apply_flags({}, ShortFlags(benchmark="b", agents=["a"], n_attempts=-1)))


def test_the_same_as_another_job() -> None:
    source = {"type": "benchmark", "benchmark_id": "bmd_1"}
    made: dict[str, Any] = job(job_source=source, metadata={"a": "b"})
    view = BenchmarkJobView.model_validate(made)
    whole = finish_body(apply_flags(body_of_job(view, of_benchmark=True), ShortFlags(n_attempts=4))).spec
    assert isinstance(whole, BenchmarkSpec)
    assert whole.orchestrator_config is not None
    assert (whole.benchmark_id, whole.orchestrator_config.n_attempts) == ("bmd_1", 4)
    some = finish_body(body_of_job(view, of_benchmark=True, is_whole=False)).spec
    assert isinstance(some, BenchmarkSpec)
    assert some.selection == Selection(scenario_ids=["scn_1"])
    part = finish_body(body_of_job(view, of_benchmark=False))
    assert isinstance(part.spec, ScenariosSpec)
    assert (part.spec.scenario_ids, part.name, part.metadata) == (["scn_1"], "test", {"a": "b"})


def test_kwargs_reach_who_takes_them() -> None:
    kwargs = {"run": "x", "command.extra": "y", "mine.depth": "3"}
    agents = ["oracle", "command", "mine"]
    body = apply_flags(
        {}, ShortFlags.model_validate({"agents": agents, "benchmark": "b", "agent_kwargs": kwargs})
    )
    assert {each["name"]: each.get("kwargs") for each in body["spec"]["agent_configs"]} == {
        "oracle": None,
        "command": {"run": "x", "extra": "y"},
        "mine": {"run": "x", "depth": "3"},
    }
    stray = ShortFlags.model_validate({"agents": ["mine"], "agent_kwargs": {"mein.depth": "3"}})
    with pytest.raises(UsageError, match="mein"):
        apply_flags({}, stray)
