"""The first tables: devboxes, snapshots, objects, secrets and API keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NOUNS = {"devboxes": False, "snapshots": False, "objects": False, "secrets": True, "api_keys": False}


def upgrade() -> None:
    """Make the tables."""
    for name, unique_name in _NOUNS.items():
        op.create_table(
            name,
            sa.Column("seq", _SEQUENCE, autoincrement=True, nullable=False),
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
        op.create_index(f"ix_{name}_status", name, ["status"])
        op.create_index(f"ix_{name}_parent", name, ["parent"])
