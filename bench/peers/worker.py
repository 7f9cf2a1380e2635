"""worker.py - one engine of bench/peers/offline, in the environment of its own: loaded once,
asked in lines of JSON, measured by its steps.

usage: PYTHON worker.py ENGINE     the first line of stdin is {"model":, "threads":, "prefill":
[..], "streams": [..], "length":, "rows":}

Then comes a line {"streams": S, "prompt": N, "new": K} for each measurement: S prompts of N ids,
K tokens each, greedy, to the end. The answer has the seconds to the moment when each stream had
its first token, and the tokens and seconds from there on. The first line of an answer is what
loading took. Whatever the engine prints goes to stderr.
"""
import json
import os
import sys
import time

# tokenizers.py beside this file would hide the package that engines import; their own processes run
# this line again.
sys.path[:] = [x for x in sys.path if x != os.path.dirname(os.path.abspath(__file__))]


def ids(vocabulary, streams, length):
    """The ids of `gallop bench`, going on from stream to stream."""
    return [[((s * length + i) * 7919 + 13) % vocabulary for i in range(length)]
            for s in range(streams)]


class Vllm:
    """Offline LLM; one step takes all that is given at once."""

    def __init__(self, job):
        from vllm import LLM, SamplingParams
        self.parameters = SamplingParams
        self.llm = LLM(model=job["model"], dtype="bfloat16", max_model_len=job["length"],
                       max_num_seqs=max(job["streams"]), max_num_batched_tokens=job["rows"],
                       enable_prefix_caching=False, disable_log_stats=True)
        self.asked = 0

    def run(self, prompts, new):
        engine, has = self.llm.llm_engine, {}
        p = self.parameters(max_tokens=new, min_tokens=new, ignore_eos=True, temperature=0,
                            detokenize=False)
        for prompt in prompts:
            self.asked += 1
            has[str(self.asked)] = 0
            engine.add_request(str(self.asked), {"prompt_token_ids": prompt}, p)
        while engine.has_unfinished_requests():
            for r in engine.step():
                # an engine may add to the name
                has[r.request_id.partition("-")[0]] = len(r.outputs[0].token_ids)
            yield list(has.values())


class Openvino:
    """ContinuousBatchingPipeline, computing in bf16; inputs of integer weights it quantises by
    its default."""

    def __init__(self, job):
        import numpy
        import openvino
        import openvino_genai as genai
        self.genai, self.tensor = genai, lambda x: openvino.Tensor(numpy.array([x],
                                                                               dtype=numpy.int64))
        s = genai.SchedulerConfig()
        s.max_num_batched_tokens, s.max_num_seqs, s.cache_size = job["rows"], max(job["streams"]), 1
        s.enable_prefix_caching = False
        self.pipeline = genai.ContinuousBatchingPipeline(job["model"], s, "CPU", {
            "INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": job["threads"],
            "ENABLE_CPU_PINNING": True})
        self.asked = 0

    def run(self, prompts, new):
        c = self.genai.GenerationConfig(max_new_tokens=new, min_new_tokens=new, ignore_eos=True,
                                        do_sample=False)
        handles, has = [], [0] * len(prompts)
        for prompt in prompts:
            self.asked += 1
            handles.append(self.pipeline.add_request(self.asked, self.tensor(prompt), c))
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            for i, h in enumerate(handles):
                if h.can_read():
                    has[i] += sum(len(x.generated_ids) for x in h.read().values())
            yield list(has)


class Pace:
    """LLMModel with its defaults but the cache, which is the one its makers advise; a batch is
    one tensor."""

    def __init__(self, job):
        import torch
        from pace.llm import KVCacheType, LLMModel, OperatorConfig, SamplingConfig
        from transformers.generation.streamers import BaseStreamer
        self.torch, self.config = torch, SamplingConfig

        class Clock(BaseStreamer):
            """Told of the prompts, then of each step."""

            def __init__(self):
                self.at = []

            def put(self, value):
                self.at.append(time.perf_counter())

            def end(self):
                pass

        self.clock = Clock
        self.model = LLMModel(job["model"], kv_cache_type=KVCacheType.SLAB_POOL,
                              opconfig=OperatorConfig(), disable_tqdm=True)

    def run(self, prompts, new):
        clock = self.clock()
        self.model.generate(self.torch.tensor(prompts),
                            self.config(max_new_tokens=new, min_new_tokens=0, ignore_eos=True,
                                        do_sample=False), text_streamer=clock)
        for step, at in enumerate(clock.at[1:]):
            yield [step + 1] * len(prompts), at


def measure(engine, vocabulary, streams, length, new):
    """Greedy answers to prompts of LENGTH ids: seconds to the first token of all, tokens and
    seconds after it."""
    prompts = ids(vocabulary, streams, length)
    begin, first, last = time.perf_counter(), None, None
    for has in engine.run(prompts, new):
        has, now = has if isinstance(has, tuple) else (has, time.perf_counter())
        first = first or ((now, sum(has)) if min(has) else None)
        last = now, sum(has)
    if not first or last[1] != streams * new:
        raise RuntimeError(
            f"{last and last[1]} tokens of {streams} streams, expected {streams * new}")
    return {"first": first[0] - begin, "tokens": last[1] - first[1], "seconds": last[0] - first[0]}


def warm(engine, vocabulary, job):
    """Every shape once: kernels are made, weights reordered and memory touched by the first that
    need them."""
    for streams in job["streams"]:
        measure(engine, vocabulary, streams, 16, 3)
    for length in job["prefill"]:
        measure(engine, vocabulary, 1, length, 1)


def serve(kind, out):
    job = json.loads(sys.stdin.readline())
    with open(os.path.join(job["weights"], "config.json"), encoding="utf-8") as f:
        vocabulary = json.load(f)["vocab_size"]
    begin = time.perf_counter()
    engine = kind(job)
    answer = {"load": time.perf_counter() - begin}
    warm(engine, vocabulary, job)
    print(json.dumps(answer), file=out, flush=True)
    for line in sys.stdin:
        q = json.loads(line)
        print(json.dumps(measure(engine, vocabulary, q["streams"], q["prompt"], q["new"])),
              file=out, flush=True)


if __name__ == "__main__":  # an engine's own processes import this file
    out_ = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve({"vllm": Vllm, "openvino": Openvino, "pace": Pace}[sys.argv[1]], out_)
