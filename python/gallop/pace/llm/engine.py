"""An engine of gallop.h for static batches: submit rows, compute steps, take events."""

import collections
import contextlib
import json
import os

from gallop._errors import _error as exception_of
from gallop._fields import fill_options
from gallop._gallop import ffi, lib
from gallop._handles import Handle

#: One event: row is the number of the row in its batch; kind is "token", "prompt", "text" or
#: "finished". logits and probs of a token are float32 arrays [vocab_size], or None.
Event = collections.namedtuple("Event", "row kind value logits probs", defaults=(None, None))

#: Members of struct gallop_request; others are of struct gallop_sampling.
_RETURNS = ("return_logits", "return_probs", "return_prompt_logits")


class Engine:
    """An open model. Requests belong to one thread at a time; the other functions, close() too, may be
    called by any thread."""

    def __init__(self, **options):
        o, err, alive = ffi.new("struct gallop_options *"), _error(), []
        self._handle = handle = Handle("gallop", lib.gallop_close)
        lib.gallop_options_init(o)
        fill_options(o, options, alive)
        _check(lib.gallop_open(handle.box, o, err), err)
        self.vocab_size = lib.gallop_describe(handle.box[0]).vocab_size
        self._event = ffi.new("struct gallop_event *")
        self._pid = os.getpid()
        self._running = False
        self._cancels = []

    def close(self):
        """Closes the engine and drops what is running. A step of another thread ends first, and its
        thread closes the engine then."""
        self._handle = None

    @contextlib.contextmanager
    def _open(self):
        """A context that has the open engine of this process, which stays open meanwhile."""
        if os.getpid() != self._pid:
            raise RuntimeError(
                "the model was opened before this process was forked, which has none of its "
                "threads: open models in the process that uses them"
            )
        handle = self._handle
        if handle is None:
            raise ValueError("the model is closed")
        try:
            yield handle.box[0]
        finally:
            del handle  # A traceback may keep this frame.

    def stats(self):
        """Returns struct gallop_stats."""
        stats = ffi.new("struct gallop_stats *")
        with self._open() as g:
            lib.gallop_stats(g, stats)
        return stats

    def submit(self, row, ids, **sampling):
        """Queues a request for tokens behind IDS; ROW is in its events. Returns its id."""
        r, number, err = ffi.new("struct gallop_request *"), ffi.new("uint64_t *"), _error()
        lib.gallop_request_init(r)
        array = ffi.new("int32_t[]", ids)
        r.ids, r.n_ids = array, len(ids)
        r.user = ffi.cast("void *", row + 1)
        r.keep_special = 1
        stops = ffi.new("int32_t[]", list(sampling.pop("stop_token", ())))
        if len(stops):
            r.sampling.stop_token, r.sampling.n_stop_token = stops, len(stops)
        for name, value in sampling.items():
            setattr(r if name in _RETURNS else r.sampling, name, value)
        with self._open() as g:
            _check(lib.gallop_submit(g, r, number, err), err)
        return number[0]

    def special_ids(self):
        """Returns the pad, eos and bos tokens of the tokenizer, below 0 if there is none, and the number
        of its tokens."""
        with self._open() as g:
            info = lib.gallop_describe(g)
            return info.pad_id, info.eos_id, info.bos_id, info.n_tokenizer_ids

    def encode(self, text, add_special_tokens=True):
        """Returns the tokens of TEXT."""
        data, ids = text.encode(), ffi.new("int32_t **")
        n, err = ffi.new("size_t *"), _error()
        flags = lib.GALLOP_ADD_SPECIAL if add_special_tokens else 0
        try:
            with self._open() as g:
                _check(lib.gallop_tokenize(g, data, len(data), flags, ids, n, err), err)
            return ffi.unpack(ids[0], n[0]) if n[0] else []
        finally:
            lib.gallop_free(ids[0])

    def decode(self, ids, skip_special_tokens=False):
        """Returns the text of tokens."""
        text, n, err = ffi.new("char **"), ffi.new("size_t *"), _error()
        flags = 0 if skip_special_tokens else lib.GALLOP_KEEP_SPECIAL
        array = ffi.new("int32_t[]", list(ids))
        try:
            with self._open() as g:
                _check(lib.gallop_detokenize(g, array, len(array), flags, text, n, err), err)
            return bytes(ffi.buffer(text[0], n[0])).decode("utf-8", "replace")
        finally:
            lib.gallop_free(text[0])

    def render(self, messages, tools, add_generation_prompt, variables):
        """Returns the text of a conversation as the chat template writes it."""
        chat, err, alive = ffi.new("struct gallop_chat *"), _error(), []
        prompt = ffi.gc(ffi.new("struct gallop_prompt *"), lib.gallop_prompt_fini)
        lib.gallop_chat_init(chat)
        for name, value in (("messages", messages), ("tools", tools), ("variables", variables)):
            if value:
                alive.append(ffi.new("char[]", json.dumps(value).encode()))
                setattr(chat, name, alive[-1])
        chat.no_generation_prompt = int(not add_generation_prompt)
        chat.verbatim = chat.text_only = 1
        with self._open() as g:
            _check(lib.gallop_render(g, chat, prompt, err), err)
        return bytes(ffi.buffer(prompt.text, prompt.text_len)).decode("utf-8", "replace")

    def cancel(self, request):
        """Ends a request after the next step."""
        self._cancels.append(request)

    def step(self, wait_s=0.0):
        """Computes a step and returns its events; None if nothing can be computed for WAIT_S seconds."""
        with self._open() as g:
            # The engine takes 256 cancellations between two steps; the others wait for the next one.
            while self._cancels and lib.gallop_cancel(g, self._cancels[-1]) == 0:
                self._cancels.pop()
            return self._taken(g) if lib.gallop_step(g, wait_s) else None

    def _taken(self, g):
        """Returns the events of a step."""
        events, ev = [], self._event
        while lib.gallop_take(g, ev):
            row = int(ffi.cast("uintptr_t", ev.user)) - 1
            if ev.type == lib.GALLOP_TOKEN:
                logits, probs = self._array(ev.logits), self._array(ev.probs)
                events.append(Event(row, "token", ev.token, logits, probs))
            elif ev.type == lib.GALLOP_PROMPT_TOKEN:
                events.append(Event(row, "prompt", ev.token, self._array(ev.logits)))
            elif ev.type == lib.GALLOP_TEXT:
                text = bytes(ffi.buffer(ev.text, ev.text_len)).decode("utf-8", "replace")
                events.append(Event(row, "text", text))
            elif ev.type == lib.GALLOP_FINISHED:
                events.append(Event(row, "finished", Finish(ev)))
        return events

    def _array(self, numbers):
        """Returns a copy of [vocab_size] numbers as a numpy array; None for NULL."""
        if numbers == ffi.NULL:
            return None
        import numpy

        size = self.vocab_size * 4
        return numpy.frombuffer(ffi.buffer(numbers, size), dtype=numpy.float32).copy()

    def begin(self):
        """Begins a batch: ends what an interrupted one has left."""
        if self._running:
            self.drain()
        self._running = True

    def end(self):
        """Ends a batch whose requests are all finished."""
        self._running = False

    def drain(self):
        """Cancels everything and computes until nothing is left. A closed engine has nothing left."""
        self._cancels.clear()
        with contextlib.suppress(ValueError), self._open() as g:
            while lib.gallop_cancel(g, 0) != 0:
                self.step()
            while self.step() is not None:
                pass
        self._running = False


class Finish:
    """How a request ended."""

    def __init__(self, ev):
        self.stopped = ev.finish == lib.GALLOP_FINISH_STOP
        self.failed = ev.finish in (lib.GALLOP_FINISH_ERROR, lib.GALLOP_FINISH_DEADLINE)
        self.error = ffi.string(ev.error).decode() if self.failed and ev.error else None
        self.prefill_s, self.decode_s = ev.prefill_s, ev.decode_s
        self.n_steps = ev.speculation.n_steps if ev.speculation.n_positions else 0


def _error():
    return ffi.new("char[]", lib.GALLOP_ERR_SIZE)


def _check(code, err):
    if code != lib.GALLOP_OK:
        raise exception_of(code, err)
