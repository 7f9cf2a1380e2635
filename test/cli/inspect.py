#!/usr/bin/env python3
"""inspect.py - the output of `gallop inspect`, compared with the files of the checkpoint and
with arithmetic."""
import json
import os
import re
import shutil
import struct
import tempfile

from _cli import DEMO, ROOT, call, check, expect, run_all

GEMMA = os.path.join(ROOT, "test", "golden", "gemma3")
LEVELS = ["ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"]


def _inspect(*args):
    return json.loads(call("inspect", "--json", *args).stdout)


def _header(model):
    with open(os.path.join(model, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    header.pop("__metadata__", None)
    return header


def every_tensor_of_the_file_is_listed_as_it_is():
    for model in (DEMO, GEMMA):
        found = {t["name"]: (t["dtype"], t["shape"], t["bytes"])
                 for t in _inspect("-m", model)["tensors"]}
        expect(found, {n: (t["dtype"], t["shape"], t["data_offsets"][1] - t["data_offsets"][0])
                       for n, t in _header(model).items()}, f"tensors of {os.path.basename(model)}")
        for line in call("inspect", "-m", model).stdout.decode().splitlines():
            name = line.split(" ")[0]
            if name in found:
                check(re.search(rf"{found[name][0]} +{re.escape(json.dumps(found[name][1]))} ",
                                line), f"the line {line!r}")


def the_memory_of_guesses_is_shown():
    at = ("-m", DEMO, "--max-model-len", "1000", "--max-num-seqs", "4", "--speculative-config")
    suffix = _inspect(*at, '{"method":"suffix"}')["guesses"]
    check(4 * 1000 * 48 < suffix["lookup_bytes"] < 4 * 1000 * 56, f"56 bytes a token: {suffix}")
    expect([suffix["history_bytes"], suffix["draft_bytes"]], [64 << 20, 0], "history, draft")
    draft = _inspect(*at, json.dumps({"model": os.path.join(ROOT, "models", "demo-draft")}))["guesses"]
    check(draft["draft_bytes"] > 500000 and draft["draft_kv_bytes"] > 0, f"{draft}")
    expect([draft["lookup_bytes"], draft["history_bytes"]], [0, 0], "lookup, history")
    own = _inspect(*at, '{"method":"self"}')["guesses"]
    check(own["draft_bytes"] > 500000 and own["draft_kv_bytes"] == 0, f"{own}")
    r = call("inspect", *at, '{"method":"ngram"}')
    check(b"guesses: 0.2 MiB at most for the tokens of running sequences" in r.stdout, f"{r.stdout}")
    expect("guesses" in _inspect("-m", DEMO), False, "without speculative decoding")


def sizes_are_those_of_the_config():
    with open(os.path.join(DEMO, "config.json")) as f:
        c = json.load(f)
    o = _inspect("-m", DEMO)
    expect([o[k] for k in ("architecture", "model_type", "layers", "hidden", "heads",
                           "kv_heads", "intermediate", "vocab", "context")],
           [c["architectures"][0], c["model_type"], c["num_hidden_layers"], c["hidden_size"],
            c["num_attention_heads"], c["num_key_value_heads"], c["intermediate_size"],
            c["vocab_size"], c["max_position_embeddings"]], "sizes")
    elements = sum(t["bytes"] // 2 for t in o["tensors"])
    expect((o["parameters"], o["format"], o["dtype"]), (elements, "safetensors", "bf16"),
           "parameters, format, computing type")
    text = call("inspect", "-m", DEMO, "--threads", 1).stdout.decode()
    for words in (
            f"{o['layers']} layers, hidden {o['hidden']}, {o['heads']} heads ({o['kv_heads']} kv) of {o['head_dim']}",
            f"{elements / 1e6:.1f} M parameters", "computed in bf16 on 1 thread of"):
        check(words in text, f"the text lacks {words!r}: {text[:500]}")


def the_cache_s_bytes_are_rows_of_keys_and_values():
    for dtype, wide in (("fp32", 4), ("bf16", 2)):
        o = _inspect("-m", DEMO, "--kv-cache-dtype", dtype)
        row = 2 * o["layers"] * o["kv_heads"] * o["head_dim"] * wide
        expect((o["kv"]["dtype"], o["kv"]["bytes_per_token"], o["kv"]["bytes_32k"]),
               (dtype, row, row * 32768), f"rows in {dtype}")
        expect(o["kv"]["budget_bytes"], o["kv"]["tokens"] * row, f"budget in {dtype}")
    for kind in ("dynamic", "bmc", "slab_pool", "paged"):
        o = _inspect("-m", DEMO, "--kv-cache-type", kind)
        expect((o["kv"]["type"], "block" in o["kv"]), (kind, kind in ("slab_pool", "paged")),
               f"type and block of {kind}")
        check(f"KV cache {kind} in bf16" in call("inspect", "-m", DEMO, "--kv-cache-type",
                                                 kind).stdout.decode(), f"the text names {kind}")
    o = _inspect("-m", GEMMA)["kv"]
    check(o["bytes_32k"] < o["bytes_32k_without_windows"], f"windows save rows: {o}")
    check("without windows" in call("inspect", "-m", GEMMA).stdout.decode(),
          "the text says what windows save")
    o = _inspect("-m", DEMO, "--kv-sparse", "sink=4,window=64")["kv"]
    expect(o["sparse"], {"sink": 4, "window": 64}, "sparse rows")
    check("sparse: the first 4 and the last 64 rows" in call("inspect", "-m", DEMO, "--kv-sparse",
                                                             "sink=4,window=64").stdout.decode(),
          "the text says what a sparse cache keeps")


def schedulers_are_shown_as_what_they_come_to():
    for flags, want in (
            ((), (32, 512, "streams", 700, "fcfs", "optimistic")),
            (("--scheduler", "iterative"), (1, 512, "streams", 700, "fcfs", "optimistic")),
            (("--scheduler", "continuous_prefill_first", "--admission", "worst-case"),
             (32, 512, "prompts", 700, "fcfs", "worst-case")),
            (("--max-num-seqs", 600, "--max-num-batched-tokens", 2048, "--scheduling-policy",
              "fair", "--tpot-target-ms", 80), (600, 600, "streams", 80, "fair", "optimistic")),
            (("--max-num-seqs", 4, "--max-num-batched-tokens", 64),
             (4, 64, "streams", 700, "fcfs", "optimistic"))):
        o = _inspect("-m", DEMO, *flags)["scheduling"]
        expect(tuple(o[k] for k in ("requests_at_once", "rows_a_step", "first", "tpot_target_ms",
                                    "policy", "admission")), want, f"{flags}")
    text = call("inspect", "-m", DEMO, "--scheduler", "iterative").stdout.decode()
    check("one request at a time, its prompt in steps of up to 512 rows; policy fcfs" in text,
          f"the text of iterative: {text[:900]}")
    text = call("inspect", "-m", DEMO, "--scheduler", "continuous_prefill_first").stdout.decode()
    check(
        "32 requests at once, steps of up to 512 rows: prompts alone, then streams; policy fcfs, admission optimistic"
        in text, f"{text[:900]}")


def kernels_are_of_the_level_asked_for_or_below():
    best = _inspect("-m", DEMO)
    for level in ("ref", "avx2"):
        if LEVELS.index(level) > LEVELS.index(best["isa"]):
            continue
        o = _inspect("-m", DEMO, "--isa", level)
        expect(sorted(o["kernels"]), sorted(best["kernels"]), "names of kernels")
        check(len(o["kernels"]) > 15, f"{len(o['kernels'])} kernels")
        for name, k in o["kernels"].items():
            check(LEVELS.index(k["isa"]) <= LEVELS.index(level) and k["class"],
                  f"kernel {name} at level {level}: {k}")
        expect(o["isa"], level, "level")
        check(f"linears on {level} (" in call("inspect", "-m", DEMO, "--isa",
                                              level).stdout.decode(), f"the text names {level}")


def what_runs_for_a_backend_that_was_asked_for_is_told():
    best = _inspect("-m", DEMO)["operators"]
    expect({k: (o["asked"], o["backend"]) for k, o in best.items()},
           {k: ("auto", "gallop") for k in ("norm", "rope", "attention")}, "by default")
    for name, kind, asked, backend in (
            ("jit", "bmc", "jit", "gallop"), ("slab", "slab_pool", "slab", "gallop"),
            ("paged", "paged", "paged", "gallop"), ("paged", "slab_pool", "gallop", "gallop"),
            ("gallop", "dynamic", "gallop", "gallop"), ("native", "paged", "native", "native")):
        options = ["-m", DEMO, "--attention-backend", name, "--kv-cache-type", kind]
        r = call("inspect", "--json", *options)
        o = json.loads(r.stdout)["operators"]
        isa = "ref" if backend == "native" else best["attention"]["isa"]
        expect([o["attention"][k] for k in ("asked", "backend", "isa")], [asked, backend, isa],
               f"attention {name} with {kind}")
        expect(o["norm"], best["norm"], "norms stay as they were")
        # Then gallop is used.
        expect(b"does not support" in r.stderr, name != asked, f"a warning for {name} with {kind}")
        text = call("inspect", *options).stdout.decode()
        check(
            f"attention {backend}{f' (asked for as {asked})' if asked != backend else ''} on {isa} ("
            in text, text[:600])
    o = _inspect("-m", DEMO, "--op-config",
                 '{"norm_backend":"NATIVE","rope":"native"}')["operators"]
    expect({k: (x["asked"], x["backend"]) for k, x in o.items()},
           {"norm": ("native",) * 2, "rope": ("native",) * 2, "attention": ("auto", "gallop")},
           "what --op-config asks for")


def a_graph_has_the_operators_of_every_layer_in_the_order_of_the_model():
    layers = _inspect("-m", DEMO)["layers"]
    with open(os.path.join(DEMO, "config.json")) as f:
        config = json.load(f)
    for rows in (1, 16, 65536):
        lines = call("inspect", "-m", DEMO, "--graph", "--rows", str(rows)).stdout.decode().split("\n")
        nodes = [re.fullmatch(r"%(\d+) \[(\d+), (\d+)\] = (\w+)((?: %\d+)*)(?: .*)?", line)
                 for line in lines[:-2]]
        check(all(nodes), f"the lines {[a for a, b in zip(lines, nodes) if not b]}")
        expect([int(n[1]) for n in nodes], list(range(len(nodes))), "numbers of nodes")
        for n in nodes:
            check(all(int(x) < int(n[1]) for x in re.findall(r"%(\d+)", n[5])), f"inputs of {n[0]}")
        expect([n[4] for n in nodes],
               ["ids", "positions", "wanted", "embed"] + ["norm", "linear", "rope", "attn", "linear",
                                                          "add", "norm", "mlp", "add"] * (layers - 1)
               + ["norm", "linear", "rope", "attn", "linear", "add", "norm", "mlp", "rows", "rows",
                  "add", "norm", "logits"], "operators")
        expect(nodes[3][2], str(rows), "rows of the embedding")
        expect((nodes[-1][2], nodes[-1][3]), ("1", str(config["vocab_size"])), "shape of the logits")
        expect(lines[-2:], [f"result %{len(nodes) - 1}", ""], "the end")


def a_graph_in_json_has_the_same_nodes():
    lines = call("inspect", "-m", DEMO, "--graph", "--rows", "3").stdout.decode().split("\n")
    o = _inspect("-m", DEMO, "--graph", "--rows", "3")
    expect(len(o["nodes"]), len(lines) - 2, "number of nodes")
    for i, (n, line) in enumerate(zip(o["nodes"], lines)):
        parts = [f"%{i}", str(n["shape"]), "=", n["op"], *[f"%{k}" for k in n["in"]]]
        check(line.startswith(" ".join(parts)), f"{n} is {line}")
        check(all(w in line for w in n["weights"]), f"weights of {n}")
    expect(f"result %{o['result']}", lines[-2], "the result")
    attention = [n for n in o["nodes"] if n["op"] == "attn"]
    expect([n["layer"] for n in attention], list(range(len(attention))), "layers")
    r = call("inspect", "-m", DEMO, "--rows", "3", "--json")
    check(b"--rows changes nothing without --graph" in r.stderr, r.stderr)
    check("tensors" in json.loads(r.stdout), "the page without --graph")


def the_formats_of_answers_are_those_of_the_template():
    expect(_inspect("-m", DEMO)["markup"],
           {"tool_call_parser": None, "reasoning_parser": None, "tool_call_parser_from": "none",
            "reasoning_parser_from": "none"}, "formats of the demo")
    with tempfile.TemporaryDirectory() as where:
        for name in os.listdir(DEMO):
            if name != "tokenizer_config.json":
                shutil.copy(os.path.join(DEMO, name), where)
        with open(os.path.join(DEMO, "tokenizer_config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config["chat_template"] = (
            "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}<tool_call>"
            "{{ c.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}{# split('</think>') #}")
        with open(os.path.join(where, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        expect(_inspect("-m", where)["markup"],
               {"tool_call_parser": "hermes", "reasoning_parser": "qwen3",
                "tool_call_parser_from": "rendered", "reasoning_parser_from": "shown in the template"},
               "formats of a template")
        plain = "{% for m in messages %}{{ m.content }}{% endfor %}"
        config["chat_template"] = [{"name": "default", "template": plain}, {
            "name": "tool_use", "template": plain + "{{ tools }}{# <tool_call> arguments #}"}]
        with open(os.path.join(where, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        found = _inspect("-m", where)["markup"]
        expect((found["tool_call_parser"], found["tool_call_parser_from"]),
               ("hermes", "shown in the template"), "formats of the template for tools")
        config["response_template"] = {"start_anchor": "assistant: ", "fields": {
            "content": {}, "thinking": {"open": "[THINK]", "close": "[/THINK]"},
            "tool_calls": {"open": "<|tool_call_start|>", "close": "<|tool_call_end|>",
                           "content": "python-call-list"}}}
        with open(os.path.join(where, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        expect(_inspect("-m", where)["markup"],
               {"tool_call_parser": "lfm2", "reasoning_parser": "mistral",
                "tool_call_parser_from": "described in response_template",
                "reasoning_parser_from": "described in response_template"},
               "formats of a response_template")


def names_that_are_not_utf8_are_valid_json():
    with tempfile.TemporaryDirectory() as where:
        name = os.path.join(where, os.fsdecode(b"n\xffn"))
        o = _inspect("-m", DEMO, "--kv-store", name)
        check(o["kv"]["store"]["where"].endswith("n\ufffdn"), o["kv"])
        r = call("pack", "-m", DEMO, "-o", name + ".gallop", "--json")
        check(json.loads(r.stdout)["file"].endswith("n\ufffdn.gallop"), r.stderr)


run_all(list(globals().items()))
