"""Free text that was asked for: where it begins and ends in the message, and which messages are none."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.agreement import stance
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.acts import LEAVE, NO, REPEAT, TALK, WAIT, YES
from jazzmine_dspy.program.heads.acts.named import AVOIDED, NO_BETWEEN
from jazzmine_dspy.program.heads.acts.readings import free_text

_GO_ON = {"go back", "ok go back", "back", "go on", "continue", "next"}
_NO_TEXT = YES | NO | LEAVE | REPEAT | TALK | WAIT | _GO_ON | {"help"}
"""Messages that are no text, whatever is asked."""

_TALKS = re.compile(
    r"(?:(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening|day)|there|you|u|all|just|wait|hang on|"
    r"hold on|bear with me|"
    r"one|a|give me|sec|second|moment|minute|min|please|pls|thanks|thank|cheers|um+|uh+|hm+|ok|okay|so|"
    r"well|let me|think|"
    r"check|look|see|lol|haha+|hehe|how are|how's it going|bot|mate|again)\W*)+",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:well|so|ok|okay|hi|hello|yes|sure|um+)\b[\s,]*)*"
    r"(?:(?:the|my|our|his|her|their)\s+(?:\w+\s+){0,2}?\w+(?:'s)?(?:\s+(?:full )?name)?\s+(?:is|was|"
    r"would be|goes by|being)\s+(?:called\s+|named\s+)?|"
    r"(?:it|that|this|he|she)(?:'s| is| was)\s+(?:called|named|about|to do with)\s+|(?:they|we) call "
    r"(?:it|him|her|them)\s+|name(?:'s| is|:)\s+)",
    re.IGNORECASE,
)
"""What stands before a free text and is none of it."""

_LEAD = re.compile(
    r"^\W*(?:(?:yeah|yes|ok|okay|well|so|um+|hm+|oh|no|wait|actually)\b[\s,]*)*"
    r"(?:(?:just )?(?:tell them|say|write|put)(?: that)?|"
    r"(?:i )?(?:think|guess|believe|reckon) (?:it'?s|it was|its)(?: called)?|"
    r"(?:we|i) (?:need|want) to end up in|"
    r"(?:that|it)(?:'?d| would) be(?: for)?|(?:we'?re|i'?m) (?:saving|paying|looking|asking|here|coming) for|"
    r"(?:how|what) about|it says|it was|it'?s (?:for|from|to|at)|"
    r"(?:we|i) (?:want|wanna|need|would like) (?:to get |to go )?to|"
    r"(?:(?:we'?re|i'?m|we|i) )?(?:going|goes|go|heading|headed|head|off|leaving|leave|sailing|sail|"
    r"departing|travelling|"
    r"starting|setting off|over|back) (?:out )?(?:to|for|from|of|outta|over to))"
    r"\s+(?:(?:that|my|the|a|an|from|to)\s+)?(?=\w)",
    re.IGNORECASE,
)
"""What stands before a free text whatever the slot is."""

_DICTATED = re.compile(
    r"\W*(?:(?:ok|okay|right|so|well|um+|yes|yeah|hi|hello|please|pls|just|can you|could you|and)\b[\s,]*)*"
    r"(?:(?:write|note|take|get|put|jot|type|pass|send) (?:this|it|that|the following)(?: (?:down|on|in|please|"
    r"pls|for me|exactly|"
    r"to (?:them|him|her|the \w+)|word for word))*\s?[:,-]+|(?:here (?:it is|goes|you go)|my (?:comment|"
    r"feedback|complaint|message|review)(?: is)?)\s?[:-]+|ok so\b,?)\s*",
    re.IGNORECASE,
)
"""What announces a telling: "ok write this down please:"."""

_BEHIND = re.compile(
    r"\s+(?:i (?:need|want|meant)|on the statement|actually|is where .*|i think|i guess|"
    r"pls|please)\W*$|\?+$",
    re.IGNORECASE,
)
_NONE_OF = re.compile(r"\W*no \w+\b(?! (?:is|it|the)\b).*\w+ \w+", re.IGNORECASE | re.DOTALL)
_TELLS = re.compile(
    r"comment|feedback|reason|message|note|problem|fault|wrong|happen|complain|describe|about|tell|why|"
    r"wish|details?|symptom",
    re.IGNORECASE,
)
"""Slots whose text is a telling, of which nothing is cut."""

_COMMA = re.compile(r",|\s(?=and (?:pls|please|can you|could you)\b)", re.IGNORECASE)
_COMMENT = re.compile(
    r",\s*(?:only|even|though|tho|because|cos|since|which|it(?:'s|s)?|i|i'?m|i'?ve|we|he|she|they|there|"
    r"last time|valid|lol)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_APART = re.compile(
    r"[A-Z][\w'.-]+(?: [A-Z][\w'.-]+){0,3}|(?!(?:yes|no|ok|hi|hey|well|so)\b)[a-z]+(?: [a-z]+){1,2}"
)
"""A name or a short phrase."""

_SUBJECT = re.compile(
    r"\b(?:i|i'?m|i'?ve|i'?ll|we|we'?re|we'?ve|you|he|she|they|it|it'?s|its|this|thats?|that'?s|there'?s|what|who|how|"
    r"is|are|was|were|has|have|had|does|did|do|can'?t|cant|cannot|won'?t|wont|don'?t|dont|doesn'?t|isn'?t|never|"
    r"will|would|could|should|know|think|got)\b",
    re.IGNORECASE,
)
"""Words of a sentence that says something."""

_SENTENCE = re.compile(r"[.;!?]+(?:\s+|$)|\n")
_SAYING = 4
"""Words of a text that may be a sentence."""

_TOLD, _NAMING = 5, 8
"""Words of a telling, and of a text that names something."""

_NUMBERED = re.compile(r",.*\d(?!\w* [A-Z])", re.DOTALL)
"""What stands behind a comma and holds a number is another slot's."""

_REQUEST = re.compile(
    r"\W*(?:(?:ok|hey|hi|and|also|so)\b[\s,]*)*(?:can|could|will|would) (?:you|u|i|we)\b", re.IGNORECASE
)
_WAITING = re.compile(
    r"\W*(?:brb|hang on|hold on|one sec|bear with me|gimme a (?:sec|min)|give me a (?:sec|min))\b",
    re.IGNORECASE,
)
_SAYS = re.compile(r"\b(?:is|are|was|were|has|have|really|it'?s|they'?re)\b", re.IGNORECASE)


def is_bare_act(text: str) -> bool:
    """Whether the whole message is an act, such as a yes or a no: a value of no text slot.

    Example:
        >>> is_bare_act("No!"), is_bare_act("yes YES go on then"), is_bare_act("no lid on the pot")
        (True, True, False)
    """
    answer = stance(text)
    return plain(text) in _NO_TEXT or (" " in text.strip() and answer.agrees and answer.whole)


def is_talk(text: str) -> bool:
    """Whether a message is no text, whatever is asked: talk, a bare yes or no, or a request.

    Example:
        >>> is_talk("hello there"), is_talk("can you fix my car too"), is_talk("Stop Hunger Now")
        (True, True, False)
    """
    bare = (
        is_bare_act(text)
        or not any(map(str.isalnum, text))
        or _WAITING.match(text) is not None
        or _TALKS.fullmatch(text.strip()) is not None
    )
    return bare or _REQUEST.match(text) is not None


_WISHES = re.compile(
    r"\b(?:(?:i|we|i'?d|we'?d) (?:also |just |really |still )*(?:want|need|wanna|gotta|would like|like to|have to|"
    r"must)|(?:can|could|would|will) (?:you|u|i|we)|please|pls|plz|help me|let me|let us|let'?s|"
    r"how (?:do|can|much|many)|also|btw|by the way|while (?:you'?re|ur|we'?re)|"
    r"instead|first|before (?:that|we)|wait|hang on|hold on|"
    r"actually|can the|begin again|another thing|oh and|forget|never ?mind|stop)\b|\?",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"^\W*[a-z]+ (?:me |up |off |out )?(?:my|the|a|an|our|this|that|some|another)\b", re.IGNORECASE
)
_STATES = re.compile(
    r"\b(?:i|we|my|our|the) .*\b(?:lost|stolen|broke\w*|isn'?t|hasn'?t|didn'?t|not)\b", re.IGNORECASE
)
_LONG_NAME = re.compile(r"(?:[A-Z][\w'&.-]*)(?: (?:[A-Z][\w'&.-]*|of|the|and|&|for|de|la|in|on))+")


def only_answers(slot: Slot, text: str) -> bool:
    """Whether a message can only be the free text that was asked for: it wishes, asks and orders nothing.

    Example:
        >>> from jazzmine_dspy.models.slots import Slot
        >>> slot = Slot(name="goal", type="text", ask="What are you saving for?")
        >>> [only_answers(slot, text) for text in ("stolen bike fund", "block my card", "Stop Hunger")]
        [True, False, True]
    """
    if slot.type not in ("text", "list") or slot.pattern:
        return False
    if is_name(text):
        return True
    if is_telling(slot):
        return _WISHES.search(text) is None and len(text.split()) >= _TOLD
    return len(text.split()) <= _NAMING and not (
        _WISHES.search(text) or _ORDERS.match(text) or _STATES.search(text)
    )


def is_name(text: str) -> bool:
    """Whether a message is written as a name is, with capitals throughout: "Restart Records"."""
    bare = text.strip(" .!")
    return _LONG_NAME.fullmatch(bare) is not None and not bare.isupper()


def is_telling(slot: Slot) -> bool:
    """Whether a slot's text is a telling: a comment, a reason, what is wrong."""
    description = f"{slot.name} {slot.description} {slot.ask}"
    return slot.type == "text" and not slot.pattern and _TELLS.search(description) is not None


def awaited_text(slot: Slot, text: str) -> str | None:
    """The text that a message gives, without what leads in to it and what comments on it; None where it gives none.

    Example:
        >>> from jazzmine_dspy.models.slots import Slot
        >>> awaited_text(Slot(name="patient", type="text"), "The patient is called Jo-Ann O'Malley")
        "Jo-Ann O'Malley"
    """
    if is_telling(slot):
        if (lead := _DICTATED.match(text)) is not None and text[lead.end() :].strip():
            return _TRAILING.sub("", text[lead.end() :]).strip(" .")
        value = _text_of(slot, _TRAILING.sub("", text))
        return text.strip(" .") if is_said(text) and plain(text) == f"the {plain(value)}" else value
    text = _COMMENT.sub("", _SIGNS.sub("", text).strip())
    if not is_name(text) and _NO_ANSWER.match(text):
        return None
    if (name := own_name(slot, text)) != text:
        return str(name)
    if _NUMBERED.search(text) and (apart := text_apart(text)) is not None:
        return apart
    bare = _bare_of(text)
    if bare is not None:
        return _text_of(slot, bare)
    remainder = _text_of(slot, text)
    return remainder if remainder != free_text(text) and not is_said(remainder) else None


_SIGNS = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]+")
"""Emoji, which are no part of a name or thing."""

_NO_ANSWER = re.compile(
    r"\W*(?:(?:um+|er+m?|hm+|so|well|oh|and|but|wait|hey|ok|okay)\b[\s,]*)*(?:"
    r"(?:ugh+|o+mg|lol|lmao|ha(?:ha)+|hehe|je+z|ge+z|jeez|argh+|a+w+|ooh+|w+o+w|phew|gosh|damn|dang|god|gah|meh|yay|"
    r"wh?oah?|blimey|crikey|oof|yikes|cheers|thx|bless)\b|"
    r"(?:(?:you|u|ya) )?(?:got|have|do|sell|stock) (?:any|some|you|u|much)\b|"
    r"(?:you|u) (?:guys|lot|do|have|got|sell|stock)\b|(?:do|does|did|is|are|can|could|would|will|have|has|"
    r"what(?! about)|"
    r"whats|which|who|whos|where|wheres|when|whens|why|how(?! about)) \w|any\b|any(?:thing|one|where|body)\b|"
    r"(?:whatever|whichever|wherever|whoever)\b|(?:not sure|no idea|dunno|idk|no clue)\b|"
    r"(?:looking|searching|checking|thinking|counting|still) |\w+ing (?:for|my|her|his|the|through|thru|up|it)\b)|"
    r".*\b(?:lol|lmao|haha+)\W*$",
    re.IGNORECASE,
)
"""Interjections, questions without their sign, and doubt: what begins so names nothing."""

_NAMED = re.compile(r"\bname\b", re.IGNORECASE)
_RELATIVE = re.compile(
    r"\W*(?:(?:it'?s|its|this is|that'?s|for|called|so|well|um+|yeah|yes)\b[\s,]*)*"
    r"(?:(?:my|our|the|his|her|a) )?(?:[a-z]+[\s,]+){1,4}(?:called |named |is )?"
    r"(?P<name>[A-Z][\w'-]*(?: [A-Z][\w'-]*)*)\W*$"
)
"""Somebody's relative by name: "my little lad Owen Pike"."""

_TRAILING = re.compile(
    r"(?:[,.!]?\s+(?:what else|(?:and )?(?:that'?s|thats|that is) (?:it|all)(?: from me| really| for now)?|"
    r"you know|i guess|"
    r"lol|thanks|thank you|thx|ta|cheers|pls|please|end of (?:message|story|rant)|rant over|the end)\b\W*)+$",
    re.IGNORECASE,
)


def own_name(slot: Slot | None, value: Any) -> Any:
    """A name without who it is of, where a slot asks for one: "my wee boy Callum Reid"; any other value as it is."""
    if slot is None or not isinstance(value, str):
        return value
    is_name = _NAMED.search(f"{slot.name} {slot.description} {slot.ask}")
    relative = _RELATIVE.match(value) if is_name else None
    return value if relative is None else relative["name"]


def _text_of(slot: Slot, text: str) -> str:
    """A text without what leads in to it."""
    lead = _LEAD_IN.match(text)
    if lead is not None and (
        " name" in lead[0].lower() or " call" in lead[0].lower() or _names(lead[0], slot)
    ):
        return free_text(text[lead.end() :])
    if (lead := _LEAD.match(text)) is not None:
        return free_text(_BEHIND.sub("", text[lead.end() :]), led=True)
    # "No complaints" says something; "no, the kettle" corrects.
    return text.strip(" .") if _NONE_OF.match(text) else free_text(text)


def _bare_of(text: str) -> str | None:
    """The one part of a message that names something, of those that say something else; None where all of them do."""
    parts = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    naming = [part for part in parts if not is_said(part)]
    if not naming or (len(naming) > 1 and len(parts) > len(naming)):
        return None
    return naming[0] if len(parts) > len(naming) else text


def is_said(text: str) -> bool:
    """Whether a text says something in a sentence of its own, rather than name something.

    Example:
        >>> is_said("payday cant come soon enough"), is_said("the cats travel kennel"), is_said("Right Said Fred")
        (True, False, False)
    """
    words = plain(text).split()
    return len(words) >= _SAYING and _SUBJECT.search(text) is not None and not is_name(text)


def text_apart(text: str) -> str | None:
    """The name or short phrase that stands before a comma, apart from other values: "Priya Nair, Thursday at 9"."""
    first = _COMMA.split(text, maxsplit=1)[0].strip()
    return (
        first if first != text.strip() and _APART.fullmatch(first) and not _FILLER.fullmatch(first) else None
    )


_COUNTED = re.compile(
    r"\b(?:\d+|\w+) of us\b|\b(?:people|ppl|guests|persons?|heads)\b|^\W*keep\b|^\W*\d+(?:st|nd|rd|th)?\W*$|"
    r"\b(?:\w*(?<!sun)(?<!mon)day|today|tomorrow|tmrw|tonight|sunday|monday)\b|\b\d+(?:st|nd|rd|th)?\W+"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|^(?:mon|tues?|wed|thurs?|fri|sat|"
    r"sun)\b(?: (?:the )?\d+\w*)?$",
    re.IGNORECASE,
)
_ITEM_END = re.compile(
    r"\s+(?:for|on|at|by) (?:the )?(?:\d|(?:everyone|everybody|all|us|eleven|two|three|four|five|six|"
    r"eight|ten|twelve|twenty|today|tomorrow|tonight|"
    r"mon|tues?|wed|thur?s?|fri|sat|sun)\b|\w+day\b).*$",
    re.IGNORECASE,
)
"""What stands behind the last item and says for how many, or when."""


def awaited_items(text: str, slot: Slot | None = None) -> list[str] | None:
    """The items that a message lists, without remarks on them; None where it lists none, or says them of somebody.

    Args:
        text: The message.
        slot: The slot that was asked for; what is said to be left out is an item of one for allergies alone.

    Example:
        >>> awaited_items("falafel wraps and a fruit platter for 16 tomorrow")
        ['falafel wraps', 'fruit platter']
    """
    if is_talk(text) or _NO_ANSWER.match(text):
        return None
    avoided = slot is not None and AVOIDED.search(f"{slot.name} {slot.description} {slot.ask}")
    text = _ASKED.sub("", text)
    parts = [part for part in _PART.split(NO_BETWEEN.sub(",", text) if avoided else text) if part.strip()]
    items: list[str] = []
    for place, part in enumerate(parts):
        item = _ITEM_END.sub("", free_text(part)).strip()
        states = _SUBJECT.search(item) and not is_name(item)
        if ":" in item or _OF_ONE.search(item) or (states and place == 0):
            return None
        if (
            states
            or not plain(item)
            or _SAYS.search(item)
            or _COUNTED.search(item)
            or _FILLER.fullmatch(item)
            or _SAME.search(item)
        ):
            continue
        if _PLACED.match(part) or (not avoided and _WITHOUT.match(part)):
            continue
        items.append(item)
    return items or None


_PART = re.compile(
    r"\s*(?:,|;|[.!?](?=\s|$)|\s\+\s|\b(?:and|plus|n|et(?: aussi)?|und|y)\b|&|\bas well as\b)\s*",
    re.IGNORECASE,
)
_OF_ONE = re.compile(
    r"^one\b|\b(?:one|another|two|some(?:one|body)|every(?:one|body)|any(?:one|body)|guy|bloke|lad|lass|girl|mate|boss|"
    r"colleague|intern|he|she|they|says?|said|wants?|reckons?|hates?|can'?t|cant|won'?t|wont|off) \w|\?",
    re.IGNORECASE,
)
"""What is said of somebody among items, whose item cannot be told apart."""

_WITHOUT = re.compile(
    r"\W*(?:(?:but|and|with)\b\s*)*(?:no|without|minus|hold the|keep|leave)\b", re.IGNORECASE
)
_PLACED = re.compile(r"\W*(?:for|on|at|by) (?:the )?(?:\d|[a-z]+\W*$)", re.IGNORECASE)
_ASKED = re.compile(r"[^.!?\n]*\?")
_SAME = re.compile(
    r"\b(?:same|usual|as (?:last|before|when|ever)|like (?:last|before|usual)|what (?:we|i|you)|whatever)\b",
    re.IGNORECASE,
)
"""What points to other dishes and names none."""

_FILLER = re.compile(
    r"(?:(?:it |that )?(?:all )?depends?|so|well|hm+|let me (?:see|think)|let'?s see|that'?s all|all good|nothing else|"
    r"to (?:begin|start) with|i think|i guess|actually|maybe|oh|um+|er+m?|pls|please|plz|thanks|thx|ta|cheers|"
    r"ok|okay|also|first|lol|yeah|yes|too|that'?s it)\W*",
    re.IGNORECASE,
)


def _names(text: str, slot: Slot) -> bool:
    return not {*plain(text).split()}.isdisjoint(slot.name.lower().split("_"))
