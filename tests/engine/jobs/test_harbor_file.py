"""Harbor job files: what is run, what is refused and how, and nothing else whatever the text."""

import contextlib
import datetime
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.engine.jobs.harbor_file import (
    HARMLESS,
    MOST_BYTES,
    REFUSED,
    TRUE_UNLESS_SAID,
    HarborAgent,
    HarborDataset,
    HarborJob,
    parse_job,
)
from benchyard.errors import UsageError
from tests.house.tree import ROOT

WHOLE = """
job_name: nightly
jobs_dir: jobs
n_attempts: 3
n_concurrent_trials: 8
timeout_multiplier: 1.5
agent_timeout_multiplier: 1.5
verifier_timeout_multiplier: null
quiet: true
debug: true
retry:
  max_retries: 2
  wait_multiplier: 1.0
  min_wait_sec: 1
  max_wait_sec: 60
environment:
  type: docker
  delete: true
  force_build: false
  env: {}
verifier: {disable: false}
metrics: []
agents:
  - name: claude-code
    model_name: anthropic/claude-opus-4-1
    override_timeout_sec: 900
    max_timeout_sec: 600
    import_path: null
    kwargs: {version: "2.0", turns: 50, fast: true, ratio: 0.5, tools: [a, {b: null}], run: 'echo ${HOME}'}
    env: {PORT: 8080, MODE: "full"}
  - name: oracle
datasets:
  - name: terminal-bench@2.0
    task_names: ["git-*", hello]
    exclude_task_names: ["*-hard"]
    n_tasks: 10
    overwrite: true
  - {name: org/other, version: v1}
"""
LEAST: dict[str, Any] = {"agents": [{"name": "oracle"}], "datasets": [{"name": "quickstart"}]}


def with_key(part: str, key: str, value: Any) -> dict[str, Any]:
    """The least file with one more key in one of its parts."""
    data: dict[str, Any] = yaml.safe_load(yaml.safe_dump(LEAST))
    if part in ("agents", "datasets"):
        data[part][0][key] = value
    elif part:
        data[part] = {key: value}
    else:
        data[key] = value
    return data


def shown(part: str, key: str) -> str:
    if not part:
        return key
    return f"{part}[0].{key}" if part in ("agents", "datasets") else f"{part}.{key}"


def refused(text: str | dict[str, Any]) -> str:
    with pytest.raises(UsageError) as caught:
        parse_job(text if isinstance(text, str) else yaml.safe_dump(text))
    return caught.value.message


def test_whole_file_is_parsed() -> None:
    assert parse_job(WHOLE) == HarborJob(
        name="nightly",
        n_attempts=3,
        n_concurrent_trials=8,
        timeout_multiplier=1.5,
        max_retries=2,
        agents=[
            HarborAgent(
                name="claude-code",
                model_name="anthropic/claude-opus-4-1",
                timeout_seconds=600,
                kwargs={
                    "version": "2.0",
                    "turns": "50",
                    "fast": "true",
                    "ratio": "0.5",
                    "tools": '["a", {"b": null}]',
                    "run": "echo ${HOME}",
                },
                environment_variables={"PORT": "8080", "MODE": "full"},
            ),
            HarborAgent(name="oracle"),
        ],
        datasets=[
            HarborDataset(
                benchmark="terminal-bench",
                version="2.0",
                include=["git-*", "hello"],
                exclude=["*-hard"],
                n_tasks=10,
            ),
            HarborDataset(benchmark="org/other", version="v1"),
        ],
    )


def test_defaults_are_those_of_harbor() -> None:
    job = parse_job(yaml.safe_dump(LEAST))
    assert (job.name, job.n_attempts, job.n_concurrent_trials, job.timeout_multiplier) == (None, 1, 4, 1.0)
    assert job.max_retries is None
    assert parse_job('{"agents": [{"name": "nop"}], "datasets": [{"name": "q"}]}').agents[0].name == "nop"


def test_older_files_say_it_in_an_orchestrator() -> None:
    orchestrator = {"type": "local", "n_concurrent_trials": 2, "quiet": False, "retry": {"max_retries": 3}}
    job = parse_job(yaml.safe_dump({**LEAST, "orchestrator": orchestrator}))
    assert (job.n_concurrent_trials, job.max_retries) == (2, 3)
    job = parse_job(yaml.safe_dump({**LEAST, "orchestrator": orchestrator, "n_concurrent_trials": 5}))
    assert job.n_concurrent_trials == 5


REFUSED_KEYS = [(part, key) for part, keys in REFUSED.items() for key in keys]


def test_unsupported_keys_are_refused_by_name_with_a_remedy() -> None:
    told = {(part, key): refused(with_key(part, key, ["something"])) for part, key in REFUSED_KEYS}
    assert {
        (part, key): text
        for (part, key), text in told.items()
        if f": {shown(part, key)}: this is not run here; {REFUSED[part][key]}" not in text
        or "line " not in text
    } == {}


@pytest.mark.parametrize("value", [None, False, [], {}])
def test_empty_values_of_unsupported_keys_are_accepted(value: Any) -> None:
    for part, key in REFUSED_KEYS:
        if (part, key) not in TRUE_UNLESS_SAID:
            assert parse_job(yaml.safe_dump(with_key(part, key, value))).agents, (part, key)


def test_keys_without_effect_are_accepted() -> None:
    without = parse_job(yaml.safe_dump(LEAST))
    for part, keys in HARMLESS.items():
        for key in sorted(keys):
            assert parse_job(yaml.safe_dump(with_key(part, key, "anything"))) == without, (part, key)


@pytest.mark.parametrize(
    "part", ["", "agents", "datasets", "environment", "verifier", "retry", "orchestrator"]
)
def test_unknown_keys_are_refused_by_name(part: str) -> None:
    assert f": {shown(part, 'nonsense')}: unknown key `nonsense`" in refused(with_key(part, "nonsense", 1))


def test_a_slip_is_told_what_was_meant() -> None:
    assert "n_attempt: unknown key `n_attempt`; did you mean `n_attempts`?" in refused(
        {**LEAST, "n_attempt": 2}
    )


@pytest.mark.parametrize(
    ("part", "key", "value", "told"),
    [
        ("", "n_attempts", 0, "n_attempts"),
        ("", "n_attempts", True, "number"),
        ("", "n_attempts", "3", "number"),
        ("", "n_concurrent_trials", 0, "n_concurrent_trials"),
        ("", "n_concurrent_trials", 10**9, "n_concurrent_trials"),
        ("", "timeout_multiplier", -1, "timeout_multiplier"),
        ("", "timeout_multiplier", float("nan"), "timeout_multiplier"),
        ("", "agent_timeout_multiplier", 2, "one multiplier counts for every stage"),
        ("", "environment_build_timeout_multiplier", 3, "environment_build_timeout_multiplier"),
        ("", "job_name", "a\nb", "control characters"),
        ("", "job_name", 7, "put it in quotes"),
        ("", "agents", [], "agents"),
        ("", "datasets", [], "datasets"),
        ("", "agents", "oracle", "agents"),
        ("", "retry", "often", "retry"),
        ("retry", "max_retries", 21, "retry.max_retries"),
        ("environment", "type", "daytona", "environment.type: this is not run here"),
        ("environment", "delete", False, "environment.delete: this is not run here"),
        ("agents", "name", "acp:somebody", "agent register"),
        ("agents", "name", "", "agents[0].name"),
        ("agents", "override_timeout_sec", 0, "agents[0].override_timeout_sec"),
        ("agents", "env", {"KEY": "${MY_KEY}"}, "${MY_KEY} would be read"),
        ("agents", "env", {"KEY": "x-${A:-b}"}, "benchyard secret set"),
        ("agents", "env", {"NOT A NAME": "x"}, "agents[0].env"),
        ("agents", "env", {"KEY": True}, "put it in quotes"),
        ("agents", "env", {"KEY": "a\0b"}, "cannot be passed to a program"),
        ("agents", "env", {"KEY": "x" * 140_000}, "agents[0].env.KEY"),
        ("agents", "kwargs", {"day": datetime.date(2026, 1, 1)}, "put it in quotes"),
        ("agents", "kwargs", {"a": {1: 2}}, "put it in quotes"),
        ("agents", "kwargs", {1: 2}, "agents[0].kwargs"),
        ("datasets", "n_tasks", 0, "datasets[0].n_tasks"),
        ("datasets", "task_names", "all", "datasets[0].task_names"),
        ("datasets", "name", "@2.0", "no name before the @"),
        ("datasets", "name", None, "datasets[0].name"),
    ],
)
def test_values_that_are_none(part: str, key: str, value: Any, told: str) -> None:
    assert told in refused(with_key(part, key, value))


def test_a_version_is_said_once() -> None:
    data = with_key("datasets", "version", "1")
    data["datasets"][0]["name"] = "quickstart@2"
    assert "datasets[0].version: its version is said 2 times" in refused(data)


def test_all_that_is_wrong_is_told_at_once() -> None:
    data = {**with_key("agents", "import_path", "x:Y"), "metrics": [{"type": "sum"}], "n_attempts": -1}
    told = refused(data)
    assert all(each in told for each in ("agents[0].import_path", "metrics", "n_attempts"))
    many = {**LEAST, **{f"key{number}": 1 for number in range(50)}}
    assert "... and 40 more" in refused(many)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just text",
        "- a\n- b",
        "a: [",
        "a: 1\na: 2",
        "? {a: b}\n: c",
        "a: !!python/object/apply:os.system ['true']",
        "a: !!int ''",
        "a: !!bool maybe",
        "a: !!timestamp nonsense",
        "a: 0001-01-01 00:00:00+23:59",
        "a: 2026-13-45",
        "a: \ud800",
        "a: \x00",
        "%YAML 9.9\n---\na: b",
        "a: b\n---\nc: d",
        "a: " + "9" * 5000,
        "agents: [{name: a, kwargs: {x: 0x" + "f" * 5000 + "}}]\ndatasets: [{name: b}]",
        "a: &x [1]\nb: *x",
        "a: {<<: {b: c}}",
        "[" * 200 + "]" * 200,
        "{a: " * 5000,
        "#" * (MOST_BYTES + 1),
        "é" * (MOST_BYTES // 2 + 1),
    ],
)
def test_invalid_file_is_refused(text: str) -> None:
    assert refused(text)


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 10)}]" for each in range(1, 30)]
    assert "alias" in refused("\n".join(lines))


def test_the_page_names_every_key_that_is_taken() -> None:
    page = (ROOT / "docs/reference/harbor-jobs.md").read_text()
    taken = {key for keys in HARMLESS.values() for key in keys if key != "suppress_override_warnings"}
    taken |= {
        name for part in (*yaml.safe_load(WHOLE)["agents"][:1],) for name in part if name != "import_path"
    }
    taken |= set(yaml.safe_load(WHOLE)["datasets"][0]) | {"version", "ref", "orchestrator", "max_retries"}
    assert [key for key in sorted(taken) if key not in page] == []


KEYS = st.sampled_from(
    [
        "agents",
        "datasets",
        "name",
        "kwargs",
        "env",
        "retry",
        "environment",
        "orchestrator",
        "n_attempts",
        "type",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS | st.text(max_size=5) | st.integers(), inner, max_size=6)
    ),
    max_leaves=25,
)


def either(text: str) -> None:
    """A job or a refusal, and nothing else."""
    with contextlib.suppress(UsageError):
        assert isinstance(parse_job(text), HarborJob)


@given(st.text())
def test_no_text_makes_anything_else(text: str) -> None:
    either(text)


@given(TREES)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_yaml_makes_anything_else(tree: Any) -> None:
    either(yaml.safe_dump(tree))


@given(st.dictionaries(KEYS, TREES, max_size=4), st.sampled_from(["", "agents", "datasets", "retry"]))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_change_of_a_good_file_makes_anything_else(more: dict[str, Any], part: str) -> None:
    data = yaml.safe_load(WHOLE)
    place = data if not part else data[part][0] if isinstance(data[part], list) else data[part]
    place.update(more)
    either(yaml.safe_dump(data))


@given(st.integers(0, len(WHOLE)), st.integers(0, 40), st.text(max_size=10))
@settings(deadline=None)
def test_no_damage_to_a_good_file_makes_anything_else(at: int, cut: int, text: str) -> None:
    either(WHOLE[:at] + text + WHOLE[at + cut :])
