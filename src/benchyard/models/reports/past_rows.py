"""Values of records that reports over many jobs are made of, in the order that they are read in."""

TRIAL_PATHS = (
    ("job_id",),
    ("agent",),
    ("scenario_id",),
    ("scenario_name",),
    ("state",),
    ("score",),
    ("failure", "kind"),
    ("is_superseded",),
    ("suspicions", 0),
    ("usage", "cost_usd"),
    ("usage", "model_calls"),
    ("start_time_ms",),
    ("end_time_ms",),
    ("preparing_ms",),
    ("scored_revision",),
    ("earlier_scores",),
    ("id",),
)
"""Values of a trial."""
RUN_PATHS = (
    ("benchmark_run_id",),
    ("scenario_id",),
    ("state",),
    ("result", "score"),
    ("result", "suspicions", 0),
    ("usage", "cost_usd"),
    ("create_time_ms",),
    ("end_time_ms",),
    ("scenario_revision",),
    ("id",),
    ("name",),
    ("is_reference",),
)
"""Values of a scenario run."""
JOB_PATHS = (
    ("id",),
    ("name",),
    ("create_time_ms",),
    ("end_time_ms",),
    ("spec", "agent_configs"),
    ("choices",),
    ("spec", "orchestrator_config", "suspect"),
)
"""Values of a job."""
GROUP_PATHS = (("id",), ("name",), ("create_time_ms",), ("end_time_ms",), ("metadata",))
"""Values of a benchmark run."""
