"""generate(): results for single prompts and batches, on the demo model in float32."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from gallop.pace.llm import KVCacheType, LLMModel, OperatorConfig, SamplingConfig
from gallop.pace.llm.generator import StopMatcher

np = pytest.importorskip("numpy")

from pace_data import (  # noqa: E402
    ANSWER,
    END,
    ONCE,
    PAD,
    STORY,
    SUM,
    left_padded,
)


def generate(model, prompt, **values):
    return model.generate(prompt, SamplingConfig(**values))


def test_result_has_the_prompt_and_the_output(model):
    out = generate(model, np.array([ONCE]), max_new_tokens=12)
    assert out.output_token_ids.dtype == np.int64
    assert out.output_token_ids.tolist() == [ONCE + STORY]
    assert out.decoded_text is None and out.probs is None and out.speculative_stats is None
    assert (out.finish_reason, out.n_output) == (["length"], [12])


def test_end_token_is_kept_and_ends_the_row(model):
    out = generate(model, np.array([SUM]), max_new_tokens=50)
    assert out.output_token_ids.tolist() == [SUM + ANSWER]
    assert out.finish_reason == ["stop"]


def test_ignore_eos(model):
    out = generate(model, np.array([SUM]), max_new_tokens=20, ignore_eos=True)
    assert out.n_output == [20]
    assert out.output_token_ids[0, len(SUM) :][: len(ANSWER)].tolist() == ANSWER


def test_minimum_forbids_the_end_token(model):
    out = generate(model, np.array([SUM]), max_new_tokens=20, min_new_tokens=14)
    new = out.output_token_ids[0, len(SUM) :].tolist()
    assert new[:11] == ANSWER[:11] and END not in new[:14] and len(new) >= 14


def test_minimum_above_the_maximum(model):
    assert generate(model, np.array([ONCE]), max_new_tokens=3, min_new_tokens=9).n_output == [3]


def test_users_end_token_is_added_to_the_models(model):
    out = generate(model, np.array([ONCE]), max_new_tokens=12, eos_token_id=STORY[3])
    assert out.output_token_ids.tolist() == [ONCE + STORY[:4]]
    assert model.generator.sampling_config._eos == [END, STORY[3]]


def test_left_padded_batch_equals_single_rows(model):
    rows = [ONCE, SUM, ONCE + STORY[:2]]
    out = generate(model, left_padded(*rows), max_new_tokens=10)
    for row, ids in zip(rows, out.output_token_ids.tolist()):
        single = generate(model, np.array([row]), max_new_tokens=10).output_token_ids[0].tolist()
        assert ids[len(SUM) - len(row) :] == single


def test_finished_rows_are_filled_with_pads(model):
    out = generate(model, left_padded(ONCE, SUM), max_new_tokens=16)
    ids = out.output_token_ids.tolist()
    assert ids[0][:9] == [PAD] * 9 and ids[0][9 : 9 + 17] == ONCE + STORY
    assert ids[1] == SUM + ANSWER + [PAD] * 4
    assert out.n_output == [16, 12] and out.finish_reason == ["length", "stop"]


def test_users_pad_token_fills(model):
    # The model's pad tokens are united with it, and the first of the union is used.
    out = generate(model, left_padded(ONCE, SUM), max_new_tokens=14, pad_token_id=7)
    assert out.output_token_ids[1, -1] == PAD


def test_columns_end_with_the_longest_row(model):
    out = generate(model, np.array([SUM, SUM]), max_new_tokens=40)
    assert out.output_token_ids.shape == (2, len(SUM) + len(ANSWER))


def test_more_rows_than_sequences_of_a_step(model):
    out = generate(model, np.array([ONCE] * 40), max_new_tokens=4)
    assert out.output_token_ids.tolist() == [ONCE + STORY[:4]] * 40


def test_text_includes_the_prompt(model):
    out = generate(model, left_padded(ONCE, SUM), max_new_tokens=12, return_text=True)
    assert (
        out.decoded_text[0]
        == "Once upon a time there was a cheerful girl named Nora. Her home was in"
    )
    assert out.decoded_text[1] == "What is 27 + 15?27 + 15 = 42."


def test_texts_are_prompts_too(model):
    out = generate(model, ["Once upon a time", "hello"], max_new_tokens=4)
    assert out.output_token_ids[0].tolist() == ONCE + STORY[:4]
    assert out.output_token_ids[1].tolist()[:5] == [PAD, PAD, 1, 264, 1439]


def test_config_can_be_used_again(model):
    config = SamplingConfig(max_new_tokens=5)
    first = model.generate(np.array([ONCE]), config).output_token_ids.tolist()
    assert model.generate(np.array([ONCE]), config).output_token_ids.tolist() == first
    config.max_new_tokens = 6  # not finalized
    assert model.generate(np.array([ONCE]), config).n_output == [6]
    assert model.generator.sampling_config is not config


def test_without_a_config_20_tokens_are_generated(model, capsys):
    assert model.generate(np.array([ONCE])).n_output == [20]
    assert "max_new_tokens" in capsys.readouterr().out


def test_length_is_limited_by_the_context(model):
    prompt = np.array([(ONCE * 250)[:1022]])
    out = generate(model, prompt, max_new_tokens=50, ignore_eos=True)
    assert out.output_token_ids.shape == (1, 1024)


@pytest.mark.parametrize(
    "prompt", [[2048], [-1], (ONCE * 250)[:1024], (ONCE * 250)[:1100]], ids=lambda p: str(len(p))
)
def test_prompts_that_no_model_can_process(model, prompt):
    with pytest.raises(ValueError):
        generate(model, np.array([prompt]), max_new_tokens=1)
    assert generate(model, np.array([ONCE]), max_new_tokens=1).n_output == [1]


def test_config_of_another_kind_is_refused(model):
    with pytest.raises(NotImplementedError, match="got <class 'dict'>"):
        model.generate(np.array([ONCE]), {"max_new_tokens": 3})


def test_wrong_values_are_found_at_generate(model):
    config = SamplingConfig(top_p=2.0)
    with pytest.raises(AssertionError, match="top_p should be between 0 and 1, Got top_p: 2.0"):
        model.generate(np.array([ONCE]), config)


def sampled(model, **values):
    prompt = values.pop("prompt", [ONCE])
    out = generate(model, np.array(prompt), max_new_tokens=24, do_sample=True, **values)
    return out.output_token_ids.tolist()


def test_seed_is_honoured(model):
    assert sampled(model, seed=1) == sampled(model, seed=1)
    assert len({str(sampled(model, seed=s, temperature=1.5)) for s in range(4)}) > 1
    assert sampled(model, seed=1) == sampled(model, random_seed=1)


def test_rows_of_a_batch_draw_with_seeds_of_their_own(model):
    rows = sampled(model, prompt=[ONCE] * 4, seed=5, temperature=1.5)
    assert len({str(row) for row in rows}) > 1
    assert rows[0] == sampled(model, seed=5, temperature=1.5)[0]
    assert rows[1] == sampled(model, seed=6, temperature=1.5)[0]


def test_without_a_seed_the_global_generator_decides(model, monkeypatch):
    import random

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    random.seed(3)
    first = sampled(model, temperature=1.5)
    random.seed(3)
    assert sampled(model, temperature=1.5) == first


@pytest.mark.parametrize(
    "cut", [{"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}, {"temperature": 0.0}]
)
def test_one_candidate_is_greedy(model, cut):
    assert sampled(model, seed=9, **{"temperature": 1.5, **cut})[0][5:17] == STORY


def test_penalty_changes_the_output(model):
    out = generate(model, np.array([ONCE]), max_new_tokens=40, repetition_penalty=5.0)
    assert out.output_token_ids[0].tolist()[5:17] != STORY


@pytest.mark.parametrize(
    "stop, n",
    [
        (" cheer", 4),  # inside " cheerful", which is kept
        ([" Nora", " girl"], 5),
        (" there", 1),
        ("time th", 1),  # begins in the prompt
        ("upon", None),  # only in the prompt
    ],
)
def test_stop_strings(model, stop, n):
    out = generate(model, np.array([ONCE]), max_new_tokens=8, stop_strings=stop)
    assert out.output_token_ids.tolist() == [ONCE + STORY[: n or 8]]
    assert out.finish_reason == ["stop" if n else "length"]


def test_stop_strings_below_the_minimum_do_not_count(model):
    out = generate(
        model, np.array([ONCE]), max_new_tokens=8, min_new_tokens=5, stop_strings=[" a ch", " girl"]
    )
    assert out.n_output == [5]


@pytest.mark.parametrize(
    "stops, prompt, pieces, at",
    [
        (["ab"], "", ["a", "b"], 1),
        (["ab"], "a", ["b"], 0),
        (["ab"], "ab", ["c", "ab"], 1),
        (["b"], "b", ["a", "b"], 1),
        (["abc"], "xxab", ["cd"], 0),
        (["aa"], "a", ["b", "a", "a"], 2),
    ],
)
def test_stop_matcher(stops, prompt, pieces, at):
    matcher = StopMatcher(stops, prompt)
    assert [matcher.add(piece) for piece in pieces].index(True) == at


@pytest.mark.parametrize("cache", list(KVCacheType) + ["slab_pool", "PAGED"], ids=str)
def test_every_cache_gives_the_same_tokens(demo, cache):
    model = LLMModel(demo, None, "float32", cache, None, OperatorConfig(), True)
    out = generate(model, left_padded(ONCE, SUM), max_new_tokens=12)
    assert out.output_token_ids[0].tolist()[9:] == ONCE + STORY
    model.close()


@pytest.mark.parametrize("dtype", ["bfloat16", "bf16", "torch.float32", "float", "fp32"])
def test_names_of_dtypes(demo, dtype):
    model = LLMModel.for_serving(demo, dtype)
    assert generate(model, np.array([ONCE]), max_new_tokens=2).n_output == [2]
    model.close()


@pytest.mark.parametrize(
    "dtype, error, text",
    [
        ("float16", ValueError, "Unsupported dtype: torch.float16"),
        ("int8", TypeError, "Generator input dtype should be a torch.dtype, got <class 'str'>"),
        (None, TypeError, "dtype"),
        (np.float32, TypeError, "dtype"),
    ],
)
def test_wrong_dtypes(demo, dtype, error, text):
    with pytest.raises(error, match=text):
        LLMModel(demo, dtype=dtype)


def copy(demo, folder, *without):
    shutil.copytree(demo, folder, ignore=shutil.ignore_patterns(*without))
    return folder


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_folder_without_a_file(demo, tmp_path, name):
    with pytest.raises(FileNotFoundError, match=name.split(".")[0]):
        LLMModel(copy(demo, tmp_path / "model", name), disable_tqdm=True)


def test_unsupported_architecture_is_both_of_paces_errors(demo, tmp_path):
    folder = copy(demo, tmp_path / "model")
    config = pathlib.Path(folder / "config.json")
    config.write_text(config.read_text().replace("LlamaForCausalLM", "HexapodForCausalLM"))
    for error in (ModuleNotFoundError, ValueError):
        with pytest.raises(error, match="HexapodForCausalLM"):
            LLMModel(folder, disable_tqdm=True)


def test_model_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises((OSError, ValueError)):
        LLMModel("nobody/no-such-model", disable_tqdm=True)


def test_one_operator_config_serves_one_model(demo):
    config = OperatorConfig()
    LLMModel(demo, opconfig=config, disable_tqdm=True).close()
    with pytest.raises(AssertionError, match="finalized"):
        LLMModel(demo, opconfig=config, disable_tqdm=True)


def test_backends_of_other_builds_are_replaced(demo, capsys):
    config = OperatorConfig(mlp="aocldlp")
    model = LLMModel(demo, dtype="float32", opconfig=config, disable_tqdm=True)
    assert generate(model, np.array([ONCE]), max_new_tokens=12).output_token_ids.tolist() == [
        ONCE + STORY
    ]
    assert " W " in capsys.readouterr().out
    model.close()


def test_bar_on_standard_error(demo, capsys):
    LLMModel(demo).close()
    assert "Loading checkpoints" in capsys.readouterr().err
    LLMModel(demo, disable_tqdm=True).close()
    assert capsys.readouterr().err == ""


def test_generation_config_of_the_model_counts(demo, tmp_path):
    folder = copy(demo, tmp_path / "model")
    (folder / "generation_config.json").write_text('{"eos_token_id": 2, "max_new_tokens": 3}')
    model = LLMModel(folder, dtype="float32", disable_tqdm=True)
    assert model.generate(np.array([ONCE])).n_output == [3]
    assert model.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=4)).n_output == [4]
    model.close()


def test_parameters_that_pace_lacks_are_off(demo, tmp_path):
    folder = copy(demo, tmp_path / "model")
    (folder / "generation_config.json").write_text(
        '{"eos_token_id": 2, "num_beams": 3, "typical_p": 0.2, "max_length": 7}'
    )
    model = LLMModel(folder, dtype="float32", disable_tqdm=True)
    out = generate(model, np.array([ONCE]), max_new_tokens=12, return_probs=True)
    assert out.output_token_ids.tolist() == [ONCE + STORY]
    model.close()


def test_closed_model_says_so(demo):
    model = LLMModel(demo, disable_tqdm=True)
    model.close()
    model.close()
    for call in (lambda: model.generate(np.array([ONCE])), lambda: model.generate("Once")):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_closing_ends_the_generation_of_another_thread(demo):
    for i in range(8):
        model = LLMModel(demo, disable_tqdm=True)
        engine, ends = model.generator.engine, []
        begun = threading.Event()

        class Streamer:
            def put(self, tokens):
                begun.set()
                time.sleep(0.001)  # On no machine are 900 tokens complete before close().

            def end(self):
                ends.append("complete")

        def work():
            try:
                config = SamplingConfig(max_new_tokens=900, ignore_eos=True)
                model.generate(np.array([ONCE]), config, Streamer())
            except ValueError as e:
                ends.append(str(e))

        def encode():
            try:
                while True:
                    engine.encode("Once upon a time")
            except ValueError as e:
                ends.append(str(e))

        threads = [threading.Thread(target=f, daemon=True) for f in (work, encode)]
        for t in threads:
            t.start()
        begun.wait(20)
        time.sleep(0.005 * i)
        model.close()
        for t in threads:
            t.join(20)
        assert ends == ["the model is closed"] * 2


def test_an_exception_that_is_kept_keeps_no_model(demo):
    before = set(os.listdir("/proc/self/task"))
    model = LLMModel(demo, disable_tqdm=True, threads=2)
    with pytest.raises(ValueError) as kept:
        model.generator.engine.decode([1 << 30])
    own = set(os.listdir("/proc/self/task")) - before
    model.close()
    end = time.monotonic() + 20  # The kernel lists a thread for a moment after it was joined.
    while own & set(os.listdir("/proc/self/task")) and time.monotonic() < end:
        time.sleep(0.005)
    assert own and not own & set(os.listdir("/proc/self/task")) and kept.value is not None


def test_streamer_may_close_the_model(demo):
    model = LLMModel(demo, disable_tqdm=True)

    class Streamer:
        def put(self, tokens):
            model.close()

    with pytest.raises(ValueError, match="closed"):
        model.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=9), Streamer())


def test_generation_config_that_is_not_json_is_named(demo, tmp_path):
    folder = copy(demo, tmp_path / "model")
    (folder / "generation_config.json").write_text('{"eos_token_id": 2,}')
    with pytest.raises(ValueError, match="generation_config.json: at byte 19"):
        LLMModel(folder, disable_tqdm=True)


def test_hundreds_of_rows_stop_at_one_token(demo):
    model = LLMModel(demo, dtype="float32", disable_tqdm=True, max_num_seqs=300)
    out = generate(model, np.array([ONCE] * 300), max_new_tokens=8, stop_strings=" was")
    assert out.n_output == [2] * 300
    model.close()


def test_empty_stop_string_is_refused(model):
    with pytest.raises(ValueError, match="stop_strings"):
        generate(model, np.array([ONCE]), max_new_tokens=2, stop_strings=["a", ""])


def test_attributes(model):
    generate(model, np.array([ONCE]), max_new_tokens=2)
    assert model.generator.model is not None
    assert model.generator.tokenizer is model.get_tokenizer()
    assert model.generator.sampling_config.max_new_tokens == 2
    assert model.get_config().num_hidden_layers == 5
    assert "LlamaForCausalLM" in repr(model)
    with pytest.raises(NotImplementedError, match="Executor"):
        model.step(None, None, None)


def test_options_of_gallop(demo):
    model = LLMModel(demo, quant="int8", threads=1, disable_tqdm=True)
    assert generate(model, np.array([ONCE]), max_new_tokens=4).n_output == [4]
    model.close()
    with pytest.raises(TypeError, match="quantt"):
        LLMModel(demo, quantt="int8", disable_tqdm=True)


@pytest.mark.parametrize(
    "name, value, cache",
    [
        ("OMP_NUM_THREADS", "1", "dynamic"),
        ("PACE_BMC_NUM_SPLITS", "4", "bmc"),
        ("SLAB_BLOCK_SIZE", "48", "slab_pool"),
        ("SLAB_LAYOUT", "head_major", "slab_pool"),
        ("PACE_MAX_CACHE_TOKENS", "512", "paged"),
        ("PACE_PREFIX_CACHE", "0", "slab_pool"),
        ("OMP_NUM_THREADS", "many", "dynamic"),
    ],
)
def test_environment(demo, monkeypatch, name, value, cache):
    monkeypatch.setenv(name, value)
    model = LLMModel(demo, dtype="float32", kv_cache_type=cache, disable_tqdm=True)
    out = generate(model, np.array([ONCE]), max_new_tokens=12)
    assert out.output_token_ids.tolist() == [ONCE + STORY]
    stats = model.generator.engine.stats()
    assert name != "OMP_NUM_THREADS" or value != "1" or stats.threads == 1
    assert name != "PACE_MAX_CACHE_TOKENS" or stats.max_model_len == 512
    model.close()


def test_thread_bind(demo):
    script = (
        "import os, gallop.pace as pace; core = min(os.sched_getaffinity(0)); pace.core.thread_bind([core]);"
        "from gallop.pace.llm import LLMModel; m = LLMModel(%r, disable_tqdm=True);"
        "print(os.sched_getaffinity(0) == {core}, m.generator.engine.stats().threads)" % demo
    )

    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "1"]


def test_interrupt_leaves_the_model_usable(model):
    class Streamer:
        n = 0

        def put(self, value):
            self.n += 1
            if self.n == 4:
                raise KeyboardInterrupt

        def end(self):
            raise AssertionError("end() after an error")

    with pytest.raises(KeyboardInterrupt):
        model.generate(np.array([ONCE]), SamplingConfig(max_new_tokens=500), Streamer())
    assert generate(model, np.array([ONCE]), max_new_tokens=12).output_token_ids.tolist() == [
        ONCE + STORY
    ]


def test_results_are_tensors_where_torch_is_loaded(model):
    torch = pytest.importorskip("torch")
    out = generate(model, torch.tensor([ONCE], dtype=torch.int32), max_new_tokens=2)
    assert isinstance(out.output_token_ids, torch.Tensor)
    assert out.output_token_ids.dtype == torch.int64
    torch.manual_seed(4)
    first = sampled(model, temperature=1.5)
    torch.manual_seed(4)
    assert sampled(model, temperature=1.5) == first


def test_signal_ends_a_call(model):
    def interrupt(*args):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            while True:
                generate(model, np.array([ONCE] * 16), max_new_tokens=900, ignore_eos=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    out = generate(model, np.array([ONCE]), max_new_tokens=12)
    assert out.output_token_ids.tolist() == [ONCE + STORY]


def test_forked_child_cannot_use_the_model(demo):
    script = """
import os, numpy
from gallop.pace.llm import LLMModel
model = LLMModel(%r, disable_tqdm=True)
child = os.fork()
try:
    model.generate(numpy.array([[1, 435]]))
except RuntimeError as e:
    print(e, flush=True)
    raise SystemExit  # frees the model, which must not wait for the threads of the parent
print(os.waitpid(child, 0)[1])
"""
    # Without the log, whose lines of both processes may mix.
    env = dict(os.environ, PACE_LOG_LEVEL="none")
    out = subprocess.run(
        [sys.executable, "-c", script % demo], capture_output=True, text=True, check=True, env=env
    )
    lines = out.stdout.splitlines()
    assert lines[0].startswith("the model was opened before") and lines[1:] == ["0"]


def test_threads_take_turns(model):
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(generate(model, np.array([ONCE]), max_new_tokens=12))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.output_token_ids.tolist() for r in results] == [[ONCE + STORY]] * 8
