"""The two clients: the same nouns and verbs, one blocking, one to be awaited."""

import os
from collections.abc import Mapping
from typing import Generic, Self

from benchyard.client.file_verbs import (
    AgentSources,
    BenchmarkFolders,
    BlueprintFolders,
    DevboxFolders,
    JobFiles,
    ScenarioFolders,
)
from benchyard.client.methods import S
from benchyard.client.nouns import Nouns
from benchyard.client.operations import Server
from benchyard.client.servers import find_server
from benchyard.client.sessions import AsyncContext, AsyncSession, SyncContext, SyncSession


class _Client(Nouns[S], Generic[S]):
    """All nouns of a server, with the verbs that use files of this machine."""

    def __init__(self, session: S) -> None:
        super().__init__(session)
        self.agents: AgentSources[S] = AgentSources(session)
        self.benchmarks: BenchmarkFolders[S] = BenchmarkFolders(session)
        self.blueprints: BlueprintFolders[S] = BlueprintFolders(session)
        self.files: DevboxFolders[S] = DevboxFolders(session)
        self.jobs: JobFiles[S] = JobFiles(session)
        self.scenarios: ScenarioFolders[S] = ScenarioFolders(session)


class Client(_Client[SyncSession], SyncContext):
    """A blocking client; use it in a `with` block, or close it."""

    def __init__(self, server: Server) -> None:
        super().__init__(SyncSession(server))

    @classmethod
    def find(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return a client of the configured server, else of this user's own; raises ServerUnreachable."""
        return cls(find_server(os.environ if environ is None else environ))


class AsyncClient(_Client[AsyncSession], AsyncContext):
    """A client for an event loop; use it in an `async with` block, or close it."""

    def __init__(self, server: Server) -> None:
        super().__init__(AsyncSession(server))

    @classmethod
    def find(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return a client of the configured server, else of this user's own; raises ServerUnreachable."""
        return cls(find_server(os.environ if environ is None else environ))
