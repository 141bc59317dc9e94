"""From what is asked for to a job: which scenarios, which agents; what cannot be is refused at once."""

import asyncio
import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from benchyard.engine.definitions import catalogue
from benchyard.engine.definitions.benchmarks import Benchmarks
from benchyard.engine.definitions.scenarios import Scenarios
from benchyard.engine.devboxes import Asked
from benchyard.engine.jobs.casting import AgentSource
from benchyard.engine.jobs.choosing import fitting, selected
from benchyard.engine.jobs.harbor import HarborDataset, HarborJob, asked_for
from benchyard.engine.jobs.networks import Networks
from benchyard.engine.jobs.plan import check_size
from benchyard.engine.journal import now_ms
from benchyard.engine.model_keys import ModelKeys, Route
from benchyard.engine.runs.profiles import check_gates
from benchyard.errors import NotFound, UsageError
from benchyard.models.agents import AgentChoice
from benchyard.models.benchmarks import Benchmark
from benchyard.models.jobs import (
    AgentConfig,
    AgentEnvironment,
    BenchmarkSpec,
    HarborSpec,
    Job,
    JobRequest,
    JobSource,
    JobSpec,
    ScenariosSpec,
)
from benchyard.models.orchestration import OrchestratorConfig
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import Scenario
from benchyard.scorers import catalog as scorer_catalog
from benchyard.workers.workers import Call

_MOST_AT_ONCE = 10_000
"""Ids in one query; Postgres takes 65,535."""


@dataclass(frozen=True)
class _Wish:
    """What a spec comes to, before its scenarios are chosen from."""

    source: JobSource
    scenarios: list[Scenario]
    agents: list[AgentConfig]
    orchestrator: OrchestratorConfig
    benchmarks: tuple[Benchmark, ...] = ()
    name: str | None = None


class Asking:
    """Makes jobs of requests."""

    def __init__(
        self,
        benchmarks: Benchmarks,
        scenarios: Scenarios,
        agents: AgentSource,
        keys: ModelKeys,
        networks: Networks,
        call: Call,
    ) -> None:
        self._benchmarks = benchmarks
        self._scenarios = scenarios
        self._agents = agents
        self._keys = keys
        self._networks = networks
        self._call = call

    async def job(
        self, asked: Asked, request: JobRequest, pending_secrets: frozenset[str] = frozenset()
    ) -> Job:
        """The job that is asked for; raises UsageError naming what is wrong with it.

        Pending secrets are not looked for.
        """
        wish = await self._wish(request)
        for config in wish.agents:
            await self._check_gates(config, wish, pending_secrets)
        found = [await self._choice(each) for each in wish.agents]
        choices = [choice for choice, _ in found]
        await asyncio.to_thread(_check_scorers, wish.scenarios)
        await self._networks.check(wish.scenarios, [choice.name for choice, route in found if route])
        configs = [
            config.model_copy(update={"version": choice.version, "agent_id": choice.agent_id})
            for config, choice in zip(wish.agents, choices, strict=True)
        ]
        job = Job(
            id=asked.id,
            create_time_ms=now_ms(),
            request_hash=asked.request_hash,
            name=request.name or wish.name or _name(wish),
            source=wish.source,
            spec=JobSpec(
                agent_configs=configs,
                scenario_ids=[each.id for each in wish.scenarios],
                orchestrator_config=wish.orchestrator,
            ),
            scenario_revisions=[each.revision for each in wish.scenarios],
            choices=choices,
            metadata=request.metadata or {},
        )
        check_size(job)
        if seconds := wish.orchestrator.deadline_seconds:
            job = job.model_copy(update={"deadline_ms": job.create_time_ms + int(seconds * 1000)})
        return job

    async def _choice(self, config: AgentConfig) -> tuple[AgentChoice, Route | None]:
        given = config.name, config.agent_id, config.version, config.kwargs or {}
        choice = await self._agents.resolve(*given)
        self._keys.refuse_open_keys(choice.name, config.agent_environment)
        agent = await self._agents.check(choice, config.model_name)
        return choice, await self._keys.route(agent, config) if agent is not None else None

    async def _wish(self, request: JobRequest) -> _Wish:
        spec = request.spec
        if isinstance(spec, BenchmarkSpec):
            return await self._of_benchmark(spec)
        if isinstance(spec, ScenariosSpec):
            return await self._of_scenarios(spec)
        return await self._of_harbor(spec)

    async def _of_benchmark(self, spec: BenchmarkSpec) -> _Wish:
        benchmark = await self._benchmark(spec.benchmark_id)
        scenarios = await selected(await self.found(benchmark.scenario_ids), spec.selection, self._call)
        source = JobSource(type="benchmark", benchmark_id=benchmark.id, benchmark_name=benchmark.name)
        orchestrator = spec.orchestrator_config or OrchestratorConfig()
        return _Wish(source, scenarios, spec.agent_configs, orchestrator, (benchmark,))

    async def _of_scenarios(self, spec: ScenariosSpec) -> _Wish:
        ids = list(dict.fromkeys(spec.scenario_ids))
        scenarios = await selected(await self.found(ids), spec.selection, self._call)
        source = JobSource(type="scenarios", scenario_ids=ids)
        return _Wish(source, scenarios, spec.agent_configs, spec.orchestrator_config or OrchestratorConfig())

    async def _of_harbor(self, spec: HarborSpec) -> _Wish:
        wanted = await asked_for(spec.inline_yaml, self._call)
        scenarios: dict[str, Scenario] = {}
        benchmarks = []
        for dataset in wanted.datasets:
            benchmark = await self._dataset(dataset)
            benchmarks.append(benchmark)
            for each in await self._chosen(dataset, await self.found(benchmark.scenario_ids)):
                scenarios.setdefault(each.id, each)
        source = JobSource(type="harbor", inline_yaml=spec.inline_yaml)
        return _Wish(
            source,
            list(scenarios.values()),
            _agents(wanted),
            _orchestrator(wanted),
            tuple(benchmarks),
            wanted.name,
        )

    async def _chosen(self, dataset: HarborDataset, scenarios: list[Scenario]) -> list[Scenario]:
        """The scenarios of a dataset whose names fit, with or without what stands before a slash."""
        chosen, problem = await fitting(scenarios, [], dataset.include, dataset.exclude, self._call)
        if not chosen:
            told = f": {problem}" if problem else ""
            raise UsageError(
                f"no scenario of {dataset.benchmark!r} fits task_names{told}", field="spec.inline_yaml"
            )
        return chosen if dataset.n_tasks is None else chosen[: dataset.n_tasks]

    async def _dataset(self, dataset: HarborDataset) -> Benchmark:
        """The benchmark of a dataset; one with a version has the version in its name."""
        if dataset.version in (None, "head", "latest"):
            return await self._benchmark(dataset.benchmark)
        return await self._benchmark(f"{dataset.benchmark}@{dataset.version}")

    async def _benchmark(self, id: str) -> Benchmark:
        try:
            found = await catalogue.found(self._benchmarks, id)
        except NotFound as error:
            raise UsageError(error.message, field="spec.benchmark_id") from error
        if found.status == "archived":
            raise UsageError(f"benchmark {found.id} is archived; unarchive it to run it")
        return found

    async def found(self, ids: Sequence[str]) -> list[Scenario]:
        """The scenarios of these ids, in their order; raises UsageError for one that cannot be run."""
        known: dict[str, Scenario] = {}
        for at in range(0, len(ids), _MOST_AT_ONCE):
            part = await self._scenarios.records.all({"id": ids[at : at + _MOST_AT_ONCE]})
            known.update((each.id, each) for each in part)
        missing = [id for id in ids if id not in known]
        if missing:
            raise UsageError(f"no scenario {', '.join(each[:100] for each in missing[:5])}", field="spec")
        archived = [each for each in known.values() if each.status == "archived"]
        if archived:
            raise UsageError(f"scenario {archived[0].id} is archived; unarchive it to run it")
        return [known[id] for id in ids]

    async def _check_gates(self, config: AgentConfig, wish: _Wish, pending: frozenset[str]) -> None:
        environment = config.agent_environment or AgentEnvironment()
        for name in {*(environment.secrets or {}).values()} - pending:
            try:
                await self._keys.secrets.value(name)
            except NotFound as error:
                raise UsageError(error.message, field="agent_environment.secrets") from error
        profile = RunProfile(env_vars=environment.environment_variables, secrets=environment.secrets)
        for benchmark in wish.benchmarks:
            needed = benchmark.required_environment_variables, benchmark.required_secret_names
            check_gates(*needed, profile, f"benchmark {benchmark.name!r}")
        for each in wish.scenarios:
            needed = each.required_environment_variables, each.required_secret_names
            check_gates(*needed, profile, f"scenario {each.name!r}")


def _check_scorers(scenarios: Sequence[Scenario]) -> None:
    """Refuse scenarios that this server lacks a program or package to score (blocks)."""
    users: dict[str, list[str]] = {}
    for scenario in scenarios:
        for function in scenario.scoring_contract.scoring_function_parameters:
            users.setdefault(str(function.scorer.get("type")), []).append(scenario.name)
    for type, missing in scorer_catalog.missing_dependencies(users).items():
        names = list(dict.fromkeys(users[type]))
        which = (
            f"scenario {names[0]!r}" if len(names) == 1 else f"{len(names)} scenarios, such as {names[0]!r},"
        )
        raise UsageError(f"{which} cannot be scored (scorer type {type}): {missing[0].complaint}")


def _agents(wanted: HarborJob) -> list[AgentConfig]:
    return [
        AgentConfig(
            name=each.name,
            model_name=each.model_name,
            timeout_seconds=each.timeout_seconds,
            kwargs=dict(each.kwargs) or None,
            agent_environment=AgentEnvironment(
                environment_variables=dict(each.environment_variables) or None
            ),
        )
        for each in wanted.agents
    ]


def _orchestrator(wanted: HarborJob) -> OrchestratorConfig:
    return OrchestratorConfig(
        n_attempts=wanted.n_attempts,
        n_concurrent_trials=wanted.n_concurrent_trials,
        timeout_multiplier=wanted.timeout_multiplier,
        max_retries=wanted.max_retries,
    )


def _name(wish: _Wish) -> str:
    time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    count = len(wish.scenarios)
    number = "1 scenario" if count == 1 else f"{count} scenarios"
    what = ", ".join(each.name for each in wish.benchmarks) or number
    return f"{what[:1000]} {time}"
