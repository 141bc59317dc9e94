"""Validation: shows that a scenario can be solved, that doing nothing does not solve it, and that it is fair.

The reference output must score 1.0, doing nothing the declared `nop_score`, and each twice the same. The
isolations are tried in turn to find the strictest in which this holds. All requests use the public API, so
that any server can be asked; see docs/adr/0018 and 0030.
"""

import asyncio
import contextlib
import hashlib
import json
import random
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchyard.benchmarks.files import benchmark_file
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft, read_scenario
from benchyard.benchmarks.files.scenario_file import NAME
from benchyard.client.benchmark_files.environments import resolve_draft
from benchyard.client.benchmark_files.folders import scenario_id_of
from benchyard.client.benchmark_files.progress import SILENT, OnAttempt, PushProgress, ignore_attempt
from benchyard.client.benchmark_files.results import Kind, ScenarioValidation, ValidationAttempt
from benchyard.client.lookup import check_path_exists, find_benchmark, find_custom_scorer, find_scenario
from benchyard.client.nouns import AsyncNouns, SyncNouns
from benchyard.client.operations import Request, fetch
from benchyard.client.sessions import AsyncSession
from benchyard.errors import BenchyardError, UsageError
from benchyard.models.runs import REFERENCE_KEY, ContractResult, RunProfile, ScenarioRunView
from benchyard.models.scenarios import (
    STRICTEST_FIRST,
    Isolation,
    ScenarioRequest,
    ScenarioView,
    ValidatedIsolation,
    of_round,
)
from benchyard.models.scoring import references

TWICE = 2
_CLOSE = 1e-9
_TEMPORARY = "validation of "
_SHOWN = 300
_FILE = "/tmp/.benchyard-reference"  # noqa: S108 (a file of the devbox, which nobody else is in)

BUILD_FAILED = "the environment could not be built"
"""Beginning of the server's message about a failed build."""


@dataclass(frozen=True)
class ValidationOptions:
    """Settings of a validation."""

    profile: RunProfile = field(default_factory=RunProfile)
    concurrency: int = 4
    seconds: float = 3600.0
    """Time limit of one attempt."""


class Validator:
    """Validates scenarios, with a limit on simultaneous attempts."""

    def __init__(
        self, client: AsyncNouns, options: ValidationOptions | None = None, told: OnAttempt = ignore_attempt
    ) -> None:
        self._client = client
        self._options = options or ValidationOptions()
        self._told = told
        self._turns = asyncio.Semaphore(self._options.concurrency)

    async def validate(self, scenario: ScenarioView) -> ScenarioValidation:
        """Try a scenario in all ways; errors are part of the result."""
        search = _Search(scenario)
        if scenario.is_isolation_chosen:
            kinds: list[Kind] = ["reference"] * TWICE
            if not _is_prepared(scenario):
                kinds += ["nothing"] * TWICE
            tried = await asyncio.gather(*(self._attempt(scenario, kind) for kind in kinds))
            search.note(scenario.isolation, list(tried))
        for isolation in search.isolations():
            await self._try_room(search, isolation)
            if not search.goes_on(isolation):
                break
        return search.result()

    async def _try_room(self, search: "_Search", isolation: Isolation) -> None:
        """Try an isolation and record the result; doing nothing is tried only if the reference succeeds."""
        try:
            async with temporary(self._client, isolated_copy(search.scenario, isolation)) as copy:
                tried = list(await asyncio.gather(*(self._attempt(copy, "reference") for _ in range(TWICE))))
                if not _problems(copy, tried) and not _is_prepared(copy):
                    tried += await asyncio.gather(*(self._attempt(copy, "nothing") for _ in range(TWICE)))
        except UsageError as error:
            # The rules of scenarios refuse some of them in this isolation.
            search.failed[isolation] = error.message[:_SHOWN]
            return
        search.note(isolation, tried)

    async def _attempt(self, scenario: ScenarioView, kind: Kind) -> ValidationAttempt:
        """Run one attempt; a failure or timeout becomes its result."""
        async with self._turns:
            begin = time.monotonic()
            try:
                async with asyncio.timeout(self._options.seconds):
                    attempt = await self._try(scenario, kind)
            except TimeoutError:
                attempt = ValidationAttempt(
                    kind=kind, reasons=[f"it was not done after {self._options.seconds:g} s"]
                )
            except BenchyardError as error:
                attempt = ValidationAttempt(kind=kind, reasons=[error.message])
            seconds = round(time.monotonic() - begin, 3)
            attempt = attempt.model_copy(update={"seconds": seconds, "isolation": scenario.isolation})
        self._told(scenario.name, attempt)
        return attempt

    async def _try(self, scenario: ScenarioView, kind: Kind) -> ValidationAttempt:
        run = await self._client.scenarios.start_run(
            scenario_id=scenario.id,
            run_name=f"validation: {kind} in {scenario.isolation}",
            metadata={REFERENCE_KEY: "validation"} if kind.startswith("reference") else None,
            run_profile=self._options.profile,
        )
        try:
            await self._client.devboxes.await_running(run.devbox_id)
            number: int | None = 1
            while number is not None:
                if kind == "reference":
                    await self._apply(of_round(scenario, number), run.devbox_id)
                scored = await self._client.scenarios.runs.score_and_await(run.id)
                number = _next_step(scenario, number, scored)
            await self._client.scenarios.runs.complete(run.id)
        except (BenchyardError, asyncio.CancelledError):
            with contextlib.suppress(BenchyardError):
                await asyncio.shield(self._client.scenarios.runs.cancel(run.id))
            raise
        return _read(kind, run.id, scored.scoring_contract_result)

    async def _apply(self, scenario: ScenarioView, devbox_id: str) -> None:
        """Apply the reference output in a devbox; raises UsageError if that fails."""
        if not scenario.reference_output:
            raise UsageError("there is no reference output, so nothing shows that it can be solved")
        if references.kind(scenario) == "expected":
            if (path := references.answer_path(scenario)) is not None:
                await self._client.files.write(devbox_id, path, scenario.reference_output)
            return
        await self._client.files.write(devbox_id, _FILE, scenario.reference_output)
        ran = await self._client.executions.run(devbox_id, references.command(scenario, _FILE))
        await self._client.executions.run(devbox_id, f"rm -f {_FILE}")
        if ran.exit_status != 0:
            said = " ".join((ran.stderr.strip() or ran.stdout.strip())[-_SHOWN:].split())
            raise UsageError(f"the reference output ended with {ran.exit_status}: {said}")


@contextlib.asynccontextmanager
async def temporary(client: AsyncNouns, request: ScenarioRequest) -> AsyncIterator[ScenarioView]:
    """Make a scenario for the time of a block; its id derives from its content, so copies do not pile up."""
    content = request.model_dump_json(exclude_none=True)
    id = f"benchyard-validation-{hashlib.sha256(content.encode()).hexdigest()}"
    made = await client.session.run(
        fetch(Request("POST", "/v1/scenarios", json=request, id=id), ScenarioView)
    )
    if made.status == "archived":
        made = await client.scenarios.unarchive(made.id)
    try:
        yield made
    finally:
        await asyncio.shield(client.scenarios.archive(made.id))


def isolated_copy(scenario: ScenarioView, isolation: Isolation) -> ScenarioRequest:
    """Return a request for the same scenario with another isolation."""
    copied = scenario.model_dump(exclude={"environment", "name", "scoring_isolation", "validated_isolation"})
    return ScenarioRequest(
        **{name: value for name, value in copied.items() if name in ScenarioRequest.model_fields},
        name=temporary_name(scenario.name),
        environment_parameters=scenario.environment,
        scoring_isolation=isolation,
    )


def temporary_name(name: str) -> str:
    """Return the name of a scenario while it is tried; the copy of a temporary one has the same name."""
    return f"{_TEMPORARY}{name.removeprefix(_TEMPORARY)}"[:1024]


def lasting_name(name: str) -> str:
    """Return the name that its author gave a scenario, also while it is tried."""
    while name.startswith(_TEMPORARY):
        name = name.removeprefix(_TEMPORARY)
    return name


def _next_step(scenario: ScenarioView, number: int, scored: ScenarioRunView) -> int | None:
    """Return the number of the next step; None for a further try, which would only repeat the attempt."""
    following = scored.next_round
    if not scenario.steps or following is None or following.number == number:
        return None
    if following.failure is not None:
        raise UsageError(f"step {following.name!r} could not be made ready: {following.failure}")
    return following.number


def _is_prepared(scenario: ScenarioView) -> bool:
    """Tell whether the environment itself must score 1.0: doing nothing then equals the reference."""
    return references.kind(scenario) == "expected" and references.answer_path(scenario) is None


def _read(kind: Kind, run_id: str, result: ContractResult | None) -> ValidationAttempt:
    if result is None:
        return ValidationAttempt(kind=kind, run_id=run_id, reasons=["it ended without a score"])
    reasons = []
    for function_result in result.scoring_function_results:
        if function_result.state == "error" or function_result.score < 1:
            last = (function_result.output.strip().splitlines() or [""])[-1]
            why = function_result.reason or last
            cause = f" ({why[:_SHOWN]})" if why else ""
            reasons.append(f"{function_result.scoring_function_name}: {function_result.score:g}{cause}")
    scorers = {
        function_result.scoring_function_name: function_result.score
        for function_result in result.scoring_function_results
    }
    return ValidationAttempt(
        kind=kind,
        run_id=run_id,
        score=result.score,
        scorers={**scorers, **{f"step {each.name}": each.score for each in result.rounds if each.name}},
        reasons=reasons,
        counted={
            function_result.scoring_function_name: function_result.counted.tests
            for function_result in result.scoring_function_results
            if function_result.counted
        },
        # A scorer that the answer made fail has a score, and is reported together with the cause.
        has_errors=any(
            function_result.state == "error" or function_result.cause is not None
            for function_result in result.scoring_function_results
        ),
    )


def _problems(scenario: ScenarioView, attempts: list[ValidationAttempt]) -> list[str]:
    found: list[str] = []
    for kind, wanted in (("reference", 1.0), ("nothing", scenario.nop_score or 0.0)):
        tried = [attempt for attempt in attempts if attempt.kind == kind]
        wrong = [each for each in tried if each.score is None or abs(each.score - wanted) > _CLOSE]
        if wrong:
            scores = " and ".join("no score" if each.score is None else f"{each.score:g}" for each in wrong)
            why = f": {'; '.join(wrong[0].reasons)}" if wrong[0].reasons else ""
            found.append(f"{kind} got {scores} instead of {wanted:g}{why}")
        elif len({tuple(sorted(each.scorers.items())) for each in tried}) > 1:
            found.append(f"{kind} got different results: {' and '.join(str(each.scorers) for each in tried)}")
    return found


class _Search:
    """Isolations of a scenario that were tried, and their results."""

    def __init__(self, scenario: ScenarioView) -> None:
        self.scenario = scenario
        self.attempts: list[ValidationAttempt] = []
        self.failed: dict[Isolation, str] = {}
        self._problems: dict[Isolation, list[str]] = {}

    def note(self, isolation: Isolation, attempts: list[ValidationAttempt]) -> None:
        """Record the attempts in one isolation."""
        self.attempts += attempts
        problems = _problems(self.scenario, attempts)
        self._problems[isolation] = problems
        if problems:
            self.failed[isolation] = problems[0][:_SHOWN]

    def isolations(self) -> Iterator[Isolation]:
        """Yield the isolations to try, one after the other."""
        scenario = self.scenario
        own = scenario.isolation
        if not scenario.is_isolation_chosen:
            yield from (each for each in STRICTEST_FIRST if each != "answer" or scenario.answer_paths)
        elif not self._problems[own]:
            # Isolation by answer paths that the author named cannot be made stricter; neither can separately
            # named work.
            stricter = STRICTEST_FIRST[: STRICTEST_FIRST.index(own)] if own in ("clean", "live") else ()
            yield from (each for each in stricter if each != "answer" or scenario.answer_paths)
        elif own == "clean" and self._was_graded(own):
            yield "live"

    def goes_on(self, isolation: Isolation) -> bool:
        """Tell whether another isolation may work instead: this one graded the reference, which failed."""
        if isolation not in self._problems:
            return True
        return bool(self._problems[isolation]) and self._was_graded(isolation)

    def _was_graded(self, isolation: Isolation) -> bool:
        tried = [
            attempt
            for attempt in self.attempts
            if (attempt.kind, attempt.isolation) == ("reference", isolation)
        ]
        is_whole = all(each.score is not None for each in tried)
        return is_whole and any(each.score is not None and each.score < 1 for each in tried)

    def result(self) -> ScenarioValidation:
        """Return the result of the search."""
        scenario, own = self.scenario, self.scenario.isolation
        passing = [each for each in STRICTEST_FIRST if self._problems.get(each) == []]
        strictest = passing[0] if passing else None
        problems = self._own_problems(strictest)
        needs_live = scenario.is_isolation_chosen and own == "clean" and strictest == "live"
        if needs_live:
            problems.append("it needs `live` isolation: what is graded runs in the devbox")
        suffices = None if strictest is None or problems else strictest != "live"
        return ScenarioValidation(
            scenario_id=scenario.id,
            name=scenario.name,
            revision=scenario.revision,
            isolation=own if scenario.is_isolation_chosen else strictest or own,
            is_chosen=scenario.is_isolation_chosen,
            strictest=strictest,
            failed=self.failed,
            is_valid=not problems,
            problems=problems,
            notes=self._notes(strictest, is_valid=not problems),
            clean_suffices=suffices,
            attempts=self.attempts,
            needs_live=needs_live,
            is_unbuilt=any(BUILD_FAILED in reason for attempt in self.attempts for reason in attempt.reasons),
        )

    def _own_problems(self, strictest: Isolation | None) -> list[str]:
        """Return the problems of the chosen isolation, or of the last one tried but `live` if none works."""
        if self.scenario.is_isolation_chosen:
            return list(self._problems[self.scenario.isolation])
        if strictest is not None:
            return []
        tried = [problem for problem in self._problems if problem != "live"]
        return list(self._problems[tried[-1]]) if tried else list(self.failed.values())

    def _notes(self, strictest: Isolation | None, *, is_valid: bool) -> list[str]:
        scenario, own = self.scenario, self.scenario.isolation
        found = []
        if is_valid and scenario.is_isolation_chosen and own in ("clean", "live"):
            if strictest != own:
                found.append(f"`{strictest}` isolation would give the same scores: prefer it")
            for each, why in self.failed.items():
                found.append(f"`{each}` isolation would not do: {why}")
        broken = next(
            (attempt for attempt in self.attempts if attempt.kind == "nothing" and attempt.has_errors), None
        )
        if broken:
            found.append(f"with nothing done a scorer ends in an error: {'; '.join(broken.reasons)}")
        counts = {
            (name, count)
            for attempt in self.attempts
            if attempt.kind == "reference" and attempt.isolation == strictest
            for name, count in attempt.counted.items()
        }
        for name, count in sorted(counts):
            found.append(
                f"{name}: the reference's report lists {count} tests; later reports must list as many"
            )
        if _is_prepared(scenario):
            found.append("EVALUATION without one answer path: the environment as it is must get 1.0")
        return found


_FOUND = "validated_isolation"


@dataclass(frozen=True)
class ValidationTarget:
    """A scenario to validate: one of the server, or a request for a temporary one."""

    scenario: ScenarioView | ScenarioRequest
    file: Path | None = None
    """File that defines it, if it comes from a folder."""


def target_of_draft(
    client: SyncNouns, draft: ScenarioDraft, progress: PushProgress = SILENT
) -> ValidationTarget:
    """Return the target for a folder's scenario, ready to be made for the time of its validation."""
    for type, script in draft.custom_scorers.items():
        known = find_custom_scorer(client, type)
        if known is None:
            client.scenarios.scorers.create(type, script)
        elif known.bash_script != script:
            raise UsageError(
                f"the custom scorer {type!r} is registered with another script than this folder has; "
                "push the folder first, or give the scorer another type"
            )
    request = resolve_draft(client, draft, progress=progress)
    named = request.model_copy(update={"name": temporary_name(request.name)})
    return ValidationTarget(named, draft.folder.path / NAME)


async def record_isolation(
    client: AsyncNouns, wanted: ValidationTarget, result: ScenarioValidation, *, changes_choice: bool
) -> ScenarioValidation:
    """Store the validated isolation with a scenario, or in its file; a note says what was stored."""
    found, scenario = result.validated, wanted.scenario
    changes: dict[str, Any] = {}
    if found is None or (isinstance(scenario, ScenarioView) and scenario.is_public):
        return result
    if scenario.validated_isolation == found or found.isolation == scenario.scoring_isolation:
        return result
    if isinstance(scenario, ScenarioRequest):
        if result.is_chosen or wanted.file is None:
            return result
        note = write_isolation(wanted.file, found)
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


def write_isolation(file: Path, found: ValidatedIsolation) -> str:
    """Write the result of validation into the file of a scenario; returns a sentence on what was done."""
    told = json.dumps(found.model_dump(exclude_defaults=True))
    line = f"{_FOUND}: {told}\n"
    try:
        text = file.read_text()
        # Replace only the one-line form that is written here; a form written by hand stays untouched.
        written, count = re.subn(rf"^{_FOUND}: *{{.*\n", lambda _: line, text, flags=re.MULTILINE)
        if not count and re.search(rf"^{_FOUND}:", text, flags=re.MULTILINE):
            return f"write into {file}: {line.strip()}"
        if not count:
            written = f"{text.rstrip()}\n{line}"
        file.write_text(written)
    except OSError as error:
        return f"{file} could not be changed ({error.strerror}); write into it: {line.strip()}"
    return f"`{found.isolation}` was written into {file}: push it to be graded so"


def scenario_target(client: SyncNouns, given: str | Path, progress: PushProgress) -> ValidationTarget:
    """Return the target that is meant: the folder of a scenario, or one of the server by id or name."""
    path = Path(given)
    if (path / NAME).exists():
        return target_of_draft(client, read_scenario(path), progress)
    check_path_exists(str(given))
    if path.is_dir() and (isinstance(given, Path) or "/" in given):
        raise UsageError(f"{given} has no {NAME}; `benchyard scenario new` makes a folder that has one")
    return ValidationTarget(find_scenario(client, str(given)))


def benchmark_targets(client: SyncNouns, given: str | Path, progress: PushProgress) -> list[ValidationTarget]:
    """Return the scenarios of the benchmark that is meant: a folder, or one of the server by id or name."""
    check_path_exists(str(given))
    if not (Path(given) / benchmark_file.NAME).exists():
        view = find_benchmark(client, str(given))
        return [
            ValidationTarget(definition) for definition in client.benchmarks.definitions(view.id, limit=100)
        ]
    found = []
    for scenario in benchmark_file.read_benchmark(Path(given)).scenarios:
        if isinstance(scenario, ScenarioDraft):
            found.append(target_of_draft(client, scenario, progress))
        else:
            found.append(ValidationTarget(client.scenarios.retrieve(scenario_id_of(client, scenario))))
    return found


def choose_sample(
    wanted: Sequence[ValidationTarget], size: int | None, seed: int
) -> Sequence[ValidationTarget]:
    """Return so many of the targets, chosen at random; all of them if there are no more."""
    if size is None or size >= len(wanted):
        return wanted
    return random.Random(seed).sample(wanted, size)  # noqa: S311  it chooses what is tried


async def validate_all(
    session: AsyncSession,
    wanted: Sequence[ValidationTarget],
    options: ValidationOptions,
    *,
    record: bool | None,
    progress: PushProgress = SILENT,
) -> list[ScenarioValidation]:
    """Validate scenarios, and store what was found.

    Results are stored with scenarios of the server unless `record` is False; if it is True, a chosen
    isolation that does not work is changed, too.
    """
    client = AsyncNouns(session)
    async with AsyncExitStack() as stack:
        scenarios = [await stack.enter_async_context(present_scenario(client, each)) for each in wanted]
        with progress.attempts(len(scenarios) * 2 * TWICE) as tell:
            validator = Validator(client, options, tell)
            found = await asyncio.gather(*(validator.validate(scenario) for scenario in scenarios))
        results = [each.model_copy(update={"name": lasting_name(each.name)}) for each in found]
        if record is not False:
            results = [
                await record_isolation(client, each, result, changes_choice=record is True)
                for each, result in zip(wanted, results, strict=True)
            ]
        return results


@asynccontextmanager
async def present_scenario(client: AsyncNouns, wanted: ValidationTarget) -> AsyncIterator[ScenarioView]:
    """Yield the scenario of a target; a folder's scenario exists for the time of the block."""
    if isinstance(wanted.scenario, ScenarioView):
        yield wanted.scenario
        return
    async with temporary(client, wanted.scenario) as made:
        yield made
