"""Validation on the command line: progress, a table, and an exit status."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import click

from benchyard.cli.connection import connect_async
from benchyard.cli.options import FloatRange, IntRange, name_values
from benchyard.cli.progress import ActivityLine
from benchyard.cli.render import echo_sentence, print_table, show
from benchyard.client.plain_text import clean
from benchyard.client.validation import (
    BUILD_FAILED,
    TWICE,
    ScenarioValidation,
    ValidationAttempt,
    ValidationOptions,
    ValidationTarget,
    Validator,
    lasting_name,
    present_scenario,
    record_isolation,
)
from benchyard.models.runs import RunProfile

INVALID = 1
"""Exit status if a scenario is not valid."""


def validate_options(command: Any) -> Any:
    """Add the options that `scenario validate` and `benchmark validate` share."""
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


def options_from(
    env: Sequence[str], secrets: Sequence[str], concurrency: int, timeout: float
) -> ValidationOptions:
    """Return the settings of a validation, from the options."""
    profile = RunProfile(
        env_vars=name_values(env, "--env") or None, secrets=name_values(secrets, "--secret") or None
    )
    return ValidationOptions(profile, concurrency, timeout)


def run_validation(
    wanted: Sequence[ValidationTarget], options: ValidationOptions, output: str, *, record: bool | None = None
) -> None:
    """Validate, show the results, and exit with 1 if a scenario is not valid.

    Results are stored with scenarios of the server unless `record` is False; if it is True, a chosen
    isolation that does not work is changed, too.
    """
    results = asyncio.run(_validate(wanted, options, record=record))
    is_valid = all(each.is_valid for each in results)
    if output == "text":
        _print(results)
    else:
        found = [each.model_dump(mode="json") for each in results]
        show({"is_valid": is_valid, "scenarios": found}, output, "")
    if not is_valid:
        raise click.exceptions.Exit(INVALID)


async def _validate(
    wanted: Sequence[ValidationTarget], options: ValidationOptions, *, record: bool | None
) -> list[ScenarioValidation]:
    async with connect_async() as client, AsyncExitStack() as stack:
        scenarios = [await stack.enter_async_context(present_scenario(client, each)) for each in wanted]
        with _Progress(len(scenarios) * 2 * TWICE) as progress:
            validator = Validator(client, options, progress.tell)
            found = await asyncio.gather(*(validator.validate(each) for each in scenarios))
        results = [each.model_copy(update={"name": lasting_name(each.name)}) for each in found]
        if record is not False:
            results = [
                await record_isolation(client, each, result, changes_choice=record is True)
                for each, result in zip(wanted, results, strict=True)
            ]
        return results


class _Progress:
    """Reports attempts on stderr line by line, in a terminal above a count."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._activity = ActivityLine("validating; environments may have to be made ready first")

    def __enter__(self) -> "_Progress":
        self._activity.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._activity.__exit__(kind, error, trace)

    def tell(self, name: str, attempt: ValidationAttempt) -> None:
        """Report an attempt."""
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
    for reason, names in _unbuilt_reasons(results).items():
        _print_line(f"{len(names)} cannot be built here: {', '.join(names)}: {reason}")
    good = sum(each.is_valid for each in results)
    click.echo(f"{good} of {len(results)} valid")


def _unbuilt_reasons(results: Sequence[ScenarioValidation]) -> dict[str, list[str]]:
    """Return the scenarios whose environments cannot be built, by reason."""
    found: dict[str, list[str]] = {}
    for each in results:
        if each.is_unbuilt:
            reasons = [reason for attempt in each.attempts for reason in attempt.reasons]
            told = next((reason for reason in reasons if BUILD_FAILED in reason), "")
            # The names of devbox and build differ in each message.
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
