"""What kind of talk a message is: a greeting, thanks, a complaint, or a request for time."""

from __future__ import annotations

import re
from typing import Literal

from jazzmine_dspy.models.language import words
from jazzmine_dspy.models.text import plain

TalkKind = Literal["complaint", "thanks", "greeting", "farewell", "noted", "chitchat"]
"""The keys of the texts that answer talk; ``chitchat`` is any other talk."""

COMPLAINT = -0.3
"""Talk with this sentiment or a lower one is a complaint."""

_THANKS = words("thanks thank thx thnx ty tysm cheers ta appreciate appreciated grateful")
_FAREWELL = words("bye goodbye byebye cya farewell")
_GREETING = words("hi hello hey heya hiya hullo howdy yo greetings morning afternoon evening")
_NOTED = words(
    "ok okay k kk alright right fine cool great perfect super nice good excellent brilliant lovely sure understood "
    "noted that's thats everything yes yeah yep no nope nah never mind nevermind forget it leave drop that this cancel "
    "stop got then so well all not about thanks thank you oh ah actually please just"
)
_DISAPPROVES = re.compile(
    r"\b(?:no good|not (?:so |all |that )*"
    r"(?:right|alright|fine|cool|great|perfect|super|nice|good|excellent|brilliant|lovely|okay|ok))\b"
)
_LONGEST_GREETING = 5


def kind_of_talk(text: str, sentiment: float = 0.0) -> TalkKind:
    """Returns the kind of a message that is known to be talk.

    Args:
        text: The message, in English. A message in another language is a complaint or ``chitchat``.
        sentiment: The message's sentiment, from -1.0 to 1.0.

    Example:
        >>> kind_of_talk("Thanks a lot!"), kind_of_talk("hello there"), kind_of_talk("you are useless!!!", -0.9)
        ('thanks', 'greeting', 'complaint')
    """
    said = plain(text).split()
    spoken = " ".join(said)
    if sentiment <= COMPLAINT or "thanks for nothing" in spoken:
        return "complaint"
    if _THANKS.intersection(said) and not {"no", "nope", "nah"}.intersection(said[:1]):
        return "thanks"
    if _FAREWELL.intersection(said) or spoken.startswith(
        ("see you", "have a nice", "have a good", "have a great")
    ):
        return "farewell"
    greets = bool(said) and (
        said[0] in _GREETING or (said[0] == "good" and bool(_GREETING.intersection(said[1:2])))
    )
    if (greets and len(said) <= _LONGEST_GREETING) or "how are you" in spoken:
        return "greeting"
    if not said or not _NOTED.issuperset(said):
        return "chitchat"
    return "complaint" if _DISAPPROVES.search(spoken) else "noted"


_LONGEST = 16
"""Words of a message that only asks for time."""

_SPAN = r"(?:moments?|mo|seconds?|secs?|minutes?|mins?|bit|ticks?|while)"
_COUNT = r"(?:a|another|one|two|half a|a couple of|a few|(?:\d|10|15|20|30))"
_FOR_A_WHILE = rf"(?: (?:for )?(?:just )?{_COUNT} (?:more )?{_SPAN})?"
_WAIT = (
    r"(?:"
    rf"(?:just |please |pls |can you |could you |would you |will you )*"
    rf"(?:hang on|hang about|hold on|hold up|wait|wait up|bear with me|stand by){_FOR_A_WHILE}"
    rf"|(?:just |please )*(?:give me|gimme|i need|i'll need|i'd need|let me have) (?:just )?{_COUNT} (?:more )?{_SPAN}"
    rf"|(?:just )?{_COUNT} (?:more )?(?:moment|mo|second|sec|minute|min|tick)s?"
    rf"|(?:brb|be right back|(?:i'll be |i'm )?back in {_COUNT} {_SPAN})"
    r"|let me (?:think|check|look|see)(?: about (?:it|that)| it up| first)?"
    r"|i(?:'m| am) (?:just |still )*(?:thinking|looking|checking|searching)(?: about (?:it|that)| it up| for it)?"
    r")"
)
_OWN = (
    r"(?:(?:my|the|a|his|her|our) )?(?:\w+ )?(?:phone|mobile|card|wallet|purse|bag|glasses|pen|laptop|computer|e-?mail|"
    r"inbox|invoice|receipt|letter|calendar|diary|papers?|paperwork|documents?|number|numbers|code|details?|bill|"
    r"statement|reference|passport|contract|schedule|notes?|drawer|desk|keys|it|that|one)"
)
_SEARCH = (
    r"(?:(?:find|fetch|get|grab|look for|look up|look at|check|ask|dig out) (?:for )?"
    rf"{_OWN}(?: (?:out|up|first))?|look it up)"
)
_SEARCHING = (
    rf"(?:finding|fetching|getting|grabbing|looking (?:for|up|at)|checking|searching(?: for)?) {_OWN}"
)
_THINK = r"(?:think|check|look|see|ask|decide|talk to|think about it)"
_PERSON = r"(?:my |the )?(?:wife|husband|partner|mum|mom|dad|boss|manager|colleague|team|son|daughter|flatmate|friend)"
_REASON = (
    rf"(?:(?:while |because |cos |as )?(?:i(?:'m| am)|i was) (?:just |still )?(?:{_SEARCHING}|thinking)"
    rf"|(?:let me|i'll|i will|i need to|i have to|i've got to|i must|need to|while i|to|so i can) (?:just |quickly )?"
    rf"(?:{_SEARCH}|(?:ask|check with|talk to|speak to) {_PERSON}(?: first)?|{_THINK}(?: first)?))"
)
_POLITE = r"(?:please|pls|plz|thanks|thank you|ok|okay|sorry|um+|uh+|hm+|oh|yes|yeah|sure)"
_ASKS = re.compile(
    # "Uh uh" is a no.
    rf"(?!uh uh$)(?:{_POLITE} )*(?:{_WAIT}(?: (?:and|while) (?=i|let))?(?: {_WAIT})?(?: {_REASON})?"
    rf"|(?:let me|i'll|i have to|i need to|i've got to|i must) (?:just |quickly )?"
    rf"(?:{_SEARCH}(?: first| quickly)?|(?:ask|check with|talk to|speak to) {_PERSON}(?: first)?)"
    rf"|i(?:'m| am) (?:just |still )*{_SEARCHING}"
    rf"|(?:um+|uh+|hm+)(?: let me (?:look|see|think))?)(?: {_POLITE})*"
)


def asks_for_time(text: str) -> bool:
    """Whether an English message asks to wait and says nothing else.

    Example:
        >>> asks_for_time("bear with me, I'm looking for the invoice"), asks_for_time("give me a moment to think")
        (True, True)
        >>> asks_for_time("wait, it's 4471"), asks_for_time("let me see my orders"), asks_for_time("wait no")
        (False, False, False)
    """
    said = plain(text)
    return len(said.split()) <= _LONGEST and _ASKS.fullmatch(said) is not None
