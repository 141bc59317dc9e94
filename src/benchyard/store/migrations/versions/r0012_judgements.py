"""Tables of judge runs and judgements."""

from alembic import op

from benchyard.store.tables import TABLES

revision, down_revision = "0012", "0011"


def upgrade() -> None:
    """Make the tables."""
    connection = op.get_bind()
    for name in ("judge_runs", "judgements"):
        TABLES[name].create(connection)
