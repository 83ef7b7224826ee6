"""Brings a database's tables to the form of this version, with Alembic.

A new revision is a file in ``versions`` and its id at the end of :data:`REVISIONS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from jazzmine_dspy.memory.errors import SchemaVersionError

REVISIONS = ("0001",)
"""Every revision there ever was, oldest first."""

VERSION_TABLE = "jazzmine_schema"

LOCK = 0x6A61_7A7A
"""Number of the advisory lock under which PostgreSQL databases are migrated."""


def is_current(connection: sa.Connection, place: str) -> bool:
    """Whether the tables are as this version needs them.

    Raises:
        SchemaVersionError: they are of a version that this one does not know.
    """
    revision = None
    if sa.inspect(connection).has_table(VERSION_TABLE):
        revision = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
    if revision is not None and revision not in REVISIONS:
        raise SchemaVersionError(
            f"The tables are of revision {str(revision)[:40]!r}, and this version knows them up to {REVISIONS[-1]!r}",
            where=place,
            remedy="Use the newer version of jazzmine-dspy that made them, or another database.",
        )
    return revision == REVISIONS[-1]


def upgrade(connection: sa.Connection, place: str) -> None:
    """Bring the tables up to date, within the transaction of ``connection``, one process after another.

    Raises:
        SchemaVersionError: they are of a version that this one does not know.
    """
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    if is_current(connection, place):
        return
    script = ScriptDirectory(str(Path(__file__).parent))

    def steps(revision: Any, _: Any) -> Any:
        return script._upgrade_revs("head", revision)

    opts = {"version_table": VERSION_TABLE, "script": script, "fn": steps}
    context = MigrationContext.configure(connection, opts=opts)
    with Operations.context(context):
        context.run_migrations()
