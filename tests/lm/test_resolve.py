"""From names to language models, and any server that DSPy speaks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import dspy
import pytest

from jazzmine_dspy.lm import engines, lm_identity, meter, replay, resolve
from jazzmine_dspy.lm.errors import LMNotFoundError
from jazzmine_dspy.models.errors import JazzmineError
from openai_server import serving


class Route(dspy.Signature):
    """Choose where the message goes."""

    message: str = dspy.InputField()
    flow: Literal["alpha", "omega"] = dspy.OutputField()


@pytest.fixture
def server(no_proxy: None) -> Iterator[Any]:
    """An OpenAI-compatible server that notes what it is asked."""
    with serving('{"flow":"omega"}') as http:
        yield http.address, http.asked


@pytest.mark.row("N5")
@pytest.mark.parametrize("name", ["openai/test", "hosted_vllm/test"])
async def test_a_server_gets_the_schema(server: Any, name: str) -> None:
    address, asked = server
    lm = resolve.resolve_lm(name, api_base=address, api_key="x")
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter(), track_usage=True):
        assert dspy.Predict(Route)(message="hi").flow == "omega"
        prediction = await dspy.Predict(Route).acall(message="hi")
    assert prediction.get_lm_usage()[name]["prompt_tokens"] == 11
    assert len(asked) == 2, "no answer came from a cache"
    for path, body in asked:
        assert path == "/v1/chat/completions"
        assert body["temperature"] == 0
        assert body["response_format"]["type"] == "json_schema"
        schema = body["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["flow"]["enum"] == ["alpha", "omega"]


@pytest.mark.row("N5")
def test_a_server_without_schemas_is_not_sent_one(server: Any) -> None:
    address, asked = server
    lm = resolve.resolve_lm("openai/test", api_base=address, api_key="x", schema_support=False)
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        assert dspy.Predict(Route)(message="hi").flow == "omega"
    assert asked[0][1].get("response_format", {}).get("type") != "json_schema"


async def test_a_servers_calls_are_metered_and_replayed(server: Any, tmp_path: Path) -> None:
    address, asked = server
    counter, store = meter.Meter(), replay.ReplayStore(tmp_path / "answers.db")
    plain = resolve.resolve_lm("openai/test", api_base=address, api_key="x")
    lm = meter.metered(replay.replayed(plain, store), counter)
    assert lm_identity(lm) == lm_identity(plain)
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter(), track_usage=True):
        first = dspy.Predict(Route)(message="hi")
        again = await dspy.Predict(Route).acall(message="hi")
    assert first.flow == again.flow == "omega"
    assert first.get_lm_usage() == again.get_lm_usage()
    assert len(asked) == 1
    assert asked[0][1]["response_format"]["type"] == "json_schema"
    counts = counter.counts
    assert (counts.calls, counts.replayed, counts.failed) == (2, 1, 0)
    assert (counts.prompt_tokens, counts.completion_tokens) == (22, 8)


@pytest.mark.row("N5", "G3")
@pytest.mark.parametrize(
    "name",
    ["openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5", "groq/x", "mistral/x", "bedrock/x", "openai/gpt-5"],
)
def test_names_that_dspy_takes_resolve(name: str) -> None:
    lm = resolve.resolve_lm(name)
    assert isinstance(lm, dspy.LM)
    assert lm.model == name
    assert lm.cache is False
    assert lm.kwargs.get("temperature") == (None if name.endswith("gpt-5") else 0.0)


@pytest.mark.parametrize("name", ["", "  ", "gpt-4o", "/x", "openai/", "nonesuch/gpt-4o", "local/x"])
def test_a_name_that_does_not_resolve_says_what_to_do(name: str) -> None:
    with pytest.raises(LMNotFoundError) as caught:
        resolve.resolve_lm(name)
    assert isinstance(caught.value, JazzmineError)
    assert caught.value.remedy
    assert name.strip() in caught.value.where


def test_a_language_model_is_returned_as_it_is() -> None:
    lm = engines.scripted_lm({"x": "y"})
    assert resolve.resolve_lm(lm) is lm
    assert resolve.resolve_lm(lm, max_tokens=7).kwargs["max_tokens"] == 7


def test_identity_tells_models_and_addresses_apart_and_keeps_secrets() -> None:
    made = [
        resolve.resolve_lm("openai/a", api_key="sk-secret"),
        resolve.resolve_lm("openai/b", api_key="sk-secret"),
        resolve.resolve_lm("openai/a", api_key="sk-secret", api_base="http://me:sk-secret@one.example/v1"),
        resolve.resolve_lm("openai/a", api_key="sk-secret", api_base="http://two.example/v1"),
        resolve.resolve_lm("openai/a", api_key="sk-secret", temperature=0.5),
    ]
    identities = [lm_identity(lm) for lm in made]
    assert len(set(identities)) == len(made)
    assert not any("secret" in identity or "example" in identity for identity in identities)
    assert lm_identity(resolve.resolve_lm("openai/a", api_key="another")) == identities[0]
