"""Importers of tables of one's own and of public datasets; each derives only what its source labels (D5, D7).

Importing this package registers the built-in ones; their order here is the order in which they are listed.
"""

# ruff: noqa: I001
from jazzmine_dspy.datasets.importers import export as export
from jazzmine_dspy.datasets.importers import candidates as candidates
from jazzmine_dspy.datasets.importers import clinc150 as clinc150
from jazzmine_dspy.datasets.importers import banking77 as banking77
from jazzmine_dspy.datasets.importers import hint3 as hint3
from jazzmine_dspy.datasets.importers import nlupp as nlupp
from jazzmine_dspy.datasets.importers import mix as mix
from jazzmine_dspy.datasets.importers import star as star
from jazzmine_dspy.datasets.importers import sgd as sgd
from jazzmine_dspy.datasets.importers.division import divide
from jazzmine_dspy.datasets.importers.intake import BadRow, BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import KINDS, Kind, importer
from jazzmine_dspy.datasets.importers.run import DEV_SHARE, ImportReport, import_dataset
from jazzmine_dspy.datasets.importers.source import (
    PARTS,
    Gathered,
    Part,
    Source,
    label_flows,
    named_files,
    of_label,
    one_file,
    single,
    unseen,
    words,
)

__all__ = [
    "DEV_SHARE", "KINDS", "PARTS", "BadRow", "BadRowError", "Gathered", "ImportReport", "Intake", "Kind", "Part",
    "Source", "divide", "import_dataset", "importer", "label_flows", "named_files", "of_label", "one_file", "single",
    "unseen", "words",
]  # fmt: skip
