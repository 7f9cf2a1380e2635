"""executor.py - gallop_executor_* of gallop.h with numpy arrays.

A run computes Rows of several sequences and leaves their logits in memory of the library, of which
`logits` is a view until the next run. choose() draws or scores tokens from rows of logits. All
arrays that the library reads are kept alive by their owners: sequences and this object.
"""
from gallop._gallop import ffi, lib

import numpy as np

VERSION = lib.GALLOP_EXECUTOR_VERSION

TOP = np.dtype([("id", np.int32), ("logprob", np.float32)])  # struct gallop_logprob


def _choice_dtype():
    """Returns struct gallop_choice as a dtype; pointers are integers."""
    kinds = {"logits": np.uintp, "sampling": np.uintp, "allowed": np.uintp, "n_tokens": np.uintp,
             "n_prompt": np.uintp, "tokens": np.uintp, "logprobs": np.int64, "id": np.int32,
             "logprob": np.float32, "rank": np.uintp, "top": np.uintp, "n_top": np.uintp}
    return np.dtype({"names": list(kinds), "formats": list(kinds.values()),
                     "offsets": [ffi.offsetof("struct gallop_choice", k) for k in kinds],
                     "itemsize": ffi.sizeof("struct gallop_choice")})


CHOICE = _choice_dtype()


class ExecutorError(RuntimeError):
    """An error of the library: its sentence, and its gallop_code as `code`."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Sampling:
    """struct gallop_sampling with values for members by their names. Members that are not given
    have no effect, whatever the model's generation_config.json says."""

    NEUTRAL = {"do_sample": 0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
               "typical_p": 1.0, "top_n_sigma": -1.0, "xtc_probability": 0.0,
               "repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0,
               "dry_multiplier": 0.0, "min_new_tokens": 0, "logprobs": -1}

    def __init__(self, **members):
        request = ffi.new("struct gallop_request *")
        lib.gallop_request_init(request)
        self.struct = ffi.new("struct gallop_sampling *", request.sampling)
        for name, value in (self.NEUTRAL | members).items():
            setattr(self.struct, name, value)
        self.address = int(ffi.cast("uintptr_t", self.struct))


class Executor:
    """An open executor. Options are those of struct gallop_options by their names; None: the
    default."""

    def __init__(self, **options):
        self._strings = []
        self._x = ffi.NULL
        o = ffi.new("struct gallop_options *")
        lib.gallop_options_init(o)
        for name, value in options.items():
            if value is None:
                continue
            if isinstance(value, str):
                value = ffi.new("char[]", value.encode())
                self._strings.append(value)
            setattr(o, name, value)
        self._err = ffi.new("char[]", lib.GALLOP_ERR_SIZE)
        out = ffi.new("struct gallop_executor **")
        self._check(lib.gallop_executor_open(out, VERSION, o, self._err))
        self._x = out[0]
        caps = ffi.new("struct gallop_executor_caps *")
        lib.gallop_executor_describe(self._x, caps)
        self.max_seqs, self.max_rows, self.max_wanted = caps.max_seqs, caps.max_rows, caps.max_wanted
        self.vocab_size, self.max_model_len = caps.vocab_size, caps.max_model_len
        self.n_layers = caps.n_layers
        self.n_slots, self.n_blocks, self.block_size = caps.n_slots, caps.n_blocks, caps.block_size
        self.kv_bytes, self.weight_bytes = caps.kv_bytes, caps.weight_bytes
        self.scratch_bytes, self.threads = caps.scratch_bytes, caps.threads
        self.mixes = bool(caps.mixes)  # False: a run has one prompt, or sequences of one row
        for name in ("dtype", "kv_cache_type", "kv_cache_dtype", "isa"):
            setattr(self, name, ffi.string(getattr(caps, name)).decode())
        self._rows = ffi.new("struct gallop_rows[]", self.max_seqs)
        self._out = ffi.new("struct gallop_outcome *")
        self._choices = np.zeros(self.max_wanted, CHOICE)
        self._pointer = ffi.cast("struct gallop_choice *", self._choices.ctypes.data)
        self.logits = np.zeros((0, self.vocab_size), np.float32)

    def _check(self, code):
        if code:
            raise ExecutorError(code, ffi.string(self._err).decode(errors="replace"))

    def run(self, parts):
        """Computes PARTS, objects with the members `sequence` (with arrays `tokens` and `blocks`,
        or a `slot`), `pos`, `n` and `n_wanted`. Afterwards `logits` has the wanted rows in their
        order."""
        n_wanted = 0
        for i, part in enumerate(parts):
            rows, sequence = self._rows[i], part.sequence
            rows.ids = sequence.tokens_pointer + part.pos
            rows.n = part.n
            rows.pos = part.pos
            rows.n_wanted = part.n_wanted
            if self.n_blocks:
                rows.blocks = sequence.blocks_pointer
                rows.n_blocks = sequence.n_blocks
            else:
                rows.slot = sequence.slot
            n_wanted += part.n_wanted
        self._check(lib.gallop_executor_run(self._x, self._rows, len(parts), self._out, self._err))
        if n_wanted:
            size = n_wanted * self.vocab_size
            self.logits = np.frombuffer(ffi.buffer(self._out.logits, 4 * size),
                                        np.float32).reshape(n_wanted, self.vocab_size)

    def choices(self, n):
        """Returns an array of N choices to fill in, as records of struct gallop_choice that are
        zero. choose() reads it; the next call overwrites it."""
        if n > len(self._choices):
            self._choices = np.zeros(n, CHOICE)
            self._pointer = ffi.cast("struct gallop_choice *", self._choices.ctypes.data)
        some = self._choices[:n]
        some[...] = 0
        return some

    def choose(self, choices):
        """Chooses or scores the tokens of the array that choices() returned."""
        self._check(lib.gallop_executor_choose(self._x, self._pointer, len(choices), self._err))

    def truncate(self, slot, n):
        """Drops the rows of SLOT from row N on."""
        self._check(lib.gallop_executor_truncate(self._x, slot, n, self._err))

    def close(self):
        if self._x != ffi.NULL:
            lib.gallop_executor_close(self._x)
            self._x = ffi.NULL


def int32_pointer(array):
    """Returns the address of an int32 array, which must outlive the result, as `int32_t *`."""
    return ffi.cast("int32_t *", array.ctypes.data)
