"""Every list of the command line at every width: nothing is broken, and pipes get everything."""

import secrets
from collections.abc import Iterator

import click
import pytest
from rich.cells import cell_len

from benchyard.cli.job.commands import COLUMNS, NARROW
from benchyard.cli.table import Table
from benchyard.client import Client, Server
from benchyard.models.devboxes import DevboxRequest
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine

LONG = "a-name-that-is-longer-than-most-of-its-kind-and-goes-on-for-a-while"
UNICODE = "größte Prüfung 検証の名前が長い場合 émigré"
LISTS = [
    ["agent", "list"],
    ["benchmark", "list"],
    ["benchmark", "list", "--public"],
    ["blueprint", "list"],
    ["devbox", "list"],
    ["gateway-config", "list"],
    ["image", "list"],
    ["job", "list", "--all"],
    ["key", "list"],
    ["network-policy", "list"],
    ["object", "list"],
    ["run", "list", "--all"],
    ["scenario", "list"],
    ["scenario", "list", "--public"],
    ["secret", "list"],
    ["snapshot", "list"],
]


@pytest.fixture(scope="module", autouse=True)
def things(fake_server: RunningServer) -> Iterator[None]:
    """Something in as many lists as a fake server has, with long names and names of wide letters."""
    with Client(Server(fake_server.url, fake_server.key)) as client:
        mark = secrets.token_hex(4)
        for name in (f"{LONG}-{mark}", f"{UNICODE} {mark}"):
            scenario = client.scenarios.create(
                name=name,
                input_context={"problem_statement": "none"},
                scoring_contract={
                    "scoring_function_parameters": [
                        {
                            "name": "all",
                            "weight": 1,
                            "scorer": {"type": "command_scorer", "command": "true"},
                        }
                    ]
                },
            )
            benchmark = client.benchmarks.create(name=name, scenario_ids=[scenario.id])
            client.benchmarks.start_run(benchmark_id=benchmark.id, run_name=name)
            client.network_policies.create(name=name, allowed_hostnames=["example.test", "other.test"])
        client.secrets.create(f"{LONG.upper().replace('-', '_')}_{mark}", "a value that is long enough")
        with client.devboxes.open(DevboxRequest(name=f"{UNICODE} {mark}")):
            yield


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_no_list_breaks_a_word(
    command: list[str], width: int, benchyard: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = benchyard.ok(*command)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = click.unstyle(benchyard.ok(*command))
    known = set(piped.split())
    broken = [word for word in shown.split() if word not in known and "…" not in word]
    # An age may have gone on by a second between the two.
    assert not [word for word in broken if not word[:-1].isdigit()], shown
    for line in shown.splitlines():
        longest = max(map(cell_len, line.split()), default=0)
        assert cell_len(line) <= max(width, longest + 24), line
    if piped:
        head, *rows = piped.splitlines()
        assert rows, "a list with a title has rows"
        assert head.isupper() or not head.strip(), head


def test_job_list_shows_agents_in_80_columns() -> None:
    cells = {
        "ID": "bmj_l2Yq4Psg0ud7Zj7DLTBZU",
        "NAME": "nightly-swe-bench-verified",
        "STATE": "completed",
        "AGENTS": "claude-code@2.1.325:claude-sonnet-4-5, codex",
        "TRIALS": "120/1000",
        "MEAN": "0.412, 0.377",
        "AGE": "3h",
    }
    made = Table(list(COLUMNS), [[cells[title] for title in COLUMNS]], NARROW)
    head, line = made.lines(80)
    assert (made.dropped, head.split()) == (["AGE", "ID"], ["NAME", "STATE", "AGENTS", "TRIALS", "MEAN"])
    assert "claude-c" in line
