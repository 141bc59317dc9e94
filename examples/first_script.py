"""Run an agent of your own on a public benchmark: `python first_script.py [BENCHMARK]`."""

import asyncio
import sys

from benchyard import AsyncBenchyard


async def main(name: str) -> None:
    client = AsyncBenchyard()
    benchmarks = await client.api.benchmarks.list_public(name=name)
    benchmark_run = await client.api.benchmarks.start_run(benchmark_id=benchmarks[0].id)
    for scenario_id in benchmark_run.pending_scenarios or []:
        run = await client.api.scenarios.start_run(scenario_id=scenario_id, benchmark_run_id=benchmark_run.id)
        devbox = client.devbox.from_id(run.devbox_id)
        await devbox.await_running()
        # Your agent works here: by commands and files of the devbox, with the problem in its hand.
        await devbox.file.write("problem.md", run.scenario.input_context.problem_statement)
        result = await devbox.cmd.exec("wc -w < problem.md")
        print(run.name, "has a problem of", await result.stdout(), end="")
        run = await client.api.scenarios.runs.score_and_await(run.id)
        print(run.name, run.scoring_contract_result.score)
        await client.api.scenarios.runs.complete(run.id)
    print("score", (await client.api.benchmark_runs.complete(benchmark_run.id)).score)
    await client.aclose()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "quickstart"))
