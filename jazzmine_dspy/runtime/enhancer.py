"""The message enhancer: what a user's message means, on its own, between a message store and a language model."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from jazzmine_dspy.lm.resolve import as_lm
from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.decision import Enhancement, StageRecord
from jazzmine_dspy.models.errors import MAX_SHOWN, InputError, format_error
from jazzmine_dspy.models.history import MAX_WINDOW, episode_lines, prune
from jazzmine_dspy.models.messages import Conversation, Message, MessageRole, next_episode
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.text import clean_text
from jazzmine_dspy.models.turn import MAX_TEXT, HistoryMessage, Turn
from jazzmine_dspy.program.deadline import Deadline, in_thread
from jazzmine_dspy.program.decide import read
from jazzmine_dspy.program.lm.decider import LMDecider
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime.conversations import MESSAGES, answered, one_turn
from jazzmine_dspy.runtime.outcome import EnhancementOutcome
from jazzmine_dspy.runtime.tracing import call_records, ensure_conversation
from jazzmine_dspy.runtime.turns import clean_snippets, history_message
from jazzmine_dspy.signatures.contract import CONTRACTS, asking

T = TypeVar("T")

_CAUSE = "enhancement: "
"""Prefix of the entries of ``Message.errors`` about an enhancement."""
_OTHER_STAGES = ("flows", "commands")


class MessageEnhancer:
    """Rewrites a user's message so that it can be read alone, and finds sentiment, intent, entities and topic.

    One call of a language model for each message. No flow is chosen, and no state is changed.

    Args:
        llm: A ``dspy.LM``, the name of one, a compiled ``TurnProgram``, an object with ``async agenerate(messages)``
            such as jazzmine's ``BaseLLM``, or an asynchronous function from a prompt to a text.
        message_store: The message store. Of jazzmine's own agent and store,
            ``jazzmine_dspy.integrations.jazzmine.agent.JazzmineEnhancer`` takes care.
        history_window: Turns of the user, 1 to 1,000, that are read with the replies between them, from the last change
            of topic on. Of each topic before it one line is read.
        flows: The flows, or a program's own where none are given: their names are the closed set of intents. Without
            flows an intent is any name in snake case.
        agent_id: Whose conversations these are, for those that are stored here.

    Raises:
        InputError: ``llm`` is no language model, or ``history_window`` is out of range.

    Example:
        >>> import asyncio
        >>> from jazzmine_dspy import InMemoryMessageStore, Message, MessageEnhancer
        >>> async def answer(prompt: str) -> str:
        ...     return '''{"enhanced_query": "Refund order 4471 again.", "sentiment_score": 0, "intent": "refund",
        ...                "entities": [], "is_cancellation": false, "is_continuation": true}'''
        >>> enhancer = MessageEnhancer(llm=answer, message_store=InMemoryMessageStore())
        >>> message = Message(id="m1", conversation_id="c1", user_id="u1", role="user", original_content="Do it again",
        ...                   timestamp=1_700_000_000_000, explicit_context=["Order 4471 was refunded."])
        >>> asyncio.run(enhancer.enhance_message(message)).enhanced_message
        'Refund order 4471 again.'
    """

    deadline: float | None = 10.0
    """Seconds for the language model, half of them for a store call; None for no limit. Late answers are ignored."""

    def __init__(
        self,
        llm: Any,
        message_store: MessageStore,
        history_window: int = 8,
        *,
        flows: FlowRegistry | Mapping[Any, Any] | Iterable[Any] | None = None,
        agent_id: str = "",
    ) -> None:
        if type(history_window) is not int or not 1 <= history_window <= MAX_WINDOW:
            raise InputError(
                f"history_window is {history_window!r}",
                where="history_window",
                remedy="Choose 1 to 1,000 turns of the user.",
            )
        if flows is not None and not isinstance(flows, FlowRegistry):
            flows = FlowRegistry(flows, agent_id=agent_id)
        self.message_store = message_store
        self.history_window = history_window
        self.agent_id = agent_id
        self._program = _enhancing_program(llm, flows, history_window)
        self._running: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    async def enhance_message(self, message: Message) -> Message:
        """Enhance a user's message, and write the enhanced fields alone to the store.

        A message that is not stored yet is stored first, with its conversation. ``message.explicit_context`` is read
        too. If the language model fails, the message gets safe defaults, ``message.errors`` says why, and one warning
        is logged; a store that fails is reported in the same way.

        Args:
            message: A message of a user.

        Returns:
            The same object, with the enhanced fields set.

        Raises:
            InputError: the message is not of a user, its text is empty or over 8,000 characters, or its snippets are
                too many. Nothing is stored then.
            ConflictError: its id belongs to another message, or its conversation to another user.
        """
        await self.enhance(message)
        return message

    async def enhance(self, message: Message) -> EnhancementOutcome:
        """:meth:`enhance_message`, with what the turn's trace and the end of a topic need besides the message."""
        text, snippets = _clean_input(message)
        key = (id(asyncio.get_running_loop()), str(message.id))
        async with self._running.setdefault(key, asyncio.Lock()):
            with one_turn():
                return await self._enhance(message, text, snippets)

    async def _enhance(self, message: Message, text: str, snippets: Sequence[str]) -> EnhancementOutcome:
        started_ms = int(time.time() * 1000)
        problems: list[str] = []
        stored = await self._load_history(message, text, problems)
        turn = Turn(
            text=text,
            history=stored.history,
            episode_summaries=stored.episodes,
            explicit_context=tuple(snippets),
        )
        try:
            enhancement, record = await _aenhance(self._program, turn, self.deadline)
        except Exception as error:
            enhancement = Enhancement(enhanced_query=turn.text)
            record = StageRecord(source="fallback", confidence=0.0, degraded=True, cause=format_error(error))
        reasons = [*problems, *([f"enhance: {record.cause}"] if record.cause else [])]
        problems += reasons[len(problems) :] if record.degraded else []
        fields = _fields(message, enhancement, turn, stored, reasons)
        _set_fields(message, fields)
        try:
            await self._bounded(self.message_store.update_message(message, fields=frozenset(fields)))
        except Exception as error:
            problems.append(f"update: {format_error(error)}")
            reasons.append(problems[-1])
            _set_fields(message, {"errors": _errors(stored.errors, reasons)})
        if problems:
            log.warning("the enhancement of message %r is degraded: %s", message.id, "; ".join(problems))
        calls = call_records(
            record.calls, message_id=message.id, started_at_ms=started_ms, purpose="enhancement"
        )
        return EnhancementOutcome(
            message=message,
            degraded=bool(problems),
            cause="; ".join(reasons)[:MAX_SHOWN] or None,
            new_episode=not enhancement.is_continuation,
            llm_calls=tuple(calls),
        )

    async def _load_history(self, message: Message, text: str, problems: list[str]) -> _StoredHistory:
        """Load the history of a message and store the message if it is new. Adds failures to ``problems``."""
        errors, listed = tuple(message.errors or ()), True
        try:
            stored = await self._bounded(self.message_store.get_message(message.id))
            if stored is None:
                await self._bounded(self._add(message))
            else:
                same_text = stored.original_content in (message.original_content, text)
                if stored.conversation_id != message.conversation_id or not same_text:
                    raise ConflictError(
                        "The id belongs to another message",
                        where=f"message {message.id!r}",
                        remedy="Give every message an id of its own.",
                    )
                errors, listed = tuple(stored.errors or ()), not stored.is_flagged
        except (InputError, ConflictError):
            raise
        except Exception as error:
            problems.append(f"store: {format_error(error)}")
        try:
            messages = await self._bounded(self._before(message, listed=listed))
            episode_id = messages[-1].episode_id if messages else 0
            shown, _ = prune(messages, user_turns=self.history_window, at_least=0)
            return _StoredHistory(
                tuple(map(history_message, shown)), episode_lines(messages), episode_id, errors
            )
        except Exception as error:
            problems.append(f"history: {format_error(error)}")
            return _StoredHistory((), (), message.episode_id, errors)

    async def _add(self, message: Message) -> None:
        """Store a message, and its conversation where there is none.

        Raises:
            ConflictError: the conversation belongs to another user, or the message's id to another message.
        """
        conversation = Conversation(
            id=message.conversation_id,
            user_id=message.user_id,
            agent_id=self.agent_id,
            created_at=message.timestamp,
            last_updated_at=message.timestamp,
        )
        await ensure_conversation(conversation, self.message_store)
        await self.message_store.store_message(message)

    async def _before(self, message: Message, *, listed: bool) -> list[Message]:
        """Return the messages before a message, oldest first, with enough turns of the user for the window.

        Args:
            listed: Whether the store lists the message itself: later messages are skipped.
        """
        limit = max(_READ_AT_ONCE, 4 * self.history_window)
        while True:
            limit = min(limit, MAX_READ)
            messages = list(await self.message_store.get_immediate_context(message.conversation_id, limit))
            place = next((at for at, each in enumerate(messages) if each.id == message.id), None)
            messages_before = messages[:place]
            turns = sum(each.role is MessageRole.USER for each in messages_before)
            enough = turns >= self.history_window and (place is not None or not listed)
            if enough or len(messages) < limit or limit == MAX_READ:
                return messages_before
            limit *= 4

    async def _bounded(self, call: Awaitable[T]) -> T:
        """Call the store within half of the deadline; a store that did not answer is not called again."""
        return await answered(call, MESSAGES, None if self.deadline is None else self.deadline / 2)


class _StoredHistory(NamedTuple):
    """The messages to show, a line for each earlier topic, the episode of the last message, and the stored errors."""

    history: tuple[HistoryMessage, ...]
    episodes: tuple[str, ...]
    episode_id: int
    errors: tuple[str, ...]


def _clean_input(message: Message) -> tuple[str, list[str]]:
    """Return the cleaned text and snippets of a message.

    Raises:
        InputError: the text is empty, or the text or snippets are too long.
    """
    if message.role.value != "user":
        raise InputError(
            f"The message is of the role {message.role.value!r}",
            where=f"message {message.id!r}",
            remedy="Enhance messages of users.",
        )
    text = clean_text(message.original_content, limit=MAX_TEXT, field="original_content")
    return text, clean_snippets(message.explicit_context, "explicit_context")


def _fields(
    message: Message, enhancement: Enhancement, turn: Turn, stored: _StoredHistory, reasons: Sequence[str]
) -> dict[str, Any]:
    """Return the fields to set and store. A message that needs no rewrite keeps its exact text."""
    query = enhancement.enhanced_query
    fields: dict[str, Any] = {
        "enhanced_message": message.original_content if query == turn.text else query,
        "sentiment_score": enhancement.sentiment_score,
        "intent": enhancement.intent,
        "entities": list(enhancement.entities),
        "is_cancellation": enhancement.is_cancellation,
        "is_continuation": enhancement.is_continuation,
    }
    decided = message.model_copy(update={"is_continuation": enhancement.is_continuation})
    fields["episode_id"], _ = next_episode(stored.episode_id, decided)
    errors = _errors(stored.errors, reasons)
    return fields | ({} if errors == (list(stored.errors) or None) else {"errors": errors})


def _errors(stored: Sequence[str], reasons: Sequence[str]) -> list[str] | None:
    """Return the stored errors with the reasons of this enhancement instead of the previous one."""
    return [
        *(each for each in stored if not each.startswith(_CAUSE)),
        *(f"{_CAUSE}{reason}"[:MAX_SHOWN] for reason in reasons),
    ] or None


MAX_READ = 10_000
"""Most messages to read at once, the limit of stores."""

_READ_AT_ONCE = 24


def _set_fields(message: Message, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(message, name, value)


async def _aenhance(
    program: TurnProgram, turn: Turn, seconds: float | None
) -> tuple[Enhancement, StageRecord]:
    """The enhancement alone: by the language model where one is bound, else as the whole turn is decided.

    Args:
        program: Made by :func:`_enhancing_program`.
        turn: The message with its history and its snippets.
        seconds: The deadline; None for no limit.
    """
    if "lm" not in program.policy.names:
        # Sentiment, topic, entities and intent are read after the commands, so the whole turn is decided.
        decision = await program.adecide(turn, deadline=seconds)
        return decision.enhancement, decision.stages["enhance"]
    deadline = Deadline(seconds, program.bindings.clock)
    state = TurnState(turn, program.registry, program.policy, program.bindings, deadline=deadline)
    if program.shape == "fused":
        state = await in_thread(functools.partial(read, program, turn, (), deadline))
    draft = await LMDecider(program, stages=("enhance",)).adraft(state, deadline)
    return draft.enhancement or Enhancement(enhanced_query=turn.text), draft.records["enhance"]


def _enhancing_program(llm: Any, registry: FlowRegistry | None, history_window: int) -> TurnProgram:
    """A program whose first stage asks a language model for the enhancement.

    Args:
        llm: What :func:`as_lm` takes, or a program. Of a program a copy asks with its compiled prompt: that of the
            enhancement, or in the fused shape the compiled one for all stages with the fields of the enhancement alone.
            A program that has none reads the message by itself.
        registry: Flows whose names are the closed set of intents, where they are not the program's own.
        history_window: Turns of the user that its prompt shows.

    Raises:
        InputError: ``llm`` is no language model.
    """
    if isinstance(llm, TurnProgram):
        program = llm.with_policy(_alone(llm, history_window))
        return program if registry is None else program.bind(registry=registry)
    policy = Policy(shape="staged", deciders=(("lm", None),), history_window=history_window)
    return TurnProgram(registry, policy=policy).bind(lm=as_lm(llm))


def _alone(program: TurnProgram, history_window: int) -> Policy:
    policy = program.policy.model_copy(update={"history_window": history_window, "enhance": "decider"})
    if not policy.asks("enhance"):
        # Nobody labelled it, and no language model is asked for it.
        return policy.named("local")
    if program.bindings.lm_for() is None:
        return policy.named("local") if "local" in policy.names else policy
    fused = policy.shape == "fused" and _is_compiled(program, "fused")
    update: dict[str, Any] = {"shape": "staged"}
    if fused and not _is_compiled(program, "enhance"):
        update = {"unasked": (*policy.unasked, *_OTHER_STAGES)}
    return policy.named("lm").model_copy(update=update)


def _is_compiled(program: TurnProgram, name: str) -> bool:
    """Whether a predictor has demonstrations, or other words than the package's."""
    predictor = program.predictor(name)
    plain = asking(name, CONTRACTS[name].signature, program.policy.unasked)
    own = predictor.signature
    return bool(predictor.demos) or _words(own) != _words(plain)


def _words(signature: Any) -> list[str]:
    return [
        signature.instructions,
        *(str(field.json_schema_extra["desc"]) for field in signature.fields.values()),
    ]
