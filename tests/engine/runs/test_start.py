"""What a run brings along."""

from pathlib import Path

import pytest

from benchyard.engine.runs.start import (
    check_required_values,
    devbox_request,
    join_profiles,
    open_profile,
    seal_profile,
)
from benchyard.errors import UsageError
from benchyard.models.launch import CodeMount, FileMount, LaunchParameters
from benchyard.models.runs import RunProfile, ScenarioRunRequest
from benchyard.models.scenarios import Scenario
from benchyard.store.vault import Vault


def scenario(**fields: object) -> Scenario:
    function = {"name": "s", "weight": 1.0, "scorer": {"type": "command_scorer", "command": "true"}}
    body = {
        "id": "scn_1",
        "create_time_ms": 1,
        "name": "one",
        "input_context": {"problem_statement": "do it"},
        "scoring_contract": {"scoring_function_parameters": [function]},
        **fields,
    }
    return Scenario.model_validate(body)


def test_both_spellings_of_the_wire_are_read() -> None:
    camel = {
        "scenario_id": "s",
        "runProfile": {"envVars": {"A": "1"}, "launchParameters": {}, "purpose": "p"},
    }
    snake = {
        "scenario_id": "s",
        "run_profile": {"env_vars": {"A": "1"}, "launch_parameters": {}, "purpose": "p"},
    }
    assert ScenarioRunRequest.model_validate(camel) == ScenarioRunRequest.model_validate(snake)


def test_a_scenario_runs_profile_lies_over_its_benchmark_runs() -> None:
    outer = RunProfile(
        env_vars={"A": "1", "B": "1"},
        secrets={"S": "one"},
        mounts=[FileMount(target="/a", content="")],
        launch_parameters=LaunchParameters(keep_alive_time_seconds=10, launch_commands=["x"]),
        purpose="outer",
    )
    own = RunProfile(
        env_vars={"B": "2"},
        mounts=[FileMount(target="/b", content="")],
        launch_parameters=LaunchParameters(keep_alive_time_seconds=20),
    )
    both = join_profiles(outer, own)
    assert (both.env_vars, both.secrets, both.purpose) == ({"A": "1", "B": "2"}, {"S": "one"}, "outer")
    assert [each.target for each in both.mounts or [] if isinstance(each, FileMount)] == ["/a", "/b"]
    assert both.launch_parameters == LaunchParameters(keep_alive_time_seconds=20, launch_commands=["x"])
    assert join_profiles(outer, None) == outer


def test_required_values_must_be_given() -> None:
    profile = RunProfile(env_vars={"A": "1"}, secrets={"KEY": "MY_KEY"})
    check_required_values(["A", "KEY"], ["MY_KEY"], profile, "it")
    check_required_values(None, ["KEY"], profile, "it")
    with pytest.raises(UsageError, match=r"it needs the environment variables B, C;.*env_vars"):
        check_required_values(["B", "A", "C"], None, profile, "it")
    with pytest.raises(UsageError, match=r"it needs the secrets OTHER;.*secrets"):
        check_required_values(None, ["OTHER"], profile, "it")


def test_the_devbox_is_the_scenarios_with_what_the_run_brings() -> None:
    environment = {"blueprint_id": "bpt_1", "launch_parameters": {"launch_commands": ["a"]}}
    given = scenario(environment=environment, metadata={"benchyard.network": "host", "other": "x"})
    profile = RunProfile(env_vars={"A": "1"}, launch_parameters=LaunchParameters(keep_alive_time_seconds=5))
    request = devbox_request(given, profile, {})
    assert (request.blueprint_id, request.environment_variables) == ("bpt_1", {"A": "1"})
    assert request.metadata == {"benchyard.network": "host"}
    launch = request.launch_parameters
    assert launch == LaunchParameters(launch_commands=["a"], keep_alive_time_seconds=5)
    assert devbox_request(given, profile, {"benchyard.network": "none"}).metadata == {
        "benchyard.network": "none"
    }


def test_tokens_are_kept_sealed(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    profile = RunProfile(mounts=[CodeMount(repo_owner="o", repo_name="r", token="secret-token")])
    kept = seal_profile(profile, vault)
    assert "secret-token" not in kept.model_dump_json()
    assert open_profile(kept, vault) == profile
