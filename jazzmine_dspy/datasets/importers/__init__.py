"""Importers of tables of the user's own and of public datasets; each derives only what its source labels.

Importing this package registers the built-in ones; their order here is the order in which they are listed.
"""

# ruff: noqa: I001
from jazzmine_dspy.datasets.importers import table as table
from jazzmine_dspy.datasets.importers import candidates as candidates
from jazzmine_dspy.datasets.importers import clinc150 as clinc150
from jazzmine_dspy.datasets.importers import banking77 as banking77
from jazzmine_dspy.datasets.importers import hint3 as hint3
from jazzmine_dspy.datasets.importers import nlupp as nlupp
from jazzmine_dspy.datasets.importers import mix as mix
from jazzmine_dspy.datasets.importers import star as star
from jazzmine_dspy.datasets.importers import sgd as sgd
from jazzmine_dspy.datasets.importers import sgd_x as sgd_x
from jazzmine_dspy.datasets.importers import multiwoz22 as multiwoz22
from jazzmine_dspy.datasets.importers import multidogo as multidogo
from jazzmine_dspy.datasets.importers import gecor as gecor
from jazzmine_dspy.datasets.importers import canard as canard
from jazzmine_dspy.datasets.importers import treccast as treccast
from jazzmine_dspy.datasets.importers import disfl_qa as disfl_qa
from jazzmine_dspy.datasets.importers import tiage as tiage
from jazzmine_dspy.datasets.importers import rasa_nlu as rasa_nlu
from jazzmine_dspy.datasets.importers import calm_e2e as calm_e2e
from jazzmine_dspy.datasets.importers.importer import label_flows, labels_in, of_label, single, words
from jazzmine_dspy.datasets.importers.importer import IMPORTERS, Importer, importer
from jazzmine_dspy.datasets.importers.run import DEV_SHARE, ImportReport, import_dataset
from jazzmine_dspy.datasets.importers.source_reader import (
    PARTS,
    BadRow,
    BadRowError,
    Part,
    SourceReader,
    named_files,
    one_file,
    one_part,
)

__all__ = [
    "DEV_SHARE", "IMPORTERS", "PARTS", "BadRow", "BadRowError", "ImportReport", "Importer", "Part", "SourceReader",
    "import_dataset", "importer", "label_flows", "labels_in", "named_files", "of_label", "one_file", "one_part",
    "single", "words",
]  # fmt: skip
