"""The tables of scenarios, benchmarks, custom scorers and their runs."""

from benchyard.store.migrations import nouns

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables."""
    for name in ("scenarios", "scenario_revisions", "scenario_runs", "benchmark_runs"):
        nouns.make(name)
    for name in ("custom_scorers", "benchmarks"):
        nouns.make(name, unique_name=True)
