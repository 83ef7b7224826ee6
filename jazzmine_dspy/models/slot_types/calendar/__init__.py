from jazzmine_dspy.models.slot_types.calendar import types as types
