"""vLLM on the bundled model: tokens, log-probabilities and prompts' log-probabilities are those of
Gallop's engine, however vLLM divides the work into steps."""
import contextlib
import os

import pytest
from reference import DEMO, answers
from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

TEXT = ("Once upon a time there was a little girl who lived in a house near the sea. Every day she "
        "went to the beach with her dog. One day the dog found a red ball in the sand and brought it "
        "to the girl. ")
N = 24


def prompts(llm):
    tokenizer = llm.get_tokenizer()
    head = tokenizer.encode(TEXT * 2)
    tails = ["The dog", "The little girl was happy and", "Then a big bird came and said", "The sun",
             "Her mother asked her where", "Once upon a time"]
    return [head + tokenizer.encode(t, add_special_tokens=False) for t in tails] + [
        tokenizer.encode("Once upon a time")]


@contextlib.contextmanager
def engine(**options):
    llm = LLM(DEMO, **{"max_model_len": 512, "max_num_seqs": 8, "max_num_batched_tokens": 512,
                       "async_scheduling": False, "enable_chunked_prefill": True, **options})
    try:
        yield llm
    finally:
        llm.llm_engine.engine_core.shutdown()


def generate(llm, ids, params):
    return llm.generate([{"prompt_token_ids": p} for p in ids], params, use_tqdm=False)


def tokens(outputs):
    return [list(o.outputs[0].token_ids) for o in outputs]


DRAFTS = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3,
          "prompt_lookup_min": 1}
INT8 = {"additional_config": {"gallop": {"quant": "int8"}}, "kv_cache_dtype": "int8_per_token_head"}
SLOTS = {"additional_config": {"gallop": {"mode": "slots"}}}


@pytest.mark.parametrize("options, own", [
    pytest.param({"max_num_batched_tokens": 16}, {}, id="chunk-16"),
    pytest.param({"max_num_batched_tokens": 64, "block_size": 16}, {}, id="chunk-64-blocks-16"),
    pytest.param({}, {}, id="chunk-512"),
    pytest.param({"num_gpu_blocks_override": 34, "block_size": 16}, {}, id="preemption"),
    pytest.param({"speculative_config": DRAFTS, "max_num_batched_tokens": 64}, {}, id="drafts"),
    pytest.param({**SLOTS, "max_num_batched_tokens": 64}, {}, id="slots"),
    pytest.param({**SLOTS, "speculative_config": DRAFTS}, {}, id="slots-drafts"),
    pytest.param({**INT8, "async_scheduling": True, "max_num_batched_tokens": 64},
                 {"quant": "int8", "kv_cache_dtype": "int8"}, id="int8-async"),
    pytest.param({"dtype": "float32"}, {"dtype": "fp32"}, id="fp32"),
])
def test_greedy_tokens_are_those_of_the_engine(options, own):
    with engine(**options) as llm:
        ids = prompts(llm)
        want = [a["ids"] for a in answers(ids, options=own, max_new_tokens=N)]
        params = SamplingParams(max_tokens=N, temperature=0)
        assert tokens(generate(llm, ids, params)) == want
        assert tokens(generate(llm, ids[::-1], params)) == want[::-1]  # The prefixes are cached.


# The second is what `make test-pjrt` leaves.
PLUGIN = os.environ.get("GALLOP_PJRT_PLUGIN") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gallop", "test-pjrt",
    "fastatomstruct_xla_cpu", "libpjrt_cpu.so")


@pytest.mark.skipif(not os.path.exists(PLUGIN), reason="no PJRT plugin: `make test-pjrt` gets one")
def test_the_pjrt_executor_answers_as_the_engine_does(tmp_path, monkeypatch):
    """Prompts in chunks and decoding sequences in frames of fixed shapes, each in its slot; scored
    prompts; slots that others have used; and a set of requests that waits for slots."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    frames = {"additional_config": {"gallop": {"executor": "pjrt", "pjrt_plugin": PLUGIN,
                                               "prompt_buckets": "16,64", "batch_buckets": "3",
                                               "context_buckets": "256"}}}
    with engine(**frames, dtype="float32", max_model_len=256, max_num_seqs=3,
                max_num_batched_tokens=64, async_scheduling=True) as llm:
        ids = prompts(llm)
        want = answers(ids, options={"dtype": "fp32"}, max_new_tokens=N, logprobs=1,
                       prompt_logprobs=1)
        for turn in (1, -1):
            found = generate(llm, ids[::turn], SamplingParams(max_tokens=N, temperature=0))
            assert tokens(found) == [a["ids"] for a in want[::turn]]
        scored = SamplingParams(max_tokens=N, temperature=0, logprobs=1, prompt_logprobs=1)
        for output, answer in zip(generate(llm, ids[-2:], scored), want[-2:]):
            assert list(output.outputs[0].token_ids) == answer["ids"]
            for got, (id, logprob, _, _) in zip(output.prompt_logprobs[1:], answer["prompt"]):
                assert got[id].logprob == pytest.approx(logprob, abs=1e-3)


def test_seeded_answers_depend_on_the_seed_alone():
    """Stock vLLM on CPU 0.32 fails on a seeded request whose prompt is computed in chunks."""
    found = []
    for options in ({"max_num_batched_tokens": 16}, {}, {"speculative_config": DRAFTS},
                    {"num_gpu_blocks_override": 34, "block_size": 16}, SLOTS,
                    {"async_scheduling": True}):
        with engine(**options) as llm:
            ids = prompts(llm)
            params = [SamplingParams(max_tokens=N, temperature=.8, top_p=.95, seed=40 + i,
                                     repetition_penalty=1.1 if i % 2 else 1)
                      for i in range(len(ids))]
            found.append(tokens(generate(llm, ids, params)))
            if len(found) == 1:
                want = [answers([p], max_new_tokens=N, do_sample=1, temperature=.8, top_p=.95,
                                has_seed=1, seed=40 + i,
                                repetition_penalty=1.1 if i % 2 else 1)[0]["ids"]
                        for i, p in enumerate(ids)]
                n = SamplingParams(max_tokens=N, temperature=1, seed=7, n=3)
                several = generate(llm, ids[:1], n)[0].outputs
                assert [list(o.token_ids) for o in several] == [
                    answers(ids[:1], max_new_tokens=N, do_sample=1, temperature=1, has_seed=1,
                            seed=7 + i)[0]["ids"] for i in range(3)]
    assert found == [want] * len(found)


def test_log_probabilities_are_those_of_the_engine():
    with engine(max_num_batched_tokens=48, speculative_config=DRAFTS) as llm:
        ids = prompts(llm)
        want = answers(ids, max_new_tokens=8, logprobs=3, prompt_logprobs=2)
        params = SamplingParams(max_tokens=8, temperature=0, logprobs=3, prompt_logprobs=2)
        for output, answer, prompt in zip(generate(llm, ids, params), want, ids):
            assert list(output.outputs[0].token_ids) == answer["ids"]
            for i, got in enumerate(output.outputs[0].logprobs):
                assert got[answer["ids"][i]].logprob == pytest.approx(answer["logprobs"][i], abs=1e-6)
                assert {id: got[id].rank for id, _ in answer["top"][i]} == {
                    id: 1 + r for r, (id, _) in enumerate(answer["top"][i])}
            assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == len(prompt)
            for got, (id, logprob, rank, top) in zip(output.prompt_logprobs[1:], answer["prompt"]):
                assert got[id].logprob == logprob and got[id].rank == rank
                assert all(got[other].logprob == value for other, value in top)


def test_what_forbids_tokens_is_obeyed():
    with engine() as llm:
        ids, tokenizer = prompts(llm)[-1:], llm.get_tokenizer()

        def one(**params):
            return generate(llm, ids, SamplingParams(temperature=0, max_tokens=12, **params))[0]
        free = list(one().outputs[0].token_ids)
        first = free[0]
        stop = tokenizer.encode(".", add_special_tokens=False)[0]
        assert stop in free and stop not in one(bad_words=["."]).outputs[0].token_ids
        assert first not in one(logit_bias={first: -100}).outputs[0].token_ids
        some = sorted(set(free[2:6]))
        assert set(one(allowed_token_ids=some).outputs[0].token_ids) <= set(some)
        other = (first + 1) % 2048
        biased = one(logit_bias={other: 100}, logprobs=1).outputs[0]
        assert list(biased.token_ids) == [other] * 12
        assert biased.logprobs[0][other].logprob < -1  # of the logits without the bias
        assert len(one(stop_token_ids=[first], min_tokens=4).outputs[0].token_ids) >= 4
        assert len(one(stop_token_ids=[first]).outputs[0].token_ids) == 1
        cow = StructuredOutputsParams(choice=["cows", "horses"])
        assert one(structured_outputs=cow).outputs[0].text in ("cows", "horses")
        digits = StructuredOutputsParams(regex=r"\d{4}")
        assert one(structured_outputs=digits).outputs[0].text.isdigit()


def test_requests_that_cannot_be_served_are_refused_by_name():
    with engine() as llm:
        for name, value in (("logprob_token_ids", [4]), ("thinking_token_budget", 3),
                            ("prompt_logprobs", 1025), ("extra_args", {"a": 1})):
            params = SamplingParams(max_tokens=1, **{name: value})
            with pytest.raises(Exception, match=name):
                generate(llm, [[1, 300]], params)
        assert len(tokens(generate(llm, [[1, 300]], SamplingParams(max_tokens=2)))[0]) == 2


@pytest.mark.parametrize("options, says", [
    ({"tensor_parallel_size": 2}, "tensor_parallel_size is 2"),
    ({"enable_lora": True}, "LoRA"),
    ({"hf_overrides": {"rope_theta": 5.0}}, "hf_overrides"),
    ({"logprobs_mode": "processed_logprobs"}, "logprobs_mode"),
    ({"block_size": 48}, "block_size is 48"),
    ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype"),
    ({"additional_config": {"gallop": {"quants": "int8"}}}, "unknown option quants"),
    ({"additional_config": {"gallop": {"dtype": "bf16"}}}, "--dtype"),
    ({"additional_config": {"gallop": {"threads": "2"}}}, "threads is '2', expected an integer"),
    ({"load_format": "dummy"}, "load_format"),
    ({"additional_config": {"gallop": {"kv_cache_dtype": "fp8"}}},
     "kv_cache_dtype is 'fp8', expected one of fp32, bf16, int8, int4"),
    ({"additional_config": {"gallop": {"quant": "fp8"}}}, "quant"),
    ({"additional_config": {"gallop": {"executor": "cuda"}}}, "executor is 'cuda'"),
    ({"additional_config": {"gallop": {"executor": "pjrt", "mode": "blocks"}}}, "slots, not blocks"),
    ({"additional_config": {"gallop": {"batch_buckets": "4"}}}, "batch_buckets needs"),
    ({"quantization": "fp8"}, "quantization fp8 is not supported"),
    ({"quantization": "fp8_per_block"}, "quantization fp8_per_block is not supported"),
    ({"quantization": "mxfp4"}, "quantization is mxfp4, which the checkpoint does not have"),
    ({"quantization": "awq"}, "awq"),
    ({"dtype": "float16"}, "dtype is float16, expected bfloat16 or float32"),
    ({"kv_cache_dtype": "nvfp4"}, "kv_cache_dtype"),
])
def test_configurations_that_cannot_be_served_are_refused_by_name(options, says):
    with pytest.raises(Exception) as e:
        LLM(DEMO, max_model_len=128, **options)
    assert says in str(e.value), str(e.value)
