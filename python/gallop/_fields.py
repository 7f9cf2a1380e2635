"""Keyword arguments become members of the structs of gallop.h, whose types cffi knows."""
from __future__ import annotations

import difflib
import json
import math
import operator
import os
from typing import Any

from ._errors import BadInput
from ._gallop import ffi, lib

ALIASES = {
    "max_tokens": "max_new_tokens", "num_return_sequences": "n", "stop_token_ids": "stop_token",
    "min_tokens": "min_new_tokens", "typical": "typical_p",
}
# Instead of a prompt: the one that a Request has already.
KEPT: object = object()
# Parameters that are not members of the structs as they are, or mean more in Python.
EXPLAINED = {
    "seed": "Seed of the random numbers; answer number I, counted over all prompts of a list, draws "
            "with seed + I [that of the engine, or a fresh one].",
    "logit_bias": "A dict of token ids and numbers, -100 to 100, that are added to their logits [none].",
    "tools": "With a prompt of messages: Python functions or schemas as in OpenAI's API, which the chat "
             "template shows to the model. LLM.chat() also executes calls [none].",
    "chat_template_kwargs": "With a prompt of messages: a dict of variables as those of render() [none].",
}
EARLY = {False: "GALLOP_EARLY_FALSE", True: "GALLOP_EARLY_TRUE", "never": "GALLOP_EARLY_NEVER"}


def _bad(name, value, expected):
    return BadInput(f"{name}: {value!r:.100} is not {expected}", name)


def _text(name, value):
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, (str, bytes)):
        raise _bad(name, value, "a string")
    data = value if isinstance(value, bytes) else encode(name, value)
    if b"\0" in data:
        raise BadInput(f"{name}: contains a NUL character", name)
    return ffi.new("char[]", data)


def encode(name: str, text: str) -> bytes:
    """Returns TEXT as UTF-8; surrogates without a partner are refused."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as e:
        raise BadInput(f"{name}: character {e.start} is a surrogate without a partner, which UTF-8 "
                       "cannot express", name) from None


def ids_of(name: str, value):
    """Returns token ids, any sequence of whole numbers or an array with tolist(), as int32_t[]."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    try:
        return ffi.new("int32_t[]", list(map(operator.index, value)))
    except (TypeError, OverflowError):
        raise _bad(name, value, "a list of token ids") from None


def _set_text(struct, name, value, keep):
    data = _text(name, value)
    keep.append(data)
    setattr(struct, name, data)


def _set_texts(struct, name, value, keep):
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise _bad(name, value, "a string or a list of strings")
    texts = [_text(name, x) for x in value]
    pointers = ffi.new("char *[]", texts) if texts else ffi.new("char *[1]")
    keep += [texts, pointers]
    setattr(struct, name, pointers)
    setattr(struct, "n_" + name, len(texts))


def _set_ids(struct, name, value, keep):
    if _is_id(value):
        value = [value]
    data = ids_of(name, value)
    keep.append(data)
    setattr(struct, name, data)
    setattr(struct, "n_" + name, len(data))


def _set_whole(struct, name, value, keep):
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        setattr(struct, name, value.__index__())
    except (AttributeError, TypeError):
        raise _bad(name, value, "a whole number") from None
    except OverflowError:
        raise _bad(name, value, "a number that fits") from None


def _set_real(struct, name, value, keep):
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan  # which the structs have for members that are not given
    if math.isnan(number):
        raise _bad(name, value, "a number")
    setattr(struct, name, number)


def set_enum(struct, name, value, keep):
    kinds = ffi.typeof(struct).item.fields if ffi.typeof(struct).kind == "pointer" else \
        ffi.typeof(struct).fields
    kind = next(f.type for n, f in kinds if n == name)
    words = {k.rsplit("_", 1)[-1].lower(): v for v, k in kind.elements.items()}
    if value not in words:
        raise _bad(name, value, "one of " + ", ".join(repr(x) for x in words))
    setattr(struct, name, words[value])


def _setter(name, field):
    kind, text = field.type.kind, field.type.cname
    if kind == "primitive":
        return _set_real if text in ("double", "float") else _set_whole
    if kind == "enum":
        return set_enum
    if kind == "pointer" and text in ("char *", "char const *"):
        return _set_text
    if kind == "pointer" and text.replace("const", "").replace(" ", "") == "char**":
        return _set_texts
    if kind == "pointer" and "int32_t" in text or text.startswith("int "):
        return _set_ids if kind == "pointer" else None
    return None


def setters(struct: str) -> dict:
    """Returns a function for each member of a struct that a keyword argument can set."""
    fields = dict(ffi.typeof("struct " + struct).fields)
    return {name: s for name, f in fields.items() if (s := _setter(name, f))
            and not (name.startswith("n_") and name[2:] in fields) and not name.endswith("_len")
            or name == "max_model_len"}


OPTIONS = setters("gallop_options")
SAMPLING = setters("gallop_sampling")
CONSTRAINT = setters("gallop_structured_outputs")
# Members of a request whose effect no Result has, and what has it.
ELSEWHERE = {"pooling": "LLM.embed() returns embeddings", "return_logits": "gallop.Executor.run() "
             "returns logits", "return_probs": "gallop.pace returns probabilities",
             "return_prompt_logits": "gallop.Executor.run() returns logits"}
REQUEST = {k: v for k, v in setters("gallop_request").items()
           if k not in ("text", "ids", "n_ids", *ELSEWHERE)}
del SAMPLING["bias_id"], SAMPLING["has_seed"], OPTIONS["has_seed"]
CONSTRAINT["json_schema"] = CONSTRAINT.pop("json")

# Keyword arguments of a step's pick, of what is only queued and computed, and of what generates.
PICK = {*SAMPLING, "logit_bias", *(k for k, v in ALIASES.items() if v in SAMPLING)}
QUEUED = {"priority", "key", "cache_salt", "deadline_s"}
PARAMETERS = {*SAMPLING, *CONSTRAINT, *REQUEST, *ALIASES, *EXPLAINED}


def unknown(function: str, name: str, names) -> TypeError:
    """Returns the exception for a keyword argument that does not exist, with similar names."""
    near = difflib.get_close_matches(name, list(names), 3, 0.6)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def fill_options(options, values: dict, keep: list) -> None:
    """Sets the members of struct gallop_options. None means the default."""
    for name, value in values.items():
        if name not in OPTIONS:
            raise unknown("LLM", name, [*OPTIONS, "share_pool", "progress", "download"])
        if value is not None:
            OPTIONS[name](options, name, value, keep)
        if name == "seed" and value is not None:
            options.has_seed = 1


def _set_bias(sampling, value, keep):
    try:
        rows = [(int(k), float(v)) for k, v in dict(value).items()]
        ids = ffi.new("int32_t[]", [k for k, _ in rows] or 1)
        bias = ffi.new("float[]", [v for _, v in rows] or 1)
    except (TypeError, ValueError, OverflowError):
        raise _bad("logit_bias", value, "a dict of token ids and numbers") from None
    keep += [ids, bias]
    sampling.bias_id, sampling.bias, sampling.n_bias = ids, bias, len(rows)


def resolved(values) -> dict:
    """Returns keyword arguments of a request under the names of their parameters, without None."""
    out = {}
    for name, value in values.items():
        own = ALIASES.get(name, name)
        if value is not None and own in out:
            other = next(k for k in values if ALIASES.get(k, k) == own)
            raise BadInput(f"{name}: is the same parameter as {other}, which is given, too", name)
        if value is not None:
            out[own] = value
    return out


class Request:
    """A struct gallop_request and the memory that its members point to.

    FUNCTION is the name for errors, VALUES its keyword arguments, and ONLY the names that it has."""

    def __init__(self, function: str, values: dict, only=frozenset(PARAMETERS)):
        self.keep: list = []
        self.tools = self.template = None
        self.struct = ffi.new("struct gallop_request *")
        lib.gallop_request_init(self.struct)
        for name in values:
            if name in ELSEWHERE:
                raise BadInput(f"{name}: {function}() cannot return it; {ELSEWHERE[name]}", name)
            if name not in only:
                raise unknown(function, name, only)
        for name, value in resolved(values).items():
            self._set(name, value)
        self.n = max(self.struct.n, 1)
        self.seed = self.struct.sampling.seed
        self.logprobs = self.struct.sampling.logprobs >= 0

    @property
    def prompt_logprobs(self) -> bool:
        return self.struct.prompt_logprobs >= 0

    def without_output(self, name: str, value: Any, setter: Any = None) -> "Request":
        """Computes the prompt only; the member NAME of the struct says what is wanted of it."""
        self.struct.sampling.max_new_tokens = 0
        (setter or REQUEST[name])(self.struct, name, value, self.keep)
        return self

    def _set(self, name, value):
        r, keep = self.struct, self.keep
        if name == "tools":
            self.tools = value
        elif name == "chat_template_kwargs":
            self.template = value
        elif name == "seed":
            r.sampling.has_seed = 1
            _set_whole(r.sampling, name, value if value is not True else 1, keep)
        elif name == "early_stopping" and value in EARLY:
            r.sampling.early_stopping = getattr(lib, EARLY[value])
        elif name == "logprobs" and isinstance(value, bool):
            r.sampling.logprobs = 0 if value else -1
        elif name in SAMPLING:
            SAMPLING[name](r.sampling, name, value, keep)
        elif name == "logit_bias":
            _set_bias(r.sampling, value, keep)
        elif name in CONSTRAINT:
            member = "json" if name == "json_schema" else name
            CONSTRAINT[name](r.structured_outputs, member, value, keep)
        elif name == "suffix":
            data = encode(name, value)
            keep.append(data)
            r.suffix_len = len(data)
            r.suffix = ffi.from_buffer("char[]", data)
            keep.append(r.suffix)
        else:
            REQUEST[name](r, name, value, keep)

    def draw_as(self, i: int) -> None:
        """Makes prompt number I of a list draw with a seed of its own: answer K of all answers to
        the list draws with the request's seed + K."""
        self.struct.sampling.seed = (self.seed + i * self.n) % 2**64

    def is_constrained(self) -> bool:
        """Returns whether the request has a constraint, which is compiled when it is submitted."""
        s = self.struct.structured_outputs
        return any(getattr(s, name) for name, _ in ffi.typeof(s).fields)

    def set_rendered(self, rendered) -> None:
        """Sets a rendered conversation, a _text.Prompt, as the prompt."""
        r, p = self.struct, rendered.prompt
        self.prompt = rendered
        r.text, r.text_len, r.ids, r.n_ids = ffi.NULL, 0, p.ids, p.n_ids

    def set_prompt(self, prompt) -> None:
        """Sets the prompt: a str, or token ids."""
        r = self.struct
        r.text, r.ids, r.text_len, r.n_ids = ffi.NULL, ffi.NULL, 0, 0
        if isinstance(prompt, str):
            data = encode("prompt", prompt)
            self.prompt = ffi.from_buffer("char[]", data) if data else ffi.new("char[1]")
            r.text, r.text_len = self.prompt, len(data)
        else:
            self.prompt = ids_of("prompt", prompt)
            r.ids, r.n_ids = self.prompt, len(self.prompt)


def _is_id(value) -> bool:
    """Returns whether VALUE is a whole number, of Python or of numpy, and not an array of them."""
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def _is_message(value) -> bool:
    return isinstance(value, dict) or hasattr(value, "role")


def is_batch(prompt) -> bool:
    """Returns whether PROMPT is a list of prompts: of texts, of lists of ids or of conversations. An
    array is a list of ids, or with two dimensions a list of such lists."""
    if isinstance(prompt, str):
        return False
    if hasattr(prompt, "tolist"):
        return getattr(prompt, "ndim", 1) == 2
    if not isinstance(prompt, (list, tuple)):
        raise _bad("prompt", prompt, "a str, a list of token ids, or a list of messages")
    return not prompt or not _is_id(prompt[0]) and not _is_message(prompt[0])


def length_of(prompt) -> int:
    """Returns the number of characters or ids of a prompt, 0 for what has none."""
    try:
        return len(prompt)
    except TypeError:
        return 0


def is_messages(prompt) -> bool:
    return isinstance(prompt, (list, tuple)) and bool(prompt) and _is_message(prompt[0])


def dict_of(struct, skip=()) -> dict:
    """Returns the numbers, strings and arrays of a struct as a dict."""
    out = {}
    kind = ffi.typeof(struct)
    kind = kind.item if kind.kind == "pointer" else kind
    for name, field in kind.fields:
        value = getattr(struct, name)
        if name in skip or name.startswith("_"):
            continue
        if field.type.kind == "primitive":
            out[name] = value
        elif field.type.kind == "pointer" and field.type.cname in ("char *", "char const *"):
            out[name] = ffi.string(value).decode() if value else None
        elif field.type.kind == "array" and field.type.item.kind == "primitive":
            out[name] = list(value)
        elif field.type.kind == "struct":
            out[name] = dict_of(value)
    return out
