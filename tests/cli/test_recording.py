"""Recorded answers as evidence: used where every request is found, told with date and kind of model, else not used."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm import LMSettingsError, Recording, recorded_lm, resolve_lm
from jazzmine_dspy.models.awaiting import Awaiting, Stale
from jazzmine_dspy.models.errors import InputError

pytestmark = pytest.mark.row("V10")

ROOT = Path(__file__).resolve().parents[2]
FACTS = """
name = "shop-brief"
measured = "whether \\"brief\\" prompts are understood"
dataset = "the starter shop"
part = "dev_a, all turns"
program = "fallback"
kind = "a large language model, asked in batches"
rules = "one context answers several requests of different conversations; no label in sight"
date = 2026-11-23
"""


def _said(body: dict[str, Any]) -> str:
    """An answer by hand: every message is complete and about nothing."""
    known = {
        "enhanced_query": "hello", "sentiment_score": 0.0, "intent": "chitchat", "entities": [], "flows": [],
        "is_cancellation": False, "is_continuation": False, "commands": [{"type": "chitchat"}],
    }  # fmt: skip
    wanted = body["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps({name: known[name] for name in wanted})


def _answer(folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]
    lines = []
    for row in rows:
        choice = {"message": {"content": _said(row["body"])}, "finish_reason": "stop"}
        body = {"choices": [choice], "usage": {"prompt_tokens": 50, "completion_tokens": 7}}
        lines.append(
            json.dumps({"custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}})
        )
    (folder / "answers.jsonl").write_text("\n".join(lines), "utf-8")


def _record(folder: Path, out: Path, facts: str = FACTS) -> int:
    """What the command that makes recordings ends with."""
    spec = importlib.util.spec_from_file_location("record", ROOT / "tools" / "record.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    given = out.parent / "facts.toml"
    given.write_text(facts, "utf-8")
    return int(tool.main([str(folder), str(out), str(given)]))


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def evaluate(run: Any, program: Path, dataset: Path) -> Callable[..., Any]:
    def with_lm(lm: str, *more: object) -> Any:
        command = ["evaluate", program, dataset, "--split", "dev_a", "--policy", "lm", "--lm", lm]
        return run(*command, *(more or ["--json"]))

    return with_lm


def test_an_evaluation_from_a_recording(
    evaluate: Any, run: Any, asking: Any, dataset: Path, tmp_path: Path
) -> None:
    for _ in range(5):
        first = evaluate("deferred:asked?model=large")
        if first.code != 3:
            break
        _answer(tmp_path / "asked")
    assert first.code == 0
    assert first.json["recording"] is None
    assert _record(tmp_path / "asked", tmp_path / "kept") == 0
    # Keys and answers are kept, the requests and what is said in them are not.
    files = _files(tmp_path / "kept")
    assert set(files) == {"recording.toml", "requests.jsonl", "answers.jsonl"}
    assert b"messages" not in b"".join(files.values())
    assert tomllib.loads(FACTS).items() <= tomllib.loads(files["recording.toml"].decode()).items()

    (tmp_path / "asked").rename(tmp_path / "away")
    done = evaluate("recording:kept")
    assert done.code == 0
    for name in ("metrics", "sources", "slices", "degraded", "n"):
        assert done.json[name] == first.json[name]
    assert done.json["usage"]["prompt_tokens_per_turn"] == first.json["usage"]["prompt_tokens_per_turn"] > 0
    told = done.json["recording"]
    held = len(files["answers.jsonl"].splitlines())
    assert told["used"] == told["answers"] == held
    assert (told["date"], told["kind"]) == ("2026-11-23", "a large language model, asked in batches")
    shown = evaluate("recording:kept", "--report", "report")
    assert (
        f"{held} of {held} recorded answers of a large language model, asked in batches, 2026-11-23"
        in shown.out
    )
    report = (tmp_path / "report" / "report.md").read_text("utf-8")
    assert "recorded answers of a large language model, asked in batches, 2026-11-23" in report

    # Another prompt: its answers are not there, and none of the old ones is used.
    flows = (dataset / "flows.yaml").read_text("utf-8")
    (dataset / "flows.yaml").write_text(flows.replace("about: ", "about: bicycles, ", 1), "utf-8")
    stale = evaluate("recording:kept", "--json", "--report", "stale")
    assert stale.code == 1
    assert set(stale.json) == {"stale", "recording"}
    assert stale.json["stale"] == 6
    assert "kept is stale: 6 requests have no answer in it. It is not used" in stale.err
    assert not (tmp_path / "stale").exists()
    decided = run("decide", asking("none"), "--text", "a bike for two", "--lm", "recording:kept", "--json")
    assert (decided.code, decided.json["stale"]) == (1, 1)
    assert _files(tmp_path / "kept") == files


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A recording of one answer."""
    lm = resolve_lm(f"deferred:{tmp_path / 'asked'}?model=large", max_tokens=9)
    with pytest.raises(Awaiting) as caught:
        lm("one")
    (key,) = caught.value.keys
    (tmp_path / "asked" / "answers.jsonl").write_text(
        json.dumps({"custom_id": key, "content": "eins"}), "utf-8"
    )
    assert _record(tmp_path / "asked", tmp_path / "kept") == 0
    return tmp_path / "kept"


def test_only_what_was_asked_in_the_same_way_is_found(kept: Path) -> None:
    files = _files(kept)
    lm = recorded_lm(kept, max_tokens=9)
    assert lm("one") == asyncio.run(lm.acall("one")) == ["eins"]
    for other, text in ((lm, "two"), (recorded_lm(kept, max_tokens=8), "one")):
        with pytest.raises(Stale, match="1 request has no answer"):
            other(text)
        with pytest.raises(Stale):
            asyncio.run(other.acall(text))
    with pytest.raises(LMSettingsError, match="model"):
        recorded_lm(kept, model="other")
    assert _files(kept) == files


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "a large', 'sort = "a large', "kind: Field required"),
        ("date = 2026-11-23", 'date = "soon"', "date: "),
        ("date = 2026-11-23", "date = ", "malformed"),
        ('rules = "one', 'rules = ""\n# "one', "rules: "),
    ],
)
def test_a_recording_says_what_it_is(kept: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    assert _record(tmp_path / "asked", tmp_path / "other", FACTS.replace(old, new)) == 2
    assert not (tmp_path / "other").exists()
    path = kept / "recording.toml"
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(InputError) as caught:
        Recording.read(kept)
    assert said in caught.value.message
    assert caught.value.where == str(path)


def test_what_was_not_answered_is_no_recording(
    tmp_path: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked" / "answers.jsonl").write_text("", "utf-8")
    assert _record(tmp_path / "asked", tmp_path / "other") == 2
    assert "Nothing is answered" in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot be read"):
        resolve_lm(f"recording:{tmp_path / 'nowhere'}")
    assert not (tmp_path / "nowhere").exists()
