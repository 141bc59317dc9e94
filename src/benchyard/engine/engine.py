"""The open engine: all services behind the API, assembled once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchyard.engine.agents.service import Agents
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.executions import Executions
from benchyard.engine.devboxes.files import Files
from benchyard.engine.devboxes.logs import Logs
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.devboxes.snapshots import Snapshots
from benchyard.engine.devboxes.ssh_keys import SshKeys
from benchyard.engine.devboxes.start_image import ImageResolver, Prerequisites
from benchyard.engine.devboxes.terminals import Terminals
from benchyard.engine.devboxes.tunnels import Tunnels
from benchyard.engine.disk_use import DiskUse
from benchyard.engine.images.blueprints import Blueprints
from benchyard.engine.images.library import ImageLibrary, ImageUpkeep
from benchyard.engine.images.transfers import Transfers
from benchyard.engine.jobs.model_access import TrialModelAccess
from benchyard.engine.jobs.request import JobRequestResolver, NetworkCheck
from benchyard.engine.jobs.rescoring import JobRescorings
from benchyard.engine.jobs.scheduler import Capacity, Scheduler
from benchyard.engine.jobs.service import JobParts, Jobs
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.jobs.teardown import Teardown
from benchyard.engine.jobs.trial_context import AgentProvider, JobInputs, TrialServices
from benchyard.engine.network.gateway_access import Grants
from benchyard.engine.network.gateway_configs import GatewayConfigs
from benchyard.engine.network.gateway_tokens import GatewayTokens, reopen_doors
from benchyard.engine.network.model_routes import ModelKeys, ModelUpstreams
from benchyard.engine.network.policies import NetworkPolicies
from benchyard.engine.removals import Removals
from benchyard.engine.retention import Retention
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.log_archive import RunLogs
from benchyard.engine.runs.model_access import ModelSpending, RunGateways
from benchyard.engine.runs.reference_reports import ReferenceReports
from benchyard.engine.runs.scenario_runs import RunCollaborators, RunCollections, ScenarioRuns
from benchyard.engine.runs.scoring import Scoring
from benchyard.engine.runs.traces import Traces
from benchyard.engine.scenarios.benchmarks import Benchmarks
from benchyard.engine.scenarios.custom_scorers import CustomScorers, ScorerValidation
from benchyard.engine.scenarios.deletion import Deletions
from benchyard.engine.scenarios.public import ShippedBenchmarks
from benchyard.engine.scenarios.scenarios import ScenarioCollections, Scenarios
from benchyard.hosts.kits import KitFolders
from benchyard.hosts.machine import this_machine
from benchyard.models.agents import RegisteredAgent
from benchyard.models.benchmarks import Benchmark
from benchyard.models.blueprints import Blueprint
from benchyard.models.gateway_configs import GatewayConfig
from benchyard.models.network_policies import NetworkPolicy
from benchyard.models.runs import BenchmarkRun, ReferenceReport, ScenarioRun
from benchyard.models.scenarios import CustomScorer, Scenario
from benchyard.models.snapshots import Snapshot
from benchyard.store.collection import Collection
from benchyard.store.database import Store


@dataclass(frozen=True)
class JobCollaborators:
    """Services of the engine that jobs use."""

    benchmarks: Benchmarks
    runs: ScenarioRuns
    benchmark_runs: BenchmarkRuns
    gateways: RunGateways
    agents: AgentProvider
    policies: NetworkPolicies


def make_jobs(tools: EngineContext, store: Store, collaborators: JobCollaborators) -> Jobs:
    """Return the jobs of this server; their `open` resumes those of an earlier server."""
    job_store = JobStore(store, tools.work)
    spending, keys = collaborators.gateways.spending, collaborators.gateways.keys
    access = TrialModelAccess(tools, spending, keys, collaborators.runs.scenarios)
    job_inputs = JobInputs(collaborators.runs.scenarios, collaborators.agents, keys)
    teardown = Teardown(job_store, collaborators.runs, collaborators.benchmark_runs, access)
    services = TrialServices(tools, collaborators.runs, spending.traces, job_store, access)
    capacity = Capacity(this_machine(), tools.settings)
    parts = JobParts(
        resolver=JobRequestResolver(
            collaborators.benchmarks,
            collaborators.runs.scenarios,
            collaborators.agents,
            keys,
            NetworkCheck(collaborators.policies),
            tools.workers.call,
        ),
        job_inputs=job_inputs,
        scheduler=Scheduler(services, job_inputs, capacity, teardown),
        teardown=teardown,
        rescorings=JobRescorings(tools, job_store, collaborators.runs, collaborators.benchmark_runs),
    )
    return Jobs(
        tools, job_store, parts, collaborators.benchmark_runs, collaborators.runs.prerequisites.unbuilt
    )


@dataclass(frozen=True)
class Engine:
    """Services of the engine: devboxes, images, scenarios, runs, jobs and what belongs to them."""

    devboxes: Devboxes
    executions: Executions
    files: Files
    logs: Logs
    snapshots: Snapshots
    terminals: Terminals
    library: ImageLibrary
    blueprints: Blueprints
    upkeep: ImageUpkeep
    transfers: Transfers
    tunnels: Tunnels
    ssh_keys: SshKeys
    scorers: CustomScorers
    scenarios: Scenarios
    benchmarks: Benchmarks
    scenario_runs: ScenarioRuns
    benchmark_runs: BenchmarkRuns
    run_logs: RunLogs
    traces: Traces
    scorer_validation: ScorerValidation
    jobs: Jobs
    agents: Agents
    gateway_configs: GatewayConfigs
    gateway_tokens: GatewayTokens
    network_policies: NetworkPolicies
    run_gateways: RunGateways
    deletions: Deletions
    removals: Removals
    retention: Retention
    disk_use: DiskUse


@asynccontextmanager
async def open_engine(tools: EngineContext, store: Store, grants: Grants) -> AsyncIterator[Engine]:
    """Open all services and resume an earlier server's work; close them in order at the end."""
    snapshots = store.collection("snapshots", Snapshot)
    blueprints = store.collection("blueprints", Blueprint)
    image_resolver = ImageResolver(tools, snapshots, blueprints)
    kits = KitFolders(tools.settings.data / "kits")
    agents = Agents(tools, store.collection("agents", RegisteredAgent), kits)
    configs = GatewayConfigs(store.collection("gateway_configs", GatewayConfig), tools.secrets)
    policies = NetworkPolicies(store.collection("network_policies", NetworkPolicy))
    library = ImageLibrary(tools, blueprints)
    built = Blueprints(tools, blueprints, library.upkeep, policies)
    async with Devboxes(tools, image_resolver, Prerequisites(built, agents), configs, policies) as devboxes:
        scorers = CustomScorers(store.collection("custom_scorers", CustomScorer))
        scenarios = Scenarios(_scenarios(store), scorers, image_resolver)
        benchmarks = Benchmarks(store.collection("benchmarks", Benchmark), scenarios)
        records = _records(store)
        references = ReferenceReports(store.collection("reference_reports", ReferenceReport))
        scoring = Scoring(tools, scorers, kits, policies, references)
        gateways = _gateways(tools, grants, records.scenario_runs, scenarios)
        runs = ScenarioRuns(tools, records, scenarios, RunCollaborators(devboxes, scoring, gateways))
        benchmark_runs = BenchmarkRuns(tools, records.benchmark_runs, benchmarks, runs)
        jobs = make_jobs(
            tools, store, JobCollaborators(benchmarks, runs, benchmark_runs, gateways, agents, policies)
        )
        deletions = Deletions(
            benchmarks, scenarios, jobs.records, benchmark_runs.records, runs.records, tools.objects
        )
        removals = Removals(tools, store, jobs, benchmark_runs, runs, grants, deletions)
        engine = Engine(
            devboxes=devboxes,
            executions=Executions(tools, devboxes),
            files=Files(tools, devboxes),
            logs=Logs(tools),
            snapshots=(taken := Snapshots(tools, snapshots)),
            terminals=Terminals(tools, devboxes),
            library=library,
            upkeep=library.upkeep,
            blueprints=built,
            transfers=Transfers(tools, taken),
            tunnels=Tunnels(tools, devboxes),
            ssh_keys=SshKeys(tools),
            scorers=scorers,
            scenarios=scenarios,
            benchmarks=benchmarks,
            scenario_runs=runs,
            benchmark_runs=benchmark_runs,
            run_logs=RunLogs(tools, runs),
            traces=gateways.spending.traces,
            scorer_validation=ScorerValidation(tools, devboxes, scorers),
            jobs=jobs,
            deletions=deletions,
            removals=removals,
            retention=Retention(tools, removals, deletions, jobs, benchmark_runs, runs),
            disk_use=DiskUse(tools, store),
            agents=agents,
            gateway_configs=configs,
            run_gateways=gateways,
            gateway_tokens=GatewayTokens(tools, devboxes, configs),
            network_policies=policies,
        )
        await _take_up(engine, tools)
        yield engine


async def _take_up(engine: Engine, tools: EngineContext) -> None:
    """Resume an earlier server's work; jobs last, since they use all other services."""
    await engine.snapshots.open()
    await engine.blueprints.open()
    await engine.terminals.open()
    await engine.ssh_keys.open()
    await engine.scenario_runs.open()
    await engine.benchmark_runs.open()
    await engine.agents.open()
    await engine.gateway_configs.open()
    await ShippedBenchmarks(engine.scorers, engine.scenarios, engine.benchmarks).open()
    await reopen_doors(tools)
    await engine.jobs.open()
    await engine.removals.open()
    engine.retention.open()


def _records(store: Store) -> RunCollections:
    return RunCollections(
        store.live("scenario_runs", ScenarioRun), store.collection("benchmark_runs", BenchmarkRun)
    )


def _gateways(
    tools: EngineContext, grants: Grants, runs: Collection[ScenarioRun], scenarios: Scenarios
) -> RunGateways:
    spending = ModelSpending(grants, runs, Traces(tools, runs), tools.workers)
    return RunGateways(tools, spending, ModelKeys(ModelUpstreams(tools.settings), tools.secrets), scenarios)


def _scenarios(store: Store) -> ScenarioCollections:
    return ScenarioCollections(
        store.collection("scenarios", Scenario), store.collection("scenario_revisions", Scenario)
    )
