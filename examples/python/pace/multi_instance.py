#!/usr/bin/env python3
"""A model in each of several processes, which have cores of their own: multi_instance.py MODEL [N]

Each of the N instances (2) opens the model on its share of the cores, and all begin together.
"""

import os
import sys
import time

import torch
from transformers import AutoTokenizer

from gallop.pace.llm import KVCacheType, LLMModel, SamplingConfig
from gallop.pace.utils import MultipleProcesses, Worker

PROMPTS = ["Once upon a time", "The capital of Norway is", "hello", "She lived in a busy city"]
state = {}


def prepare(name):
    """Opens the model. Runs in the process of an instance, on its cores."""
    state["tokenizer"] = AutoTokenizer.from_pretrained(name)
    state["model"] = LLMModel(
        name, dtype=torch.bfloat16, kv_cache_type=KVCacheType.BMC, disable_tqdm=True
    )


def work(number):
    """Generates for one prompt. Runs in the process of an instance when all are started."""
    inputs = state["tokenizer"](PROMPTS[number % len(PROMPTS)], return_tensors="pt")
    begin = time.perf_counter()
    output = state["model"].generate(inputs, SamplingConfig(max_new_tokens=24, ignore_eos=True))
    seconds = time.perf_counter() - begin
    text = state["tokenizer"].decode(output.output_token_ids[0], skip_special_tokens=True)
    print("instance %d: %s" % (number, text.replace("\n", " ")), flush=True)
    print("instance %d: %.3f s" % (number, seconds), file=sys.stderr)


def main(name, n="2"):
    n, cores = int(n), sorted(os.sched_getaffinity(0))
    shares = [cores[i * len(cores) // n : (i + 1) * len(cores) // n] or cores for i in range(n)]
    workers = [Worker(i, shares[i], prepare, (name,), work, (i,)) for i in range(n)]
    processes = MultipleProcesses(workers)
    processes.run()
    processes.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
