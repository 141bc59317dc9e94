"""Scoring: what a run left is frozen, and each scorer grades it in a fresh devbox of its own."""

import asyncio
import contextlib
import logging
import posixpath
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from benchyard.benchmarks.base import PUBLIC_KEY
from benchyard.devboxes.base import Shown
from benchyard.engine.attachments import Attachments
from benchyard.engine.boot import PRISTINE, SCORING_KIND
from benchyard.engine.definitions.custom_scorers import CustomScorers
from benchyard.engine.egress import scoring_phase
from benchyard.engine.given_secrets import scrubber_of
from benchyard.engine.journal import now_ms
from benchyard.engine.network_policies import NetworkPolicies
from benchyard.engine.runs.causes import Failure, failed_result, failure_of, tried
from benchyard.engine.runs.collecting import collect
from benchyard.engine.runs.finals import LIVE, FinalStates, Kept
from benchyard.engine.runs.outcomes import Outcome, scrubbed
from benchyard.engine.runs.references import References
from benchyard.engine.runs.rooms import clear_rooms
from benchyard.engine.runs.stages import Apart, Case, Desk, Images, Inside, Stage, kits_of, mounts_of
from benchyard.engine.runs.tamper import Findings
from benchyard.engine.setup import PTY_PREFIX, entrypoint_id
from benchyard.engine.showing import shown_folders
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import (
    BenchyardError,
    Conflict,
    DevboxError,
    ImageError,
    NotFound,
    ScorerFailed,
    StillWaiting,
    UsageError,
    from_os,
)
from benchyard.hosts.kits import Kit, KitFolders
from benchyard.images.store import Image
from benchyard.models.devboxes import DevboxStatus
from benchyard.models.jobs import TRIAL_KEY
from benchyard.models.runs import ContractResult, FinalState, ScorerResult
from benchyard.models.scenarios import Isolation, Scenario, ScoringFunction, functions_of
from benchyard.scorers import catalog
from benchyard.scorers.base import Scorer, ScoringContext, Verdict

_TRIM_SECONDS = 3600.0
_RESTORED = "-restored"
_SYSTEM_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/proc", "/run", "/sbin", "/sys", "/usr"),
)
_SLACK_SECONDS = 120.0
"""For what goes on around a scorer: making its environment, starting and ending its devbox."""
_MAY_BE_THE_ANSWERS = (DevboxError, ImageError, UsageError, StillWaiting)
"""Errors by which either the machine or what was left on the disk may keep it from being graded."""

T = TypeVar("T")


_log = logging.getLogger(__name__)


class Scoring:
    """Scores runs; at most so many at the same time."""

    def __init__(
        self,
        tools: Tools,
        scorers: CustomScorers,
        kits: KitFolders,
        policies: NetworkPolicies,
        references: References,
    ) -> None:
        self._tools = tools
        self._policies = policies
        self._scorers = scorers
        self._kits = kits
        self._references = references
        self.finals = FinalStates(tools)
        self._turns = asyncio.Semaphore(tools.settings.scorings_at_once)

    async def score(self, case: Case) -> Outcome:
        """Grade a run; what scorers do wrong is in the result. Raises when its disk cannot be had."""
        desk = await self._desk(case)
        desk.conditions.look_at_load("when the work ended")
        await desk.conditions.look_at_network(self._tools, case.devbox.id, "while it was worked on")
        async with self._turns:
            results, kept = await self._results(desk)
        tamper = desk.findings.report()
        names = (case.scenario.scoring_secrets or {}).values()
        scrubber = await scrubber_of(self._tools, case.run.devbox_id, names)
        told = {
            "network": desk.network,
            "suspicions": desk.findings.suspicions,
            "conditions": desk.conditions.lines,
        }
        result = _together(case, results).model_copy(update=told)
        outcome = scrubbed(Outcome(result, tamper, kept.state, kept.gone), scrubber)
        return replace(outcome, result=await self._references.judged(case, outcome.result, outcome.tamper))

    async def _desk(self, case: Case) -> Desk:
        desk = Desk(self._tools, self._kits, case, Findings(case.work))
        wanted = case.scenario.scoring_network
        try:
            return replace(desk, egress=await until_kept(partial(self._policies.of_scorers, wanted)))
        except UsageError as error:
            # What is scored is kept all the same: with its policy back, it can be scored again.
            return replace(desk, unknown=f"what scorers may reach is not known: {error.message}")

    async def _results(self, desk: Desk) -> tuple[list[ScorerResult], Kept]:
        if self._tools.host.pretends:
            return await self._in_turn(desk), Kept(gone=LIVE)
        if desk.case.isolation == "live":
            return await self._inside(desk), Kept(gone=LIVE)
        return await self._apart(desk)

    async def open(self, scoring: set[str], devboxes: set[str]) -> None:
        """Remove what a stop left, except for runs that are still being scored and devboxes that live."""
        await self._kits.sweep()
        kept = {devbox_id + PRISTINE for devbox_id in devboxes}
        for image in await self._tools.images.list():
            # What was carried over for an answer is never one's own id and number: it is made anew.
            run_id = image.id.rpartition("-")[0]
            if image.kind == SCORING_KIND and image.id not in kept and run_id not in scoring:
                await self.forget(image.id)
        self._tools.work.start("kits/trim", self._trim_for_ever)

    async def _trim_for_ever(self) -> None:
        while True:
            try:
                await self._kits.trim(self._tools.settings.kits_max_bytes, shown_folders(self._tools))
            except (BenchyardError, OSError) as error:
                _log.warning("kits could not be trimmed, will try again: %s", error)
            await asyncio.sleep(_TRIM_SECONDS)

    async def forget(self, image_id: str) -> None:
        """Remove what a scoring froze, if it is there."""
        carried = [f"{image_id}-{isolation}" for isolation in ("answer", "system")]
        for each in (image_id, *carried, *(name + _RESTORED for name in carried)):
            with contextlib.suppress(NotFound):
                await self._tools.images.remove(each)

    async def mounts(self, scenario: Scenario) -> tuple[Shown, ...]:
        """What the scorers of a `live` scenario need to find in its devbox from the start."""
        found: dict[str, Kit] = {}
        if self._tools.host.pretends:
            return ()
        for function in functions_of(scenario):
            for kit in await kits_of(self.scorer(function, ScoringContext()), self._kits):
                found[kit.target] = kit
        return mounts_of(self._tools, tuple(found.values()))

    def scorer(self, function: ScoringFunction, context: ScoringContext) -> Scorer[Any]:
        """The scorer of a function."""
        return catalog.parse(str(function.scorer.get("type")), function.scorer, context)

    async def thaw(self, state: FinalState, image_id: str) -> None:
        """Have what a run left as an image for a scoring; raises ImageError where it cannot be used here."""
        try:
            image = await self._tools.images.get(image_id)
        except NotFound:
            image = await self._share(state.image_id, image_id)
        self._tools.images.rootfs(image)

    async def _share(self, kept: str, image_id: str) -> Image:
        try:
            return await self._tools.images.share(kept, image_id, SCORING_KIND)
        except NotFound as error:
            raise Conflict(f"image {kept}, which a run left, is missing from the image store") from error

    async def _freeze(self, desk: Desk) -> None:
        case = desk.case
        if case.kept is not None:
            desk.findings.recall(case.run.tamper)
            await self.thaw(case.kept, case.image_id)
            return
        devbox = await self._tools.roster.get(case.devbox.id)
        is_running = devbox.status is DevboxStatus.RUNNING
        if is_running:
            await collect(self._tools, case)
        await desk.findings.look_at_processes(self._tools, devbox.id, is_running=is_running)
        await desk.findings.look_at_network(self._tools, devbox.id)
        if devbox.status is DevboxStatus.SUSPENDED and TRIAL_KEY in case.run.metadata:
            if await desk.findings.take(self._tools, devbox.id, case.image_id):
                look = partial(desk.findings.look_at_taken, self._tools, devbox.id, case.image_id)
                # Beside what is done for the scorers, none of whom begins before it has ended.
                desk.findings.begin(self._twice(desk, look))
        else:
            await desk.findings.freeze(self._tools, devbox.id, case.image_id)

    async def _apart(self, desk: Desk) -> tuple[list[ScorerResult], Kept]:
        case = desk.case
        is_cut = False
        try:
            images = await self._graded_from(desk)
            # What is kept does not depend on the scorers.
            results, kept = await asyncio.gather(self._in_rooms(desk, images), self._keep(case))
            results = await self._where_looked(desk, results)
            await self._compare_with_stricter(desk, results)
            return results, kept
        except asyncio.CancelledError:
            # The next server goes on from what is frozen; whoever cancels the run forgets it.
            is_cut = True
            raise
        finally:
            await desk.findings.end()
            # What is scored from a final state is forgotten by whoever has noted the result.
            if not is_cut and case.kept is None:
                key = f"frozen/{case.image_id}"
                self._tools.work.start(key, partial(self.forget, case.image_id), finish=True)

    async def _where_looked(self, desk: Desk, results: list[ScorerResult]) -> list[ScorerResult]:
        """The results, unless the disk could not be looked at: then every scorer has failed."""
        try:
            await desk.findings.looked()
        except ScorerFailed as error:
            failure = failure_of(error, desk.case.scorer_seconds)
            return [failed_result(each, failure) for each in _functions(desk.case.scenario)]
        return results

    async def _keep(self, case: Case) -> Kept:
        return Kept(case.kept) if case.kept else await self.finals.keep(case)

    async def _graded_from(self, desk: Desk) -> Images | ScorerFailed:
        """Make ready what is graded, or tell why that cannot be."""
        try:
            await self._twice(desk, partial(self._freeze, desk))
            return await self._twice(desk, partial(self._images, desk, desk.case.isolation))
        except ScorerFailed as error:
            # What is too much to be carried over is so the second time too.
            return error

    async def _in_rooms(self, desk: Desk, images: Images | ScorerFailed) -> list[ScorerResult]:
        """What all scorers say, each in a room of its own, apart from the devbox that was worked in."""
        case, functions = desk.case, _functions(desk.case.scenario)
        if isinstance(images, ScorerFailed):
            failure = failure_of(images, case.scorer_seconds)
            return [failed_result(each, failure) for each in functions]
        work = (self._graded(case, each, Apart(desk, images, at)) for at, each in enumerate(functions))
        return await asyncio.gather(*work)

    async def _compare_with_stricter(self, desk: Desk, results: list[ScorerResult]) -> None:
        """Note a score that the work alone does not get where validation saw the reference get it."""
        case = desk.case
        stricter = case.scenario.stricter_isolation
        score = _total(results)
        has_start = case.kept is None or case.kept.start_image_id is not None
        if stricter is None or not score or not has_start:
            return
        apart = replace(desk, findings=Findings(case.work))
        images: Images | ScorerFailed
        try:
            images = await self._images(apart, stricter)
        except ScorerFailed as error:
            # What was left keeps it from being graded so: that is no way around it.
            images = error
        except (BenchyardError, OSError) as error:
            told = from_os(error).message if isinstance(error, OSError) else error.message
            desk.findings.notes.append(f"what it scores in `{stricter}` is unknown: {told}")
            return
        again = await self._in_rooms(apart, images)
        if any(each.cause == "machine" for each in again):
            desk.findings.notes.append(f"what it scores in `{stricter}` is unknown: the machine failed")
        elif _total(again) < score:
            desk.findings.suspicions.append(
                f"it scores {score:g} only with what was changed outside of the work: "
                f"{_total(again):g} in `{stricter}`, in which the reference passes"
            )

    async def _twice(self, desk: Desk, work: Callable[[], Awaitable[T]]) -> T:
        """Make ready what is graded; raises ScorerFailed where that fails twice on a sound machine."""
        devbox_id = desk.case.devbox.id
        try:
            return await work()
        except _MAY_BE_THE_ANSWERS as error:
            _log.warning("what devbox %s left could not be made ready, will try again: %s", devbox_id, error)
        try:
            return await work()
        except _MAY_BE_THE_ANSWERS as error:
            is_there = desk.case.kept is not None or devbox_id in self._tools.host.with_disk()
            if not (is_there and await Apart(desk, Images(desk.case.image_id), 0).has_sound_machine()):
                raise
            raise ScorerFailed(f"what was left could not be made ready: {error.message}") from error

    async def _images(self, desk: Desk, isolation: Isolation) -> Images:
        """What rooms are made from: all that was left, or what of it is graded, on what it began from."""
        case = desk.case
        if isolation == "clean":
            return Images(case.image_id)
        rooms, made = self._tools.host.rooms, f"{case.image_id}-{isolation}"
        named = case.whole("answer_paths")
        base = case.start_image_id
        if isolation == "answer":
            base = case.scenario.scoring_blueprint_id or base
            carried = await rooms.answer_image(case.image_id, named, base, made)
        else:
            paths, home = [case.working_directory, *named], _own_home(case)
            carried = await rooms.work_image(case.image_id, paths, home, base, made)
        desk.findings.carried = carried
        desk.findings.refused = list(carried.refused)
        if kept := case.whole("answer_excludes"):
            restored = await rooms.answer_image(base, kept, made, made + _RESTORED)
            made += _RESTORED
            _require_restored(kept, restored.refused)
        return Images(made, base)

    async def _inside(self, desk: Desk) -> list[ScorerResult]:
        case = desk.case
        devbox = await self._tools.roster.get(case.devbox.id)
        if devbox.status is not DevboxStatus.RUNNING:
            told = f"a live scenario is scored in its devbox, which is {devbox.status}"
            raise ScorerFailed(told, cause="machine")
        await self._set_tracing(desk, allowed=False)
        await collect(self._tools, case)
        if desk.unknown:
            raise ScorerFailed(desk.unknown, cause="machine")
        # A scorer that a killed server left is killed too: two at once would grade each other.
        await self._tools.host.rooms.kill_commands(devbox.id, (entrypoint_id(devbox), PTY_PREFIX))
        await clear_rooms(self._tools, devbox.id)
        await desk.findings.look_at_processes(self._tools, devbox.id, is_running=True)
        await desk.findings.look_at_network(self._tools, devbox.id)
        await desk.findings.look_at_disk(self._tools, devbox.id)
        async with (
            desk.findings.watch_disk(self._tools, devbox.id),
            scoring_phase(self._tools, devbox, desk.egress),
        ):
            results = await self._in_turn(desk)
        # Whoever works on in it, in a next round or by hand, may debug again.
        await self._set_tracing(desk, allowed=True)
        return results

    async def _set_tracing(self, desk: Desk, *, allowed: bool) -> None:
        """Refuse that processes of a `live` devbox trace each other while it is scored, as in rooms apart."""
        case = desk.case
        if case.scenario.scoring_tracing:
            return
        try:
            await self._tools.host.rooms.set_tracing(case.devbox.id, allowed=allowed)
        except DevboxError as error:
            if not allowed:
                desk.findings.notes.append(f"processes could trace its scorers: {error.message}")

    async def _in_turn(self, desk: Desk) -> list[ScorerResult]:
        functions = enumerate(_functions(desk.case.scenario))
        return [await self._graded(desk.case, each, Inside(desk, index)) for index, each in functions]

    async def _graded(self, case: Case, function: ScoringFunction, stage: Stage) -> ScorerResult:
        """One scorer's result, whatever happens to it."""
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
            return await stage.grade(self.scorer(function, context))

        label = f"scorer {function.name!r} of run {case.run.id}"
        found = await tried(grade, stage, case.scorer_seconds + _SLACK_SECONDS, label)
        duration = int((time.monotonic() - started) * 1000)
        if isinstance(found, Failure):
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


def _own_home(case: Case) -> str | None:
    """The home of who worked; None where it is a folder of the system, as those of services are."""
    home = posixpath.normpath(case.home)
    is_system = home == "/" or any(f"{home}/".startswith(f"{each}/") for each in _SYSTEM_FOLDERS)
    return None if is_system else home


def _require_restored(paths: Sequence[str], refused: list[str]) -> None:
    """Raise ScorerFailed where something the work left keeps a path from being as it was."""
    for each in refused:
        if any(each.startswith(f"{path}: ") for path in paths):
            raise ScorerFailed(f"what is no part of the answer could not be put back: {each}")


def _together(case: Case, results: list[ScorerResult]) -> ContractResult:
    return ContractResult(
        score=_total(results),
        scoring_function_results=results,
        scored_time_ms=now_ms(),
        isolation=case.isolation,
        isolation_reason=case.scenario.isolation_reason,
        scenario_revision=case.scenario.revision,
        rewards=_rewards(results),
    )


def _total(results: list[ScorerResult]) -> float:
    # Weights add up to 1 but for what floating point leaves.
    return min(1.0, max(0.0, round(sum(each.weight * each.score for each in results), 9)))


def _rewards(results: list[ScorerResult]) -> dict[str, float]:
    """What all scorers counted, by name; a name that another one has used is told with the scorer's."""
    found: dict[str, float] = {}
    for each in results:
        for name, amount in each.rewards.items():
            found[f"{each.scoring_function_name}.{name}" if name in found else name] = amount
    return found
