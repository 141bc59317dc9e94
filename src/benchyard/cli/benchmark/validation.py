"""Validation on the command line: options, a table, and an exit status."""

from collections.abc import Sequence
from typing import Any

import click

from benchyard.cli.benchmark.progress import TERMINAL
from benchyard.cli.options import FloatRange, IntRange, name_values
from benchyard.cli.render import echo_sentence, print_table, show
from benchyard.client.benchmark_files.results import ScenarioValidation
from benchyard.client.plain_text import clean
from benchyard.client.validation import BUILD_FAILED

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


def validation_options(
    env: Sequence[str], secrets: Sequence[str], concurrency: int, timeout: float, record: bool | None
) -> dict[str, Any]:
    """Return the parameters of a validation, from the options."""
    return {
        "env_vars": name_values(env, "--env"),
        "secrets": name_values(secrets, "--secret"),
        "concurrency": concurrency,
        "timeout": timeout,
        "record": record,
        "progress": TERMINAL,
    }


def show_validation(results: Sequence[ScenarioValidation], output: str) -> None:
    """Show the results, and exit with 1 if a scenario is not valid."""
    is_valid = all(result.is_valid for result in results)
    if output == "text":
        _print(results)
    else:
        found = [result.model_dump(mode="json") for result in results]
        show({"is_valid": is_valid, "scenarios": found}, output, "")
    if not is_valid:
        raise click.exceptions.Exit(INVALID)


def _print_line(text: str) -> None:
    echo_sentence(text)


def _print(results: Sequence[ScenarioValidation]) -> None:
    titles = ["SCENARIO", "ISOLATION", "WHY", "REFERENCE", "NOTHING", "STRICTEST", "VALID"]
    print_table(titles, [_row(result) for result in results])
    for result in results:
        for problem in [] if result.is_unbuilt else result.problems:
            _print_line(f"{clean(result.name)}: {clean(problem)}")
        for isolation, why in result.failed.items() if result.is_valid and not result.is_chosen else ():
            _print_line(f"{clean(result.name)}: not `{isolation}`: {clean(why)}")
        for note in result.notes:
            _print_line(f"{clean(result.name)}: note: {clean(note)}")
    for reason, names in _unbuilt_reasons(results).items():
        _print_line(f"{len(names)} cannot be built here: {', '.join(names)}: {reason}")
    good = sum(result.is_valid for result in results)
    click.echo(f"{good} of {len(results)} valid")


def _unbuilt_reasons(results: Sequence[ScenarioValidation]) -> dict[str, list[str]]:
    """Return the scenarios whose environments cannot be built, by reason."""
    found: dict[str, list[str]] = {}
    for result in results:
        if result.is_unbuilt:
            reasons = [reason for attempt in result.attempts for reason in attempt.reasons]
            told = next((reason for reason in reasons if BUILD_FAILED in reason), "")
            # The names of devbox and build differ in each message.
            why = told.partition(f"{BUILD_FAILED}: ")[2].partition("; see `benchyard blueprint logs")[0]
            found.setdefault(clean(why or told), []).append(clean(result.name))
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
        attempt.score
        for attempt in result.attempts
        if (attempt.kind, attempt.isolation) == (kind, result.isolation)
    ]
    return ", ".join("-" if score is None else f"{score:g}" for score in found) or "not tried"
