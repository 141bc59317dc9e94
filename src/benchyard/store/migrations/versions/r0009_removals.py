"""The table of removals under way."""

from benchyard.store.migrations import nouns

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the table."""
    nouns.make("removals")
