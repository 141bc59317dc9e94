"""Scoring: what a run left is frozen, and each scorer grades it in a fresh devbox of its own."""

import asyncio
import contextlib
import logging
import posixpath
import time
from dataclasses import replace
from functools import partial
from typing import Any

from benchyard.devboxes.base import Shown
from benchyard.engine.attachments import Attachments
from benchyard.engine.boot import PRISTINE, SCORING_KIND
from benchyard.engine.definitions.custom_scorers import CustomScorers
from benchyard.engine.egress import scoring_phase
from benchyard.engine.given_secrets import scrubber_of
from benchyard.engine.journal import now_ms
from benchyard.engine.network_policies import NetworkPolicies
from benchyard.engine.runs.collecting import collect
from benchyard.engine.runs.finals import LIVE, FinalStates, Kept
from benchyard.engine.runs.outcomes import Outcome, scrubbed
from benchyard.engine.runs.rooms import SCORING_PREFIX
from benchyard.engine.runs.stages import Apart, Case, Desk, Images, Inside, Stage, mounts_of
from benchyard.engine.runs.tamper import Findings
from benchyard.engine.setup import PTY_PREFIX, entrypoint_id
from benchyard.engine.showing import shown_folders
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError, Conflict, NotFound, ScorerFailed, UsageError, from_os
from benchyard.hosts.kits import KitFolders
from benchyard.images.store import Image
from benchyard.models.devboxes import DevboxStatus
from benchyard.models.runs import ContractResult, FinalState, ScorerResult
from benchyard.models.scenarios import Scenario, ScoringFunction, functions_of
from benchyard.scorers import catalog
from benchyard.scorers.base import Context, Scorer

_TRIM_SECONDS = 3600.0
_ANSWER = "-answer"
_RESTORED = "-answer-restored"
_SLACK_SECONDS = 120.0
"""For what goes on around a scorer: making its environment, starting and ending its devbox."""


_log = logging.getLogger(__name__)


class Scoring:
    """Scores runs; at most so many at the same time."""

    def __init__(
        self, tools: Tools, scorers: CustomScorers, kits: KitFolders, policies: NetworkPolicies
    ) -> None:
        self._tools = tools
        self._policies = policies
        self._scorers = scorers
        self._kits = kits
        self.finals = FinalStates(tools)
        self._turns = asyncio.Semaphore(tools.settings.scorings_at_once)

    async def score(self, case: Case) -> Outcome:
        """Grade a run; what scorers do wrong is in the result. Raises when its disk cannot be had."""
        desk = await self._desk(case)
        async with self._turns:
            results, kept = await self._results(desk)
        tamper = desk.findings.report(case.working_directory)
        names = (case.scenario.scoring_secrets or {}).values()
        scrubber = await scrubber_of(self._tools, case.run.devbox_id, names)
        result = _together(case, results).model_copy(update={"network": desk.network})
        return scrubbed(Outcome(result, tamper, kept.state, kept.gone), scrubber)

    async def _desk(self, case: Case) -> Desk:
        desk = Desk(self._tools, self._kits, case, Findings())
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
        for each in (image_id, _answer_id(image_id), _restored_id(image_id)):
            with contextlib.suppress(NotFound):
                await self._tools.images.remove(each)

    async def mounts(self, scenario: Scenario) -> tuple[Shown, ...]:
        """What the scorers of a `live` scenario need to find in its devbox from the start."""
        found = {}
        for function in functions_of(scenario):
            for kit in await self.scorer(function, Context()).kits(self._kits):
                found[kit.target] = kit
        return mounts_of(self._tools, tuple(found.values()))

    def scorer(self, function: ScoringFunction, context: Context) -> Scorer[Any]:
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
            await self.thaw(case.kept, case.image_id)
            return
        devbox = await self._tools.roster.get(case.devbox.id)
        is_running = devbox.status is DevboxStatus.RUNNING
        if is_running:
            await collect(self._tools, case)
        await desk.findings.look_at_processes(self._tools, devbox.id, is_running=is_running)
        await desk.findings.freeze(self._tools, devbox.id, case.image_id, case.working_directory)

    async def _apart(self, desk: Desk) -> tuple[list[ScorerResult], Kept]:
        case = desk.case
        is_cut = False
        try:
            await self._freeze(desk)
            images = Images(case.image_id) if case.isolation == "clean" else await self._answer(desk)
            functions = _functions(case.scenario)
            work = (self._graded(case, each, Apart(desk, images, at)) for at, each in enumerate(functions))
            results = await asyncio.gather(*work)
            return results, Kept(case.kept) if case.kept else await self.finals.keep(case)
        except asyncio.CancelledError:
            # The next server goes on from what is frozen; whoever cancels the run forgets it.
            is_cut = True
            raise
        finally:
            # What is scored from a final state is forgotten by whoever has noted the result.
            if not is_cut and case.kept is None:
                key = f"frozen/{case.image_id}"
                self._tools.work.start(key, partial(self.forget, case.image_id), finish=True)

    async def _answer(self, desk: Desk) -> Images:
        """The image with the answer on what the work began from, or on what the scenario is graded in."""
        case = desk.case
        base = case.scenario.scoring_blueprint_id or case.start_image_id
        rooms, answer = self._tools.host.rooms, _answer_id(case.image_id)
        carried = await rooms.answer_image(case.image_id, _whole(case, "answer_paths"), base, answer)
        desk.findings.refused = list(carried.refused)
        if kept := _whole(case, "answer_excludes"):
            restored = await rooms.answer_image(base, kept, answer, _restored_id(case.image_id))
            answer = _restored_id(case.image_id)
            _require_restored(kept, restored.refused)
        return Images(answer, base)

    async def _inside(self, desk: Desk) -> list[ScorerResult]:
        case = desk.case
        devbox = await self._tools.roster.get(case.devbox.id)
        if devbox.status is DevboxStatus.RUNNING:
            await collect(self._tools, case)
        else:
            raise ScorerFailed(f"a live scenario is scored in its devbox, which is {devbox.status}")
        if desk.unknown:
            raise ScorerFailed(desk.unknown)
        kept = (entrypoint_id(devbox), PTY_PREFIX, SCORING_PREFIX)
        await self._tools.host.rooms.kill_commands(devbox.id, kept)
        await desk.findings.look_at_processes(self._tools, devbox.id, is_running=True)
        await desk.findings.look_at_disk(self._tools, devbox.id, case.working_directory)
        async with scoring_phase(self._tools, devbox, desk.egress):
            return await self._in_turn(desk)

    async def _in_turn(self, desk: Desk) -> list[ScorerResult]:
        functions = enumerate(_functions(desk.case.scenario))
        return [await self._graded(desk.case, each, Inside(desk, index)) for index, each in functions]

    async def _graded(self, case: Case, function: ScoringFunction, stage: Stage) -> ScorerResult:
        """One scorer's result, whatever happens to it."""
        started = time.monotonic()
        fields: dict[str, Any] = {"score": 0.0, "state": "error", "output": ""}
        try:
            async with asyncio.timeout(case.scorer_seconds + _SLACK_SECONDS):
                scripts = await self._scorers.scripts([function])
                texts = {name: each.bash_script for name, each in scripts.items()}
                attached = Attachments(self._tools.objects, case.scenario).content
                verdict = await stage.grade(self.scorer(function, Context(case.facts, texts, attached)))
            fields = {"score": verdict.score, "state": "complete", "output": verdict.output}
            fields |= {"facts": dict(verdict.facts), "rewards": dict(verdict.rewards)}
        except ScorerFailed as error:
            fields |= {"reason": error.message, "output": str(error.details.get("output", ""))}
        except TimeoutError:
            fields["reason"] = f"the scorer was not done after {case.scorer_seconds:g} s"
        except (BenchyardError, OSError) as error:
            told = from_os(error).message if isinstance(error, OSError) else error.message
            fields["reason"] = f"the scorer could not run: {told}"
        if (reason := fields.get("reason")) is not None:
            # Clients of the original show the output and nothing else.
            fields["output"] = f"{fields['output'].rstrip()}\n[benchyard] {reason}\n".lstrip()
        duration = int((time.monotonic() - started) * 1000)
        return ScorerResult(
            scoring_function_name=function.name, weight=function.weight, duration_ms=duration, **fields
        )


def _functions(scenario: Scenario) -> list[ScoringFunction]:
    return scenario.scoring_contract.scoring_function_parameters


def _answer_id(image_id: str) -> str:
    return image_id + _ANSWER


def _restored_id(image_id: str) -> str:
    return image_id + _RESTORED


def _whole(case: Case, field: str) -> list[str]:
    """The paths of a rule, absolute."""
    paths: list[str] = getattr(case.scenario, field) or []
    return [posixpath.normpath(posixpath.join(case.working_directory, path)) for path in paths]


def _require_restored(paths: list[str], refused: list[str]) -> None:
    """Raise ScorerFailed where something the work left keeps a path from being as it was."""
    for each in refused:
        if any(each.startswith(f"{path}: ") for path in paths):
            raise ScorerFailed(f"what is no part of the answer could not be put back: {each}")


def _together(case: Case, results: list[ScorerResult]) -> ContractResult:
    total = sum(each.weight * each.score for each in results)
    return ContractResult(
        # Weights add up to 1 but for what floating point leaves.
        score=min(1.0, max(0.0, round(total, 9))),
        scoring_function_results=results,
        scored_time_ms=now_ms(),
        isolation=case.scenario.scoring_isolation or "clean",
        scenario_revision=case.scenario.revision,
        rewards=_rewards(results),
    )


def _rewards(results: list[ScorerResult]) -> dict[str, float]:
    """What all scorers counted, by name; a name that another one has used is told with the scorer's."""
    found: dict[str, float] = {}
    for each in results:
        for name, amount in each.rewards.items():
            found[f"{each.scoring_function_name}.{name}" if name in found else name] = amount
    return found
