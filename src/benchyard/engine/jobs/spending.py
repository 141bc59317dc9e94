"""What an agent spent on models: the time it waited for them, what it used, and what they said."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass

from benchyard.devboxes.base import Kill
from benchyard.engine.jobs.cutting import about_of
from benchyard.engine.jobs.turn import AGENT_EXECUTION
from benchyard.engine.jobs.way import Way, prompt_of, scrubber
from benchyard.engine.journal import now_ms
from benchyard.engine.runs.spending import Telling, usage_of
from benchyard.errors import BenchyardError
from benchyard.hosts.host import ExecutionState

_log = logging.getLogger(__name__)


@dataclass
class Bell:
    """Rings when the agent's time is over, which is later by what it had to wait for its provider."""

    rang: bool = False


@contextlib.asynccontextmanager
async def ringing(way: Way, seconds: float, state: ExecutionState) -> AsyncIterator[Bell]:
    """While this is open, the agent is ended when its time and its waits are over.

    The devbox itself would end it too, but only when all the waiting is over that could have been.
    """
    bell = Bell()
    if way.cast.route is None:
        yield bell
        return
    if state.status == "completed":
        bell.rang = await _was_rung(way, seconds, state)
        yield bell
        return
    # An agent that an earlier server began has what is left of its time.
    ran = max(0.0, (now_ms() - state.start_ms) / 1000)
    ringer = asyncio.create_task(_ring(way, seconds - ran, bell))
    try:
        yield bell
    finally:
        ringer.cancel()
        await asyncio.gather(ringer, return_exceptions=True)


async def _ring(way: Way, seconds: float, bell: Bell) -> None:
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    await asyncio.sleep(seconds)
    left = end + await _waited(way) - clock()
    while left > 0:
        await asyncio.sleep(left)
        left = end + await _waited(way) - clock()
    bell.rang = True
    try:
        await way.desk.tools.host.control(way.the_devbox.id, way.numbered(AGENT_EXECUTION), Kill(tree=True))
    except BenchyardError as error:
        # It has ended meanwhile, or the devbox itself ends it in a while.
        _log.info("trial %s: its agent could not be ended: %s", way.trial.id, error)


async def _waited(way: Way) -> float:
    try:
        waited_ms = (await way.desk.access.grants.spent(way.trial.id)).rate_limited_ms
        # Steps have a time each; what was waited for in others is theirs.
        return (waited_ms if way.is_shared else waited_ms - way.waited_ms) / 1000
    except BenchyardError as error:
        _log.warning("trial %s: how long it waited is not known: %s", way.trial.id, error)
        return 0.0


async def _was_rung(way: Way, seconds: float, state: ExecutionState) -> bool:
    """Whether an earlier server ended the agent because its time was over, and could not note it any more."""
    ran = ((state.end_ms or 0) - state.start_ms) / 1000
    return state.signal == signal.SIGKILL and ran >= seconds + await _waited(way)


async def settle(way: Way, printed: str = "") -> None:
    """Take the agent's access away, and keep what it spent and said with the run."""
    if way.cast.route is None:
        return
    trial, task = way.trial, way.task()
    prompt = prompt_of(way.scenario) if task.continues else task.prompt
    about = about_of(way.config, trial, prompt)
    telling = Telling(about, await scrubber(way), way.cast.agent.trailing(printed), number=way.round)
    spent = await way.desk.access.spending.settle(str(trial.scenario_run_id), trial.id, telling)
    way.last_error = spent.last_error
    way.note(usage=usage_of(spent))
    if spent.over_budget:
        way.end_by("budget")
