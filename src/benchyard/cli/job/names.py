"""Lookup of a job by id or name, with a notice where several have the name."""

from collections.abc import Callable
from typing import TypeVar

from benchyard.cli.notices import tell
from benchyard.client import lookup
from benchyard.client.client import Client
from benchyard.models.jobs import BenchmarkJobView

R = TypeVar("R")


def of_job(client: Client, given: str, verb: Callable[[str], R]) -> R:
    """Return what a verb gives for the job of that id, else for the newest one of that name."""
    return lookup.of_job(client, given, verb, tell=tell)


def find_job(client: Client, given: str, *, scenarios: bool = True) -> BenchmarkJobView:
    """Return the job of that id, else the newest one of that name; without its scenarios unless needed."""
    return lookup.find_job(client, given, scenarios=scenarios, tell=tell)
