"""Days, hours and numbers that a message mentions and does not give: taken, past, or of somebody else."""

from __future__ import annotations

import re
from collections.abc import Callable

from jazzmine_dspy.program.heads.acts.questions import corrects
from jazzmine_dspy.program.pauses import asks_for_time

_CLAUSE = re.compile(
    r"(?:[^,.;:!?\n\u2026\u2014]|(?<=\d)[,.:](?=\d)|\.(?=\w))+?"
    r"(?=[,;!?\n\u2026\u2014]|:(?!\d)|\.(?!\w)|,(?!\d)|\s-+\s|(?<!day)(?<!time)(?<!thing)\s(?:but|so|then|cos|because|except|although)\b|$)",
    re.IGNORECASE,
)
_TYPED = re.compile(
    r"\d|day\b|\b(?:todays?|tonights?|tomorrows?|tmrw|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|"
    r"midday|hundred|grand|(?:jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)\w*|mon|tues?|wed|thurs?|fri|sat|sun|week|"
    r"month|year)\b",
    re.IGNORECASE,
)
_TAKEN = re.compile(
    r"\b(?:busy|away|working|in court|on holiday|off work|tied up|unavailable|booked(?: up| out)?|closed|no good|"
    r"no use|only if|(?:less|more|fewer) than (?:last|usual|before)|any(?:thing| time| ?time) (?:before|"
    r"after|under|over|between)|a no-?go|out of the question|too (?:late|early|soon|far)|normally|usually|"
    r"currently|at the moment|"
    r"as (?:it|things) stands?|^\W*last time|last time (?:it|we|i|you|they|round|was)|used to|previously|"
    r"before that it was|in (?:line|front|the queue)|"
    r"(?:any|every)(?: ?day|thing|one| time)? (?:but|except|apart from|other than|bar)|"
    r"(?:day|\d(?:st|nd|rd|th)?)(?:'?s| is| was) (?:out|off|gone|taken|full|my|our|the|a|when|no)|"
    r"(?:we|there) were .*\blast (?:time|year)|not (?:after|until|till|on|in|around|free|available)|"
    r"(?:lease|contract|rent|shift|work|school|term|class|meeting|tenancy|holiday|warranty) "
    r"(?:ends?|starts?|finish\w*|runs? out|expires?)|(?:was|were|am|i'?m|we'?re) .*(?:till|until)|"
    r"i (?:finish|start|get off|get back|work))\b",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:never|not (?:going|coming|there|here|free|available|working|around|able|yet|been|now|then)|"
    r"cannot|can'?t|won'?t|don'?t|doesn'?t|didn'?t|isn'?t|wasn'?t|aren'?t|hasn'?t|haven'?t|hadn'?t|"
    r"couldn'?t|wouldn'?t)\b",
    re.IGNORECASE,
)
_ISNT = re.compile(r"\bisn['\u2019]?t\b", re.IGNORECASE)
_REFERS = re.compile(
    r"\b(?:not|n'?t) (?:a |an )?(?:sure|certain|bothered|mind|matter|care|too)\b", re.IGNORECASE
)
_ASKED = re.compile(
    r"^\W*(?:wasn'?t|is|isn'?t|are|aren'?t|can|can'?t|could|couldn'?t|would|wouldn'?t|do|does|don'?t)\b"
)
_PASSING = re.compile(
    r"\b(?:my|our|his|her|their|the|a|some) (?:\w+ )?(?:cousin|bro|sis|brother|sister|mum|mom|dad|mother|"
    r"father|son|daughter|wife|"
    r"husband|partner|boss|friend|mate|neighbour|uncle|aunt|nan|gran(?:ny|ma|dma|dad|ddad|pa|dpa)?|kids?|lad|car|boiler|guy|bloke|girl)\b|"
    r"\b(?:got|get|were|was|fell) (?:ill|sick|hurt)\b",
    re.IGNORECASE,
)
"""Of somebody or something else."""

_NOW = re.compile(
    r"\b(?:today|tonight|now|this (?:morning|afternoon|evening)|yesterday|last night)\b", re.IGNORECASE
)
_SMALL_TALK = re.compile(
    r"\b(?:weather|rain(?:s|ed|ing|y)?|pouring|pissing|sun(?:ny|shine)|hot|cold|freezing|boiling|warm|snow\w*|wind|windy|storm\w*|"
    r"fog|foggy|humid|drizzl\w+|lovely|gorgeous|miserable|grim|tired|knackered|exhausted|shattered|sleepy|bored|hungover|"
    r"hungry|stressed|fed up|rough|mood|happy|sad|grumpy|busy|hectic|mad|crazy|manic|long day|nightmare|"
    r"how are you|how'?s (?:it|your|things|life)|how you (?:doing|feeling)|having a|what a day|day off|bad day|"
    r"good day|"
    r"traffic|football|match|game|telly|work'?s|at work|office|birthday|headache|monday blues|feel(?:s|ing)?|coffee)\b",
    re.IGNORECASE,
)
"""The day on which somebody talks of the weather, of a mood or of work is no value."""

_OTHERS_THING = re.compile(
    r"\b(?:can|could|may|might|let|lets|letting|lend|lends|lending|lent|says?|said|offered|offering|reckons|has|have|had|got|"
    r"told me|borrow|use|using|own)\b.*?\b(?:his|her|their|hers|theirs)\b|"
    r"\b(?:has|got|have|owns|lent|lends|offered|lets|let) (?:got )?(?:me |us )?(?:an?|some|the|space|"
    r"room)\b.*\b(?:i|we|me|us)\b|"
    r"\b(?:his|her|their)\b.*\b(?:instead|for free)\b",
    re.IGNORECASE,
)

_CONCLUDES = re.compile(
    r"\b(?:so|then|call it|let'?s (?:say|go|do|make)|make it|make that|go for|go with|this time|better|best|rather|"
    r"instead|from now on|(?:do|take|have) the|how about|how'?s|what about|i'?d (?:like|want|say)|"
    r"i'?ll (?:take|have|do)|comes? to|total|"
    r"leaves|agreed|i make (?:it|that)|up to|down to|to be|has to be|have to be|'d be)\b",
    re.IGNORECASE,
)


def without_talk(text: str) -> str:
    """Blanks out clauses of the weather, a mood or work on a day, and of what is somebody else's.

    Example:
        >>> without_talk("work is crazy today, cancel Friday").strip(), without_talk("cancel today's")
        (', cancel Friday', "cancel today's")
    """
    return _without(text, _is_talk)


def _is_talk(clause: str) -> bool:
    talks = _NOW.search(clause) and _SMALL_TALK.search(clause)
    return bool(talks or (_PASSING.search(clause) and _OTHERS_THING.search(clause)))


def without_mentions(text: str) -> str:
    """Blanks out the clauses of a text that only mention a day, an hour or a number, and the pauses."""
    denials = not corrects(_ISNT.sub("", text))
    return _without(text, lambda clause: _is_mention(clause, denials=denials))


def _without(text: str, is_dropped: Callable[[str], bool]) -> str:
    told = list(text)
    for match in _CLAUSE.finditer(text.replace("\u2019", "'")):
        if is_dropped(match.group()):
            told[match.start() : match.end()] = " " * (match.end() - match.start())
    return "".join(told)


def _is_mention(clause: str, *, denials: bool) -> bool:
    if asks_for_time(clause):
        return len(clause.split()) > 1
    if _is_talk(clause):
        return True
    if not _TYPED.search(clause) or _ASKED.match(clause.lower()):
        return False
    if _TAKEN.search(clause) or _PASSING.search(clause):
        return True
    return denials and _DENIES.search(clause) is not None and not _REFERS.search(clause)


def conclusion(text: str) -> str:
    """The part of a text from its last word of conclusion on; all of it where it has none.

    Example:
        >>> conclusion("my lease ends on the 30th so from the 31st"), conclusion("Friday or Monday")
        ('so from the 31st', 'Friday or Monday')
    """
    matches = [*_CONCLUDES.finditer(text.replace("\u2019", "'"))]
    return text[matches[-1].start() :] if matches else text
