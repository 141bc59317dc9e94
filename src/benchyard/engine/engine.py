"""The open engine: all services behind the API, assembled once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchyard.engine.agents.service import Agents
from benchyard.engine.baselines import Baselines
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
from benchyard.engine.jobs.annotations import TrialAnnotations
from benchyard.engine.jobs.evidence import TrialEvidence
from benchyard.engine.jobs.live_steps import LiveTrialSteps
from benchyard.engine.jobs.model_access import TrialModelAccess
from benchyard.engine.jobs.request import JobRequestResolver
from benchyard.engine.jobs.rescoring import JobRescorings
from benchyard.engine.jobs.scheduler import Capacity, Scheduler
from benchyard.engine.jobs.service import Jobs
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.jobs.teardown import Teardown
from benchyard.engine.judge.service import Judges
from benchyard.engine.network.gateway_access import Grants
from benchyard.engine.network.gateway_configs import GatewayConfigs
from benchyard.engine.network.model_routes import ModelKeys, ModelUpstreams
from benchyard.engine.network.policies import NetworkPolicies
from benchyard.engine.past_results import PastResults
from benchyard.engine.removals import Removals
from benchyard.engine.reported_jobs import ReportedJobs
from benchyard.engine.retention import Retention
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.log_archive import RunLogs
from benchyard.engine.runs.model_access import ModelSpending, RunGateways
from benchyard.engine.runs.reference_reports import ReferenceReports
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.runs.scoring import Scoring
from benchyard.engine.runs.work_changes import WorkChanges
from benchyard.engine.scenarios.benchmarks import Benchmarks
from benchyard.engine.scenarios.custom_scorers import CustomScorers, ScorerValidation
from benchyard.engine.scenarios.deletion import Deletions
from benchyard.engine.scenarios.public import ShippedBenchmarks
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.engine.trajectories.live_steps import LiveRunSteps
from benchyard.engine.trajectories.steps import TrajectorySteps
from benchyard.engine.trajectories.traces import Traces
from benchyard.engine.webhooks.service import Webhooks
from benchyard.hosts.kits import KitFolders
from benchyard.hosts.machine import this_machine
from benchyard.models.agents import RegisteredAgent
from benchyard.models.benchmarks import Benchmark
from benchyard.models.blueprints import Blueprint
from benchyard.models.gateway_configs import GatewayConfig
from benchyard.models.network_policies import NetworkPolicy
from benchyard.models.reports.baselines import Baseline
from benchyard.models.runs import BenchmarkRun, ReferenceReport, ScenarioRun
from benchyard.models.scenarios import CustomScorer, Scenario
from benchyard.models.snapshots import Snapshot
from benchyard.store.database import Store


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
    steps: TrajectorySteps
    run_steps: LiveRunSteps
    trial_steps: LiveTrialSteps
    scorer_validation: ScorerValidation
    jobs: Jobs
    reported_jobs: ReportedJobs
    evidence: TrialEvidence
    trial_annotations: TrialAnnotations
    judges: Judges
    work_changes: WorkChanges
    agents: Agents
    gateway_configs: GatewayConfigs
    network_policies: NetworkPolicies
    run_gateways: RunGateways
    deletions: Deletions
    removals: Removals
    retention: Retention
    disk_use: DiskUse
    baselines: Baselines
    webhooks: Webhooks
    past_results: PastResults


@asynccontextmanager
async def open_engine(tools: EngineContext, store: Store, grants: Grants) -> AsyncIterator[Engine]:
    """Open all services and resume an earlier server's work; close them in order at the end.

    It is long so that one function shows which service uses which.
    """
    snapshots = store.collection("snapshots", Snapshot)
    blueprints = store.collection("blueprints", Blueprint)
    image_resolver = ImageResolver(tools, snapshots, blueprints)
    kits = KitFolders(tools.settings.data / "kits")
    agents = Agents(tools, store.collection("agents", RegisteredAgent), kits)
    configs = GatewayConfigs(store.collection("gateway_configs", GatewayConfig), tools.secrets)
    policies = NetworkPolicies(store.collection("network_policies", NetworkPolicy))
    library = ImageLibrary(tools, blueprints)
    built = Blueprints(tools, blueprints, library.upkeep, policies)
    prerequisites = Prerequisites(built, agents)
    async with Devboxes(tools, image_resolver, prerequisites, configs, policies) as devboxes:
        scorers = CustomScorers(store.collection("custom_scorers", CustomScorer))
        scenarios = Scenarios(
            store.collection("scenarios", Scenario),
            store.collection("scenario_revisions", Scenario),
            scorers,
            image_resolver,
        )
        benchmarks = Benchmarks(store.collection("benchmarks", Benchmark), scenarios)
        run_records = store.live("scenario_runs", ScenarioRun)
        benchmark_run_records = store.collection("benchmark_runs", BenchmarkRun)
        traces = Traces(tools, run_records)
        spending = ModelSpending(grants, run_records, traces, tools.workers)
        keys = ModelKeys(ModelUpstreams(tools.settings), tools.secrets)
        gateways = RunGateways(tools, spending, keys, scenarios)
        references = ReferenceReports(store.collection("reference_reports", ReferenceReport))
        scoring = Scoring(tools, scorers, kits, policies, prerequisites, references)
        runs = ScenarioRuns(
            tools, run_records, benchmark_run_records, scenarios, devboxes, prerequisites, scoring, gateways
        )
        benchmark_runs = BenchmarkRuns(tools, benchmark_run_records, benchmarks, runs)
        webhooks = Webhooks(tools, store)
        job_store = JobStore(store, tools.work, webhooks)
        access = TrialModelAccess(tools, spending, keys, scenarios)
        teardown = Teardown(job_store, runs, benchmark_runs, access)
        resolver = JobRequestResolver(benchmarks, scenarios, agents, keys, policies, tools.workers.call)
        capacity = Capacity(this_machine(), tools.settings)
        scheduler = Scheduler(
            tools, scenarios, agents, keys, runs, traces, job_store, access, capacity, teardown
        )
        jobs = Jobs(
            tools,
            job_store,
            resolver,
            agents,
            scenarios,
            scheduler,
            teardown,
            JobRescorings(tools, job_store, runs, benchmark_runs),
            access,
            benchmark_runs,
            prerequisites,
        )
        deletions = Deletions(
            benchmarks, scenarios, jobs.records, benchmark_runs.records, runs.records, tools.objects
        )
        reported = ReportedJobs(store, jobs, benchmark_runs, benchmarks, tools.workers)
        baselines = Baselines(store.collection("baselines", Baseline), reported, tools.vault)
        evidence = TrialEvidence(tools.settings.data, reported, run_records, traces)
        judges = Judges(tools, store, jobs, evidence, scenarios, keys, grants)
        removals = Removals(tools, store, jobs, benchmark_runs, runs, grants, deletions, baselines, judges)
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
            traces=traces,
            steps=TrajectorySteps(tools),
            run_steps=LiveRunSteps(tools, run_records, grants),
            trial_steps=LiveTrialSteps(tools, job_store, access),
            scorer_validation=ScorerValidation(tools, devboxes, scorers),
            jobs=jobs,
            reported_jobs=reported,
            evidence=evidence,
            trial_annotations=TrialAnnotations(store),
            judges=judges,
            work_changes=WorkChanges(tools, runs, devboxes),
            deletions=deletions,
            removals=removals,
            retention=Retention(tools, removals, deletions, jobs, benchmark_runs, runs, baselines),
            disk_use=DiskUse(tools, store),
            agents=agents,
            gateway_configs=configs,
            run_gateways=gateways,
            network_policies=policies,
            baselines=baselines,
            webhooks=webhooks,
            past_results=PastResults(store),
        )
        await _take_up(engine)
        yield engine


async def _take_up(engine: Engine) -> None:
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
    await engine.devboxes.reopen_doors()
    # Before jobs: webhooks send the ends of jobs.
    await engine.webhooks.open()
    await engine.jobs.open()
    # After jobs, which close the grants that they do not know.
    await engine.judges.open()
    await engine.removals.open()
    engine.retention.open()
