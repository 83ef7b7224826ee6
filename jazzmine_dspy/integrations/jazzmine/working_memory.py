"""Working memory shared with jazzmine 0.1.42: its records are read, and written so that it reads them back."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic_core import from_json

from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.turn_lock import Turn, turn_lost
from jazzmine_dspy.models.errors import InputError

Json = dict[str, Any]


def _names(text: str) -> list[str]:
    return text.split()


# The fields of jazzmine's records, all of them: it drops a whole record over one field that it does not know.
CALL = _names(
    "tool_name arguments result result_summary success error turn_number call_index called_at step branch"
)
SLOT = _names("name description type required collected value collected_at_turn validation_error")
CONFIRMATION = _names(
    "flow_id action_description action_payload requested_at_turn requested_at timeout_turns"
)
ENTITY = _names("name attributes first_seen_turn last_seen_turn mention_count")
TOPIC = _names("turn_number intent summary")
ENDED = _names("flow_id flow_name flow_type status started_at_turn ended_at_turn slot_values tool_summaries")
FLOW = _names(
    "flow_id flow_name flow_type status started_at_turn started_at priority tools_required current_step total_steps "
    "step_results branch_results condition_expr condition_branch_taken tool_call_history slots"
)
TURN = _names(
    "turn_number enhanced_query intent sentiment_score is_continuation is_cancellation raw_entities "
    "retrieved_same_conv_episodes retrieved_prev_conv_episodes retrieved_semantic_terms combined_flow_prompt "
    "selected_flow_ids unresolved_flow_ids flow_candidates tool_calls"
)
MEMORY = _names(
    "conversation_id user_id agent_id created_at last_updated status turn_number active_flow flow_history "
    "pending_confirmation entity_workspace entity_max_age_turns topic_history last_agent_response last_agent_intent "
    "current_turn"
)

STATUSES = {"idle", "in_flow", "collecting_slots", "awaiting_confirmation"}
TYPES = {
    "flow": "flow",
    "sequential": "sequentialflow",
    "parallel": "parallelflow",
    "conditional": "conditionalflow",
}
KINDS = {theirs: ours for ours, theirs in TYPES.items()}


class JazzmineWorkingMemoryStore(RedisWorkingMemoryStore):
    """Working memories in Redis that jazzmine reads and writes, too; each one's turns exclude the other's.

    The record is ``wm:ID`` and the lock ``wm_lock:ID``, as jazzmine names them. This package's whole record lies
    beside, in ``{wm:ID}:PREFIX:beside``, with the sum of jazzmine's. If jazzmine has written since, its fields count,
    and the rest stays as far as it belongs to the same conversation, flow, turn, confirmation and slot. jazzmine gives
    no record a shorter life than before, and neither does this store.

    jazzmine sees no paused flow, queued message, escalation or answer for a second delivery; a running action is a flow
    to it. It lets a confirmation expire by the turns since the request, whatever the user talks about.

    Raises:
        InputError: an id holds a brace; or as :class:`RedisWorkingMemoryStore`.

    Example:
        >>> store = JazzmineWorkingMemoryStore("redis://localhost:6379")
        >>> store.key("c 1", "state"), store.key("c 1", "meta")
        ('wm:c 1', '{wm:c 1}:jazzmine:meta')
    """

    beside = True

    def key(self, conversation_id: str, part: str) -> str:
        """The key of one part of a conversation."""
        if set("{}") & set(conversation_id):
            raise InputError(
                "jazzmine's keys choose a slot by braces",
                where=f"conversation {conversation_id!r}",
                remedy="Give conversations that jazzmine shares ids without braces.",
            )
        shared = {"state": "wm:", "lock": "wm_lock:"}.get(part)
        return f"{shared}{conversation_id}" if shared else f"{{wm:{conversation_id}}}:{self.prefix}:{part}"

    async def _write(self, turn: Turn, data: bytes, expected: int) -> int:
        # Whoever has the lock now may have read the record already: jazzmine would write over ours.
        if not await self._hold(turn.conversation_id, turn.token, "take"):
            raise turn_lost(turn.conversation_id)
        return await super()._write(turn, data, expected)

    def encode(self, state: WorkingMemory) -> bytes:
        """A state as jazzmine's record, a line break, the sum of that record and this package's own."""
        ours = super().encode(state)
        theirs = json.dumps(to_jazzmine(from_json(ours, allow_inf_nan=False))).encode()
        return b"%b\n%b %b" % (theirs, _sum(theirs), ours)

    def _loaded(self, data: bytes) -> WorkingMemory:
        theirs, _, beside = data.rpartition(b"\n")
        checked, _, ours = beside.partition(b" ")
        if checked == _sum(theirs):
            return super()._loaded(ours)
        try:
            # What is no number becomes None; what could not be written again is refused by the second parser.
            new = from_json(json.dumps(from_jazzmine(json.loads(theirs, parse_constant=lambda _: None))))
            before = from_json(ours) if ours else {}
            merged = _merged(before, new) if before.get("created_at") == new.get("created_at") else new
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("jazzmine's record is misshapen") from error
        return WorkingMemory.model_validate({**merged, "version": 0})


def to_jazzmine(ours: Json) -> Json:
    """A state, as JSON, in jazzmine's fields."""
    flow, turn, confirmation = ours["active_flow"], ours["current_turn"], ours["pending_confirmation"]
    status = flow["status"] if flow else "idle"
    return _only(
        ours,
        MEMORY,
        status=status if status in STATUSES else "in_flow",
        active_flow=flow
        and _only(
            flow,
            FLOW,
            flow_type=TYPES.get(flow["flow_type"], flow["flow_type"]),
            status="active" if status == "paused" else status,
            tool_call_history=_each(flow["tool_call_history"], CALL),
            slots={
                name: _only(
                    slot,
                    SLOT,
                    collected=slot["value"] is not None,
                    collected_at_turn=slot["collected_at_turn"] or 0,
                )
                for name, slot in flow["slots"].items()
            },
        ),
        flow_history=[
            _only(ended, ENDED, flow_type=TYPES.get(ended["flow_type"], ended["flow_type"]))
            for ended in ours["flow_history"]
        ],
        pending_confirmation=confirmation
        and _only(confirmation, CONFIRMATION, flow_id=confirmation["flow_id"] or confirmation["flow_name"]),
        entity_workspace={name: _only(entity, ENTITY) for name, entity in ours["entity_workspace"].items()},
        topic_history=_each(ours["topic_history"], TOPIC),
        last_agent_response=ours["last_agent_response"] or None,
        last_agent_intent=ours["last_agent_intent"] or None,
        current_turn=turn and _only(turn, TURN, tool_calls=_each(turn["tool_calls"], CALL)),
    )


def from_jazzmine(theirs: Json) -> Json:
    """jazzmine's record in the fields of a state; a flow that has ended in its place is none, as it is to jazzmine."""
    memory = _only(theirs, MEMORY)
    memory.pop("status", None)
    for name in ("last_agent_response", "last_agent_intent"):
        memory[name] = memory.get(name) or ""
    memory["flow_history"] = [
        _only(ended, ENDED, flow_type=_kind(ended)) for ended in memory.get("flow_history") or []
    ]
    turn, flow, confirmation = (
        memory.get(name) for name in ("current_turn", "active_flow", "pending_confirmation")
    )
    if flow and flow.get("status") in ("completed", "cancelled", "failed"):
        flow = None
    if flow:
        slots = {name: _slot_from_jazzmine(slot) for name, slot in flow.get("slots", {}).items()}
        flow = _only(flow, FLOW, flow_type=_kind(flow), slots=slots)
        if turn and turn.get("selected_flow_ids") == [flow.get("flow_id")]:
            # jazzmine knows them in the turn of the selection only.
            flow["instructions"] = turn.get("combined_flow_prompt") or ""
    if confirmation:
        payload = confirmation.get("action_payload")
        confirmation = _only(confirmation, CONFIRMATION, action_payload={} if payload is None else payload)
        of = confirmation.get("flow_id")
        if flow and of and of in (flow.get("flow_id"), flow.get("flow_name")):
            confirmation["flow_name"] = flow["flow_name"]
    return {**memory, "active_flow": flow or None, "pending_confirmation": confirmation or None}


def _merged(before: Json, new: Json) -> Json:
    """The state of before, with what jazzmine has written since."""
    merged = {**before, **new}
    merged["flow_history"] = [_whole(before["flow_history"], ended) for ended in new["flow_history"]]
    same = set()
    for name, identity in (
        ("active_flow", ("flow_id", "flow_name", "started_at_turn", "started_at")),
        ("pending_confirmation", ("requested_at_turn", "requested_at")),
        ("current_turn", ("turn_number", "enhanced_query")),
    ):
        old, now = before.get(name), new.get(name)
        if old and now and all(old.get(field) == now.get(field) for field in identity):
            merged[name] = {**old, **now}
            same.add(name)
    if "active_flow" not in same:
        return {**merged, "action": None}
    flow, slots = merged["active_flow"], before["active_flow"]["slots"].values()
    flow["slots"] = {name: _whole(slots, slot) for name, slot in flow["slots"].items()}
    awaited = flow["slots"].get(flow["awaiting"], {})
    if awaited.get("value") is not None and not awaited.get("validation_error"):
        flow["awaiting"] = None
    flow["ready"] = flow["ready"] and flow["status"] == "active"
    return merged


def _whole(before: Any, item: Json) -> Json:
    """The record of before that holds this one unchanged, else this one."""
    same = (one for one in before if all(one.get(name) == value for name, value in item.items()))
    return next(same, item)


def _slot_from_jazzmine(slot: Json) -> Json:
    # A value that was put in beforehand is none yet: jazzmine asks for it all the same.
    collected, turn = slot.get("collected"), slot.get("collected_at_turn", 0)
    value = slot.get("value") if collected else None
    return _only(
        slot,
        [name for name in SLOT if name != "collected"],
        value=value,
        collected_at_turn=turn if collected or turn else None,
    )


def _kind(record: Json) -> Any:
    given = record.get("flow_type", "flow")
    return KINDS.get(given, given)


def _each(records: list[Json], fields: list[str]) -> list[Json]:
    return [_only(record, fields) for record in records]


def _only(record: Json, fields: list[str], **changed: Any) -> Json:
    """A record's fields of these names, in their order, with some changed."""
    return {name: changed.get(name, record.get(name)) for name in fields if name in changed or name in record}


def _sum(theirs: bytes) -> bytes:
    return hashlib.sha256(theirs).hexdigest().encode()
