"""SamplingConfig: values, validation texts and rules of merging."""

import pytest

from gallop.pace.llm import SamplingConfig
from gallop.pace.llm.configs import SamplingMode


class Tokenizer:
    pad_token_id = 0
    eos_token_id = 2
    vocab_size = 2048


def finalized(**values):
    values.setdefault("eos_token_id", 2)
    config = SamplingConfig(**values)
    config.verify_max_new_tokens(4, 1024)
    config.finalize()
    return config


TEXTS = [
    ({"max_new_tokens": 1.5}, "max_new_tokens should be of type int, got: <class 'float'>"),
    ({"max_new_tokens": 0}, "max_new_tokens should be >=1, got: 0"),
    ({"min_new_tokens": -1}, "min_new_tokens should be >=0, got -1"),
    ({"temperature": -1.0}, "temperature should be >= 0, Got temperature: -1.0"),
    ({"top_k": -1}, "top_k should be >= 0, Got top_k: -1"),
    ({"top_p": 2.0}, "top_p should be between 0 and 1, Got top_p: 2.0"),
    ({"min_p": -0.1}, "min_p should be between 0 and 1, Got min_p: -0.1"),
    (
        {"repetition_penalty": 0.0},
        "repetition_penalty must be > 0 (division by zero), got: 0.0",
    ),
    ({"frequency_penalty": float("inf")}, "frequency_penalty must be finite, got: inf"),
]


@pytest.mark.parametrize("values, text", TEXTS, ids=lambda x: str(x)[:30])
def test_wrong_values_have_paces_texts_after_construction(values, text):
    config = SamplingConfig(eos_token_id=2, **values)  # no error here
    with pytest.raises(AssertionError) as e:
        config.verify_max_new_tokens(4, 1024)
        config.finalize()
    assert str(e.value) == text


def test_config_without_end_token_is_refused():
    config = SamplingConfig(max_new_tokens=1)
    with pytest.raises(AssertionError) as e:
        config.finalize()
    assert str(e.value) == "eos_token_id cannot be None"


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p", "min_new_tokens"])
def test_text_in_place_of_a_number_is_a_value_error(name):
    with pytest.raises(ValueError):
        finalized(**{name: "many"})


@pytest.mark.parametrize("value", ["many", "5", 2.7, 2.0, None, True])
def test_min_new_tokens_is_an_int(value):
    with pytest.raises(AssertionError) as e:
        finalized(**{"min_new_tokens": value})
    assert str(e.value) == "min_new_tokens should be of type int, got: %s" % type(value)


@pytest.mark.parametrize("value", [5, [5], ["a", None], {"a": 1}])
def test_stop_strings_are_strings(value):
    with pytest.raises(AssertionError, match="stop_strings should be a string or a list of strings"):
        finalized(stop_strings=value)
    assert finalized(stop_strings="a").stop_strings == ["a"]


@pytest.mark.parametrize(
    "name, value", [("top_p", 0.0), ("top_p", 1.0), ("min_p", 1.0), ("top_k", 0)]
)
def test_limits_are_allowed(name, value):
    assert getattr(finalized(do_sample=True, **{name: value}), name) == value


def test_names_of_fields():
    config = SamplingConfig(seed=7, eos_token_id=3, stop_strings="x", random_seed=123)
    assert config.sampling_seed == 7
    assert config.eos_token_id == [3]
    assert config.stop_strings == ["x"]
    assert not hasattr(config, "random_seed")
    assert SamplingConfig(random_seed=123).sampling_seed == 123


def test_explicit_keys_are_names_passed_with_a_value():
    assert SamplingConfig(5, do_sample=False, top_k=None)._explicit_keys == {
        "max_new_tokens",
        "do_sample",
    }
    assert SamplingConfig()._explicit_keys == set()


@pytest.mark.parametrize("name", ["num_beams", "early_stopping", "use_beam_search"])
def test_beam_search_is_dropped_with_a_warning(name, capsys):
    SamplingConfig(**{name: 4})
    assert capsys.readouterr().out.endswith(
        "Beam search has been removed. The following parameters will be ignored: {'%s'}\n" % name
    )


def test_unknown_arguments_are_dropped(capsys):
    config = SamplingConfig(mystery=1)
    assert not hasattr(config, "mystery") and capsys.readouterr().out == ""


def test_from_pretrained_reads_trailing_commas(tmp_path):
    path = tmp_path / "generation_config.json"
    path.write_text('{"do_sample": true, "top_k": 5, "eos_token_id": [2, 3,], "x": ",]",}')
    config = SamplingConfig.from_pretrained(path)
    assert (config.do_sample, config.top_k, config.eos_token_id) == (True, 5, [2, 3])


def test_from_dict():
    assert SamplingConfig.from_dict(max_new_tokens=3, unknown=1).max_new_tokens == 3


def merge(model, user):
    config = SamplingConfig.from_dict(**model)
    assert config.merge_from(SamplingConfig(**user), Tokenizer()) is None
    return config


MERGES = [
    # (generation_config.json, the user's arguments, a field, its value)
    ({}, {}, "eos_token_id", [2]),
    ({"eos_token_id": 9}, {}, "eos_token_id", [2, 9]),
    ({"eos_token_id": [9, 5]}, {"eos_token_id": 1}, "eos_token_id", [1, 2, 5, 9]),
    ({"pad_token_id": 4}, {"pad_token_id": 3}, "pad_token_id", [0, 3, 4]),
    ({}, {}, "top_k", 2048),
    ({}, {"top_k": 0}, "top_k", 0),
    ({}, {}, "vocab_size", 2048),
    ({"top_k": 50}, {}, "top_k", 50),
    ({"top_k": 50}, {"top_k": 7}, "top_k", 7),
    ({"do_sample": True}, {}, "do_sample", True),
    ({"do_sample": True}, {"do_sample": False}, "do_sample", False),
    ({"temperature": 0.5}, {"temperature": None}, "temperature", 0.5),
    ({"temperature": 0.5}, {"temperature": 1.0}, "temperature", 1.0),
    ({}, {"seed": 3}, "sampling_seed", 3),
    ({"max_new_tokens": 8}, {}, "max_new_tokens", 8),
]


@pytest.mark.parametrize("model, user, field, value", MERGES)
def test_merge(model, user, field, value):
    assert getattr(merge(model, user), field) == value


def test_merge_leaves_the_users_config_alone():
    user = SamplingConfig(max_new_tokens=4, eos_token_id=1)
    before = dict(vars(user))
    SamplingConfig().merge_from(user, Tokenizer())
    assert vars(user) == before


TOO_LONG = (
    "Max tokens %d is greater than the model's max position embeddings 1024, truncating to 1024"
)


@pytest.mark.parametrize(
    "wish, prompt, result, warning",
    [
        (None, 4, 20, "max_new_tokens is not set. Setting max_new_tokens to 20."),
        (50, 1022, 2, TOO_LONG % 1072),
        (50, 1024, 1, TOO_LONG % 1074),
        (2, 1022, 2, None),
        (1, 1, 1, None),
    ],
)
def test_length_follows_the_context(wish, prompt, result, warning, capsys):
    config = SamplingConfig(max_new_tokens=wish)
    config.verify_max_new_tokens(prompt, 1024)
    assert config.max_new_tokens == result
    out = capsys.readouterr().out
    assert (
        out.endswith(" pace-llm : %s\n" % warning) and " W configs.py:" in out
        if warning
        else out == ""
    )


@pytest.mark.parametrize("temperature, greedy", [(0.0, True), (9e-6, True), (2e-5, False)])
def test_low_temperature_is_greedy(temperature, greedy):
    config = finalized(do_sample=True, temperature=temperature, top_k=5, top_p=0.5, min_p=0.1)
    assert (config.sampling_mode is SamplingMode.GREEDY_SEARCH) == greedy
    if greedy:
        assert (config.temperature, config.top_k, config.top_p, config.min_p) == (1.0, 0, 1.0, 0.0)


@pytest.mark.parametrize(
    "values, pad, warning",
    [
        ({"pad_token_id": 7}, 7, None),
        (
            {"pad_token_id": [7, 8]},
            7,
            "pad_token_id is a list. Using the first element as pad_token_id: 7.",
        ),
        (
            {"eos_token_id": [5, 6]},
            5,
            "pad_token_id is None. Setting pad_token_id to eos_token_id: 5.",
        ),
    ],
)
def test_pad_token(values, pad, warning, capsys):
    assert int(finalized(max_new_tokens=1, **values).pad_token_id) == pad
    out = capsys.readouterr().out
    assert out.endswith(" : %s\n" % warning) if warning else out == ""


def test_finalized_config_is_frozen():
    config = finalized()
    with pytest.raises(AssertionError) as e:
        config.top_k = 3
    assert str(e.value) == "This SamplingConfig instance is finalized and cannot be modified."


def test_text_shows_every_value():
    config = SamplingConfig(max_new_tokens=3)
    assert str(config) == config.repr()
    assert str(config) == (
        "SamplingConfig(_explicit_keys: frozenset({'max_new_tokens'}), max_new_tokens: 3, "
        "min_new_tokens: 0, ignore_eos: False, repetition_penalty: 1.0, frequency_penalty: 0.0, "
        "do_sample: False, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, sampling_seed: None, "
        "pad_token_id: None, eos_token_id: None, stop_strings: None, return_probs: False, "
        "return_logprobs: False, return_input_logprobs: False, return_text: False)"
    )
