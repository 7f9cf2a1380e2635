"""AMD PACE's module of LLMModel."""

from gallop.pace.llm.model import LLMModel

__all__ = ["LLMModel"]
