"""Tokenizing, chat templates and the parsing of answers, by the functions of gallop.h."""
from __future__ import annotations

import array
import json
import re
from typing import TYPE_CHECKING, Any, Mapping

from . import _fields
from ._errors import BadInput, _error
from ._gallop import ffi, lib
from ._handles import Handle

if TYPE_CHECKING:
    from ._llm import LLM


def _checked(function, *args):
    err = ffi.new("char[]", lib.GALLOP_ERR_SIZE)
    code = function(*args, err)
    if code:
        raise _error(code, err)


def _entered(llm, function, *args):
    """Calls a function of an engine, which stays open meanwhile."""
    with llm._open_runner().entered() as engine:
        _checked(function, engine, *args)


def tokenize(llm, text: str, special: bool, plain: bool) -> list[int]:
    data = _fields.encode("text", text)
    ids, n = ffi.new("int32_t **"), ffi.new("size_t *")
    flags = (lib.GALLOP_ADD_SPECIAL if special else 0) | (lib.GALLOP_PLAIN_TEXT if plain else 0)
    try:
        _entered(llm, lib.gallop_tokenize, data, len(data), flags, ids, n)
        return ffi.unpack(ids[0], n[0]) if n[0] else []
    finally:
        lib.gallop_free(ids[0])


def detokenize(llm, ids, special: bool) -> str:
    data = _fields.ids_of("ids", ids)
    text, n = ffi.new("char **"), ffi.new("size_t *")
    flags = lib.GALLOP_KEEP_SPECIAL if special else 0
    try:
        _entered(llm, lib.gallop_detokenize, data, len(data), flags, text, n)
        return ffi.buffer(text[0], n[0])[:].decode("utf-8", "replace") if n[0] else ""
    finally:
        lib.gallop_free(text[0])


def embedding(llm, pooling: int, pooled, normalize: bool) -> array.array[float]:
    out, n = ffi.new("float **"), ffi.new("size_t *")
    try:
        _entered(llm, lib.gallop_embedding, pooling, pooled, normalize, out, n)
        return array.array("f", ffi.buffer(out[0], n[0] * ffi.sizeof("float"))[:])
    finally:
        lib.gallop_free(out[0])


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


def names_of_template(source: str) -> set[str]:
    """Returns the names that the statements and expressions of a Jinja template mention."""
    code = " ".join(re.findall(r"\{[{%].*?[}%]\}", source, re.S))
    code = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "''", code, flags=re.S)
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", code))


def variables_of(llm, function: str, options: "Mapping[str, Any]", more: Any,
                 others: "frozenset[str] | set[str]" = frozenset()) -> dict[str, Any]:
    """Returns the variables of Prompt for the keyword arguments OPTIONS of a function.

    Those are members of struct gallop_chat and variables that the chat template mentions. MORE is
    chat_template_kwargs, which may have any name; OTHERS are further arguments of the function."""
    names = {*OPTIONS, *others}
    if any(name not in names for name in options):
        source = options.get("chat_template") or llm.info.chat_template
        names |= names_of_template(source) if isinstance(source, str) else set()
    for name in options:
        if name not in names:
            raise TypeError(f"{_fields.unknown(function, name, names)}; the chat template has no such "
                            "variable, and chat_template_kwargs takes any name")
    if not isinstance(more, (Mapping, type(None))):
        raise BadInput(f"chat_template_kwargs: {more!r:.100} is not a dict", "chat_template_kwargs")
    return {**options, **(more or {})}


class Prompt:
    """A rendered conversation: a struct gallop_chat, and the struct gallop_prompt made of it.

    variables are members of struct gallop_chat (tool_choice, chat_template, verbatim, ...), and
    all others are variables of the chat template.
    """

    JSON = ("messages", "tools", "tool_choice", "variables")

    def __init__(self, llm, messages, tools=None, variables: dict[str, Any] | None = None):
        self.llm: "LLM" = llm
        self.keep: list[Any] = []
        self.chat = ffi.new("struct gallop_chat *")
        self.prompt = ffi.gc(ffi.new("struct gallop_prompt *"), lib.gallop_prompt_fini)
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
        for name in ("tool_call_parser", "reasoning_parser", "chat_template", "tools", "tool_choice",
                     "one_call"):
            setattr(o, name, getattr(self.chat, name))
        o.prompt, o.prompt_len = self.prompt.text, self.prompt.text_len
        if self.chat.continue_final_message:
            o.messages = self.chat.messages
        return o

    def parse(self, result, end) -> dict[str, Any]:
        """Returns the message that the text of RESULT is."""
        data, out = _fields.encode("text", result.text), ffi.new("char **")
        options, special = self.parser_options(), ffi.from_buffer(result._special)
        options.special = special if len(special) == len(data) else ffi.NULL
        try:
            _entered(self.llm, lib.gallop_parse, options, data, len(data), end, out)
            return json.loads(ffi.string(out[0]).decode("utf-8", "replace"))
        finally:
            lib.gallop_free(out[0])


MEMBERS = _fields.setters("gallop_chat")
OPTIONS = {*MEMBERS, "add_generation_prompt"} - {"messages", "tools", "variables", "text_only",
                                                 "no_generation_prompt"}


def parser_end(result):
    """Returns why a text ended, for a parser."""
    if result.finish_reason == "stop":
        return lib.GALLOP_PARSER_STOPPED if isinstance(result.stop_reason, str) else \
            lib.GALLOP_PARSER_ENDED
    return lib.GALLOP_PARSER_CUT


class Parser:
    """Separates a streamed answer into content, reasoning and tool calls."""

    def __init__(self, prompt: Prompt):
        self.parser = Handle("gallop_parser", lib.gallop_parser_close)
        with prompt.llm._open_runner().entered() as engine:
            _checked(lib.gallop_parser_open, self.parser.box, engine, prompt.parser_options())
        self.piece = ffi.new("struct gallop_piece *")

    def feed(self, chunk):
        """Yields (kind, text) of the pieces that CHUNK completes: kind "content" or "reasoning"."""
        data = _fields.encode("text", chunk.text)
        _checked(lib.gallop_parser_feed_special, self.parser.box[0], data, chunk._special, len(data))
        return self._pieces()

    def finish(self, end):
        _checked(lib.gallop_parser_finish, self.parser.box[0], end)
        return self._pieces()

    def _pieces(self):
        rows = []
        while lib.gallop_parser_take(self.parser.box[0], self.piece):
            kind = {lib.GALLOP_PIECE_CONTENT: "content",
                    lib.GALLOP_PIECE_REASONING: "reasoning"}.get(self.piece.kind)
            if kind:
                data = ffi.buffer(self.piece.text, self.piece.len)[:]
                rows.append((kind, data.decode("utf-8", "replace")))
        return rows
