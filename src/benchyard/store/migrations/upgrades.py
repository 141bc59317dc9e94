"""Upgrade of an older database by alembic; imported only if needed, since its import takes long."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from benchyard.errors import StoreError


def upgrade(connection: Connection) -> None:
    """Upgrade inside the caller's transaction, which must already hold the lock against other servers."""
    script = ScriptDirectory(str(Path(__file__).parent))

    def steps(revision: Any, _: MigrationContext) -> Sequence[Any]:
        _refuse_newer(script, revision)
        return script._upgrade_revs("head", revision)  # noqa: SLF001  (what alembic's own command calls)

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection)
        environment.run_migrations()


def _refuse_newer(script: ScriptDirectory, revision: Any) -> None:
    known = {step.revision for step in script.walk_revisions()}
    unknown = [each for each in (revision or ()) if each not in known]
    if unknown:
        raise StoreError(
            f"the database was made by a newer Benchyard (schema {', '.join(unknown)}); "
            "install that version, or use another --data folder or --database-url"
        )
