"""Large language models on CPUs.

    import gallop

    llm = gallop.LLM()                      # the small model that comes with the package
    print(llm.generate("Once upon a time", max_new_tokens=40).text)

    for chunk in llm.stream("The cat sat", max_new_tokens=40):
        print(chunk.text, end="", flush=True)

LLM(model) opens a checkpoint folder, a GGUF file or a model of the Hugging Face hub. Its methods
generate, stream, chat, embed, score and json answer requests; agenerate and astream do so in
asyncio. serve(model) starts the HTTP server with OpenAI's API. options() and parameters() explain
every keyword argument. Errors are exceptions of class GallopError.
"""
from __future__ import annotations

import atexit as _atexit
import difflib as _difflib

from . import _fields, _names
from ._chat import Chat
from ._errors import (BadInput, Cancelled, GallopError, NoMemory, NoSpace, OSFailure,
                      Unsupported)
from ._executor import Executor, Rows
from ._gallop import ffi as _ffi
from ._gallop import lib as _lib
from ._info import ModelInfo
from ._llm import LLM, Stream, _close_all, _demo
from ._results import Chunk, Result, Score, Speculation, TokenLogprob
from ._server import Server, serve
from ._types import Message, Parameters, Prompt, Prompts, ToolCall

__version__: str = _ffi.string(_lib.gallop_version()).decode()

#: The folder of the small model that comes with the package.
DEMO: str = _demo()

__all__ = [
    "LLM", "Chat", "Result", "Chunk", "Stream", "TokenLogprob", "Score", "Speculation",
    "ModelInfo", "Message", "ToolCall", "Parameters", "Prompt", "Prompts", "Server", "serve", "Executor", "Rows", "options", "parameters", "DEMO",
    "GallopError", "BadInput", "Unsupported", "OSFailure", "NoMemory", "NoSpace", "Cancelled",
]

_atexit.register(_close_all)


def _explain(name, *tables):
    table = {k: v for table in tables for k, v in table.items()}
    if name is not None and name not in table:
        near = _difflib.get_close_matches(name, list(table), 3, 0.6)
        raise KeyError(name + ("; did you mean " + " or ".join(map(repr, near)) if near else ""))
    rows = table if name is None else {name: table[name]}
    return "\n\n".join(f"{k}\n    {v}" for k, v in rows.items())


def options(name: str | None = None) -> str:
    """Returns what the options of LLM() mean: all of them, or the one with a name.

    A default stands in [brackets]. print(gallop.options("quant"))
    """
    return _explain(name, _names.OPTIONS)


def parameters(name: str | None = None) -> str:
    """Returns what the parameters of generate() and its siblings mean, or the one with a name.

    print(gallop.parameters("top_p"))
    """
    constraint = {"json_schema" if k == "json" else k: v for k, v in _names.CONSTRAINT.items()}
    aliases = {k: f"Another name of {v}." for k, v in _fields.ALIASES.items()}
    return _explain(name, _names.SAMPLING, _names.REQUEST, constraint, _fields.EXPLAINED, aliases)
