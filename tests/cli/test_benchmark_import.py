"""`benchyard benchmark import` of task folders, and jobs on what it made, on a real server."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.client.client import Client
from benchyard.testing.server import RunningServer
from tests.benchmarks.tasks import TEST, Task, TaskWriter, small_base
from tests.cli.conftest import CommandLine


@pytest.fixture(scope="module")
def base(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    return small_base(server, tmp_path_factory.mktemp("base"))


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def writer(base: str, tmp_path: Path) -> TaskWriter:
    return TaskWriter(tmp_path / f"tasks-{tmp_path.name}", base)


def run_import(benchyard: CommandLine, folder: Path, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(benchyard.ok("benchmark", "import", str(folder), *more, "-o", "json"))
    return found


def outcomes(benchyard: CommandLine, name: str, *agents: str) -> dict[str, dict[str, Any]]:
    """Agent -> item -> what became of it, of a job over all of a benchmark."""
    given = [word for each in agents for word in ("--agent", each)]
    ended = benchyard("job", "run", *given, "--benchmark", name, "-n", f"job-{name}", "--watch")
    assert ended.status == 0, ended.err
    said = json.loads(benchyard.ok("job", "summary", f"job-{name}", "-e", "-o", "json"))
    return {
        agent["agent_name"]: {
            each["scenario_name"].rpartition("/")[2]: each for each in agent["scenario_outcomes"]
        }
        for agent in said["benchmark_outcomes"]
    }


def test_tasks_are_imported_run_and_graded(benchyard: CommandLine, writer: TaskWriter) -> None:
    writer.write("plain")
    rewards = (
        "#!/bin/bash\nif [ -f answer.txt ]; then a=1; else a=0; fi\n"
        'echo "{\\"reward\\": $a, \\"speed\\": 12.5}" > /logs/verifier/reward.json\n'
        "echo 0.5 > /logs/verifier/reward.txt\n"
    )
    writer.write("named", Task(test=rewards))
    writer.write(
        "forged", Task(solve="mkdir -p /logs && ln -s /app /logs/verifier; echo 1 > /app/reward.txt\n")
    )
    for name, content in {"text": "good", "nan": "nan", "empty": "", "large": "7"}.items():
        writer.write(name, Task(test=f"#!/bin/bash\nprintf '%s' '{content}' > /logs/verifier/reward.txt\n"))
    writer.write("silent", Task(test="#!/bin/bash\ntrue\n"))
    endless = """echo '{"results": {"summary": {"tests": 1e999}}}' > /logs/verifier/ctrf.json\n"""
    writer.write("boasting", Task(test=TEST + endless))
    made = run_import(benchyard, writer.folder)
    assert made["scenarios"] == {"total": 9, "created": 9, "changed": 0, "unchanged": 0}
    found = outcomes(benchyard, made["name"], "oracle", "nop")
    oracle, nop = found["oracle"], found["nop"]
    assert "score" in oracle["plain"], oracle["plain"]
    assert (oracle["plain"]["score"], nop["plain"]["score"]) == (1.0, 0.0)
    assert (oracle["named"]["score"], nop["named"]["score"]) == (1.0, 0.0)
    assert (oracle["boasting"]["score"], nop["boasting"]["score"]) == (1.0, 0.0)
    assert oracle["named"]["attempts"][0]["rewards"] == {"reward": 1.0, "speed": 12.5}
    # What lies there before the tests run is not what they say.
    assert oracle["forged"]["score"] == 0.0
    for name, said in {"text": "not a number", "nan": "finite", "empty": "empty", "large": "0 to 1"}.items():
        assert oracle[name]["failure_reason"]["kind"] == "scorer", oracle[name]
        assert said in oracle[name]["failure_reason"]["exception_message"]
    assert "neither reward.json nor reward.txt" in oracle["silent"]["failure_reason"]["exception_message"]


def test_steps_follow_each_other_and_stop_below_their_least_reward(
    benchyard: CommandLine, writer: TaskWriter
) -> None:
    toml = (
        'schema_version = "1.4"\nmulti_step_reward_strategy = "mean"\n'
        '[environment]\nnetwork_mode = "no-network"\n'
        '[[steps]]\nname = "first"\nmin_reward = 1.0\n[[steps]]\nname = "second"\n'
    )
    test = (
        "#!/bin/bash\nif grep -q {0} done.txt 2>/dev/null; then echo 1; else echo 0; fi"
        " > /logs/verifier/reward.txt\n"
    )
    files: dict[str, str | None] = {"solution/solve.sh": None}
    for name in ("first", "second"):
        files[f"steps/{name}/instruction.md"] = f"Add {name} to done.txt\n"
        files[f"steps/{name}/tests/test.sh"] = test.format(name)
        files[f"steps/{name}/solution/solve.sh"] = f"#!/bin/sh\necho {name} >> done.txt\n"
    files["steps/second/workdir/setup.sh"] = "[ -f done.txt ] && echo ready > ready.txt\n"
    files["steps/second/tests/test.sh"] = (
        "#!/bin/bash\n[ -f ready.txt ] && " + test.format("second").split("\n", 1)[1]
    )
    writer.write("two-steps", Task(toml=toml, test=None, files=files))
    made = run_import(benchyard, writer.folder)
    found = outcomes(benchyard, made["name"], "oracle", "nop")
    assert found["oracle"]["two-steps"]["score"] == 1.0
    assert found["nop"]["two-steps"]["score"] == 0.0
    rounds = found["oracle"]["two-steps"]["attempts"][0]["rounds"]
    assert [each["name"] for each in rounds] == ["first", "second"]
    assert len(found["nop"]["two-steps"]["attempts"][0]["rounds"]) == 1


def test_a_separate_verifier_sees_artifacts_only(benchyard: CommandLine, writer: TaskWriter) -> None:
    toml = (
        'schema_version = "1.4"\nartifacts = ["/app/answer.txt"]\n'
        '[environment]\nnetwork_mode = "no-network"\n[verifier]\nenvironment_mode = "separate"\n'
        '[[verifier.collect]]\ncommand = "cp seen.txt answer.txt"\n'
    )
    test = "#!/bin/bash\n[ -e /app/seen.txt ] && exit 0\n" + TEST.split("\n", 1)[1]
    writer.write("apart", Task(toml=toml, test=test, solve="echo 42 > seen.txt\n"))
    made = run_import(benchyard, writer.folder)
    found = outcomes(benchyard, made["name"], "oracle", "nop")
    assert (found["oracle"]["apart"]["score"], found["nop"]["apart"]["score"]) == (1.0, 0.0)


def test_broken_tasks_are_named_and_the_rest_is_imported(benchyard: CommandLine, writer: TaskWriter) -> None:
    writer.write("good")
    writer.write("typo", Task(toml='schema_version = "1.4"\n[agent]\n\ntimout_sec = 5\n'))
    writer.write("future", Task(toml='schema_version = "9.9"\n'))
    writer.write("untested", Task(test=None))
    writer.write("speechless", Task(instruction="# canary\n"))
    writer.write("no-toml", Task(toml="[agent\n"))
    writer.write("graphics", Task(toml="[environment]\ngpus = 2\n"))
    made = run_import(benchyard, writer.folder)
    assert made["scenarios"]["total"] == 1
    broken = {each["name"]: each["reason"] for each in made["broken"]}
    assert "task.toml:4: agent: unknown key `timout_sec`; did you mean `timeout_sec`?" in broken["typo"]
    assert "task.toml:1:" in broken["future"]
    assert "unknown schema version" in broken["future"]
    assert "tests/test.sh" in broken["untested"]
    assert "it is empty" in broken["speechless"]
    assert "this is not valid TOML" in broken["no-toml"]
    assert "GPUs" in broken["graphics"]
    again = run_import(benchyard, writer.folder)
    assert again["scenarios"] == {"total": 1, "created": 0, "changed": 0, "unchanged": 1}
    assert again["action"] == "unchanged"


def test_the_trial_reports_a_dockerfile_that_does_not_build(
    benchyard: CommandLine, writer: TaskWriter
) -> None:
    writer.write("good")
    writer.write("unbuildable", Task(dockerfile="RUN exit 3\n"))
    made = run_import(benchyard, writer.folder)
    found = outcomes(benchyard, made["name"], "oracle")["oracle"]
    assert found["good"]["score"] == 1.0
    assert found["unbuildable"]["failure_reason"]["exception_type"] == "EnvironmentBuildFailed"
    assert "benchyard blueprint logs" in found["unbuildable"]["failure_reason"]["exception_message"]


def test_a_policy_of_the_same_name_with_other_rules_is_not_taken(
    benchyard: CommandLine, writer: TaskWriter
) -> None:
    toml = '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["one.example", "two.example"]\n'
    writer.write("listed", Task(toml=toml))
    made = run_import(benchyard, writer.folder)
    assert (made["broken"], made["scenarios"]["created"]) == ([], 1)
    # In another order it is the same.
    writer.write(
        "listed", Task(toml=toml.replace('"one.example", "two.example"', '"two.example", "one.example"'))
    )
    assert run_import(benchyard, writer.folder)["broken"] == []
    found = json.loads(benchyard.ok("network-policy", "list", "--name", "allow-list-", "-o", "json"))
    policy = next(each for each in found if "one.example" in each["egress"]["allowed_hostnames"])
    benchyard.ok("network-policy", "update", policy["id"], "--allow-all")
    ended = benchyard("benchmark", "import", str(writer.folder))
    assert ended.status != 0
    assert f"{policy['id']}) has other rules" in ended.err


def test_a_run_without_a_job_is_graded_in_an_image_that_is_built_for_it(
    benchyard: CommandLine, writer: TaskWriter
) -> None:
    toml = (
        'artifacts = ["/app/answer.txt"]\n[environment]\nnetwork_mode = "no-network"\n'
        '[verifier]\nenvironment_mode = "separate"\n'
    )
    baked = f"FROM {writer.base}\nWORKDIR /app\nCOPY test.sh /tests/test.sh\n"
    writer.write("baked", Task(toml=toml, files={"tests/Dockerfile": baked}))
    name = run_import(benchyard, writer.folder)["name"]
    with Client.find() as client:
        scenario = next(iter(client.scenarios.list(name=f"{name}/baked")))
        run = client.scenarios.start_run(scenario_id=scenario.id)
        client.devboxes.await_running(run.devbox_id)
        client.executions.run(run.devbox_id, "echo 42 > /app/answer.txt")
        scored = client.scenarios.runs.score_and_await(run.id)
        client.scenarios.runs.complete(run.id)
    assert scored.scoring_contract_result is not None, scored
    assert scored.scoring_contract_result.score == 1.0, scored.scoring_contract_result
