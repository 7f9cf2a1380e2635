"""Prompts of a data set as batches of token ids."""

import json
import random
import sys

_LLAMA3 = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nYou are a helpful assistant"
    "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n%s<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>"
)


class LLMInferenceDataset:
    """The prompts of a data set, in its order, with get_batch() for programs that measure.

    tokenizer: of transformers, or LLMModel.get_tokenizer().
    dataset_name, version, split: a data set of the Hugging Face hub; needs the package `datasets`.
    custom_data_path: in place of dataset_name, a .json file with a list of objects, or a .jsonl file.
    max_input_len: accepted; prompts are not cut, as in PACE.
    max_target_len: maximum number of tokens of a target.
    input_field, target_field: the members that have the prompt and the expected answer.
    prompt_type: "llama3", "qwen" or "r1": how prompts become a conversation; others: not at all.
    num_of_samples: the first so many are kept; None: all.
    seed: of the global generators of Python, and of numpy and torch where they are loaded.
    """

    def __init__(
        self,
        tokenizer,
        dataset_name=None,
        split="test",
        custom_data_path=None,
        version=None,
        max_input_len=1024,
        max_target_len=1024,
        input_field="data",
        target_field=None,
        prompt_type=None,
        num_of_samples=None,
        seed=123,
    ):
        _seed(seed)
        self.tokenizer = tokenizer
        self.input_field, self.target_field = input_field, target_field
        self.max_input_len, self.max_target_len = max_input_len, max_target_len
        self.prompt_type = prompt_type
        rows = _rows(dataset_name, split, version, custom_data_path)
        if num_of_samples is not None:
            if num_of_samples > len(rows):
                raise IndexError("Number of samples requested are greater than the dataset size.")
            rows = [rows[i] for i in range(num_of_samples)]
        self.samples = [self._sample(row) for row in rows]
        self._at = 0

    def _prompt(self, text):
        if self.prompt_type == "llama3":
            return _LLAMA3 % text
        messages = [{"role": "user", "content": text}]
        if self.prompt_type == "qwen":
            messages.insert(0, {"role": "system", "content": "You are a helpful assistant."})
        if self.prompt_type not in ("qwen", "r1"):
            return text
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )

    def _sample(self, row):
        text = row[self.input_field]
        target = row[self.target_field] if self.target_field else None
        given = self.tokenizer(self._prompt(text), add_special_tokens=False, return_tensors=None)
        labels = []
        if target is not None:
            labels = list(self.tokenizer(target, return_tensors=None)["input_ids"])
        return {
            "input_ids": list(given["input_ids"]),
            "attention_mask": list(given["attention_mask"]),
            "labels": labels[: self.max_target_len],
            "input_text": text,
            "target_text": target,
        }

    def __iter__(self):
        return self

    def __next__(self):
        if self._at >= len(self.samples):
            raise StopIteration
        self._at += 1
        return self.samples[self._at - 1]

    def reset(self):
        """Lets the iteration begin anew."""
        self._at = 0

    def size(self):
        """Returns the number of prompts."""
        return len(self.samples)

    def get_item(self, index):
        """Returns one prompt: a dict of lists of ids and of texts."""
        if not 0 <= index < len(self.samples):
            raise IndexError("Index out of range")
        return self.samples[index]

    def get_batch(self, batch_size, start_index=0):
        """Returns up to BATCH_SIZE prompts from START_INDEX on: a dict with the arrays input_ids,
        attention_mask and labels, which are padded, and with the lists input_texts and target_texts.
        """
        if start_index >= len(self.samples):
            raise IndexError("Start index exceeds dataset size.")
        rows = self.samples[start_index : start_index + batch_size]
        left = getattr(self.tokenizer, "padding_side", "left") == "left"
        pad = self.tokenizer.pad_token_id
        pad = pad if pad is not None else self.tokenizer.eos_token_id
        return {
            "input_ids": _padded([r["input_ids"] for r in rows], pad, left),
            "attention_mask": _padded([r["attention_mask"] for r in rows], 0, left),
            "labels": _padded([r["labels"] for r in rows], pad, left),
            "input_texts": [r["input_text"] for r in rows],
            "target_texts": [r["target_text"] for r in rows],
        }


def _padded(rows, pad, left):
    """Returns lists of ids as an array of torch if torch is loaded, else of numpy."""
    from gallop.pace.llm.inputs import array

    width = max(map(len, rows))
    fill = [[pad] * (width - len(row)) for row in rows]
    return array([f + r if left else r + f for f, r in zip(fill, rows)], "int64")


def _seed(seed):
    if seed is None:
        return
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _rows(name, split, version, path):
    """Returns the rows of a data set of the hub, or of a file."""
    if name is not None:
        try:
            from datasets import load_dataset
        except ImportError:
            raise ImportError("dataset_name needs datasets: pip install datasets") from None
        more = [] if version is None else [version]
        return load_dataset(name, *more, split=split)
    if path is None:
        raise ValueError("You must specify either 'dataset_name' or 'custom_data_path'.")
    path = str(path)
    if not path.endswith((".json", ".jsonl")):
        raise ValueError("Unsupported file format. Use .json or .jsonl")
    with open(path, encoding="utf-8") as f:
        if path.endswith(".json"):
            return json.load(f)
        return [json.loads(line) for line in f if line.strip()]
