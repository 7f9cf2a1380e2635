"""worker.py - one engine of bench/vllm/compare: loads it, answers a first request, and then as many
sequences as each line of its input says. The argument is the job as JSON; results are lines of JSON.
"""
import json
import os
import sys
import time

in_library = [0.0]  # seconds, if the engine is in this process


def watch(function):
    """Returns FUNCTION with its time added to in_library."""
    def watched(*args):
        begin = time.perf_counter()
        try:
            return function(*args)
        finally:
            in_library[0] += time.perf_counter() - begin
    return watched


def prompts(n, length, vocabulary, seed):
    return [{"prompt_token_ids": [((seed + s * length + i) * 7919 + 13) % vocabulary
                                  for i in range(length)]} for s in range(n)]


def main():
    job = json.loads(sys.argv[1])
    options = {}
    if job["profile"]:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        from gallop_vllm.executor import Executor
        Executor.run, Executor.choose = watch(Executor.run), watch(Executor.choose)
        options["async_scheduling"] = False
    from vllm import LLM, SamplingParams

    if os.environ.get("VLLM_PLUGINS") is None:
        options["additional_config"] = {"gallop": job["gallop"]}
    llm = LLM(job["model"], dtype="bfloat16", max_model_len=job["length"], max_num_seqs=job["seqs"],
              max_num_batched_tokens=512, enable_prefix_caching=False, skip_tokenizer_init=True,
              disable_log_stats=True, **options)

    def params(n):
        return SamplingParams(max_tokens=n, min_tokens=n, ignore_eos=True, temperature=0,
                              detokenize=False)
    llm.generate(prompts(1, 16, 2000, 7), params(1), use_tqdm=False)
    print(json.dumps({"first_token": time.time()}), flush=True)
    engine, asked = llm.llm_engine, 0
    for line in sys.stdin:
        n, has, first = int(line), {}, None
        begin = time.perf_counter()
        for prompt in prompts(n, job["input"], 2000, 1000 * asked):
            asked += 1
            has[str(asked)] = 0
            engine.add_request(str(asked), prompt, params(job["output"]))
        while engine.has_unfinished_requests():
            for r in engine.step():
                has[r.request_id.partition("-")[0]] = len(r.outputs[0].token_ids)
            if first is None and min(has.values()) > 0:
                first = time.perf_counter(), sum(has.values()), in_library[0]
        end = time.perf_counter()
        total = sum(has.values())
        result = {"tokens_s": total / (end - begin),
                  "decode_s": (total - first[1]) / (end - first[0]),
                  "python": 1 - (in_library[0] - first[2]) / (end - first[0])
                  if job["profile"] else None}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
