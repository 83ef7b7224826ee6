"""Importers of public datasets in their original formats; each derives only what its source labels (D5, D7)."""

from jazzmine_dspy.datasets.importers.division import divide
from jazzmine_dspy.datasets.importers.intake import BadRow
from jazzmine_dspy.datasets.importers.run import DEV_SHARE, KINDS, ImportReport, import_dataset
from jazzmine_dspy.datasets.importers.source import PARTS, Kind

__all__ = [
    "DEV_SHARE",
    "KINDS",
    "PARTS",
    "BadRow",
    "ImportReport",
    "Kind",
    "divide",
    "import_dataset",
]
