"""What a message only asks, or only mentions: values in a question are asked about, and none of them is given."""

from __future__ import annotations

import re

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
