"""BANKING77: customers' questions to a bank, one of 77 intents each; CSV with ``text`` and ``category``."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.importers.importer import importer, label_flows, labels_in, of_label, single
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, SourceReader, named_files, one_file
from jazzmine_dspy.models.flows import Flow


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
def banking77(reader: SourceReader) -> Sequence[Flow]:
    """Read CSV files; with ``categories.json`` near them, a label that is not in it is a fault of its row."""
    listed = reader.beside("categories.json", "banking_data")
    known = {str(name) for _, name in reader.elements(listed)} if listed else set()
    for part in reader.parts:
        path = one_file(part, ".csv")
        for line, (text, raw) in reader.csv(path, ("text", "category")):
            with reader.row(path, line):
                label = raw.strip()
                if not label:
                    raise BadRowError("No label")
                if known and label not in known:
                    raise BadRowError(f"Unknown label {label!r}: categories.json has none such")
                reader.add(part, single(f"banking77-{part.name}-{line:05d}", text, of_label(label)))
    said = labels_in(reader)
    return label_flows(known or said)
