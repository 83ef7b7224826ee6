"""English words that say nothing about which task is meant.

Negations, particles and the question words of place, time and amount are not among them: "not", "off",
"back", "where", "when" tell tasks apart ("send it back", "call it off").
"""

from __future__ import annotations

_WORDS = """
a an the
i me my mine myself we us our ours you your yours he him his she her hers it its they them their theirs
this that these those there here
am is are was were be been being do does did done doing have has had having
will would shall should can could may might must
and or but so if then than as because while
of to in on at by for with from into about
what which who whom whose
just please also too very really quite some any such
m s t d ll re ve im ive
hi hello hey thanks thank ok okay
"""

ENGLISH = frozenset(_WORDS.split())
