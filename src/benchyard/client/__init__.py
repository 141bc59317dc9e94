"""The SDK: `Client` blocks, `AsyncClient` is awaited, and both have the same nouns and verbs."""

from benchyard.client.client import AsyncClient, Client
from benchyard.client.core import Server
from benchyard.client.devbox import Devbox
from benchyard.client.executions import ExecutionResult

__all__ = ["AsyncClient", "Client", "Devbox", "ExecutionResult", "Server"]
