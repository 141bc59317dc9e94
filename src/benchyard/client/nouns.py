"""All nouns of a server, each with its verbs, for both clients."""

from typing import Generic

from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Server, Steps, fetch
from benchyard.client.resources.access import Pty, Ssh, Tunnels
from benchyard.client.resources.agents import Agents
from benchyard.client.resources.baselines import Baselines
from benchyard.client.resources.benchmarks import Benchmarks
from benchyard.client.resources.blueprints import Blueprints
from benchyard.client.resources.devboxes import Devboxes, Logs
from benchyard.client.resources.executions import Executions
from benchyard.client.resources.files import Files
from benchyard.client.resources.images import Images
from benchyard.client.resources.jobs import Jobs
from benchyard.client.resources.network import GatewayConfigs, NetworkPolicies
from benchyard.client.resources.objects import Objects
from benchyard.client.resources.runs import BenchmarkRuns
from benchyard.client.resources.scenarios import Scenarios
from benchyard.client.resources.secrets import Keys, Secrets
from benchyard.client.resources.snapshots import Snapshots
from benchyard.client.resources.trajectories import Trajectories
from benchyard.client.resources.trials import Trials
from benchyard.client.resources.webhooks import Webhooks
from benchyard.client.sessions import AsyncSession, SyncSession
from benchyard.models.removals import CollectedResultsView, CollectResultsRequest
from benchyard.models.server import DiskView, DoctorView


class Nouns(VerbGroup[S], Generic[S]):
    """All operations of a server, grouped by noun."""

    def __init__(self, session: S) -> None:
        super().__init__(session)
        self.agents: Agents[S] = Agents(session)
        self.baselines: Baselines[S] = Baselines(session)
        self.benchmark_runs: BenchmarkRuns[S] = BenchmarkRuns(session)
        self.benchmarks: Benchmarks[S] = Benchmarks(session)
        self.blueprints: Blueprints[S] = Blueprints(session)
        self.devboxes: Devboxes[S] = Devboxes(session)
        self.executions: Executions[S] = Executions(session)
        self.files: Files[S] = Files(session)
        self.gateway_configs: GatewayConfigs[S] = GatewayConfigs(session)
        self.images: Images[S] = Images(session)
        self.jobs: Jobs[S] = Jobs(session)
        self.keys: Keys[S] = Keys(session)
        self.logs: Logs[S] = Logs(session)
        self.network_policies: NetworkPolicies[S] = NetworkPolicies(session)
        self.objects: Objects[S] = Objects(session)
        self.pty: Pty[S] = Pty(session)
        self.scenarios: Scenarios[S] = Scenarios(session)
        self.secrets: Secrets[S] = Secrets(session)
        self.snapshots: Snapshots[S] = Snapshots(session)
        self.ssh: Ssh[S] = Ssh(session)
        self.trajectories: Trajectories[S] = Trajectories(session)
        self.trials: Trials[S] = Trials(session)
        self.tunnels: Tunnels[S] = Tunnels(session)
        self.webhooks: Webhooks[S] = Webhooks(session)

    @property
    def server(self) -> Server:
        """The server this client talks to."""
        return self.session.server

    @call
    def doctor(self) -> Steps[DoctorView]:
        """Return which features work on the server's machine, and how to repair the others."""
        return (yield from fetch(Request("GET", "/v1/doctor"), DoctorView))

    @call
    def disk(self) -> Steps[DiskView]:
        """Return the disk space that the server uses, by kind."""
        return (yield from fetch(Request("GET", "/v1/server/disk", timeout=TRANSFER_TIMEOUT), DiskView))

    @call
    def collect_results(
        self, keep_days: float | None = None, *, dry_run: bool = False
    ) -> Steps[CollectedResultsView]:
        """Remove jobs and runs that ended longer ago, or only list them in a dry run; pinned jobs stay."""
        body = CollectResultsRequest(keep_days=keep_days, dry_run=dry_run)
        request = Request("POST", "/v1/server/collect", json=body, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, CollectedResultsView))


SyncNouns = Nouns[SyncSession]
AsyncNouns = Nouns[AsyncSession]
