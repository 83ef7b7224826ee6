"""Training of the local heads."""
