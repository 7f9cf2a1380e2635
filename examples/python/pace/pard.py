#!/usr/bin/env python3
"""Speculative decoding with AMD PACE's API: pard.py MODEL DRAFT [PROMPT]

DRAFT is a model that guesses several tokens in one pass (PARD), such as models/demo-pard.
"""

import sys
import time

import torch
from transformers import AutoTokenizer

from gallop.pace.llm import KVCacheType, LLMModel, PardSpecDecodeConfig, SamplingConfig


def main(name, draft, prompt="Once upon a time"):
    tokenizer = AutoTokenizer.from_pretrained(name)
    inputs = tokenizer(prompt, return_tensors="pt")
    model = LLMModel(
        name,
        dtype=torch.bfloat16,
        kv_cache_type=KVCacheType.BMC,
        spec_config=PardSpecDecodeConfig(model_name_or_path=draft, num_speculative_tokens=4),
    )
    begin = time.perf_counter()
    output = model.generate(inputs, SamplingConfig(max_new_tokens=32, do_sample=False))
    seconds = time.perf_counter() - begin
    print(tokenizer.decode(output.output_token_ids[0], skip_special_tokens=True))
    stats = output.speculative_stats
    print(
        "%d tokens in %.3f s, %.2f tokens a step"
        % (stats.total_speculated_tokens, seconds, stats.mean_accepted_tokens),
        file=sys.stderr,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
