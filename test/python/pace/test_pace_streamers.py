"""The calls that a streamer gets."""

import pytest

from gallop.pace.llm import SamplingConfig

np = pytest.importorskip("numpy")

from pace_data import (  # noqa: E402
    ANSWER,
    ONCE,
    PAD,
    STORY,
    SUM,
    Recorder,
    left_padded,
)


class TextStreamer(Recorder):
    """Has the name of transformers' class, which decides."""


class Derived(TextStreamer):
    pass


def test_one_row_gets_the_prompt_then_each_token_then_the_end(model):
    streamer = Recorder()
    model.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=3), streamer)
    assert streamer.calls == [[ONCE], [[STORY[0]]], [[STORY[1]]], [[STORY[2]]], "end"]


def test_rows_get_columns_and_finished_rows_pads(model):
    streamer = Recorder()
    batch = left_padded(ONCE, SUM)
    model.generate(batch, SamplingConfig(max_new_tokens=14), streamer)
    assert streamer.calls[0] == batch["input_ids"].tolist()
    columns = streamer.calls[1:-1]
    assert [c[0][0] for c in columns][:12] == STORY
    assert [c[1][0] for c in columns] == ANSWER + [PAD, PAD]
    assert streamer.calls[-1] == "end"


@pytest.mark.parametrize("kind", [TextStreamer, Derived])
def test_text_streamers_take_one_row(model, kind):
    streamer = kind()
    with pytest.raises(AssertionError) as e:
        model.generate(np.array([ONCE, ONCE]), SamplingConfig(max_new_tokens=3), streamer)
    assert str(e.value) == "Text streamer is only supported for batch size of 1"
    assert streamer.calls == []
    model.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=1), streamer)
    assert streamer.calls == [[ONCE], [STORY[:1]], "end"]


def test_nothing_is_called_after_an_error(model):
    streamer = Recorder()
    with pytest.raises(AssertionError):
        model.generate(np.array([ONCE]), SamplingConfig(top_k=-1), streamer)
    assert streamer.calls == []


def test_streamer_gets_the_token_of_a_stop_string(model):
    streamer = Recorder()
    config = SamplingConfig(max_new_tokens=9, stop_strings=" cheer")
    model.generate(np.array([ONCE]), config, streamer)
    assert streamer.calls[1:] == [[[t]] for t in STORY[:4]] + ["end"]
