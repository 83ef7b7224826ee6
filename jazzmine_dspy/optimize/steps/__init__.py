"""The steps of a run, in their order."""
