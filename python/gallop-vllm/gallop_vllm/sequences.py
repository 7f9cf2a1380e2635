"""sequences.py - the state of vLLM's requests in the worker: their tokens, KV blocks, and the rows
that each step computes.

vLLM's scheduler sends only what has changed since the last step. It decides how many rows of a
sequence are computed, and it may set this number back (preemption, rejected drafts), so the number
is taken from every message. A sequence is sampled if a step computes the row of its last known
token. Nothing here depends on vLLM, torch or the model.
"""
import numpy as np


class Sequence:
    """The tokens and KV blocks of a request. Arrays keep their address while the request lives, so
    that the library can read them."""

    __slots__ = ("id", "tokens", "n_tokens", "n_prompt", "tokens_address", "tokens_pointer", "blocks",
                 "n_blocks", "blocks_pointer", "slot", "params", "rules", "scores", "serial")

    def __init__(self, id, n_prompt, max_tokens, max_blocks, pointer):
        self.id = id
        self.n_prompt = n_prompt
        self.n_tokens = 0
        self.tokens = np.zeros(max_tokens, np.int32)
        self.tokens_address = self.tokens.ctypes.data
        self.tokens_pointer = pointer(self.tokens)
        self.blocks = np.zeros(max_blocks, np.int32)
        self.blocks_pointer = pointer(self.blocks)
        self.n_blocks = 0
        self.slot = 0
        self.params = self.rules = self.scores = None
        self.serial = 0

    def set_tokens(self, tokens):
        self.n_tokens = len(tokens)
        self.tokens[:self.n_tokens] = tokens

    def add_token(self, token):
        self.tokens[self.n_tokens] = token
        self.n_tokens += 1

    def add_blocks(self, blocks):
        self.blocks[self.n_blocks:self.n_blocks + len(blocks)] = blocks
        self.n_blocks += len(blocks)
        self.slot = int(self.blocks[0]) - 1

    @property
    def n_output(self):
        return self.n_tokens - self.n_prompt


class Part:
    """The rows of a sequence that a step computes: N rows from position POS on. The last
    len(drafts) + 1 rows are sampled if `sampled`."""

    __slots__ = ("sequence", "pos", "n", "drafts", "sampled", "n_wanted", "logits", "address")

    def __init__(self, sequence, pos, n, drafts, sampled):
        self.sequence, self.pos, self.n = sequence, pos, n
        self.drafts, self.sampled = drafts, sampled
        self.n_wanted = len(drafts) + 1 if sampled else 0
        self.logits, self.address = None, 0


class Sequences:
    """All requests that the scheduler has sent and that have not finished."""

    def __init__(self, max_model_len, block_size, pointer=lambda array: array.ctypes.data):
        self.of = {}  # request id -> Sequence
        self.max_model_len = max_model_len
        self.max_blocks = -(-max_model_len // block_size) + 1
        self.pointer = pointer
        self.n_seen = 0

    def apply(self, output):
        """Brings the state up to the SchedulerOutput of a step. Returns the sequences that hold no
        rows yet or not any more: new and resumed ones."""
        begun = []
        for id in output.finished_req_ids:  # first: an id may come back in the same step
            self.of.pop(id, None)
        for new in output.scheduled_new_reqs:
            begun.append(self._add(new))
        cached = output.scheduled_cached_reqs
        for k, id in enumerate(cached.req_ids):
            sequence, blocks = self.of[id], cached.new_block_ids[k]
            known = sequence.n_prompt + cached.num_output_tokens[k]
            if id in cached.resumed_req_ids:
                sequence.n_blocks = 0
                begun.append(sequence)
            if id in cached.all_token_ids:
                listed = cached.all_token_ids[id][:known]
                sequence.tokens[:len(listed)] = listed
                sequence.n_tokens = max(sequence.n_tokens, len(listed))
            if blocks is not None:
                sequence.add_blocks(blocks[0])
            if sequence.n_tokens < known:
                raise RuntimeError(f"request {id} has {known} tokens, but the worker knows only "
                                   f"{sequence.n_tokens}")
            sequence.n_tokens = known  # fewer if the scheduler has dropped a token
        return begun

    def _add(self, new):
        # Sent again after a preemption (model runner version 2): with its output.
        tokens = getattr(new, "prefill_token_ids", None) or new.prompt_token_ids
        sequence = Sequence(new.req_id, len(new.prompt_token_ids), self.max_model_len + 1,
                            self.max_blocks, self.pointer)
        sequence.set_tokens(tokens)
        sequence.add_blocks(new.block_ids[0])
        before = self.of.get(new.req_id)
        if before is None:
            self.n_seen += 1
        sequence.serial = before.serial if before else self.n_seen
        sequence.params = new.sampling_params
        self.of[new.req_id] = sequence
        return sequence

    def parts(self, output):
        """Returns the parts of the step. Drafts are written behind the known tokens."""
        cached = output.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens))
        computed.update((new.req_id, new.num_computed_tokens) for new in output.scheduled_new_reqs)
        parts = []
        for id, n in output.num_scheduled_tokens.items():
            sequence, pos = self.of[id], computed[id]
            drafts = output.scheduled_spec_decode_tokens.get(id, ())
            at = pos + n - len(drafts)
            for i, draft in enumerate(drafts):  # -1: no draft yet; any token stands for it
                sequence.tokens[at + i] = max(draft, 0)
            parts.append(Part(sequence, pos, n, drafts, pos + n >= sequence.n_tokens))
        return parts


def divide(parts, max_wanted, mixes):
    """Divides PARTS into runs, as pack() does. Without MIXES, each sequence of several rows has runs
    of its own, and those of one row follow together."""
    if mixes:
        yield from pack(parts, max_wanted)
        return
    for part in parts:
        if part.n > 1:
            yield from pack([part], max_wanted)
    yield from pack([part for part in parts if part.n == 1], max_wanted)


def pack(parts, max_wanted):
    """Divides PARTS into runs of at most MAX_WANTED wanted rows, in their order. Only a part of
    which every row is wanted (a scored prompt) is divided; it is at most once in a run. Yields
    lists of (part, its first row, number of rows, number of wanted rows)."""
    run, room = [], max_wanted
    for part in parts:
        begin = 0
        while begin < part.n:
            n = part.n - begin
            wanted = min(n, part.n_wanted)
            if wanted > room and part.n_wanted == part.n:
                n = wanted = room
            if n == 0 or wanted > room:
                yield run
                run, room = [], max_wanted
                continue
            run.append((part, begin, n, wanted))
            room -= wanted
            begin += n
    if run:
        yield run
