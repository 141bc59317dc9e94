"""Start a job and follow it: `python watch_events.py BENCHMARK AGENT...`.

Events come as they happen, also over a restart of the server, and each is told once.
"""

import sys

from benchyard import Benchyard
from benchyard.models.trials import TrialView


def told(trial: TrialView) -> str:
    """Return the score or the failure of a trial."""
    if trial.failure is not None:
        return trial.failure.exception_message
    return "" if trial.score is None else f"{trial.score:.2f}"


def main(benchmark: str, agents: list[str]) -> None:
    with Benchyard() as yard:
        configs = [{"type": "job_agent", "name": name} for name in agents]
        spec = {"type": "benchmark", "benchmark_id": benchmark, "agent_configs": configs}
        job = yard.job.create(name="watched", spec=spec)
        for event in job.events():
            if event.trial is not None:
                trial = event.trial
                print(agents[trial.agent], trial.scenario_name, trial.state, told(trial))
            elif event.state is not None:
                print("job", event.state)
        for outcome in job.outcomes():
            print(f"{outcome.agent_name}: {outcome.mean_score} over {outcome.n_trials} trials")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
