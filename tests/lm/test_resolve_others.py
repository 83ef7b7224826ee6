"""Language models of others, asked through DSPy: jazzmine's ``agenerate``, and asynchronous text methods."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.lm.native import lm_identity
from jazzmine_dspy.lm.resolve import as_lm
from jazzmine_dspy.models.errors import InputError


@dataclass
class Reply:
    text: str
    usage: Any = None


class BaseLLM:
    """The shape of jazzmine's."""

    model = "gpt-5-mini"

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, str]]] = []

    async def agenerate(self, messages: list[Any], *, stop: Any = None, **options: Any) -> Reply:
        self.asked.append([(part.role, part.content) for part in messages])
        return Reply("said", SimpleNamespace(prompt_tokens=7, completion_tokens=3))


class Invoked:
    async def ainvoke(self, prompt: str) -> Any:
        return SimpleNamespace(content=f"invoked: {prompt}")


class Called:
    async def __call__(self, prompt: str) -> str:
        return f"called: {prompt}"


class Client:
    async def complete(self, prompt: str) -> str:
        return f"completed: {prompt}"


async def ask(llm: Any, text: str = "hi") -> Any:
    return (await as_lm(llm).acall(text))[0]


@pytest.mark.row("E1", "N5")
async def test_an_object_with_agenerate_gets_parts_and_its_tokens_are_counted() -> None:
    llm = BaseLLM()
    lm = as_lm(llm)
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter()), dspy.track_usage() as tracker:
        assert await lm.acall("hi") == ["said"]
    assert llm.asked == [[("user", "hi")]]
    [usage] = tracker.get_total_tokens().values()
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (7, 3)
    # By its own name, and taken for no provider that has rules of its own.
    assert lm.model == "text/gpt-5-mini"
    assert "text/gpt-5-mini" in lm_identity(lm)
    copied = copy.deepcopy(lm)
    assert await copied.acall("hi") == ["said"]


@pytest.mark.row("E1", "N5")
@pytest.mark.parametrize(
    ("llm", "said"),
    [(Invoked(), "invoked: hi"), (Called(), "called: hi"), (Client().complete, "completed: hi")],
)
async def test_any_asynchronous_text_method(llm: Any, said: str) -> None:
    assert await ask(llm) == said


async def test_demonstrations_are_told_apart_in_one_text() -> None:
    asked: list[str] = []

    async def answer(prompt: str) -> str:
        asked.append(prompt)
        return "[[ ## answer ## ]]\n2\n\n[[ ## completed ## ]]"

    predict = dspy.Predict("question -> answer")
    predict.demos = [dspy.Example(question="1+0", answer="1").with_inputs("question")]
    with dspy.context(lm=as_lm(answer), adapter=dspy.ChatAdapter()):
        assert (await predict.acall(question="1+1")).answer == "2"
    assert asked[0].index("user: ") < asked[0].index("assistant: ") < asked[0].rindex("user: ")


async def test_a_reply_without_text_is_an_error_that_quotes_nothing() -> None:
    async def answer(prompt: str) -> Any:
        return {"secret": "sk-1"}

    with pytest.raises(dspy.LMError, match="dict, which has no text") as caught:
        await ask(answer)
    assert "sk-1" not in str(caught.value)


def test_models_of_dspy_and_names_are_taken_as_ever_and_all_else_is_refused() -> None:
    lm = scripted_lm({})
    assert as_lm(lm) is lm
    assert as_lm("openai/some-model").model == "openai/some-model"
    for wrong in (None, 7, object(), BaseLLM, lambda prompt: prompt, "no-provider", dspy.Predict("a -> b")):
        with pytest.raises(InputError):
            as_lm(wrong)


def test_the_synchronous_side_says_so() -> None:
    with pytest.raises(dspy.LMError, match="asynchronously only"):
        as_lm(BaseLLM())("hi")
    assert asyncio.run(ask(BaseLLM())) == "said"
