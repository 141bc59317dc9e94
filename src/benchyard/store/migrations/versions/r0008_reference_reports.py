"""The table of tamper reports on reference outputs."""

from benchyard.store.migrations import nouns

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table."""
    nouns.make("reference_reports")
