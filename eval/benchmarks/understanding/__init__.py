"""How well messages are understood, beside the targets: see tools/bench_understanding.py."""
