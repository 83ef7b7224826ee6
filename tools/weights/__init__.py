"""Fitting what the package ships for flows that it does not know: acts, starts, and options in other words."""
