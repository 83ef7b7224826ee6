"""A runtime as a graph: the runtime takes the turn, the nodes show and speak what came of it."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Checkpointer, interrupt

from jazzmine_dspy.dialogue.texts import join
from jazzmine_dspy.integrations.langgraph.actions import Action, ActionRunner, Answer, answered, stream_reply
from jazzmine_dspy.integrations.langgraph.state import (
    ROUTES,
    GraphInput,
    GraphState,
    awaited,
    mirror,
    require_same,
    resumed_message,
    route,
)
from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, WorkingMemory
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.messages import Message
from jazzmine_dspy.runtime import Runtime
from jazzmine_dspy.runtime.outcome import stored_step

DEADLINE = 60.0
"""Seconds that an action or an answer may take."""
_OUTLIVED = (
    "The checkpoints outlive the working memory, which is in this process alone: after a restart a conversation starts "
    "again, whatever its checkpoint shows. Pass Runtime(…, working_memory=RedisWorkingMemoryStore(…)) or InMemorySaver."
)
MESSAGES_SHOWN = 10
PASSED_ON = ("explicit_context", "episode_summaries", "locale", "user_attributes")


class _State(GraphState, total=False):
    """The state with what the nodes of a run hand on: the turn that was taken, and its next step."""

    turn: dict[str, Any]
    next_step: dict[str, Any]


def build_graph(
    service: Runtime,
    checkpointer: Checkpointer,
    *,
    actions: Mapping[str, Action] | None = None,
    answer: Answer | None = None,
    deadline: float = DEADLINE,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph over a runtime: each message is understood first, then goes where its decision leads.

    ``thread_id`` names the conversation, ``user_id`` in ``configurable`` the user (the thread's id without it).
    ``explicit_context``, ``episode_summaries``, ``locale`` and ``user_attributes`` are taken from there too.
    Call the graph with ``{"user_message": …}``; while it is interrupted, with ``Command(resume=…)``.

    Args:
        service: Takes the turns. Its stores hold the conversation; the checkpoints only mirror it.
        checkpointer: A saver in its asynchronous form; None for a subgraph, which uses its parent's.
        actions: Functions by flow, called with the values of the slots and the id of the action. They return JSON. A
            flow without a function is done as soon as it is ready.
        answer: Answers questions and talk, called with the graph's state: returns a text or yields its parts. The
            rest of the reply, such as the open question, is put after it. An action runs first. Without it, the texts
            of the flows answer.
        deadline: Seconds that an action or an answer may take. A late action counts as failed.

    Returns:
        The compiled graph. It is asynchronous: call ``ainvoke`` or ``astream``.

    Raises:
        InputError: ``actions`` names a flow that the runtime does not have, or something that cannot be called.

    Warns:
        UserWarning: The checkpoints outlive the working memory, which is in this process alone.
    """
    lasts = isinstance(checkpointer, BaseCheckpointSaver) and not isinstance(checkpointer, InMemorySaver)
    if lasts and isinstance(service.working_memory, InMemoryWorkingMemoryStore):
        warnings.warn(_OUTLIVED, stacklevel=2)
    nodes = _Nodes(service, ActionRunner(service, dict(actions or {}), deadline), answer, deadline)
    graph = StateGraph(_State, input_schema=GraphInput, output_schema=GraphState)
    steps: dict[str, Any] = {
        "understand": nodes.understand,
        "validate": _mirroring("slots", "conversation_state"),
        "digression": nodes.digression,
        "flow_stack": _mirroring("flow_stack", "slots", "conversation_state"),
        "confirm": _mirroring("conversation_state"),
        "action": nodes.action,
        "respond": nodes.respond,
        "wait": nodes.wait,
    }
    for name, node in steps.items():
        graph.add_node(name, node)
    graph.add_edge(START, "understand")
    graph.add_conditional_edges("understand", nodes.first, list(ROUTES))
    for name in ("validate", "digression", "flow_stack", "confirm", "action"):
        graph.add_conditional_edges(name, nodes.following, ["digression", "action", "respond"])
    graph.add_conditional_edges(
        "respond", lambda state: "wait" if state["turn"]["pending"] else END, ["wait", END]
    )
    graph.add_conditional_edges(
        "wait", lambda state: "understand" if "user_message" in state else "wait", ["understand", "wait"]
    )
    return graph.compile(checkpointer=checkpointer)


@dataclass(frozen=True)
class _Nodes:
    """The nodes that call the runtime."""

    service: Runtime
    actions: ActionRunner
    answer: Answer | None
    deadline: float

    async def understand(self, state: _State, config: RunnableConfig) -> dict[str, Any]:
        """Take the turn; of a message that was taken before, what came of it."""
        if "user_message" not in state:
            raise InputError(
                "The run has no message", where="user_message", remedy="Pass {'user_message': …}."
            )
        thread, user = _ids(config)
        text = state["user_message"]
        message_id = state.get("message_id") or _derived_id(thread, text)
        outcome = await self.service.process(
            conversation_id=thread,
            user_id=user,
            text=text,
            message_id=message_id,
            begin=True,
            **{name: config["configurable"][name] for name in PASSED_ON if name in config["configurable"]},
        )
        action = outcome.state.action
        steps = [one.next.kind for one in (*outcome.drained, outcome)]
        lost = steps[-1] == "queue" and self.actions.is_lost(outcome.state)
        runs = action is not None and (
            action.message_id == message_id if outcome.repeated else "run_flow" in steps
        )
        turn: dict[str, Any] = {
            "message_id": message_id,
            "user_message": text,
            "replies": [
                reply
                for one in (*outcome.drained, outcome)
                if (reply := _reply(one.message_id, one.next, one.reply, stored=one.stored))["kind"]
                != "run_flow"
            ],
            "action": {"id": action.action_id, "flow": action.flow_name, "lost": lost}
            if action is not None and (runs or lost)
            else None,
            "pending": None,
            "mirror": mirror(outcome.state),
        }
        if outcome.repeated and outcome.next.kind == "run_flow" and not runs:
            ended = (one.reply for one in outcome.state.action_results if one.message_id == message_id)
            end = _fields(message_id, "none", " ".join(ended))
            turn["replies"] = [*turn["replies"], end] if end["text"] else [end | {"text": outcome.reply}]
        return {
            "turn": turn,
            "next_step": outcome.next.record(),
            "decision": outcome.decision.model_dump(mode="json") if outcome.decision else {},
        }

    # Edges are asynchronous too: LangGraph runs others in a thread.
    async def first(self, state: _State) -> str:
        """The node after understanding."""
        name = route(state)
        return "action" if name in ("respond", "digression") and state["turn"]["action"] else name

    async def following(self, state: _State) -> str:
        """The node after that one. An action comes first, so that it does not wait for an answer."""
        turn = state["turn"]
        if turn["action"]:
            return "action"
        return "digression" if self.answer and any(map(_unanswered, turn["replies"])) else "respond"

    async def digression(self, state: _State) -> dict[str, Any]:
        """Answer questions and talk; the open question is put again."""
        turn = state["turn"]
        if self.answer is None:
            return {"conversation_state": turn["mirror"]["conversation_state"]}
        replies = [
            reply | await self._answered(self.answer, state, reply) if _unanswered(reply) else reply
            for reply in turn["replies"]
        ]
        return {"turn": turn | {"replies": replies}}

    async def _answered(self, answer: Answer, state: _State, reply: dict[str, Any]) -> dict[str, Any]:
        message_id, text = reply["message_id"], state["turn"]["user_message"]
        with contextlib.suppress(MemoryUnavailableError):
            if await self.service.messages.get_message(_reply_id(message_id)) is not None:
                return {"answered": True}  # of a message that comes again, the first text stays
        if message_id != state["turn"]["message_id"]:
            stored = await self.service.messages.get_message(message_id)
            text = stored.original_content if stored else ""
        view = {**state, **state["turn"]["mirror"], "user_message": text, "message_id": message_id,
                "last_response": reply["text"]}  # fmt: skip
        if (given := await answered(answer, view, self.deadline, _reply_id(message_id))) is None:
            return {"answered": True}
        parts = reply["text"].split(reply["unanswered"], 1) if reply["unanswered"] else [reply["text"]]
        rest = [reply["question"]] if reply["kind"] == "answer" else map(str.strip, parts)
        return {"answered": True, "text": join(given, *rest), "streamed": given}

    async def action(self, state: _State, config: RunnableConfig) -> dict[str, Any]:
        """Run the flow that is ready, and take the messages that waited for it."""
        thread, _ = _ids(config)
        turn, running = state["turn"], state["turn"]["action"]
        if running is None:
            return {}
        event = {"event": "action", "flow": running["flow"], "action_id": running["id"]}
        get_stream_writer()(event | {"status": "running"})
        if (outcome := await self.actions.run(thread, running["id"], lost=running["lost"])) is None:
            get_stream_writer()(event | {"status": "gone"})
            return {"turn": turn | {"action": None}}
        get_stream_writer()(event | {"status": "ended"})
        waited = [_reply(one.message_id, one.next, one.reply, stored=one.stored) for one in outcome.drained]
        if outcome.repeated:
            waited = await self._unspoken(outcome.state, turn["message_id"])
        follows = outcome.state.action
        ours = follows and (
            not outcome.repeated or follows.message_id in [one["message_id"] for one in waited]
        )
        turn |= {
            "replies": [
                *turn["replies"],
                _fields(outcome.message_id, outcome.next.kind, outcome.reply, outcome.question),
                *(one for one in waited if one["kind"] != "run_flow"),
            ],
            "action": {"id": follows.action_id, "flow": follows.flow_name, "lost": False}
            if follows and ours
            else None,
            "mirror": mirror(outcome.state),
        }
        return {"turn": turn, **turn["mirror"]}

    async def _unspoken(self, state: WorkingMemory, message_id: str) -> list[dict[str, Any]]:
        """Replies to messages that were taken after one in a run that broke off before it spoke."""
        ids = [one.message_id for one in state.processed]
        late = state.processed[ids.index(message_id) + 1 :] if message_id in ids else []
        return [
            _reply(one.message_id, stored_step(one.next_step), one.reply)
            for one in late
            if await self.service.messages.get_message(_reply_id(one.message_id)) is None
        ]

    async def respond(self, state: _State, config: RunnableConfig) -> dict[str, Any]:
        """Note what is said, and bring the state in line with the stores."""
        thread, user = _ids(config)
        turn, texts = state["turn"], []
        for reply in _by_message(turn["replies"]):
            text, reply_id = reply["text"], _reply_id(reply["message_id"])
            stored: Message | None = None
            if text and reply["kind"] not in ("queue", "untaken"):
                try:
                    stored = await self.service.record_reply(
                        thread, text, reply["kind"], message_id=reply_id, in_reply_to=reply["message_id"]
                    )
                except ConflictError:
                    # Of a node that runs again, the first text stays.
                    if (known := await self.service.messages.get_message(reply_id)) is None:
                        raise
                    stored = known
                except MemoryUnavailableError as error:
                    log.warning("Reply %r is not recorded: %s", reply_id, error)
                text = stored.original_content if stored else text
            if text:
                streamed = reply.get("streamed")
                stream_reply(reply_id, text, rest=None if streamed is None else text[len(streamed) :])
                texts.append(text)
        said = "\n".join(texts)
        spoken: dict[str, Any] = {
            "user_message": turn["user_message"],
            "message_id": turn["message_id"],
            "last_response": said,
            "turn": {"pending": None},
        }
        try:
            return spoken | await self._shown(thread, user, said)
        except MemoryUnavailableError as error:
            log.warning("The state of thread %r is as it was: %s", thread, error)
            return spoken

    async def wait(self, state: _State, config: RunnableConfig) -> dict[str, Any]:
        """Interrupt for the next message. It is a node of its own, since a node that interrupts loses its writes.

        Raises:
            StateError: The checkpoint shows another state than the store.
        """
        thread, pending = _ids(config)[0], state["turn"]["pending"]
        try:
            given = resumed_message(thread, interrupt(pending))
        except InputError as error:
            return {"turn": {"pending": pending | {"error": str(error)}}}
        given = given | {"message_id": given.get("message_id") or _derived_id(thread, given["user_message"])}
        with contextlib.suppress(
            MemoryUnavailableError
        ):  # without its store, the runtime answers all the same
            memory = await self.service.working_memory.get(thread)
            stored = memory or WorkingMemory(conversation_id=thread, user_id=thread)
            # A message that was taken, or that will wait for an action, changes nothing.
            if stored.action is None and given["message_id"] not in [
                one.message_id for one in stored.processed
            ]:
                require_same(thread, state, mirror(stored))
        return given

    async def _shown(self, thread: str, user: str, said: str) -> dict[str, Any]:
        """What the stores hold now, and what the next message should give."""
        state = await self.service.working_memory.get(thread)
        state = state or WorkingMemory(conversation_id=thread, user_id=user)
        messages = await self.service.messages.get_immediate_context(thread, MESSAGES_SHOWN)
        if (pending := awaited(state, self.service.registry)) is not None:
            pending = {"type": pending["type"], "text": said} | pending
        return {
            "messages": [
                {"id": one.id, "role": one.role.value, "content": one.original_content} for one in messages
            ],
            "turn": {"pending": pending},
            **mirror(state),
        }


def _mirroring(*names: str) -> Any:
    """A node that shows what the turn has changed."""

    async def node(state: _State) -> dict[str, Any]:
        return {name: state["turn"]["mirror"][name] for name in names}

    return node


def _ids(config: RunnableConfig) -> tuple[str, str]:
    """The ids of conversation and user."""
    given = config["configurable"]
    if not given.get("thread_id"):
        raise InputError(
            "The run has no thread", where="thread_id", remedy="Pass {'configurable': {'thread_id': …}}."
        )
    return str(given["thread_id"]), str(given.get("user_id") or given["thread_id"])


def _derived_id(thread: str, text: str) -> str:
    """The id of a message without one: a node that runs again from its checkpoint gives the same."""
    info = get_runtime().execution_info
    assert info is not None
    whole = f"{thread}\0{info.checkpoint_id}\0{text}"
    return hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:32]


def _fields(
    message_id: str, kind: str, text: str, question: str = "", unanswered: str | None = None
) -> dict[str, Any]:
    return {
        "message_id": message_id, "kind": kind, "text": text, "question": question, "unanswered": unanswered,
    }  # fmt: skip


def _reply(message_id: str, step: NextStep, text: str, *, stored: bool = True) -> dict[str, Any]:
    """What is said to a message; of a flow that runs, only what stands for an answer: its end says the rest."""
    if step.kind == "run_flow":
        kind = "run_flow" if step.unanswered is None else "answer"
        return _fields(message_id, kind, step.unanswered or "", "", step.unanswered)
    question = step.question if text.endswith(step.question) else ""
    return _fields(message_id, step.kind if stored else "untaken", text, question, step.unanswered)


def _reply_id(message_id: str) -> str:
    return f"reply-{message_id}"


def _unanswered(reply: Mapping[str, Any]) -> bool:
    return (reply["kind"] == "answer" or reply["unanswered"] is not None) and not reply.get("answered")


def _by_message(replies: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One reply for each message, in order: a message may lead to two actions, or wait and be taken later."""
    merged: dict[str, dict[str, Any]] = {}
    for reply in map(dict, replies):
        first = merged.get(reply["message_id"])
        if first is None or first["kind"] == "queue":
            merged.pop(reply["message_id"], None)
            merged[reply["message_id"]] = reply
        else:
            first["text"] = f"{first['text']} {reply['text']}".strip()
    return list(merged.values())
