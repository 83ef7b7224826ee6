"""Compiled programs on disk: saved, checked and loaded. JSON, YAML and safetensors; nothing is pickled."""

from jazzmine_dspy.artifacts.loading import BASE, Loaded, bind_recall, load, load_with_manifest
from jazzmine_dspy.artifacts.manifest import read_manifest
from jazzmine_dspy.artifacts.publishing import Published, find, publish
from jazzmine_dspy.artifacts.saving import check_target, save

__all__ = [
    "BASE",
    "Loaded",
    "Published",
    "bind_recall",
    "check_target",
    "find",
    "load",
    "load_with_manifest",
    "publish",
    "read_manifest",
    "save",
]
