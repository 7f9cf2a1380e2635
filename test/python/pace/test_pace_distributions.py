"""return_probs, return_logprobs and return_input_logprobs: shapes and numbers."""

import pytest

from gallop.pace.llm import LLMModel, SamplingConfig
from gallop.pace.llm import distributions

np = pytest.importorskip("numpy")

from pace_data import ANSWER, ONCE, PAD, STORY, SUM, left_padded  # noqa: E402

V = 2048


def generate(model, prompt, **values):
    return model.generate(prompt, SamplingConfig(**values))


def test_shapes_and_kinds(model):
    out = generate(model, np.array([ONCE]), max_new_tokens=3, return_probs=True)
    assert out.probs.shape == (1, 3 * V) and out.probs.dtype == np.float32
    assert out.logprobs is None and out.input_logprobs is None
    out = generate(model, np.array([ONCE]), max_new_tokens=3, return_logprobs=True)
    assert out.logprobs.shape == (1, 3 * V) and out.probs is None


def test_each_step_is_a_distribution_whose_best_token_was_taken(model):
    out = generate(model, np.array([ONCE]), max_new_tokens=6, return_probs=True)
    steps = out.probs.reshape(6, V)
    assert np.allclose(steps.sum(1), 1, atol=1e-5)
    assert steps.argmax(1).tolist() == STORY[:6]
    assert abs(steps[0, STORY[0]] - 0.53649) < 1e-4


def test_logarithms_of_removed_tokens(model):
    out = generate(
        model,
        np.array([ONCE]),
        max_new_tokens=2,
        do_sample=True,
        seed=1,
        top_k=2,
        return_probs=True,
        return_logprobs=True,
    )
    assert (out.probs.reshape(2, V) > 0).sum(1).tolist() == [2, 2]
    assert out.logprobs.min() == np.finfo(np.float32).min
    kept = out.probs > 0
    assert np.allclose(out.logprobs[kept], np.log(out.probs[kept]))


@pytest.mark.parametrize(
    "cut, counts",
    [
        ({"top_k": 3}, [3, 3]),
        ({"top_p": 0.5}, [1, 1]),
        ({"top_p": 0.9}, [2, 1]),
        ({"min_p": 0.3}, [2, 1]),
        ({"temperature": 0.5, "top_k": 2}, [2, 2]),
        ({"top_k": V + 1}, [V, V]),
    ],
)
def test_greedy_distributions_have_the_cuts(model, cut, counts):
    out = generate(model, np.array([ONCE]), max_new_tokens=2, return_probs=True, **cut)
    steps = out.probs.reshape(2, V)
    assert (steps > 0).sum(1).tolist() == counts
    assert np.allclose(steps.sum(1), 1, atol=1e-5)
    assert out.output_token_ids[0, 5:].tolist() == STORY[:2]


def test_temperature_of_greedy_distributions(model):
    out = generate(model, np.array([ONCE]), max_new_tokens=1, temperature=0.5, return_probs=True)
    assert abs(out.probs.max() - 0.57503) < 1e-4


def test_behind_the_end_of_a_row_comes_the_pad_token(model):
    out = generate(model, left_padded(ONCE, SUM), max_new_tokens=14, return_probs=True)
    steps = out.probs.reshape(2, 14, V)
    assert steps[1].argmax(1).tolist() == ANSWER + [PAD, PAD]
    assert steps[1, 12, PAD] == 1 and steps[1, 12].sum() == 1


def test_input_logprobs_of_a_batch(model):
    out = generate(model, left_padded(ONCE, SUM), max_new_tokens=2, return_input_logprobs=True)
    assert out.input_logprobs.shape == (2, len(SUM), V)
    assert out.input_logprobs.dtype == np.float32
    assert not out.input_logprobs[0, : len(SUM) - len(ONCE)].any()
    single = generate(model, np.array([ONCE]), max_new_tokens=1, return_input_logprobs=True)
    rows = single.input_logprobs[0]
    assert np.array_equal(out.input_logprobs[0, -len(ONCE) :], rows)
    assert np.allclose(np.exp(rows).sum(1), 1, atol=1e-5)
    assert rows[-1].argmax() == STORY[0]
    assert np.allclose(rows[1, :3], [-21.7575, -19.8778, -17.2271], atol=1e-3)


def test_input_logprobs_of_a_paged_cache_follow_each_other(demo):
    model = LLMModel(demo, dtype="float32", kv_cache_type="paged", disable_tqdm=True)
    out = generate(model, left_padded(ONCE, SUM), max_new_tokens=1, return_input_logprobs=True)
    assert out.input_logprobs.shape == (1, len(ONCE) + len(SUM), V)
    assert out.input_logprobs[0, len(ONCE) - 1].argmax() == STORY[0]
    assert out.input_logprobs[0, -1].argmax() == ANSWER[0]


def test_prompt_of_one_token_and_a_long_one(model):
    out = generate(model, np.array([[1]]), max_new_tokens=1, return_input_logprobs=True)
    assert out.input_logprobs.shape == (1, 1, V)
    long = np.array([(ONCE * 250)[:1000]])
    out = generate(model, long, max_new_tokens=1, return_input_logprobs=True)
    assert np.allclose(np.exp(out.input_logprobs[0]).sum(1), 1, atol=1e-4)


@pytest.mark.parametrize(
    "cut, left",
    [
        ((1.0, 0, 1.0, 0.0), [0.5, 0.3, 0.2, 0.0]),
        ((1.0, 2, 1.0, 0.0), [0.625, 0.375, 0.0, 0.0]),
        ((1.0, 0, 0.0, 0.0), [1.0, 0.0, 0.0, 0.0]),
        ((1.0, 0, 0.6, 0.0), [0.625, 0.375, 0.0, 0.0]),
        ((1.0, 0, 1.0, 0.5), [0.625, 0.375, 0.0, 0.0]),
        ((1.0, 9, 1.0, 1.0), [1.0, 0.0, 0.0, 0.0]),
        ((0.5, 2, 1.0, 0.0), [0.25 / 0.34, 0.09 / 0.34, 0.0, 0.0]),
    ],
)
def test_cut(cut, left):
    given = np.array([0.5, 0.3, 0.2, 0.0], np.float32)
    assert np.allclose(distributions.cut(given, *cut), left, atol=1e-6)
    assert given.tolist()[3] == 0
