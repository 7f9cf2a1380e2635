"""reference.py - answers of Gallop's own engine, to which those of vLLM with gallop-vllm are
compared."""
import os

from gallop._gallop import ffi, lib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DEMO = os.path.join(ROOT, "models", "demo")


def answers(prompts, model=DEMO, options=(), prompt_logprobs=-1, **sampling):
    """Returns for each prompt, a list of tokens, what the engine makes of it: "ids", "logprobs"
    (the chosen token's), "top" (lists of (id, logprob)), and "prompt" (a list of (id, logprob, rank,
    top) for each token of the prompt from the second on)."""
    err = ffi.new("char[]", lib.GALLOP_ERR_SIZE)
    alive = [ffi.new("char[]", model.encode())]
    o = ffi.new("struct gallop_options *")
    lib.gallop_options_init(o)
    o.model = alive[0]
    for name, value in dict(options).items():
        if isinstance(value, str):
            alive.append(ffi.new("char[]", value.encode()))
            value = alive[-1]
        setattr(o, name, value)
    g = ffi.new("struct gallop **")
    assert lib.gallop_open(g, o, err) == 0, ffi.string(err)
    results = {}
    for prompt in prompts:
        r = ffi.new("struct gallop_request *")
        lib.gallop_request_init(r)
        ids = ffi.new("int32_t[]", prompt)
        r.ids, r.n_ids, r.prompt_logprobs = ids, len(prompt), prompt_logprobs
        r.sampling.do_sample = 0
        for name, value in sampling.items():
            setattr(r.sampling, name, value)
        id = ffi.new("uint64_t *")
        assert lib.gallop_submit(g[0], r, id, err) == 0, ffi.string(err)
        results[id[0]] = {"ids": [], "logprobs": [], "top": [], "prompt": []}
    e = ffi.new("struct gallop_event *")
    while lib.gallop_next(g[0], e):
        got = results[e.request]
        top = [(e.top[i].id, e.top[i].logprob) for i in range(e.n_top)]
        if e.type == lib.GALLOP_TOKEN:
            got["ids"].append(e.token)
            got["logprobs"].append(e.logprob)
            got["top"].append(top)
        elif e.type == lib.GALLOP_PROMPT_TOKEN:
            got["prompt"].append((e.token, e.logprob, e.rank, top))
        elif e.type == lib.GALLOP_FINISHED:
            assert e.finish in (lib.GALLOP_FINISH_STOP, lib.GALLOP_FINISH_LENGTH)
    lib.gallop_close(g[0])
    return list(results.values())
