"""The prompts of a call of generate(): many forms become rows of token ids."""

import collections.abc
import dataclasses
import itertools
import sys

from gallop.pace.utils.logging import PACE_LLM_ASSERT


class PromptError(ValueError, IndexError):
    """A prompt that no model can process. PACE raises IndexError for most of them."""


@dataclasses.dataclass
class Batch:
    """The prompts of a call of generate()."""

    #: [B][S] the ids with their padding on the left.
    padded: list
    #: [B] the number of ids of each row that are not padding.
    lengths: list

    @property
    def width(self):
        return len(self.padded[0])

    def rows(self):
        """Returns the ids of each row without padding."""
        return [row[len(row) - n :] for row, n in zip(self.padded, self.lengths)]


def _matrix(value, what, is_number=lambda x: isinstance(x, int) and not isinstance(x, bool)):
    """Returns a tensor, an array or nested lists as a list of lists of numbers, with what it was."""
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) != 2:
        raise PromptError(
            "%s: expected a tensor of 2 dimensions [batch, tokens], found %d" % (what, len(shape))
        )
    rows = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(rows, (list, tuple)):
        raise PromptError("%s: expected a tensor or lists, found %s" % (what, type(value)))
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    for row in rows:
        if not isinstance(row, (list, tuple)):
            raise PromptError("%s: expected lists of token ids, found %s" % (what, type(row)))
        for token in row:
            if not is_number(token):
                raise PromptError("%s: expected integers, found %r" % (what, token))
    return [list(row) for row in rows]


def _same_width(rows, pad):
    """Pads rows of lists on the left to one width."""
    width = max(map(len, rows))
    return [[pad] * (width - len(row)) + row for row in rows], [len(row) for row in rows]


def _lengths_of_mask(mask, rows):
    """Returns the number of tokens of each row that an attention mask leaves."""
    if len(mask) != len(rows) or any(len(m) != len(r) for m, r in zip(mask, rows)):
        raise PromptError("attention_mask: its shape differs from that of input_ids")
    for x in itertools.chain.from_iterable(mask):
        if x not in (0, 1):
            raise PromptError("attention_mask: expected 0 or 1, found %r" % x)
    PACE_LLM_ASSERT(
        all(m[-1] for m in mask),
        "Right-padded inputs are not supported. Set tokenizer.padding_side = 'left'.",
    )
    return [sum(1 for x in m if x) for m in mask]


def _lengths_of_pads(rows, pad):
    """Returns the number of tokens of each row behind its leading run of pad tokens."""
    return [len(row) - sum(1 for _ in itertools.takewhile(lambda x: x == pad, row)) for row in rows]


def _is_array(value):
    return type(value).__module__.split(".")[0] in ("torch", "numpy", "jax", "tensorflow", "array")


def read(prompt, pad, tokenize):
    """Returns PROMPT as a Batch.

    PROMPT: a tensor or array [B, S], a BatchEncoding or dict with input_ids, and as extensions
    lists of ids, a text or a list of texts, which TOKENIZE turns into ids. PAD: the pad token."""
    mask = None
    if isinstance(prompt, str):
        prompt = [prompt]
    if isinstance(prompt, (list, tuple)) and prompt and all(isinstance(p, str) for p in prompt):
        rows, lengths = _same_width([list(tokenize(text)) for text in prompt], pad)
    elif isinstance(prompt, (list, tuple)):
        lists = [prompt] if prompt and isinstance(prompt[0], int) else prompt
        rows = _matrix(lists, "prompt")
        if not rows:
            raise PromptError("prompt: the batch is empty")
        rows, lengths = _same_width(rows, pad)
    else:
        if isinstance(prompt, collections.abc.Mapping) or hasattr(prompt, "input_ids"):
            if isinstance(prompt, collections.abc.Mapping) and "input_ids" not in prompt:
                raise NotImplementedError(_refusal(prompt))
            ids = prompt["input_ids"] if hasattr(prompt, "__getitem__") else prompt.input_ids
            get = prompt.get if hasattr(prompt, "get") else lambda k: getattr(prompt, k, None)
            mask = get("attention_mask")
        elif _is_array(prompt):
            ids = prompt
        else:
            raise NotImplementedError(_refusal(prompt))
        rows = _matrix(ids, "input_ids")
        if mask is not None:
            # Masks of bool and of float are as good as those of int.
            mask = _matrix(mask, "attention_mask", lambda x: isinstance(x, (bool, int, float)))
        if not rows or not all(rows):
            raise PromptError("prompt: it has no tokens")
        if len(set(map(len, rows))) != 1:
            raise PromptError("input_ids: the rows have different lengths; pad them on the left")
        if mask is not None:
            lengths = _lengths_of_mask(mask, rows)
        elif any(row[0] == pad for row in rows):
            lengths = _lengths_of_pads(rows, pad)
        else:
            lengths = [len(row) for row in rows]
    if not all(lengths):
        raise PromptError("prompt: row %d has no tokens" % lengths.index(0))
    return Batch(rows, lengths)


def _refusal(prompt):
    return "Only input types of torch.Tensor or BatchEncoding is allowed for now, got %s" % type(
        prompt
    )


def array(values, dtype):
    """Returns lists or an array as a torch tensor if torch was imported, else as a numpy array.

    DTYPE: "int64" or "float32"."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "tensor"):
        if hasattr(values, "__array__"):
            return torch.from_numpy(values)
        return torch.tensor(values, dtype=getattr(torch, dtype))
    try:
        import numpy
    except ImportError:
        raise ImportError(
            "gallop.pace returns arrays of torch or numpy, and neither is installed: "
            "pip install numpy"
        ) from None
    return numpy.asarray(values, dtype=dtype)
