"""From signature and inputs to messages, and back: a JSON adapter with a constant head and a schema per call."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import Any

import dspy
from pydantic import BaseModel

from jazzmine_dspy.lm.attempts import WITHOUT, Attempts, Listener, with_text
from jazzmine_dspy.lm.dspy_api import DEFAULT_CONFIG, AdapterParseError
from jazzmine_dspy.lm.native import configure_for_provider
from jazzmine_dspy.lm.providers import schema_support
from jazzmine_dspy.models.errors import AnswerError
from jazzmine_dspy.signatures.answers import only, read_answer
from jazzmine_dspy.signatures.contract import CONTRACTS, predictor_of
from jazzmine_dspy.signatures.schema import static_format, strict

_HINT = "hint_"
"""Under which name ``dspy.Refine`` adds its advice to the inputs of a predictor."""


class DecisionAdapter(dspy.JSONAdapter):
    """Writes short prompts whose constant part comes first, and reads answers strictly.

    Any language model is asked as its provider takes it. DSPy's own JSON adapter overwrites ``response_format``; this
    one keeps the schema that a call brings, so that the decoder is held to that call's choices, in the subset that
    providers publish. A call is made again only without what the provider refused, or with more room for an answer that
    broke off (:class:`~jazzmine_dspy.lm.attempts.Attempts`); no other second call hides a first failure.
    """

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Ask, and read the answer."""
        attempts = Attempts(lm := configure_for_provider(lm), lm_kwargs)
        while True:
            with Listener(lm) as listener:
                try:
                    answers = super().__call__(listener.lm, attempts.settings(), signature, demos, inputs)
                except Exception as error:
                    if not attempts.again(error, listener.outcome):
                        raise
                else:
                    return attempts.accept(answers, listener.outcome)

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """As :meth:`__call__`."""
        attempts = Attempts(lm := configure_for_provider(lm), lm_kwargs)
        while True:
            with Listener(lm) as listener:
                try:
                    answers = await super().acall(listener.lm, attempts.settings(), signature, demos, inputs)
                except Exception as error:
                    if not attempts.again(error, listener.outcome):
                        raise
                else:
                    return attempts.accept(answers, listener.outcome)

    def _prepare_response_format(self, lm: Any, lm_kwargs: dict[str, Any], signature: Any) -> None:
        given = lm_kwargs.pop("response_format", None)
        held = "none" if given is WITHOUT else schema_support(lm)
        predictor = predictor_of(signature)
        if held == "none":
            return
        if held == "json":
            lm_kwargs["response_format"] = {"type": "json_object"}
            return
        if predictor is not None and (held == "static" or given is None):
            given = static_format(predictor)
        if given is None:
            super()._prepare_response_format(lm, lm_kwargs, signature)
        else:
            lm_kwargs["response_format"] = sent_format(given, signature)

    def _call_postprocess(self, processed: Any, signature: Any, outputs: list[Any], *rest: Any) -> Any:
        # Tool calls of other signatures are their own answers.
        own = predictor_of(signature) is not None
        placed = [with_text(output) if own else output for output in outputs]
        return super()._call_postprocess(processed, signature, placed, *rest)

    def format_system_message(self, signature: Any) -> str:
        """Instructions and what each field holds: the same text for every call of a program."""
        said = {name: str(field.json_schema_extra["desc"]) for name, field in signature.fields.items()}
        inputs = [f"{name}: {said[name]}" for name in signature.input_fields if said[name].strip()]
        outputs = [f"{name}: {said[name]}" for name in signature.output_fields]
        return "\n".join([signature.instructions, *inputs, "Answer as JSON:", *outputs])

    def format_user_message_content(
        self,
        signature: Any,
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,  # noqa: ARG002 - DSPy's signature of this method
    ) -> str:
        """The inputs, one after another; empty ones are left out."""
        parts = [prefix] if prefix else []
        parts += [f"{name}: {inputs[name]}" for name in signature.input_fields if inputs.get(name)]
        return "\n".join([*parts, suffix] if suffix else parts)

    def format_assistant_message_content(
        self,
        signature: Any,
        outputs: dict[str, Any],
        missing_field_message: str | None = None,  # noqa: ARG002 - DSPy's signature of this method
    ) -> str:
        """A demonstration's answer, as compact JSON."""
        # What a demonstration does not say is left out: a sentence in its place would be learnt as an answer.
        said = {name: outputs.get(name) for name in signature.output_fields}
        data = {name: _plain(value) for name, value in said.items() if value is not None}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """The answer's fields, validated.

        Raises:
            AdapterParseError: with the typed :class:`~jazzmine_dspy.models.errors.AnswerError` as its cause.
        """
        if (predictor := predictor_of(signature)) is None:
            return dict(super().parse(signature, completion))
        contract = CONTRACTS[predictor]
        try:
            answer = read_answer(
                only(contract.answer, tuple(signature.output_fields)), completion, contract.error
            )
        except AnswerError as error:
            raise AdapterParseError(
                adapter_name=type(self).__name__,
                signature=signature,
                lm_response=completion,
                message=str(error),
            ) from error
        return {name: getattr(answer, name) for name in signature.output_fields}


class HintedAdapter(DecisionAdapter):
    """Sends the advice that ``dspy.Refine`` has for a predictor, before the inputs.

    Args:
        wrapper: The adapter of ``dspy.Refine``: it adds the advice, and then asks another adapter than ours.
    """

    def __init__(self, wrapper: dspy.Adapter) -> None:
        super().__init__()
        self._wrapper = wrapper
        self._hint = ""

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """As that of the base, with the advice."""
        given = dict(inputs)
        with suppress(_NotAskedError), dspy.context(callbacks=[]):
            self._wrapper(_NotAskedLM(), {}, signature, [], given)
        hint = str(given.get(_HINT) or "").strip()
        # What Refine says of a predictor that it has no advice for.
        self._hint = "" if hint == "N/A" else hint
        return super().__call__(lm, lm_kwargs, signature, demos, inputs)

    def format_system_message(self, signature: Any) -> str:
        """As that of the base, with a line about the advice."""
        said = super().format_system_message(signature)
        return f"{said}\n{_HINT} is advice from an earlier attempt: follow it." if self._hint else said

    def format_user_message_content(
        self,
        signature: Any,
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """As that of the base; the advice comes first."""
        if main_request and self._hint:
            prefix = "\n".join(filter(None, [prefix, f"{_HINT}: {self._hint}"]))
        return super().format_user_message_content(signature, inputs, prefix, suffix, main_request)


class _NotAskedError(Exception):
    """An adapter has come to the language model."""


class _NotAskedLM:
    """In the place of a language model: whatever an adapter wants of it stops the adapter."""

    def __getattr__(self, name: str) -> Any:
        raise _NotAskedError

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise _NotAskedError


def adapter_in_force() -> DecisionAdapter:
    """The adapter of a program's predictors under DSPy's settings.

    Advice of ``dspy.Refine`` is carried on, and a subclass of ours is used. Any other adapter is refused: a warning
    says why, once for each kind, save for the one that DSPy has by default.
    """
    configured = dspy.settings.adapter
    kind = type(configured)
    if kind.__module__ == dspy.Refine.__module__:
        return HintedAdapter(configured)
    if isinstance(configured, DecisionAdapter):
        return configured
    if kind not in _refused:
        _refused.add(kind)
        warnings.warn(
            f"DSPy's adapter is {kind.__name__}, and the predictors of a TurnProgram are asked through "
            "DecisionAdapter: only it holds each answer to the choices of that call. Other modules keep yours; to "
            "change the prompts of a program, configure a subclass of jazzmine_dspy.signatures.DecisionAdapter.",
            UserWarning,
            stacklevel=2,
        )
    return _ADAPTER


_ADAPTER = DecisionAdapter()
_refused: set[type] = {type(DEFAULT_CONFIG.adapter)}


def sent_format(form: Any, signature: Any) -> Any:
    """A call's schema as it is sent: of the fields that the signature asks for, in the subset that providers take."""
    schema = form.get("json_schema", {}).get("schema") if isinstance(form, dict) else None
    if schema is None or predictor_of(signature) is None:
        return strict(form)
    kept = {name: held for name, held in schema["properties"].items() if name in signature.output_fields}
    shorter = {**schema, "properties": kept, "required": list(kept)}
    return strict({**form, "json_schema": {**form["json_schema"], "schema": shorter}})


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, dict):
        # A demonstration reads the same whether it was made here or loaded, so what is empty is left out of both.
        return {key: _plain(item) for key, item in value.items() if item not in (None, [])}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
