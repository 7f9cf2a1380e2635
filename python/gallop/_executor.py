"""Steps of a model for schedulers outside of the engine: gallop.Executor."""
from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple, Sequence

from . import _fields
from ._errors import BadInput, Cancelled, GallopError, _error
from ._fields import Request
from ._gallop import ffi, lib
from ._handles import Handle


# Formats of the buffer protocol for int32, which have 4 bytes an item.
_INT32 = ("i", "l", "@i", "@l", "=i", "=l", "<i", "<l")


class Rows:
    """New rows (tokens) of one sequence for Executor.run().

    ids       the tokens, 1 or more: a list or an array; an array of int32 is not copied
    pos       position of the first row
    slot      with slots: the number of the slot
    blocks    with kv_cache_type "extern": numbers of the blocks that hold rows 0 .. pos + len(ids) - 1
    n_wanted  the run returns the logits of the last n_wanted rows, 0 to len(ids)
    pick      None, or a dict of sampling parameters with which the run chooses the next token
    n_prompt  with pick: the length of the prompt
    tokens    with a pick that has a penalty: all pos + len(ids) tokens of the sequence
    """

    __slots__ = ("ids", "pos", "slot", "blocks", "n_wanted", "pick", "n_prompt", "tokens")

    def __init__(self, ids: Any, pos: int = 0, slot: int = 0, blocks: Any = None, n_wanted: int = 1,
                 pick: dict[str, Any] | None = None, n_prompt: int = 0, tokens: Any = None) -> None:
        self.ids, self.pos, self.slot, self.blocks = ids, pos, slot, blocks
        self.n_wanted, self.pick, self.n_prompt, self.tokens = n_wanted, pick, n_prompt, tokens


class Outcome(NamedTuple):
    """The result of a run.

    logits    memoryview of float32, [sum of n_wanted, vocab_size], in the order of the rows, which
              the next run overwrites; numpy.asarray(logits) and torch.frombuffer(logits, ...) copy
              nothing, and keep the model in memory after close()
    picks     for each sequence: (token id or -1, log-probability)
    """

    logits: "memoryview[float]"
    picks: list[tuple[int, float]]


def _array(name, values, keep):
    """Returns VALUES as int32_t[], without a copy if they are an array of such numbers."""
    try:
        view = memoryview(values)
    except TypeError:
        view = None
    if view is not None and view.ndim == 1 and view.c_contiguous and view.itemsize == 4 and \
            view.format in _INT32:
        data = ffi.from_buffer("int32_t[]", view)
    else:
        data = _fields.ids_of(name, values)
    keep.append(data)
    return data


class Executor:
    """Computes steps of a model for a scheduler of one's own; docs/SCHEDULING.md explains the rules.

    model and options are those of LLM(), except options of its queue and scheduler. Calls of
    several threads take turns. `caps` has its limits and sizes: n_layers, vocab_size,
    max_model_len, max_seqs, max_rows, max_wanted, n_slots, n_blocks, block_size, ...
    """

    _x: "Handle | None" = None

    def __init__(self, model: "str | os.PathLike[str]", **options: Any) -> None:
        keep: list = []
        struct = ffi.new("struct gallop_options *")
        x = Handle("gallop_executor", lib.gallop_executor_close)
        self._err = ffi.new("char[]", lib.GALLOP_ERR_SIZE)
        self._pid = os.getpid()
        lib.gallop_options_init(struct)
        _fields.fill_options(struct, {"model": model, **options}, keep)
        self._lock = threading.RLock()
        self._check(lib.gallop_executor_open(x.box, lib.GALLOP_EXECUTOR_VERSION, struct, self._err))
        caps = ffi.new("struct gallop_executor_caps *")
        lib.gallop_executor_describe(x.box[0], caps)
        self._x = x
        self.caps: dict[str, Any] = _fields.dict_of(caps)
        self._outcome = ffi.new("struct gallop_outcome *")

    def _check(self, code: int) -> None:
        if code:
            raise _error(code, self._err)

    def _open(self) -> Handle:
        x = self._x
        if x is None:
            raise Cancelled("the executor is closed")
        if os.getpid() != self._pid:
            raise GallopError("this executor belongs to the parent process; open one in each process")
        return x

    def run(self, rows: Sequence[Rows]) -> Outcome:
        """Computes rows of different sequences, and returns the wanted logits and the picks."""
        x = self._open()
        with self._lock:
            return self._run(x, rows)

    def _run(self, x: Handle, rows: Sequence[Rows]) -> Outcome:
        keep: list[Any] = []
        structs = ffi.new("struct gallop_rows[]", len(rows) or 1)
        for s, r in zip(structs, rows):
            ids = _array("ids", r.ids, keep)
            s.ids, s.n, s.pos, s.slot, s.n_wanted = ids, len(ids), r.pos, r.slot, r.n_wanted
            if r.blocks is not None:
                blocks = _array("blocks", r.blocks, keep)
                s.blocks, s.n_blocks = blocks, len(blocks)
            if r.pick is not None:
                request = Request("pick", r.pick, _fields.PICK)
                keep.append(request)
                s.pick, s.n_prompt = ffi.addressof(request.struct, "sampling"), r.n_prompt
            if r.tokens is not None:
                tokens = _array("tokens", r.tokens, keep)
                if len(tokens) != r.pos + len(ids):
                    raise BadInput(f"tokens: found {len(tokens)} tokens, expected pos + len(ids) = "
                                   f"{r.pos + len(ids)}", "tokens")
                s.tokens = tokens
        out = self._outcome
        self._check(lib.gallop_executor_run(x.box[0], structs, len(rows), out, self._err))
        n, vocab = sum(r.n_wanted for r in rows), self.caps["vocab_size"]
        data = ffi.gc(out.logits, lambda _, owners=(self, x): None) if n else None  # stay open
        logits = memoryview(ffi.buffer(data, n * vocab * 4)).cast("f", (n, vocab)) if n else \
            memoryview(b"").cast("f")
        return Outcome(logits, [(out.picks[i].id, out.picks[i].logprob) for i in range(len(rows))])

    def truncate(self, slot: int, n: int = 0) -> None:
        """With slots: drops the rows of a slot from row n on; 0 empties the slot."""
        x = self._open()
        with self._lock:
            self._check(lib.gallop_executor_truncate(x.box[0], slot, n, self._err))

    def copy_block(self, source: int, target: int) -> None:
        """With blocks: copies the rows of a block in all layers."""
        x = self._open()
        with self._lock:
            self._check(lib.gallop_executor_copy_block(x.box[0], source, target, self._err))

    def close(self) -> None:
        """Frees the model, as soon as no other thread computes and no logits of a run are left."""
        self._x = None

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("cannot copy or pickle an Executor: open another one")
