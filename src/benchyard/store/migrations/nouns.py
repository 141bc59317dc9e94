"""The shape of every table of records, unchanged since the first version."""

import sqlalchemy as sa
from alembic import op

SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers rows automatically only in a column whose type is exactly INTEGER."""


def make(name: str, *, unique_name: bool = False) -> None:
    """Make the table of a noun; a later revision that needs another shape changes it in its own steps."""
    op.create_table(
        name,
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("create_time_ms", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("status", sa.String(64)),
        sa.Column("parent", sa.Text),
        sa.Column("request_hash", sa.String(64)),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=f"pk_{name}"),
        sa.UniqueConstraint("id", name=f"uq_{name}_id"),
    )
    op.create_index(f"ix_{name}_name", name, ["name"], unique=unique_name)
    for column in ("status", "parent"):
        op.create_index(f"ix_{name}_{column}", name, [column])
