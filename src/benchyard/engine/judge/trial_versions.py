"""Versions of trials: a judgement of an earlier one is stale. Pure."""

import hashlib
import json

from benchyard.models.trials import Trial


def trial_version(trial: Trial) -> str:
    """Return a digest of a trial's end and score, which another scoring changes."""
    parts = (trial.end_time_ms, trial.rescorings, trial.score, trial.state.value)
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
