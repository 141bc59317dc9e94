"""Validation as the command line shows it: progress, a table, and an exit status."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from benchyard.benchmarks.scenario_file import NAME
from benchyard.benchmarks.scenario_folder import Draft
from benchyard.cli.connect import connect_async
from benchyard.cli.environments import resolved
from benchyard.cli.options import FloatRange, IntRange, name_values
from benchyard.cli.progress import Activity
from benchyard.cli.pushing import custom_scorer
from benchyard.cli.render import clean, echo_sentence, print_table, show
from benchyard.client.client import AsyncClient, Client
from benchyard.client.validation import (
    BUILD_FAILED,
    TWICE,
    Attempt,
    Options,
    ScenarioValidation,
    Validator,
    lasting_name,
    temporary,
    temporary_name,
)
from benchyard.errors import UsageError
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import ScenarioRequest, ScenarioView, ValidatedIsolation

_FOUND = "validated_isolation"
INVALID = 1
"""The exit status where something is not valid."""


@dataclass(frozen=True)
class Wanted:
    """What is to be validated: a scenario of the server, or one that is made for it."""

    scenario: ScenarioView | ScenarioRequest
    file: Path | None = None
    """Where it is written, if that is a folder's."""


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
                type=IntRange(1, 100),
                default=4,
                show_default=True,
                help="How many runs go on at the same time.",
            ),
            click.option(
                "--timeout",
                type=FloatRange(min=0, min_open=True),
                default=3600.0,
                show_default=True,
                help="Seconds that one run may take.",
            ),
            click.option(
                "--record/--no-record",
                default=None,
                help="Whether to store with each scenario the isolation that was found. --record "
                "also changes to `live` a scenario that asks for another and passes only there. "
                "[default: store, but change no isolation that was asked for]",
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
    named = request.model_copy(update={"name": temporary_name(request.name)})
    return Wanted(named, draft.folder.path / NAME)


def run(wanted: Sequence[Wanted], options: Options, output: str, *, record: bool | None = None) -> None:
    """Validate, show what came out, and end with 1 where something is not valid.

    What was found out is stored with scenarios of the server unless `record` is False; where it is True, an
    isolation that was chosen, and does not do, is changed too.
    """
    results = asyncio.run(_validated(wanted, options, record=record))
    is_valid = all(each.is_valid for each in results)
    if output == "text":
        _print(results)
    else:
        found = [each.model_dump(mode="json") for each in results]
        show({"is_valid": is_valid, "scenarios": found}, output, "")
    if not is_valid:
        raise click.exceptions.Exit(INVALID)


async def _validated(
    wanted: Sequence[Wanted], options: Options, *, record: bool | None
) -> list[ScenarioValidation]:
    async with connect_async() as client, AsyncExitStack() as stack:
        scenarios = [await stack.enter_async_context(_there(client, each)) for each in wanted]
        with _Progress(len(scenarios) * 2 * TWICE) as progress:
            validator = Validator(client, options, progress.tell)
            found = await asyncio.gather(*(validator.validate(each) for each in scenarios))
        results = [each.model_copy(update={"name": lasting_name(each.name)}) for each in found]
        if record is not False:
            results = [
                await _recorded(client, each, result, changes_choice=record is True)
                for each, result in zip(wanted, results, strict=True)
            ]
        return results


async def _recorded(
    client: AsyncClient, wanted: Wanted, result: ScenarioValidation, *, changes_choice: bool
) -> ScenarioValidation:
    """Store with a scenario, or in its file, how it can be graded; what was stored is a note."""
    found, scenario = result.validated, wanted.scenario
    changes: dict[str, Any] = {}
    if found is None or (isinstance(scenario, ScenarioView) and scenario.is_public):
        return result
    if scenario.validated_isolation == found or found.isolation == scenario.scoring_isolation:
        return result
    if isinstance(scenario, ScenarioRequest):
        if result.is_chosen or wanted.file is None:
            return result
        note = write_found(wanted.file, found)
    elif not result.needs_live:
        await client.scenarios.update(result.scenario_id, validated_isolation=found)
        note = f"it is graded `{found.isolation}` from now on"
        if result.is_chosen:
            note = f"a score that is not reached in `{found.isolation}` too is suspect from now on"
    elif changes_choice:
        await client.scenarios.update(result.scenario_id, scoring_isolation="live")
        note = "it is graded `live` from now on"
        changes = {"isolation": "live", "is_valid": True}
    else:
        return result
    return result.model_copy(update={**changes, "notes": [*result.notes, note]})


def write_found(file: Path, found: ValidatedIsolation) -> str:
    """Write into the file of a scenario what validation found; returns what became of it."""
    told = json.dumps(found.model_dump(exclude_defaults=True))
    line = f"{_FOUND}: {told}\n"
    try:
        text = file.read_text()
        # In one line, as it is written here: what somebody wrote by hand otherwise is left to them.
        written, count = re.subn(rf"^{_FOUND}: *{{.*\n", lambda _: line, text, flags=re.MULTILINE)
        if not count and re.search(rf"^{_FOUND}:", text, flags=re.MULTILINE):
            return f"write into {file}: {line.strip()}"
        if not count:
            written = f"{text.rstrip()}\n{line}"
        file.write_text(written)
    except OSError as error:
        return f"{file} could not be changed ({error.strerror}); write into it: {line.strip()}"
    return f"`{found.isolation}` was written into {file}: push it to be graded so"


@asynccontextmanager
async def _there(client: AsyncClient, wanted: Wanted) -> AsyncIterator[ScenarioView]:
    if isinstance(wanted.scenario, ScenarioView):
        yield wanted.scenario
        return
    async with temporary(client, wanted.scenario) as made:
        yield made


class _Progress:
    """Says on stderr what was tried: line by line, above a count where that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._activity = Activity("validating; environments may have to be made ready first")

    def __enter__(self) -> "_Progress":
        self._activity.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._activity.__exit__(kind, error, trace)

    def tell(self, name: str, attempt: Attempt) -> None:
        """Note an attempt."""
        self._done += 1
        score = "no score" if attempt.score is None else f"{attempt.score:g}"
        kind = f"{attempt.kind} in {attempt.isolation}"
        self._activity.text = f"validating: {self._done} of about {self._total} runs"
        self._activity.say(f"{clean(lasting_name(name))}: {kind}: {score} ({attempt.seconds:.1f} s)")


def _print_line(text: str) -> None:
    echo_sentence(text)


def _print(results: Sequence[ScenarioValidation]) -> None:
    titles = ["SCENARIO", "ISOLATION", "WHY", "REFERENCE", "NOTHING", "STRICTEST", "VALID"]
    print_table(titles, [_row(each) for each in results])
    for each in results:
        for problem in [] if each.is_unbuilt else each.problems:
            _print_line(f"{clean(each.name)}: {clean(problem)}")
        for isolation, why in each.failed.items() if each.is_valid and not each.is_chosen else ():
            _print_line(f"{clean(each.name)}: not `{isolation}`: {clean(why)}")
        for note in each.notes:
            _print_line(f"{clean(each.name)}: note: {clean(note)}")
    for reason, names in _unbuilt(results).items():
        _print_line(f"{len(names)} cannot be built here: {', '.join(names)}: {reason}")
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
    scores = [_scores(result, kind) for kind in ("reference", "nothing")]
    return [
        clean(result.name),
        result.isolation,
        "chosen" if result.is_chosen else "found" if result.strictest else "default",
        *scores,
        result.strictest or "-",
        "yes" if result.is_valid else "not here" if result.is_unbuilt else "NO",
    ]


def _scores(result: ScenarioValidation, kind: str) -> str:
    found = [
        each.score for each in result.attempts if (each.kind, each.isolation) == (kind, result.isolation)
    ]
    return ", ".join("-" if score is None else f"{score:g}" for score in found) or "not tried"
