"""Training of the local heads, and the baseline that they have to beat."""
