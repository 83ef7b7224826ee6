"""Makes the tables in a database that has none, and refuses those of another version."""

from __future__ import annotations

import sqlalchemy as sa

from jazzmine_dspy.memory.errors import SchemaVersionError
from jazzmine_dspy.memory.messages._tables import metadata

REVISION = "0001"
"""Of the tables as they are made here; a database says which its tables are."""

VERSION_TABLE = "jazzmine_schema"

LOCK = 0x6A61_7A7A
"""Number of the advisory lock under which the tables of a PostgreSQL database are made."""

_own = sa.MetaData()
_version = sa.Table(
    VERSION_TABLE,
    _own,
    sa.Column("version_num", sa.String(32)),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def is_current(connection: sa.Connection, place: str) -> bool:
    """Whether the tables are there, as this version needs them.

    Raises:
        SchemaVersionError: they are of a version that this one does not know.
    """
    revision = None
    if sa.inspect(connection).has_table(VERSION_TABLE):
        revision = connection.scalar(sa.select(_version.c.version_num))
    if revision not in (None, REVISION):
        raise SchemaVersionError(
            f"The tables are of revision {str(revision)[:40]!r}, and this version knows them up to {REVISION!r}",
            where=place,
            remedy="Use the newer version of jazzmine-dspy that made them, or another database.",
        )
    return revision == REVISION


def create(connection: sa.Connection, place: str) -> None:
    """Make the tables, within the transaction of ``connection``, one process after another.

    Raises:
        SchemaVersionError: there are some of a version that this one does not know.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    if is_current(connection, place):
        return
    _own.create_all(connection)
    # Tables of these names that something else has made are not taken for ours.
    metadata.create_all(connection, checkfirst=False)
    connection.execute(_version.insert().values(version_num=REVISION))
