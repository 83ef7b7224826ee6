"""From signature and inputs to messages, and back: a JSON adapter with a constant head and a schema per call."""

from __future__ import annotations

import json
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel

from jazzmine_dspy.models.errors import AnswerError
from jazzmine_dspy.signatures.answers import only, read_answer
from jazzmine_dspy.signatures.contract import CONTRACTS, predictor_of

_BOUNDS = ("maxLength", "minLength", "maxItems", "minItems", "pattern")


class DecisionAdapter(dspy.JSONAdapter):
    """Writes short prompts whose constant part comes first, and reads answers strictly.

    DSPy's own JSON adapter overwrites ``response_format``; this one keeps the schema that a call brings, so that the
    decoder is held to that call's choices. No second call hides a first failure.
    """

    def _prepare_response_format(self, lm: Any, lm_kwargs: dict[str, Any], signature: Any) -> None:
        given = _asked(lm_kwargs.pop("response_format", None), signature)
        if "response_format" not in lm.supported_params:
            return
        if not lm.supports_response_schema:
            lm_kwargs["response_format"] = {"type": "json_object"}
        elif given is None:
            super()._prepare_response_format(lm, lm_kwargs, signature)
        else:
            lm_kwargs["response_format"] = given if lm.model.startswith("local/") else _unbounded(given)

    def format_system_message(self, signature: Any) -> str:
        """Instructions and what each field holds: the same text for every call of a program."""
        inputs = [
            f"{name} ({field.json_schema_extra['desc']})" for name, field in signature.input_fields.items()
        ]
        outputs = [
            f"{name}: {field.json_schema_extra['desc']}" for name, field in signature.output_fields.items()
        ]
        given = f"You get {', '.join(inputs)}."
        return "\n".join([signature.instructions, given, "Answer with one JSON object:", *outputs])

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
        predictor = predictor_of(signature)
        if predictor is None:
            return dict(super().parse(signature, completion))
        contract = CONTRACTS[predictor]
        try:
            asked = only(contract.answer, tuple(signature.output_fields))
            answer = read_answer(asked, completion, contract.error)
        except AnswerError as error:
            raise AdapterParseError(
                adapter_name=type(self).__name__,
                signature=signature,
                lm_response=completion,
                message=str(error),
            ) from error
        return {name: getattr(answer, name) for name in signature.output_fields}


def _asked(form: Any, signature: Any) -> Any:
    """A call's schema with those fields alone that the signature asks for."""
    schema = form.get("json_schema", {}).get("schema") if isinstance(form, dict) else None
    if schema is None or predictor_of(signature) is None:
        return form
    kept = {name: held for name, held in schema["properties"].items() if name in signature.output_fields}
    shorter = {**schema, "properties": kept, "required": list(kept)}
    return {**form, "json_schema": {**form["json_schema"], "schema": shorter}}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, dict):
        # A demonstration reads the same whether it was made here or loaded, so what is empty is left out of both.
        return {key: _plain(item) for key, item in value.items() if item not in (None, [])}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _unbounded(schema: Any) -> Any:
    """A schema as hosted models take it in strict mode: no lengths and patterns, every property required."""
    if isinstance(schema, dict):
        free = {key: _unbounded(value) for key, value in schema.items() if key not in _BOUNDS}
        return (
            {**free, "required": list(free["properties"])}
            if isinstance(free.get("properties"), dict)
            else free
        )
    return [_unbounded(item) for item in schema] if isinstance(schema, list) else schema
