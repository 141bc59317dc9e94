"""Which tests `make unit` has, and which `make test` leaves to `make test-all`.

`make unit` has the tests that only compute: they start no process, need no root, and take milliseconds. What
a test needs is told by its file and its fixtures; conftest.py fails one that starts a process all the same.

`make test` leaves out what repeats what others show, at a cost.
The official client is tried whole as the blocking one, and as the asynchronous one where the two differ:
streams, long polls, pages, errors, context managers. The drivers' contract is tried whole with the native
driver's default mode, and in part with the others. Of real agents, languages and kills `make test` has some
of each kind; `make agents`, `make parity`, `make contracts` and `make faults` have all.
"""

import re
from functools import cache
from pathlib import Path

import pytest

NEEDS_FIXTURES = frozenset(
    {"server", "fake_server", "podman", "postgres_url", "postgres_database", "database_url", "on_host"}
)
"""Fixtures with processes of their own."""
NEEDS_WORDS = re.compile(
    r"RunningServer|AgentYard|HostYard|LocalTrees|(hosts|engine|testing)\.yard|open_services|podman|contract\("
    r"|\bWorkers\(|subprocess|Popen|testing\.contracts|[Bb]uildah"
)
"""What stands in files of tests that start processes, or where others do it for them."""
NEEDS_FOLDERS = ("contracts", "docs", "e2e", "faults", "house", "integrity", "sdk", "typescript", "workers")
"""Folders under `tests` that are about more than a computation."""
NEEDS_MORE = re.compile(
    r"tests/("
    r"devboxes/(test_(cgroups|fake|local_trees)|layers/test_merge)\.py"
    r"|engine/(network/test_gateway_access|runs/test_results)\.py"
    r"|hosts/test_build_cgroups\.py"
    r"|images/test_debian\.py"
    r"|scorers/test_(context|reports|swebench_grading|types)\.py"
    r"|scorers/kits/test_pythons\.py"
    r"|scorers/graders/.*::test_it_is_a_program_too"
    r")"
)
"""Tests whose helpers start processes or need root."""

ASYNC_FILES = frozenset(
    f"tests/sdk/test_{name}.py"
    for name in ("account", "devboxes", "errors", "executions", "objects", "output", "pty", "restart")
)
"""Tests of the official client that are worth a second client."""
DRIVERS_FILE = "tests/contracts/test_drivers.py"
WHOLE_DRIVER = "native-root-idmap"
CORE_CONTRACTS = frozenset({"DevboxContract", "KillContract", "RoomContract", "TracingContract"})
"""What is tried of every driver and mode."""
CONTAINER_CONTRACTS = frozenset({"DevboxContract"})
"""What is tried with containers, each of which takes seconds."""
SLOW_CONTAINERS = frozenset({"test_fifty_at_once", "test_a_cancelled_start_leaves_nothing_behind"})
"""Of that, what takes long and shows the engine's speed more than ours."""

OTHER_MODES = re.compile(
    r"tests/contracts/(test_kills\.py::.*\[(process-(version \d|signals)|native-signals)\]"
    r"|test_containment\.py::.*\[native-root\]"
    r"|test_escape_container\.py::)"
)
"""Modes and drivers beside those that are tried in full."""
OTHER_AGENTS = re.compile(
    r"tests/e2e/("
    r"test_agents\.py::.*\[(codex-gpt-5\.6|opencode|goose|gemini-cli|mini-swe-agent)"
    r"|test_independent_model\.py::.*\[goose"
    r"|test_refusals\.py::.*\[.*-(goose|codex)"
    r"|test_rounds\.py::test_agent_that_cannot_continue)"
)
"""Real agents beside claude-code and codex: fetching and starting one takes up to two minutes. Each budget is
used up by one of them."""
OTHER_KILLS = re.compile(
    r"tests/faults/("
    r"test_agents\.py::.*\[gateway( and server)?\]"
    r"|test_agent_ends\.py::.*(\[devbox\]|budget)"
    r"|test_jobs_clock\.py::.*\[days0\]"
    r"|test_taken\.py::.*\[(_is_noted|_has_ended)\]"
    r"|test_starts\.py::.*(sockets_that_are_removed|stands_still)"
    r"|test_kills\.py::.*\[2\])"
)
"""Kills at moments beside one of each kind."""
COSTLY = re.compile(
    r"tests/("
    r"benchmarks/test_swe_bench_verified\.py::test_an_(export_of_it_says_the_same|environment_with_stand_ins)"
    r"|benchmarks/test_bigcodebench\.py::test_real_items"
    r"|scorers/test_polyglot\.py::Test(Go|Java|Javascript)Answers::"
    r"|e2e/test_problems\.py::test_a_looping_agent"
    r"|api/test_causes\.py::test_an_answer_that_makes_a_scorer_fail_counts_0"
    r"\[(bash|command|harbor|tests): a loop"
    r")"
)
"""Single tests that build or install for a minute what a shorter test beside them shows in small."""


def is_unit(item: pytest.Function) -> bool:
    """Whether the test starts no process and needs no root."""
    if item.nodeid.split("/")[1] in NEEDS_FOLDERS or NEEDS_MORE.match(item.nodeid):
        return False
    return not NEEDS_FIXTURES & set(item.fixturenames) and not _needs_processes(item.path)


@cache
def _needs_processes(file: Path) -> bool:
    return NEEDS_WORDS.search(file.read_text()) is not None


def is_left_out(item: pytest.Function) -> bool:
    """Whether the test is one of those that repeat what others show."""
    path = item.nodeid.partition("::")[0]
    case = item.callspec.id if hasattr(item, "callspec") else ""
    if path.startswith("tests/sdk/"):
        return "async" in case.split("-") and path not in ASYNC_FILES
    if path == DRIVERS_FILE:
        return _is_left_out_of_drivers(item, case)
    return any(each.match(item.nodeid) for each in (OTHER_MODES, OTHER_AGENTS, OTHER_KILLS, COSTLY))


def _is_left_out_of_drivers(item: pytest.Function, case: str) -> bool:
    assert item.cls is not None
    contract = next(each.__name__ for each in item.cls.__mro__ if item.originalname in vars(each))
    if case.startswith("container"):
        return contract not in CONTAINER_CONTRACTS or item.originalname in SLOW_CONTAINERS
    return not case.startswith(WHOLE_DRIVER) and contract not in CORE_CONTRACTS
