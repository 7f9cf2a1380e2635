"""vLLM on small checkpoints of other kinds than the bundled model: layers with windows, folders of
GPTQ, AWQ and compressed-tensors, and GGUF files. Greedy tokens are those of Gallop's engine, or the
checkpoint is refused by name."""
import json
import os
import random
import shutil
import sys

import pytest
from reference import DEMO, ROOT, answers
from vllm import LLM, SamplingParams

sys.path.insert(0, os.path.join(ROOT, "test", "cli"))
import _cli  # noqa: E402

_cli.run_all = lambda tests: None  # The module below ends with its tests.
import quantised  # noqa: E402

random.seed(3)
PROMPTS = [[random.randrange(3, 150) for _ in range(n)] for n in (30, 71, 44, 60, 17)]
PROMPTS.append(PROMPTS[1][:50] + [9])  # begins with whole blocks of another
N = 16


def golden(name):
    return os.path.join(ROOT, "test", "golden", name)


def tokens(model, **options):
    llm = LLM(model, skip_tokenizer_init=True, max_num_seqs=3, async_scheduling=False,
              **{"max_model_len": 96, "max_num_batched_tokens": 16, **options})
    try:
        params = SamplingParams(max_tokens=N, temperature=0, ignore_eos=True, detokenize=False)
        outputs = llm.generate([{"prompt_token_ids": p} for p in PROMPTS], params, use_tqdm=False)
        return [list(o.outputs[0].token_ids) for o in outputs]
    finally:
        llm.llm_engine.engine_core.shutdown()


def expected(model):
    return [a["ids"] for a in answers(PROMPTS, model=model, max_new_tokens=N, ignore_eos=1)]


@pytest.mark.parametrize("gallop", [{}, {"mode": "slots"}], ids=["blocks", "slots"])
@pytest.mark.parametrize("name", ["mistral", "qwen2-window", "gemma3"])
def test_windows_see_what_they_see_in_the_engine(name, gallop):
    size = {} if gallop else {"block_size": 16}
    assert tokens(golden(name), additional_config={"gallop": gallop}, **size) == expected(
        golden(name))


@pytest.mark.parametrize("form", ["gptq", "awq", "compressed-zeros", "w8a8"])
def test_quantized_folders_are_read(form):
    model = quantised._make(form)[0]
    assert tokens(model) == expected(model)


def test_a_gguf_file_gives_the_weights_of_a_folder():
    """vLLM reads config.json, and Gallop the file."""
    file = os.path.join(ROOT, "test", "data", "gguf", "qwen2.gguf")
    assert tokens(golden("qwen2"), additional_config={"gallop": {"model": file}}) == expected(file)


def test_a_file_of_another_model_is_refused():
    file = os.path.join(ROOT, "test", "data", "gguf", "qwen2.gguf")
    for model in (golden("mistral"), DEMO):
        with pytest.raises(Exception, match="it is another model"):
            tokens(model, additional_config={"gallop": {"model": file}})


def test_formats_that_cannot_be_read_are_refused_by_name(tmp_path):
    for method, more in (("fp8", {"activation_scheme": "dynamic"}), ("gptq", {"bits": 3})):
        folder = tmp_path / method
        shutil.copytree(golden("qwen2"), folder)
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] = {"quant_method": method, "group_size": 32,
                                         "desc_act": False, "sym": True, **more}
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(Exception, match="fp8" if method == "fp8" else "bits"):
            tokens(str(folder))
