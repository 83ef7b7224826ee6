"""Fill the marked blocks of README.md and of pages in docs/ from what commands have left behind, or print.

Run: .venv/bin/python tools/readme.py [TRANSCRIPT]

The figures are those of ``eval/reports/support/report.json`` (``make report``), ``.cache/bench.json``
(``make bench``) and ``.cache/chaos.txt`` (``make chaos``); the transcript is the file named, or stays. The conversation
is held anew, by ``chat`` with the shipped program and the messages of ``docs/examples/conversation.txt``.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))

from marked_block import filled

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "method" / "figures.md",
    ROOT / "docs" / "understanding.md",
)
MESSAGES = ROOT / "docs" / "examples" / "conversation.txt"
PROGRAM = ROOT / "optimize" / "programs" / "support"
REPORT = ROOT / "eval" / "reports" / "support" / "report.json"
BENCH = ROOT / ".cache" / "bench.json"
CHAOS = ROOT / ".cache" / "chaos.txt"
SHOWN = {
    "flow_set_exact": "flows right",
    "commands_exact": "commands right",
    "rewrite_token_f1": "rewrite F1",
    "unchanged_kept": "complete kept",
}
IN_COLUMNS = {"p50", "p95", "p50_ms", "p95_ms"}
"""Further figures of a benchmark that the table has as columns."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def _without_progress(text: str) -> str:
    """What a run prints from its table on, without the commands that make shows."""
    lines = [line for line in text.rstrip().splitlines() if not line.startswith(".venv/bin/")]
    first = next((place for place, line in enumerate(lines) if line.strip().startswith("quickstart: ")), 0)
    return "\n".join(lines[first:])


def main(transcript: Path | None) -> None:
    """Rewrite the blocks in place."""
    blocks = {"conversation": f"```text\n{conversation()}\n```", "given": given()}
    if transcript is not None:
        shown = _without_progress(_ESCAPES.sub("", transcript.read_text(encoding="utf-8")))
        blocks["transcript"] = f"```text\n{shown}\n```"
    if REPORT.is_file():
        report = json.loads(REPORT.read_text(encoding="utf-8"))
        blocks["figures"] = quality(report)
    if BENCH.is_file():
        blocks["speed"] = speed(json.loads(BENCH.read_text(encoding="utf-8")))
    if CHAOS.is_file():
        lines = CHAOS.read_text(encoding="utf-8").strip().splitlines()
        short = "\n".join(line if len(line) <= 118 else f"{line[:117]}…" for line in lines)
        blocks["chaos"] = f"```text\n{short}\n```"
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for name, content in blocks.items():
            if f"<!-- {name} -->" in text:
                text = filled(text, content, name)
        path.write_text(text, encoding="utf-8")


def conversation() -> str:
    """What ``chat`` prints of the messages, without a language model."""
    command = [Path(sys.executable).with_name("jazzmine-dspy"), "chat", PROGRAM, "--lm", "none"]
    with MESSAGES.open(encoding="utf-8") as messages:
        done = subprocess.run(command, stdin=messages, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def given() -> str:
    """What the shipped program gives without a language model, on the dataset and on the repair suite."""
    lines = ["| measured | % |", "|---|---|"]

    def heading(command: str) -> None:
        lines.append(f"| `{command}` |  |")

    def row(what: str, share: dict[str, Any]) -> None:
        bounds = (
            "" if share["low"] is None else f" [{share['low']:.1%}, {share['high']:.1%}]".replace("%", "")
        )
        lines.append(f"| {what} | {100 * share['value']:.1f}{bounds} |")

    data = "datasets/support"
    command, evaluation = _printed("evaluate", "support", data, "--lm", "none", "--replay")
    whole = evaluation["replay"]
    heading(command)
    for name, what in (("conversations", "right in every turn"), ("ends_right", "end right")):
        row(f"test part, whole conversations ({whole['conversations']}): {what}", whole["shares"][name])
    cost = whole["after_first_error"]
    for name, what in (("right", "right"), ("right_apart", "right had nothing gone wrong before")):
        row(f"turns after a first error ({cost['turns']}): {what}", {"value": cost[name], "low": None})
    command, first = _printed("evaluate", "support", f"{data}/earlier", "--lm", "none")
    heading(command)
    share = first["metrics"]["commands_exact"]
    row(f"first test part, its first labels ({share['n']} turns): all commands right", share)
    command, suite = _printed("test", "eval/suites/repair", "support", "--lm", "none")
    heading(command)
    for name, share in suite["shares"].items():
        kind, _, registry = name.partition("conversations/registry/")
        if registry and not kind:
            row(f"suite, {registry} ({share['n']}): conversations right in every turn", share)
    return "\n".join(lines)


def _printed(*arguments: str) -> tuple[str, dict[str, Any]]:
    """The command, and the document that it prints; a suite with errors in it exits with 1."""
    command = [str(Path(sys.executable).with_name("jazzmine-dspy")), *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(done.stderr)
    return f"jazzmine-dspy {' '.join(arguments)}", json.loads(done.stdout)


def quality(report: dict[str, Any]) -> str:
    """The rows of the report, with intervals."""
    lines = [
        f"> {report.get('verdict') or report['first_line']}",
        "",
        f"| {' | '.join(['', *SHOWN.values(), 'LM calls a turn', 'prompt tokens a turn', 'turns'])} |",
        "|---" * (len(SHOWN) + 4) + "|",
    ]
    for system in report["systems"]:
        cells = [_cell(system["metrics"].get(metric)) for metric in SHOWN]
        usage = system["usage"]
        cells += [
            f"{usage['lm_calls_per_turn']:.2f}",
            _tokens(usage),
            str(system["n"]),
        ]
        lines.append(f"| {system['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _tokens(usage: dict[str, float | None]) -> str:
    counted = usage["prompt_tokens_per_turn"]
    return "-" if counted is None else f"{counted:.0f}"


def _cell(metric: dict[str, float] | None) -> str:
    if metric is None:
        return "-"
    if metric["low"] is None:
        return f"{metric['value']:.1%} [too few]"
    return f"{metric['value']:.1%} [{metric['low']:.1%}, {metric['high']:.1%}]"


def speed(bench: dict[str, Any]) -> str:
    """Median and 95th percentile of each benchmark, in milliseconds."""
    lines = ["| benchmark | p50 ms | p95 ms | beside |", "|---|---|---|---|"]
    for entry in bench["benchmarks"]:
        times = sorted(seconds * 1000 for seconds in entry["stats"]["data"])
        p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
        beside = ", ".join(
            f"{key} {value:.{_places(value)}f}"
            for key, value in entry["extra_info"].items()
            if _is_number(value) and key not in IN_COLUMNS
        )
        name = entry["name"].removeprefix("test_").replace("_", " ")
        lines.append(f"| {name} | {statistics.median(times):.2f} | {p95:.2f} | {beside} |")
    return "\n".join(lines)


def _places(value: float) -> int:
    return 0 if value >= 10 or value == int(value) else 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
