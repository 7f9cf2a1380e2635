"""What the integrations share."""
from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Iterator

from gallop._llm import _closed

_END = object()


async def later(chunks: Iterator[Any]) -> AsyncIterator[Any]:
    """Yields what CHUNKS, a generator that waits for an answer, yields; a thread waits for it.

    The generator is closed, which cancels the answer, when this one is closed or its task is
    cancelled.
    """
    step = None
    try:
        while True:
            step = asyncio.ensure_future(asyncio.to_thread(next, chunks, _END))
            chunk = await asyncio.shield(step)
            if chunk is _END:
                return
            yield chunk
    finally:
        if step is not None and not step.done():  # A generator that runs cannot be closed.
            step.add_done_callback(lambda s: (s.cancelled() or s.exception(), chunks.close()))
        else:
            chunks.close()


def strict_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Returns a tool in OpenAI's format whose calls always have valid arguments."""
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**tool, "function": {**function, "strict": True, "parameters": _closed(parameters)}}
