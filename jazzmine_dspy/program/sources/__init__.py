"""Sources: the ways to answer a stage, tried in the order that the policy names."""
