"""The table of what references did beside the work."""

from benchyard.store.migrations import nouns

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table."""
    nouns.make("reference_reports")
