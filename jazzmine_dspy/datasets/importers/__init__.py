"""Importers of tables of the user's own and of public datasets; each derives only what its source labels.

Importing this package registers the built-in ones; their order here is the order in which they are listed.
"""

# ruff: noqa: I001
from jazzmine_dspy.datasets.importers import table as table
from jazzmine_dspy.datasets.importers import candidates as candidates
from jazzmine_dspy.datasets.importers import intents as intents
from jazzmine_dspy.datasets.importers import nlupp as nlupp
from jazzmine_dspy.datasets.importers import mix as mix
from jazzmine_dspy.datasets.importers import star as star
from jazzmine_dspy.datasets.importers import sgd as sgd
from jazzmine_dspy.datasets.importers import sgd_variants as sgd_variants
from jazzmine_dspy.datasets.importers import multidogo as multidogo
from jazzmine_dspy.datasets.importers import rewrites as rewrites
from jazzmine_dspy.datasets.importers import rasa as rasa
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
