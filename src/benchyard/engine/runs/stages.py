"""Where one scorer grades: in a fresh devbox from what was frozen, or in the one that was worked in."""

import contextlib
import logging
import posixpath
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchyard.devboxes.base import Capability, Shown
from benchyard.engine.boot import PRISTINE, start_request
from benchyard.engine.build_steps import end_devbox
from benchyard.engine.egress import close_door, open_door, planned
from benchyard.engine.homes import usual_home
from benchyard.engine.network_plans import phased, plan_of
from benchyard.engine.origins import DEFAULT_IMAGE
from benchyard.engine.runs.conditions import Conditions
from benchyard.engine.runs.rooms import AnswerUser, DevboxRoom, Place, room_in
from benchyard.engine.runs.tamper import Findings, Work
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError, Conflict, NotFound, ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.hosts.rooms import Opened
from benchyard.models.devboxes import Devbox
from benchyard.models.network_policies import Egress
from benchyard.models.runs import REFERENCE_KEY, FinalState, ScenarioRun
from benchyard.models.scenarios import Isolation, Scenario, ScenarioEnvironment
from benchyard.models.trials import TrialNetwork
from benchyard.scorers.base import ProgramOptions, Room, Scorer, Verdict
from benchyard.scorers.kits import answer_command, python_kit, start_tools

_log = logging.getLogger(__name__)


def frozen_id(run: ScenarioRun) -> str:
    """The id of the image that the disk of a run is frozen as, for its present scoring."""
    return f"{run.id}-{run.scorings}"


@dataclass(frozen=True)
class Case:
    """One run to be scored, and what is known about it."""

    run: ScenarioRun
    scenario: Scenario
    devbox: Devbox
    facts: Mapping[str, object] = field(default_factory=dict)
    trajectory: str | None = None
    """The id of the object that was uploaded as the trajectory of the run, for scorers to read."""
    kept: FinalState | None = None
    """What is scored, where that is not a devbox any more."""

    @property
    def scorer_seconds(self) -> float:
        """The time each scorer has."""
        return self.scenario.scorer_seconds * self.run.scorer_multiplier

    @property
    def isolation(self) -> Isolation:
        """How it is kept apart from who made it."""
        return self.scenario.isolation

    @property
    def working_directory(self) -> str:
        """Where the work was done: as the devbox was when it began, whatever it says of itself by now."""
        return self.scenario.working_directory or self.home

    @property
    def home(self) -> str:
        """The home of the user, as it was when the devbox began."""
        home = self.devbox.purpose.home if self.devbox.purpose else None
        return home or usual_home(self.user)

    @property
    def work(self) -> Work:
        """Where the work lies, and what of the disk scorers get."""
        answer = self.whole("answer_paths")
        if self.isolation == "answer":
            return Work((self.working_directory, *answer), carried=answer)
        return Work(
            (self.working_directory, *answer) if self.isolation == "system" else (self.working_directory,),
            home=self.home,
        )

    def whole(self, field: str) -> tuple[str, ...]:
        """The paths of one of the scenario's rules, absolute."""
        paths: list[str] = getattr(self.scenario, field) or []
        return tuple(posixpath.normpath(posixpath.join(self.working_directory, path)) for path in paths)

    @property
    def is_reference(self) -> bool:
        """Whether the reference output was applied, and nothing else done."""
        return REFERENCE_KEY in self.run.metadata

    @property
    def image_id(self) -> str:
        """What the disk is frozen as."""
        return frozen_id(self.run)

    @property
    def start_image_id(self) -> str:
        """What the disk looked like when the work began; only scenarios that `keeps_start` have that."""
        return (self.kept and self.kept.start_image_id) or self.devbox.id + PRISTINE

    @property
    def user(self) -> str:
        """Who the work was done as."""
        user = self.devbox.launch_parameters.user_parameters
        return user.username if user else "user"


@dataclass(frozen=True)
class Desk:
    """What every stage of one scoring works with."""

    tools: Tools
    kits: Kits
    case: Case
    findings: Findings
    egress: Egress | None = None
    """What scorers may reach; None where the scenario does not say."""
    unknown: str | None = None
    """Why it is not known what they may reach."""
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def network(self) -> TrialNetwork | None:
        """What scorers reach, in a word; None where nothing is run."""
        if self.tools.host.pretends or self.unknown:
            return None
        devbox = self.case.devbox
        if self.case.isolation != "live":
            return plan_of(self.egress or Egress()).word(asks_models=False)
        switches = devbox.purpose is not None and devbox.purpose.agent_egress is not None
        plan = phased(self.egress) if switches and self.egress else planned(self.tools, devbox)
        return plan.word(asks_models=False)

    async def room_place(self, devbox_id: str, index: int, scorer: Scorer[Any] | None) -> Place:
        """Where a scorer of this case works."""
        offered, user = None, scorer.user if scorer else None
        if user is not None and not self.tools.host.pretends:
            kit = await answer_command.kit(self.kits)
            offered = AnswerUser(self.case.user, python_kit.program(kit.target))
        given = {}
        for name, secret in (self.case.scenario.scoring_secrets or {}).items():
            given[name] = await self._secret(secret)
        return Place(
            devbox_id=devbox_id,
            user=user or self.case.user,
            working_directory=self.case.working_directory,
            seconds=self.case.scorer_seconds,
            env=given,
            label=f"{self.case.run.scorings}-{index}",
            answer=offered,
        )

    async def _secret(self, name: str) -> str:
        try:
            return await until_kept(partial(self.tools.secrets.value, name))
        except NotFound as error:
            told = f"the scenario's scorers need a secret: {error.message}"
            raise ScorerFailed(told, cause="machine") from error

    async def make_kits(self, scorer: Scorer[Any]) -> tuple[Kit, ...]:
        """What a scorer must be shown; raises ScorerFailed, which is no answer's: none was looked at."""
        try:
            return await kits_of(scorer, self.kits)
        except ScorerFailed as error:
            raise ScorerFailed(error.message, cause=error.cause or "machine", **error.details) from error

    async def watched(self, scorer: Scorer[Any], devbox_id: str, room: DevboxRoom) -> Verdict:
        """Let a scorer grade, and note which changed files are opened meanwhile."""
        if path := await self._keep_trajectory(room):
            scorer.context = replace(scorer.context, facts={**self.case.facts, "trajectory_path": path})
        began = time.monotonic()
        try:
            return await self._graded(scorer, devbox_id, room)
        finally:
            is_late = time.monotonic() - began >= self.case.scorer_seconds
            self.conditions.look_at_load(
                "the scorer's time ran out while" if is_late else "while it was scored"
            )
            await self.conditions.look_at_network(self.tools, devbox_id, "while it was scored")

    async def _keep_trajectory(self, room: DevboxRoom) -> str | None:
        """Put the run's trajectory into a room, piece by piece; its path, None where there is none."""
        if self.case.trajectory is None:
            return None
        try:
            _, pieces = await self.tools.objects.content(self.case.trajectory)
        except (NotFound, Conflict):
            return None
        return await room.keep_pieces("trajectory.json", pieces)

    async def _graded(self, scorer: Scorer[Any], devbox_id: str, room: Room) -> Verdict:
        paths = self.findings.watched()
        if not paths:
            self.findings.saw(None if self.findings.changes is None else [])
            verdict = await scorer.score(room)
            self.findings.put_below(room.guarded)
            return verdict
        opened: Opened | None = None
        try:
            async with self.tools.host.rooms.watch_opens(devbox_id, paths) as opened:
                return await scorer.score(room)
        finally:
            # One that failed has opened files too.
            self.findings.saw(opened.paths if opened else None, opened.unwatched if opened else ())
            self.findings.put_below(room.guarded)


class Stage(ABC):
    """Where one scorer grades."""

    @abstractmethod
    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        """Its verdict; raises ScorerFailed."""

    @abstractmethod
    async def has_sound_machine(self) -> bool:
        """Whether the machine can hold such a devbox right now; if not, the answer did not break it."""


@dataclass(frozen=True)
class Images:
    """What rooms apart from the devbox that was worked in are made from."""

    answer: str
    """What the work left, or what of it is graded."""
    base: str | None = None
    """Without the answer; None where all of what was left is graded."""


class Apart(Stage):
    """A fresh devbox from an image, for this scorer alone: none sees what another one left."""

    def __init__(self, desk: Desk, images: Images, index: int) -> None:
        self._desk = desk
        self._images = images
        self._index = index

    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        kits = await self._desk.make_kits(scorer)
        if not scorer.draws:
            is_whole_disk = self._images.base is None
            own = await self._start_tools() if scorer.uses_shell and is_whole_disk else None
            shown = (*kits, own) if own else kits
            async with self._room(self._images.answer, shown, scorer) as (devbox_id, room):
                room.tools = own.target if own else None
                return await self._desk.watched(scorer, devbox_id, room)
        if self._images.base is None:
            told = "this scorer needs scoring_isolation `answer`: it grades a drawn answer alone"
            raise ScorerFailed(told, cause="scorer")
        async with self._room(self._images.answer, kits, scorer) as (_, room):
            scorer.answer = await scorer.draw(room)
        async with self._room(self._images.base, kits, scorer) as (devbox_id, room):
            return await self._desk.watched(scorer, devbox_id, room)

    async def has_sound_machine(self) -> bool:
        try:
            async with self._room(self._start_image(), ()) as (_, room):
                return not (
                    await room.run(("/bin/sh", "-c", ":"), ProgramOptions(cwd="/", user="root"))
                ).timed_out
        except (BenchyardError, OSError) as error:
            _log.warning("a room without an answer did not come up either: %s", error)
            return False

    def _start_image(self) -> str:
        """What the work began from, as far as that is still known."""
        case = self._desk.case
        if self._images.base is not None or case.kept is None:
            return self._images.base or case.devbox.image
        environment = case.scenario.environment or ScenarioEnvironment()
        return environment.blueprint_id or environment.snapshot_id or DEFAULT_IMAGE

    async def _start_tools(self) -> Kit | None:
        """The shell and tools of what the devbox began from; None where they cannot be had or shown."""
        tools, case = self._desk.tools, self._desk.case
        capabilities, _ = tools.host.report()
        kept = case.kept.start_image_id if case.kept else None
        if Capability.MOUNTS not in capabilities or (case.kept and kept is None):
            return None
        try:
            image = await tools.images.get(kept) if kept else await tools.images.held(case.devbox.id)
            rootfs = tools.images.rootfs(image or await tools.host.image(case.devbox.image))
            return await start_tools.make(rootfs, self._desk.kits)
        except (BenchyardError, OSError) as error:
            _log.warning("run %s is graded without the tools of its start: %s", case.run.id, error)
            return None

    @contextlib.asynccontextmanager
    async def _room(
        self, image: str, kits: tuple[Kit, ...], scorer: Scorer[Any] | None = None
    ) -> AsyncIterator[tuple[str, DevboxRoom]]:
        tools = self._desk.tools
        # Never one that an earlier server began with: that one is being cleared away.
        devbox_id = f"{self._desk.case.image_id}-{self._index}-{secrets.token_hex(4)}"
        record = self._record(devbox_id, image)
        try:
            tracing = bool(self._desk.case.scenario.scoring_tracing)
            request = replace(
                await start_request(tools, record), mounts=mounts_of(tools, kits), tracing=tracing
            )
            await tools.host.start(request)
            await open_door(tools, record)
            if scorer is not None:
                # Before its time begins.
                await self._desk.findings.looked()
            place = await self._desk.room_place(devbox_id, self._index, scorer)
            async with room_in(tools, place) as room:
                yield devbox_id, room
        finally:
            # Nobody waits for its end: the verdict is there.
            tools.work.start(f"room/{devbox_id}", partial(_end_room, tools, devbox_id), finish=True)

    def _record(self, devbox_id: str, image: str) -> Devbox:
        """As the devbox that was worked in: same user, variables and size; no secrets, another network."""
        if self._desk.unknown:
            raise ScorerFailed(self._desk.unknown, cause="machine")
        own = {"id": devbox_id, "image": image, "egress": self._desk.egress or Egress()}
        return self._desk.case.devbox.model_copy(update={**own, "secrets": {}, "purpose": None})


class Inside(Stage):
    """The devbox that was worked in, for scenarios whose result is something that runs there."""

    def __init__(self, desk: Desk, index: int) -> None:
        self._desk = desk
        self._index = index

    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        devbox_id = self._desk.case.devbox.id
        # The devbox shows them since it began.
        await self._desk.make_kits(scorer)
        place = await self._desk.room_place(devbox_id, self._index, scorer)
        stays = not self._desk.tools.host.pretends
        async with room_in(self._desk.tools, place, stays=stays) as room:
            return await self._desk.watched(scorer, devbox_id, room)

    async def has_sound_machine(self) -> bool:
        devbox_id = self._desk.case.devbox.id
        return devbox_id in self._desk.tools.host.running()


async def _end_room(tools: Tools, devbox_id: str) -> None:
    await end_devbox(tools, devbox_id)
    try:
        await close_door(tools, devbox_id)
    except BenchyardError as error:
        # Whoever serves it is told by the next server.
        _log.warning("the door of room %s could not be closed: %s", devbox_id, error)


async def kits_of(scorer: Scorer[Any], kits: Kits) -> tuple[Kit, ...]:
    """What a devbox must show for a scorer: what it asks for, and what the room offers to it."""
    found = {kit.target: kit for kit in await scorer.kits(kits)}
    if scorer.user is not None:
        offered = await answer_command.kit(kits)
        found[offered.target] = offered
    return tuple(found.values())


def mounts_of(tools: Tools, kits: tuple[Kit, ...]) -> tuple[Shown, ...]:
    """What a devbox shows of the host for scorers; raises ScorerFailed where the driver cannot."""
    capabilities, _ = tools.host.report()
    if kits and Capability.MOUNTS not in capabilities:
        told = "this scorer needs a driver that can show folders; use the native driver"
        raise ScorerFailed(told, cause="machine")
    return tuple(Shown(kit.source, kit.target) for kit in kits)
