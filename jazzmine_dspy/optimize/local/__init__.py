"""Training the local decider on labelled turns."""
