"""The tokenizer that get_tokenizer() returns where transformers is not installed."""

import pytest

from gallop.pace.llm.tokenizer import Tokenizer

np = pytest.importorskip("numpy")

from pace_data import ONCE, PAD, SUM  # noqa: E402


@pytest.fixture
def tokenizer(model):
    return Tokenizer(model.generator.engine, model.generator._special)


def test_special_tokens(tokenizer):
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert (tokenizer.pad_token, tokenizer.bos_token) == ("<|pad|>", "<|bos|>")
    assert tokenizer.vocab_size == 2048


def test_pad_token_can_be_set(tokenizer):
    tokenizer.pad_token = tokenizer.eos_token
    assert tokenizer.pad_token_id == 2
    with pytest.raises(ValueError, match="pad_token"):
        tokenizer.pad_token = "Once upon"


def test_encode_and_decode(tokenizer):
    assert tokenizer.encode("Once upon a time") == ONCE
    assert tokenizer.encode("Once upon a time", add_special_tokens=False) == ONCE[1:]
    assert tokenizer.decode(ONCE) == "<|bos|>Once upon a time"
    assert tokenizer.decode(np.array(ONCE), skip_special_tokens=True) == "Once upon a time"
    assert tokenizer.batch_decode([ONCE, [435]], True) == ["Once upon a time", "Once"]
    assert tokenizer.decode([]) == "" and tokenizer.decode(435) == "Once"


def test_texts_are_padded_on_the_left(tokenizer):
    out = tokenizer(["Once upon a time", "hello"], return_tensors="np", padding="longest")
    assert out.input_ids.tolist() == [ONCE, [PAD, PAD, 1, 264, 1439]]
    assert out["attention_mask"].tolist() == [[1] * 5, [0, 0, 1, 1, 1]]
    tokenizer.padding_side = "right"
    out = tokenizer(["Once upon a time", "hello"], padding=True)
    assert out.attention_mask[1] == [1, 1, 1, 0, 0]
    assert tokenizer("hello").input_ids == [1, 264, 1439]


def test_result_is_a_prompt(model, tokenizer):
    out = tokenizer(["Once upon a time", "hello"], return_tensors="np", padding="longest")
    assert model.generate(out).output_token_ids.shape == (2, 25)


def test_chat_template(tokenizer):
    messages = [{"role": "user", "content": "What is 27 + 15?"}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    assert ids == SUM
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert text == "<|bos|><|user|>What is 27 + 15?<|end|>"
    with pytest.raises(ValueError, match="roles"):
        tokenizer.apply_chat_template([{"role": "judge", "content": "x"}])
