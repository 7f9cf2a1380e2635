#!/usr/bin/env python3
"""A batch of prompts with AMD PACE's API: basic.py MODEL [PROMPT...]

Needs torch and transformers, as PACE does. With the distribution pace-gallop, `import pace` and
`from pace.llm import ...` serve in place of the imports below.
"""

import sys

import torch
from transformers import AutoTokenizer

import gallop.pace as pace
from gallop.pace.llm import (
    KVCacheType,
    LLMBackendType,
    LLMModel,
    LLMOperatorType,
    OperatorConfig,
    SamplingConfig,
)
from gallop.pace.llm.attention import AttentionBackendType


def main(name, *prompts):
    prompts = list(prompts) or ["Once upon a time", "The capital of Norway is"]
    tokenizer = AutoTokenizer.from_pretrained(name)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    inputs = tokenizer(prompts, return_tensors="pt", padding="longest")

    operators = OperatorConfig(
        **{
            LLMOperatorType.Norm: LLMBackendType.NATIVE,
            LLMOperatorType.QKVProjection: LLMBackendType.TPP,
            LLMOperatorType.Attention: AttentionBackendType.JIT,
            LLMOperatorType.OutProjection: LLMBackendType.TPP,
            LLMOperatorType.MLP: LLMBackendType.TPP,
            LLMOperatorType.LMHead: LLMBackendType.TPP,
        }
    )
    model = LLMModel(name, dtype=torch.bfloat16, kv_cache_type=KVCacheType.BMC, opconfig=operators)
    config = SamplingConfig(max_new_tokens=32, do_sample=False, random_seed=123, return_text=True)
    output = model.generate(inputs, config)

    pace.core.pace_logger(2, "generated %d tokens" % output.output_token_ids.numel())
    for text in output.decoded_text:
        print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
