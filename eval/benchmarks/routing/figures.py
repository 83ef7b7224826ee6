"""The table: what was measured beside the published record and the target, and the block of its page in docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SHORT = {
    "flow_set_exact": "right",
    "in_scope_accuracy": "in scope",
    "out_of_scope_recall": "out of scope",
    "flow_order_exact": "in order",
    "recall_at_1": "r@1",
    "recall_at_3": "r@3",
    "recall_at_5": "r@5",
}
OURS = "this project"


@dataclass(frozen=True)
class Spec:
    """What a row is about.

    Args:
        title: As the table has it.
        metrics: Names as ``evaluate --json`` has them, in the order of the columns.
        record: What is published, on the published test part, which is not the one here.
        target: What each metric should reach at least.
        note: What a reader must know to compare; names in braces are counts of the row.
    """

    title: str
    metrics: tuple[str, ...]
    record: str = ""
    target: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


_SCOPE = ("in_scope_accuracy", "out_of_scope_recall")
_PROXY = (
    "no out-of-scope messages are public: left-out intents and other bots' messages stand for them; that half of the "
    "messages want no intent is taken from the published test parts"
)


def _bot(name: str, accuracy: float, recall: float) -> Spec:
    target = {"in_scope_accuracy": accuracy, "out_of_scope_recall": recall}
    return Spec(f"HINT3 {name}", _SCOPE, f"{accuracy:.1%} / {recall:.1%}", target, _PROXY)


SPECS: dict[str, Spec] = {
    "banking77": Spec(
        "BANKING77", ("flow_set_exact", "recall_at_5"), "94.94%; 94.42% at 225 ms", {"flow_set_exact": 0.95},
        "the published training part, from which the test is cut, has {published:,} messages",
    ),
    "banking77-10": Spec(
        "BANKING77, 10 examples a flow", ("flow_set_exact", "recall_at_5"), "89.8%", {"flow_set_exact": 0.90}
    ),
    "clinc150": Spec(
        "CLINC150 small, none out of scope in training", _SCOPE, "96.4% / 40.9%; 96.2% / 58.9%",
        {"in_scope_accuracy": 0.96, "out_of_scope_recall": 0.80},
    ),
    "clinc150-oos": Spec(
        "CLINC150 small, 100 out of scope in training", _SCOPE, "96.4% / 40.9%; 96.2% / 58.9%",
        {"in_scope_accuracy": 0.96, "out_of_scope_recall": 0.80},
    ),
    "clinc150-short": Spec("CLINC150, four of ten domains, 100 out of scope in training", _SCOPE),
    "banking77-open": Spec("BANKING77, four fifths of the categories, 10 examples a flow", _SCOPE),
    "hint3-curekart": _bot("curekart", 0.604, 0.868),
    "hint3-powerplay11": _bot("powerplay11", 0.615, 0.617),
    "hint3-sofmattress": _bot("sofmattress", 0.654, 0.669),
    "mixsnips": Spec(
        "MixSNIPS", ("flow_set_exact", "flow_order_exact"), "95.6%", {"flow_set_exact": 0.96},
        "trained on the dev part alone; no request of a test message stands in a training message",
    ),
    "nlupp": Spec("NLU++", ("flow_set_exact", "in_scope_accuracy")),
    "star": Spec("STAR, each turn in its context", ("flow_set_exact", *_SCOPE)),
    "sgd": Spec("SGD, schema as registry", ("flow_set_exact", "in_scope_accuracy", "recall_at_5")),
    "flows1000": Spec(
        "1,000 flows", ("flow_set_exact", "recall_at_5"), "none published", {"recall_at_5": 0.99},
        "{silent:,} of the {flows:,} flows are known by a description alone and nobody asks for them, {fillers:,} of "
        "these are fillers; all systems are told that every message wants a flow; semantic-router and TF-IDF choose "
        "among the flows with messages alone; {elsewhere:,} of the {wrong:,} wrong answers name a flow of another "
        "source",
    ),
    "flows20": Spec("20 of the 1,000 flows", ("flow_set_exact", "recall_at_5")),
    "registries": Spec("registries of the 1,000 flows, each alone", ("flow_set_exact", "recall_at_5")),
}  # fmt: skip


SMALLER = {"flows20": "20 flows drawn from the 1,000", "registries": "one registry's flows each"}
"""Catalogues whose requests are asked among 1,000 flows too."""


def percent(metric: Mapping[str, float | None]) -> str:
    """A share with its interval; without where too few conversations stand behind it.

    Example:
        >>> percent({"value": 0.9344, "low": 0.92, "high": 0.9441})
        '93.4% [92.0, 94.4]'
    """
    low, high = metric["low"], metric["high"]
    bounds = "too few" if low is None or high is None else f"{low * 100:.1f}, {high * 100:.1f}"
    return f"{metric['value']:.1%} [{bounds}]"


def verdict(spec: Spec, metrics: Mapping[str, Mapping[str, float]]) -> str:
    """Whether the targets are met, and by how much not; ``(within the interval)`` where it reaches the target.

    Example:
        >>> verdict(SPECS["banking77"], {"flow_set_exact": {"value": 0.94, "low": 0.93, "high": 0.951}})
        'missed by 1.0 points (within the interval)'
    """
    if not spec.target:
        return ""
    missed = []
    for name, wanted in spec.target.items():
        found = metrics.get(name)
        if found is None:
            missed.append(f"{SHORT[name]} not measured")
        elif found["value"] < wanted:
            what = f"{SHORT[name]} " if len(spec.target) > 1 else ""
            near = " (within the interval)" if (found["high"] or 0.0) >= wanted else ""
            missed.append(f"{what}missed by {(wanted - found['value']) * 100:.1f} points{near}")
    return "; ".join(missed) or "met"


def _about(spec: Spec, row: Mapping[str, Any]) -> str:
    lines = [f"**{spec.title}**", f"{row['counts']['training']:,} to learn from, {row['n']:,} asked"]
    if spec.record:
        lines.append(f"record {spec.record}")
    if spec.target:
        wanted = " / ".join(f"{value:.1%}" for value in spec.target.values())
        lines.append(f"target {wanted}: {verdict(spec, row['metrics'])}")
    return "<br>".join(lines)


def _measures(spec: Spec, ours: Mapping[str, Any]) -> str:
    lines = [SHORT[name] for name in spec.metrics if name in ours["metrics"]]
    lines += [f"{group} ({metric['n']:,})" for group, metric in ours.get("groups", {}).items()]
    return "<br>".join([*lines, "p50 / p95 ms", "training s", "head MB"])


def _cell(spec: Spec, ours: Mapping[str, Any], row: Mapping[str, Any] | None) -> str:
    """The figures of a system, one a line as :func:`_measures` names them."""
    if row is None:
        return ""
    if "skipped" in row:
        return f"not measured: {row['skipped']}"
    pairs = [
        *((row["metrics"], name) for name in spec.metrics if name in ours["metrics"]),
        *((row.get("groups", {}), name) for name in ours.get("groups", {})),
    ]
    lines = [percent(metrics[name]) if name in metrics else "-" for metrics, name in pairs]
    latency = row.get("latency_ms")
    lines += [
        f"{latency['p50']:.1f} / {latency['p95']:.1f}" if latency else "-",
        f"{row['seconds']:.0f}",
        f"{row['head_bytes'] / 1e6:.1f}" if row.get("head_bytes") else "-",
    ]
    return "<br>".join(lines)


def table(document: Mapping[str, Any]) -> str:
    """A row for each set, and a column for each system, as Markdown."""
    systems = [OURS, *dict.fromkeys(row["system"] for row in document["rows"] if row["system"] != OURS)]
    lines = [f"| set | measured | {' | '.join(systems)} |", "|---" * (len(systems) + 2) + "|"]
    sets: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in document["rows"]:
        sets.setdefault(row["row"], {})[row["system"]] = row
    for name, rows in sets.items():
        spec, ours = SPECS[name], rows.get(OURS, {"skipped": "no figures"})
        if "skipped" in ours:
            lines.append(f"| **{spec.title}** |  | {_cell(spec, ours, ours)} |{'  |' * (len(systems) - 1)}")
            continue
        cells = [_cell(spec, ours, rows.get(system)) for system in systems]
        lines.append(f"| {_about(spec, ours)} | {_measures(spec, ours)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def further(document: Mapping[str, Any]) -> str:
    """What does not fit into the table, as a list."""
    lines = [f"- {', '.join(titles)}: {note}." for note, titles in _notes(document).items()]
    lines += [
        _beside(document[name], what, target=name == "flows20")
        for name, what in SMALLER.items()
        if document.get(name)
    ]
    if recall := document.get("recall"):
        met = "met" if recall["target_met"] else "missed"
        lines.append(
            f"- Recall at {recall['points']:,} points, embedded, with random vectors and so without the time of "
            f"embedding a query: p50 {recall['p50_ms']:.1f} ms, p99 "
            f"{recall['p99_ms']:.1f} ms over {recall['n']:,} queries. Target: p99 of {recall['target_ms']:g} ms; {met}."
        )
    if banking := next((row for row in document["rows"] if _is_speed(row)), None):
        p50 = banking["latency_ms"]["p50"]
        met = "met" if p50 < 10 else "missed"
        lines.append(f"- A decision on BANKING77 takes {p50:.1f} ms (p50). Target: under 10 ms; {met}.")
    return "\n".join(lines)


def _beside(found: Mapping[str, Any], what: str, *, target: bool) -> str:
    gap = found["alone"]["value"] - found["among"]["value"]
    met = "met" if gap <= 0.02 else f"missed by {(gap - 0.02) * 100:.1f} points"
    told = (
        f"Target: at most 2 points between them; {met}" if target else f"{gap * 100:.1f} points between them"
    )
    return (
        f"- The same {found['n']:,} requests, in {found['catalogues']} catalogues of {what}: "
        f"{percent(found['alone'])} right there, {percent(found['among'])} among 1,000 flows. {told}."
    )


def _is_speed(row: Mapping[str, Any]) -> bool:
    return row["row"] == "banking77" and row["system"] == OURS


def _notes(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Each note with the titles of the rows that it belongs to."""
    notes: dict[str, list[str]] = {}
    for row in document["rows"]:
        spec = SPECS[row["row"]]
        if row["system"] == OURS and spec.note:
            notes.setdefault(spec.note.format(**row["counts"]), []).append(spec.title)
    return notes


def shares(document: Mapping[str, Any]) -> str:
    """How many turns go to an assumed second source, as Markdown: a row for each set, a column for each source.

    Example:
        >>> share = {"row": "banking77", "quality": 0.97, "harder": 1.0, "sent": 0.08, "loss": 0.006}
        >>> shares({"share": [share]}).splitlines()[-1]
        '| BANKING77 | 8.0%, 0.6 points: missed |'
    """
    sources: dict[tuple[float, float], str] = {}
    sets: dict[str, dict[tuple[float, float], str]] = {}
    for each in document.get("share", ()):
        key = (each["quality"], each["harder"])
        sources[key] = f"{key[0]:.0%}" + ("" if key[1] == 1 else f", errors x {key[1]:g}")
        met = "met" if each["sent"] <= 0.10 and each["loss"] <= 0.005 else "missed"
        cell = f"{each['sent']:.1%}, {each['loss'] * 100:.1f} points: {met}"
        sets.setdefault(each["row"], {})[key] = cell
    if not sets:
        return ""
    order = sorted(sources)
    lines = [
        "Turns sent on to an assumed source, by the share of turns on which that is right, and points lost against the "
        "better of both alone. With errors x 3, the source errs 3 times as often where the head errs. Target: 10 % at "
        "0.5 points.",
        "",
        f"| set | {' | '.join(sources[key] for key in order)} |",
        "|---" * (len(order) + 1) + "|",
    ]
    lines += [
        f"| {SPECS[name].title} | {' | '.join(cells.get(key, '') for key in order)} |"
        for name, cells in sets.items()
    ]
    return "\n".join(lines)


def block(document: Mapping[str, Any]) -> str:
    """The generated block of the README of this benchmark."""
    about = document["about"]
    seeds = ", ".join(map(str, about["seeds"]))
    said = (
        f"Made by `make bench-routing` with seed {seeds}, on {about['cores']} cores with a load of "
        f"{about['load']:.1f} at most when a set ended, in {about['minutes']:.0f} minutes."
    )
    if about["runs"] > 1:
        said += f" {about['runs']} runs, of one set or several each, were put into one table."
    if about["load"] > about["cores"]:
        said += " The machine had other work to do, so latencies and training times say little."
    if about["quick"]:
        said += " It was a quick run on a tenth of the data, whose figures are no measurement."
    parts = [said, table(document) if document["rows"] else "", shares(document), further(document)]
    return "\n\n".join(part for part in parts if part)


def missing(document: Mapping[str, Any]) -> list[str]:
    """What a whole table has and this one lacks: rows of this project, the speed of recall, smaller catalogues.

    Example:
        >>> missing({"rows": [{"row": name, "system": OURS} for name in SPECS if name != "sgd"]})
        ['sgd', 'recall', 'flows20', 'registries']
    """
    there = {row["row"] for row in document["rows"] if row["system"] == OURS}
    lacking = [name for name in SPECS if name not in there]
    return lacking + [each for each in ("recall", *SMALLER) if not document.get(each) and each not in lacking]


def ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order of :data:`SPECS`, ours first."""
    places = {name: number for number, name in enumerate(SPECS)}
    return sorted(rows, key=lambda row: (places[row["row"]], row["system"] != OURS))
