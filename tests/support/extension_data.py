"""What a process works on that knows a package outside jazzmine_dspy: tables to import, and a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from jazzmine_dspy.datasets import write_splits

ENTRY_POINTS = """
[jazzmine_dspy.slot_types]
postcode = extension.postcode:Postcode

[jazzmine_dspy.deciders]
gazetteer = extension.gazetteer:Gazetteer
lookup = extension.lookup:Lookup
broken = extension.nowhere:Broken
"""
POSTCODES = ("sw1a 1aa", "M1 1AE", "b338th", "CR2 6XH", "dn551pt", "W1A 0AX")
SENTENCES = {
    "mend_boiler": ("mend my boiler", "my boiler is broken", "the boiler is cold"),
    "clean_windows": ("clean my windows", "the windows are dirty", "windows to clean"),
}
PLACES = {"the town hall": "M1 1AE", "the old mill": "B33 8TH", "the harbour": "DN55 1PT"}
WISHES = {"mend_boiler": "mend my boiler", "clean_windows": "clean my windows"}
ENDS = ("now", "please", "today", "tomorrow", "at noon")
PARTS = ("train", "dev_a", "dev_b", "test")


def write_source(folder: Path) -> None:
    """Tables of messages with a postcode in every second one, and the flows that their labels refer to."""
    folder.mkdir()
    slot = {"name": "place", "type": "postcode", "description": "Where the work is to be done."}
    flows = [
        {"name": name, "description": wish.capitalize(), "slots": [slot]} for name, wish in WISHES.items()
    ]
    (folder / "flows.yaml").write_text(yaml.safe_dump({"flows": flows}), "utf-8")
    for part, count in (("train", 24), ("dev", 12), ("test", 12)):
        rows = ["text,flow,slots"]
        for number in range(count):
            task = list(SENTENCES)[number % 2]
            wish = SENTENCES[task][number // 2 % 3]
            place = POSTCODES[number // 2 % len(POSTCODES)] if number % 4 < 2 else ""
            label = f"place={place}" if place else ""
            rows.append(f"{wish}{' at ' + place if place else ''} {part} {number},{task},{label}")
        (folder / f"{part}.csv").write_text("\n".join(rows) + "\n", "utf-8")


def write_dataset(folder: Path) -> None:
    """Twenty conversations of one message for each part; two of three name a place that only its name tells."""
    folder.mkdir()
    slot = {"name": "place", "type": "text", "pattern": "[A-Z0-9]+ [0-9][A-Z]{2}", "description": "Where."}
    flows = [
        {"name": name, "description": wish, "examples": [wish], "slots": [slot]}
        for name, wish in WISHES.items()
    ]
    (folder / "flows.yaml").write_text(yaml.safe_dump({"flows": flows}), "utf-8")
    (folder / "card.md").write_text("# shop\n", "utf-8")
    lines, roles = [], {}
    for part in PARTS:
        for number in range(20):
            flow = list(WISHES)[number % 2]
            name = list(PLACES)[number // 2 % 3] if number % 3 else None
            where = f" at {name}" if name else ""
            commands: list[dict[str, Any]] = [{"type": "start_flow", "flow": flow}]
            commands += [{"type": "set_slot", "name": "place", "value": PLACES[name]}] if name else []
            turn = {
                "role": "user",
                "text": f"{WISHES[flow]}{where} {ENDS[number % 5]}",
                "labels": {"flows": [flow], "commands": commands},
            }
            conversation = f"{part}-{number}"
            lines.append(json.dumps({"id": conversation, "turns": [turn]}))
            roles[conversation] = part
    (folder / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    write_splits(folder, roles, replace=True)
