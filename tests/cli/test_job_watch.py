"""`benchyard job watch` in front of a person: a real terminal, a real server that is restarted."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchyard.cli.job.board import JobBoard, tally, time_left
from benchyard.cli.render import duration
from benchyard.client import Client, Server
from benchyard.models.jobs import BenchmarkJobView, JobEvent
from benchyard.models.trials import TrialView
from benchyard.testing.server import RunningServer
from tests.cli.screen import Screen
from tests.cli.test_job import WAITS, running_trial
from tests.client.test_jobs import job, trial

ALTERNATE = b"\x1b[?1049h"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that nobody else needs, to be restarted."""
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture
def environment(server: RunningServer) -> dict[str, str]:
    """Of a person at a terminal."""
    return {"BENCHYARD_URL": server.url, "BENCHYARD_API_KEY": server.key}


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """A client of the server."""
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture
def waiting(client: Client) -> Iterator[str]:
    """The id of a job whose agent works until it is told to stop."""
    scenario = client.scenarios.list_public(name="quickstart/find-the-answer")[0]
    agent = {"name": "command", "kwargs": {"run": WAITS}}
    spec = {"type": "scenarios", "scenario_ids": [scenario.id], "agent_configs": [agent]}
    made = client.jobs.create({"name": "watched", "spec": spec})
    running_trial(client, made.id)
    yield made.id
    client.jobs.cancel(made.id)


def end_agent(client: Client, job_id: str) -> None:
    devbox_id = running_trial(client, job_id).devbox_id
    assert devbox_id is not None
    client.executions.run(devbox_id, "touch /tmp/go")


def test_a_screen_that_follows_resizes_and_restarts_to_the_end(
    server: RunningServer, client: Client, environment: dict[str, str], waiting: str
) -> None:
    with Screen(["job", "watch", waiting], environment) as screen:
        screen.resize(100, 30)
        assert ALTERNATE in screen.expect("watched")
        screen.expect("0/1")
        screen.expect("find-the-answer")
        screen.resize(40, 8)
        screen.expect("running       command  quickst…")
        server.restart()
        screen.expect("the server is away, trying again")
        screen.resize(120, 40)
        screen.expect("0/1  1 running")
        end_agent(client, waiting)
        screen.expect("state:")
        screen.expect("completed")
        screen.expect("MEAN (95 %)")
        assert screen.expect_end() == 0


def test_an_interrupt_leaves_the_job_running(
    client: Client, environment: dict[str, str], waiting: str
) -> None:
    with Screen(["job", "watch", waiting], environment) as screen:
        screen.expect("find-the-answer")
        screen.type("\x03")
        screen.expect(f"{waiting} goes on")
        screen.expect(f"benchyard job watch {waiting}")
        assert screen.expect_end() == 128 + signal.SIGINT
    assert client.jobs.get(waiting).state.value == "running"


def test_a_dumb_terminal_gets_a_line_for_each_change(
    client: Client, environment: dict[str, str], waiting: str
) -> None:
    with Screen(["job", "watch", waiting], {**environment, "TERM": "dumb"}) as screen:
        before = screen.expect("command  quickstart/find-the-answer  running")
        end_agent(client, waiting)
        before += screen.expect("command  quickstart/find-the-answer  not passed  0")
        screen.expect(f"job {waiting} is completed")
        assert b"\x1b" not in before
        assert screen.expect_end() == 0


def test_run_and_watch_on_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    arguments = ["job", "run", "--agent", "oracle", "--scenarios", "quickstart/find-the-answer", "--watch"]
    with Screen(arguments, {**environment, "XDG_CONFIG_HOME": str(tmp_path)}) as screen:
        screen.expect(ALTERNATE.decode())
        screen.expect("oracle")
        screen.expect("1 (100%)")
        assert screen.expect_end() == 0


def board(agents: int = 1, scenarios: int = 1) -> JobBoard:
    spec = {
        "agent_configs": [{"name": f"agent-{number}"} for number in range(agents)],
        "scenario_ids": [f"scn_{number}" for number in range(scenarios)],
    }
    return JobBoard(BenchmarkJobView.model_validate(job("running", job_spec=spec)))


def event(seq: int, **fields: Any) -> JobEvent:
    return JobEvent.model_validate(
        {"seq": seq, "time_ms": 1, "type": "trial", "trial": {**trial(), **fields}}
    )


@pytest.mark.parametrize(("width", "height"), [(20, 5), (80, 24), (200, 60), (1, 1)])
def test_a_board_fits_any_screen_and_shows_no_control_characters(width: int, height: int) -> None:
    full = board(agents=3, scenarios=500)
    for number in range(500):
        state = "running" if number % 2 else "completed"
        name = f"scenario {number} \x1b[31mred\x07"
        full.note(event(number, scenario_id=f"scn_{number}", scenario_name=name, state=state, score=0.5))
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    lines = console.render_lines(full, console.options.update(height=height))
    assert all(sum(segment.cell_length for segment in line) <= width for line in lines)
    assert len(lines) <= max(height, 3 + 4)
    text = "".join(segment.text for line in lines for segment in line)
    assert "\x1b[31m" not in text
    assert "\x07" not in text


def test_a_board_counts_places_and_knows_old_news() -> None:
    one = board(scenarios=3)
    assert one.note(event(1, state="running"))
    assert not one.note(event(2, state="running"))
    assert one.note(event(3, state="failed", failure={"exception_type": "X", "exception_message": "y"}))
    assert one.note(event(4, retry=1, state="running"))
    assert not one.note(event(5, retry=0, state="failed", is_superseded=True))
    assert one.note(event(6, retry=1, state="completed", score=1.0))
    console = Console(width=100, height=20, color_system=None)
    with console.capture() as captured:
        console.print(one)
    assert "1/3  mean 1.000, 1 passed, 2 waiting" in captured.get()
    line = one.line_of(event(6, retry=1, state="completed", score=1.0, ended_by="timeout"))
    assert line == "agent-0  one (try 2)  passed  1  ended by timeout"


def test_a_narrow_board_tells_agents_and_attempts_apart() -> None:
    names = ["claude-sonnet-4-5", "claude-opus-4-5"]
    agents = [{"name": "claude-code", "version": "2.1.325", "model_name": name} for name in names]
    spec = {"agent_configs": agents, "scenario_ids": ["scn_1"], "orchestrator_config": {"n_attempts": 3}}
    one = JobBoard(BenchmarkJobView.model_validate(job("running", job_spec=spec)))
    scenario = "quickstart/extract-a-function"
    for agent in (0, 1):
        for attempt in (1, 2):
            state = "completed" if attempt == 1 else "running"
            fields = {"agent": agent, "attempt": attempt, "state": state, "score": 1.0}
            one.note(event(2 * agent + attempt, scenario_name=scenario, **fields))
    lines = drawn(one, width=80).splitlines()
    for model in ("sonnet-4-5", "opus-4-5"):
        own = [line for line in lines if model in line]
        assert len(own) == 3, lines
        assert "1/3  mean 1.000, 1 passed, 1 running" in own[0]
        assert any(f"{scenario} #2" in line for line in own), own
    assert max(map(len, lines)) <= 80


def test_a_board_marks_what_is_suspect() -> None:
    one = board(scenarios=3)
    forged = event(1, state="completed", score=1.0, suspicions=["scorers opened /bin/sh", "more"])
    assert one.note(forged)
    assert one.line_of(forged) == "agent-0  one  passed  1  suspect: scorers opened /bin/sh"
    console = Console(width=100, height=20, color_system=None)
    with console.capture() as captured:
        console.print(one)
    assert "1/3  mean 1.000, 1 passed, 1 suspect, 2 waiting" in captured.get()
    assert forged.trial is not None
    assert tally([forged.trial], 3, "zero") == "mean 0.000, 1 not passed, 1 suspect, 2 waiting"


def test_a_board_uses_the_words_of_the_summary() -> None:
    one = board(scenarios=5)
    said = {"exception_type": "AgentError", "exception_message": "the agent ended with exit status 3"}
    crashed = event(1, state="failed", failure={**said, "kind": "agent"})
    cut = event(2, scenario_id="scn_2", state="canceled", failure={**said, "kind": "infrastructure"})
    lower = event(3, scenario_id="scn_3", state="completed", score=0.5)
    for each in (crashed, cut, lower):
        assert one.note(each)
    assert one.line_of(crashed) == "agent-0  one  crashed  the agent ended with exit status 3"
    told = "agent-0  one  unscored  infrastructure: the agent ended with exit status 3"
    assert one.line_of(cut) == told
    assert one.line_of(lower) == "agent-0  one  not passed  0.5"
    assert "3/5  mean 0.250, 1 not passed, 1 crashed, 1 unscored, 2 waiting" in drawn(one)


def drawn(one: JobBoard, width: int = 120) -> str:
    console = Console(width=width, height=20, color_system=None)
    with console.capture() as captured:
        console.print(one)
    return captured.get()


def test_a_board_shows_installs_builds_and_what_was_used() -> None:
    one = board(scenarios=3)
    now = int(time.time() * 1000)
    install = {"name": "opencode@1.18.33", "source": "npm", "start_time_ms": now - 37 * 60_000}
    begun = {"seq": 1, "time_ms": now, "type": "job", "preparation": install}
    told = JobEvent.model_validate(begun)
    assert one.note(told)
    assert one.line_of(told) == "installing opencode@1.18.33 from npm"
    assert re.search(r"37m\d\ds  installing opencode@1.18.33 from npm", drawn(one))
    assert re.fullmatch(r"installing opencode@1.18.33 from npm, 37m\d\ds so far", one.present())
    over = JobEvent.model_validate({**begun, "preparation": {**install, "end_time_ms": now}})
    one.note(over)
    assert one.line_of(over) == "installed opencode@1.18.33 from npm in 37m00s"
    assert "installing" not in drawn(one)
    building = event(2, state="provisioning", activity="building env from python:3.12")
    assert one.note(building)
    assert one.line_of(building) == "agent-0  one  provisioning  building env from python:3.12"
    assert "building env from python:3.12" in drawn(one)
    assert one.note(event(3, state="provisioning"))
    usage = {"input_tokens": 1000.0, "cached_tokens": 900.0, "output_tokens": 234.0, "cost_usd": 0.25}
    one.note(event(4, id="trl_1", retry=0, state="failed", usage=usage, is_superseded=True))
    one.note(event(5, id="trl_2", retry=1, state="completed", score=1.0, usage=usage))
    assert "1 of 3 trials  2,468 tokens  $0.5000" in drawn(one)
    one.note(event(6, id="trl_3", scenario_id="scn_2", state="completed", usage={"input_tokens": 1.0}))
    assert "$" not in drawn(one), "a sum without what is not known would be taken for the whole"


def test_the_clock_of_a_board_never_goes_back() -> None:
    now = int(time.time() * 1000)
    one = board()
    one.refresh(one.view.model_copy(update={"create_time_ms": now - 37 * 60_000}))
    assert re.search(r"  37m\d\ds  ", drawn(one))
    one.refresh(one.view.model_copy(update={"start_time_ms": now, "create_time_ms": now}))
    assert re.search(r"  37m\d\ds  ", drawn(one))


def test_time_left_is_judged_by_what_has_ended_and_by_nothing_else() -> None:
    view = board(agents=2, scenarios=4).view

    def some(agent: int, scenario: int, state: str, start: int, end: int | None = None) -> TrialView:
        place = {"agent": agent, "scenario_id": f"scn_{scenario}", "state": state}
        return TrialView.model_validate({**trial(), **place, "start_time_ms": start, "end_time_ms": end})

    first = [some(0, 0, "completed", 1, 10_001), some(0, 1, "running", 10_001)]
    assert time_left(view, first, 12_001) is None, "of the second agent nothing is known"
    both = [*first, some(1, 0, "completed", 1, 20_001), some(1, 1, "running", 10_001)]
    # 8 s and two times 10 s of the one, 18 s and two times 20 s of the other, two at the same time.
    assert time_left(view, both, 12_001) == (8000 + 20_000 + 18_000 + 40_000) / 2
    assert time_left(view, both[:1] + both[2:3], 12_001) is None, "nothing runs"
    ended = [some(agent, at, "completed", 1, 10_001) for agent in (0, 1) for at in range(4)]
    assert time_left(view, ended, 12_001) is None


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, ""),
        (0, "0.0s"),
        (9_900, "9.9s"),
        (9_990, "10s"),
        (59_999, "59s"),
        (60_000, "1m00s"),
        (3_660_000, "1h01m"),
    ],
)
def test_durations_are_short(milliseconds: int | None, text: str) -> None:
    assert duration(milliseconds) == text
