#!/usr/bin/env python3
"""Text as it is generated, with AMD PACE's API: streamer.py MODEL [PROMPT]"""

import sys

import torch
from transformers import AutoTokenizer, TextStreamer

from gallop.pace.llm import KVCacheType, LLMModel, SamplingConfig


def main(name, prompt="Once upon a time"):
    tokenizer = AutoTokenizer.from_pretrained(name)
    inputs = tokenizer(prompt, return_tensors="pt")
    model = LLMModel(name, dtype=torch.bfloat16, kv_cache_type=KVCacheType.BMC)
    streamer = TextStreamer(tokenizer, skip_prompt=False, skip_special_tokens=True)
    model.generate(inputs, SamplingConfig(max_new_tokens=32, do_sample=False), streamer)


if __name__ == "__main__":
    main(*sys.argv[1:])
