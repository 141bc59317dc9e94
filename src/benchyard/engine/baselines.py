"""Baselines by name, and the agents of jobs that texts of a comparison mean."""

from collections.abc import Sequence

from benchyard.engine.clock import now_ms
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.reported_jobs import ReportedJobs
from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.models.jobs import Job
from benchyard.models.pages import Page, Query
from benchyard.models.reports.baselines import Baseline, BaselineRequest, is_job, is_run
from benchyard.store.collection import Collection
from benchyard.store.vault import Vault

BASELINE_PREFIX = "bsl_"
_MOST_NAMED = 20

Side = tuple[Job, int]
"""A job, and the index of one of its agents."""


class Baselines:
    """The baselines of this server: one for each name, benchmark and agent."""

    def __init__(self, records: Collection[Baseline], jobs: ReportedJobs, vault: Vault) -> None:
        self.records = records
        self._jobs = jobs
        self._vault = vault

    async def set(self, request: BaselineRequest) -> list[Baseline]:
        """Keep a job's agents, or one of them, under a name, in place of what had it; raises Conflict.

        A benchmark run of the SDK is like a job with one agent.
        """
        async with self._jobs.at_rest(request.job_id) as job:
            chosen = range(len(job.spec.agent_configs))
            wanted = [agent_of(job, request.agent)] if request.agent else list(chosen)
            names = [agent_name(job, index) for index in wanted]
            if len(set(names)) < len(names):
                raise UsageError(
                    f"job {job.id} has several agents that differ in their versions or options only; "
                    f"choose one: {_named(job)}"
                )
            await self._require_scores(job, wanted)
            return [await self._put(self._baseline(request.name, job, index)) for index in wanted]

    async def _require_scores(self, job: Job, agents: Sequence[int]) -> None:
        """Raise Conflict if an agent has no attempt with a score: a gate could compare nothing with it."""
        for index in agents:
            if not await self._jobs.is_scored(job, index):
                label = job.spec.agent_configs[index].label
                what, again = "benchmark run", ""
                if not is_run(job.id):
                    what, again = "job", f"; `benchyard job retry {job.id}` tries again what has none"
                told = f"agent {index} ({label[:200]}) of {what} {job.id} has no score to compare with"
                raise Conflict(told + again)

    def _baseline(self, name: str, job: Job, index: int) -> Baseline:
        agent, source = agent_name(job, index), job.source
        # Lengths keep the parts apart, whatever is in them.
        parts = (name, source.benchmark_id or "", agent)
        derived = self._vault.derive("baselines", "\0".join(f"{len(part)}:{part}" for part in parts))
        return Baseline(
            id=id_from_bytes(BASELINE_PREFIX, derived),
            create_time_ms=now_ms(),
            name=name,
            benchmark_id=source.benchmark_id,
            benchmark_name=source.benchmark_name,
            agent_name=agent,
            job_id=job.id,
            job_name=job.name,
            agent=index,
            label=job.spec.agent_configs[index].label,
            set_time_ms=now_ms(),
        )

    async def _put(self, wanted: Baseline) -> Baseline:
        try:
            return await self.records.insert(wanted)
        except Conflict:
            created = (await self.records.get(wanted.id)).create_time_ms
            kept = wanted.model_copy(update={"create_time_ms": created})
            return await self.records.change(wanted.id, lambda _: kept)

    async def get(self, id: str) -> Baseline:
        """Return the baseline with this id, also a deleted one; raises NotFound."""
        found = await self.records.find(id)
        if found is None:
            raise NotFound(f"no baseline {id[:200]!r}; `benchyard baseline list` shows those there are")
        return found

    async def page(self, query: Query) -> Page[Baseline]:
        """Return a page of baselines, newest first."""
        return await self.records.page(query)

    async def delete(self, id: str) -> Baseline:
        """Delete a baseline; the job that it named stays."""
        await self.get(id)
        gone = {"delete_time_ms": now_ms()}
        return await self.records.change(
            id, lambda now: now if now.delete_time_ms else now.model_copy(update=gone)
        )

    async def of_jobs(self) -> dict[str, str]:
        """Return the ids of the jobs and benchmark runs that baselines name, with the name of one of them."""
        return {each.job_id: each.name for each in await self.records.all({"status": "set"})}

    async def require_none(self, job_id: str) -> None:
        """Raise Conflict if a baseline names a job or a benchmark run, which then must stay."""
        named = await self.records.all({"parent": job_id, "status": "set"})
        if named:
            what = "benchmark run" if is_run(job_id) else "job"
            raise Conflict(
                f"{what} {job_id} is the baseline {named[0].name!r}, which gates compare with; "
                f"`benchyard baseline delete {named[0].name}` lets it go"
            )

    async def sides(self, a: str, b: str) -> tuple[Side, Side]:
        """Return the agents that two texts mean: JOB_ID[:AGENT], a benchmark run's id, or a baseline's name.

        One of the two may be a baseline, which is found by the benchmark and the agent of the other side.
        """
        if is_job(b) and not is_job(a):
            right = await self._side(b)
            return await self._of_baseline(a, right), right
        if is_job(a) and not is_job(b):
            left = await self._side(a)
            return left, await self._of_baseline(b, left)
        return await self._side(a), await self._side(b)

    async def _side(self, text: str) -> Side:
        id, _, name = text.partition(":")
        job = await self._jobs.get(id)
        return job, agent_of(job, name)

    async def _of_baseline(self, name: str, other: Side) -> Side:
        found = await self.find(name, *other)
        try:
            return await self._jobs.get(found.job_id), found.agent
        except NotFound as error:
            raise NotFound(
                f"the job {found.job_id} of baseline {name!r} is gone; set it again: "
                f"`benchyard baseline set {name} JOB`"
            ) from error

    async def find(self, name: str, job: Job, agent: int) -> Baseline:
        """Return the baseline of a name for a job's benchmark and agent; raises NotFound."""
        named = await self.records.all({"name": name})
        wanted = agent_name(job, agent)
        of_benchmark = [each for each in named if each.benchmark_id == job.source.benchmark_id]
        found = [each for each in of_benchmark if each.agent_name == wanted]
        remedy = f"`benchyard baseline set {name[:100]} JOB` sets it, `benchyard baseline list` shows all"
        if found and found[0].delete_time_ms is None:
            return found[0]
        benchmark = job.source.benchmark_name or job.source.benchmark_id
        place = f"on benchmark {benchmark}" if benchmark else "of jobs without a benchmark"
        where = f"for agent {wanted} {place}"
        if found:
            raise NotFound(f"the baseline {name[:100]!r} {where} was deleted; {remedy}")
        others = sorted({each.agent_name for each in of_benchmark if each.delete_time_ms is None})
        there = f", but for {', '.join(others[:_MOST_NAMED])}" if others else ""
        raise NotFound(f"there is no job and no baseline {name[:100]!r} {where}{there}; {remedy}")


def agent_name(job: Job, index: int) -> str:
    """Return an agent's name and model without its version, which is often what differs."""
    config = job.spec.agent_configs[index]
    return f"{config.name}:{config.model_name}" if config.model_name else config.name


def agent_of(job: Job, name: str) -> int:
    """Return the index of the agent that a text names; raises UsageError if it can mean several."""
    configs = job.spec.agent_configs
    if not name:
        if len(configs) == 1:
            return 0
        raise UsageError(f"job {job.id} has several agents; name one: {_named(job)}")
    if name.isdigit() and int(name) < len(configs):
        return int(name)
    matching: Sequence[int] = [
        index
        for index, config in enumerate(configs)
        if name in (config.label, config.name, agent_name(job, index))
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(
            f"{name[:200]!r} can mean several agents of job {job.id}; use an index: {_named(job)}"
        )
    raise NotFound(f"job {job.id} has no agent {name[:200]!r}; there are {_named(job)}")


def _named(job: Job) -> str:
    labels = [each.label for each in job.spec.agent_configs]
    return ", ".join(f"{job.id}:{index} ({label})" for index, label in enumerate(labels[:_MOST_NAMED]))
