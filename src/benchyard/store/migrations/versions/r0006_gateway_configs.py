"""The table of gateway configs."""

from benchyard.store.migrations import nouns

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table."""
    nouns.make("gateway_configs", unique_name=True)
