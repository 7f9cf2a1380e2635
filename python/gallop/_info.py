"""What an engine says about its model: gallop.ModelInfo."""
from __future__ import annotations

from dataclasses import dataclass, fields

from . import _fields
from ._gallop import ffi, lib


@dataclass
class ModelInfo:
    """Facts about the model of an engine, as in struct gallop_model_info of gallop.h.

    Sizes are in bytes, lengths in tokens. context_length is the model's, max_model_len the
    engine's. special_tokens maps the text of each special token to its id, and named_tokens maps
    names such as "eos_token" to texts. Ids that do not exist are None. A reason in no_generation,
    no_tokenizer or no_chat_template says why something cannot be done; None: it can.
    """

    name: str
    path: str
    architecture: str | None
    model_type: str | None
    n_params: int
    weight_bytes: int
    n_layers: int
    hidden_size: int
    intermediate_size: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    context_length: int
    max_model_len: int
    max_step_tokens: int
    dtype: str
    quant: str
    kv_cache_type: str
    kv_cache_dtype: str
    isa: str
    threads: int
    no_generation: str | None
    tokenizer: str | None
    no_tokenizer: str | None
    n_tokenizer_ids: int
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    pad_id: int | None
    end_ids: list[int]
    special_tokens: dict[str, int]
    named_tokens: dict[str, str]
    chat_template: str | None
    no_chat_template: str | None
    has_tools: bool
    tool_call_parser: str | None
    reasoning_parser: str | None


def info_of(engine) -> ModelInfo:
    """Returns the description of a struct gallop."""
    d = lib.gallop_describe(engine)
    rows = _fields.dict_of(d)
    tokens = [d.special_tokens[i] for i in range(d.n_special_tokens)]
    texts = [ffi.buffer(t.text, t.text_len)[:].decode("utf-8", "replace") for t in tokens]
    for name in ("bos_id", "eos_id", "unk_id", "pad_id"):
        rows[name] = rows[name] if rows[name] >= 0 else None
    rows["end_ids"] = ffi.unpack(d.end_ids, d.n_end_ids) if d.n_end_ids else []
    rows["special_tokens"] = {x: t.id for x, t in zip(texts, tokens)}
    rows["named_tokens"] = {ffi.string(t.name).decode(): x for x, t in zip(texts, tokens) if t.name}
    rows["has_tools"] = bool(rows["has_tools"])
    return ModelInfo(**{f.name: rows[f.name] for f in fields(ModelInfo)})
