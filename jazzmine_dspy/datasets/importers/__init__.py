"""Imports tables of your own, and candidates exported from service, into dataset folders."""

from jazzmine_dspy.datasets.importers.run import KINDS, import_dataset
from jazzmine_dspy.datasets.importers.writer import ImportReport

__all__ = ["KINDS", "ImportReport", "import_dataset"]
