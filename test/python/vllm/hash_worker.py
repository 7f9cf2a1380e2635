"""hash_worker.py - a worker whose model is a hash: the logits of a row are random numbers whose seed
is a hash of all tokens up to the row, read back through the KV blocks or slots of the sequence. A
wrong block, position or order of steps gives other tokens."""
import ctypes
import zlib

import numpy as np

from gallop_vllm.executor import CHOICE
from gallop_vllm.worker import GallopWorker

V = 2048
FEW = 7  # Only three tokens follow in a text that begins with this token, so that drafts are right.


def logits_after(tokens):
    seed = zlib.crc32(np.asarray(tokens, np.int64).tobytes())
    row = np.random.default_rng(seed).standard_normal(V).astype(np.float32)
    row[:6] = -9  # no special tokens
    if tokens[0] == FEW:
        row[9:] = -9
    return row


def continuation(prompt, n):
    """Returns the N greedy tokens after PROMPT."""
    tokens = list(prompt)
    for _ in range(n):
        tokens.append(int(logits_after(tokens).argmax()))
    return tokens[len(prompt):]


class HashExecutor:
    """Has the interface of gallop_vllm.executor.Executor. Sampling is greedy."""

    n_runs = n_rows = n_truncated = 0  # of all executors of the process
    mixes = True

    def __init__(self, max_seqs, max_rows, max_wanted, max_model_len, n_blocks, block_size):
        self.max_seqs, self.max_rows, self.max_wanted = max_seqs, max_rows, max_wanted
        self.vocab_size, self.max_model_len = V, max_model_len
        self.n_blocks, self.block_size = n_blocks, block_size
        self.n_slots = 0 if n_blocks else max_seqs
        shape = (n_blocks, block_size) if n_blocks else (max_seqs, max_model_len)
        self.cache = np.full(shape, -1, np.int64)
        self.held = np.zeros(max_seqs, int)

    def _where(self, part, n):
        """Returns the indices of the first N rows of the sequence of PART in the cache."""
        at = np.arange(n)
        if not self.n_blocks:
            return part.sequence.slot, at
        table = part.sequence.blocks[:part.sequence.n_blocks]
        return table[at // self.block_size], at % self.block_size

    def run(self, parts):
        assert 0 < len(parts) <= self.max_seqs
        assert sum(p.n for p in parts) <= self.max_rows
        assert sum(p.n_wanted for p in parts) <= self.max_wanted
        written = set()
        for p in parts:
            end = p.pos + p.n
            assert p.n > 0 and end <= self.max_model_len and p.n_wanted <= p.n
            block, row = self._where(p, end)
            if self.n_blocks:
                new = set(block[p.pos:].tolist())
                assert 0 not in block.tolist() and not new & written, "a block is written twice"
            else:
                new = {block}
                assert not new & written and p.pos <= self.held[block]
                self.held[block] = end
            written |= new
            new_block = block[p.pos:] if self.n_blocks else block
            self.cache[new_block, row[p.pos:]] = p.sequence.tokens[p.pos:end]
        rows = []
        for p in parts:
            known = self.cache[self._where(p, p.pos + p.n)]
            rows += [logits_after(known[:p.pos + i + 1]) for i in range(p.n - p.n_wanted, p.n)]
        self.logits = np.array(rows, np.float32).reshape(-1, V)
        HashExecutor.n_runs += 1
        HashExecutor.n_rows += sum(p.n for p in parts)

    def choices(self, n):
        self.array = np.zeros(n, CHOICE)
        return self.array

    def choose(self, choices):
        for c in choices:
            row = np.array((ctypes.c_float * V).from_address(int(c["logits"])))
            if c["sampling"]:
                masked = row.copy()
                if c["allowed"]:
                    words = np.array((ctypes.c_uint32 * (V // 32)).from_address(int(c["allowed"])))
                    masked[np.unpackbits(words.view(np.uint8), bitorder="little") == 0] = -np.inf
                c["id"] = masked.argmax()
            if c["logprobs"] >= 0:
                log = row - np.log(np.exp(row.astype(float)).sum())
                c["logprob"] = log[c["id"]]
                c["rank"] = (row >= row[c["id"]]).sum()
                top = np.argsort(-row, kind="stable")[:c["logprobs"]]
                memory = (ctypes.c_int32 * (2 * len(top))).from_address(int(c["top"]))
                out = np.frombuffer(memory, np.int32).reshape(-1, 2)
                out[:, 0] = top
                out[:, 1] = log[top].astype(np.float32).view(np.int32)
                c["n_top"] = len(top)

    def truncate(self, slot, n):
        assert n <= self.held[slot]
        self.held[slot] = n
        HashExecutor.n_truncated += 1

    def close(self):
        pass


class HashWorker(GallopWorker):
    def open_executor(self, num_blocks):
        seqs = self.scheduler_config.max_num_seqs
        return HashExecutor(seqs, max(self.scheduler_config.max_num_batched_tokens, seqs),
                            max(seqs * (1 + self.n_drafts), 24), self.model_config.max_model_len,
                            0 if self.own.get("mode") == "slots" else num_blocks,
                            self.cache_config.block_size)
