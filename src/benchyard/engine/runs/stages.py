"""Where one scorer grades: in a fresh devbox from what was frozen, or in the one that was worked in."""

import contextlib
import logging
import secrets
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
from benchyard.engine.runs.rooms import Place, room_in
from benchyard.engine.runs.tamper import Findings
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError, NotFound, ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.hosts.rooms import Opened
from benchyard.models.devboxes import Devbox
from benchyard.models.network_policies import Egress
from benchyard.models.runs import FinalState, ScenarioRun
from benchyard.models.scenarios import Scenario
from benchyard.models.trials import TrialNetwork
from benchyard.scorers.base import Room, Scorer, Verdict

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
    trajectory: bytes | None = field(default=None, repr=False)
    """What was uploaded as the trajectory of the run, for scorers to read."""
    kept: FinalState | None = None
    """What is scored, where that is not a devbox any more."""

    @property
    def scorer_seconds(self) -> float:
        """The time each scorer has."""
        return self.scenario.scorer_seconds * self.run.scorer_multiplier

    @property
    def isolation(self) -> str:
        """How it is kept apart from who made it."""
        return self.scenario.scoring_isolation or "clean"

    @property
    def working_directory(self) -> str:
        """Where the work was done: as the devbox was when it began, whatever it says of itself by now."""
        home = self.devbox.purpose.home if self.devbox.purpose else None
        return self.scenario.working_directory or home or usual_home(self.user)

    @property
    def image_id(self) -> str:
        """What the disk is frozen as."""
        return frozen_id(self.run)

    @property
    def start_image_id(self) -> str:
        """What the disk looked like when the work began; only `answer` keeps that."""
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

    async def room_place(self, devbox_id: str, index: int) -> Place:
        """Where a scorer of this case works."""
        given = {}
        for name, secret in (self.case.scenario.scoring_secrets or {}).items():
            given[name] = await self._secret(secret)
        return Place(
            devbox_id=devbox_id,
            user=self.case.user,
            working_directory=self.case.working_directory,
            seconds=self.case.scorer_seconds,
            env=given,
            label=f"{self.case.run.scorings}-{index}",
        )

    async def _secret(self, name: str) -> str:
        try:
            return await until_kept(partial(self.tools.secrets.value, name))
        except NotFound as error:
            raise ScorerFailed(f"the scenario's scorers need a secret: {error.message}") from error

    async def watched(self, scorer: Scorer[Any], devbox_id: str, room: Room) -> Verdict:
        """Let a scorer grade, and note which changed files are opened meanwhile."""
        if self.case.trajectory is not None:
            path = await room.keep("trajectory.json", self.case.trajectory)
            scorer.context = replace(scorer.context, facts={**self.case.facts, "trajectory_path": path})
        paths = self.findings.watched()
        if paths is None:
            self.findings.saw(None)
            return await scorer.score(room)
        opened: Opened | None = None
        try:
            async with self.tools.host.rooms.watch_opens(devbox_id, paths) as opened:
                return await scorer.score(room)
        finally:
            # One that failed has opened files too.
            self.findings.saw(opened.paths if opened else None)


class Stage(ABC):
    """Where one scorer grades."""

    @abstractmethod
    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        """Its verdict; raises ScorerFailed."""


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
        kits = await scorer.kits(self._desk.kits)
        if not scorer.draws:
            async with self._room(self._images.answer, kits) as (devbox_id, room):
                return await self._desk.watched(scorer, devbox_id, room)
        if self._images.base is None:
            raise ScorerFailed("this scorer needs scoring_isolation `answer`: it grades a drawn answer alone")
        async with self._room(self._images.answer, kits) as (_, room):
            scorer.answer = await scorer.draw(room)
        async with self._room(self._images.base, kits) as (devbox_id, room):
            return await self._desk.watched(scorer, devbox_id, room)

    @contextlib.asynccontextmanager
    async def _room(self, image: str, kits: tuple[Kit, ...]) -> AsyncIterator[tuple[str, Room]]:
        tools = self._desk.tools
        # Never one that an earlier server began with: that one is being cleared away.
        devbox_id = f"{self._desk.case.image_id}-{self._index}-{secrets.token_hex(4)}"
        record = self._record(devbox_id, image)
        try:
            request = replace(await start_request(tools, record), mounts=mounts_of(tools, kits))
            await tools.host.start(request)
            await open_door(tools, record)
            place = await self._desk.room_place(devbox_id, self._index)
            async with room_in(tools, place) as room:
                yield devbox_id, room
        finally:
            # Nobody waits for its end: the verdict is there.
            tools.work.start(f"room/{devbox_id}", partial(_end_room, tools, devbox_id), finish=True)

    def _record(self, devbox_id: str, image: str) -> Devbox:
        """As the devbox that was worked in: same user, variables and size; no secrets, another network."""
        if self._desk.unknown:
            raise ScorerFailed(self._desk.unknown)
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
        await scorer.kits(self._desk.kits)
        place = await self._desk.room_place(devbox_id, self._index)
        stays = not self._desk.tools.host.pretends
        async with room_in(self._desk.tools, place, stays=stays) as room:
            return await self._desk.watched(scorer, devbox_id, room)


async def _end_room(tools: Tools, devbox_id: str) -> None:
    await end_devbox(tools, devbox_id)
    try:
        await close_door(tools, devbox_id)
    except BenchyardError as error:
        # Whoever serves it is told by the next server.
        _log.warning("the door of room %s could not be closed: %s", devbox_id, error)


def mounts_of(tools: Tools, kits: tuple[Kit, ...]) -> tuple[Shown, ...]:
    """What a devbox shows of the host for scorers; raises ScorerFailed where the driver cannot."""
    capabilities, _ = tools.host.report()
    if kits and Capability.MOUNTS not in capabilities:
        raise ScorerFailed("this scorer needs a driver that can show folders; use the native driver")
    return tuple(Shown(kit.source, kit.target) for kit in kits)
