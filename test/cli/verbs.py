#!/usr/bin/env python3
"""verbs.py - the program from outside: exit statuses, streams, JSON keys, messages. Standard
library only; GALLOP_BIN names it."""
import json
import os
import tempfile

from _cli import DEMO, ROOT, call, check, lines, run_all


def usage_is_2_and_a_failure_is_1():
    check(call().returncode == 2, "no verb")
    check(call("frobnicate").returncode == 2, "unknown verb")
    check(call("run", "-m", DEMO, stdin=b"").returncode == 2, "run without a prompt")
    check(call("run", "-m", DEMO, "--temperature", "warm", "x").returncode == 2, "a bad number")
    check(call("--help").returncode == 0, "--help")
    check(call("run", "--help").returncode == 0, "run --help")
    r = call("run", "-m", "/nowhere/at/all", "x")
    check(r.returncode == 1 and b"/nowhere/at/all" in r.stderr and not r.stdout,
          "a folder that is not there")


def run_prints_text_and_json_of_the_contract():
    r = call("run", "-m", DEMO, "-n", 8, "Once upon a time")
    check(r.returncode == 0 and r.stdout.endswith(b"\n") and len(r.stdout) > 8, "run prints text")
    o = lines(call("run", "-m", DEMO, "-n", 8, "--json", "--logprobs", 2, "Once upon a time"))
    check(len(o) == 1, "one object")
    o = o[0]
    for key in ("index", "prompt_ids", "output_ids", "text", "finish_reason", "stop_reason",
                "logprobs", "timing"):
        check(key in o, "key " + key)
    check(o["text"] == r.stdout.decode()[:-1], "the same text with and without --json")
    check(o["finish_reason"] == "length" and o["stop_reason"] is None, "finish reason")
    check(len(o["output_ids"]) == 8 and len(o["logprobs"]) == 8 and len(o["logprobs"][0]["top"])
          == 2, "lengths")
    check(set(o["timing"]) == {"load_s", "prefill_s", "decode_s", "prompt_tokens", "output_tokens"},
          "timing keys")
    check(o["logprobs"][0]["top"][0] == [o["logprobs"][0]["id"], o["logprobs"][0]["logprob"]],
          "greedy takes the likeliest")


def a_backend_that_does_not_serve_the_cache_is_replaced_with_one_warning():
    serves = {"jit": ("dynamic", "bmc"), "slab": ("slab_pool",), "paged": ("paged",)}
    every = ("dynamic", "bmc", "slab_pool", "paged")
    for backend in ("auto", "gallop", "native", *serves):
        for kind in every:
            r = call("run", "-m", DEMO, "-n", 1, "--attention-backend", backend, "--kv-cache-type",
                     kind, "x")
            said = [x for x in r.stderr.decode().splitlines() if "attention backend" in x]
            want = 0 if kind in serves.get(backend, every) else 1
            check(r.returncode == 0 and len(said) == want, f"{backend} on {kind}: {said}")
            check(all(backend in x and kind in x for x in said),
                  f"{backend} on {kind}: the warning names both")
    r = call("run", "-m", DEMO, "-n", 1, "--op-config", '{"attention":"slab"}', "--kv-cache-type",
             "paged", "x")
    check(b"attention backend slab" in r.stderr, "what --op-config says of attention counts")
    r = call("run", "-m", DEMO, "--attention-backend", "flash", "x")
    check(r.returncode != 0 and b"flash" in r.stderr, "an unknown backend is an error")


def caches_without_windows_or_splits_are_spoken_of_as_they_are():
    gemma = os.path.join(ROOT, "test", "golden", "gemma3")
    for kind in ("dynamic", "bmc", "slab_pool", "paged"):
        kv = json.loads(call("inspect", "-m", gemma, "--json", "--kv-cache-type",
                             kind).stdout)["kv"]
        check((kv["bytes_32k"] == kv["bytes_32k_without_windows"]) == (kind in ("dynamic", "bmc")),
              f"bytes of 32k in {kind}")
        r = call("run", "-m", DEMO, "-n", 1, "--kv-cache-type", kind, "x",
                 env={"GALLOP_BMC_SPLITS": "2000"})
        check((r.returncode != 0) == (kind == "bmc"), f"more splits than positions in {kind}")
    for splits, good in ((64, True), (65, False)):
        r = call("run", "-m", DEMO, "-n", 1, "--kv-cache-type", "bmc", "--max-model-len", 64,
                 "--bmc-splits", splits, "x")
        check((r.returncode == 0) == good, f"{splits} splits of 64 positions: {r.stderr}")


def a_stop_string_is_cut_and_named():
    o = lines(call("run", "-m", DEMO, "-n", 60, "--json", "Once upon a time"))[0]
    word = o["text"].split()[5]
    s = lines(call("run", "-m", DEMO, "-n", 60, "--json", "--stop", word, "Once upon a time"))[0]
    check(s["finish_reason"] == "stop" and s["stop_reason"] == word, "stop reason")
    check(word not in s["text"] and o["text"].startswith(s["text"]),
          "the text in front of it stays")


def one_bad_request_leaves_the_others_alone():
    good = {"ids": [5, 6, 7], "max_new_tokens": 4, "ignore_eos": True}
    bad = [{"ids": [5, 10**6]}, {"ids": []}, {"prompt": "x", "temperature": "hot"},
           {"prompt": "x", "colour": 1}, {"ids": [9] * 5000}]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.write("\n".join(json.dumps(x) for x in [good, *bad, good]))
        f.flush()
        r = call("run", "-m", DEMO, "--greedy", "--json", "--batch", f.name)
    o = lines(r)
    check(r.returncode == 1 and [x["index"] for x in o] == list(range(7)),
          "answers in input order, exit status 1")
    check(all("error" in x for x in o[1:6]) and "error" not in o[0], "the bad ones say why")
    check(o[0]["output_ids"] == o[6]["output_ids"] and len(o[0]["output_ids"]) == 4,
          "the good ones are served")
    check("outside the vocabulary" in o[1]["error"] and "empty" in o[2]["error"]
          and "colour" in o[4]["error"], "sentences")


def a_seed_repeats_and_another_differs():
    args = ["run", "-m", DEMO, "-n", 30, "--do-sample", "--temperature", "1.2", "--json",
            "Once upon a time"]
    a, b, c = (lines(call(*args, "--seed", s))[0]["output_ids"] for s in (1, 1, 2))
    check(a == b and a != c, "seeds")


def the_context_that_cuts_an_answer_is_announced():
    r = call("run", "-m", DEMO, "--max-model-len", 16, "--ignore-eos", "-n", 100, "--ids",
             "5,6,7,8")
    check(r.returncode == 0 and b"context of 16" in r.stderr, "announced")


def tokenize_goes_there_and_back():
    text = "Once upon a time, caf\u00e9 \U0001f600!"
    ids = lines(call("tokenize", "-m", DEMO, "--json", "--no-special", text))[0]["ids"]
    back = lines(call("tokenize", "-m", DEMO, "--decode", "--json", "--ids",
                      ",".join(map(str, ids))))[0]["text"]
    check(back == text, "text -> ids -> text")
    pieces = lines(call("tokenize", "-m", DEMO, "--decode", "--stream", "--batch", "/dev/stdin",
                        stdin=json.dumps({"ids": ids}).encode()))[0]["pieces"]
    check("".join(pieces) == text and len(pieces) == len(ids), "streamed pieces")


def render_chat_and_inspect_speak_json():
    messages = json.dumps([{"role": "user", "content": "Hello"}]).encode()
    r = call("render", "-m", DEMO, "--messages", "/dev/stdin", stdin=messages)
    check(r.returncode == 0 and b"Hello" in r.stdout and not r.stdout.endswith(b"\n\n"), "render")
    o = lines(call("inspect", "-m", DEMO, "--json"))[0]
    check(o["architecture"] == "LlamaForCausalLM" and o["kv"]["bytes_per_token"] > 0, "inspect")
    check(all({"name", "dtype", "shape", "file"} <= set(t) for t in o["tensors"]), "every tensor")
    r = call("chat", "-m", DEMO, "--greedy", "-n", 20, stdin=b"Hello\n/stats\n/quit\n")
    check(r.returncode == 0 and len(r.stdout) > 10, "a piped conversation")


def parse_separates_lists_and_detects():
    tools = [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"n": {"type": "integer"}}}}}]
    text = "Well.\n<function=f>\n<parameter=n>\n7\n</parameter>\n</function>"
    spoken = [["<tool_call>", False], ["{\"name\": \"f\"} ", False], ["<tool_call>", True],
              ["{\"name\": \"f\"}", False]]
    answers = [{"text": text, "tools": tools},
               {"text": text[:-20], "tools": tools, "finish": "length"}]
    batch = "\n".join(map(json.dumps, answers)).encode()
    want = {"content": "Well.", "reasoning": None, "finish_reason": "tool_calls",
            "tool_calls": [{"name": "f", "arguments": "{\"n\": 7}"}]}
    for more in ([], ["--stream", 1], ["--stream", 5]):
        o = lines(call("parse", "--tool-call-parser", "qwen3_xml", "--batch", "/dev/stdin", *more,
                       stdin=batch))
        check(o[0] == want and o[1]["finish_reason"] == "length", f"an answer {more}")
    o = lines(call("parse", "--tool-call-parser", "hermes", "--batch", "/dev/stdin",
                   stdin=json.dumps({"pieces": spoken, "tools": tools}).encode()))[0]
    check(o["content"].startswith("<tool_call>") and len(o["tool_calls"]) == 1, "a mark that is spoken of")
    one = "<invoke name=\"f\">\n<parameter name=\"n\">7</parameter>\n</invoke>\n"
    text = f"<minimax:tool_call>\n{one}</minimax:tool_call> and {one}"
    more = [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "additionalProperties": {"type": "integer"}}}}]
    o = lines(call("parse", "--tool-call-parser", "minimax_m2", "--batch", "/dev/stdin",
                   stdin=json.dumps({"text": text, "tools": more}).encode()))[0]
    check((o["content"].strip(), o["tool_calls"]) == (f"and {one}".strip(), [
        {"name": "f", "arguments": "{\"n\": 7}"}]), f"a call, and its marks in the text behind it: {o}")
    o = lines(call("parse", "--reasoning-parser", "qwen3", stdin=b"<think>a</think>b"))[0]
    check(o["reasoning"] == "a" and o["content"] == "b", "standard input")
    o = lines(call("parse", "--list", "--json"))[0]
    check({"hermes", "qwen3_coder"} <= {r["name"] for r in o["tool_call_parsers"]}, "the list")
    template = ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls %}"
                "<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
                "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}")
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
        f.write(template)
        f.flush()
        o = lines(call("parse", "--detect", "--chat-template", f.name))[0]
    check(o["tool_call_parser"] == "hermes" and o["tool_call_parser_from"] == "rendered", "the template")
    r = call("parse", "--tool-call-parser", "none such", stdin=b"")
    check(r.returncode == 2 and b"none such" in r.stderr, "a wrong name")


def caches_differ_in_nothing_but_place():
    def ids(*more):
        return lines(call("run", "-m", DEMO, "--json", "-n", 24, *more,
                          "Once upon a time"))[0]["output_ids"]

    want = ids()
    for more in (["--kv-cache-type", "dynamic"], ["--kv-cache-type", "bmc", "--bmc-splits", 3],
                 ["--kv-cache-type", "paged", "--block-size", 16], ["--kv-cache-memory", 0.01],
                 ["--kv-cache-layout", "head_major", "--block-size", 32]):
        check(ids(*more) == want, f"tokens with {more}")
    kv = lines(call("inspect", "-m", DEMO, "--json", "--kv-cache-type", "paged", "--block-size",
                    32))[0]["kv"]
    check(kv["type"] == "paged" and kv["block"] == 32 and kv["layout"] == "block_major",
          "inspect tells the cache")
    check(kv["bytes_32k"] == 32768 * kv["bytes_per_token"] == kv["bytes_32k_without_windows"],
          "bytes of 32k")
    gemma = os.path.join(ROOT, "test", "golden", "gemma3")
    kv = lines(call("inspect", "-m", gemma, "--json"))[0]["kv"]
    check(kv["bytes_32k"] < kv["bytes_32k_without_windows"] / 2, "bytes of 32k with windows")
    # 2 of the 6 layers use the rows of others.
    gemma = os.path.join(ROOT, "test", "golden", "gemma4")
    kv = lines(call("inspect", "-m", gemma, "--json", "--dtype", "bf16"))[0]["kv"]
    check(kv["layers"] == 4 and kv["bytes_per_token"] == 4 * 2 * 32 * 2,
          "bytes where layers share rows")
    check(b"(4 of 6 layers store)" in call("inspect", "-m", gemma).stdout,
          "inspect tells which store")
    r = call("run", "-m", DEMO, "--kv-cache-memory", 500000, "x")
    check(r.returncode == 1 and b"do not fit" in r.stderr and b"--kv-cache-memory" in r.stderr,
          "too large a cache")
    check(call("run", "-m", DEMO, "--kv-cache-type", "heap", "x").returncode == 2,
          "an unknown cache")
    check(call("run", "-m", DEMO, "--block-size", 8, "x").returncode == 2, "a block out of range")
    r = call("run", "-m", DEMO, "--block-size", 48, "x")
    check(r.returncode == 2 and b"48" in r.stderr, "a block that is no power of two")


def sparse_caches_are_never_silent():
    def run(*more, **kw):
        return call("run", "-m", DEMO, "-n", 60, *more, "Once upon a time", **kw)

    want = run()
    r = run("--kv-sparse", "sink=4,window=1000")
    check(r.stdout == want.stdout and r.stderr.count(b"\n") == 1 and b"kv_sparse" in r.stderr,
          "one remark")
    check(run("--kv-sparse", "sink=1,window=8").stdout != want.stdout, "another text")
    r = run("--quiet", env={"GALLOP_KV_SPARSE": "sink=1,window=8"})
    check(r.stdout != want.stdout and r.stderr == b"", "from the environment")
    for spec in ("", "4", "sink=4", "sink=4,window=0", "sink=-1,window=8", "window=8",
                 "sink=4,window=8,"):
        r = run("--kv-sparse", spec)
        check(r.returncode == 2 and b"sink=N,window=N" in r.stderr and r.stderr.count(b"\n") == 1,
              f"spec {spec!r}")
    kv = lines(call("inspect", "-m", DEMO, "--json", "--kv-sparse", "sink=4,window=256"))[0]["kv"]
    check(kv["sparse"] == {"sink": 4, "window": 256}, "inspect tells it")
    check(kv["bytes_32k"] == 260 * kv["bytes_per_token"], "bytes of 32k")
    gpt2 = os.path.join(ROOT, "test", "golden", "gpt2")
    r = call("run", "-m", gpt2, "--kv-sparse", "sink=4,window=8", "--ids", "1,2")
    check(r.returncode == 1 and b"learned" in r.stderr, "positions that are learned")


def synth_writes_what_opens():
    with tempfile.TemporaryDirectory() as d:
        m = os.path.join(d, "m")
        check(call("synth", "smollm2-135m", "--layers", 1, "-o", m).returncode == 0, "synth")
        check(call("run", "-m", m, "-n", 2, "--ids", "1,2,3").returncode == 0, "and runs")


def ppl_counts_what_it_scores():
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("Once upon a time there was a little fox. " * 20)
        f.flush()
        o = lines(call("ppl", "-m", DEMO, "--file", f.name, "--ctx", 64, "--kl", "--json"))[0]
    check(o["tokens"] > 100 and o["ppl"] > 1 and 0 <= o["kl_mean"] < 0.05 and 0 < o["top1_agree"]
          <= 1, "ppl --kl")


run_all(list(globals().items()))
