"""Write the trials of a job as lines of JSON, to train on: `python export_for_training.py JOB-ID`.

Each line has the problem, the score with its rewards, and the trajectories: the agent's own, and the one that
is made of its calls of models. Trials that were replaced, have no score or are suspect are left out.
"""

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchyard import Benchyard
from benchyard.client import Client


def trajectories(client: Client, job_id: str) -> dict[str, list[Any]]:
    """Return the trajectories of each trial, by its id."""
    found: dict[str, list[Any]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        page = client.jobs.artifacts(job_id)
        while True:
            for each in page.artifacts:
                if each.name.endswith("trajectory.json"):
                    file = Path(folder) / each.object_id
                    client.objects.download(each.object_id, file)
                    found[each.trial_id].append(json.loads(file.read_text()))
            if not page.has_more:
                return found
            page = client.jobs.artifacts(job_id, starting_after=page.last_trial_id)


def main(job_id: str) -> None:
    with Benchyard() as yard:
        client = yard.api
        left = trajectories(client, job_id)
        for trial in client.jobs.trials(job_id):
            if trial.is_superseded or trial.score is None or trial.suspicions:
                continue
            scenario = client.scenarios.retrieve(trial.scenario_id)
            line = {
                "scenario": trial.scenario_name,
                "problem": scenario.input_context.problem_statement,
                "score": trial.score,
                "rewards": trial.rewards,
                "trajectories": left[trial.id],
            }
            print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1])
