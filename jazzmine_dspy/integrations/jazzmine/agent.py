"""The enhancer and the flow selector for jazzmine's ``AgentBuilder``, over jazzmine's messages, store and flows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from jazzmine_dspy.integrations.jazzmine.flows import to_flow
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.program.selector import FlowSelectionResult, FlowSelector
from jazzmine_dspy.runtime.enhancer import MessageEnhancer
from jazzmine_dspy.runtime.outcome import EnhancementOutcome


class JazzmineEnhancer(MessageEnhancer):
    """A :class:`MessageEnhancer` for ``AgentBuilder.with_enhancer``: it takes and returns jazzmine's messages.

    Args:
        llm: As for :class:`MessageEnhancer`; jazzmine's ``BaseLLM`` too.
        message_store: A message store of jazzmine.
        history_window: User turns to read with their replies, 1 to 1,000.
        options: ``flows`` and ``agent_id`` of :class:`MessageEnhancer`.
    """

    def __init__(self, llm: Any, message_store: Any, history_window: int = 8, **options: Any) -> None:
        super().__init__(
            llm, cast("MessageStore", JazzmineMessages(message_store)), history_window, **options
        )

    async def enhance(self, message: Any) -> EnhancementOutcome:
        """Enhance a message of jazzmine, and set its fields; the outcome holds the same object."""
        ours = _to_message(message)
        outcome = await super().enhance(ours)
        _set_fields(message, ours)
        return replace(outcome, message=message)


class JazzmineMessages:
    """What the enhancer needs of a ``MessageStore``, over a message store of jazzmine.

    Args:
        store: The store.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    async def get_message(self, message_id: str) -> Message | None:
        """Return a message."""
        stored = await self._store.get_message_by_id(message_id)
        return None if stored is None else _to_message(stored)

    async def ensure_conversation(self, conversation: Conversation) -> None:
        """Store a conversation that is not stored yet."""
        if await self._store.get_conversation_by_id(conversation.id) is None:
            await self._store.store_conversation(conversation)

    async def store_message(self, message: Message) -> None:
        """Store a message."""
        from jazzmine.core.message_store.models import Message as JazzmineMessage

        await self._store.store_message(
            JazzmineMessage(**message.model_dump(mode="json", include=set(JazzmineMessage.model_fields)))
        )

    async def update_message(self, message: Message, *, fields: Collection[str]) -> None:
        """Write the named fields of a stored message. A message that was deleted meanwhile stays deleted."""
        if (stored := await self._store.get_message_by_id(message.id)) is not None:
            _set_fields(stored, message, fields)
            await self._store.update_message(stored)

    async def get_immediate_context(self, conversation_id: str, n: int) -> list[Message]:
        """Return the last ``n`` messages, oldest first, without flagged ones."""
        messages = await self._store.get_immediate_context(conversation_id, n)
        return [_to_message(each) for each in messages if not each.is_flagged]


class JazzmineFlowSelector(FlowSelector):
    """A :class:`FlowSelector` for ``AgentBuilder.with_flow_selector``: it chooses jazzmine's flow objects.

    Args:
        llm: As for :class:`FlowSelector`; jazzmine's ``BaseLLM`` too.
        flow_registry: ``BaseFlow.registry``, or another mapping of ids to flows of jazzmine.
        proc_mem: A procedural memory of jazzmine, or as for :class:`FlowSelector`.
        agent_id: Whose flows are recalled.
        options: ``top_k`` and ``rrf_k`` of :class:`FlowSelector`.
    """

    def __init__(
        self,
        llm: Any,
        flow_registry: Mapping[str, Any],
        proc_mem: Any = None,
        agent_id: str = "",
        **options: Any,
    ) -> None:
        self._flows = {flow.name: flow for flow in flow_registry.values()}
        ours = {key: to_flow(flow) for key, flow in flow_registry.items()}
        super().__init__(llm, ours, proc_mem, agent_id, **options)

    async def select(
        self,
        enhanced_query: str,
        candidates: Iterable[Any] | None = None,
        episode_summaries: Sequence[str] | None = None,
    ) -> FlowSelectionResult:
        """As :meth:`FlowSelector.select`; flows and prompts of the result are jazzmine's."""
        result = await super().select(enhanced_query, candidates, episode_summaries)
        result.chosen_flows = [self._flows[flow.name] for flow in result.chosen_flows]
        result.chosen_prompts = [flow.build_prompt(verbose=False) for flow in result.chosen_flows]
        result.combined_prompt = "\n\n".join(result.chosen_prompts)
        return result


def _to_message(message: Any) -> Message:
    return Message.model_validate(message.model_dump(mode="json"))


def _set_fields(message: Any, ours: Message, names: Collection[str] | None = None) -> None:
    """Set fields of a message of jazzmine, all that it has or the named ones of them."""
    own = type(message).model_fields
    data = ours.model_dump(mode="json", include=set(own if names is None else own.keys() & set(names)))
    read = type(message).model_validate(message.model_dump() | data)
    for name in data:
        setattr(message, name, getattr(read, name))
