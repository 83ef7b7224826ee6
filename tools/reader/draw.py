"""Draws labelled turns from a domain: a state, an act, values and a wording; so labels are exact."""

from __future__ import annotations

import random
from collections.abc import Callable

from reader.domains import Domain
from reader.states import ACTS as ACTS
from reader.states import Drawn, SlotLabel, States
from reader.states import Value as Value
from reader.surface import MADE

JOINTS = (", ", " and ", ". ", ", and ", " - ", "; ", " ", ", also ")


class Drawer(States):
    """Draws turns of one domain.

    Args:
        domain: Where flows and wordings come from.
        rng: The source of chance.
    """

    def __init__(self, domain: Domain, rng: random.Random) -> None:
        super().__init__(domain, rng)
        self.shown: dict[str, list[str]] = {}
        self.makers: list[tuple[float, Callable[[], Drawn | None]]] = [
            (32, self.opening), (7, self.not_wanted), (6, self.question), (9, self.answer), (8, self.two_answers),
            (9, self.more), (10, self.correction), (4, self.skip), (4, self.yes), (4, self.yes_trap), (4, self.no),
            (5, self.change), (12, self.anytime), (3, self.cancel), (3, self.resume), (4, self.vague), (7, self.two),
            (4, self.fix), (4, self.again), (3, self.same), (3, self.edit_list), (3, self.bound),
            (2, self.answer_and_question),
        ]  # fmt: skip

    def draw(self) -> Drawn:
        """One turn."""
        weights = [weight for weight, _ in self.makers]
        while True:
            drawn = self.rng.choices([maker for _, maker in self.makers], weights)[0]()
            if drawn is not None and drawn.text.strip():
                return drawn

    # --- acts ---------------------------------------------------------------------------------------------------------

    def opening(self) -> Drawn | None:
        flow = self.rng.choice(self.flows)
        drawn = self.where_not("opening", flow)
        drawn.starts = [flow]
        wordings = self.domain.wordings(flow, "open") + [
            str(e) for e in self.domain.flows[flow].get("examples") or []
        ]
        wordings = [each for each in wordings if each not in self.shown.get(flow, ())] or wordings
        self._fill(drawn, self.rng.choice(wordings), flow)
        slots = [slot for slot in self.domain.slots(flow) if f"{flow}.{slot['name']}" not in drawn.slots]
        if slots and self.rng.random() < 0.2:
            slot = self.rng.choice(slots)
            answers = self._answers(flow, slot["name"])
            if answers:
                drawn.text += self.rng.choice(JOINTS)
                self._fill(drawn, self.rng.choice(answers), flow)
        return drawn

    def not_wanted(self) -> Drawn | None:
        flow = self.rng.choice(self.flows)
        drawn = self.where_not("not_wanted", flow)
        wordings = self.domain.wordings(flow, "not_wanted")
        if not wordings:
            return None
        self._fill(drawn, self.rng.choice(wordings), flow)
        drawn.unlabelled = {"chitchat", "deny", "pause", "out_of_scope", "ask"}
        return drawn

    def question(self) -> Drawn | None:
        flow = self.rng.choice(self.flows)
        drawn = self._anywhere("ask") if self.rng.random() < 0.7 else self.running("ask", flow)
        wordings = self.domain.wordings(flow, "ask")
        if not wordings:
            return None
        drawn.acts = {"ask"}
        self._fill(drawn, self.rng.choice(wordings), flow)
        return drawn

    def _answers(self, flow: str, slot: str) -> list[str]:
        said = self.domain.of_slot(flow, slot).get("answer") or []
        return [str(each).replace("{v}", f"{{{slot}}}") for each in said]

    def answer(self) -> Drawn | None:
        drawn = self.running("answer")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        flow, slot = drawn.flow, drawn.awaiting
        answers = self._answers(flow, slot)
        bare = f"{{{slot}}}" + self.rng.choice(["", "", "", ".", " please", "!"])
        wording = bare if not answers or self.rng.random() < 0.4 else self.rng.choice(answers)
        self._boolean_or_fill(drawn, wording, flow, slot)
        return drawn

    def _boolean_or_fill(self, drawn: Drawn, wording: str, flow: str, slot: str) -> None:
        """Whole answers of booleans have no placeholder, so that only the values' own forms tell what they mean."""
        definition = self.domain.slot(flow, slot)
        if definition["type"] == "boolean" and f"{{{slot}}}" not in wording:
            wording = f"{{{slot}}}"
        self._fill(drawn, wording, flow)

    def two_answers(self) -> Drawn | None:
        drawn = self.running("two_answers")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        flow = drawn.flow
        others = [s["name"] for s in self.domain.slots(flow) if s["name"] != drawn.awaiting]
        if not others:
            return None
        chosen = [
            drawn.awaiting,
            *self.rng.sample(others, min(len(others), self.rng.choices([1, 2], [4, 1])[0])),
        ]
        if self.rng.random() < 0.3:
            self.rng.shuffle(chosen)
        for place, slot in enumerate(chosen):
            if place:
                drawn.text += self.rng.choice(JOINTS)
            kind = self.domain.slot(flow, slot)["type"]
            answers = self._answers(flow, slot)
            plain = kind in MADE or slot == drawn.awaiting
            wording = (
                f"{{{slot}}}"
                if not answers or (plain and self.rng.random() < 0.35)
                else self.rng.choice(answers)
            )
            self._boolean_or_fill(drawn, wording, flow, slot)
        return drawn

    def more(self) -> Drawn | None:
        names = [name for name in self.flows if self.domain.wordings(name, "more")]
        if not names:
            return None
        flow = self.rng.choice(names)
        drawn = self.running("more", flow, awaited=self.rng.random() < 0.85, most=0.3)
        self._fill(drawn, self.rng.choice(self.domain.wordings(flow, "more")), flow)
        return drawn

    def show(self) -> dict[str, list[str]]:
        """Chooses openings of each flow to stand as its examples; the turns drawn next use others."""
        self.shown = {}
        for flow in self.flows:
            said = self.domain.wordings(flow, "open") + [
                str(e) for e in self.domain.flows[flow].get("examples") or []
            ]
            self.shown[flow] = self.rng.sample(said, min(len(said) // 3, self.rng.randint(0, 4)))
        return {flow: [self.filled(text, flow) for text in texts] for flow, texts in self.shown.items()}

    def filled(self, wording: str, flow: str) -> str:
        """A wording with values."""
        probe = Drawn(self.domain.name, "example")
        self._fill(probe, wording, flow)
        return probe.text

    def answer_and_question(self) -> Drawn | None:
        drawn = self.answer()
        if drawn is None or drawn.flow is None:
            return None
        asks = self.domain.wordings(self.rng.choice(self.flows), "ask")
        if not asks:
            return None
        drawn.text += self.rng.choice([", ", ". ", " - ", " and "])
        self._fill(drawn, self.rng.choice(asks), drawn.flow)
        drawn.acts, drawn.kind = {"ask"}, "answer_and_question"
        return drawn

    def correction(self) -> Drawn | None:
        flow = self.rng.choice(self.with_slots or self.flows)
        confirmed = self.domain.flows[flow].get("confirm") and self.rng.random() < 0.4
        drawn = (
            self.confirming("correction", flow) if confirmed else self.running("correction", flow, most=1.0)
        )
        if drawn is None or not self.domain.slots(flow):
            return None
        slot = self.rng.choice([s["name"] for s in self.domain.slots(flow)])
        if slot == drawn.awaiting:
            return None
        definition = self.domain.slot(flow, slot)
        drawn.filled.setdefault(slot, self.value(flow, definition).surface)
        said = [
            str(each).replace("{v}", f"{{{slot}}}")
            for each in self.domain.of_slot(flow, slot).get("correct") or []
        ]
        said = [each for each in said if f"{{{slot}}}" in each]
        if not said:
            return None
        self._fill(drawn, self.rng.choice(said), flow)
        if drawn.confirming:
            drawn.unlabelled = {"deny"}
        return drawn

    def skip(self) -> Drawn | None:
        drawn = self.running("skip")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        said = self.domain.of_slot(drawn.flow, drawn.awaiting).get("skip") or []
        if not said:
            return None
        self._fill(drawn, str(self.rng.choice(said)), drawn.flow)
        drawn.slots = {f"{drawn.flow}.{drawn.awaiting}": SlotLabel("skip")}
        return drawn

    def _at_confirm(self, kind: str, wordings: str) -> Drawn | None:
        drawn = self.confirming(kind)
        if drawn is None or drawn.flow is None or not (said := self.domain.wordings(drawn.flow, wordings)):
            return None
        self._fill(drawn, self.rng.choice(said), drawn.flow)
        return drawn

    def yes(self) -> Drawn | None:
        if (drawn := self._at_confirm("yes", "yes")) is not None:
            drawn.acts = {"affirm"}
        return drawn

    def yes_trap(self) -> Drawn | None:
        if (drawn := self._at_confirm("yes_trap", "yes_trap")) is not None:
            drawn.unlabelled = {"deny", "ask", "chitchat", "pause"}
        return drawn

    def no(self) -> Drawn | None:
        if (drawn := self._at_confirm("no", "no")) is not None:
            drawn.acts = {"deny"}
        return drawn

    def change(self) -> Drawn | None:
        if (drawn := self._at_confirm("change", "change")) is not None:
            drawn.unlabelled = {"deny"}
        return drawn

    def anytime(self) -> Drawn | None:
        kinds = ["chitchat", "out_of_scope", "handoff", "repeat", "restart", "pause"]
        kind = self.rng.choices(kinds, [4, 5, 3, 2, 2, 2])[0]
        said = self.domain.anytime.get(kind) or []
        if not said:
            return None
        drawn = self.running(kind) if kind in ("repeat", "restart", "pause") else self._anywhere(kind)
        drawn.acts = {kind}
        if kind == "out_of_scope":
            drawn.unlabelled = {"ask", "chitchat"}
        self._fill(drawn, str(self.rng.choice(said)), drawn.flow or self.flows[0])
        return drawn

    def cancel(self) -> Drawn | None:
        said = self.domain.anytime.get("cancel") or {}
        names = [name for name in said if name in self.domain.flows and said[name]]
        if not names:
            return None
        flow = self.rng.choice(names)
        confirmed = self.domain.flows[flow].get("confirm") and self.rng.random() < 0.3
        drawn = self.confirming("cancel", flow) if confirmed else self.running("cancel", flow)
        if drawn is None:
            return None
        drawn.cancels = [flow]
        drawn.unlabelled = {"deny"}
        self._fill(drawn, str(self.rng.choice(said[flow])), flow)
        return drawn

    def resume(self) -> Drawn | None:
        said = self.domain.anytime.get("resume") or {}
        names = [name for name in said if name in self.domain.flows and said[name]]
        if not names:
            return None
        flow = self.rng.choice(names)
        drawn = self.where_not("resume", flow)
        drawn.paused = [*drawn.paused, flow]
        if drawn.flow is None and self.rng.random() < 0.4:
            drawn.offering = flow
            drawn.assistant = f"Done. Shall we go back to this: {flow.replace('_', ' ')}?"
        drawn.resumes = [flow]
        self._fill(drawn, str(self.rng.choice(said[flow])), flow)
        return drawn

    def vague(self) -> Drawn | None:
        said = self.domain.anytime.get("vague") or []
        if not said:
            return None
        one = self.rng.choice(said)
        drawn = self._idle("vague")
        drawn.acts = {"clarify"}
        self._fill(drawn, one["text"], one["flows"][0])
        return drawn

    def two(self) -> Drawn | None:
        said = self.domain.anytime.get("two") or []
        if said and self.rng.random() < 0.7:
            one = self.rng.choice(said)
            drawn = self._idle("two")
            drawn.starts = list(one["flows"])
            self._fill(drawn, one["text"], one["flows"][0])
            return drawn
        first, second = self.rng.sample(self.flows, 2) if len(self.flows) > 1 else (None, None)
        if first is None or second is None:
            return None
        drawn = self._idle("two")
        drawn.starts = [first, second]
        self._fill(drawn, self.rng.choice(self.domain.wordings(first, "open")), first)
        drawn.text += self.rng.choice(
            [". ", " and also ", ", then ", ". oh and ", " plus ", "\n", ". Another thing: "]
        )
        self._fill(drawn, self.rng.choice(self.domain.wordings(second, "open")), second)
        return drawn if len(drawn.text) < 300 else None

    def fix(self) -> Drawn | None:
        names = [name for name in self.flows if self.domain.wordings(name, "fix")]
        if not names:
            return None
        flow = self.rng.choice(names)
        wording = self.rng.choice(self.domain.wordings(flow, "fix"))
        opens = self.rng.random() < 0.7
        drawn = self.where_not("fix", flow) if opens else self.running("fix", flow, most=0.3)
        drawn.starts = [flow] if opens else []
        self._fill(drawn, wording, flow)
        return drawn

    def again(self) -> Drawn | None:
        names = [name for name in self.flows if self.domain.wordings(name, "again")]
        if not names:
            return None
        flow = self.rng.choice(names)
        drawn = Drawn(self.domain.name, "again", finished=(flow, self._values(flow, 1.0)), starts=[flow])
        drawn.previous = self.rng.choice(["yes", "yes please", "go ahead", ""])
        drawn.assistant = self.rng.choice(
            ["Done.", "That is done. Anything else?", f"Done: {flow.replace('_', ' ')}."]
        )
        self._fill(drawn, self.rng.choice(self.domain.wordings(flow, "again")), flow)
        return drawn

    def same(self) -> Drawn | None:
        pairs = [
            (name, each)
            for name in self.flows
            for each in (self.domain.say.get(name) or {}).get("same") or []
        ]
        if not pairs:
            return None
        flow, one = self.rng.choice(pairs)
        drawn = self.running("same", flow)
        drawn.filled.pop(one["slot"], None)
        drawn.awaiting = one["slot"]
        drawn.assistant = self.domain.slot(flow, one["slot"]).get("ask") or ""
        drawn.finished = (flow, self._values(flow, 1.0))
        self._fill(drawn, one["text"], flow)
        drawn.slots[f"{flow}.{one['slot']}"] = SlotLabel("same")
        return drawn

    def edit_list(self) -> Drawn | None:
        slots = [
            (flow, slot) for flow in self.flows for slot in self.domain.slots(flow) if slot["type"] == "list"
        ]
        if not slots:
            return None
        flow, slot = self.rng.choice(slots)
        op = self.rng.choice(["add", "remove"])
        said = self.domain.of_slot(flow, slot["name"]).get(op) or []
        if not said:
            return None
        drawn = self.running("edit_list", flow, awaited=self.rng.random() < 0.5)
        if drawn.awaiting == slot["name"]:
            return None
        drawn.filled[slot["name"]] = self.value(flow, slot).surface
        self._fill(drawn, str(self.rng.choice(said)).replace("{v}", f"{{{slot['name']}}}"), flow)
        drawn.slots[f"{flow}.{slot['name']}"].op = op
        return drawn

    def bound(self) -> Drawn | None:
        drawn = self.running("bound")
        if drawn.flow is None or drawn.awaiting is None:
            return None
        said = self.domain.of_slot(drawn.flow, drawn.awaiting).get("bound") or []
        if not said:
            return None
        self._fill(drawn, str(self.rng.choice(said)).replace("{v}", f"{{{drawn.awaiting}}}"), drawn.flow)
        return drawn
