"""Tables of baselines, and of webhooks with their deliveries."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the tables."""
    for name in ("baselines", "webhooks", "webhook_deliveries"):
        op.create_table(
            name,
            sa.Column(
                "seq",
                sa.BigInteger().with_variant(sa.Integer, "sqlite"),
                primary_key=True,
                autoincrement=True,
            ),
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
        for column in ("name", "status", "parent"):
            op.create_index(f"ix_{name}_{column}", name, [column])
