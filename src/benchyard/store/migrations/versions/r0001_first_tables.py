"""The first tables: devboxes, snapshots, objects, secrets and API keys."""

from benchyard.store.migrations import nouns

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    for name in ("devboxes", "snapshots", "objects"):
        nouns.make(name)
    nouns.make("secrets", unique_name=True)
    nouns.make("api_keys")
