"""BANKING77: customers' questions to a bank, one of 77 intents each; CSV with ``text`` and ``category``."""

from __future__ import annotations

from jazzmine_dspy.datasets.importers.intake import BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import importer
from jazzmine_dspy.datasets.importers.source import (
    Gathered,
    PartName,
    Source,
    label_flows,
    named_files,
    of_label,
    one_file,
    single,
    unseen,
)
from jazzmine_dspy.datasets.schema import LabelledConversation


@importer(
    "banking77",
    title="BANKING77",
    source="github.com/PolyAI-LDN/task-specific-datasets (banking_data)",
    licence="CC BY 4.0",
    derived=(
        "One conversation of one message for each row; the message's flow and its intent are the row's category.",
        "One flow for each category; its description is the category as words.",
    ),
    left_out=(
        "No message is out of scope: the source has none such.",
        "No slots, commands, rewrites or sentiments, which the source does not label.",
    ),
    layout=named_files(".csv", "banking_data"),
    out_of_scope_share=0.0,
)
def banking77(source: Source, intake: Intake) -> Gathered:
    """Read CSV files; with ``categories.json`` near them, a label that is not in it is a fault of its row."""
    listed = source.beside("categories.json", "banking_data")
    known = {str(name) for _, name in intake.elements(listed)} if listed else set()
    conversations: dict[PartName, list[LabelledConversation]] = {}
    seen: dict[PartName, set[str]] = {}
    for part in source.parts:
        path = one_file(part, ".csv")
        rows = conversations.setdefault(part.name, [])
        labels = seen.setdefault(part.name, set())
        for line, (text, label) in intake.records(path, ("text", "category")):
            with intake.row(path, line):
                label = label.strip()
                if not label or (known and label not in known):
                    raise BadRowError(
                        f"Unknown label {label!r}: categories.json has none such" if label else "No label"
                    )
                rows.append(single(f"banking77-{part.name}-{line:05d}", text, of_label(label)))
                labels.add(label)
    flows = label_flows(known or set().union(*seen.values()))
    return Gathered(flows, conversations, unseen(seen))
