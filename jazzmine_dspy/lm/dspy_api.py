"""The inner names of DSPy that this package uses, in one place: engines, requests, settings, callbacks and errors.

A new release of DSPy is tried here first. What stands at the top of ``dspy`` is used as ``dspy.NAME`` everywhere.
"""

import os

from dspy._vendor.lm15.registry import (
    lookup,
)
from dspy._vendor.lm15.router import (
    LITELLM_PROVIDER_PREFIXES,
)
from dspy._vendor.lm15.serde import (
    request_to_dict,
    response_from_dict,
    response_to_dict,
)
from dspy.clients._litellm import (
    get_litellm,
)
from dspy.clients.backend_selection import (
    CLIENT_KEYS,
    select_backend,
)
from dspy.clients.execution import (
    _engine as engine_for,
)
from dspy.clients.execution import (
    prepare,
)
from dspy.clients.lm import (
    _is_openai_reasoning_model as is_reasoning_model,
)
from dspy.clients.model_metadata import (
    model_info,
    rate,
    source_info,
)
from dspy.dsp.utils.settings import (
    DEFAULT_CONFIG,
    main_thread_config,
    thread_local_overrides,
)
from dspy.lm15 import (
    InvalidRequestError,
    Message,
    Request,
    Response,
    StreamDeltaEvent,
    StreamEndEvent,
    StreamStartEvent,
    TextDelta,
    TextPart,
    Usage,
    registered_providers,
)
from dspy.utils.callback import (
    ACTIVE_CALL_ID,
    BaseCallback,
)
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMServerError,
    LMUnexpectedError,
    LMUnsupportedFeatureError,
    is_retryable_lm_error,
)

# Otherwise LiteLLM fetches its table of models from the network when it is loaded.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

__all__ = [
    "ACTIVE_CALL_ID",
    "CLIENT_KEYS",
    "DEFAULT_CONFIG",
    "LITELLM_PROVIDER_PREFIXES",
    "AdapterParseError",
    "BaseCallback",
    "ContextWindowExceededError",
    "InvalidRequestError",
    "LMConfigurationError",
    "LMError",
    "LMInvalidRequestError",
    "LMRateLimitError",
    "LMServerError",
    "LMUnexpectedError",
    "LMUnsupportedFeatureError",
    "Message",
    "Request",
    "Response",
    "StreamDeltaEvent",
    "StreamEndEvent",
    "StreamStartEvent",
    "TextDelta",
    "TextPart",
    "Usage",
    "engine_for",
    "get_litellm",
    "is_reasoning_model",
    "is_retryable_lm_error",
    "lookup",
    "main_thread_config",
    "model_info",
    "prepare",
    "rate",
    "registered_providers",
    "request_to_dict",
    "response_from_dict",
    "response_to_dict",
    "select_backend",
    "source_info",
    "thread_local_overrides",
]
