"""From acts to commands: which act leaves room for which, and the order in which they are carried out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jazzmine_dspy.models.agreement import Stance, stance
from jazzmine_dspy.models.commands import (
    Affirm,
    Ask,
    CancelFlow,
    ChitChat,
    ClearSlot,
    Command,
    Deny,
    Handoff,
    OutOfScope,
    Repeat,
    Restart,
    ResumeFlow,
    SkipSlot,
    SlotValue,
    StartFlow,
)
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.denials import UNDOING, is_denied, undoes
from jazzmine_dspy.program.heads.acts.edits import edits, named_alone
from jazzmine_dspy.program.heads.acts.free_texts import is_name, is_telling, only_answers
from jazzmine_dspy.program.heads.acts.given import Values
from jazzmine_dspy.program.heads.acts.readings import (
    Scene,
    free_text,
    meant,
    named_most,
    stem,
    values_in,
    whole_value,
)

_ALONE = {
    "chitchat": ChitChat,
    "out_of_scope": OutOfScope,
    "repeat": Repeat,
    "restart": Restart,
    "handoff": Handoff,
}
_GRAVE = frozenset(("affirm", "deny", "skip", "clear", "cancel_flow", "resume_flow", "restart", "handoff"))
"""Acts that are not done because nothing else is likelier; a yes is done only where it is likely."""

_COMMANDED = frozenset(("cancel_flow", "restart", "repeat", "handoff", "resume_flow", "out_of_scope"))
"""Acts that no message does which can only be the free text that was asked for."""

_AT_LEAST, _LEAD = 0.35, 1.5
"""How likely one of them has to be then, and how much likelier than the next one."""

_EITHER = (("affirm", "deny"), ("affirm", "cancel_flow"), ("affirm", "repeat"))
"""Acts of which a message does one: the likelier, and of equal ones the second."""

_LIKELY = 0.5
_SURE = 0.6
"""How likely a yes has to be beside a value, which most messages give without one."""

_DROPS = 0.8
"""Least probability to drop the running flow if the message may answer its question; below it, the assistant asks."""

_TOPIC = 60


def acts_on(p: Mapping[str, float], scene: Scene) -> set[str]:
    """The acts that are likely and that the state leaves room for; the likeliest one where none is."""
    said = scene.turn.stance
    may = {act: share for act, share in p.items() if _possible(act, scene, said)}
    found = {act for act, share in may.items() if share >= _LIKELY}
    slot, text = scene.awaited, scene.turn.text
    # A name, or what is told, where such a text is asked for.
    if found & _COMMANDED and slot and only_answers(slot, text) and (is_name(text) or is_telling(slot)):
        found = found - _COMMANDED | {"value"}
    if said is not None and (said.agrees or (said.refuses and said.whole)):
        found -= {"affirm", "deny", "cancel_flow", "chitchat", "nothing", "out_of_scope"}
        return found | {"affirm" if said.agrees else "deny"}
    if _leaves(scene):
        return {"cancel_flow", *(found & {"handoff"})}
    if not found:
        found = _likeliest(may)
    for one, other in _EITHER:
        if {one, other} <= found:
            found.discard(other if may[one] > may[other] else one)
    return found


_CLAUSE = re.compile(r"[,.;!?\n]+|\blol\b", re.IGNORECASE)
_GIVES_UP = re.compile(
    r"\W*(?:no need(?: any ?more)?|bye+|(?:ah |oh )?(?:sod|screw|stuff|bugger) (?:it|this)\b.*|i give up|we give up|"
    r"(?:i'?m|im) (?:out|done)(?: here)?|not bothered|forget (?:the whole thing|all that)|\U0001f6d1|\u26d4)\W*",
    re.IGNORECASE,
)


_ELSEWHERE = re.compile(
    r"\b(?:found|got|getting|going|gone|went|using|try|go) (?:\w+ ){0,3}?(?:(?:somewhere|someone|"
    r"somebody) (?:else|cheaper|better|"
    r"closer|nearer)|elsewhere|another (?:place|company|shop)|a better (?:offer|deal|price|one))\b|"
    r"\b(?:i'?ll|we'?ll|i will|we will|gonna) (?:just |rather )?(?:phone|call|ring|drive|walk|pop|go|do|take|use|ask|"
    r"e?mail|sort|pay|bring|come)\b.*\b(?:myself|ourselves|instead|in person|desk|branch|office|shop|"
    r"round|direct(?:ly)?)\b|"
    r"\b(?:don'?t|do not|no longer) (?:want|wanna|fancy|need) (?:to \w+ \w+|to \w+|this|"
    r"it)\b.*\b(?:any ?more|after all)\b|"
    r"\bgone off the idea\b|\bnot worth (?:it|the)\b|\bcan'?t be (?:bothered|arsed)\b|"
    r"\b(?:trip|meeting|party|move|wedding|holiday|event)(?:'?s| is| has been| got) (?:off|cancelled|called off)\b",
    re.IGNORECASE,
)
"""Who goes elsewhere, or has no use for it any more, gives the task up."""


def _leaves(scene: Scene) -> bool:
    """Whether a part of a message gives the running flow up, and no other part gives a value."""
    turn, slot = scene.turn, scene.awaited
    if turn.paused and _cancels_running(scene):
        return True
    if (
        turn.flow is None
        or turn.confirming is not None
        or slot is None
        or is_telling(slot)
        or is_name(turn.text)
    ):
        return False
    parts = _parts(turn.text)
    left = [part for part in parts if _gives_up(part) or ((said := stance(part)).whole and said.leaves)]
    others = [part for part in parts if part not in left]
    return bool(left) and not any(whole_value(slot, free_text(part), scene.at) is not None
                                  for part in others if slot.type not in ("text", "list", "boolean"))  # fmt: skip


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _CLAUSE.split(text) if part.strip()]


def _gives_up(part: str) -> bool:
    return bool(_GIVES_UP.fullmatch(part) or _ELSEWHERE.search(part))


def _drops_offered(turn: Turn) -> bool:
    """Whether each part of a message refuses to go back to the flow that was offered, or gives it up."""
    return all(
        _gives_up(part)
        or (((said := stance(part)).leaves or (said.refuses and said.whole)) and not said.negates)
        for part in _parts(turn.text)
    )


def _cancels_running(scene: Scene) -> bool:
    """Whether a message cancels what runs by its name, while a flow that cancels something else is paused."""
    turn, running = scene.turn, scene.running
    words = plain(turn.text).split()
    paused = (scene.tasks[name] for name in turn.paused if name in scene.tasks)
    rivals = [flow for flow in paused if undoes(flow) and not is_denied(turn, flow)]
    if running is None or turn.confirming is not None or not rivals or UNDOING.isdisjoint(words):
        return False
    names = [(flow.name, flow.name.replace("_", " ")) for flow in (*rivals, running)]
    return named_most(_without_undoing(turn), names) == running.name


def _without_undoing(turn: Turn) -> str:
    return " ".join(word for word in plain(turn.text).split() if word not in UNDOING)


def _likeliest(may: Mapping[str, float]) -> set[str]:
    """What a message does where nothing is likely: hardly anything that is not easily taken back."""
    ranked = sorted(may, key=lambda act: -may[act])
    best, second = ranked[0], may[ranked[1]] if len(ranked) > 1 else 0.0
    if best not in _GRAVE or (best != "affirm" and may[best] >= max(_AT_LEAST, _LEAD * second)):
        return {best}
    return {next((act for act in ranked if act not in _GRAVE), "nothing")}


def _possible(act: str, scene: Scene, said: Stance | None) -> bool:
    """Whether the state leaves room for an act, and the words for a yes."""
    turn = scene.turn
    if act == "start":
        return bool(scene.starting)
    if act == "affirm":
        return said is not None and said.hints
    if act == "deny":
        return turn.confirming is not None or turn.flow is not None
    if act == "skip":
        return turn.awaiting is not None
    if act == "clear":
        return bool(turn.slots.names)
    if act == "cancel_flow":
        return bool(turn.flow or turn.paused) and (turn.offering is None or _drops_offered(turn))
    if act == "resume_flow":
        waiting = [scene.tasks[name] for name in turn.paused if name in scene.tasks]
        slots = (slot for flow in waiting for slot in flow.slots if slot.pattern)
        holds = any(values_in(slot, turn.text, scene.at) for slot in slots)
        return bool(turn.paused) and (holds or takes_up(turn))
    return True


_TAKES_UP = re.compile(
    r"\b(?:back|continue|carry on|resume|go on|going|finish|where were we|pick up|return|proceed|keep|"
    r"let'?s do|do (?:it|that)|now)\b",
    re.IGNORECASE,
)
_PUTS_OFF = re.compile(r"\b(?:later|not (?:that |this )?(?:now|yet)|another time)\b", re.IGNORECASE)
_BEFORE = re.compile(r"\b(?:first|before (?:that|we)|instead)\b", re.IGNORECASE)


def takes_up(turn: Turn) -> bool:
    """Whether an English message says that a task is taken up again; messages in other languages are not judged."""
    if not is_english(turn.locale):
        return True
    names = {stem(word) for name in turn.paused for word in name.lower().split("_")}
    is_named = not names.isdisjoint(stem(word) for word in plain(turn.text).split())
    says_so = _TAKES_UP.search(turn.text) is not None or stance(turn.text).hints
    is_put_off = _PUTS_OFF.search(turn.text) is not None
    return not is_put_off and (is_named or (says_so and _BEFORE.search(turn.text) is None))


def compose(p: Mapping[str, float], scene: Scene, on: set[str], agrees: Callable[[], bool]) -> list[Command]:
    """The commands of a message, in the order in which they are carried out.

    Args:
        p: Probability of each act.
        scene: The state, and who may get values.
        on: The acts of the message (:func:`acts_on`).
        agrees: Tells a yes from a no in the words of a message that answers a yes-or-no slot.
    """
    turn = scene.turn
    values = Values(scene, on, p, agrees)
    commands: list[Command] = []
    if "cancel_flow" in on:
        left = _turned_to(scene, [*([turn.flow] if turn.flow else []), *reversed(turn.paused)])
        named = None if left == turn.flow else left
        commands.append(CancelFlow(flow=named, unsure=named is None and _may_answer(p, scene)))
    if scene.starting:
        for name in scene.starting:
            # The start tells whose the values behind it are, also where the running flow awaits such a value.
            commands += [StartFlow(flow=name), *values.first(scene.tasks[name])]
        # An answer to what was asked may stand beside another wish, where it is nothing of the other's.
        return [*commands, *([Affirm()] if "affirm" in on else []), *_rest(on & {"handoff"}, turn)]
    if "resume_flow" in on:
        back = _turned_to(scene, list(reversed(turn.paused)))
        commands.append(ResumeFlow(flow=back))
        if back in scene.tasks:
            commands += values.first(scene.tasks[back])
        return [*commands, *_rest(on & {"ask", "handoff"}, turn)]
    if "cancel_flow" in on and _edited(scene):
        on = on - {"cancel_flow"}
        commands = []
    if "cancel_flow" in on and (not commands or commands[0].opens(turn) is None):
        return [*commands, *_rest(on & {"ask", "handoff"}, turn)]
    edited = _edited(scene)
    if edited:
        return [*edited, *_rest(on & {"ask", "handoff"}, turn)]
    given = values.given()
    cleared = _cleared(scene) if "clear" in on and p["clear"] >= p["value"] and not given else None
    changes = cleared is not None or any(isinstance(c, SlotValue) and c.corrects for c in given)
    # Who changes something says no to what was asked; who only adds something says neither yes nor no.
    denies = changes if turn.confirming is not None and (changes or given) else "deny" in on and not given
    if denies:
        changed = next((c.slot_name for c in given if isinstance(c, SlotValue) and c.corrects), None)
        named = meant(scene.turn, _filled(scene)) if scene.turn.confirming else None
        commands.append(Deny(slot=changed or cleared or named))
    commands += given
    if cleared is not None:
        commands.append(ClearSlot(name=cleared))
    if "affirm" in on and not denies and (p["affirm"] >= _SURE or not given):
        commands.append(Affirm())
    if "skip" in on and turn.awaiting and turn.awaiting not in [c.slot_name for c in given]:
        commands.append(SkipSlot(name=turn.awaiting))
    return commands + _rest(on, turn, alone=not commands)


def _may_answer(p: Mapping[str, float], scene: Scene) -> bool:
    """Whether a message that seems to drop the running flow may as well answer what was asked."""
    asked = scene.awaited is not None and not _leaves(scene)
    return asked and (p["cancel_flow"] < _DROPS or p["value"] >= _LIKELY)


def _edited(scene: Scene) -> list[Command]:
    """The change of a held value that the message says in words, with the no that it is to an open confirmation."""
    flow, turn = scene.running, scene.turn
    if flow is None:
        return []
    found = edits(turn, flow.slots, scene.at)
    asked = turn.confirming is not None or (turn.awaiting is None and not turn.paused)
    if asked and not found and (slot := named_alone(turn.text, _filled(scene))):
        return [Deny(slot=slot.name)]
    return [*([Deny(slot=found[0].slot_name)] if found and turn.confirming else []), *found]


def _rest(on: set[str], turn: Turn, *, alone: bool = False) -> list[Command]:
    found: list[Command] = [Ask(topic=" ".join(plain(turn.text).split())[:_TOPIC])] if "ask" in on else []
    for act, kind in _ALONE.items():
        if act in on and (act == "handoff" or (alone and not found)):
            found.append(kind())
    return found


def _turned_to(scene: Scene, names: list[str]) -> str:
    """The flow of several that the message names most; of equal ones the first. "Cancel" alone names none."""
    best = named_most(
        _without_undoing(scene.turn), [(n, _words_of(scene.tasks[n])) for n in names if n in scene.tasks]
    )
    return best or names[0]


def _words_of(flow: Flow) -> str:
    return " ".join([flow.name.replace("_", " "), flow.description, *flow.keywords])


def _cleared(scene: Scene) -> str | None:
    filled = _filled(scene)
    return meant(scene.turn, filled) or (filled[-1].name if filled else None)


def _filled(scene: Scene) -> list[Slot]:
    flow, held = scene.running, scene.turn.slots.names
    return [slot for slot in flow.slots if slot.name in held] if flow is not None else []
