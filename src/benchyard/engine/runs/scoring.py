"""Scoring: a run's disk is frozen, and each scorer grades it in a fresh devbox of its own."""

import asyncio
import contextlib
import logging
import posixpath
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from benchyard.benchmarks.base import PUBLIC_KEY
from benchyard.devboxes.base import HostFolder
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import PRISTINE, SCORING_KIND, shown_folders
from benchyard.engine.devboxes.commands import PTY_PREFIX, entrypoint_id, wait_for_completion
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.devboxes.start_image import Prerequisites
from benchyard.engine.devboxes.states import BOOTING, ENDED
from benchyard.engine.network.egress import scoring_phase
from benchyard.engine.network.policies import NetworkPolicies
from benchyard.engine.objects import Attachments
from benchyard.engine.runs.final_states import LIVE, FinalStateFate, FinalStates
from benchyard.engine.runs.reference_reports import ReferenceReports
from benchyard.engine.runs.results import Outcome, report_outcome
from benchyard.engine.runs.scorer_failures import ScorerFailure, failed_result, failure_of, try_scorer
from benchyard.engine.runs.scoring_room import (
    CleanRoom,
    GradingRoom,
    LiveRoom,
    RoomContext,
    RoomImages,
    ScoringCase,
    clear_rooms,
    kits_of,
    mounts_of,
)
from benchyard.engine.runs.tamper import TamperFindings
from benchyard.engine.scenarios.custom_scorers import CustomScorers
from benchyard.errors import (
    BenchyardError,
    Conflict,
    DevboxError,
    ImageError,
    NotFound,
    ScorerFailed,
    StillWaiting,
    UsageError,
    message_of,
)
from benchyard.hosts.host import ExecRequest
from benchyard.hosts.kits import Kit, KitFolders
from benchyard.models.devboxes import Devbox, DevboxPurpose, DevboxStatus
from benchyard.models.jobs import TRIAL_KEY
from benchyard.models.runs import ContractResult, FinalState, ScenarioRun, ScorerResult
from benchyard.models.scenarios import Isolation, Scenario, ScoringFunction, functions_of
from benchyard.scorers import catalog
from benchyard.scorers.base import Scorer, ScoringContext, Verdict

_log = logging.getLogger(__name__)


def _collect_prefix(case: ScoringCase) -> str:
    """Return the prefix of the ids of the collect commands of this scoring."""
    return f"collect-{case.run.scorings}-"


async def run_collect_commands(tools: EngineContext, case: ScoringCase) -> None:
    """Run a scenario's collect commands in its devbox, in order; a failure does not stop the others."""
    for index, each in enumerate(case.scenario.collect_commands or ()):
        request = ExecRequest(
            id=f"{_collect_prefix(case)}{index}",
            command=each.command,
            cwd=case.working_directory,
            user=each.user or case.user,
            timeout_seconds=each.timeout_sec,
            strict=case.isolation != "live",
        )
        try:
            await wait_for_completion(tools, await tools.host.exec(case.devbox.id, request))
        except BenchyardError as error:
            _log.warning("a collect command of run %s could not run: %s", case.run.id, error.message)


_TRIM_SECONDS = 3600.0
_RESTORED = "-restored"
_SYSTEM_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/proc", "/run", "/sbin", "/sys", "/usr"),
)
_SLACK_SECONDS = 120.0
"""Time around a scorer: to make its environment, and to start and end its devbox."""
_MAY_BE_THE_ANSWERS = (DevboxError, ImageError, UsageError, StillWaiting)
"""Errors of grading that either the machine or the answer's disk may cause."""

T = TypeVar("T")


class Scoring:
    """Scores runs, a limited number at the same time."""

    def __init__(
        self,
        tools: EngineContext,
        scorers: CustomScorers,
        kits: KitFolders,
        policies: NetworkPolicies,
        prerequisites: Prerequisites,
        references: ReferenceReports,
    ) -> None:
        self._tools = tools
        self._policies = policies
        self._scorers = scorers
        self._kits = kits
        self._prerequisites = prerequisites
        self._references = references
        self.finals = FinalStates(tools)
        self._turns = asyncio.Semaphore(tools.settings.scorings_at_once)

    async def case_of_devbox(self, run: ScenarioRun, scenario: Scenario) -> ScoringCase:
        """Return the case of a run whose devbox is to be scored; raises if that is not available."""
        devbox = await retry_store(self._tools.live_devboxes.get, run.devbox_id)
        while devbox.status in BOOTING:
            devbox = await self._tools.live_devboxes.wait(
                devbox.id, lambda record: record.status not in BOOTING, _HOUR
            )
        if devbox.status in ENDED:
            raise Conflict(f"its devbox has ended ({devbox.status}) before it was scored")
        facts = _facts(run, scenario, now_ms())
        await self._prerequisites.build_scoring_image(scenario)
        return ScoringCase(run, scenario, devbox, facts, _trajectory(run))

    async def case_of_final_state(
        self, run: ScenarioRun, scenario: Scenario, state: FinalState
    ) -> ScoringCase:
        """Return the case of a run whose final state is to be scored."""
        worked_in = Devbox(
            id=run.devbox_id,
            create_time_ms=run.create_time_ms,
            image=state.image_id,
            launch_parameters=state.launch_parameters,
            environment_variables=state.environment_variables,
            purpose=DevboxPurpose(home=state.home or state.working_directory),
        )
        await self._prerequisites.build_scoring_image(scenario)
        facts = _facts(run, scenario, state.create_time_ms)
        return ScoringCase(run, scenario, worked_in, facts, _trajectory(run), state)

    async def score(self, case: ScoringCase) -> Outcome:
        """Grade a run; scorers' errors are in the result. Raises if the disk is not available."""
        context = RoomContext(self._tools, self._kits, case, TamperFindings(case.work))
        try:
            egress = await retry_store(self._policies.of_scorers, case.scenario.scoring_network)
            context = replace(context, egress=egress)
        except UsageError as error:
            # The final state is kept all the same: with its policy back, the run can be scored again.
            context = replace(context, unknown=f"what scorers may reach is not known: {error.message}")
        context.conditions.look_at_load("when the work ended")
        await context.conditions.look_at_network(self._tools, case.devbox.id, "while it was worked on")
        final = FinalStateFate(gone=LIVE)
        async with self._turns:
            if self._tools.host.pretends:
                results = await self._in_turn(context)
            elif case.isolation == "live":
                results = await self._inside(context)
            else:
                results, final = await self._apart(context)
        names = (case.scenario.scoring_secrets or {}).values()
        scrubber = await scrubber_of(self._tools, case.run.devbox_id, names)
        result = ContractResult(
            score=_total(results),
            scoring_function_results=results,
            scored_time_ms=now_ms(),
            isolation=case.isolation,
            isolation_reason=case.scenario.isolation_reason,
            scenario_revision=case.scenario.revision,
            rewards=_rewards(results),
            network=context.network,
            suspicions=context.findings.suspicions,
            conditions=context.conditions.lines,
        )
        outcome = await report_outcome(result, context.findings, final, scrubber)
        return replace(outcome, result=await self._references.judged(case, outcome.result, outcome.tamper))

    async def open(self, scoring: set[str], devboxes: set[str]) -> None:
        """Remove the remains of a stop, except those of unfinished scorings and live devboxes."""
        await self._kits.sweep()
        kept = {devbox_id + PRISTINE for devbox_id in devboxes}
        for image in await self._tools.images.list():
            # Images carried over for an answer have further parts in their ids, and are made anew.
            run_id = image.id.rpartition("-")[0]
            if image.kind == SCORING_KIND and image.id not in kept and run_id not in scoring:
                await self.forget(image.id)
        self._tools.work.repeat("kits/trim", self._trim_kits, _TRIM_SECONDS, "trimming kits")

    async def _trim_kits(self) -> None:
        await self._kits.trim(self._tools.settings.kits_max_bytes, shown_folders(self._tools))

    async def forget(self, image_id: str) -> None:
        """Remove the images that a scoring froze, if they exist."""
        carried = [f"{image_id}-{isolation}" for isolation in ("answer", "system")]
        for each in (image_id, *carried, *(name + _RESTORED for name in carried)):
            with contextlib.suppress(NotFound):
                await self._tools.images.remove(each)

    async def mounts(self, scenario: Scenario) -> tuple[HostFolder, ...]:
        """Return the kits that the scorers of a `live` scenario need in its devbox from the start."""
        found: dict[str, Kit] = {}
        if self._tools.host.pretends:
            return ()
        for function in functions_of(scenario):
            for kit in await kits_of(self.scorer(function, ScoringContext()), self._kits):
                found[kit.target] = kit
        return mounts_of(self._tools, tuple(found.values()))

    def scorer(self, function: ScoringFunction, context: ScoringContext) -> Scorer[Any]:
        """Return the scorer of a function."""
        return catalog.parse(str(function.scorer.get("type")), function.scorer, context)

    async def thaw(self, state: FinalState, image_id: str) -> None:
        """Make an image of a final state for a scoring; raises ImageError if it cannot be used here."""
        images = self._tools.images
        try:
            image = await images.get(image_id)
        except NotFound:
            try:
                image = await images.share(state.image_id, image_id, SCORING_KIND)
            except NotFound as error:
                told = f"image {state.image_id}, which a run left, is missing from the image store"
                raise Conflict(told) from error
        images.rootfs(image)

    async def _freeze(self, context: RoomContext) -> None:
        case = context.case
        if case.kept is not None:
            context.findings.recall(case.run.tamper)
            await self.thaw(case.kept, case.image_id)
            return
        devbox = await self._tools.live_devboxes.get(case.devbox.id)
        is_running = devbox.status is DevboxStatus.RUNNING
        if is_running:
            await run_collect_commands(self._tools, case)
        await context.findings.look_at_processes(self._tools, devbox.id, is_running=is_running)
        await context.findings.look_at_network(self._tools, devbox.id)
        if devbox.status is DevboxStatus.SUSPENDED and TRIAL_KEY in case.run.metadata:
            if await context.findings.take(self._tools, devbox.id, case.image_id):
                look = partial(context.findings.look_at_taken, self._tools, devbox.id, case.image_id)
                # In parallel with the preparation for scorers, which begin only after it has ended.
                context.findings.begin(self._twice(context, look))
        else:
            await context.findings.freeze(self._tools, devbox.id, case.image_id)

    async def _apart(self, context: RoomContext) -> tuple[list[ScorerResult], FinalStateFate]:
        case = context.case
        is_cut = False
        try:
            images: RoomImages | ScorerFailed
            try:
                await self._twice(context, partial(self._freeze, context))
                images = await self._twice(context, partial(self._images, context, case.isolation))
            except ScorerFailed as error:
                # An answer that is too large to be carried over stays too large.
                images = error
            # The final state does not depend on the scorers.
            if case.kept is None:
                results, final = await asyncio.gather(self._in_rooms(context, images), self._keep(context))
            else:
                results, final = await self._in_rooms(context, images), FinalStateFate(case.kept)
            try:
                await context.findings.looked()
            except ScorerFailed as error:
                # The disk could not be examined.
                failure = failure_of(error, case.scorer_seconds)
                results = [failed_result(function, failure) for function in _functions(case.scenario)]
            await self._compare_with_stricter(context, results)
            return results, final
        except asyncio.CancelledError:
            # The next server resumes from the frozen image; a canceled run removes it.
            is_cut = True
            raise
        finally:
            await context.findings.end()
            # The image of a scoring from a final state is removed once the result is noted.
            if not is_cut and case.kept is None:
                key = f"frozen/{case.image_id}"
                self._tools.work.start(key, partial(self.forget, case.image_id), finish=True)

    async def _keep(self, context: RoomContext) -> FinalStateFate:
        """Keep the final state, once the disk has been examined: scorers wait for that, but not for this."""
        with contextlib.suppress(BenchyardError, OSError):
            await context.findings.looked()
        return await self.finals.keep(context.case)

    async def _in_rooms(self, context: RoomContext, images: RoomImages | ScorerFailed) -> list[ScorerResult]:
        """Return the results of all scorers, each in a fresh devbox of its own."""
        case, functions = context.case, _functions(context.case.scenario)
        if isinstance(images, ScorerFailed):
            failure = failure_of(images, case.scorer_seconds)
            return [failed_result(each, failure) for each in functions]
        work = (self._grade(case, each, CleanRoom(context, images, at)) for at, each in enumerate(functions))
        return await asyncio.gather(*work)

    async def _compare_with_stricter(self, context: RoomContext, results: list[ScorerResult]) -> None:
        """Note a score that a stricter isolation does not confirm, though it confirmed the reference's."""
        case = context.case
        stricter = case.scenario.stricter_isolation
        score = _total(results)
        has_start = case.kept is None or case.kept.start_image_id is not None
        if stricter is None or not score or not has_start:
            return
        apart = replace(context, findings=TamperFindings(case.work))
        images: RoomImages | ScorerFailed
        try:
            images = await self._images(apart, stricter)
        except ScorerFailed as error:
            # The answer prevents its grading under the stricter isolation, which is no way around it.
            images = error
        except (BenchyardError, OSError) as error:
            context.findings.notes.append(f"what it scores in `{stricter}` is unknown: {message_of(error)}")
            return
        again = await self._in_rooms(apart, images)
        if any(each.cause == "machine" for each in again):
            context.findings.notes.append(f"what it scores in `{stricter}` is unknown: the machine failed")
        elif _total(again) < score:
            context.findings.suspicions.append(
                f"it scores {score:g} only with what was changed outside of the work: "
                f"{_total(again):g} in `{stricter}`, in which the reference passes"
            )

    async def _twice(self, context: RoomContext, work: Callable[[], Awaitable[T]]) -> T:
        """Do this work, with one retry; raises ScorerFailed after two failures on a sound machine."""
        devbox_id = context.case.devbox.id
        try:
            return await work()
        except _MAY_BE_THE_ANSWERS as error:
            _log.warning("what devbox %s left could not be made ready, will try again: %s", devbox_id, error)
        try:
            return await work()
        except _MAY_BE_THE_ANSWERS as error:
            is_there = context.case.kept is not None or devbox_id in self._tools.host.with_disk()
            if not (
                is_there
                and await CleanRoom(context, RoomImages(context.case.image_id), 0).has_sound_machine()
            ):
                raise
            raise ScorerFailed(f"the final state could not be prepared: {error.message}") from error

    async def _images(self, context: RoomContext, isolation: Isolation) -> RoomImages:
        """Return the images of rooms: the whole disk, or its graded part on top of the start."""
        case = context.case
        if isolation == "clean":
            return RoomImages(case.image_id)
        rooms, made = self._tools.host.rooms, f"{case.image_id}-{isolation}"
        named = case.whole("answer_paths")
        base = case.start_image_id
        if isolation == "answer":
            base = case.scenario.scoring_blueprint_id or base
            carried = await rooms.answer_image(case.image_id, named, base, made)
        else:
            paths, home = [case.working_directory, *named], _own_home(case)
            carried = await rooms.work_image(case.image_id, paths, home, base, made)
        context.findings.carried = carried
        context.findings.refused = list(carried.refused)
        if kept := case.whole("answer_excludes"):
            restored = await rooms.answer_image(base, kept, made, made + _RESTORED)
            made += _RESTORED
            for line in restored.refused:
                if any(line.startswith(f"{path}: ") for path in kept):
                    raise ScorerFailed(f"files outside of the answer could not be restored: {line}")
        return RoomImages(made, base)

    async def _inside(self, context: RoomContext) -> list[ScorerResult]:
        case = context.case
        devbox = await self._tools.live_devboxes.get(case.devbox.id)
        if devbox.status is not DevboxStatus.RUNNING:
            told = f"a live scenario is scored in its devbox, which is {devbox.status}"
            raise ScorerFailed(told, cause="machine")
        if context.unknown:
            raise ScorerFailed(context.unknown, cause="machine")
        await self._set_tracing(context, allowed=False)
        # A killed server's scorer is killed too, before anything is collected: two at once would affect each
        # other, and what it does is not the answer's work.
        spared = (entrypoint_id(devbox), PTY_PREFIX)
        await self._tools.host.rooms.kill_commands(devbox.id, (*spared, _collect_prefix(case)))
        await run_collect_commands(self._tools, case)
        await self._tools.host.rooms.kill_commands(devbox.id, spared)
        await clear_rooms(self._tools, devbox.id)
        await context.findings.look_at_processes(self._tools, devbox.id, is_running=True)
        await context.findings.look_at_network(self._tools, devbox.id)
        await context.findings.look_at_disk(self._tools, devbox.id)
        async with (
            context.findings.watch_disk(self._tools, devbox.id),
            scoring_phase(self._tools, devbox, context.egress),
        ):
            results = await self._in_turn(context)
        # Later work in the devbox, in a next round or by hand, may debug again.
        await self._set_tracing(context, allowed=True)
        return results

    async def _set_tracing(self, context: RoomContext, *, allowed: bool) -> None:
        """Allow or refuse debugging of processes in a `live` devbox, as it is refused in other rooms."""
        case = context.case
        if case.scenario.scoring_tracing:
            return
        try:
            await self._tools.host.rooms.set_tracing(case.devbox.id, allowed=allowed)
        except DevboxError as error:
            if not allowed:
                context.findings.notes.append(f"processes could trace its scorers: {error.message}")

    async def _in_turn(self, context: RoomContext) -> list[ScorerResult]:
        functions = enumerate(_functions(context.case.scenario))
        return [await self._grade(context.case, each, LiveRoom(context, index)) for index, each in functions]

    async def _grade(self, case: ScoringCase, function: ScoringFunction, room: GradingRoom) -> ScorerResult:
        """Return the result of one scorer, also if it fails."""
        started = time.monotonic()

        async def grade() -> Verdict:
            scripts = await self._scorers.scripts([function])
            texts = {name: each.bash_script for name, each in scripts.items()}
            attached = Attachments(self._tools.objects, case.scenario).content
            is_official = PUBLIC_KEY in case.scenario.metadata
            context = ScoringContext(
                case.facts,
                texts,
                attached,
                self._tools.workers.call,
                partial(self._references.counted, case, function.name),
                is_official,
            )
            return await room.grade(self.scorer(function, context))

        label = f"scorer {function.name!r} of run {case.run.id}"
        found = await try_scorer(grade, room, case.scorer_seconds + _SLACK_SECONDS, label)
        duration = int((time.monotonic() - started) * 1000)
        if isinstance(found, ScorerFailure):
            return failed_result(function, found, duration)
        return ScorerResult(
            scoring_function_name=function.name,
            weight=function.weight,
            duration_ms=duration,
            score=found.score,
            state="complete",
            output=found.output,
            facts=dict(found.facts),
            rewards=dict(found.rewards),
            suspect=found.suspect,
            counted=found.counted,
        )


def _functions(scenario: Scenario) -> list[ScoringFunction]:
    return scenario.scoring_contract.scoring_function_parameters


def _own_home(case: ScoringCase) -> str | None:
    """Return the home of the devbox's user; None if it is a folder of the system, as for services."""
    home = posixpath.normpath(case.home)
    is_system = home == "/" or any(f"{home}/".startswith(f"{each}/") for each in _SYSTEM_FOLDERS)
    return None if is_system else home


def _total(results: list[ScorerResult]) -> float:
    # Weights add up to 1 except for rounding errors.
    return min(1.0, max(0.0, round(sum(each.weight * each.score for each in results), 9)))


def _rewards(results: list[ScorerResult]) -> dict[str, float]:
    """Return the rewards of all scorers by name; a name in use gets the scorer's name as a prefix."""
    found: dict[str, float] = {}
    for each in results:
        for name, amount in each.rewards.items():
            found[f"{each.scoring_function_name}.{name}" if name in found else name] = amount
    return found


MOST_TRAJECTORY_BYTES = 64 * 1024**2
"""Most bytes of a trajectory that scorers get."""
_HOUR = 3600.0


def _trajectory(run: ScenarioRun) -> str | None:
    """Return the object of a run's last uploaded trajectory; None if there is none, or it is too large."""
    traces = [each for each in run.traces if each.kind == "atif"]
    if not traces or traces[-1].size_bytes > MOST_TRAJECTORY_BYTES:
        return None
    return traces[-1].object_id


async def attempt_scoring(work: Awaitable[Outcome], run_id: str) -> Outcome | str:
    """Return the outcome of a scoring or the reason why there is none; the boundary of scorings."""
    try:
        return await work
    except (BenchyardError, OSError) as error:
        return message_of(error)
    except Exception:  # noqa: BLE001
        # A bug must not leave a run being scored for ever.
        _log.exception("the scoring of run %s failed", run_id)
        return "the server made a mistake; its log tells which. Score it again"


def _facts(run: ScenarioRun, scenario: Scenario, until_ms: int) -> dict[str, object]:
    facts: dict[str, object] = {
        "problem_statement": scenario.input_context.problem_statement,
        "scenario_id": scenario.id,
        "scenario_run_id": run.id,
        "duration_ms": until_ms - run.create_time_ms,
        "usage": run.usage or None,
    }
    if scenario.validation_type == "EVALUATION":
        facts["reference_output"] = scenario.reference_output
    return facts
