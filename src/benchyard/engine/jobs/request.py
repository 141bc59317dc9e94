"""Resolves a request into a job: scenarios, agents, networks; invalid requests are refused early."""

import asyncio
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchyard.engine.agents.service import Agents
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller
from benchyard.engine.jobs.harbor_file import HarborJob, job_from_text
from benchyard.engine.jobs.plan import check_job_size, sample_scenarios, scenarios_with_ids
from benchyard.engine.network.model_routes import ModelKeys, ModelRoute
from benchyard.engine.network.policies import NetworkPolicies, plan_of
from benchyard.engine.runs.start import check_required_values
from benchyard.engine.scenarios import public
from benchyard.engine.scenarios.benchmarks import Benchmarks
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import NotFound, UsageError, WorkerFailed
from benchyard.models.agents import AgentChoice
from benchyard.models.benchmarks import Benchmark
from benchyard.models.conditions import Condition, question
from benchyard.models.jobs import (
    AgentConfig,
    AgentEnvironment,
    BenchmarkSpec,
    HarborSpec,
    Job,
    JobRequest,
    JobSource,
    JobSpec,
    OrchestratorConfig,
    ScenariosSpec,
    Selection,
)
from benchyard.models.network_policies import NetworkPolicy
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import Scenario
from benchyard.scorers import catalog as scorer_catalog
from benchyard.workers.workers import WorkerCall, WorkerLimits


async def check_networks(
    policies: NetworkPolicies, scenarios: Iterable[Scenario], asking: Sequence[str]
) -> None:
    """Raise UsageError for an unknown policy, or one that blocks these agents from their model."""
    known: dict[str, NetworkPolicy] = {}
    scorers: set[str] = set()
    for scenario in scenarios:
        if scenario.scoring_network and scenario.scoring_network not in scorers:
            await policies.of_scorers(scenario.scoring_network)
            scorers.add(scenario.scoring_network)
        # A blueprint's policy is known only with the devbox.
        launch = scenario.environment.launch_parameters if scenario.environment else None
        name = scenario.agent_network_policy or (launch and launch.network_policy_id)
        if not name:
            continue
        if name not in known:
            known[name] = await policies.find(name, "network_policy")
        policy = known[name]
        if asking and not plan_of(policy.egress).gateway:
            raise UsageError(
                f"the network policy {policy.name!r} of scenario {scenario.name!r} does not allow the "
                f"gateway, by which {asking[0]} asks its model; "
                f"`benchyard network-policy update {policy.name} --allow-gateway` allows it",
                field="network_policy",
            )


_ANSWER = "benchyard.models.conditions:answer"
_LIMITS = WorkerLimits(seconds=5)
_FIELD = "spec.selection"


async def select_scenarios(
    scenarios: list[Scenario], selection: Selection | None, call: WorkerCall
) -> list[Scenario]:
    """Return the selected scenarios, in their order; raises UsageError if none is left."""
    if selection is None or not scenarios:
        return scenarios
    if selection.scenario_ids is not None:
        scenarios = scenarios_with_ids(scenarios, selection.scenario_ids)
    globs = selection.include or (), selection.exclude or ()
    found, problem = await filter_scenarios(scenarios, selection.condition_groups(), *globs, call)
    if problem:
        raise UsageError(problem, field=_FIELD)
    return sample_scenarios(found, selection)


async def filter_scenarios(
    scenarios: list[Scenario],
    wanted: Sequence[Sequence[Condition]],
    include: Sequence[str],
    exclude: Sequence[str],
    call: WorkerCall,
) -> tuple[list[Scenario], str | None]:
    """Return the scenarios for which all of this holds, or a reason if there are none."""
    if not (wanted or include or exclude):
        return scenarios, None
    content = await asyncio.to_thread(question, scenarios, wanted, include, exclude)
    try:
        result = await call(_ANSWER, content, limits=_LIMITS)
    except WorkerFailed:
        first = next((one.text for group in wanted for one in group), next(iter([*include, *exclude]), ""))
        return [], f"searching for {first[:200]!r} takes too long here; write simpler conditions, or fewer"
    return [scenarios[place] for place in result.get("chosen", [])], result.get("problem")


_MOST_AT_ONCE = 10_000
"""Most ids in one query; Postgres allows 65,535."""


@dataclass(frozen=True)
class _ResolvedRequest:
    """Content of a spec, before scenarios are selected."""

    source: JobSource
    scenarios: list[Scenario]
    agents: list[AgentConfig]
    orchestrator: OrchestratorConfig
    benchmarks: tuple[Benchmark, ...] = ()
    name: str | None = None


class JobRequestResolver:
    """Makes jobs from requests."""

    def __init__(
        self,
        benchmarks: Benchmarks,
        scenarios: Scenarios,
        agents: Agents,
        keys: ModelKeys,
        policies: NetworkPolicies,
        call: WorkerCall,
    ) -> None:
        self._benchmarks = benchmarks
        self._scenarios = scenarios
        self._agents = agents
        self._keys = keys
        self._policies = policies
        self._call = call

    async def job(
        self, caller: Caller, request: JobRequest, pending_secrets: frozenset[str] = frozenset()
    ) -> Job:
        """Return the job of a request; raises UsageError naming its mistakes.

        Pending secrets are not looked up.
        """
        wish = await self._wish(request)
        for config in wish.agents:
            await self._check_gates(config, wish, pending_secrets)
        choices: list[AgentChoice] = []
        asking: list[str] = []
        for config in wish.agents:
            choice, route = await self._choice(config)
            choices.append(choice)
            if route:
                asking.append(choice.name)
        await asyncio.to_thread(_check_scorers, wish.scenarios)
        await check_networks(self._policies, wish.scenarios, asking)
        configs = [
            config.model_copy(update={"version": choice.version, "agent_id": choice.agent_id})
            for config, choice in zip(wish.agents, choices, strict=True)
        ]
        job = Job(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            name=request.name or wish.name or _name(wish),
            source=wish.source,
            spec=JobSpec(
                agent_configs=configs,
                scenario_ids=[scenario.id for scenario in wish.scenarios],
                orchestrator_config=wish.orchestrator,
            ),
            scenario_revisions=[scenario.revision for scenario in wish.scenarios],
            choices=choices,
            metadata=request.metadata or {},
        )
        check_job_size(job)
        if seconds := wish.orchestrator.deadline_seconds:
            job = job.model_copy(update={"deadline_ms": job.create_time_ms + int(seconds * 1000)})
        return job

    async def _choice(self, config: AgentConfig) -> tuple[AgentChoice, ModelRoute | None]:
        given = config.name, config.agent_id, config.version, config.kwargs or {}
        choice = await self._agents.resolve(*given)
        self._keys.refuse_open_keys(choice.name, config.agent_environment)
        agent = await self._agents.check(choice, config.model_name)
        return choice, await self._keys.route(agent, config) if agent is not None else None

    async def _wish(self, request: JobRequest) -> _ResolvedRequest:
        spec = request.spec
        if isinstance(spec, BenchmarkSpec):
            return await self._of_benchmark(spec)
        if isinstance(spec, ScenariosSpec):
            return await self._of_scenarios(spec)
        return await self._of_harbor(spec)

    async def _of_benchmark(self, spec: BenchmarkSpec) -> _ResolvedRequest:
        benchmark = await self._benchmark(spec.benchmark_id)
        scenarios = await select_scenarios(
            await self.scenarios_of(benchmark.scenario_ids), spec.selection, self._call
        )
        source = JobSource(type="benchmark", benchmark_id=benchmark.id, benchmark_name=benchmark.name)
        orchestrator = spec.orchestrator_config or OrchestratorConfig()
        return _ResolvedRequest(source, scenarios, spec.agent_configs, orchestrator, (benchmark,))

    async def _of_scenarios(self, spec: ScenariosSpec) -> _ResolvedRequest:
        ids = list(dict.fromkeys(spec.scenario_ids))
        scenarios = await select_scenarios(await self.scenarios_of(ids), spec.selection, self._call)
        source = JobSource(type="scenarios", scenario_ids=ids)
        return _ResolvedRequest(
            source, scenarios, spec.agent_configs, spec.orchestrator_config or OrchestratorConfig()
        )

    async def _of_harbor(self, spec: HarborSpec) -> _ResolvedRequest:
        wanted = await job_from_text(spec.inline_yaml, self._call)
        scenarios: dict[str, Scenario] = {}
        benchmarks = []
        for dataset in wanted.datasets:
            # A version is part of the benchmark's name.
            is_newest = dataset.version in (None, "head", "latest")
            name = dataset.benchmark if is_newest else f"{dataset.benchmark}@{dataset.version}"
            benchmark = await self._benchmark(name)
            benchmarks.append(benchmark)
            every = await self.scenarios_of(benchmark.scenario_ids)
            # Names match with or without a prefix and slash.
            chosen, problem = await filter_scenarios(every, [], dataset.include, dataset.exclude, self._call)
            if not chosen:
                reason = f": {problem}" if problem else ""
                raise UsageError(
                    f"no scenario of {dataset.benchmark!r} fits task_names{reason}", field="spec.inline_yaml"
                )
            for scenario in chosen[: dataset.n_tasks]:
                scenarios.setdefault(scenario.id, scenario)
        source = JobSource(type="harbor", inline_yaml=spec.inline_yaml)
        orchestrator = OrchestratorConfig(
            n_attempts=wanted.n_attempts,
            n_concurrent_trials=wanted.n_concurrent_trials,
            timeout_multiplier=wanted.timeout_multiplier,
            max_retries=wanted.max_retries,
        )
        return _ResolvedRequest(
            source, list(scenarios.values()), _agents(wanted), orchestrator, tuple(benchmarks), wanted.name
        )

    async def _benchmark(self, id: str) -> Benchmark:
        try:
            found = await public.find_benchmark(self._benchmarks, id)
        except NotFound as error:
            raise UsageError(error.message, field="spec.benchmark_id") from error
        if found.status == "archived":
            raise UsageError(f"benchmark {found.id} is archived; unarchive it to run it")
        return found

    async def scenarios_of(self, ids: Sequence[str]) -> list[Scenario]:
        """Return the scenarios with these ids, in their order; raises UsageError if one cannot be run."""
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

    async def _check_gates(
        self, config: AgentConfig, wish: _ResolvedRequest, pending: frozenset[str]
    ) -> None:
        environment = config.agent_environment or AgentEnvironment()
        for name in {*(environment.secrets or {}).values()} - pending:
            try:
                await self._keys.secrets.value(name)
            except NotFound as error:
                raise UsageError(error.message, field="agent_environment.secrets") from error
        profile = RunProfile(env_vars=environment.environment_variables, secrets=environment.secrets)
        for benchmark in wish.benchmarks:
            needed = benchmark.required_environment_variables, benchmark.required_secret_names
            check_required_values(*needed, profile, f"benchmark {benchmark.name!r}")
        for scenario in wish.scenarios:
            needed = scenario.required_environment_variables, scenario.required_secret_names
            check_required_values(*needed, profile, f"scenario {scenario.name!r}")


def _check_scorers(scenarios: Sequence[Scenario]) -> None:
    """Refuse scenarios whose scorers need a program or package that this server lacks (blocks)."""
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
            name=agent.name,
            model_name=agent.model_name,
            timeout_seconds=agent.timeout_seconds,
            kwargs=dict(agent.kwargs) or None,
            agent_environment=AgentEnvironment(
                environment_variables=dict(agent.environment_variables) or None
            ),
        )
        for agent in wanted.agents
    ]


def _name(wish: _ResolvedRequest) -> str:
    time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    count = len(wish.scenarios)
    number = "1 scenario" if count == 1 else f"{count} scenarios"
    what = ", ".join(benchmark.name for benchmark in wish.benchmarks) or number
    return f"{what[:1000]} {time}"
