"""Conversations that keep their messages and execute tool calls: gallop.Chat."""
from __future__ import annotations

from typing import Any


class Chat:
    """A conversation. LLM.chat() makes one."""

    def __init__(self, llm, system: str | None, tools, variables: dict[str, Any]):
        self.llm = llm
        self.messages: list[dict[str, Any]] = []
        if system is not None:
            self.messages.append({"role": "system", "content": system})
