"""What a message only asks, mentions or corrects: parts of it that give no value."""

from __future__ import annotations

import re
from collections.abc import Callable

from jazzmine_dspy.program.acts import asks_for_time

_SENTENCE = re.compile(r"[^.!?\n]*(?:(?:\d\.\d|\.(?=\w))[^.!?\n]*)*[.!?\n]*")
_LEAD = (
    r"^\W*(?:(?:and|but|so|actually|ok|okay|hey|hi|hello|also|btw|oh|well|um+|right|wait|sorry|please|quick "
    r"question|then|yes|no)"
    r"\b[\s,:;.-]*)*"
)
_ASKS = re.compile(
    _LEAD
    + r"(?:what(?:'?s)?|which|who(?:'?s)?|where(?:'?s)?|when|why|how(?:'?s)?|is|isn'?t|are|aren'?t|am|was|were|do|"
    r"don'?t|does|doesn'?t|did|can|can'?t|could|will|would|should|has|have|may)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    _LEAD + r"(?:what(?! (?:i|we)(?:'d|'m|'ve|d)? .*\bis\b)|which|who|where|why|how)", re.IGNORECASE
)
_STATE = re.compile(_LEAD + r"(?:is|are|does|did|was|were|do (?:you|i|we|they)) \w+", re.IGNORECASE)
_TAG = re.compile(r",? ?\b(?:isn'?t it|aren'?t (?:they|we|you)|innit|eh|don'?t you think)\W*$", re.IGNORECASE)
_SUGGESTS = re.compile(
    r"\b(?:how|what) about\b|^\W*how'?s (?:the|next|this|\w+day|\d)|\bwhat if\b|\bwhy (?:not|don'?t)\b|"
    r"\b(?:can|could|may|might|shall|should|will|would) (?:you|we|i|u|it|that|they|somebody|someone|he|she)"
    r"(?: (?:please|pls|maybe|perhaps|possibly|just|also|all|still|then|instead|rather))* "
    r"(?:do|make|get|have|take|put|book|be|try|go (?:for|with|up|down|to)|use|say|start|pick|choose|set|change|switch|"
    r"give|come|squeeze|fit|schedule|order|add|pay|send|move|deliver|rent|bring|collect|swap|reserve|cut|lower|raise|"
    r"leave it|round|join|sail|travel|arrive|call|ring|text|reach|push|keep|settle|hold|stay|extend)\b|"
    r"\b(?:would|will|does|do|is|are|might|could)\b.+\b(?:work|suit|okay|ok|fine|possible|free|available|better|do|"
    r"alright|all right|doable|good|convenient|too (?:late|early|much|soon))(?: (?:for|with|by) (?:you|u|"
    r"them|him|her))?"
    r"(?: (?:then|instead|too|please|at all))?\W*$|"
    r"\b(?:is|are) (?:there|you) (?:any(?:thing|one|body)?|a|an|some(?:thing|one)?|free|available)\b.*"
    r"\b(?:on|at|for|free|left|around)\b|"
    r"\b(?:do|have) (?:you|u) (?:have|got) (?:any(?:thing)?|a|an|some(?:thing)?|space|room|slots?)\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:so|could|can|please|need|want|would like|i'?d like|we'?d like|let'?s|make it|i guess|take|book|anyway)\b",
    re.IGNORECASE,
)
LONG = 30
"""Words of a message from which on it names days and numbers in passing, and gives no more than what was asked for."""

_WORDS = 4
_CORRECTS = re.compile(
    r"\b(?:actually|instead|rather|i mean|i meant|make (?:it|that|them)|should (?:be|have been|say)|needs? to be|"
    r"correction|scratch that|oops|whoops|change|changed|changing|switch|swap|move (?:it|that)|wrong|mistake|"
    r"mis(?:spoke|typed|read)|typo|not\b.{1,30}\bbut|\w*\d\w*,? not|not \w*\d\w*|better|"
    r"on second thoughts?|second thought|after all|sorry|"
    r"sry|soz|no no|let'?s (?:do|say|make|go)|i said|"
    r"it'?s not|that'?s not|isn'?t|no[,.]|no it'?s|nope|oh wait|wait[,.]|"
    r"hang on|hold on|"
    r"update|correct|replace|prefer|up to|down to)\b",
    re.IGNORECASE,
)


_TALKED = 5
"""Words of a sentence with a tag ("isn't it") that is talk, and confirms no value."""


def without_questions(text: str) -> str:
    """Blanks out the sentences of a text that only ask, and leaves every other character in its place.

    A question that suggests a value, or names one and nothing else, is left: "can you do Friday?", "Friday at 9?".

    Example:
        >>> without_questions("Small. Are you open on Sunday?").strip()
        'Small.'
        >>> without_questions("would Friday at 9 work?"), without_questions("can I open the locker at night?").strip()
        ('would Friday at 9 work?', '')
    """
    parts = []
    for sentence in _SENTENCE.findall(text):
        parts.append(" " * len(sentence) if _only_asks(sentence) else sentence)
    return "".join(parts)


def _only_asks(sentence: str) -> bool:
    if _TAG.search(sentence) and len(sentence.split()) > _TALKED and not re.search(r"\d", sentence):
        return True
    if not _ASKS.match(sentence) or _SUGGESTS.search(sentence):
        return False
    return "?" in sentence or _OPEN.match(sentence) is not None or _STATE.match(sentence) is not None


def wish_of(text: str) -> str:
    """What a long message comes to: from its last wish or conclusion on; a short message as it is.

    Example:
        >>> wish_of("we measured it last night and " + "it is very big " * 8 + "so we'd better take the garage")
        "so we'd better take the garage"
    """
    if len(text.split()) <= LONG:
        return text
    for match in reversed([*_WISH.finditer(text)]):
        if len(text[match.start() :].split()) >= _WORDS:
            return text[match.start() :]
    return text


_OTHERS = re.compile(
    r"\b(?:(?:my|our|his|her|their) (?:\w+ ){1,2}?(?:flies|comes|goes|arrives|leaves|lands|gets|works|is|was|has|had|"
    r"said|says|told|only|can'?t|won'?t)|he|she|they)\b(?!'?s? (?:number|mobile|email|name)\b)",
    re.IGNORECASE,
)


def of_others(text: str) -> bool:
    """Whether a message tells of what others do, so that a day in it is mentioned and not given.

    Example:
        >>> of_others("5, my brother flies in on the 26th"), of_others("5, back on the 26th")
        (True, False)
    """
    return any(_OTHERS.search(part) and re.search(r"\d|day\b", part) for part in re.split(r"[,.;!?:]", text))


def corrects(text: str) -> bool:
    """Whether the words of a text say that something is to be another way: "actually", "make it", "I meant".

    Example:
        >>> corrects("oh wait, I meant the 4th"), corrects("I'm away until Friday, ring me")
        (True, False)
    """
    return _CORRECTS.search(text) is not None


def without_correcting(text: str) -> str:
    """A text without the words that :func:`corrects` looks for.

    Example:
        >>> without_correcting("fifty, I mean")
        'fifty, '
    """
    return _CORRECTS.sub("", text)


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
