"""An importer: CSV files of a repair shop, a message with its task and, for some, the place."""

from __future__ import annotations

from jazzmine_dspy.datasets import LabelledConversation, Labels
from jazzmine_dspy.datasets.importers import (
    Gathered,
    Intake,
    Source,
    importer,
    named_files,
    one_file,
    single,
    words,
)
from jazzmine_dspy.models import Command, Flow, Slot
from jazzmine_dspy.models.commands import SetSlot, StartFlow


@importer(
    "jobs",
    title="Jobs of a repair shop",
    source="example.org/jobs",
    licence="CC0",
    derived=("A flow for each task; a message's flow is its task.",),
    left_out=("No rewrites or sentiments.",),
    layout=named_files(".csv"),
    out_of_scope_share=0.0,
)
def jobs(source: Source, intake: Intake) -> Gathered:
    """Read CSV files with the columns ``text``, ``task`` and ``place``."""
    conversations: dict[str, list[LabelledConversation]] = {}
    tasks: set[str] = set()
    for part in source.parts:
        path = one_file(part, ".csv")
        rows = conversations.setdefault(part.name, [])
        for line, (text, task, place) in intake.records(path, ("text", "task", "place")):
            with intake.row(path, line):
                commands: list[Command] = [StartFlow(flow=task)]
                commands += [SetSlot(name="place", value=place)] if place else []
                labels = Labels(flows=(task,), intent=task, commands=tuple(commands))
                rows.append(single(f"jobs-{part.name}-{line:04d}", text, labels))
                tasks.add(task)
    place = Slot(name="place", type="postcode", description="Where the work is to be done.")
    flows = [Flow(name=task, description=words(task), slots=(place,)) for task in sorted(tasks)]
    return Gathered(flows, conversations)
