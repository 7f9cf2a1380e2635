"""Tokenizers: transformers' where it is installed, else a small one on Gallop's own."""

import collections


class Encoding(collections.UserDict):
    """What a tokenizer returns for texts: a dict whose members are also attributes."""

    def __getattr__(self, name):
        if name == "data" or name not in self.data:
            raise AttributeError(name)
        return self.data[name]


class Tokenizer:
    """Gallop's tokenizer of a model, with the methods of transformers' that programs use most."""

    def __init__(self, codec, special):
        self._codec = codec
        self.pad_token_id = special.pad_token_id
        self.eos_token_id = special.eos_token_id
        self.bos_token_id = special.bos_token_id
        self.vocab_size = special.vocab_size
        self.padding_side = "left"

    def _token(self, token):
        return None if token is None else self._codec.decode([token], False)

    @property
    def eos_token(self):
        return self._token(self.eos_token_id)

    @property
    def bos_token(self):
        return self._token(self.bos_token_id)

    @property
    def pad_token(self):
        return self._token(self.pad_token_id)

    @pad_token.setter
    def pad_token(self, text):
        ids = self._codec.encode(text, False)
        if len(ids) != 1:
            raise ValueError("pad_token: %r is not one token" % text)
        self.pad_token_id = ids[0]

    def encode(self, text, add_special_tokens=True):
        """Returns the token ids of TEXT."""
        return list(self._codec.encode(text, add_special_tokens))

    def decode(self, ids, skip_special_tokens=False):
        """Returns the text of token ids: a list, an array or a tensor."""
        ids = ids.tolist() if hasattr(ids, "tolist") else ids
        ids = [ids] if isinstance(ids, int) else [int(token) for token in ids]
        return self._codec.decode(ids, skip_special_tokens)

    def batch_decode(self, rows, skip_special_tokens=False):
        """Returns the texts of rows of token ids."""
        return [self.decode(row, skip_special_tokens) for row in rows]

    def __call__(
        self, text, return_tensors=None, padding=False, add_special_tokens=True, **ignored
    ):
        """Returns input_ids and attention_mask of a text or of texts.

        return_tensors: "np" or "pt" for arrays, None for lists. padding: rows of several texts are
        padded to the longest on padding_side."""
        texts = [text] if isinstance(text, str) else list(text)
        rows = [self.encode(t, add_special_tokens) for t in texts]
        masks = [[1] * len(row) for row in rows]
        if padding and len(rows) > 1:
            pad = self.pad_token_id if self.pad_token_id is not None else self.eos_token_id
            width = max(map(len, rows))
            for row, mask in zip(rows, masks):
                at = 0 if self.padding_side == "left" else len(row)
                missing = width - len(row)
                row[at:at], mask[at:at] = [pad] * missing, [0] * missing
        if return_tensors == "pt":
            import torch

            return Encoding(input_ids=torch.tensor(rows), attention_mask=torch.tensor(masks))
        if return_tensors is not None:
            import numpy

            return Encoding(input_ids=numpy.array(rows), attention_mask=numpy.array(masks))
        if isinstance(text, str):
            rows, masks = rows[0], masks[0]
        return Encoding(input_ids=rows, attention_mask=masks)

    batch_encode_plus = __call__

    def apply_chat_template(
        self, messages, tokenize=True, add_generation_prompt=False, tools=None, **variables
    ):
        """Returns the token ids, or with tokenize=False the text, of a conversation."""
        text = self._codec.render(messages, tools, add_generation_prompt, variables)
        return self._codec.encode(text, False) if tokenize else text


def transformers_tokenizer(name):
    """Returns transformers' tokenizer of NAME, or None if transformers is not installed."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return None
    return AutoTokenizer.from_pretrained(str(name))
