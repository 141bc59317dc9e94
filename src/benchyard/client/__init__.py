"""The SDK: `Client` blocks, `AsyncClient` is awaited, and both have the same nouns and verbs."""

from benchyard.client.client import AsyncClient, Client
from benchyard.client.operations import Server
from benchyard.client.resources.devboxes import Devbox
from benchyard.client.resources.executions import ExecutionResult

__all__ = ["AsyncClient", "Client", "Devbox", "ExecutionResult", "Server"]
