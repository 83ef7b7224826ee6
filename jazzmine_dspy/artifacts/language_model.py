"""The language model of a loaded program: which one is bound, which policy asks it, and what keeps it silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import dspy

from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import JazzmineError, format_error
from jazzmine_dspy.program.policy import Policy, PolicyName
from jazzmine_dspy.program.turn import TurnProgram

COMPILED = "compiled"
"""The language model that a manifest names."""

NO_LM = "none"


def compiled_model(manifest: Mapping[str, Any]) -> str | None:
    """The name of the language model that a program was compiled for; None where it asks none."""
    name = (manifest.get("lm") or {}).get("model")
    return None if name in (None, "", NO_LM) else str(name)


def with_language_model(
    program: TurnProgram,
    manifest: Mapping[str, Any],
    lm: Any = COMPILED,
    policy: PolicyName | Policy | None = None,
    **settings: Any,
) -> TurnProgram:
    """Bind a language model and choose who decides. Everything that keeps it from answering is logged once.

    Args:
        program: The program.
        manifest: What says which language model it was compiled for, with its settings.
        lm: A ``dspy.LM``, or a name that DSPy takes; ``"compiled"`` for the model that the manifest names; None or
            ``"none"`` for no model.
        policy: Who decides. None keeps the program's policy, or takes its cascade where that asks no language model
            and one is given.
        settings: Settings of a named model in place of the manifest's.

    Raises:
        LMNotFoundError: the name that is given does not resolve.
        LMSettingsError: a setting is unknown or out of range.
        InputError: the program asks a model that was part of the package once.
    """
    compiled_for, named = compiled_model(manifest), str(manifest.get("name"))
    given = None if lm is None or lm in (COMPILED, NO_LM) else lm
    if policy is None and given is not None and not program.active_predictors():
        policy = "cascade"
    program = program if policy in (None, "shipped") else program.with_policy(policy)
    asks = bool(program.active_predictors())
    if (wanted := compiled_for if given is None and lm == COMPILED and asks else given) is None:
        if asks and lm is not None and dspy.settings.lm is None:
            log.warning(
                "program %r uses a language model and none is bound, so its decisions are degraded: pass lm=… to "
                "load(), --lm NAME on the command line, or call dspy.configure(lm=…)", named
            )  # fmt: skip
        return program
    try:
        model = _resolved(wanted, manifest if wanted == compiled_for else {}, settings)
    except JazzmineError as error:
        if given is not None:
            raise
        log.warning(
            "program %r is loaded without %s, the language model that it was compiled for: %s",
            named, compiled_for, format_error(error),
        )  # fmt: skip
        return program
    program.bind(lm=model)
    if not asks:
        log.warning(
            "%s is bound to program %r and never called: its policy uses no language model; use the policy cascade "
            "or lm", model.model, named,
        )  # fmt: skip
    elif compiled_for is not None and compiled_for not in (wanted, model.model):
        log.warning("program %r was compiled for %s and runs with %s", named, compiled_for, model.model)
    return program


def _resolved(wanted: Any, manifest: Mapping[str, Any], settings: Mapping[str, Any]) -> dspy.LM:
    from jazzmine_dspy.lm import resolve_lm
    from jazzmine_dspy.lm.resolve import missing_key

    if not isinstance(wanted, str):
        return resolve_lm(wanted)
    saved = (manifest.get("lm") or {}).get("settings") or (manifest.get("recipe") or {}).get("lm_settings")
    model = resolve_lm(wanted, **{**(saved or {}), **settings})
    if key := missing_key(model):
        host = urlsplit(str(model.kwargs.get("api_base") or model.kwargs.get("base_url") or "")).hostname
        log.warning(
            "%s%s is called without a key: set %s in the environment, to 'none' if the server needs no key",
            wanted, f" at {host}" if host else "", key,
        )  # fmt: skip
    return model
