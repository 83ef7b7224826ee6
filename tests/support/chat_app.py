"""A chat behind FastAPI: what a reader of the guide would write.

Run: uvicorn --factory chat_app:make --workers 2, with the addresses of both stores in the environment.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Response
from pydantic import BaseModel

from jazzmine_dspy import FlowRegistry, RedisWorkingMemoryStore, Runtime, SqlMessageStore, TurnProgram
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.runtime import ActionOutcome, TurnOutcome
from shop_talks import SHOP, Overlap


class Incoming(BaseModel):
    """A message of a user."""

    conversation_id: str
    message_id: str
    text: str


def make() -> FastAPI:
    registry = FlowRegistry.from_yaml(SHOP, agent_id="shop")
    program = TurnProgram(registry, policy=Policy(fallback_score={"idle": 0.4, "busy": 0.6}))
    memory = RedisWorkingMemoryStore(os.environ["CHAT_REDIS"])
    messages = SqlMessageStore(os.environ["CHAT_MESSAGES"], deadline=60)
    runtime = Runtime(
        program.bind(recall=Overlap(registry)).with_policy("fallback"),
        working_memory=memory,
        messages=messages,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await memory.close()
        await messages.close()

    app = FastAPI(lifespan=lifespan)

    @app.post("/messages")
    async def take(message: Incoming, response: Response) -> TurnOutcome:
        response.headers["worker"] = str(os.getpid())
        return await runtime.process(user_id="ann", **message.model_dump())

    @app.post("/actions/{conversation_id}")
    async def finish(conversation_id: str) -> ActionOutcome:
        return await runtime.finish_action(conversation_id)

    return app
