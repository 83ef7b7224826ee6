"""The language model as a decider: its requests, calls, answers, and what of an answer is believed."""
