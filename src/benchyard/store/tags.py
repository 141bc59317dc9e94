"""Tags of jobs and trials, by which lists find them."""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, delete, insert

from benchyard.store.tables import TAGS


def tagging(subject: str, parent: str, tags: Sequence[str]) -> Callable[[Connection], None]:
    """Return work for a transaction that gives a thing these tags and no others; the parent is its job."""
    rows = [{"subject": subject, "parent": parent, "tag": tag} for tag in tags]

    def work(connection: Connection) -> None:
        connection.execute(delete(TAGS).where(TAGS.c.subject == subject))
        if rows:
            connection.execute(insert(TAGS), rows)

    return work
