"""States as jazzmine 0.1.42 keeps them, with what it has no field for beside its record."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from jazzmine_dspy.integrations.jazzmine.working_memory._kinds import MEMORY, Json
from jazzmine_dspy.integrations.jazzmine.working_memory._parts import MisshapenError, join, split
from jazzmine_dspy.memory.working.codec import JsonCodec, causes, check_schema, checked_size, unreadable
from jazzmine_dspy.memory.working.state import SCHEMA_VERSION, WorkingMemory
from jazzmine_dspy.models.errors import InputError


class JazzmineCodec(JsonCodec):
    """States as two lines: jazzmine's record, and the rest of ours, which is kept beside it.

    jazzmine drops a whole record over one field that it does not know, so its line has its fields and no
    other. It then sees less than there is:

    - while an action runs, a flow that is ``in_flow``: it may go on with the flow meanwhile;
    - of paused flows nothing: it may start one of the same name anew, and the paused one stays paused;
    - slots to be filled, and not which of them was asked for last;
    - a confirmation that it lets expire by the turns since it was asked for, whatever was talked about;
    - neither queued messages, nor answers kept for a second delivery, nor an escalation.

    When jazzmine has written since, its record counts. The rest is joined to what is the same flow, slot,
    call, confirmation or entity still, and dropped with what is gone. A conversation that was begun anew
    under the same id gets nothing of the old one's rest.

    The other way about, what jazzmine holds and ours can't (a status that does not follow from the flow, a
    slot that was collected as None, NaN, half a surrogate pair, lists nested too deep) is carried along and written
    back as long as nothing of ours has taken its place. A record that could be read and not written again, one
    over the limit above all, is unreadable; so is one whose confirmation is of what ours can't hold.

    Example:
        >>> codec = JazzmineCodec()
        >>> state = WorkingMemory(conversation_id="c1", user_id="ann", escalation="three tries")
        >>> theirs, ours = codec.encode(state).splitlines()
        >>> sorted(json.loads(theirs))[:4], b"escalation" in theirs, b"escalation" in ours
        (['active_flow', 'agent_id', 'conversation_id', 'created_at'], False, True)
        >>> codec.decode(theirs + b"\\n" + ours, version=0, conversation_id="c1") == state
        True
        >>> codec.decode(theirs, version=0, conversation_id="c1").escalation
        ''
    """

    def encode(self, state: WorkingMemory) -> bytes:
        """A state as two lines. What it carried for jazzmine and no longer does is taken out of it.

        Raises:
            InputError: it cannot be stored: over the limit, or a text that is none.
        """
        where = f"conversation {state.conversation_id!r}"
        try:
            full = from_json(super().encode(state), allow_inf_nan=False)
        except ValueError as error:
            raise InputError(
                f"The state cannot be stored: {error}", where=where, remedy="Nest values less deeply."
            ) from error
        schema = full.pop("schema_version")
        spent: list[str] = []
        theirs, rest = split(MEMORY, full, spent)
        if spent:
            self._forget(state, full, where)
        main = json.dumps(theirs).encode()
        side = json.dumps({"schema_version": schema, "of": _digest(main), "rest": rest}).encode()
        return checked_size(main + b"\n" + side, self.max_bytes, where)

    @staticmethod
    def _forget(state: WorkingMemory, full: Json, where: str) -> None:
        """Take out of a state what is carried no longer, so that it is as it will be read."""
        try:
            clean = WorkingMemory.model_validate(
                {**full, "schema_version": state.schema_version, "version": state.version}
            )
        except ValidationError as error:
            raise InputError(
                f"The state cannot be stored: {causes(error)}", where=where, remedy="Keep JSON values only."
            ) from error
        state.__dict__.update(clean.__dict__)
        extra = clean.__pydantic_extra__ or {}
        state.__pydantic_extra__ = extra

    def parsed(self, data: bytes | None, conversation_id: str) -> dict[str, Any]:
        """The record in our shape, what jazzmine wrote and the rest joined.

        Raises:
            UnreadableRecordError: a part is no JSON mapping, or misshapen.
        """
        return self._joined(data, conversation_id, lenient=False)

    def decode(self, data: bytes | None, *, version: int, conversation_id: str) -> WorkingMemory:
        """A state from what jazzmine wrote, with the rest if there is any.

        Raises:
            UnreadableRecordError: it is no state of this conversation.
        """
        for lenient in (False, True) if _is_plain(data) else (True,):
            record = self._joined(data, conversation_id, lenient=lenient)
            try:
                state = WorkingMemory.model_validate({**record, "version": version})
            except RecursionError as error:
                raise unreadable(conversation_id, "it is nested too deeply") from error
            except ValidationError as error:
                if lenient:
                    raise unreadable(conversation_id, causes(error)) from error
                continue
            break
        if state.conversation_id != conversation_id:
            raise unreadable(conversation_id, f"it is of conversation {state.conversation_id!r}")
        if lenient or len(data or b"") > self.max_bytes / 2:
            # What could be read and not written again would shut the conversation.
            try:
                self.encode(state)
            except InputError as error:
                raise unreadable(conversation_id, error.message) from error
        return state

    def _joined(self, data: bytes | None, conversation_id: str, *, lenient: bool) -> Json:
        if data is None:
            raise unreadable(conversation_id, "what is stored is no text")
        # jazzmine writes its record in one line, too.
        main, line, below = data.rpartition(b"\n")
        theirs = _mapping(main if line else below, conversation_id, "jazzmine's record")
        side = _mapping(below if line and below else b"{}", conversation_id, "the part beside it")
        schema = side.get("schema_version", SCHEMA_VERSION)
        check_schema(schema, conversation_id)
        same = bool(side) and side.get("of") == _digest(main)
        try:
            record = join(MEMORY, theirs, side.get("rest"), same=same, lenient=lenient)
        except MisshapenError as error:
            raise unreadable(conversation_id, str(error)) from error
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise unreadable(conversation_id, "the part beside jazzmine's record is misshapen") from error
        if not same:
            _settle(record)
        return {**record, "schema_version": schema}


def _is_plain(data: bytes | None) -> bool:
    """Whether what jazzmine wrote has neither halves of surrogate pairs nor values nested too deep for us."""
    main, line, below = (data or b"").rpartition(b"\n")
    try:
        from_json(main if line else below)
    except ValueError:
        return False
    return True


def _mapping(data: bytes, conversation_id: str, what: str) -> Json:
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise unreadable(conversation_id, f"{what} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise unreadable(conversation_id, f"{what} is a {type(record).__name__}, not a mapping")
    return record


def _digest(main: bytes) -> str:
    return hashlib.sha256(main).hexdigest()


def _settle(record: Json) -> None:
    """Drop of ours what no longer fits since jazzmine wrote, and add what follows from its record."""
    flow, confirmation, turn = (
        record.get(name) for name in ("active_flow", "pending_confirmation", "current_turn")
    )
    if flow is None:
        record["action"] = None
        return
    if (action := record.get("action")) is not None and (
        action.get("flow_name") != flow.get("flow_name")
        or action.get("started_at_turn", 0) < flow.get("started_at_turn", 0)
    ):
        record["action"] = None
    if flow.get("status") != "active":
        flow["ready"] = False
    for slot in flow["slots"].values():
        if slot.get("value") is not None and not slot.get("validation_error"):
            slot.update(attempts=0, skipped=False)
            if flow.get("awaiting") == slot.get("name"):
                flow["awaiting"] = None
    of = confirmation.get("flow_id") if confirmation is not None else ""
    if confirmation is not None and of and of in (flow.get("flow_id"), flow.get("flow_name")):
        confirmation["flow_name"] = confirmation.get("flow_name") or flow.get("flow_name")
    if (
        not flow.get("instructions")
        and turn is not None
        and turn.get("selected_flow_ids") == [flow.get("flow_id")]
    ):
        # jazzmine knows them in the turn of the selection only.
        flow["instructions"] = turn.get("combined_flow_prompt") or ""
