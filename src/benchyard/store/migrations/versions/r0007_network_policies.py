"""The table of network policies."""

from benchyard.store.migrations import nouns

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table."""
    nouns.make("network_policies", unique_name=True)
