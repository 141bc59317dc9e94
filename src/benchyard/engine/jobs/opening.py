"""Puts together what jobs are carried out with."""

from dataclasses import dataclass

from benchyard.engine.definitions.benchmarks import Benchmarks
from benchyard.engine.jobs.access import Access
from benchyard.engine.jobs.asking import Asking
from benchyard.engine.jobs.capacity import Capacity
from benchyard.engine.jobs.casting import AgentSource, Casting
from benchyard.engine.jobs.ending import Ending
from benchyard.engine.jobs.jobs import Jobs, Office
from benchyard.engine.jobs.ledger import Ledger
from benchyard.engine.jobs.networks import Networks
from benchyard.engine.jobs.rescoring import Rescorings
from benchyard.engine.jobs.scheduler import Scheduler
from benchyard.engine.jobs.way import Desk
from benchyard.engine.network_policies import NetworkPolicies
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.gateways import RunGateways
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.tools import Tools
from benchyard.hosts.machine import this_machine
from benchyard.store.database import Store


@dataclass(frozen=True)
class Needs:
    """What jobs need of the engine."""

    benchmarks: Benchmarks
    runs: ScenarioRuns
    benchmark_runs: BenchmarkRuns
    gateways: RunGateways
    agents: AgentSource
    policies: NetworkPolicies


def make_jobs(tools: Tools, store: Store, needs: Needs) -> Jobs:
    """The jobs of this server; `open` takes up what an earlier one left."""
    ledger = Ledger(store, tools.work)
    spending, keys = needs.gateways.spending, needs.gateways.keys
    access = Access(tools, spending, keys, needs.runs.scenarios)
    casting = Casting(needs.runs.scenarios, needs.agents, keys)
    ending = Ending(ledger, needs.runs, needs.benchmark_runs, access)
    desk = Desk(tools, needs.runs, spending.traces, ledger, access)
    capacity = Capacity(this_machine(), tools.settings)
    office = Office(
        asking=Asking(
            needs.benchmarks,
            needs.runs.scenarios,
            needs.agents,
            keys,
            Networks(needs.policies),
            tools.workers.call,
        ),
        casting=casting,
        scheduler=Scheduler(desk, casting, capacity, ending),
        ending=ending,
        rescorings=Rescorings(tools, ledger, needs.runs, needs.benchmark_runs),
    )
    return Jobs(tools, ledger, office, needs.benchmark_runs, needs.runs.supplies.unbuilt)
