"""A run whose answers come by file: it stops while some are awaited, and goes on to its end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Config, Message, Request

from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.optimize.recipe import Recipe

pytestmark = pytest.mark.row("O12")


def _answer(folder: Path, script: Callable[[Request], Any]) -> int:
    """Answers all that is awaited, as someone who sees the requests alone; how many there were."""
    path = folder / "answers.jsonl"
    held = path.read_text("utf-8").splitlines() if path.exists() else []
    done = {json.loads(line)["custom_id"] for line in held}
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["custom_id"] not in done]
    for row in rows:
        system, messages = None, []
        for message in row["body"]["messages"]:
            if message["role"] == "system":
                system = message["content"]
            else:
                kind = Message.user if message["role"] == "user" else Message.assistant
                messages.append(kind(message["content"]))
        request = Request(model="m", messages=tuple(messages), system=system, config=Config())
        held.append(json.dumps({"custom_id": row["custom_id"], "content": script(request)}))
    path.write_text("\n".join(held) + "\n", "utf-8")
    return len(rows)


@pytest.mark.parametrize(("shape", "optimizer"), [("fused", "bootstrap_random_search")])
def test_a_run_waits_and_goes_on_to_its_end(
    shape: str,
    optimizer: str,
    tiny: Callable[..., Recipe],
    scripts: Any,
    library: Path,
    run_recipe: Any,
    tmp_path: Path,
) -> None:
    recipe = tiny(
        shape=shape,
        optimizer=optimizer,
        lm="deferred:asked",
        sample={"dev_a": 2, "dev_b": 2, "test": 2},
        demos={"labeled": 1, "bootstrapped": 1, "candidates": 1},
    )
    script = scripts.taught(library)
    for _ in range(40):
        try:
            ran = run_recipe(recipe)
            break
        except Awaiting:
            assert not (tmp_path / "program").exists()
            assert _answer(tmp_path / "asked", script) > 0, "it awaits what was answered"
    else:
        pytest.fail("the run does not come to its end")
    manifest = json.loads((ran.result.folder / "manifest.json").read_text("utf-8"))
    assert manifest
    assert not (tmp_path / ".jazzmine" / "replay.db").exists()


def test_an_awaited_call_is_no_failed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jazzmine_dspy.lm import Meter, metered

    monkeypatch.chdir(tmp_path)
    meter = Meter(max_calls=5)
    lm = metered(resolve_lm("deferred:asked"), meter)
    with contextlib.suppress(Awaiting):
        lm("hello")
    assert (meter.counts.calls, meter.counts.failed) == (1, 0)
