"""Judges of trials: begun by a request, carried on in the background and by the next server, paid for once.

A judgement is kept under an id that follows from its trial, evidence, model and instructions: whoever asks
for the same again finds it. What is left of a judge run after a kill is asked for, and nothing twice.
"""

import asyncio
import json
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal
from weakref import WeakValueDictionary

from sqlalchemy import Connection, delete

from benchyard.engine.background import judge_key, retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.jobs.evidence import EvidenceBatch, TrialEvidence
from benchyard.engine.jobs.service import Jobs
from benchyard.engine.judge.dialect_requests import ModelQuestion, SaidText
from benchyard.engine.judge.gateway_model import BudgetSpent, CallUnanswered, GatewayModel, ModelRefused
from benchyard.engine.judge.instructions import ANSWER_SCHEMA, INSTRUCTIONS, instructions_digest, refusal
from benchyard.engine.judge.replies import JudgeReply, read_judge_reply
from benchyard.engine.judge.trial_versions import trial_version
from benchyard.engine.network.gateway_access import SERVERS_OWN, Grants
from benchyard.engine.network.model_routes import ModelKeys, ModelRoute
from benchyard.engine.runs.model_access import gateway_budget
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import BenchyardError, Conflict, NotFound, UsageError, message_of
from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.grants import Grant, GrantUsage, Upstream
from benchyard.models.job_plans import count_text
from benchyard.models.jobs import Job
from benchyard.models.model_access import Budget
from benchyard.models.reports.judgements import (
    USUAL_BUDGET_TOKENS,
    USUAL_BUDGET_USD,
    JudgeCounts,
    Judgement,
    JudgementsView,
    JudgementView,
    JudgeRequest,
    JudgeRun,
    JudgeRunState,
    JudgeUsage,
)
from benchyard.models.trials import Trial
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from benchyard.store.tables import TABLES
from benchyard.workers.workers import WorkerLimits

JUDGE_RUN_PREFIX = "jdr_"
JUDGEMENT_PREFIX = "jdg_"
TOKEN_PREFIX = "gws_"  # noqa: S105  (prefix of tokens)
AT_ONCE = 4
MOST_UNANSWERED = 3
"""Trials without an answer, one after the other, after which a judge run ends."""
MOST_TOKENS = 8000
"""Most tokens of an answer, with the reasoning of models that reason."""
_SHOWN_RUNS = 20
_TRIES = 2
_MOST_REPEATED = 4000
"""Characters of an answer that was not valid which the model is shown again."""
_WAIT_SECONDS = 240.0
"""Seconds that the gateway may wait for the provider's rate limit: fewer than an answer may take."""
_VALID_MS = 24 * 3600 * 1000
_CHOICE = "benchyard.reports.judge.choice:choose_trials"
_EVIDENCE = "benchyard.reports.judge.evidence_document:make_evidence"
_COST = "benchyard.engine.judge.call_costs:call_cost"
_CHOICE_LIMITS = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=1024**2)
_EVIDENCE_LIMITS = WorkerLimits(seconds=120.0, memory_bytes=4 * 1024**3, output_bytes=8 * 1024**2)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Evidence:
    """Evidence on a trial as a worker made it."""

    trial: Trial
    document: str
    digest: str
    shown: Mapping[str, Sequence[str]]
    last_step: int


@dataclass(frozen=True)
class _Outcome:
    """The end of judging one trial."""

    kind: Literal["judged", "known", "refused", "unanswered", "unpaid"]
    reason: str | None = None


@dataclass(frozen=True)
class _Pass:
    """A judge run under way, with the model that it asks."""

    run: JudgeRun
    job: Job
    model: GatewayModel
    upstream: Upstream


class Judges:
    """The judge runs and judgements of all jobs."""

    def __init__(
        self,
        tools: EngineContext,
        store: Store,
        jobs: Jobs,
        evidence: TrialEvidence,
        scenarios: Scenarios,
        keys: ModelKeys,
        grants: Grants,
    ) -> None:
        self.runs: Collection[JudgeRun] = store.collection("judge_runs", JudgeRun)
        self.judgements: Collection[Judgement] = store.collection("judgements", Judgement)
        self._tools = tools
        self._store = store
        self._jobs = jobs
        self._evidence = evidence
        self._scenarios = scenarios
        self._keys = keys
        self._grants = grants
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self) -> None:
        """Go on with the judge runs that an earlier server did not finish."""
        for run in await self.runs.all({"status": "running"}):
            if run.instructions == instructions_digest():
                self._start(run)
            else:
                note = "this version of the server has other instructions for judges; judge again to go on"
                await self._end(run.id, "stopped", note)

    async def begin(
        self, asked: Caller, job: Job, request: JudgeRequest, agents: Sequence[int] | None
    ) -> JudgeRun:
        """Choose trials and begin to judge them; the same request again returns the same judge run.

        Raises UsageError for an unknown provider, a missing key or a budget that cannot be kept, Conflict
        while another judge run of the job is under way.
        """
        existing = await self.runs.find(asked.id)
        if existing is not None:
            if existing.request_hash != asked.request_hash:
                raise UsageError("this x-request-id was used with another body; send a new one")
            return existing
        choice = self._keys.choice(request.model, request.provider)
        if not choice.model:
            raise UsageError("name the model, such as claude-sonnet-4-5", field="model")
        route = await self._keys.own_route(choice, request.secret)
        upstream = await self._keys.upstream(route, request.base_url)
        run = JudgeRun(
            id=asked.id,
            create_time_ms=now_ms(),
            request_hash=asked.request_hash,
            job_id=job.id,
            provider=route.provider,
            model=route.model,
            variable=route.variable,
            secret=route.secret,
            base_url=request.base_url,
            only=request.only,
            budget=_budget(request.budget, upstream),
            instructions=instructions_digest(),
        )
        async with self._locks.setdefault(job.id, asyncio.Lock()):
            running = await self.runs.all({"parent": job.id, "status": "running"})
            if running:
                raise Conflict(
                    f"a judge is at work on job {job.id} already; wait for it, or stop it: "
                    f"`benchyard job judge {job.id} --stop`",
                    run_id=running[0].id,
                )
            run = run.model_copy(update=await self._choice(job, request, agents))
            run, is_new = await self.runs.insert_once(run)
        if is_new:
            self._start(run)
        return run

    async def stop(self, job: Job) -> list[JudgeRun]:
        """End the judge runs of a job that are under way; their judgements stay."""
        stopped = []
        for run in await self.runs.all({"parent": job.id, "status": "running"}):
            await self._tools.work.cancel(judge_key(run.id))
            note = "it was stopped; judge again to go on"
            stopped.append(await self._end(run.id, "stopped", note))
        return stopped

    async def view(self, job: Job, trial_id: str | None) -> JudgementsView:
        """Return the judgements of a job or of one trial, without their agreement with people's labels."""
        where = {"parent": job.id} if trial_id is None else {"parent": job.id, "name": trial_id}
        kept = await self.judgements.all(where)
        ids = sorted({each.trial_id for each in kept})
        trials = {each.id: each for each in await self._jobs.trials_by_ids(job.id, ids)}
        newest: dict[tuple[str, str, str], JudgementView] = {}
        for each in sorted(kept, key=lambda one: -one.create_time_ms):
            if (trial := trials.get(each.trial_id)) is not None:
                newest.setdefault((each.trial_id, each.provider, each.model), _view(each, trial))
        views = sorted(
            newest.values(), key=lambda one: (one.scenario_name, one.agent, one.attempt, one.model)
        )
        runs = sorted(await self.runs.all({"parent": job.id}), key=lambda one: -one.create_time_ms)
        return JudgementsView(
            job_id=job.id,
            job_name=job.name,
            runs=[each.view() for each in runs[:_SHOWN_RUNS]],
            judgements=views,
        )

    async def forget(self, job_id: str) -> None:
        """Remove the judge runs and judgements of a job that is deleted."""
        for run in await self.runs.all({"parent": job_id}):
            await self._tools.work.cancel(judge_key(run.id))
            await self._close(run.id)
        tables = [TABLES[name] for name in ("judge_runs", "judgements")]

        def work(connection: Connection) -> None:
            for table in tables:
                connection.execute(delete(table).where(table.c.parent == job_id))

        await self._store.write_whole(work)

    async def _choice(
        self, job: Job, request: JudgeRequest, agents: Sequence[int] | None
    ) -> dict[str, object]:
        """Return the fields of a judge run that tell what it judges; raises Conflict if that is nothing."""
        descriptor = os.memfd_create("trials", os.MFD_CLOEXEC)
        try:
            await self._jobs.write_trials(job.id, descriptor)
            size = os.fstat(descriptor).st_size
            os.lseek(descriptor, 0, os.SEEK_END)
            await self._evidence.copy(job.id, descriptor)
            given = {
                "size": size,
                "job": job.model_dump(mode="json"),
                "only": request.only,
                "agents": None if agents is None else list(agents),
                "scenario": request.scenario,
                "limit": request.limit,
            }
            found = json.loads(await self._tools.workers.call(_CHOICE, descriptor, given, _CHOICE_LIMITS))
        finally:
            os.close(descriptor)
        if not found["chosen"]:
            raise Conflict(_nothing_to_judge(job, found))
        ids = [id for id, _ in found.pop("chosen")]
        return {"trial_ids": ids, **found}

    def _start(self, run: JudgeRun) -> None:
        self._tools.work.start(judge_key(run.id), partial(self._carry_out, run))

    async def _carry_out(self, run: JudgeRun) -> None:
        """Judge the chosen trials; an ending server leaves the rest to the next."""
        try:
            job = await retry_store(self._jobs.get, run.job_id)
            route = ModelRoute(run.provider, run.model, run.variable, run.secret)
            upstream = await retry_store(self._keys.upstream, route, run.base_url)
            grant = Grant(
                id=run.id,
                token=TOKEN_PREFIX + self._tools.vault.derive("judges", run.id).hex(),
                devbox_id=SERVERS_OWN + run.id,
                upstreams={run.provider: upstream},
                expires_ms=now_ms() + _VALID_MS,
                budget=gateway_budget(run.budget),
                wait_seconds=_WAIT_SECONDS,
            )
            await self._grants.open(grant)
            note = await self._judge_all(
                _Pass(run, job, GatewayModel(self._grants, grant, run.provider), upstream)
            )
        except ModelRefused as error:
            await self._end(run.id, "failed", error.message)
        except (BenchyardError, OSError) as error:
            await self._end(run.id, "failed", message_of(error))
        except Exception:  # noqa: BLE001
            # A bug must not leave a judge at work for ever.
            _log.exception("judge run %s failed", run.id)
            await self._end(run.id, "failed", "the server made a mistake; its log tells which")
        else:
            await self._end(run.id, "completed", note)

    async def _judge_all(self, under_way: _Pass) -> str | None:
        """Judge the trials of a run, some at the same time; return why some are left out.

        The first is judged alone: its cost tells how many the budget has room for at the same time.
        """
        run = under_way.run
        waiting, counts, width, silent = list(run.trial_ids), JudgeCounts(), 1, 0
        while waiting:
            wave, waiting = waiting[:width], waiting[width:]
            ended = await asyncio.gather(*(self._judge_one(under_way, each) for each in wave))
            spent = await self._grants.spent(run.id)
            counts = _counted(counts, ended)
            await retry_store(self.runs.change, run.id, partial(_with_progress, counts, spent))
            for each in ended:
                silent = silent + 1 if each.kind == "unanswered" else 0
            last = ended[-1]
            if any(each.kind == "unpaid" for each in ended):
                return next(each.reason for each in ended if each.kind == "unpaid")
            if silent >= MOST_UNANSWERED:
                raise ModelRefused(f"{silent} trials in a row had no answer: {last.reason}")
            width = _width(run.budget, spent, counts)
        return None

    async def _judge_one(self, under_way: _Pass, trial_id: str) -> _Outcome:
        run = under_way.run
        try:
            evidence = await self._evidence_on(under_way.job, trial_id)
        except (BenchyardError, OSError) as error:
            _log.warning("judge run %s: no evidence on trial %s: %s", run.id, trial_id, message_of(error))
            return _Outcome("unanswered", "the evidence could not be read")
        id = self._judgement_id(run, evidence)
        known = await retry_store(self.judgements.find, id)
        if known is not None:
            return _Outcome("judged" if known.run_id == run.id else "known")
        try:
            judgement = await self._ask(under_way, id, evidence)
        except BudgetSpent as error:
            return _Outcome("unpaid", error.message)
        except CallUnanswered as error:
            _log.info("judge run %s: trial %s is not judged: %s", run.id, trial_id, error.message)
            return _Outcome("unanswered", error.message)
        if judgement is None:
            return _Outcome("refused")
        await retry_store(self.judgements.insert_once, judgement)
        return _Outcome("judged")

    async def _ask(self, under_way: _Pass, id: str, evidence: _Evidence) -> Judgement | None:
        """Ask the model, a second time if its answer is not valid; None if neither is."""
        messages = [SaidText("user", evidence.document)]
        used, calls = TokenUsage(), 0
        for _ in range(_TRIES):
            question = ModelQuestion(under_way.run.model, INSTRUCTIONS, messages, ANSWER_SCHEMA, MOST_TOKENS)
            answer = await under_way.model.ask(question)
            used, calls = used + answer.usage, calls + 1
            try:
                read = await asyncio.to_thread(
                    read_judge_reply, answer.text, evidence.shown, evidence.last_step
                )
            except UsageError as error:
                said = answer.text[:_MOST_REPEATED] or "(nothing)"
                messages = [*messages, SaidText("model", said), SaidText("user", refusal(error.message))]
                continue
            usage = await self._usage(under_way, used, calls)
            return _judgement(id, under_way.run, evidence, read, usage)
        return None

    async def _usage(self, under_way: _Pass, used: TokenUsage, calls: int) -> JudgeUsage:
        given = {"prices": under_way.upstream.prices, "model": under_way.run.model, "usage": asdict(used)}
        try:
            cost = await self._tools.workers.call(_COST, b"", given)
        except BenchyardError as error:
            _log.warning("the cost of a judgement is not known: %s", error.message)
            cost = None
        return JudgeUsage(
            calls=calls, input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=cost
        )

    async def _evidence_on(self, job: Job, trial_id: str) -> _Evidence:
        trial = await self._jobs.trial(trial_id)
        descriptor = os.memfd_create("evidence", os.MFD_CLOEXEC)
        try:
            batch = EvidenceBatch(descriptor)
            await self._evidence.write(job.id, [(trial.id, trial.scenario_run_id)], batch)
            if not batch.items:
                raise NotFound(f"there is no trial {trial_id} any more")
            given = {"item": batch.items[0], "statement": await self._statement(job, trial)}
            made = await self._tools.workers.call(_EVIDENCE, descriptor, given, _EVIDENCE_LIMITS)
        finally:
            os.close(descriptor)
        found: dict[str, Any] = await asyncio.to_thread(json.loads, made)
        return _Evidence(trial, **found)

    async def _statement(self, job: Job, trial: Trial) -> str | None:
        """Return the task of a trial as its agent was given it; None if the scenario is gone."""
        revisions = dict(zip(job.spec.scenario_ids, job.scenario_revisions, strict=False))
        try:
            scenario = await self._scenarios.at(trial.scenario_id, revisions[trial.scenario_id])
        except (NotFound, KeyError):
            return None
        return scenario.input_context.problem_statement

    def _judgement_id(self, run: JudgeRun, evidence: _Evidence) -> str:
        parts = (evidence.trial.id, run.provider, run.model, run.instructions, evidence.digest)
        return id_from_bytes(JUDGEMENT_PREFIX, self._tools.vault.derive("judgements", json.dumps(parts)))

    async def _end(self, id: str, state: JudgeRunState, note: str | None) -> JudgeRun:
        """Close the access of a run to its model, and note its end."""
        spent = await self._close(id)

        def ended(run: JudgeRun) -> JudgeRun:
            changes = {"state": state, "note": note, "end_time_ms": now_ms()}
            known = run if spent is None else _with_progress(run.counts, spent, run)
            return known.model_copy(update=changes) if run.state == "running" else run

        return await retry_store(self.runs.change, id, ended)

    async def _close(self, id: str) -> GrantUsage | None:
        """End the grant of a run and remove its records; return what was spent, None if nothing is known."""
        spent = None
        try:
            if self._grants.knows(id):
                spent = await self._grants.close(id)
            await self._grants.forget(id)
        except BenchyardError as error:
            # A gateway that does not answer lets no calls through either.
            _log.warning("judge run %s: its token could not be ended: %s", id, error.message)
        return spent


def _budget(asked: Budget | None, upstream: Upstream) -> Budget:
    if asked is not None and asked.usd is not None and upstream.prices is None:
        raise UsageError(
            "the prices of this upstream are not known; give a budget in tokens or requests",
            field="budget.usd",
        )
    if asked is not None and asked != Budget():
        return asked
    return Budget(tokens=USUAL_BUDGET_TOKENS) if upstream.prices is None else Budget(usd=USUAL_BUDGET_USD)


def _nothing_to_judge(job: Job, found: Mapping[str, int]) -> str:
    told = f"job {job.id} has no trial to judge"
    if found["n_unread"]:
        unread = count_text(found["n_unread"], "trial")
        return f"{told} yet: {unread} not read for signals; see `benchyard job problems {job.id}`"
    if found["n_explained"]:
        return (
            f"{told}: signals explain all {found['n_explained']} that failed; --only failed judges them too"
        )
    return f"{told}: none of those that are meant has failed; --only all judges those that passed too"


def _width(budget: Budget, spent: GrantUsage, counts: JudgeCounts) -> int:
    """Return how many trials may be judged at the same time without spending more than the budget."""
    done = counts.judged + counts.refused
    room: list[float] = []
    if done and budget.usd is not None and spent.cost_usd:
        room.append((budget.usd - spent.cost_usd) / (spent.cost_usd / done))
    if done and budget.tokens is not None and spent.usage.total_tokens:
        room.append((budget.tokens - spent.usage.total_tokens) / (spent.usage.total_tokens / done))
    if done and budget.requests is not None:
        room.append(budget.requests - spent.requests)
    return max(1, min(AT_ONCE, *map(int, room))) if room else (AT_ONCE if done else 1)


def _counted(counts: JudgeCounts, ended: Sequence[_Outcome]) -> JudgeCounts:
    added = Counter[str](each.kind for each in ended if each.kind != "unpaid")
    return JudgeCounts(**{name: count + added[name] for name, count in counts.model_dump().items()})


def _with_progress(counts: JudgeCounts, spent: GrantUsage, run: JudgeRun) -> JudgeRun:
    usage = JudgeUsage(
        calls=spent.calls,
        input_tokens=spent.usage.input_tokens,
        output_tokens=spent.usage.output_tokens,
        cost_usd=spent.cost_usd,
    )
    return run.model_copy(update={"counts": counts, "usage": usage})


def _judgement(
    id: str, run: JudgeRun, evidence: _Evidence, answer: JudgeReply, usage: JudgeUsage
) -> Judgement:
    return Judgement(
        id=id,
        create_time_ms=now_ms(),
        job_id=run.job_id,
        trial_id=evidence.trial.id,
        run_id=run.id,
        provider=run.provider,
        model=run.model,
        instructions=run.instructions,
        evidence=evidence.digest,
        trial_version=trial_version(evidence.trial),
        category=answer.category,
        critical_step=answer.critical_step,
        explanation=answer.explanation,
        citations=list(answer.citations),
        n_false_citations=answer.n_false,
        is_repeated=usage.calls > 1,
        usage=usage,
    )


def _view(judgement: Judgement, trial: Trial) -> JudgementView:
    known = JudgementView.model_validate(judgement, from_attributes=True)
    return known.model_copy(
        update={
            "scenario_name": trial.scenario_name,
            "agent": trial.agent,
            "attempt": trial.attempt,
            "is_supported": bool(judgement.citations) and not judgement.n_false_citations,
            "is_stale": judgement.trial_version != trial_version(trial),
        }
    )
