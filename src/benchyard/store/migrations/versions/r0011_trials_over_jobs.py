"""Facts of trials in narrow rows, annotations of trials, and tags."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from alembic import op
from sqlalchemy import Connection, select

from benchyard.store.tables import TABLES, TAGS, TRIAL_FACTS

revision, down_revision = "0011", "0010"

_AT_ONCE = 1000
_ENDED = ("completed", "failed", "timeout", "canceled")
_AGENTS_OWN = ("agent", "timeout", "budget")
_NEARLY_PASSED = 1 - 1e-9


def upgrade() -> None:
    """Make the tables, and note the facts of the trials that are there."""
    connection = op.get_bind()
    for table in (TABLES["trial_annotations"], TRIAL_FACTS, TAGS):
        table.create(connection)
    rows: list[dict[str, Any]] = []
    for row in _facts(connection):
        rows.append(row)
        if len(rows) == _AT_ONCE:
            connection.execute(TRIAL_FACTS.insert(), rows)
            rows = []
    if rows:
        connection.execute(TRIAL_FACTS.insert(), rows)


def _facts(connection: Connection) -> Iterator[dict[str, Any]]:
    jobs, trials = TABLES["benchmark_jobs"], TABLES["trials"]
    for job_id, body in connection.execute(select(jobs.c.id, jobs.c.body).order_by(jobs.c.seq)).all():
        job = _parsed(body)
        own = select(trials.c.id, trials.c.body).where(trials.c.parent == job_id).order_by(trials.c.seq)
        for trial_id, text in connection.execute(own).all():
            trial = _parsed(text)
            # Lists leave out unreadable rows.
            if job and trial and "scenario_id" in trial:
                yield _row(trial_id, job_id, trial, job)


def _parsed(body: str) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _row(trial_id: str, job_id: str, trial: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    config = dict(enumerate(job.get("spec", {}).get("agent_configs", []))).get(trial.get("agent", 0), {})
    version = f"@{config['version']}" if config.get("version") else ""
    model = f":{config['model_name']}" if config.get("model_name") else ""
    return {
        "id": trial_id,
        "job_id": job_id,
        "scenario_id": trial["scenario_id"],
        "agent_name": config.get("name"),
        "agent_label": f"{config['name']}{version}{model}" if "name" in config else None,
        "benchmark_id": job.get("source", {}).get("benchmark_id"),
        "state": trial.get("state", "queued"),
        "outcome": _outcome(trial),
        "failure_kind": (trial.get("failure") or {}).get("kind"),
    }


def _outcome(trial: Mapping[str, Any]) -> str | None:
    state, score = trial.get("state"), trial.get("score")
    if state not in _ENDED:
        return None
    if state == "completed":
        return "unscored" if score is None else "passed" if score >= _NEARLY_PASSED else "not_passed"
    return "crashed" if (trial.get("failure") or {}).get("kind") in _AGENTS_OWN else "unscored"
