"""What the integrations share."""
from __future__ import annotations

from typing import Any

from gallop._schema import closed


def strict_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Returns a tool in OpenAI's format whose calls always have valid arguments."""
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**tool, "function": {**function, "strict": True, "parameters": closed(parameters)}}


def begin_chat(llm, own, kwargs):
    """Returns a conversation without messages: OWN are variables of the chat template, KWARGS the
    keyword arguments of a call, with the names of OpenAI's chat completions."""
    variables = {**own, **(kwargs.get("chat_template_kwargs") or {})}
    if kwargs.get("tool_choice"):
        variables["tool_choice"] = kwargs["tool_choice"]
    if kwargs.get("parallel_tool_calls") is False:
        variables["one_call"] = True
    return llm.chat(tools=kwargs.get("tools"), **variables)
