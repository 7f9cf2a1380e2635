"""rules.py - the sampling parameters of a request as the library takes them.

The library draws tokens with temperature, top_k, top_p, min_p, seed and penalties. What else forbids
tokens (allowed_token_ids, bad words, min_tokens, grammars) becomes a bit mask, and a logit bias is
added to a copy of the row.
"""
import numpy as np

from gallop_vllm.executor import Sampling

GREEDY = 1e-5  # vLLM's and the library's temperature below which decoding is greedy
MAX_LOGPROBS = 1024


# Parameters of a request that are not supported.
UNSUPPORTED = ("thinking_token_budget", "logprob_token_ids", "prompt_logprob_token_ids",
               "prompt_logprob_start", "trace_decode_token_ids", "watermarking", "extra_args")


def unsupported(params):
    """Returns a sentence that names what PARAMS, vLLM's SamplingParams, ask for and this plugin
    cannot do, or None."""
    for name in UNSUPPORTED:
        value = getattr(params, name, None)
        if value is not None and value is not False:
            return f"{name} is not supported by gallop-vllm"
    for name in ("logprobs", "prompt_logprobs"):
        value = getattr(params, name)
        if value is not None and not 0 <= value <= MAX_LOGPROBS:
            found = "-1 (all tokens)" if value == -1 else value
            return f"{name} is {found}, but gallop-vllm supports at most {MAX_LOGPROBS}"
    return None


class Rules:
    """How the tokens of a request are chosen. N_VOCAB is the number of logits; SEED is used if the
    request has no seed."""

    __slots__ = ("sampling", "logprobs", "prompt_logprobs", "mask", "bias", "bad_words",
                 "min_tokens", "stop_ids", "has_grammar", "is_plain")

    def __init__(self, params, n_vocab, seed):
        greedy = params.temperature < GREEDY
        seed = params.seed if params.seed is not None else seed
        self.sampling = Sampling(
            do_sample=0 if greedy else 1,
            temperature=0.0 if greedy else params.temperature,
            top_k=max(params.top_k, 0),
            top_p=params.top_p,
            min_p=params.min_p,
            repetition_penalty=params.repetition_penalty,
            frequency_penalty=params.frequency_penalty,
            presence_penalty=params.presence_penalty,
            has_seed=1,
            seed=seed & (2**64 - 1))
        self.logprobs = self._count(params.logprobs, n_vocab)
        self.prompt_logprobs = self._count(params.prompt_logprobs, n_vocab)
        self.mask = None
        if params.allowed_token_ids:
            self.mask = np.zeros(-(-n_vocab // 32), np.uint32)
            set_bits(self.mask, params.allowed_token_ids)
        self.bias = None
        if params.logit_bias:
            ids = np.fromiter(params.logit_bias.keys(), np.int64)
            values = np.fromiter(params.logit_bias.values(), np.float32)
            self.bias = ids, values
        self.bad_words = params.bad_words_token_ids or []
        self.min_tokens = params.min_tokens
        self.stop_ids = sorted(params.all_stop_token_ids) if params.min_tokens else []
        self.has_grammar = params.structured_outputs is not None
        # The mask and the bias never change anything.
        self.is_plain = (self.mask is None and self.bias is None and not self.bad_words
                         and not self.min_tokens and not self.has_grammar)

    @staticmethod
    def _count(value, n_vocab):
        """Returns a number of log-probabilities; -1: none are asked for."""
        return -1 if value is None else min(value, n_vocab)

    def masked(self, sequence, n_tokens, n_vocab, grammar):
        """Returns the bit mask of the tokens that may follow the first N_TOKENS tokens of SEQUENCE,
        or None if every token may. GRAMMAR is a row of vLLM's bit mask, or None."""
        mask = self.mask.copy() if self.mask is not None else None
        if grammar is not None:
            grammar = grammar.view(np.uint32)
            mask = grammar.copy() if mask is None else mask & grammar
        forbidden = []
        for word in self.bad_words:
            n = len(word) - 1
            if n_tokens - n < sequence.n_prompt:  # tokens of the prompt do not count
                continue
            if n == 0 or sequence.tokens[n_tokens - n:n_tokens].tolist() == list(word[:-1]):
                forbidden.append(word[-1])
        if n_tokens - sequence.n_prompt < self.min_tokens:
            forbidden += self.stop_ids
        if forbidden:
            if mask is None:
                mask = np.full(-(-n_vocab // 32), 0xFFFFFFFF, np.uint32)
            clear_bits(mask, forbidden)
        return mask


def set_bits(mask, ids):
    for id in ids:
        mask[id // 32] |= np.uint32(1 << id % 32)


def clear_bits(mask, ids):
    for id in ids:
        if id < 32 * len(mask):
            mask[id // 32] &= np.uint32(~(1 << id % 32) & 0xFFFFFFFF)
