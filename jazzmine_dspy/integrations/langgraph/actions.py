"""Functions that a graph calls: actions, which end their flow whatever becomes of them, and answers to questions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.config import get_stream_writer
from langgraph.graph.message import push_message

from jazzmine_dspy.memory.errors import NotStoredError, StateError
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.runtime import Runtime
from jazzmine_dspy.runtime.hooks import ends_in_time
from jazzmine_dspy.runtime.outcome import ActionOutcome

Action = Callable[[dict[str, Any], str], Any]
"""Called with the values of a flow's slots and the id of the action; returns JSON, or an awaitable of it."""


class ActionRunner:
    """Runs the actions that a runtime has begun.

    Args:
        service: Where actions begin and end.
        functions: What runs each flow.
        deadline: Seconds that an action may take.

    Raises:
        InputError: a function's flow is unknown, or it cannot be called.
    """

    def __init__(self, service: Runtime, functions: Mapping[str, Action], deadline: float) -> None:
        for name, function in functions.items():
            if name not in service.registry or not callable(function):
                known = ", ".join(service.registry) or "none"
                raise InputError(
                    f"There is no flow {name!r}"
                    if name not in service.registry
                    else "The action cannot be called",
                    where=f"actions[{name!r}]",
                    remedy=f"Pass functions by the names of flows: {known}.",
                )
        self._service = service
        self._functions = functions
        self._deadline = deadline
        self._running: dict[str, asyncio.Task[ActionOutcome | None]] = {}
        self._results: dict[str, tuple[Any, bool]] = {}

    def is_lost(self, state: WorkingMemory) -> bool:
        """Whether the running action is over its deadline, and this process does not run it."""
        action = state.action
        return (
            action is not None
            and action.action_id not in self._running
            and state.last_updated - action.started_at / 1000.0 > self._deadline
        )

    async def run(self, conversation_id: str, action_id: str, *, lost: bool) -> ActionOutcome | None:
        """Run an action and end its flow; whoever comes while it runs waits for the same end.

        A caller that is cancelled leaves the action running.

        Args:
            lost: Do not run it; end its flow as failed.

        Returns:
            What came of it; None where its flow is gone.
        """
        if (task := self._running.get(action_id)) is None:
            task = asyncio.create_task(self._end(conversation_id, action_id, lost))
            self._running[action_id] = task
            task.add_done_callback(lambda _: self._running.pop(action_id, None))
        return await asyncio.shield(task)

    async def _end(self, conversation_id: str, action_id: str, lost: bool) -> ActionOutcome | None:
        state = await self._service.working_memory.get(conversation_id)
        running = state is not None and state.action is not None and state.action.action_id == action_id
        if state is None or not running:
            result, failed = None, True
        elif action_id in self._results:
            # The store did not take the end of an action that has run.
            result, failed = self._results[action_id]
        else:
            result, failed = (None, True) if lost else await self._call(state, action_id)
            self._results[action_id] = result, failed
        try:
            outcome = await self._finish(conversation_id, action_id, result, failed)
        except (StateError, NotStoredError) as error:
            log.warning("The end of action %r comes too late: %s", action_id, error)
            outcome = None
        self._results.pop(action_id, None)
        return outcome

    async def _finish(self, conversation_id: str, action_id: str, result: Any, failed: bool) -> ActionOutcome:
        finish = self._service.finish_action
        try:
            return await finish(conversation_id, result, failed=failed, action_id=action_id, begin=True)
        except InputError as error:
            log.warning("Action %r has failed: %s", action_id, error)
            return await finish(conversation_id, failed=True, action_id=action_id, begin=True)

    async def _call(self, state: WorkingMemory, action_id: str) -> tuple[Any, bool]:
        """The result of an action, and whether it failed."""
        assert state.action is not None
        name = state.action.flow_name
        if (function := self._functions.get(name)) is None:
            return None, False
        task = asyncio.create_task(
            _called(function, state.active_flow.values if state.active_flow else {}, action_id)
        )
        if not await ends_in_time(task, self._deadline):
            log.warning("The action of %r did not end within %g s", name, self._deadline)
            return None, True
        try:
            return task.result(), False
        except (Exception, asyncio.CancelledError) as error:
            log.warning("The action of %r has failed: %s", name, format_error(error))
            return None, True


async def _called(function: Action, values: dict[str, Any], action_id: str) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    ):
        return await function(values, action_id)
    result = await asyncio.to_thread(function, values, action_id)
    return await result if inspect.isawaitable(result) else result


Answer = Callable[[Mapping[str, Any]], "str | Awaitable[str] | AsyncIterator[str]"]
"""Called with the graph's state; returns a text, an awaitable of one, or yields its parts."""


async def answered(answer: Answer, state: Mapping[str, Any], deadline: float, reply_id: str) -> str | None:
    """The answer to a message, streamed while it comes; None where it fails, is late, or is empty."""
    try:
        return (await asyncio.wait_for(_collected(answer, state, reply_id), deadline)).strip() or None
    except Exception as error:  # the turn was taken, so its user gets the text of the flow
        log.warning("The answer to %r has failed: %s", reply_id, format_error(error))
        return None


async def _collected(answer: Answer, state: Mapping[str, Any], reply_id: str) -> str:
    result = answer(state)
    if not isinstance(result, AsyncIterator):
        return str(await result if inspect.isawaitable(result) else result)
    parts: list[str] = []
    async for part in result:
        parts.append(part)
        get_stream_writer()({"event": "part", "reply_id": reply_id, "text": part})
        push_message(AIMessageChunk(content=part, id=reply_id), state_key=None)
    return "".join(parts)


def stream_reply(reply_id: str, text: str, *, rest: str | None = None) -> None:
    """Show a reply in the modes ``messages`` and ``custom``.

    Args:
        rest: What of it was not streamed before; None where nothing was.
    """
    get_stream_writer()({"event": "reply", "reply_id": reply_id, "text": text})
    if rest is None:
        push_message(AIMessage(content=text, id=reply_id), state_key=None)
    elif rest:
        push_message(AIMessageChunk(content=rest, id=reply_id), state_key=None)
