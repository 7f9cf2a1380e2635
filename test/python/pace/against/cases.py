"""Calls of AMD PACE's API whose results are compared: cases.py MODULE MODEL DRAFT OUT [IDS]

Writes a JSON object to the file OUT: the name of each case, and its result or its exception and
text. MODULE is `pace` or `gallop.pace`. With IDS, a JSON list of prompts, it writes the
log-probabilities of the token behind each of them, in float32.
"""

import contextlib
import importlib
import io
import json
import sys

import torch
from transformers import AutoTokenizer, BatchEncoding

MODULE, MODEL, DRAFT, OUT = sys.argv[1:5]
llm = importlib.import_module(MODULE + ".llm")
attention = importlib.import_module(MODULE + ".llm.attention")
Sampling, Cache = llm.SamplingConfig, llm.KVCacheType
tokenizer = AutoTokenizer.from_pretrained(MODEL)
tokenizer.padding_side = "left"

PROMPTS = [
    "Once upon a time",
    "<|user|>What is 27 + 15?<|end|><|assistant|>",
    "<|user|>What is the capital of Norway?<|end|><|assistant|>",
    "<|user|>Tell me a story about a shy fox named Ruby.<|end|><|assistant|>",
    "<|user|>What is the opposite of early?<|end|><|assistant|>",
    "The capital of",
    "She lived in a busy city",
    "hello",
]

CASES = {}
models = {}


def case(name):
    """Registers a function as a case."""

    def register(function):
        CASES[name] = function
        return function

    return register


def model(dtype="float32", cache="BMC", draft=False):
    """Returns an open model; each is opened once."""
    key = (dtype, cache, draft)
    if key not in models:
        spec = llm.PardSpecDecodeConfig(DRAFT, num_speculative_tokens=4) if draft else None
        models[key] = llm.LLMModel(
            MODEL, None, getattr(torch, dtype), Cache[cache], spec, None, True
        )
    return models[key]


def encode(texts):
    return tokenizer(texts, return_tensors="pt", padding="longest")


def ids(prompt, m=None, **values):
    """Returns the ids that a call of generate() gives."""
    values.setdefault("max_new_tokens", 32)
    return (m or model()).generate(prompt, Sampling(**values)).output_token_ids.tolist()


for number, text in enumerate(PROMPTS):
    for dtype in ("float32", "bfloat16"):
        CASES["ids %s %d" % (dtype, number)] = lambda t=text, d=dtype: ids(encode([t]), model(d))
for cache in ("DYNAMIC", "BMC", "SLAB_POOL", "PAGED"):
    CASES["cache " + cache] = lambda c=cache: ids(encode(PROMPTS[:4]), model(cache=c))

case("left-padded batch")(lambda: ids(encode(PROMPTS)))
case("batch by its pad tokens")(lambda: ids(encode(PROMPTS).input_ids))
case("int32")(lambda: ids(encode(PROMPTS[:1]).input_ids.int(), max_new_tokens=4))
case("ignore_eos")(lambda: ids(encode(PROMPTS[1:2]), ignore_eos=True))
case("min_new_tokens")(lambda: ids(encode(PROMPTS[1:2]), min_new_tokens=20))
case("minimum above maximum")(lambda: ids(encode(PROMPTS[:1]), max_new_tokens=3, min_new_tokens=9))
case("end token of the user")(lambda: ids(encode(PROMPTS[:1]), eos_token_id=746))
case("end tokens of the user")(lambda: ids(encode(PROMPTS[:1]), eos_token_id=[311, 746]))
case("pad token of the user")(lambda: ids(encode(PROMPTS[:2]), pad_token_id=7))
case("repetition_penalty")(lambda: ids(encode(PROMPTS[:1]), repetition_penalty=1.3))
case("frequency_penalty")(lambda: ids(encode(PROMPTS[:1]), frequency_penalty=0.7))
case("temperature 0 with do_sample")(
    lambda: ids(encode(PROMPTS[:1]), do_sample=True, temperature=0.0)
)
case("one candidate")(lambda: ids(encode(PROMPTS[:1]), do_sample=True, top_k=1))
case("top_p 0")(lambda: ids(encode(PROMPTS[:1]), do_sample=True, top_p=0.0))
case("length of the context")(
    lambda: ids(torch.tensor([[1, 435, 499, 262, 409, 366] * 170]), max_new_tokens=50)
)
case("no sampling config")(lambda: model().generate(encode(PROMPTS[:1])).output_token_ids.tolist())
case("text")(
    lambda: model()
    .generate(encode(PROMPTS[:2]), Sampling(max_new_tokens=16, return_text=True))
    .decoded_text
)

for stop in (" cheer", [" Nora", " girl"], " there", "upon", "time th", "e", "zzz", ". Her"):
    CASES["stop_strings %r" % stop] = lambda s=stop: ids(encode(PROMPTS[:1]), stop_strings=s)


@case("stop string below min_new_tokens")
def _():
    return ids(encode(PROMPTS[:1]), stop_strings=[" a ch", " girl"], min_new_tokens=5)


def rounded(array, digits=3):
    """Returns nested lists of rounded numbers; those of tokens that were removed are -1000."""
    return [[round(x, digits) for x in row] for row in array.clamp(min=-1000.0).tolist()]


def distributions(**values):
    """Returns the likeliest tokens of each step with their probabilities, and counts of others."""
    config = Sampling(max_new_tokens=3, return_probs=True, return_logprobs=True, **values)
    out = model().generate(encode(PROMPTS[:1]), config)
    probs, logprobs = (x.reshape(3, -1) for x in (out.probs, out.logprobs))
    counts = (probs > 0).sum(-1).tolist()
    best = probs.argmax(-1).tolist()
    top = logprobs.topk(min(3, *counts)).values
    return [counts, best, rounded(top), rounded(probs.topk(3).values), list(out.probs.shape)]


for values in (
    {},
    {"temperature": 0.5},
    {"top_k": 3},
    {"top_p": 0.5},
    {"min_p": 0.3},
    {"temperature": 2.0, "top_k": 50, "top_p": 0.9, "min_p": 0.01},
    {"repetition_penalty": 2.0},
    {"frequency_penalty": 1.0, "min_new_tokens": 3},
    {"do_sample": True, "top_k": 1},
):
    CASES["distributions %r" % values] = lambda v=values: distributions(**v)


@case("input_logprobs of a batch")
def _():
    batch = encode(PROMPTS[:2])
    out = model().generate(batch, Sampling(max_new_tokens=1, return_input_logprobs=True))
    rows = [row[mask.bool()] for row, mask in zip(out.input_logprobs, batch.attention_mask)]
    return [list(out.input_logprobs.shape)] + [rounded(row[:, :50], 2) for row in rows]


@case("input_logprobs of a paged cache")
def _():
    config = Sampling(max_new_tokens=1, return_input_logprobs=True)
    out = model(cache="PAGED").generate(encode(PROMPTS[:2]), config).input_logprobs
    return [list(out.shape), rounded(out[0, :, 7:99:9], 2)]


class Recorder:
    def __init__(self):
        self.calls = []

    def put(self, value):
        self.calls.append([str(value.dtype), value.tolist()])

    def end(self):
        self.calls.append("end")


@case("streamer, one row")
def _():
    streamer = Recorder()
    model().generate(encode(PROMPTS[:1]), Sampling(max_new_tokens=5), streamer)
    return streamer.calls


@case("streamer, two rows")
def _():
    streamer = Recorder()
    model().generate(encode(PROMPTS[:2]), Sampling(max_new_tokens=16), streamer)
    return streamer.calls


@case("text streamer")
def _():
    from transformers import TextStreamer

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        streamer = TextStreamer(tokenizer, skip_special_tokens=True)
        model().generate(encode(PROMPTS[:1]), Sampling(max_new_tokens=12), streamer)
    # Lines of the log go to standard output, too.
    return [line for line in out.getvalue().splitlines() if " pace-llm : " not in line]


@case("text streamer, two rows")
def _():
    from transformers import TextIteratorStreamer

    model().generate(
        encode(PROMPTS[:2]), Sampling(max_new_tokens=2), TextIteratorStreamer(tokenizer)
    )


# PACE may give more than max_new_tokens with a draft; Gallop never does.
case("draft")(lambda: ids(encode(PROMPTS[:1]), model(draft=True))[0][:36])
case("draft, batch")(lambda: ids(encode(PROMPTS[:2]), model(draft=True)))
case("draft, sampling")(lambda: ids(encode(PROMPTS[:1]), model(draft=True), do_sample=True))
case("right padding")(
    lambda: ids(
        BatchEncoding(
            {"input_ids": torch.tensor([[1, 5, 0]]), "attention_mask": torch.tensor([[1, 1, 0]])}
        )
    )
)
for bad in (
    {"max_new_tokens": 1.5},
    {"max_new_tokens": 0},
    {"min_new_tokens": -1},
    {"temperature": -1.0},
    {"top_k": -1},
    {"top_p": 2.0},
    {"min_p": -0.1},
    {"repetition_penalty": 0.0},
    {"frequency_penalty": float("inf")},
):
    CASES["refused %r" % bad] = lambda b=bad: ids(encode(PROMPTS[:1]), **b)
case("prompt of another kind")(lambda: ids(5))
case("config of another kind")(lambda: model().generate(encode(PROMPTS[:1]), {"top_k": 3}))
case("float16")(lambda: llm.LLMModel(MODEL, dtype=torch.float16))
case("int8")(lambda: llm.LLMModel(MODEL, dtype=5))
case("cache of another name")(lambda: Cache.get_kv_cache_type("pool"))


@case("config text")
def _():
    # One explicit key: a set of several has no order.
    return str(Sampling(stop_strings="x"))


@case("operator config")
def _():
    config = llm.OperatorConfig(**{llm.LLMOperatorType.MLP: 5})
    config.finalize(Cache.BMC)


@case("operator config, attention of another kind")
def _():
    config = llm.OperatorConfig(**{llm.LLMOperatorType.Attention: llm.LLMBackendType.IMBPS})
    config.finalize(Cache.BMC)


@case("operator config without a cache type")
def _():
    config = llm.OperatorConfig()
    return [config.finalize() is config, str(config.attention)]


@case("operator config, twice")
def _():
    config = llm.OperatorConfig(**{llm.LLMOperatorType.MLP: llm.LLMBackendType.JIT})
    config.finalize(Cache.SLAB_POOL)
    names = ("qkv_projection", "rope", "attention", "out_projection", "mlp", "norm", "lm_head")
    shown = [str(getattr(config, name)) for name in names]
    try:
        config.finalize(Cache.BMC)
    except AssertionError as e:
        return shown + [str(e)]


@case("draft config text")
def _():
    return str(llm.PardSpecDecodeConfig("x", 3))


def logprobs_behind(prompt):
    """Returns the log-probabilities of the token behind PROMPT, a list of ids, in float32."""
    config = Sampling(max_new_tokens=1, return_input_logprobs=True)
    return model().generate(torch.tensor([prompt]), config).input_logprobs[0, -1].tolist()


def results():
    """Returns the result of every case."""
    found = {}
    for name, function in CASES.items():
        try:
            found[name] = function()
        except Exception as e:
            found[name] = [type(e).__name__, str(e)]
    return found


if __name__ == "__main__":
    if len(sys.argv) > 5:
        output = [logprobs_behind(prompt) for prompt in json.loads(sys.argv[5])]
    else:
        output = results()
    with open(OUT, "w") as f:
        json.dump(output, f)
