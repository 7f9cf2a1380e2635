"""The bookkeeping of steps without weights: vLLM's scheduler and a model that is a hash of its tokens
(hash_worker.py). A wrong block, slot, position or order gives wrong tokens."""
import contextlib
import random

import pytest
from hash_worker import FEW, HashExecutor, continuation
from reference import DEMO
from vllm import LLM, SamplingParams

random.seed(5)
SHARED = [random.randrange(6, 2048) for _ in range(100)]
PROMPTS = [SHARED + [random.randrange(6, 2048) for _ in range(20 + 11 * i)] for i in range(10)]
N = 16


@contextlib.contextmanager
def engine(**options):
    llm = LLM(DEMO, worker_cls="hash_worker.HashWorker", max_model_len=320, max_num_seqs=6,
              **{"max_num_batched_tokens": 64, "block_size": 16, "async_scheduling": False,
                 "enable_chunked_prefill": True, **options})
    try:
        yield llm
    finally:
        llm.llm_engine.engine_core.shutdown()


def run(llm, prompts=PROMPTS, n=N, **params):
    params = SamplingParams(max_tokens=n, temperature=0, ignore_eos=True, **params)
    outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)
    return [list(o.outputs[0].token_ids) for o in outputs]


def speak(dialect, monkeypatch):
    """DIALECT "1": vLLM tells the worker of steps as it tells its second model runner, which it
    chooses where triton has a backend for CPUs."""
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", dialect)
    monkeypatch.setattr("vllm.config.vllm.HAS_TRITON", True)


WANT = [continuation(p, N) for p in PROMPTS]
SLOTS = {"additional_config": {"gallop": {"mode": "slots"}}, "block_size": None}


@pytest.mark.parametrize("options", [
    pytest.param({}, id="chunks-and-prefix-cache"),
    pytest.param({"num_gpu_blocks_override": 40}, id="preemption"),
    pytest.param({"async_scheduling": True}, id="async"),
    pytest.param({"async_scheduling": True, "num_gpu_blocks_override": 40}, id="async-preemption"),
    pytest.param({"enable_prefix_caching": False, "max_num_batched_tokens": 512}, id="no-cache"),
    pytest.param(SLOTS, id="slots"),
    pytest.param({**SLOTS, "async_scheduling": True}, id="slots-async"),
])
@pytest.mark.parametrize("dialect", ["0", "1"])
def test_tokens_are_those_of_the_hash(options, dialect, monkeypatch):
    speak(dialect, monkeypatch)
    with engine(**options) as llm:
        before = HashExecutor.n_rows
        assert run(llm) == WANT
        assert run(llm, PROMPTS[::-1]) == WANT[::-1]
        rows = HashExecutor.n_rows - before
        every = 2 * sum(len(p) + N - 1 for p in PROMPTS)
        if "num_gpu_blocks_override" not in options:
            hits = "additional_config" not in options and options.get("enable_prefix_caching", True)
            assert rows < every / 2 if hits else rows == every


@pytest.mark.parametrize("more, dialect", [({}, "0"), (SLOTS, "0"),
                                           ({"num_gpu_blocks_override": 40}, "0"),
                                           ({"num_gpu_blocks_override": 40}, "1")])
def test_drafts_change_no_token_and_save_steps(more, dialect, monkeypatch):
    speak(dialect, monkeypatch)
    prompts = [[FEW] + p for p in PROMPTS]
    want = [continuation(p, N) for p in prompts]
    drafts = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2,
              "prompt_lookup_min": 1}
    runs = []
    for config in (None, drafts):
        with engine(speculative_config=config, **more) as llm:
            before = HashExecutor.n_runs
            assert run(llm, prompts) == want
            runs.append(HashExecutor.n_runs - before)
            assert run(llm, prompts, logprobs=2) == want
    assert runs[1] < runs[0]


def test_grammar_masks_hold_with_and_without_async():
    from vllm.sampling_params import StructuredOutputsParams
    choice = StructuredOutputsParams(choice=["yes", "no"])
    for is_async in (False, True):
        with engine(async_scheduling=is_async) as llm:
            params = [SamplingParams(max_tokens=8, temperature=0, structured_outputs=choice)
                      if i % 2 else SamplingParams(max_tokens=N, temperature=0, ignore_eos=True)
                      for i in range(len(PROMPTS))]
            outputs = llm.generate([{"prompt_token_ids": p} for p in PROMPTS], params,
                                   use_tqdm=False)
            for i, o in enumerate(outputs):
                if i % 2:
                    ids = [t for t in o.outputs[0].token_ids if t != 2]
                    assert llm.get_tokenizer().decode(ids) in ("yes", "no")
                else:
                    assert list(o.outputs[0].token_ids) == WANT[i]


def test_prompt_logprobs_come_from_all_chunks():
    with engine() as llm:
        params = SamplingParams(max_tokens=2, temperature=0, prompt_logprobs=2)
        plain = SamplingParams(max_tokens=N, temperature=0, ignore_eos=True)
        prompts = PROMPTS[:4]
        outputs = llm.generate([{"prompt_token_ids": p} for p in prompts],
                               [params, plain, params, plain], use_tqdm=False)
        from hash_worker import logits_after
        for o, p in zip(outputs[::2], prompts[::2]):
            assert len(o.prompt_logprobs) == len(p) and o.prompt_logprobs[0] is None
            for i in range(1, len(p)):
                row = logits_after(p[:i])
                best = int(row.argmax())
                assert p[i] in o.prompt_logprobs[i] and best in o.prompt_logprobs[i]
                assert o.prompt_logprobs[i][best].rank == 1
        assert [list(o.outputs[0].token_ids) for o in outputs[1::2]] == [WANT[1], WANT[3]]


def test_aborted_requests_leave_no_trace():
    with engine() as llm:
        core = llm.llm_engine
        params = SamplingParams(max_tokens=N, temperature=0, ignore_eos=True)
        for i, p in enumerate(PROMPTS):
            core.add_request(f"r{i}", {"prompt_token_ids": p}, params)
        for _ in range(6):
            core.step()
        core.abort_request([f"r{i}" for i in range(0, 10, 2)])
        got = {}
        while core.has_unfinished_requests():
            for o in core.step():
                if o.finished:
                    got[o.request_id] = list(o.outputs[0].token_ids)
        for i in range(1, 10, 2):
            assert got.get(f"r{i}", WANT[i]) == WANT[i]
        assert run(llm) == WANT
