"""Parameters of generation and of speculative decoding."""

import dataclasses
import enum
import functools
import inspect
import json
import math
import re
import sys
from typing import Optional

from gallop.pace.llm.operators import OperatorConfig
from gallop.pace.utils.logging import PACE_LLM_ASSERT, PACE_LLM_WARNING

__all__ = [
    "OperatorConfig",
    "PardSpecDecodeConfig",
    "SamplingConfig",
    "SamplingMode",
    "SpecDecodeConfig",
]

#: What max_new_tokens is if neither the user nor the model says it.
DEFAULT_NEW_TOKENS = 20

#: Below this temperature, decoding is greedy.
LEAST_TEMPERATURE = 1e-5

_BEAM_SEARCH = ("num_beams", "early_stopping", "use_beam_search")


class WrongType(AssertionError, ValueError):
    """A value of another type than PACE expects, for which it has an assertion."""


class SamplingMode(enum.Enum):
    """How the next token is chosen."""

    GREEDY_SEARCH = 1
    RANDOM_SAMPLING = 2


def _keeps_explicit_keys(init):
    """Decorates __init__: _explicit_keys gets the names of the arguments that are not None."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapper(self, *args, **kwargs):
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        given.update(given.pop("kwargs", {}))
        del given["self"]
        keys = {name for name, value in given.items() if value is not None}
        if "random_seed" in keys:
            keys.add("seed")
        self._explicit_keys = frozenset(keys)
        init(self, *args, **kwargs)

    return wrapper


def id_list(value):
    """Returns a token id, a list of them, a tensor or an array as a list of int; None as None."""
    if value is None:
        return None
    if hasattr(value, "tolist"):
        value = value.tolist()
    return (
        [int(token) for token in value] if isinstance(value, (list, tuple, set)) else [int(value)]
    )


def _union(*lists):
    """Returns the sorted union of lists of ids of which some may be None; None if all are."""
    known = [tokens for tokens in lists if tokens is not None]
    return sorted({token for tokens in known for token in tokens}) if known else None


def loads_tolerant(text):
    """Parses JSON whose objects and lists may have a comma behind the last entry."""
    try:
        return json.loads(text)
    except ValueError:
        # Strings are matched first, so that commas inside of them stay.
        comma = re.compile(r'("(?:[^"\\]|\\.)*")|,(\s*[}\]])')
        return json.loads(comma.sub(lambda m: m.group(1) or m.group(2), text))


class SamplingConfig:
    """Parameters of LLMModel.generate(), with AMD PACE's names and defaults.

    Parameters that are not given have the values of the model's generation_config.json. An object
    can be used for many calls of generate(), which does not change it.

    max_new_tokens: maximum number of tokens to generate (20 if the model does not say it either).
    min_new_tokens: minimum number of tokens before end tokens and stop strings count.
    ignore_eos: end tokens do not end the output.
    repetition_penalty: divides positive logits of tokens of prompt and output, and multiplies
        negative ones.
    frequency_penalty: is subtracted from a logit for each time that its token was generated.
    do_sample: draw tokens at random, with temperature, top_k (0: all), top_p and min_p.
    seed: makes random output reproducible; row I of a batch draws with seed + I.
    pad_token_id, eos_token_id: a token or a list, beside the model's and the tokenizer's.
    stop_strings: a string or a list; the text is kept up to the token that completes one.
    return_probs, return_logprobs, return_input_logprobs, return_text: fields of the result.
    """

    @_keeps_explicit_keys
    def __init__(
        self,
        max_new_tokens=None,
        min_new_tokens=0,
        ignore_eos=False,
        repetition_penalty=1.0,
        frequency_penalty=0.0,
        do_sample=False,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        seed=None,
        pad_token_id=None,
        eos_token_id=None,
        stop_strings=None,
        return_probs=False,
        return_logprobs=False,
        return_input_logprobs=False,
        return_text=False,
        **kwargs,
    ):
        self.max_new_tokens = max_new_tokens
        self.min_new_tokens = min_new_tokens
        self.ignore_eos = ignore_eos
        self.repetition_penalty = repetition_penalty
        self.frequency_penalty = frequency_penalty
        self.do_sample = do_sample
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.min_p = min_p
        self.sampling_seed = kwargs.get("random_seed") if seed is None else seed
        self.pad_token_id = pad_token_id
        self.eos_token_id = [eos_token_id] if isinstance(eos_token_id, int) else eos_token_id
        self.stop_strings = [stop_strings] if isinstance(stop_strings, str) else stop_strings
        self.return_probs = return_probs
        self.return_logprobs = return_logprobs
        self.return_input_logprobs = return_input_logprobs
        self.return_text = return_text
        ignored = {name for name in _BEAM_SEARCH if name in kwargs}
        if ignored:
            PACE_LLM_WARNING(
                "Beam search has been removed. The following parameters will be ignored: %s"
                % ignored
            )

    def __setattr__(self, name, value):
        PACE_LLM_ASSERT(
            not self.__dict__.get("_finalized", False),
            "This SamplingConfig instance is finalized and cannot be modified.",
        )
        super().__setattr__(name, value)

    @classmethod
    def from_dict(cls, **values):
        """Returns a config of the given names."""
        return cls(**values)

    @classmethod
    def from_pretrained(cls, generation_config_from_model):
        """Reads a file generation_config.json; unknown members are ignored."""
        with open(generation_config_from_model, encoding="utf-8") as f:
            return cls(**loads_tolerant(f.read()))

    def merge_from(self, other=None, tokenizer=None):
        """Adds the tokenizer's pad and end tokens, and OTHER's explicit fields, to this config.

        Pad and end tokens are united; top_k 0 becomes the tokenizer's vocab_size; other fields of
        OTHER replace those of this config."""
        pad, eos = id_list(self.pad_token_id), id_list(self.eos_token_id)
        if tokenizer is not None:
            pad = _union(pad, id_list(tokenizer.pad_token_id))
            eos = _union(eos, id_list(tokenizer.eos_token_id))
            self.vocab_size = tokenizer.vocab_size
            if self.top_k == 0 and tokenizer.vocab_size:
                self.top_k = tokenizer.vocab_size
        if other is not None:
            for name in other._explicit_keys & set(_NAMES) - {
                "pad_token_id",
                "eos_token_id",
                "seed",
            }:
                setattr(self, name, getattr(other, name))
            if "seed" in other._explicit_keys:
                self.sampling_seed = other.sampling_seed
            pad = _union(pad, id_list(other.pad_token_id))
            eos = _union(eos, id_list(other.eos_token_id))
        self.pad_token_id, self.eos_token_id = pad, eos

    def verify_max_new_tokens(
        self, initial_decoder_input_length=0, model_max_position_embeddings=2048
    ):
        """Sets max_new_tokens if it is missing, and limits it to what the context has room for."""
        if self.max_new_tokens is None:
            PACE_LLM_WARNING(
                "max_new_tokens is not set. Setting max_new_tokens to %d." % DEFAULT_NEW_TOKENS
            )
            self.max_new_tokens = DEFAULT_NEW_TOKENS
        self._verify_lengths()
        total = initial_decoder_input_length + self.max_new_tokens
        if total > model_max_position_embeddings:
            PACE_LLM_WARNING(
                "Max tokens %d is greater than the model's max position embeddings %d, truncating to %d"
                % (total, model_max_position_embeddings, model_max_position_embeddings)
            )
            room = model_max_position_embeddings - initial_decoder_input_length
            self.max_new_tokens = max(1, room)

    def _verify_lengths(self):
        PACE_LLM_ASSERT(
            self.max_new_tokens is None or type(self.max_new_tokens) is int,
            "max_new_tokens should be of type int, got: %s" % type(self.max_new_tokens),
        )
        PACE_LLM_ASSERT(
            self.max_new_tokens is None or self.max_new_tokens >= 1,
            "max_new_tokens should be >=1, got: %s" % self.max_new_tokens,
        )
        if type(self.min_new_tokens) is not int:
            raise WrongType(
                "min_new_tokens should be of type int, got: %s" % type(self.min_new_tokens)
            )
        strings = self.stop_strings if self.stop_strings is not None else []
        PACE_LLM_ASSERT(
            isinstance(strings, (list, tuple)) and all(isinstance(x, str) for x in strings),
            "stop_strings should be a string or a list of strings, got: %s" % type(strings),
        )
        PACE_LLM_ASSERT(
            self.min_new_tokens >= 0, "min_new_tokens should be >=0, got %s" % self.min_new_tokens
        )

    def _verify_sampling(self):
        self.temperature, self.top_k = float(self.temperature), int(self.top_k)
        self.top_p, self.min_p = float(self.top_p), float(self.min_p)
        self.repetition_penalty = float(self.repetition_penalty)
        self.frequency_penalty = float(self.frequency_penalty)
        for holds, text in (
            (
                self.temperature >= 0,
                "temperature should be >= 0, Got temperature: %s" % self.temperature,
            ),
            (self.top_k >= 0, "top_k should be >= 0, Got top_k: %s" % self.top_k),
            (
                0 <= self.top_p <= 1,
                "top_p should be between 0 and 1, Got top_p: %s" % self.top_p,
            ),
            (
                0 <= self.min_p <= 1,
                "min_p should be between 0 and 1, Got min_p: %s" % self.min_p,
            ),
            (
                self.repetition_penalty > 0,
                "repetition_penalty must be > 0 (division by zero), got: %s"
                % self.repetition_penalty,
            ),
            (
                math.isfinite(self.frequency_penalty),
                "frequency_penalty must be finite, got: %s" % self.frequency_penalty,
            ),
        ):
            PACE_LLM_ASSERT(holds, text)

    def finalize(self):
        """Checks every value, settles what follows from them, and freezes the config."""
        self._verify_lengths()
        self._verify_sampling()
        eos, pad = id_list(self.eos_token_id), id_list(self.pad_token_id)
        PACE_LLM_ASSERT(eos, "eos_token_id cannot be None")
        if not pad:
            PACE_LLM_WARNING(
                "pad_token_id is None. Setting pad_token_id to eos_token_id: %d." % eos[0]
            )
            pad = [eos[0]]
        elif len(pad) > 1:
            PACE_LLM_WARNING(
                "pad_token_id is a list. Using the first element as pad_token_id: %d." % pad[0]
            )
        if self.do_sample and self.temperature < LEAST_TEMPERATURE:
            self.do_sample, self.temperature = False, 1.0
            self.top_k, self.top_p, self.min_p = 0, 1.0, 0.0
        self.sampling_mode = (
            SamplingMode.RANDOM_SAMPLING if self.do_sample else SamplingMode.GREEDY_SEARCH
        )
        self._pad, self._eos = pad[0], eos
        torch = sys.modules.get("torch")
        self.pad_token_id = torch.tensor(pad[0]) if torch else pad[0]
        self.eos_token_id = torch.tensor(eos) if torch else eos
        self._finalized = True

    def __str__(self):
        shown = {k: v for k, v in self.__dict__.items() if k not in ("_pad", "_eos")}
        # format() writes a tensor of one number as a number.
        return "SamplingConfig(%s)" % ", ".join("{}: {}".format(*item) for item in shown.items())

    def repr(self):
        """Returns str(self)."""
        return str(self)


_NAMES = tuple(name for name in inspect.signature(SamplingConfig).parameters if name != "kwargs")


class SpecDecodeConfig:
    """Base of the configurations of speculative decoding."""

    def engine_options(self):
        """Returns the members of gallop.LLM's speculative_config."""
        raise ValueError("%s is not a configuration of speculative decoding" % type(self).__name__)


@dataclasses.dataclass
class PardSpecDecodeConfig(SpecDecodeConfig):
    """Speculative decoding with a draft model that guesses several tokens in one pass (PARD)."""

    #: The draft model, named as the model itself.
    model_name_or_path: str
    #: The mask token, if the draft's config.json has no pard_token.
    pard_token: Optional[int] = None
    #: Maximum number of tokens that are guessed for a step.
    num_speculative_tokens: Optional[int] = 12
    #: Memory of the draft's KV cache in GiB.
    draft_kv_cache_memory_gb: Optional[float] = None

    def engine_options(self):
        options = {"method": "draft_model", "model": str(self.model_name_or_path)}
        options["parallel_drafting"] = True  # A draft without a mask token is refused.
        if self.num_speculative_tokens is not None:
            # The engine's limit is 32.
            options["num_speculative_tokens"] = max(1, min(32, int(self.num_speculative_tokens)))
        if self.draft_kv_cache_memory_gb is not None:
            options["draft_kv_cache_memory_gb"] = float(self.draft_kv_cache_memory_gb)
        return options

    def __str__(self):
        shown = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        return "PardSpecDecodeConfig(%s)" % ", ".join(
            "%s: %s" % item for item in shown if item[1] is not None
        )


class GallopSpecDecodeConfig(SpecDecodeConfig):
    """Speculative decoding with any method of Gallop's speculative_config, by the names of
    docs/SAMPLING.md: GallopSpecDecodeConfig(method="ngram", num_speculative_tokens=4).

    It serves batches and sampled output, too."""

    def __init__(self, **members):
        self.members = members

    def engine_options(self):
        return dict(self.members)

    def __str__(self):
        return "GallopSpecDecodeConfig(%s)" % ", ".join("%s: %s" % m for m in self.members.items())
