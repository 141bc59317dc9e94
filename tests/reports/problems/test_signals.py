"""Every signal finds the problem that was planted for it, at its step, and is quiet elsewhere."""

import json
from typing import Any

import pytest

from benchyard.registry import SIGNALS, load, names
from benchyard.reports.problems.digests import run_signals, signals
from benchyard.reports.problems.facts import TrialFacts
from benchyard.reports.problems.trajectories import turns_of
from benchyard.reports.trajectory_steps import iterate_steps
from tests.reports.problems.planted import (
    Planted,
    at,
    called,
    facts,
    model_call,
    peer,
    peers,
    ran,
    said,
    trajectory,
    wrote,
)

LOOP = [ran("ls"), ran("ls"), ran("ls")]
LONG = "a listing of forty characters or rather more"
FINE = facts(
    ran("ls src", "calc.py"),
    called("str_replace_editor", {"command": "str_replace", "path": "src/calc.py"}, "edited"),
    ran("pytest -q", "3 passed", 0),
    said("Everything is in place."),
    passed=True,
    score=1.0,
    n_changed=1,
    calls=(model_call(1, stop="stop"),),
    working_ms=100_000,
)
CALLS = [said("a", timestamp=at(1)), said("b", timestamp=at(5))]

PLANTED = [
    Planted("limit-reached", facts(ran("ls"), ended_by="timeout"), [2], "timeout"),
    Planted("limit-reached", facts(ran("ls"), failure_kind="budget"), [2], "budget"),
    Planted(
        "failed-stage",
        facts(ran("ls"), failure_kind="agent", stage="agent", failure="it crashed"),
        [2],
        "crashed",
    ),
    Planted(
        "repeated-call",
        facts(ran("pwd"), *LOOP),
        [3, 4, 5],
        "3 times: ls",
        facts(ran("ls"), ran("ls"), ran("pwd"), ran("ls")),
    ),
    Planted(
        "call-alternation",
        facts(ran("pwd"), ran("a"), ran("b"), ran("a"), ran("b")),
        [3, 4, 5, 6],
        "a and b",
        facts(ran("a"), ran("b"), ran("a"), ran("c")),
    ),
    Planted(
        "same-observation",
        facts(ran("a", LONG), ran("b", LONG), ran("c", LONG)),
        [2, 3, 4],
        "3 times",
        facts(*(ran(str(n), "ok") for n in range(5))),
    ),
    Planted(
        "repeated-sequence",
        facts(*(ran(command) for _ in range(5) for command in "abc")),
        list(range(5, 15)),
        "of 13 runs",
        facts(*(ran(str(n)) for n in range(15))),
    ),
    Planted("failed-command", facts(ran("ls"), ran("make", "no rule", 2)), [3], "exit status 2: make"),
    Planted("failed-command", facts(called("read", {"path": "x"}, "no", is_error=True)), [2], "error: read"),
    Planted("failed-command", facts(ran("false", "<returncode>1</returncode>")), [2], "exit status 1"),
    Planted("absent-program", facts(ran("rg x", "bash: line 1: rg: command not found", 127)), [2], "rg"),
    Planted(
        "absent-program",
        facts(ran("python a.py", "ModuleNotFoundError: No module named 'numpy'", 1)),
        [2],
        "numpy",
    ),
    Planted(
        "unknown-tool", facts(called("browse", {"url": "x"}, "Error: Unknown tool: browse")), [2], "browse"
    ),
    Planted(
        "invalid-arguments",
        facts(called("edit", {}, "InputValidationError: required parameter `path` is missing")),
        [2],
        "edit",
    ),
    Planted(
        "unapplied-edit",
        facts(called("edit", {"file_path": "a.py"}, "String to replace not found in file.")),
        [2],
        "a.py",
    ),
    Planted(
        "unapplied-edit",
        facts(ran("git apply fix.patch", "error: patch failed: a.py:1", 1)),
        [2],
        "patch failed",
    ),
    Planted("no-change", facts(ran("ls"), said("done"), n_changed=0), [3], "no file"),
    Planted(
        "only-test-changes",
        facts(wrote("tests/test_a.py"), n_changed=1),
        [2],
        "tests/test_a.py",
        facts(wrote("tests/test_a.py"), wrote("src/a.py")),
    ),
    Planted(
        "test-changes", facts(wrote("src/a.py"), ran("echo x > tests/test_a.py")), [3], "tests/test_a.py"
    ),
    Planted("test-changes", facts(wrote("pytest.ini")), [2], "pytest.ini"),
    Planted("suspect-changes", TrialFacts(suspicions=("scorers opened /etc/hosts",)), [], "/etc/hosts"),
    Planted(
        "untested-change",
        facts(ran("pytest"), wrote("a.py"), said("done")),
        [3],
        "a.py",
        facts(wrote("a.py"), ran("cargo test")),
    ),
    Planted(
        "last-test-failure",
        facts(ran("pytest", "1 failed, 2 passed", 1), said("done")),
        [2],
        "pytest",
        facts(ran("go test ./...", "FAIL", 1), ran("go test ./...", "ok", 0)),
    ),
    Planted("last-test-failure", facts(ran("npm test", "Tests: 2 failed, 1 passed")), [2], "npm test"),
    Planted(
        "early-end",
        peers(peer(1, n_actions=2), *(peer(n, n_actions=20 + n) for n in range(2, 6))),
        [],
        "2 calls",
    ),
    Planted("no-tool-call", facts(said("I would fix it like this.")), [2], "like this"),
    Planted("final-question", facts(ran("ls"), said("Which file do you mean?")), [3], "Which file"),
    Planted("final-question", facts(said("I'm sorry, I can't help with that.")), [2], "sorry"),
    Planted(
        "false-success",
        facts(ran("ls"), said("I have fixed the bug. All tests pass."), passed=False),
        [3],
        "fixed",
        facts(said("I was unable to fix it."), passed=False),
    ),
    Planted("false-failure", facts(said("I could not fix the bug."), passed=True), [2], "could not"),
    Planted(
        "full-context",
        facts(*CALLS, calls=(model_call(2, 400, 3, error="context_length_exceeded: too long"),)),
        [2],
        "context_length",
    ),
    Planted(
        "context-compaction",
        facts(said("a", metrics={"prompt_tokens": 90_000}), said("b", metrics={"prompt_tokens": 9_000})),
        [3],
        "90000 to 9000",
    ),
    Planted(
        "cut-answer",
        facts(*CALLS, calls=(model_call(1, 200, 1, stop="stop"), model_call(2, 200, 5, stop="length"))),
        [3],
        "length",
    ),
    Planted("model-refusal", facts(*CALLS, calls=(model_call(1, 200, 5, stop="refusal"),)), [3], "refusal"),
    Planted(
        "unparsed-call",
        facts(*CALLS, calls=(model_call(1, 200, 1, stop="MALFORMED_FUNCTION_CALL"),)),
        [2],
        "MALFORMED",
    ),
    Planted("empty-answer", facts(ran("ls"), said(" ")), [3]),
    Planted(
        "provider-error",
        facts(*CALLS, calls=(model_call(2, 429, 6, error="slow down"), model_call(3, 429, 7))),
        [3, 3],
        "429, 2 calls: slow down",
    ),
    Planted("provider-error", facts(*CALLS, calls=(model_call(2, 0, 6),)), [3], "no answer"),
    Planted(
        "provider-wait",
        facts(
            *CALLS,
            calls=(model_call(1, 200, 5, waited_ms=9_000),),
            rate_limited_ms=20_000,
            working_ms=100_000,
        ),
        [3],
        "20%",
    ),
    Planted("hung-command", facts(ran("sleep 999", "Command timed out after 120 s")), [2], "sleep 999"),
    Planted("hung-command", facts(ran("top", "", 124)), [2], "top"),
    Planted("unanswered-prompt", facts(ran("git log", "commit 1\n:...skipping\n(END)")), [2], "git log"),
    Planted("unanswered-prompt", facts(ran("apt install x", "Do you want to continue? [Y/n]")), [2], "apt"),
    Planted("killed-command", facts(ran("make -j99", "Killed", 137)), [2], "make"),
    Planted("killed-command", facts(ran("ls"), exit_status=137), [2], "itself"),
    Planted(
        "full-disk", facts(ran("cp a b", "cp: error writing 'b': No space left on device", 1)), [2], "cp a b"
    ),
    Planted(
        "denied-host",
        facts(
            ran("ls"),
            ran("curl https://pypi.org"),
            conditions=("the egress proxy refused pypi.org:443 twice while it worked",),
        ),
        [3],
        "pypi.org:443",
    ),
    Planted(
        "denied-host", facts(ran("curl x.test", "curl: (6) Could not resolve host: x.test", 6)), [2], "x.test"
    ),
    Planted(
        "failed-install", facts(ran("pip install numpy", "ERROR: No matching distribution", 1)), [2], "numpy"
    ),
    Planted("answer-search", facts(ran("ls"), ran("git log --all --oneline")), [3], "--all"),
    Planted("answer-search", facts(ran("curl https://github.com/a/b/pull/12.diff")), [2], "github"),
    Planted("answer-search", facts(ran("cat /tests/test_outputs.py")), [2], "/tests"),
    Planted(
        "novelty-loss",
        facts(
            *(ran(f"grep -rn word{n * 7919} src/part{n * 31}.c", str(n)) for n in range(6)),
            *(ran("make check " * 20) for _ in range(12)),
        ),
        [14, 19],
        "of the first",
        facts(*(ran(f"try {n}") for n in range(18))),
    ),
    Planted(
        "cost-outlier",
        peers(peer(1, cost_usd=9.0), *(peer(n, cost_usd=1.0 + n / 100) for n in range(2, 8))),
        [],
        "$9.0000",
    ),
    Planted(
        "time-outlier",
        peers(peer(1, working_ms=900_000), *(peer(n, working_ms=1000 * (10 + n)) for n in range(2, 8))),
        [],
        "900s",
    ),
    Planted(
        "unsolved-scenario", peers(*(peer(n, passed=False, score=0.0) for n in range(4))), [], "none of 4"
    ),
    Planted("solved-scenario", peers(*(peer(n, passed=True, score=1.0) for n in range(4))), [], "all 4"),
    Planted(
        "reversed-scenario",
        peers(*(peer(n, n, score=1 - n / 4) for n in range(4)), means={n: n / 4 for n in range(4)}),
        [],
        "tau -1.00",
    ),
    Planted(
        "scorer-error", TrialFacts(failure_kind="scorer", failure="scorer 'a': no score"), [], "no score"
    ),
]


def found(signal: str, known: TrialFacts) -> list[Any] | None:
    result = load(SIGNALS, signal)().find(known)
    return None if result is None else list(result)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: f"{each.signal}: {each.detail}")
def test_a_planted_problem_is_found_at_its_step(planted: Planted) -> None:
    findings = found(planted.signal, planted.facts)
    assert findings
    assert list(findings[0].steps) == planted.steps
    assert planted.detail in findings[0].detail
    if planted.clean is not None:
        assert found(planted.signal, planted.clean) == []


def test_every_signal_has_a_planted_problem_a_summary_and_help() -> None:
    assert {each.signal for each in PLANTED} == set(names(SIGNALS))
    assert all(len(each.summary) > 10 and len(each.helps) > 10 for each in signals().values())


def test_a_good_trial_has_none() -> None:
    own = {name: each for name, each in signals().items() if not each.needs_peers}
    findings, unknown = run_signals(own, FINE)
    assert (findings, unknown) == ([], ["context-compaction"])


def test_what_is_not_known_is_absent() -> None:
    """Without a trajectory, calls, a tamper report and a score, only what the records tell is told."""
    findings, unknown = run_signals(signals(), TrialFacts())
    known = set(signals()) - set(unknown)
    assert findings == []
    assert known == {"limit-reached", "failed-stage", "suspect-changes", "denied-host", "scorer-error"}


@pytest.mark.parametrize(
    "document",
    [
        {"schema_version": "ATIF-v1.0", "steps": []},
        {"steps": [{}, {"source": "agent"}, None, 7, {"source": "agent", "message": None, "tool_calls": {}}]},
        {"steps": [{"source": "agent", "tool_calls": [{}, {"arguments": "ls"}, {"arguments": [1]}, "x"]}]},
        {"steps": [{"source": "agent", "observation": {"results": [{"content": 5}, None]}, "metrics": 3}]},
        {"steps": [{"source": "agent", "message": [{"type": "text"}, {"text": "a"}], "timestamp": "never"}]},
    ],
)
def test_foreign_trajectories_with_missing_fields_are_read(document: dict[str, Any]) -> None:
    turns = turns_of(iterate_steps(json.dumps(document).encode()))
    run_signals(signals(), TrialFacts(turns=turns, calls=(), passed=False, score=0.0, n_changed=1))
    assert len(turns) <= len(document["steps"])


def test_everything_is_bounded() -> None:
    """A huge trajectory gives texts, findings and steps of a bounded size."""
    huge = trajectory(*(ran("x" * 50_000, "y" * 50_000 + "command not found: z", 1) for _ in range(300)))
    known = TrialFacts(turns=turns_of(iterate_steps(huge)), passed=False)
    assert all(len(each.arguments) <= 4000 and len(each.output or "") <= 4010 for each in known.actions or ())
    findings, _ = run_signals(signals(), known)
    assert {len(each.steps) for each in findings if each.signal == "repeated-call"} == {20}
    assert sum(each.signal == "failed-command" for each in findings) == 20
    assert max(len(each.detail) for each in findings) <= 200
