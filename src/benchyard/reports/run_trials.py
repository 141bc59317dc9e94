"""Scenario runs of the SDK as trials, made in a worker: records of runs are long, and there may be many."""

import gc
import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from pydantic import ValidationError

from benchyard.models.jobs import Job
from benchyard.models.results.run_trials import RunTrials
from benchyard.models.runs import ScenarioRun
from benchyard.models.trials import Trial
from benchyard.store.body_values import rows_of


def make_run_trials(content: BinaryIO, job: Mapping[str, Any], names: Mapping[str, str]) -> bytes:
    """Return the trials of a benchmark run, a line of JSON each; the content has its runs, newest first."""
    return "".join(f"{trial.model_dump_json()}\n" for trial in _trials(content, job, names)).encode()


def make_run_rows(
    content: BinaryIO, job: Mapping[str, Any], names: Mapping[str, str], paths: Sequence[Sequence[str | int]]
) -> bytes:
    """Return some values of the trials of a benchmark run, as one line: a JSON array of arrays."""
    bodies = (trial.model_dump_json() for trial in _trials(content, job, names))
    return (json.dumps(list(rows_of(bodies, [tuple(path) for path in paths]))) + "\n").encode()


def _trials(content: BinaryIO, job: Mapping[str, Any], names: Mapping[str, str]) -> list[Trial]:
    gc.disable()
    runs = []
    for line in content:
        try:
            runs.append(ScenarioRun.model_validate_json(line))
        except ValidationError:
            # One broken record must not hide all the others; lists of runs log it.
            continue
    return RunTrials(Job.model_validate(job), names).trials(runs)
