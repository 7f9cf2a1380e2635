"""pace.utils.inference_dataset, as AMD's multi-instance examples use it."""

import json
import sys
import types

import numpy as np
import pytest

from gallop.pace.llm import LLMModel, SamplingConfig
from gallop.pace.utils.inference_dataset import LLMInferenceDataset

ROWS = [{"question": "Q" * (i + 1), "answer": "A%d" % i} for i in range(4)]


class Words:
    """A tokenizer: one token for each character."""

    pad_token_id, eos_token_id, padding_side = 0, 2, "left"

    def __init__(self):
        self.asked = []

    def __call__(self, text, **options):
        self.asked.append((text, options))
        return {"input_ids": [ord(c) for c in text], "attention_mask": [1] * len(text)}

    def apply_chat_template(self, messages, **options):
        assert options == {"tokenize": False, "add_generation_prompt": True}
        return "|".join("%s:%s" % (m["role"], m["content"]) for m in messages)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    return tmp_path


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_batches_are_padded_on_the_left(path, name):
    data = LLMInferenceDataset(
        Words(), custom_data_path=path / name, input_field="question", target_field="answer"
    )
    batch = data.get_batch(2, 1)
    assert batch["input_ids"].tolist() == [[0, 81, 81], [81, 81, 81]]
    assert batch["attention_mask"].tolist() == [[0, 1, 1], [1, 1, 1]]
    assert batch["labels"].tolist() == [[65, 49], [65, 50]]
    assert batch["input_texts"] == ["QQ", "QQQ"] and batch["target_texts"] == ["A1", "A2"]
    assert str(batch["input_ids"].dtype).endswith("int64")
    assert len(data.get_batch(9, 3)["input_ids"]) == 1
    assert data.tokenizer.asked[0] == ("Q", {"add_special_tokens": False, "return_tensors": None})


def test_items_and_iteration(path):
    data = LLMInferenceDataset(
        Words(), custom_data_path=path / "rows.json", input_field="question", num_of_samples=3
    )
    assert data.size() == 3 and [s["input_text"] for s in data] == ["Q", "QQ", "QQQ"]
    with pytest.raises(StopIteration):
        next(data)
    data.reset()
    assert next(data)["input_text"] == "Q"
    assert data.get_item(2) == {
        "input_ids": [81] * 3, "attention_mask": [1] * 3, "labels": [],
        "input_text": "QQQ", "target_text": None,
    }
    for wrong in (lambda: data.get_item(3), lambda: data.get_item(-1),
                  lambda: data.get_batch(1, 3)):
        with pytest.raises(IndexError):
            wrong()
    assert data.get_batch(1)["labels"].tolist() == [[]] and data.get_batch(1)["target_texts"] == [None]


@pytest.mark.parametrize(
    "kind, prompt",
    [
        (None, "Q"),
        ("gemma", "Q"),
        ("r1", "user:Q"),
        ("qwen", "system:You are a helpful assistant.|user:Q"),
        (
            "llama3",
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nYou are a helpful assistant"
            "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>"
            "assistant<|end_header_id|>",
        ),
    ],
)
def test_prompts_become_conversations(path, kind, prompt):
    data = LLMInferenceDataset(
        Words(), custom_data_path=path / "rows.json", input_field="question", prompt_type=kind
    )
    assert data.tokenizer.asked[0][0] == prompt and data.get_item(0)["input_text"] == "Q"


def test_targets_are_cut(path):
    data = LLMInferenceDataset(
        Words(), custom_data_path=path / "rows.json", input_field="question",
        target_field="answer", max_target_len=1, max_input_len=1,
    )
    assert data.get_item(3)["labels"] == [65] and len(data.get_item(3)["input_ids"]) == 4


def test_data_sets_of_the_hub(monkeypatch):
    asked = []

    def load_dataset(*names, **options):
        asked.append((names, options))
        return ROWS

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    for version in (None, "main"):
        LLMInferenceDataset(Words(), "gsm8k", version=version, input_field="question")
    assert asked == [(("gsm8k",), {"split": "test"}), (("gsm8k", "main"), {"split": "test"})]
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match="pip install datasets"):
        LLMInferenceDataset(Words(), "gsm8k", input_field="question")


def test_wrong_arguments(path):
    (path / "rows.txt").write_text("a")
    rows = {"custom_data_path": path / "rows.json", "input_field": "question"}
    for options, error in (
        ({}, ValueError),
        ({"custom_data_path": path / "rows.txt"}, ValueError),
        ({**rows, "input_field": "nothing"}, KeyError),
        ({**rows, "num_of_samples": 5}, IndexError),
    ):
        with pytest.raises(error):
            LLMInferenceDataset(Words(), **options)


def test_seeds_are_those_of_the_global_generators(path):
    numbers = []
    for seed in (7, 7, 8, None):
        LLMInferenceDataset(
            Words(), custom_data_path=path / "rows.json", input_field="question", seed=seed
        )
        numbers.append(np.random.rand())
    assert numbers[0] == numbers[1] != numbers[2] and numbers[3] not in numbers[:3]


def test_a_model_generates_for_batches(demo, path):
    model = LLMModel(demo, dtype="float32", disable_tqdm=True)
    tokenizer = model.get_tokenizer()
    data = LLMInferenceDataset(
        tokenizer, custom_data_path=path / "rows.json", input_field="question", num_of_samples=2
    )
    batch = data.get_batch(2)
    out = model.generate(batch["input_ids"], SamplingConfig(max_new_tokens=3, ignore_eos=True))
    assert out.n_output == [3, 3]
    model.close()
