"""What compiling with a hosted language model takes: against a server on this machine that answers after a while.

Prints tables in Markdown: what `docs/first-hour.md` takes (first_hour.py), the wall time of a compile at several
concurrencies, the turns scored wrong while every other request is refused, and what a call costs through our adapter
beside DSPy's own. The server of all but the first is a process of its own; it answers right where a prompt shows
demonstrations, so that a run goes all its ways.

Run: make bench-first-hour, or python tools/bench_first_hour.py --quick
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tools")]
DATASET = ROOT / "datasets" / "support"
CONCURRENCIES = (1, 8, 32)
SEED = 17


# --- the server ----------------------------------------------------------------------------------------------------


class Answers:
    """Right answers by message, out of the labels; wrong ones where a prompt shows no demonstration."""

    def __init__(self, always: bool) -> None:
        from jazzmine_dspy.models.commands import command

        lines = (DATASET / "conversations.jsonl").read_text("utf-8").splitlines()
        turns = [turn for line in lines for turn in json.loads(line)["turns"]]
        self.labels = {turn["text"]: turn["labels"] for turn in turns if turn.get("labels")}
        self.always, self.command = always, command

    def of(self, body: dict[str, Any]) -> str:
        messages = body["messages"]
        asked = str(messages[-1]["content"])
        line = [line for line in asked.splitlines() if line.startswith("message: ")][-1]
        labels = self.labels[json.JSONDecoder().raw_decode(line.removeprefix("message: "))[0]]
        letters = {
            n: a for a, n in re.findall(r"^(?:flows_offered: )?([A-H]) ([^\s:]+)", asked, re.MULTILINE)
        }
        right = self.always or any(message["role"] == "assistant" for message in messages)
        starts = [letters[n] for n in labels.get("flows", ()) if n in letters]
        kept = [each for each in labels.get("commands", ()) if each["type"] != "start_flow"]
        return json.dumps(
            {
                "enhanced_query": labels.get("enhanced", ""),
                "sentiment_score": labels.get("sentiment", 0.0),
                "intent": labels.get("intent", "unknown"),
                "entities": [],
                "is_cancellation": labels.get("is_cancellation", False),
                "is_continuation": labels.get("is_continuation", True),
                "commands": [*starts, *(self.command(each).as_answer() for each in kept)] if right else [],
            }
        )


def serve(pipe: Connection, counts: Any, delay: float, refused: float, always: bool) -> None:
    """Serve OpenAI's chat completions until the other end of the pipe sends; it gets the address first."""
    from fake_openai import FakeOpenAI
    from provider_server import Fault

    answers, chance = Answers(always), random.Random(SEED)

    def answer(body: dict[str, Any]) -> str:
        time.sleep(delay)
        return answers.of(body)

    def fault(_: int) -> Fault | None:
        with counts.get_lock():
            refuses = chance.random() < refused
            counts[0] += 1
            counts[1] += refuses
        return Fault("rate_limit") if refuses else None

    with FakeOpenAI(flavour="vllm", answer=answer, faults=fault) as server:
        pipe.send(server.address)
        pipe.recv()


class Server(NamedTuple):
    """A running server: its address, and how many requests came in and were refused."""

    address: str
    counts: Sequence[int]


@contextlib.contextmanager
def serving(delay: float, *, refused: float = 0.0, always: bool = False) -> Iterator[Server]:
    processes = multiprocessing.get_context("spawn")
    pipe, other = processes.Pipe()
    counts = processes.Array("i", 2)
    process = processes.Process(target=serve, args=(other, counts, delay, refused, always))
    process.start()
    try:
        yield Server(pipe.recv(), counts)
    finally:
        pipe.send("end")
        process.join()


# --- compiling -----------------------------------------------------------------------------------------------------


class Watch:
    """Progress that notes how long each phase takes, and what it asks."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.phases: list[tuple[str, float, int]] = []

    def phase(self, name: str, total: int | None) -> None:  # noqa: ARG002
        self.phases.append((name, time.perf_counter(), self.server.counts[0]))

    def step(self, done: int, total: int | None, *, best: float | None, spent: Mapping[str, Any]) -> None:
        pass

    def note(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr)

    def close(self) -> None:
        self.phases.append(("", time.perf_counter(), self.server.counts[0]))

    def asking(self) -> float:
        """Seconds of the phases that asked the language model turn after turn, with all they do beside it."""
        pairs = zip(self.phases, self.phases[1:], strict=False)
        return sum(after[1] - before[1] for before, after in pairs if after[2] > before[2] + 1)


def compile_at(concurrency: int, sample: int, delay: float) -> tuple[float, float, int, str]:
    """Compile once: seconds of the phases that ask, of the whole, requests, and a hash of what was made."""
    from jazzmine_dspy.models.base import sha256
    from jazzmine_dspy.optimize.recipe import Recipe
    from jazzmine_dspy.optimize.run import optimize

    recipe = Recipe.model_validate(
        {
            "name": "hour", "dataset": str(DATASET), "lm": "openai/scripted", "tracking": "none", "seed": SEED,
            "concurrency": concurrency, "signatures": "", "demos": {"candidates": 2, "bootstrapped": 2, "labeled": 2},
            "sample": {"dev_a": sample, "dev_b": 2 * sample, "test": 2 * sample},
        }
    )  # fmt: skip
    with serving(delay) as server, tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        os.environ["OPENAI_API_KEY"] = "sk-none"
        from jazzmine_dspy.lm import resolve_lm

        lm = resolve_lm("openai/scripted", api_base=server.address, api_key="sk-none")
        watch = Watch(server)
        started = time.perf_counter()
        made = optimize(recipe, out="program", progress=watch, lm=lm)
        whole = time.perf_counter() - started
        for (name, then, asked), (_, end, later) in zip(watch.phases, watch.phases[1:], strict=False):
            if later > asked:
                print(f"  {name}: {end - then:.1f} s, {later - asked} requests", file=sys.stderr)
        files = {
            str(path.relative_to("program")): path.read_bytes().hex()
            for path in sorted(Path("program").rglob("*"))
            if path.is_file()
            and path.name in ("program.json", "policy.json", "heads.safetensors", "examples.jsonl")
        }
        print(f"  ships {made.shipped}", file=sys.stderr)
        return watch.asking(), whole, server.counts[0], sha256(files)[:12]


def compiling(sample: int, delay: float) -> None:
    from jazzmine_dspy.datasets import load_dataset

    found = load_dataset(DATASET)
    turns = sum(turn.labels is not None for each in found.conversations for turn in each.turns)
    print(f"\n### Compiling on {turns} labelled turns, {delay:g} s an answer\n", flush=True)
    print("| at once | requests | phases that ask, s | faster | whole compile, s | artefact |")
    print("| ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    first = None
    for concurrency in CONCURRENCIES:
        asking, whole, requests, made = compile_at(concurrency, sample, delay)
        first = first or asking
        print(
            f"| {concurrency} | {requests} | {asking:.1f} | {first / asking:.1f} | {whole:.1f} | {made} |",
            flush=True,
        )


# --- outages -------------------------------------------------------------------------------------------------------


def outages(turns: int) -> None:
    """Evaluate with and without refusals: the same scores turn by turn."""
    from jazzmine_dspy.artifacts import bind_recall
    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.eval import evaluate
    from jazzmine_dspy.lm import resolve_lm
    from jazzmine_dspy.program.policy import Policy
    from jazzmine_dspy.program.turn import TurnProgram

    found = load_dataset(DATASET)
    examples = found.examples("train")[:turns]
    program = TurnProgram(found.flows, policy=Policy(shape="fused")).with_policy("lm")
    bind_recall(program, "minilm")
    print(f"\n### {turns} turns while half of the requests are refused with status 429\n")
    print("| refused | requests | turns unanswered | turns scored otherwise than without |")
    print("| ---: | ---: | ---: | ---: |", flush=True)
    plain: Any = None
    for share in (0.0, 0.5):
        with serving(0.02, refused=share, always=True) as server:
            lm = resolve_lm("openai/scripted", api_base=server.address, api_key="sk-none")
            got = evaluate(program.bind(lm=lm), examples, concurrency=32)
            asked, refused = server.counts
        scores = [turn.scores for turn in got.turns]
        plain = plain or scores
        wrong = sum(mine != theirs for mine, theirs in zip(scores, plain, strict=True))
        print(f"| {refused} | {asked} | {got.unanswered} | {wrong} |", flush=True)


# --- overhead ------------------------------------------------------------------------------------------------------


def overhead(calls: int) -> None:
    """Milliseconds of a call that a scripted engine answers at once."""
    import dspy

    from jazzmine_dspy.datasets import load_dataset
    from jazzmine_dspy.lm import scripted_lm
    from jazzmine_dspy.program.lm.requests import request_for
    from jazzmine_dspy.program.policy import Policy
    from jazzmine_dspy.program.state import TurnState
    from jazzmine_dspy.program.turn import TurnProgram
    from jazzmine_dspy.signatures.adapter import DecisionAdapter

    found = load_dataset(DATASET)
    example = found.examples("train")[0]
    answer = {
        "enhanced_query": example.turn.text, "sentiment_score": 0.0, "intent": "unknown", "entities": [],
        "is_cancellation": False, "is_continuation": True, "flows": [], "commands": [],
    }  # fmt: skip
    lm = scripted_lm(lambda _: json.dumps(answer))
    program = TurnProgram(found.flows, policy=Policy(shape="fused")).with_policy("lm").bind(lm=lm)
    request = request_for(TurnState(example.turn, found.flows, program.policy), "fused")

    def by(adapter: Any, config: Mapping[str, Any]) -> Callable[[], Any]:
        def call() -> Any:
            with dspy.context(lm=lm, adapter=adapter):
                return program.fused(**request.inputs, config=dict(config))

        return call

    print("\n### A call without its answer's time\n")
    print("| way | median, ms | 95th percentile, ms |")
    print("| --- | ---: | ---: |", flush=True)
    ways = {
        "DSPy's JSONAdapter": by(dspy.JSONAdapter(), {"max_tokens": 320}),
        "our adapter, with the schema of the call": by(DecisionAdapter(), request.config),
        "a whole decision: deadline, retries, log, merge": lambda: program.decide(example.turn),
    }
    for name, call in ways.items():
        times = []
        for _ in range(calls + 20):
            began = time.perf_counter()
            call()
            times.append((time.perf_counter() - began) * 1000)
        times = sorted(times[20:])
        print(
            f"| {name} | {statistics.median(times):.2f} | {times[int(len(times) * 0.95)]:.2f} |", flush=True
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a small sample and 0.05 s an answer")
    parser.add_argument("--only", choices=("hour", "compile", "outages", "overhead"))
    parser.add_argument(
        "--sample", type=int, default=36, help="turns of dev-A; dev-B and test take twice as many"
    )
    parser.add_argument("--delay", type=float, default=0.5, help="seconds an answer takes")
    options = parser.parse_args(arguments)
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.getLogger("jazzmine_dspy").setLevel(logging.ERROR)
    if options.only in (None, "hour"):
        from first_hour import table

        print(f"\n### The first hour's page, each way\n\n{table()}", flush=True)
    sample, delay = (8, 0.05) if options.quick else (options.sample, options.delay)
    if options.only in (None, "compile"):
        compiling(sample, delay)
    if options.only in (None, "outages"):
        outages(30 if options.quick else 200)
    if options.only in (None, "overhead"):
        overhead(50 if options.quick else 500)
    return 0


if __name__ == "__main__":
    sys.exit(main())
