"""The entrances of the SDK: `Benchyard` blocks, `AsyncBenchyard` is awaited; both have the same members."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Generic, NoReturn

from benchyard.client.client import AsyncClient, Client
from benchyard.client.methods import S, VerbGroup
from benchyard.client.operations import Server
from benchyard.client.sdk.agents import AgentOps
from benchyard.client.sdk.benchmarks import BenchmarkOps
from benchyard.client.sdk.blueprints import BlueprintOps
from benchyard.client.sdk.devboxes import AsyncDevboxOps, SnapshotOps, SyncDevboxOps
from benchyard.client.sdk.jobs import JobOps
from benchyard.client.sdk.network import GatewayConfigOps, NetworkPolicyOps
from benchyard.client.sdk.scenarios import ScenarioOps, ScorerOps
from benchyard.client.sdk.secrets import SecretOps
from benchyard.client.sdk.storage_objects import StorageObjectOps
from benchyard.client.servers import PAIRS, configured_server, find_server
from benchyard.client.sessions import AsyncContext, AsyncSession, SyncContext, SyncSession
from benchyard.errors import NotYet, UsageError


class Absent:
    """Stands in the place of a noun that this product does not have."""

    def __init__(self, noun: str, instead: str) -> None:
        self._message = f"{noun} are not supported: {instead}"

    def __repr__(self) -> str:
        return f"<Absent: {self._message}>"

    def __getattr__(self, name: str) -> NoReturn:
        # Python itself asks for names with an underscore, and so do notebooks that look for pictures.
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotYet(self._message)


MCP_CONFIG = Absent("MCP configs", "run the MCP server in the devbox, or reach it by a gateway config")
AXON = Absent("axons", "follow a job with `job.events()`, or read `devbox.logs()`")


class _Members(VerbGroup[S], Generic[S]):
    """Members of both clients."""

    def __init__(self, session: S) -> None:
        super().__init__(session)
        self.agent: AgentOps[S] = AgentOps(session)
        self.benchmark: BenchmarkOps[S] = BenchmarkOps(session)
        self.blueprint: BlueprintOps[S] = BlueprintOps(session)
        self.gateway_config: GatewayConfigOps[S] = GatewayConfigOps(session)
        self.job: JobOps[S] = JobOps(session)
        self.network_policy: NetworkPolicyOps[S] = NetworkPolicyOps(session)
        self.scenario: ScenarioOps[S] = ScenarioOps(session)
        self.scorer: ScorerOps[S] = ScorerOps(session)
        self.secret: SecretOps[S] = SecretOps(session)
        self.snapshot: SnapshotOps[S] = SnapshotOps(session)
        self.storage_object: StorageObjectOps[S] = StorageObjectOps(session)
        self.axon = AXON
        self.mcp_config = MCP_CONFIG

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.session.server.url}>"


class Benchyard(_Members[SyncSession], SyncContext):
    """A blocking connection to a server; without an address, it is found as the command line does."""

    def __init__(self, base_url: str | None = None, bearer_token: str | None = None) -> None:
        self.api = Client(server_of(base_url, bearer_token, os.environ))
        super().__init__(self.api.session)
        self.devbox = SyncDevboxOps(self.api.session)


class AsyncBenchyard(_Members[AsyncSession], AsyncContext):
    """A connection to a server for an event loop; without an address, found as the command line does."""

    def __init__(self, base_url: str | None = None, bearer_token: str | None = None) -> None:
        self.api = AsyncClient(server_of(base_url, bearer_token, os.environ))
        super().__init__(self.api.session)
        self.devbox = AsyncDevboxOps(self.api.session)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.close()


def server_of(url: str | None, key: str | None, environ: Mapping[str, str]) -> Server:
    """Return the server of an address and a key; looks up missing ones; raises ServerUnreachable."""
    if url is None:
        found = find_server({**environ, **({name: key for _, name in PAIRS} if key else {})})
        return replace(found, key=key) if key else found
    named = {name: value for name, value in environ.items() if name not in dict(PAIRS)}
    # The key of another product's server is never sent to this one unless it is given.
    named |= {"BENCHYARD_URL": url, **({"BENCHYARD_API_KEY": key} if key else {})}
    try:
        server = configured_server(named)
    except UsageError as error:
        raise UsageError(f"base_url {url!r}: {error.message}; or give bearer_token") from error
    if server is None:
        raise UsageError("base_url is empty; leave it out to find the server of this machine")
    return server
