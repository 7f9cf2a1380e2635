"""What the integrations share."""
from __future__ import annotations

from typing import Any

from gallop._schema import closed


def strict_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Returns a tool in OpenAI's format whose calls always have valid arguments."""
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**tool, "function": {**function, "strict": True, "parameters": closed(parameters)}}
