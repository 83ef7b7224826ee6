"""Labelled datasets: their form, loading, checking, counting and splitting."""

from jazzmine_dspy.datasets.check import DatasetStats, Report, RoleStats, check_dataset, dataset_stats
from jazzmine_dspy.datasets.load import Dataset, load_dataset
from jazzmine_dspy.datasets.schema import (
    ROLES,
    Example,
    LabelledConversation,
    LabelledTurn,
    Problem,
    Role,
    StateBefore,
    json_schema,
)
from jazzmine_dspy.datasets.split import FRACTIONS, assign_roles, write_splits
from jazzmine_dspy.models.labels import Labels

__all__ = [
    "FRACTIONS",
    "ROLES",
    "Dataset",
    "DatasetStats",
    "Example",
    "LabelledConversation",
    "LabelledTurn",
    "Labels",
    "Problem",
    "Report",
    "Role",
    "RoleStats",
    "StateBefore",
    "assign_roles",
    "check_dataset",
    "dataset_stats",
    "json_schema",
    "load_dataset",
    "write_splits",
]
