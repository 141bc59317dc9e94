"""Run a whole benchmark, several scenarios at a time: `python parallel_benchmark.py [BENCHMARK] [AT_ONCE]`.

The agent here is a toy that makes each file whose name stands in backquotes in the problem. Put your own in
its place: it is given the problem and a devbox, and leaves its work in there.
"""

import asyncio
import re
import sys
import time
from dataclasses import dataclass

from benchyard import AsyncBenchyard
from benchyard.client import Devbox
from benchyard.client.sdk.runs import BenchmarkRun
from benchyard.client.sessions import AsyncSession
from benchyard.errors import BenchyardError, NotFound


@dataclass
class Outcome:
    """How one scenario went."""

    name: str
    score: float
    seconds: float
    note: str = ""


async def toy_agent(problem: str, devbox: Devbox[AsyncSession], folder: str) -> None:
    """Make every file that the problem names."""
    for path in re.findall(r"`([\w./~-]+)`", problem):
        await devbox.cmd.exec(f"cd {folder} && mkdir -p $(dirname {path}) && touch {path}")


async def attempt(
    client: AsyncBenchyard, benchmark_run: BenchmarkRun[AsyncSession], scenario_id: str
) -> Outcome:
    """One scenario, from its devbox to its score; what goes wrong counts 0 and does not stop the others."""
    started = time.monotonic()
    scenario = await client.api.scenarios.retrieve(scenario_id)
    try:
        run = await client.scenario.from_id(scenario_id).run(benchmark_run_id=benchmark_run.id)
        folder = (scenario.environment and scenario.environment.working_directory) or "~"
        await toy_agent(scenario.input_context.problem_statement, run.devbox, folder)
        view = await run.score_and_complete()
    except BenchyardError as error:
        return Outcome(scenario.name, 0.0, time.monotonic() - started, error.message)
    result = view.scoring_contract_result
    score = result.score if result else 0.0
    errors = [
        each.reason or "" for each in (result.scoring_function_results if result else []) if each.reason
    ]
    return Outcome(scenario.name, score, time.monotonic() - started, "; ".join(errors))


async def find(client: AsyncBenchyard, name: str) -> str:
    """The id of a benchmark, a public one or one of your own."""
    for listing in (client.api.benchmarks.list_public(name=name), client.api.benchmarks.list(name=name)):
        async for benchmark in listing:
            return benchmark.id
    raise NotFound(f"there is no benchmark {name!r}")


async def main(name: str, at_once: int) -> None:
    """Run everything, and print a table."""
    turns = asyncio.Semaphore(at_once)
    async with AsyncBenchyard() as client:
        benchmark_run = await client.benchmark.from_id(await find(client, name)).start_run(
            run_name="toy agent"
        )

        async def in_turn(scenario_id: str) -> Outcome:
            async with turns:
                return await attempt(client, benchmark_run, scenario_id)

        pending = (await benchmark_run.get_info()).pending_scenarios or []
        outcomes = await asyncio.gather(*(in_turn(scenario_id) for scenario_id in pending))
        total = await benchmark_run.complete()
    for each in sorted(outcomes, key=lambda outcome: outcome.name):
        print(f"{each.name[:40]:40} {each.score:6.3f} {each.seconds:6.1f} s  {each.note}")
    print(f"{name[:40]:40} {total.score or 0:6.3f}  over {len(outcomes)} scenarios, run {total.id}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "quickstart", int((sys.argv[2:] or ["4"])[0])))
