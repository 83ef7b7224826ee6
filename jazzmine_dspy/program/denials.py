"""What a message rejects: flows that it denies, and flows that undo something without being asked to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from rapidfuzz.distance import OSA

from jazzmine_dspy.models import Flow, FlowRegistry, Turn
from jazzmine_dspy.models.language import is_english, words
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.heads.acts.readings import stem

_MISSPELLABLE = 5
"""Letters of a word that may be misspelt."""

UNDOING = words(
    "cancel stop end close delete remove terminate block freeze withdraw revoke undo quit abort unsubscribe"
)
"""Verbs that undo something."""

_BEGINS = re.compile(
    r"^(?:call off|give up|opt out|stop|cancel|end|close|delete|remove|terminate|block|freeze)\b"
)
_UNDONE = re.compile(
    r"\b(?:cancel\w*|call\w* (?:it )?off|stop|end(?:ing)?|clos\w+|delet\w+|remov\w+|terminat\w+|block\w*|"
    r"fr[eo]+z\w+|withdraw\w*|undo|rever[st]\w*|(?:in|de)activ\w+|disabl\w+|"
    r"(?:bought|booked|ordered|chose|picked) (?:\w+ ){0,2}(?:wrong|mistak\w+|accident\w*)|quit|shut|abort|scrap\w*|bin|"
    r"binned|drop|ditch|scratch|kill|void|annul|axe|nix|"
    r"bail|rid|forget|nobody|none|never|ai?n'?t|(?:no|not|without) (?:\w+ )??(?:need\w*|want\w*|required|"
    r"wanted|longer|more|use|food|com\w+|going|happening|on|able|any ?more|for me|for us|after all)|"
    r"\w+n't|cant|cannot|wont|dont|doesnt|didnt|unable|can go|for good|"
    r"problem|issue|trouble|refund|return|leav(?:e|ing)|lost|lose|stolen|stole|nicked|missing|gone|swiped|robbed|"
    r"found|hacked|compromised|fell through|ill|sick|unwell|giv(?:e|ing) (?:it )?(?:up|back)|out (?:of|by)|"
    r"(?:log|write|back|opt|pull|mov\w+|get\w*|we'?re|were|i'?m|want|com\w+|take) (?:\w+ ){0,2}?(?:off|out)|"
    r"changed? (?:my|our) mind|plans? (?:have |has )?changed)\b",
    re.IGNORECASE,
)
"""Words of a message that undoes something, that denies, or that speaks of trouble."""


_TO_UNDO = re.compile(
    r"\b(?:not coming|(?:can'?t|won'?t|cannot) (?:be |really )?(?:come|make (?:it|that)|travel|go|on (?:it|the)|need)|"
    r"money back|call\w* (?:it )?off|no longer (?:need|want|coming|going))\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def undoes(flow: Flow) -> bool:
    """Whether a flow cancels, ends or blocks something."""
    name = flow.name.lower().replace("_", " ")
    return name.partition(" ")[0] in UNDOING or any(
        _BEGINS.match(text) for text in (name, flow.description.lower())
    )


def undoes_unasked(flow: Flow, turn: Turn) -> bool:
    """Whether a flow undoes something and nothing in a message says that it should.

    Args:
        flow: The flow.
        turn: The turn; messages in another language than English are not judged.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> flow = FlowRegistry([{"name": "cancel_visit", "description": "Call off an appointment."}])["cancel_visit"]
        >>> [undoes_unasked(flow, Turn(text=text)) for text in ("can I come in tomorrow?", "I can't make it tomorrow")]
        [True, False]
    """
    if not is_english(turn.locale) or not undoes(flow):
        return False
    text = turn.text.replace("\u2019", "'")
    if _UNDONE.search(text) or not _own(flow).isdisjoint(stem(word) for word in plain(text).split()):
        return False
    # A verb with one letter wrong also says so.
    verbs = {*UNDOING, *(plain(each) for each in flow.keywords)}
    return not any(
        min(len(word), len(verb)) >= _MISSPELLABLE and OSA.distance(word, verb, score_cutoff=1) <= 1
        for word in plain(text).split()
        for verb in verbs
    )


def is_opposite(flow: Flow, turn: Turn, flows: Mapping[str, Flow]) -> bool:
    """Whether a flow does the opposite of what a message says: it undoes unasked, or does what is to be undone.

    Args:
        flow: The flow.
        turn: The turn.
        flows: All flows; a message undoes what a flow does where another one undoes that.
    """
    if not is_english(turn.locale):
        return False
    if undoes(flow):
        return undoes_unasked(flow, turn)
    if _TO_UNDO.search(turn.text.replace("\u2019", "'")) is None:
        return False
    thing = {stem(word) for word in flow.name.lower().split("_")[1:]}
    return any(undoes(other) and thing & {stem(word) for word in name.lower().split("_")[1:]}
               for name, other in flows.items())  # fmt: skip


@lru_cache(maxsize=1024)
def _own(flow: Flow) -> frozenset[str]:
    """Stems of the flow's own words for it: its keywords of one word."""
    return frozenset(stem(plain(word)) for word in flow.keywords if len(plain(word).split()) == 1)


_CLAUSE = re.compile(
    r"[,;.!?\n]+|\s-+\s|\b(?:but|just|only|instead|and then|then|because|so)\b", re.IGNORECASE
)
_NEGATION = re.compile(
    r"\b(?:do not|don'?t|dont|did not|didn'?t|have not|haven'?t|am not|i'?m not|never|not to|no need|no reason|"
    r"without|rather not|refuse|won'?t|wont|will not|no way|not(?= \w+[,;]| (?:\w+ )?(?:\w+ing|to|after|"
    r"gonna|lost|stolen)\b)|isn'?t|isnt|aren'?t|wasn'?t)\b",
    re.IGNORECASE,
)
_LINKS = words(
    "new to the a an my our your any please want need you we i have going be being been ever me it would like "
    "should think wish needing wanting after looking just here there  "
    "trying asking asked said told signed really yet even actually that this wanna gonna intend plan"
)
_UNDERGONE = words("got get getting gotten been being receive received had come came arrive arrived")
"""What did not happen to the user is a complaint, and no denial: "never got credited"."""

_PERFECT = re.compile(r"^\W*(?:\w+\W+){0,2}i (?:have not|haven'?t|did not|didn'?t|never)\b", re.IGNORECASE)
_DID_NOT = r"(?:did not|didn'?t|have not|haven'?t|never)"
_COMPLAINTS = (
    # Something does not work: "they don't accept my card", "my card won't charge". What people won't do is a refusal.
    re.compile(
        r"\b(?:they|it|that|which|who)(?: (?!i\b|we\b)\w+)? (?:do not|don'?t|dont)"
        r"(?! (?:\w+ ){0,4}?(?:want|need|wanna|wish|like|intend|plan|have to)\b)|"
        r"(?<!\bi )(?<!\bwe )(?<!\byou )\b(?!(?:i|we|you|u|he|she|wife|husband|partner|boss|kids|team|customer)\b)\w+ "
        rf"(?:{_DID_NOT}|won'?t|wont|will not)\b"
    ),
    # The user lacks something or does not know it: "I don't recognise it".
    re.compile(
        r"(?:^\W*|\b(?:and|i|we)\W+(?:\w+ )?)(?:do not|don'?t|dont) "
        r"(?:have (?!to\b|(?:\w+ )+(?:\w+ed|sent)\b)|know|see|understand|recogni[sz]e|remember|"
        r"think(?! .*\b(?:should|need|want|necessary)\b))"
    ),
    # It was not the user's doing: "money that I didn't withdraw".
    re.compile(
        r"\b(?:something|that|which|why|(?:cash|money|charge|payment|debit|transaction|withdrawal|item|fee|purchase|"
        rf"order)s?) (?:i|we) (?:do not|don'?t|{_DID_NOT})\b"
    ),
    # It was refused, or is not there: "it wasn't accepted".
    re.compile(
        r"\b(?:isn'?t|isnt|aren'?t|wasn'?t) (?!being|getting|needed|required|wanted)(?:(?:\w+ )?\w+ed|here|there)\b|"
        r"\b(?:is|are|was) not (?!being|getting)\w+ing\b"
    ),
)
"""What denies no wish, but complains. Not for flows that undo something: "an order I didn't cancel"."""

_ANY = re.compile(r"(?:a|an|any)\b", re.IGNORECASE)
_NOT_YET = re.compile(
    r"\b(?:have not|haven'?t|hasn'?t|did not|didn'?t|isn'?t|aren'?t|wasn'?t|is not|are not)\b.*\b(?:yet|still)\b|"
    r"\bstill (?:have not|haven'?t|did not|didn'?t|isn'?t|not|no)\b",
    re.IGNORECASE,
)
"""What is only not done yet is wanted."""

_NEEDED = re.compile(
    r"\b(?:do not|don'?t|dont|won'?t|wont|will not|not)(?: \w+){0,2} (?:need|want|after|"
    r"looking for)(?:ing)?\b (?P<it>.+)|"
    r"\bno (?P<none>(?:\w+ ){1,3})(?:needed|required|wanted|necessary|thanks|thank you|thx|ta|for (?:me|us))\b",
    re.IGNORECASE,
)
"""What is not needed: "we won't be needing a van"."""

_ASKED = re.compile(
    r"^\W*(?:why|how|what|when|where|can|could|would|will|won'?t|isn'?t|don'?t you|is|are|do|does)\b"
)
_YES = re.compile(
    r"\W*(?:(?:ok|okay|yes|yeah|yep|sure|fine|alright|all right)\b|\U0001f44d|\U0001f44c|\u2705|\u2714)",
    re.IGNORECASE,
)
_FEW = 6
"""Words of a message that is rather an answer."""

_WHEN = words(
    "monday tuesday wednesday thursday friday saturday sunday today tomorrow morning afternoon evening week next only "
    "before after until since till from"
)
_LEAST, _BEGUN = 3, 3
"""Letters of a verb, and words of a text among which its verb is."""


def without_denied(turn: Turn, names: Sequence[str], registry: FlowRegistry) -> list[str]:
    """The flows of a selection whose own verb the message does not deny.

    Args:
        turn: The turn; messages in another language than English are not judged.
        names: Names of the flows that would start.
        registry: The flows.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> flows = FlowRegistry([{"name": "cancel_order", "description": "Cancel an order.",
        ...     "examples": ["cancel my order", "please don't ship it"]}])
        >>> told = ("please don't cancel order 5519", "please don't ship 5519")
        >>> [without_denied(Turn(text=text), ["cancel_order"], flows) for text in told]
        [[], ['cancel_order']]
    """
    if not is_english(turn.locale):
        return list(names)
    asked = turn.flow or turn.paused or turn.offering or turn.clarifying or turn.confirming
    if not asked and len(turn.text.split()) <= _FEW and _YES.match(turn.text):
        # A short yes that answers nothing.
        names = [name for name in names if name not in registry or _affirms(turn.text, registry[name])]
    names = [name for name in names if name not in registry or not _is_unoffered(turn.text, registry[name])]
    others = bool(names) and any(_denies(turn.text, flow) for flow in registry.values())
    return [
        name
        for name in names
        if name not in registry
        or (
            not is_denied(turn, registry[name])
            and (not others or undoes(registry[name]) or _affirms(turn.text, registry[name]))
        )
    ]


_OFFERED = re.compile(
    r"^\W*(?:(?:hi|hiya|hello|hey|ok|so|um+|also|oh|and|quick (?:one|question)|just wondering)\b[\s,:-]*)*(?:do|"
    r"does|d) ?"
    r"(?:you|u|ya|you guys|you lot|your (?:lot|guys|company)|anyone there|they|this place)(?: guys| lot| folks|"
    r" also| still| even)* "
    r"(?:buy|sell|stock|fix|repair|make|clean|recycle|trade)\b(?P<it>[^,.;!?]*)",
    re.IGNORECASE,
)
"""Asks whether something is traded or done at all: "do you buy furniture"."""

_STOCK = re.compile(r"stock|availab|sell|catalog|product|assortment", re.IGNORECASE)
"""Flows that answer just that."""


@lru_cache(maxsize=256)
def _is_unoffered(text: str, flow: Flow) -> bool:
    """Whether a message asks for something that none of the flow's own words name, and wishes nothing else of it."""
    match = _OFFERED.match(text)
    if match is None:
        return False
    if _STOCK.search(f"{flow.name} {flow.description}"):
        return False
    # What is rented or sent is not bought: the flow has to do it.
    named = f"{flow.name.replace('_', ' ')} {flow.description} {' '.join(flow.keywords)}"
    told = frozenset(_stem(word) for word in plain(named).split() if len(word) >= _LEAST)
    said = {_stem(word) for word in plain(match["it"]).split() if word not in _LINKS}
    clauses = [clause for clause in _CLAUSE.split(text[match.end() :]) if plain(clause)]
    more = {_stem(word) for clause in clauses for word in plain(clause).split() if word not in _LINKS | _WHEN}
    return bool(said) and not (said | more) & told


def is_denied(turn: Turn, flow: Flow) -> bool:
    """Whether an English message says that it does not want what a flow does."""
    return is_english(turn.locale) and _denies(turn.text, flow)


@lru_cache(maxsize=256)
def _affirms(text: str, flow: Flow) -> bool:
    """Whether a clause that denies nothing holds a word of the flow."""
    _, told, _ = _verbs(flow)
    clauses = [
        clause for clause in _CLAUSE.split(text.replace("\u2019", "'")) if not _NEGATION.search(clause)
    ]
    links = _LINKS | _WHEN
    said = {_stem(word) for clause in clauses for word in plain(clause).split() if word not in links}
    return bool(told & said)


@lru_cache(maxsize=64)
def _clauses(text: str) -> tuple[str, ...]:
    """The clauses of a text that denies something; none of any other."""
    text = text.replace("\u2019", "'")
    denies = _NEGATION.search(text) or _NEEDED.search(text)
    return tuple(_CLAUSE.split(text)) if denies else ()


def _denies(text: str, flow: Flow) -> bool:
    """Whether a clause denies a verb that the flow's texts affirm, and no other clause affirms one."""
    clauses = _clauses(text)
    if not clauses:
        return False
    affirmed, told, denied = _verbs(flow)
    things = {_stem(word) for word in flow.name.lower().split("_")[1:]}
    hit = False
    needs = not undoes(flow)
    for clause in clauses:
        verb = _denied_verb(clause, complaints=needs)
        may = told if _PERFECT.search(clause) else affirmed
        if not needs and _NEEDED.search(clause) and not (affirmed - things) & _stems(clause):
            # Who does not want the thing any more wants it undone: "I don't want this account".
            may = may - things
        if (verb is not None and verb in may and verb not in denied) or _is_unneeded(
            clause, needs, told, denied
        ):
            hit = True
        elif verb is None and (affirmed - things) & _stems(clause):
            return False
    return hit


def _is_unneeded(clause: str, needs: bool, told: frozenset[str], denied: frozenset[str]) -> bool:
    """Whether a clause says that something of the flow is not needed."""
    match = _NEEDED.search(clause)
    if match is None or _ASKED.match(clause.lower()):
        return False
    if not needs:
        # Who needs no unit rents none, and gives none up.
        return match["it"] is not None and _ANY.match(match["it"]) is not None
    said = {_stem(word) for word in plain(match["it"] or match["none"]).split() if word not in _LINKS}
    return bool(said & told) and not said & denied


@lru_cache(maxsize=256)
def _stems(clause: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in plain(clause).split())


@lru_cache(maxsize=256)
def _denied_verb(clause: str, *, complaints: bool = True) -> str | None:
    """The stem of the first word behind a negation that says something; None where nothing is denied, or it is asked.

    Args:
        clause: The clause.
        complaints: Whether complaints deny nothing.
    """
    match = _NEGATION.search(clause)
    if match is None or _NOT_YET.search(clause) or _ASKED.match(clause.lower()):
        return None
    if complaints and any(each.search(clause.lower()) for each in _COMPLAINTS):
        return None
    words = [word for word in plain(clause[match.end() :]).split() if word not in _LINKS]
    if not words or len(words[0]) < _LEAST or words[0] in _UNDERGONE:
        return None
    return _stem(words[0])


@lru_cache(maxsize=1024)
def _verbs(flow: Flow) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Stems of the words with which a flow's texts begin, of all their words, and of the verbs that they deny."""
    texts = [flow.name.replace("_", " "), flow.description, flow.condition, *flow.examples, *flow.keywords]
    denied = {verb for text in texts for clause in _CLAUSE.split(text) if (verb := _denied_verb(clause))}
    begun = [plain(text).split()[:_BEGUN] for text in (flow.description, *flow.examples)]
    own = [plain(word).split() for word in flow.keywords if len(plain(word).split()) == 1]
    words = {word for each in (flow.name.lower().split("_"), *begun, *own) for word in each}
    affirmed = {_stem(word) for word in words if len(word) >= _LEAST and word not in _LINKS}
    every = {_stem(word) for text in texts for word in plain(text).split() if len(word) >= _LEAST}
    return frozenset(affirmed), frozenset(every), frozenset(denied)


def _stem(word: str) -> str:
    word = word.removesuffix("'s")
    for ending in ("ing", "ed", "es", "s"):
        if len(word) > len(ending) + _LEAST and word.endswith(ending):
            word = word.removesuffix(ending)
            break
    return word[:5].rstrip("e")
