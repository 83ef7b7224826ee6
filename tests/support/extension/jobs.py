"""An importer: CSV files of a repair shop, a message with its task and, for some, the place."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets import Labels
from jazzmine_dspy.datasets.importers import (
    SourceReader,
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
def jobs(reader: SourceReader) -> Sequence[Flow]:
    """Read CSV files with the columns ``text``, ``task`` and ``place``."""
    tasks: set[str] = set()
    for part in reader.parts:
        path = one_file(part, ".csv")
        for line, (text, task, place) in reader.csv(path, ("text", "task", "place")):
            with reader.row(path, line):
                commands: list[Command] = [StartFlow(flow=task)]
                commands += [SetSlot(name="place", value=place)] if place else []
                labels = Labels(flows=(task,), intent=task, commands=tuple(commands))
                reader.add(part, single(f"jobs-{part.name}-{line:04d}", text, labels))
                tasks.add(task)
    place = Slot(name="place", type="postcode", description="Where the work is to be done.")
    return [Flow(name=task, description=words(task), slots=(place,)) for task in sorted(tasks)]
