"""Validation as the command line shows it: progress, a table, and an exit status."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from benchyard.benchmarks.scenario_folder import Draft
from benchyard.cli.connect import connect_async
from benchyard.cli.environments import resolved
from benchyard.cli.options import name_values
from benchyard.cli.pushing import custom_scorer
from benchyard.cli.render import clean, print_table, show
from benchyard.client.client import AsyncClient, Client
from benchyard.client.validation import (
    BUILD_FAILED,
    TWICE,
    Attempt,
    Options,
    ScenarioValidation,
    Validator,
    temporary,
    temporary_name,
)
from benchyard.errors import UsageError
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import ScenarioRequest, ScenarioView

_REMIND_SECONDS = 20.0
INVALID = 1
"""The exit status where something is not valid."""


@dataclass(frozen=True)
class Wanted:
    """What is to be validated: a scenario of the server, or one that is made for it."""

    scenario: ScenarioView | ScenarioRequest


def validate_options(command: Any) -> Any:
    """The options that both nouns have."""
    for option in reversed(
        (
            click.option(
                "--env",
                "env",
                multiple=True,
                metavar="NAME=VALUE",
                help="A variable for every run; repeatable.",
            ),
            click.option(
                "--secret",
                "secrets",
                multiple=True,
                metavar="ENV=SECRET",
                help="A stored secret for every run; repeatable.",
            ),
            click.option(
                "--concurrency",
                type=click.IntRange(1, 100),
                default=4,
                show_default=True,
                help="So many runs at the same time.",
            ),
            click.option(
                "--timeout",
                type=click.FloatRange(min=0, min_open=True),
                default=3600.0,
                show_default=True,
                help="Seconds for one run.",
            ),
        )
    ):
        command = option(command)
    return command


def options_from(env: Sequence[str], secrets: Sequence[str], concurrency: int, timeout: float) -> Options:
    """How to validate, from the options."""
    profile = RunProfile(
        env_vars=name_values(env, "--env") or None, secrets=name_values(secrets, "--secret") or None
    )
    return Options(profile, concurrency, timeout)


def wanted_draft(client: Client, draft: Draft) -> Wanted:
    """The scenario of a folder, ready to be made for the time of its validation."""
    for type, script in draft.custom_scorers.items():
        known = custom_scorer(client, type)
        if known is None:
            client.scenarios.scorers.create(type, script)
        elif known.bash_script != script:
            raise UsageError(
                f"the custom scorer {type!r} is registered with another script than this folder has; "
                "push the folder first, or give the scorer another type"
            )
    request = resolved(client, draft)
    return Wanted(request.model_copy(update={"name": temporary_name(request.name)}))


def run(wanted: Sequence[Wanted], options: Options, output: str, *, record: bool = False) -> None:
    """Validate, show what came out, and end with 1 where something is not valid."""
    results = asyncio.run(_validated(wanted, options, record=record))
    is_valid = all(each.is_valid for each in results)
    if output == "text":
        _print(results)
    else:
        found = [each.model_dump(mode="json") for each in results]
        show({"is_valid": is_valid, "scenarios": found}, output, "")
    if not is_valid:
        raise click.exceptions.Exit(INVALID)


async def _validated(wanted: Sequence[Wanted], options: Options, *, record: bool) -> list[ScenarioValidation]:
    async with connect_async() as client, AsyncExitStack() as stack:
        scenarios = [await stack.enter_async_context(_there(client, each)) for each in wanted]
        with _Progress(len(scenarios) * 2 * TWICE) as progress:
            validator = Validator(client, options, progress.tell)
            reminding = asyncio.create_task(progress.remind())
            try:
                results = list(await asyncio.gather(*(validator.validate(each) for each in scenarios)))
            finally:
                reminding.cancel()
        if record:
            results = [await _recorded(client, each) for each in results]
        return results


async def _recorded(client: AsyncClient, result: ScenarioValidation) -> ScenarioValidation:
    """Have a scenario graded `live` that was found to need it."""
    if not result.needs_live:
        return result
    await client.scenarios.update(result.scenario_id, scoring_isolation="live")
    note = "it is graded `live` from now on"
    return result.model_copy(update={"notes": [*result.notes, note], "isolation": "live", "is_valid": True})


@asynccontextmanager
async def _there(client: AsyncClient, wanted: Wanted) -> AsyncIterator[ScenarioView]:
    if isinstance(wanted.scenario, ScenarioView):
        yield wanted.scenario
        return
    async with temporary(client, wanted.scenario) as made:
        yield made


class _Progress:
    """Says on stderr what was tried: line by line, under a count where that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._begin = self._told = time.monotonic()
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("validating") if sys.stderr.isatty() else None

    def __enter__(self) -> "_Progress":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def tell(self, name: str, attempt: Attempt) -> None:
        """Note an attempt."""
        self._done += 1
        self._told = time.monotonic()
        score = "no score" if attempt.score is None else f"{attempt.score:g}"
        click.echo(f"{clean(name)}: {attempt.kind}: {score} ({attempt.seconds:.1f} s)", err=True)
        if self._status:
            self._status.update(f"validating: {self._done} of about {self._total} runs")

    async def remind(self) -> None:
        """Say now and then that it goes on: images may be built and packages installed for minutes."""
        while True:
            await asyncio.sleep(_REMIND_SECONDS)
            if time.monotonic() - self._told >= _REMIND_SECONDS:
                took = time.monotonic() - self._begin
                done = f"{self._done} of about {self._total} runs after {took:.0f} s"
                click.echo(f"{done}; environments may have to be made ready first", err=True)


def _print(results: Sequence[ScenarioValidation]) -> None:
    titles = ["SCENARIO", "ISOLATION", "REFERENCE", "NOTHING", "CLEAN SUFFICES", "VALID"]
    print_table(titles, [_row(each) for each in results])
    for each in results:
        for problem in [] if each.is_unbuilt else each.problems:
            click.echo(f"{clean(each.name)}: {clean(problem)}")
        for note in each.notes:
            click.echo(f"{clean(each.name)}: note: {clean(note)}")
    for reason, names in _unbuilt(results).items():
        click.echo(f"{len(names)} cannot be built here: {', '.join(names)}: {reason}")
    good = sum(each.is_valid for each in results)
    click.echo(f"{good} of {len(results)} valid")


def _unbuilt(results: Sequence[ScenarioValidation]) -> dict[str, list[str]]:
    """Reason -> the scenarios whose environments cannot be built for it."""
    found: dict[str, list[str]] = {}
    for each in results:
        if each.is_unbuilt:
            reasons = [reason for attempt in each.attempts for reason in attempt.reasons]
            told = next((reason for reason in reasons if BUILD_FAILED in reason), "")
            # Which devbox and which build it was is another for each of them.
            why = told.partition(f"{BUILD_FAILED}: ")[2].partition("; see `benchyard blueprint logs")[0]
            found.setdefault(clean(why or told), []).append(clean(each.name))
    return found


def _row(result: ScenarioValidation) -> list[str]:
    suffices = {True: "yes", False: "no", None: "?"}[result.clean_suffices]
    scores = [_scores(result, kind) for kind in ("reference", "nothing")]
    return [
        clean(result.name),
        result.isolation,
        *scores,
        suffices,
        "yes" if result.is_valid else "not here" if result.is_unbuilt else "NO",
    ]


def _scores(result: ScenarioValidation, kind: str) -> str:
    found = [each.score for each in result.attempts if each.kind == kind]
    return ", ".join("-" if score is None else f"{score:g}" for score in found) or "not tried"
