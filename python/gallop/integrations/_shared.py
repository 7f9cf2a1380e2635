"""What the integrations share."""
from __future__ import annotations

from typing import Any

from gallop._fields import PARAMETERS, resolved, unknown
from gallop._schema import closed


def strict_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Returns a tool in OpenAI's format whose calls always have valid arguments."""
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**tool, "function": {**function, "strict": True, "parameters": closed(parameters)}}


def check_fields(model: type, values: "dict[str, Any]", others: "tuple[str, ...]" = ()) -> None:
    """Refuses arguments of a pydantic class that it has no field for."""
    fields = getattr(model, "model_fields")
    names = {*others, *fields, *(f.alias for f in fields.values() if f.alias)}
    for name in values:
        if name not in names:
            hint = f"; model_kwargs={{{name!r}: ...}} takes it" if name in PARAMETERS else ""
            raise TypeError(f"{unknown(model.__name__, name, names)}{hint}")


def sampling_of(own, model_kwargs, kwargs, others) -> dict[str, Any]:
    """Returns the parameters of a request: those of a call before those of the model. OTHERS are
    names that are no parameters of requests."""
    given = {k: v for k, v in kwargs.items() if k not in others}
    return {**resolved(own), **resolved(model_kwargs), **resolved(given)}


def begin_chat(llm, own, kwargs):
    """Returns a conversation without messages: OWN are variables of the chat template, KWARGS the
    keyword arguments of a call, with the names of OpenAI's chat completions."""
    variables = {**own, **(kwargs.get("chat_template_kwargs") or {})}
    if kwargs.get("tool_choice"):
        variables["tool_choice"] = kwargs["tool_choice"]
    if kwargs.get("parallel_tool_calls") is False:
        variables["one_call"] = True
    return llm.chat(tools=kwargs.get("tools"), chat_template_kwargs=variables)
