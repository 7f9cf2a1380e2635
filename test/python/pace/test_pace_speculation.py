"""Speculative decoding: configurations, errors, equal tokens."""

import shutil

import pytest

from gallop.pace.llm import (
    GallopSpecDecodeConfig,
    LLMModel,
    PardSpecDecodeConfig,
    SamplingConfig,
    SpecDecodeConfig,
)

np = pytest.importorskip("numpy")

from pace_data import ANSWER, ONCE, STORY, SUM, Recorder  # noqa: E402


@pytest.fixture(scope="module")
def pard(demo, draft):
    config = PardSpecDecodeConfig(draft, num_speculative_tokens=4)
    return LLMModel(demo, dtype="float32", spec_config=config, disable_tqdm=True)


def test_defaults_and_text():
    config = PardSpecDecodeConfig("draft")
    assert (config.pard_token, config.num_speculative_tokens) == (None, 12)
    assert config.draft_kv_cache_memory_gb is None
    assert isinstance(config, SpecDecodeConfig)
    assert (
        str(config) == "PardSpecDecodeConfig(model_name_or_path: draft, num_speculative_tokens: 12)"
    )


def test_tokens_do_not_depend_on_guesses(pard):
    out = pard.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=12))
    assert out.output_token_ids.tolist() == [ONCE + STORY]  # never more than max_new_tokens
    assert out.speculative_stats.total_speculated_tokens == 12
    assert out.speculative_stats.mean_accepted_tokens >= 1
    out = pard.generate(np.array([SUM]), SamplingConfig(max_new_tokens=30))
    assert out.output_token_ids.tolist() == [SUM + ANSWER]  # nothing behind the end token


def test_streamer_gets_the_tokens_of_a_step_together(pard):
    streamer = Recorder()
    pard.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=40), streamer)
    steps = [call[0] for call in streamer.calls[1:-1]]
    assert [t for step in steps for t in step][:12] == STORY
    assert sum(map(len, steps)) == 40 and max(map(len, steps)) > 1


def test_batches_are_refused(pard):
    with pytest.raises(AssertionError) as e:
        pard.generate(np.array([ONCE, ONCE]), SamplingConfig(max_new_tokens=2))
    assert str(e.value) == "Offline speculative decoding is only supported for batch size 1"


def test_sampling_is_refused(pard):
    with pytest.raises(AssertionError) as e:
        pard.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=2, do_sample=True))
    assert str(e.value) == (
        "Speculative Decoding using PARD is only supported for greedy search sampling mode but got "
        "SamplingMode.RANDOM_SAMPLING"
    )


def test_config_of_another_kind_is_refused(demo):
    for config in (SpecDecodeConfig(), {"model": "x"}):
        with pytest.raises(ValueError):
            LLMModel(demo, spec_config=config, disable_tqdm=True)


def test_draft_without_a_mask_token(demo, draft, tmp_path):
    folder = shutil.copytree(draft, tmp_path / "draft")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"pard_token": 0,', ""))
    with pytest.raises(AssertionError, match="pard_token"):
        LLMModel(demo, spec_config=PardSpecDecodeConfig(str(folder)), disable_tqdm=True)


@pytest.mark.parametrize("of_the_draft, of_the_user", [(0, 9), (None, 0)])
def test_mask_token_of_the_draft_or_of_the_user(
    demo, draft, tmp_path, of_the_draft, of_the_user
):
    """The draft's own counts. An engine for parallel drafting refuses a draft without one."""
    folder = shutil.copytree(draft, tmp_path / "draft")
    if of_the_draft is None:
        config = folder / "config.json"
        config.write_text(config.read_text().replace('"pard_token": 0,', ""))
        settings = {"method": "draft_model", "model": str(folder), "parallel_drafting": True}
        with pytest.raises(ValueError, match="names no mask token"):
            LLMModel(demo, spec_config=GallopSpecDecodeConfig(**settings), disable_tqdm=True)
    config = PardSpecDecodeConfig(str(folder), of_the_user, num_speculative_tokens=4)
    model = LLMModel(demo, dtype="float32", spec_config=config, disable_tqdm=True)
    out = model.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=12))
    assert out.output_token_ids.tolist() == [ONCE + STORY]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["draft"]
    model.close()


def test_lookup_serves_batches_and_sampling(demo, model):
    config = GallopSpecDecodeConfig(method="ngram", num_speculative_tokens=4)
    lookup = LLMModel(demo, dtype="float32", spec_config=config, disable_tqdm=True)
    rows, sampling = np.array([ONCE, ONCE]), SamplingConfig(
        max_new_tokens=40, do_sample=True, seed=1
    )
    expected = model.generate(rows, sampling).output_token_ids.tolist()
    assert lookup.generate(rows, sampling).output_token_ids.tolist() == expected
    lookup.close()
