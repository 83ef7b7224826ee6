"""The phases of a compile, in their order: each takes the run's context and its inputs, and returns what it found."""
