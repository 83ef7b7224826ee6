"""Learning curves: what labelled conversations bring over the base program; see tools/bench_learning.py."""
