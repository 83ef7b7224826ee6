"""The local decider: rules and small trained models, which need no language model and no label."""

from jazzmine_dspy.program.local.decider import LocalDecider as LocalDecider
