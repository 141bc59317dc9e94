"""The table of blueprints."""

from benchyard.store.migrations import nouns

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    nouns.make("blueprints")
