"""The error for libraries of the extra ``sql`` that are missing."""

from __future__ import annotations

from jazzmine_dspy.memory.errors import MissingExtraError


def missing_sql(error: ImportError) -> MissingExtraError:
    """The error that names the extra, for whatever SQLAlchemy or a driver raises.

    SQLAlchemy raises a plain ImportError where greenlet is missing; the package's name stands in its cause.

    Example:
        >>> missing_sql(ModuleNotFoundError("No module named 'aiosqlite'", name="aiosqlite")).message
        'SqlMessageStore needs the package aiosqlite, which is not installed'
    """
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    names = [each.name for each in chain if isinstance(each, ModuleNotFoundError) and each.name]
    if names:
        problem = f"SqlMessageStore needs the package {names[0].partition('.')[0]}, which is not installed"
    else:
        problem = "SqlMessageStore needs packages that are not installed as a whole"
    return MissingExtraError(
        problem, where="jazzmine_dspy.memory.messages", remedy="Run: pip install 'jazzmine-dspy[sql]'."
    )
