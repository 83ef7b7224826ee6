"""Learning curves: gain over the base program by number of labelled conversations; see tools/bench_learning.py."""
