"""Upgrade of an older database by alembic; imported only if needed, since its import takes long."""

from collections.abc import Sequence
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade(connection: Connection, folder: str) -> None:
    """Run the revisions in the folder that the database lacks, inside the caller's transaction."""
    script = ScriptDirectory(folder)

    def steps(revision: Any, _: MigrationContext) -> Sequence[Any]:
        return script._upgrade_revs("head", revision)  # noqa: SLF001  (what alembic's own command calls)

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection)
        environment.run_migrations()
