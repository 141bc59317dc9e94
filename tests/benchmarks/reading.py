"""The scenarios of a public benchmark, read from data, and what is the same for all question sets."""

from pathlib import Path
from typing import Any

from benchyard.benchmarks import catalog as benchmarks
from benchyard.benchmarks.base import ITEM_KEY, PUBLIC_KEY, BrokenItem, ImportOptions
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.models.scenarios import ScenarioRequest
from benchyard.scorers import catalog as scorers
from benchyard.scorers.base import ScoringContext

WORK = Path(__file__).parent
"""A folder that is there; nothing is written to it."""


def drafts(name: str, data: Path, **options: Any) -> list[ScenarioRequest]:
    """The scenarios of data in which nothing is broken, each checked."""
    read = list(benchmarks.load(name).scenarios(data, ImportOptions(WORK, **options)))
    requests = [each.request for each in read if isinstance(each, ScenarioDraft)]
    assert [each for each in read if isinstance(each, BrokenItem)] == []
    for request in requests:
        check(name, request)
    assert len({request.name for request in requests}) == len(requests)
    return requests


def read_all(name: str, data: Path, **options: Any) -> tuple[list[str], list[BrokenItem]]:
    """The names of the scenarios, and what is broken."""
    read = list(benchmarks.load(name).scenarios(data, ImportOptions(WORK, **options)))
    found = [each.request.name for each in read if isinstance(each, ScenarioDraft)]
    return found, [each for each in read if isinstance(each, BrokenItem)]


def check(name: str, request: ScenarioRequest) -> None:
    """A light devbox, one answer file that the prompt names, and an answer that its own scorer takes."""
    metadata = request.metadata or {}
    assert request.name == f"{metadata[PUBLIC_KEY]}/{metadata[ITEM_KEY]}"
    assert metadata[PUBLIC_KEY] == name
    assert request.validation_type == "EVALUATION"
    assert request.scoring_isolation == "answer"
    environment = request.environment_parameters
    assert environment is not None
    assert (environment.blueprint_id, environment.snapshot_id) == (None, None)
    (path,) = request.answer_paths or []
    assert f"`{environment.working_directory}/{path}`" in request.input_context.problem_statement
    (function,) = request.scoring_contract.scoring_function_parameters
    scorer = scorers.parse(function.scorer["type"], function.scorer, ScoringContext())
    grader = scorer.config.grader
    assert scorer.config.path == path
    right = grader.grade(request.reference_output or "", scorer.config.expected)
    assert set(right.values()) == {1.0}
    assert set(grader.grade("", scorer.config.expected).values()) == {0.0}
    # The prompt itself, handed in as the answer, earns nothing.
    assert grader.grade(request.input_context.problem_statement, scorer.config.expected)[grader.MAIN] < 1


def expected(request: ScenarioRequest) -> Any:
    """What the scorer of a scenario expects."""
    return request.scoring_contract.scoring_function_parameters[0].scorer["expected"]
