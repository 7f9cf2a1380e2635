"""Tokenizing, chat templates and the parsing of answers, by the functions of gallop.h."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import _fields
from ._errors import BadInput, _error
from ._gallop import ffi, lib

if TYPE_CHECKING:
    from ._llm import LLM


def _checked(function, *args):
    err = ffi.new("char[]", lib.GALLOP_ERR_SIZE)
    code = function(*args, err)
    if code:
        raise _error(code, err)


def _entered(llm, function, *args):
    """Calls a function of an engine, which stays open meanwhile."""
    with llm._entered() as engine:
        _checked(function, engine, *args)


def tokenize(llm, text: str, special: bool, plain: bool) -> list[int]:
    data = _fields.encode("text", text)
    ids, n = ffi.new("int32_t **"), ffi.new("size_t *")
    flags = (lib.GALLOP_ADD_SPECIAL if special else 0) | (lib.GALLOP_PLAIN_TEXT if plain else 0)
    _entered(llm, lib.gallop_tokenize, data, len(data), flags, ids, n)
    try:
        return ffi.unpack(ids[0], n[0]) if n[0] else []
    finally:
        lib.gallop_free(ids[0])


def detokenize(llm, ids, special: bool) -> str:
    data = _fields.ids_of("ids", ids)
    text, n = ffi.new("char **"), ffi.new("size_t *")
    flags = lib.GALLOP_KEEP_SPECIAL if special else 0
    _entered(llm, lib.gallop_detokenize, data, len(data), flags, text, n)
    try:
        return ffi.buffer(text[0], n[0])[:].decode("utf-8", "replace") if n[0] else ""
    finally:
        lib.gallop_free(text[0])


def _json_default(value):
    for method in ("model_dump", "dict"):  # Messages of openai's client, and of pydantic.
        if hasattr(value, method):
            return getattr(value, method)(exclude_none=True)
    raise TypeError(f"{value!r:.100} cannot be written as JSON")


def to_json(name: str, value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(
            value, ensure_ascii=False, allow_nan=False, default=_json_default)
    except (TypeError, ValueError) as e:
        raise BadInput(f"{name}: {e}", name) from None


class Prompt:
    """A rendered conversation: a struct gallop_chat, and the struct gallop_prompt made of it.

    variables are members of struct gallop_chat (tool_choice, chat_template, verbatim, ...), and
    all others are variables of the chat template.
    """

    JSON = ("messages", "tools", "tool_choice", "variables")

    def __init__(self, llm, messages, tools=None, variables: dict[str, Any] | None = None):
        self.llm: "LLM" = llm
        self.keep: list[Any] = []
        self.chat, self.prompt = ffi.new("struct gallop_chat *"), ffi.new("struct gallop_prompt *")
        lib.gallop_chat_init(self.chat)
        own, of_template = {"messages": messages, "tools": tools or None}, {}
        for name, value in (variables or {}).items():
            if name == "add_generation_prompt":
                own["no_generation_prompt"] = not value
            elif name in MEMBERS and name not in own:
                own[name] = value
            else:
                of_template[name] = value
        own["variables"] = of_template or None
        for name, value in own.items():
            if value is None:
                continue
            if name in self.JSON and not (name == "tool_choice" and isinstance(value, str)):
                value = to_json(name, value)
            MEMBERS[name](self.chat, name, value, self.keep)
        _entered(llm, lib.gallop_render, self.chat, self.prompt)
        self.prompt = ffi.gc(self.prompt, lib.gallop_prompt_fini)

    @property
    def text(self) -> str:
        return ffi.buffer(self.prompt.text, self.prompt.text_len)[:].decode("utf-8", "replace")

    @property
    def ids(self) -> list[int]:
        return ffi.unpack(self.prompt.ids, self.prompt.n_ids) if self.prompt.n_ids else []

    def ask(self, request) -> None:
        """Makes a Request answer this prompt, so that its whole text can be parsed."""
        _entered(self.llm, lib.gallop_ask, self.chat, self.prompt, request.struct)
        request.prompt = self

    def parser_options(self):
        o = ffi.new("struct gallop_parser_options *")
        lib.gallop_parser_options_init(o)
        for name in ("tool_call_parser", "reasoning_parser", "chat_template", "tools", "one_call"):
            setattr(o, name, getattr(self.chat, name))
        o.prompt, o.prompt_len = self.prompt.text, self.prompt.text_len
        return o

    def parse(self, text: str, end) -> dict[str, Any]:
        """Returns the message that TEXT, a generated text with special tokens, is."""
        data, out = _fields.encode("text", text), ffi.new("char **")
        _entered(self.llm, lib.gallop_parse, self.parser_options(), data, len(data), end, out)
        try:
            return json.loads(ffi.string(out[0]).decode("utf-8", "replace"))
        finally:
            lib.gallop_free(out[0])


MEMBERS = _fields.setters("gallop_chat")


def parser_end(result):
    """Returns why a text ended, for a parser."""
    if result.finish_reason == "stop":
        return lib.GALLOP_PARSER_STOPPED if isinstance(result.stop_reason, str) else \
            lib.GALLOP_PARSER_ENDED
    return lib.GALLOP_PARSER_CUT


class Parser:
    """Separates a streamed answer into content, reasoning and tool calls."""

    def __init__(self, prompt: Prompt):
        p = ffi.new("struct gallop_parser **")
        with prompt.llm._entered() as engine:
            _checked(lib.gallop_parser_open, p, engine, prompt.parser_options())
        self.parser = ffi.gc(p[0], lib.gallop_parser_close)
        self.piece = ffi.new("struct gallop_piece *")

    def feed(self, text: str):
        """Yields (kind, text) of the pieces that TEXT completes: kind "content" or "reasoning"."""
        data = _fields.encode("text", text)
        _checked(lib.gallop_parser_feed, self.parser, data, len(data))
        return self._pieces()

    def finish(self, end):
        _checked(lib.gallop_parser_finish, self.parser, end)
        return self._pieces()

    def _pieces(self):
        rows = []
        while lib.gallop_parser_take(self.parser, self.piece):
            kind = {lib.GALLOP_PIECE_CONTENT: "content",
                    lib.GALLOP_PIECE_REASONING: "reasoning"}.get(self.piece.kind)
            if kind:
                data = ffi.buffer(self.piece.text, self.piece.len)[:]
                rows.append((kind, data.decode("utf-8", "replace")))
        return rows
