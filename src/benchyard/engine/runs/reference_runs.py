"""Runs of references: show whether a scorer that failed with an answer fails with the right one too."""

import asyncio
import contextlib
import hashlib
import json
import logging
import math
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Protocol
from weakref import WeakValueDictionary

from benchyard.engine.background import retry_store
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.commands import wait_for_completion
from benchyard.engine.devboxes.descriptors import write_content
from benchyard.engine.devboxes.request_checks import NETWORK_KEY
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.devboxes.states import BOOTING
from benchyard.engine.ids import random_id
from benchyard.engine.runs.results import Outcome
from benchyard.engine.runs.scorer_failures import TRIES as SCORER_TRIES
from benchyard.engine.runs.scorer_failures import ReferenceVerdict, is_undecided, judge_by_reference
from benchyard.engine.runs.start import RUN_PREFIX, RunPlan, open_profile
from benchyard.errors import BenchyardError, Conflict, NotFound, UsageError, message_of
from benchyard.hosts.cancellation import run_to_end
from benchyard.hosts.host import ExecRequest
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.launch import KEEP_ALIVE_MAX_SECONDS, LaunchParameters
from benchyard.models.runs import REFERENCE_KEY, RunProfile, ScenarioRun, ScorerResult
from benchyard.models.scenarios import NextRound, Scenario, SetupCause, functions_of, of_round
from benchyard.models.scoring import references

AT_ONCE = 2
"""Most references run at the same time, in addition to the trials that wait for them."""
TRIES = 2
FAILURE_SECONDS = 3600.0
"""Seconds for which a failure with the reference is believed: its cause may have been temporary."""
UNKNOWN_SECONDS = 300.0
"""Seconds until an undecided verdict is tried again."""
_MOST_KEPT = 10_000
_BOOT_SECONDS = 900.0
_APPLY_SECONDS = 1800.0
"""Time limit of a reference if the scenario sets no time for agents."""
_SLACK_SECONDS = 600.0
_FILE = "/run/benchyard/reference"
_SHOWN = 300

_log = logging.getLogger(__name__)


class RunService(Protocol):
    """Operations on scenario runs that a reference needs."""

    async def begin(self, caller: Caller, start: RunPlan) -> ScenarioRun:
        """Begin a run from a complete plan."""

    async def score(self, id: str, request_id: str | None = None, *, is_job: bool = False) -> ScenarioRun:
        """Begin to score a run."""

    async def wait_until_settled(self, id: str) -> ScenarioRun:
        """Return the run once it is not being scored any more."""

    async def complete(self, id: str) -> ScenarioRun:
        """End a scored run and its devbox."""

    async def cancel(self, id: str) -> ScenarioRun:
        """End a run in any state."""


class _NotApplied(Exception):
    """The reference output cannot be applied, so that it proves nothing about the scorers."""


class ReferenceRuns:
    """Tries the references of scenarios, and caches the verdict for each revision."""

    def __init__(self, tools: EngineContext, runs: RunService) -> None:
        self._tools = tools
        self._runs = runs
        self._known: OrderedDict[str, tuple[ReferenceVerdict, float]] = OrderedDict()
        """Verdicts, and the times until which they are believed; a new server finds them again."""
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def judge(self, run: ScenarioRun, scenario: Scenario, outcome: Outcome) -> Outcome:
        """Return the outcome of a run's scoring with the cause of every failure decided."""
        result = outcome.result
        if run.is_reference or not any(map(is_undecided, result.scoring_function_results)):
            return outcome
        return replace(outcome, result=judge_by_reference(result, await self._verdict(run, scenario)))

    async def judge_setup(self, run: ScenarioRun, scenario: Scenario, failure: str) -> tuple[str, SetupCause]:
        """Return a failure to prepare the next step, explained by the reference, and its cause."""
        if run.is_reference:
            return failure, "scenario"
        verdict = await self._verdict(run, scenario)
        if verdict.unknown is not None:
            finding = f"whether it fails after {verdict.name} too could not be found out: {verdict.unknown}"
            return f"{failure}; {finding}", "machine"
        if verdict.next_setup is not None:
            finding = f"it fails after {verdict.name} too ({verdict.next_setup}), so the scenario is to blame"
            return f"{failure}; {finding}", "scenario"
        return failure, "agent"

    async def _verdict(self, run: ScenarioRun, scenario: Scenario) -> ReferenceVerdict:
        """Return the verdict of the reference in the run's round; found once for concurrent callers."""
        key = _key(run, scenario)
        lock = self._asking.setdefault(key, asyncio.Lock())
        async with lock:
            if (known := self._known.get(key)) and known[1] > time.monotonic():
                return known[0]
            async with self._turns:
                verdict = await self._find_out(run, scenario)
            self._known[key] = (verdict, time.monotonic() + _seconds_to_keep(verdict))
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return verdict

    async def _find_out(self, run: ScenarioRun, scenario: Scenario) -> ReferenceVerdict:
        with_start = not of_round(scenario, run.round).reference_output
        unknown = ""
        tries = TRIES
        while tries:
            try:
                async with asyncio.timeout(_longest_seconds(run, scenario)):
                    return await self._try(run, scenario, with_start=with_start)
            except _NotApplied as error:
                _log.warning("the reference of scenario %s: %s; the start is tried", scenario.id, error)
                with_start = True
                continue
            except TimeoutError:
                unknown = "it took too long"
            except (BenchyardError, OSError) as error:
                unknown = message_of(error)
            tries -= 1
        return ReferenceVerdict({}, with_start=with_start, unknown=unknown)

    async def _try(self, run: ScenarioRun, scenario: Scenario, *, with_start: bool) -> ReferenceVerdict:
        """Run a reference once; raises if that is impossible."""
        id = random_id(RUN_PREFIX)
        is_over = False
        start = await self._start(run, scenario, with_start=with_start)
        try:
            begun = await run_to_end(retry_store(self._runs.begin, Caller(id), start))
            devbox = await self._wait_until_booted(begun.devbox_id)
            failures, setup = await self._walk_steps(id, run, scenario, None if with_start else devbox)
            await self._runs.complete(id)
            is_over = True
            return ReferenceVerdict(failures, with_start=with_start, next_setup=setup)
        finally:
            if not is_over:
                with contextlib.suppress(NotFound):
                    await run_to_end(self._runs.cancel(id))

    async def _walk_steps(
        self, id: str, run: ScenarioRun, scenario: Scenario, applied_in: Devbox | None
    ) -> tuple[dict[int, str], str | None]:
        """Go through the steps until the run's own.

        Returns the reasons of its failed scorers by their index, and the reason why the next step could not
        be prepared.
        """
        last = run.round if scenario.steps else 1
        results: list[ScorerResult] = []
        following: NextRound | None = None
        for number in range(1, last + 1):
            if applied_in is not None:
                await self._apply(of_round(scenario, number), applied_in, number)
            await retry_store(self._runs.score, id, f"reference-{number}")
            scored = await self._runs.wait_until_settled(id)
            result = scored.result_of(number)
            if result is None:
                raise Conflict(f"run {id} of the reference is {scored.state}, without a result")
            results = result.scoring_function_results
            following = scored.next_round
            if number == last or following is None or following.number == number or following.failure:
                break
        wrong = {at: each for at, each in enumerate(results) if each.state == "error"}
        for each in wrong.values():
            if each.cause == "machine":
                raise Conflict(each.reason or "a scorer failed")
        if number != last:
            # A reference that never reaches this step shows nothing against its scorers.
            return {}, None
        is_next = following is not None and following.number == last + 1
        setup = following.failure if following is not None and is_next else None
        return {at: each.reason or "" for at, each in wrong.items()}, setup

    async def _start(self, run: ScenarioRun, scenario: Scenario, *, with_start: bool) -> RunPlan:
        """Return a plan like that of the judged run: same variables, secrets, mounts, network and time."""
        try:
            worked_in = await retry_store(self._tools.live_devboxes.get, run.devbox_id)
            mounts = open_profile(RunProfile(mounts=worked_in.mounts), self._tools.vault).mounts
        except NotFound:
            mounts = None
        lifetime = min(KEEP_ALIVE_MAX_SECONDS, int(_longest_seconds(run, scenario)))
        network = run.metadata.get(NETWORK_KEY)
        metadata = {NETWORK_KEY: network} if network else {}
        if not with_start:
            # With a score of 1, its effects beside the work and its number of tests are stored for others.
            metadata[REFERENCE_KEY] = "judging"
        return RunPlan(
            scenario=scenario,
            profile=RunProfile(
                env_vars=run.environment_variables or None,
                secrets=run.secrets or None,
                mounts=mounts or None,
                purpose=f"shows whether the scorers fail with the reference, for run {run.id}",
                launch_parameters=LaunchParameters(keep_alive_time_seconds=lifetime),
            ),
            run_name=f"reference of {scenario.name}"[:200],
            metadata=metadata,
            scorer_multiplier=run.scorer_multiplier,
            is_reference=True,
        )

    async def _wait_until_booted(self, devbox_id: str) -> Devbox:
        devbox = await self._tools.live_devboxes.wait(
            devbox_id, lambda record: record.status not in BOOTING, _BOOT_SECONDS
        )
        if devbox.status is not DevboxStatus.RUNNING:
            detail = devbox.state_transitions[-1].detail or devbox.failure_reason or ""
            raise Conflict(f"the devbox of the reference is {devbox.status}: {detail}")
        return devbox

    async def _apply(self, scenario: Scenario, devbox: Devbox, number: int) -> None:
        """Apply the reference output in a devbox; raises _NotApplied if that fails."""
        command = references.application(scenario.view(), _FILE)
        if not scenario.reference_output or command is None:
            return
        host, isolation = self._tools.host, scenario.scoring_isolation or "clean"
        try:
            opening = host.open_fresh(devbox.id, _FILE, "root", 0o644)
            await write_content(await opening, _FILE, scenario.reference_output.encode())
        except UsageError as error:
            raise _NotApplied(error.message) from error
        request = ExecRequest(
            id=f"reference-{number}",
            command=command,
            timeout_seconds=_apply_seconds(scenario),
            strict=isolation != "live",
        )
        state = await wait_for_completion(self._tools, await host.exec(devbox.id, request))
        if isolation != "live":
            await host.rooms.kill_all(devbox.id)
        if state.exit_status != 0:
            said, _ = await host.tail(devbox.id, state.id, "stderr", 5)
            clean = await scrubber_of(self._tools, devbox.id)
            said = (await asyncio.to_thread(clean.text, said))[-4 * _SHOWN :]
            raise _NotApplied(f"it ended with {state.exit_status}: {' '.join(said.split())[-_SHOWN:]}")


def _key(run: ScenarioRun, scenario: Scenario) -> str:
    """Return the key of a verdict: the revision, the step, and the inputs of the run."""
    given = [run.environment_variables, run.secrets, run.metadata.get(NETWORK_KEY), run.scorer_multiplier]
    step = run.round if scenario.steps else 1
    text = json.dumps([scenario.id, scenario.revision, step, given], sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _seconds_to_keep(verdict: ReferenceVerdict) -> float:
    if verdict.unknown is not None:
        return UNKNOWN_SECONDS
    return FAILURE_SECONDS if verdict.failures or verdict.next_setup else math.inf


def _apply_seconds(scenario: Scenario) -> float:
    return min(scenario.agent_timeout_sec or _APPLY_SECONDS, 2 * _APPLY_SECONDS)


def _longest_seconds(run: ScenarioRun, scenario: Scenario) -> float:
    """Return the total time of a reference."""
    rounds = [of_round(scenario, number) for number in range(1, (run.round if scenario.steps else 1) + 1)]
    scorers = len(functions_of(scenario)) * len(rounds)
    grading = SCORER_TRIES * (scenario.scorer_seconds * run.scorer_multiplier + _SLACK_SECONDS)
    return _BOOT_SECONDS + sum(map(_apply_seconds, rounds)) + scorers * grading
