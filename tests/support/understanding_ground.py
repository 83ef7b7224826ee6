"""A suite and a dataset in small, and the folder of the benchmark's modules on the path."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jazzmine_dspy.datasets import write_splits

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "eval" / "benchmarks"))

FLOWS = """
flows:
  - name: borrow_book
    description: Borrow a book.
    examples: [lend me a novel, I'd like to borrow a book]
    confirm: "Lend {title} until {until}?"
    slots:
      - {name: title, type: text, description: Title, ask: "Which book?"}
      - {name: until, type: date, description: Last day, ask: "Until when?"}
  - name: renew_card
    description: Renew a library card.
    examples: [my card is out of date]
    slots:
      - {name: card, type: text, pattern: '[0-9]{4}', description: Card, ask: "Which card?", reask: "Four digits."}
      - {name: years, type: number, min: 1, max: 5, required: false, description: For how long, ask: "How many years?"}
"""
TALK = """
- id: NAME-01
  kind: digression
  date: 2026-05-11
  turns:
  - user: I want to borrow Emma until June 1
    expect: {flow: borrow_book, status: awaiting_confirmation, slots: {title: {one_of: [Emma]}, until: "2026-06-01"}}
  - user: June 2 is better
    expect: {flow: borrow_book, status: awaiting_confirmation, slots: {title: Emma, until: "2026-06-02"}}
  - user: hold on, my card is out of date
    expect: {flow: renew_card, status: collecting_slots, awaiting: card, slots: {}, paused: [borrow_book]}
  - user: "77"
    expect: {flow: renew_card, awaiting: card, slots: {}, paused: [borrow_book], next: reask}
  - user: forget the card
    expect: {flow: null, status: idle, paused: [borrow_book], next: resume}
  - user: back to the book then
    expect: {flow: borrow_book, status: awaiting_confirmation, slots: {title: Emma, until: "2026-06-02"}, paused: []}
  - user: "yes"
    expect: {flow: null, status: idle, ran: borrow_book}
- id: NAME-02
  kind: chitchat
  date: 2026-05-11
  turns:
  - user: good morning
    expect: {flow: null, status: idle}
  - user: get me a person
    expect: {next: handoff}
"""


def suite(folder: Path) -> Path:
    """Three registries, of which two are unseen."""
    folder.mkdir(parents=True)
    for name in ("north", "south", "home"):
        (folder / f"{name}.yaml").write_text(FLOWS, "utf-8")
        (folder / f"{name}.conversations.yaml").write_text(TALK.replace("NAME", name), "utf-8")
    (folder / "unseen.txt").write_text("north\nsouth\n", "utf-8")
    return folder


def dataset(folder: Path, conversations: int = 12) -> Path:
    """Conversations of two turns each, all of the test part but some."""
    folder.mkdir(parents=True)
    (folder / "flows.yaml").write_text(FLOWS, "utf-8")
    lines = []
    for number in range(conversations):
        first = {"role": "user", "text": f"my card {4000 + number} is out of date"}
        first["labels"] = {
            "flows": ["renew_card"],
            "commands": [
                {"type": "start_flow", "flow": "renew_card"},
                {"type": "set_slot", "name": "card", "value": str(4000 + number)},
            ],
        }
        second = {
            "role": "user",
            "text": "thanks",
            "labels": {"flows": [], "commands": [{"type": "chitchat"}]},
        }
        said = [first, {"role": "assistant", "text": "Done."}, second]
        lines.append(json.dumps({"id": f"c{number}", "date": "2026-05-11", "turns": said}))
    (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "card.md").write_text("# cards\n", "utf-8")
    roles = {
        f"c{number}": "test" if number > 2 else ("train", "dev_a", "dev_b")[number]
        for number in range(conversations)
    }
    write_splits(folder, roles, replace=True)
    return folder
