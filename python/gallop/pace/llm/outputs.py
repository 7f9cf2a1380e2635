"""What LLMModel.generate() and LLMModel.step() return."""

import dataclasses
from typing import Any, List, Optional


@dataclasses.dataclass
class SpeculativeStats:
    """What speculative decoding did for a call of generate()."""

    #: Number of generated tokens.
    total_speculated_tokens: int
    #: Generated tokens for each step of the model.
    mean_accepted_tokens: float


@dataclasses.dataclass
class GeneratorOutput:
    """The result of LLMModel.generate() for a batch of B prompts, padded to S tokens.

    Arrays are torch tensors if torch was imported before generate() was called, else numpy arrays.
    """

    #: int64 [B, S + steps]: the prompt with its padding on the left, then the output, then pad
    #: tokens up to the length of the longest row. An end token is part of the output.
    output_token_ids: Any
    #: The text of each whole row, prompt included, without special tokens (return_text).
    decoded_text: Optional[List[str]] = None
    #: float32 [B, S, V], from return_input_logprobs; with a paged cache [1, sum of lengths, V].
    input_logprobs: Optional[Any] = None
    #: float32 [B, V * steps], from return_probs: the distributions that tokens were chosen from.
    probs: Optional[Any] = None
    #: The same as logarithms, from return_logprobs.
    logprobs: Optional[Any] = None
    speculative_stats: Optional[SpeculativeStats] = None

    # Fields that PACE does not have.

    #: Why each row ended: "stop" or "length".
    finish_reason: Optional[List[str]] = None
    #: Number of generated tokens of each row, without padding.
    n_output: Optional[List[int]] = None
    #: Seconds from the start of computation of each row to its first token, and from there to its
    #: last.
    prefill_s: Optional[List[float]] = None
    decode_s: Optional[List[float]] = None


@dataclasses.dataclass
class SamplerOutput:
    """What PACE's sampler returns for a step. Part of its engine; Gallop does not make any."""

    next_tokens: Any
    probs: Optional[Any] = None
    logprobs: Optional[Any] = None


@dataclasses.dataclass
class ModelOutput:
    """What PACE's models return for a step. Part of its engine; Gallop does not make any."""

    logits: Any
