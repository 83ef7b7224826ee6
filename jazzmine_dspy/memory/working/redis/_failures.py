"""What it means when Redis fails, and what to do about it."""

from __future__ import annotations

from redis import exceptions

from jazzmine_dspy.models.errors import MemoryUnavailableError, format_error

# Clients of Redis cut the code off the text of some errors; those raised inside of a script keep it.
_CODES: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.AuthenticationError, "NOAUTH"),
    (exceptions.AuthorizationError, "NOAUTH"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.RedisClusterException, "CLUSTERDOWN"),
)

_PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")

_REMEDIES: tuple[tuple[str, str], ...] = (
    ("NOAUTH", "Put the right user and password into the URL: redis://USER:PASSWORD@HOST:PORT."),
    ("NOPERM", "Allow this user EVAL, EVALSHA and SCAN, and the keys of this prefix with their commands."),
    ("OOM", "Give Redis more memory (maxmemory), or let records expire sooner (ttl)."),
    ("MISCONF", "Redis can't save to its disk and refuses to write: look into its log."),
    ("LOADING", "Redis is reading its data after a start: try again."),
    ("READONLY", "This server is a replica: name its master, or the sentinels (redis+sentinel://…)."),
    ("MASTERDOWN", "The replica has lost its master: wait for the failover."),
    ("CLUSTERDOWN", "Not all slots of the cluster are served: look at `CLUSTER INFO`."),
    ("TRYAGAIN", "Slots of the cluster are moving: try again."),
    ("MOVED", "This server belongs to a cluster: write redis+cluster:// in place of redis://."),
    ("BUSY", "A script of somebody else blocks Redis: `SCRIPT KILL` ends it."),
    ("NOREPLICAS", "Too few replicas are connected (min-replicas-to-write)."),
    ("UNKNOWN COMMAND", "Redis 6.2 or newer, or Valkey, is needed, with scripts allowed."),
    ("DB INDEX", "Name a database that the server has."),
)


def code(error: BaseException) -> str:
    """What kind of refusal it is; empty for one without a remedy of its own."""
    for kind, known in _CODES:
        if isinstance(error, kind):
            return known
    text = str(error).upper()
    return next((sign for sign, _ in _REMEDIES if sign in text), "")


def passing(error: BaseException) -> bool:
    """Whether a further try may succeed."""
    known = code(error)
    if known:
        return known in _PASSING
    return isinstance(error, OSError | TimeoutError | exceptions.ConnectionError | exceptions.TimeoutError)


def unavailable(error: BaseException | None, where: str, timeout: float) -> MemoryUnavailableError:
    """The error to raise for what a client of Redis raised; None where its time was over.

    Nothing of its text is repeated: it may quote keys and values.
    """
    known = code(error) if error is not None else ""
    remedy = dict(_REMEDIES).get(known, "Look into the log of Redis.")
    if known == "MOVED":
        return MemoryUnavailableError("Redis refers to another node", where=where, remedy=remedy)
    if known or isinstance(error, exceptions.ResponseError):
        told = known or type(error).__name__
        return MemoryUnavailableError(f"Redis refuses: {told}", where=where, remedy=remedy)
    if error is None or isinstance(error, TimeoutError | exceptions.TimeoutError):
        return MemoryUnavailableError(
            f"Redis did not answer within {timeout:g} s",
            where=where,
            remedy="See whether it is up and the network lets through; `timeout` is how long a call may take.",
        )
    return MemoryUnavailableError(
        f"Redis can't be reached: {format_error(error)}",
        where=where,
        remedy="See whether it runs there: `redis-cli -h HOST -p PORT ping`.",
    )
