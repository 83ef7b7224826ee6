"""Fill the marked blocks of README.md and of pages in docs/ with the results of commands.

Run: .venv/bin/python tools/readme.py

The figures come from ``eval/reports/support/report.json`` (``make report``), ``.cache/bench.json`` (``make bench``)
and ``.cache/chaos.txt`` (``make chaos``). ``chat`` runs the conversation again, with the shipped program and the
messages of ``docs/examples/conversation.txt``.
"""

from __future__ import annotations

import json
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
    ROOT / "eval" / "benchmarks" / "README.md",
    ROOT / "docs" / "understanding.md",
)
MESSAGES = ROOT / "docs" / "examples" / "conversation.txt"
PROGRAM = ROOT / "optimize" / "programs" / "support"
REPORT = ROOT / "eval" / "reports" / "support" / "report.json"
BENCH = ROOT / ".cache" / "bench.json"
CHAOS = ROOT / ".cache" / "chaos.txt"
SHOWN = {"flow_set_exact": "flows right", "commands_exact": "all commands right"}
TITLES = {
    "base": "base: without labels",
    "shipped": "shipped: trained on labels",
    "LM as written": "language model, prompts as written",
    "LM compiled": "language model, compiled prompts",
    "shipped, then the LM": "cascade: shipped, then the language model",
}
"""Names of the report's systems on the page."""
LEFT_OUT = "with demonstrations"
"""Systems that stand in the report only: their figures are nearly those of the systems before them."""
IN_COLUMNS = {"p50", "p95", "p50_ms", "p95_ms"}
"""Further figures of a benchmark that the table of ``make bench`` has as columns."""
PIDS = ("workers killed", "workers paused")
"""Lines of ``make chaos`` with numbers of processes, which the page leaves out."""
SPEED = {
    "decision without a language model[local]": "decision of the local decider",
    "decision without a language model[shipped]": "decision of the shipped program",
    "hit": "decision from the decision cache",
    "embedding[1]": "embedding of one message",
    "recall[1000]": "recall among 1,000 points",
    "recall[20000]": "recall among 20,000 points",
    "turn in process[5]": "working memory of a turn in process, 5 KB",
    "turn on redis[5]": "working memory of a turn on Redis, 5 KB",
    "turn on redis[50]": "working memory of a turn on Redis, 50 KB",
    "turn[in process]": "messages and trace of a turn in process",
    "turn[sqlite file]": "messages and trace of a turn in SQLite",
    "import in a fresh process[import jazzmine dspy]": "importing the package",
    "loading an artefact": "loading a program",
}
"""The benchmarks of the page, with their names there. ``make bench`` prints the others too."""


def main() -> None:
    """Rewrite the blocks in place."""
    blocks = {"conversation": f"```text\n{conversation()}\n```", "given": given()}
    if REPORT.is_file():
        report = json.loads(REPORT.read_text(encoding="utf-8"))
        blocks["figures"] = quality(report)
    if BENCH.is_file():
        blocks["speed"] = selected_speed(json.loads(BENCH.read_text(encoding="utf-8")))
    if CHAOS.is_file():
        lines = [
            line
            for line in CHAOS.read_text(encoding="utf-8").strip().splitlines()
            if not line.startswith(PIDS)
        ]
        short = "\n".join(line if len(line) <= 118 else f"{line[:117]}…" for line in lines)
        blocks["chaos"] = f"```text\n{short}\n```"
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for name, content in blocks.items():
            if f"<!-- {name} -->" in text:
                text = filled(text, content, name)
        path.write_text(text, encoding="utf-8")


def conversation() -> str:
    """The conversation as ``chat`` prints it, without a language model."""
    command = [Path(sys.executable).with_name("jazzmine-dspy"), "chat", PROGRAM, "--lm", "none"]
    with MESSAGES.open(encoding="utf-8") as messages:
        done = subprocess.run(command, stdin=messages, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def given() -> str:
    """Results of the shipped program without a language model, on the dataset and on the repair suite."""
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
    for name, what in (("right", "right"), ("right_apart", "right if the turns before had been right")):
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
    """The rows of the report, with intervals: first those that call no language model."""
    lines = [
        f"| {' | '.join(['', *SHOWN.values(), 'LM calls a turn', 'turns'])} |",
        "|---" * (len(SHOWN) + 3) + "|",
    ]
    systems = [system for system in report["systems"] if LEFT_OUT not in system["name"]]
    for system in sorted(systems, key=lambda each: each["usage"]["lm_calls_per_turn"] > 0):
        cells = [_cell(system["metrics"].get(metric)) for metric in SHOWN]
        cells += [f"{system['usage']['lm_calls_per_turn']:.2f}", str(system["n"])]
        title = TITLES.get(system["name"], system["name"])
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(metric: dict[str, float] | None) -> str:
    if metric is None:
        return "-"
    if metric["low"] is None:
        return f"{metric['value']:.1%} [too few]"
    return f"{metric['value']:.1%} [{metric['low']:.1%}, {metric['high']:.1%}]"


def speed(bench: dict[str, Any]) -> str:
    """Median and 95th percentile of each benchmark, in milliseconds."""
    lines = ["| benchmark | p50 ms | p95 ms | also measured |", "|---|---|---|---|"]
    for entry in bench["benchmarks"]:
        p50, p95 = _percentiles(entry)
        beside = ", ".join(
            f"{key} {value:.{_places(value)}f}"
            for key, value in entry["extra_info"].items()
            if _is_number(value) and key not in IN_COLUMNS
        )
        lines.append(f"| {_name(entry)} | {p50:.2f} | {p95:.2f} | {beside} |")
    return "\n".join(lines)


def selected_speed(bench: dict[str, Any]) -> str:
    """The benchmarks of the page, in its order."""
    lines = ["| measured | p50 ms | p95 ms |", "|---|---|---|"]
    entries = {_name(entry): entry for entry in bench["benchmarks"]}
    for name, label in SPEED.items():
        if name in entries:
            p50, p95 = _percentiles(entries[name])
            lines.append(f"| {label} | {p50:.2f} | {p95:.2f} |")
    return "\n".join(lines)


def _name(entry: dict[str, Any]) -> str:
    name: str = entry["name"]
    return name.removeprefix("test_").replace("_", " ")


def _percentiles(entry: dict[str, Any]) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    times = sorted(seconds * 1000 for seconds in entry["stats"]["data"])
    return statistics.median(times), times[min(len(times) - 1, int(len(times) * 0.95))]


def _places(value: float) -> int:
    return 0 if value >= 10 or value == int(value) else 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


if __name__ == "__main__":
    main()
