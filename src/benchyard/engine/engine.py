"""The open engine: everything the API can ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchyard.engine.agents.registry import Agents
from benchyard.engine.blueprints import Blueprints
from benchyard.engine.definitions.benchmarks import Benchmarks
from benchyard.engine.definitions.custom_scorers import CustomScorers
from benchyard.engine.definitions.deletion import Deletions
from benchyard.engine.definitions.scenarios import Scenarios, Shelves
from benchyard.engine.definitions.shipped import Shipped
from benchyard.engine.devboxes import Devboxes
from benchyard.engine.disk_use import DiskUse
from benchyard.engine.executions import Executions
from benchyard.engine.files import Files
from benchyard.engine.gateway_configs import GatewayConfigs
from benchyard.engine.gateway_tokens import GatewayTokens
from benchyard.engine.grants import Grants
from benchyard.engine.jobs.jobs import Jobs
from benchyard.engine.jobs.opening import Needs, make_jobs
from benchyard.engine.library import Library
from benchyard.engine.logs import Logs
from benchyard.engine.model_keys import ModelKeys
from benchyard.engine.network_policies import NetworkPolicies
from benchyard.engine.origins import Origins
from benchyard.engine.pty import Ptys
from benchyard.engine.removals import Removals
from benchyard.engine.reopening import reopen
from benchyard.engine.retention import Retention
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.gateways import RunGateways
from benchyard.engine.runs.logs import RunLogs
from benchyard.engine.runs.references import References
from benchyard.engine.runs.scenario_runs import Means, Records, ScenarioRuns
from benchyard.engine.runs.scoring import Scoring
from benchyard.engine.runs.spending import Spending
from benchyard.engine.runs.traces import Traces
from benchyard.engine.runs.trials import ScorerTrials
from benchyard.engine.shelf import Shelf
from benchyard.engine.snapshots import Snapshots
from benchyard.engine.ssh import SshKeys
from benchyard.engine.supplies import Supplies
from benchyard.engine.tools import Tools
from benchyard.engine.transfers import Transfers
from benchyard.engine.tunnels import Tunnels
from benchyard.engine.upstreams import Upstreams
from benchyard.hosts.kits import KitFolders
from benchyard.models.agents import RegisteredAgent
from benchyard.models.benchmarks import Benchmark
from benchyard.models.blueprints import Blueprint
from benchyard.models.gateway_configs import GatewayConfig
from benchyard.models.network_policies import NetworkPolicy
from benchyard.models.runs import BenchmarkRun, ScenarioRun
from benchyard.models.scenarios import CustomScorer, Scenario
from benchyard.models.snapshots import Snapshot
from benchyard.models.tampering import ReferenceReport
from benchyard.store.collection import Collection
from benchyard.store.database import Store


@dataclass(frozen=True)
class Engine:
    """Devboxes and all that belongs to them; what is run in them, and how well that went."""

    devboxes: Devboxes
    executions: Executions
    files: Files
    logs: Logs
    snapshots: Snapshots
    ptys: Ptys
    library: Library
    blueprints: Blueprints
    shelf: Shelf
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
    scorer_trials: ScorerTrials
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
async def open_engine(tools: Tools, store: Store, grants: Grants) -> AsyncIterator[Engine]:
    """Take up what an earlier server left, and let go of it in order at the end."""
    snapshots = store.collection("snapshots", Snapshot)
    blueprints = store.collection("blueprints", Blueprint)
    origins = Origins(tools, snapshots, blueprints)
    kits = KitFolders(tools.settings.data / "kits")
    agents = Agents(tools, store.collection("agents", RegisteredAgent), kits)
    configs = GatewayConfigs(store.collection("gateway_configs", GatewayConfig), tools.secrets)
    policies = NetworkPolicies(store.collection("network_policies", NetworkPolicy))
    library = Library(tools, blueprints)
    built = Blueprints(tools, blueprints, library.shelf, policies)
    async with Devboxes(tools, origins, Supplies(built, agents), configs, policies) as devboxes:
        scorers = CustomScorers(store.collection("custom_scorers", CustomScorer))
        scenarios = Scenarios(_scenarios(store), scorers, origins)
        benchmarks = Benchmarks(store.collection("benchmarks", Benchmark), scenarios)
        records = _records(store)
        references = References(store.collection("reference_reports", ReferenceReport))
        scoring = Scoring(tools, scorers, kits, policies, references)
        gateways = _gateways(tools, grants, records.scenario_runs, scenarios)
        runs = ScenarioRuns(tools, records, scenarios, Means(devboxes, scoring, gateways))
        benchmark_runs = BenchmarkRuns(tools, records.benchmark_runs, benchmarks, runs)
        jobs = make_jobs(tools, store, Needs(benchmarks, runs, benchmark_runs, gateways, agents, policies))
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
            ptys=Ptys(tools, devboxes),
            library=library,
            shelf=library.shelf,
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
            scorer_trials=ScorerTrials(tools, devboxes, scorers),
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


async def _take_up(engine: Engine, tools: Tools) -> None:
    """Go on with what an earlier server left; jobs last, since they use all the others."""
    await engine.snapshots.open()
    await engine.blueprints.open()
    await engine.ptys.open()
    await engine.ssh_keys.open()
    await engine.scenario_runs.open()
    await engine.benchmark_runs.open()
    await engine.agents.open()
    await engine.gateway_configs.open()
    await Shipped(engine.scorers, engine.scenarios, engine.benchmarks).open()
    await reopen(tools)
    await engine.jobs.open()
    await engine.removals.open()
    engine.retention.open()


def _records(store: Store) -> Records:
    return Records(store.live("scenario_runs", ScenarioRun), store.collection("benchmark_runs", BenchmarkRun))


def _gateways(
    tools: Tools, grants: Grants, runs: Collection[ScenarioRun], scenarios: Scenarios
) -> RunGateways:
    spending = Spending(grants, runs, Traces(tools, runs), tools.workers)
    return RunGateways(tools, spending, ModelKeys(Upstreams(tools.settings), tools.secrets), scenarios)


def _scenarios(store: Store) -> Shelves:
    return Shelves(store.collection("scenarios", Scenario), store.collection("scenario_revisions", Scenario))
