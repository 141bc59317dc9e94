"""The tables of jobs, their trials and their events."""

import sqlalchemy as sa
from alembic import op

from benchyard.store.migrations import nouns

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables."""
    for name in ("benchmark_jobs", "trials"):
        nouns.make(name)
    op.create_table(
        "events",
        sa.Column("seq", nouns.SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("parent", sa.String(128), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_parent_seq", "events", ["parent", "seq"])
