"""The table of registered agents."""

from benchyard.store.migrations import nouns

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    nouns.make("agents")
