"""Records of working memory at an address, for the commands that look at them and mend them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from jazzmine_dspy.memory.working.backend import Kept, SetAside
    from jazzmine_dspy.memory.working.codec import JsonCodec
    from jazzmine_dspy.memory.working.redis.backend import RedisBackend
    from jazzmine_dspy.memory.working.state import WorkingMemory

_PAGE = 200


class Place:
    """Records at an address. Whatever is read here lives no longer for it."""

    def __init__(self, url: str, prefix: str, records: str, ttl: float = 3600.0) -> None:
        from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineCodec
        from jazzmine_dspy.memory.working.codec import JsonCodec
        from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

        store = RedisWorkingMemoryStore(url, prefix=prefix, records=records, ttl=ttl)
        self.backend: RedisBackend = store.backend  # type: ignore[assignment]
        self.codec: JsonCodec = JazzmineCodec() if records == "jazzmine" else JsonCodec()

    async def kept(self, conversation_id: str) -> Kept | None:
        from jazzmine_dspy.memory.working.redis.peek import peek

        return await peek(self.backend, conversation_id)

    def read(self, conversation_id: str, kept: Kept) -> tuple[WorkingMemory | None, str]:
        """The state of a record, or None and why it is unreadable."""
        from jazzmine_dspy.memory.errors import UnreadableRecordError

        try:
            return self.codec.decode(kept.data, version=kept.version, conversation_id=conversation_id), ""
        except UnreadableRecordError as error:
            return None, error.message

    async def every(self) -> AsyncIterator[str]:
        """The ids of all conversations."""
        after = ""
        while page := await self.backend.conversations(limit=_PAGE, after=after):
            for conversation_id in page:
                yield conversation_id
            after = page[-1]

    async def one_aside(self, conversation_id: str, aside_id: str) -> SetAside:
        from jazzmine_dspy.memory.working._refusals import not_aside

        for one in await self.backend.aside(conversation_id):
            if one.id == aside_id:
                return one
        raise not_aside(conversation_id, aside_id)


@asynccontextmanager
async def opened(*where: Any, **settings: Any) -> AsyncIterator[Place]:
    """A place, and its connections closed in the end."""
    place = Place(*where, **settings)
    try:
        yield place
    finally:
        await place.backend.close()


async def restorable(
    place: Place, conversation_id: str, aside: str, file: Path | None, mended: bytes
) -> bytes:
    """A record that can be read: a mended one as it is to be stored, one set aside as it is.

    Raises:
        InputError: it is none.
    """
    from jazzmine_dspy.memory.errors import UnreadableRecordError
    from jazzmine_dspy.models.errors import InputError

    data = mended if file else (await place.one_aside(conversation_id, aside)).data
    try:
        state = place.codec.decode(data, version=0, conversation_id=conversation_id)
    except UnreadableRecordError as error:
        where = str(file) if file else f"conversation {conversation_id!r}, set aside as {aside}"
        remedy = (
            "Correct it in the file."
            if file
            else "Write it to a file with show --raw, mend it, and use --from."
        )
        raise InputError(error.message, where=where, remedy=remedy) from error
    return place.codec.encode(state) if file else data or b""


def of_lines(text: bytes) -> bytes:
    """A file's JSON, however it is laid out, with each document on one line, as records have them."""
    try:
        decoded, found = text.decode().strip(), []
        while decoded:
            document, end = json.JSONDecoder().raw_decode(decoded)
            found.append(json.dumps(document))
            decoded = decoded[end:].strip()
    except ValueError:
        return text
    return "\n".join(found).encode()
