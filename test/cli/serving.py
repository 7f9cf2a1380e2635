#!/usr/bin/env python3
"""serving.py - loads of many requests from outside: `bench --serve` and `simulate`, traces in
each format, batches whose lines have priorities, keys and salts. Standard library only;
GALLOP_BIN names the program."""
import json
import math
import os
import tempfile

from _cli import DEMO, ROOT, call, check, expect, expect_error, lines, run_all

SIM = ["simulate", "--shape", "llama-3.2-1b", "--bandwidth", 50, "--flops", 500, "--json"]
TIMES = {f"{part}_{name}_ms" for part in ("mean", "median", "std", "p90", "p95", "p99", "max")
         for name in ("ttft", "tpot", "itl", "e2el")}
KEYS = {"completed", "failed", "too_long", "max_output_tokens_per_s", "max_concurrent_requests",
        "full_batch", "full_batch_throughput", "duration", "total_input_tokens",
        "total_output_tokens", "cached_input_tokens", "hit_rate", "request_throughput",
        "output_throughput", "total_token_throughput", "preemptions", "recomputed_tokens",
        "steps"} | TIMES


def _write(name, text):
    with open(name, "w") as f:
        f.write(text)
    return name


def _simulate(*args):
    r = call(*SIM, *args)
    expect(r.returncode, 0, f"status of simulate {args} ({r.stderr.decode()[:200]})")
    return lines(r)[0] if r.stdout else {}


def a_load_is_served_and_counted():
    r = call("bench", "--serve", "--json", "--quiet", "-m", DEMO, "--num-prompts", 12,
             "--input-len", "20:40", "--output-len", 9, "--prefix-len", 16, "--block-size", 16,
             "--max-concurrency", 3)
    o = lines(r)[0]
    check(KEYS <= set(o), f"keys: {KEYS - set(o)} are missing")
    expect((o["completed"], o["failed"], o["total_output_tokens"]), (12, 0, 108),
           "requests and tokens")
    expect((o["max_concurrent_requests"], o["full_batch"]), (3, 3), "requests at once")
    check(0 < o["full_batch_throughput"] and o["max_output_tokens_per_s"] <= 108,
          f"tokens a second: {o}")
    check(9 * 16 <= o["cached_input_tokens"] <= 11 * 16,
          f"a shared block of all but those that began together: {o}")
    for name in ("ttft", "tpot", "itl", "e2el"):
        t = [o[f"{part}_{name}_ms"] for part in ("median", "p90", "p95", "p99", "max")]
        check(t == sorted(t) and t[0] > 0, f"{name}: percentiles {t}")


def what_is_too_long_fails_and_the_rest_goes_on():
    load = ("--num-prompts", 20, "--input-len", "20:100", "--output-len", 20, "--max-model-len",
            100)
    r = call("bench", "--serve", "--json", "--quiet", "-m", DEMO, *load)
    served, simulated = lines(r)[0], _simulate(*load)
    for key in ("completed", "failed", "too_long", "total_input_tokens", "total_output_tokens"):
        expect(simulated[key], served[key], f"{key} of simulate and bench --serve")
    check(0 < served["too_long"] == served["failed"] < 20, f"some are too long: {served}")
    text = call("simulate", "--shape", "llama-3.2-1b", "--bandwidth", 50, "--flops", 500,
                *load).stdout.decode()
    check(f"{served['too_long']} of the failed requests have more tokens of prompt and answer than "
          "--max-model-len 100" in text,
          text)
    o = _simulate("--num-prompts", 3, "--input-len", 200, "--max-model-len", 100)
    expect((o["failed"], o["max_concurrent_requests"], o["mean_ttft_ms"]), (3, 0, None),
           "all are too long: failed, at once, times")


def a_request_waits_from_when_it_is_due():
    """The second prompt arrives while the first is computed, and waits until that is done."""
    trace = _write("due.csv",
                   "arrived_at,num_prefill_tokens,num_decode_tokens\n0,500,1\n0.001,500,1\n")
    o = lines(call("bench", "--serve", "--json", "--quiet", "-m", DEMO, "--trace", trace,
                   "--prefix-index", "none"))[0]
    check(o["max_ttft_ms"] >= o["duration"] * 1000 - 1.001,
          f"the last to come waits to the end: {o['max_ttft_ms']} ms of {o['duration']} s")
    o = lines(call("bench", "--serve", "--json", "--quiet", "-m", DEMO, "--trace", trace,
                   "--prefix-index", "none", "--max-concurrency", 1))[0]
    check(2 * o["mean_ttft_ms"] <= o["duration"] * 1000 + .001,
          f"one at a time: each from when it may be sent: {o}")


def a_conversation_finds_what_was_said():
    load = ("--num-prompts", 2, "--turns", 4, "--prefix-len", 64, "--input-len", 20, "--output-len",
            12, "--block-size", 16)
    inputs = [64 + 20 + t * 32 for t in range(4)]
    for run in (lambda *a: lines(call("bench", "--serve", "--json", "--quiet", "-m", DEMO, *load,
                                      *a))[0], lambda *a: _simulate(*load, *a)):
        o = run("--prefix-index", "radix", "--max-num-seqs", 1)
        expect((o["completed"], o["total_input_tokens"], len(o["mean_ttft_ms_by_turn"])),
               (8, 2 * sum(inputs), 4), "turns")
        # The rows of all text but the last token, which was never computed; for the second
        # conversation also the system message.
        expect(o["cached_input_tokens"], 64 + 2 * sum(n + 11 for n in inputs[:-1]),
               "rows that were there")
        expect(run("--no-enable-prefix-caching")["cached_input_tokens"], 0,
               "without a prefix cache")


def blocks_are_read_from_a_store():
    load = ("--num-prompts", 6, "--prefix-len", 128, "--input-len", 40, "--output-len", 4,
            "--block-size", 16, "--max-num-seqs", 2)
    run = lambda *a: lines(call("bench", "--serve", "--json", "--quiet", "-m", DEMO, *load, *a))[0]
    expect("kv_store" in run(), False, "without a store")
    blocks = tempfile.mkdtemp(dir=".")
    # Blocks that are still in transit when it reports are written before it ends.
    first = run("--kv-store", blocks)["kv_store"]
    n = sum(len(files) for _, _, files in os.walk(blocks))
    check(n > 8 and first["blocks_dropped"] == 0 and first["blocks_read"] == 0,
          f"{n} blocks were written: {first}")
    second = run("--kv-store", blocks, "--kv-store-size", 1)["kv_store"]
    check(second["blocks_read"] > 0 and second["stored_input_tokens"] > 0
          and second["blocks_damaged"] == 0, f"and read: {second}")
    for refused in (("--kv-cache-type", "bmc"), ("--prefix-index", "none")):
        r = call("bench", "--serve", "--quiet", "-m", DEMO, *load, "--kv-store", blocks, *refused)
        check(r.returncode == 1 and "--kv-store: expected the" in r.stderr.decode(), r.stderr)


def traces_of_each_format_are_read():
    rows = [(0, 100, 5), (1.5, 50, 7), (3, 10, 1)]
    azure = _write("azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n" +
                  "".join(f"2023-11-16 18:17:{3 + t:010.7f},{p},{o}\r\n" for t, p, o in rows))
    vidur = _write("vidur.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                   + "".join(f"{t},{p},{o}\n" for t, p, o in rows))
    moon = _write("moon.jsonl",
                  "".join(json.dumps({"timestamp": t * 1000, "input_length": p, "output_length": o,
                                      "hash_ids": [0]}) + "\n" for t, p, o in rows))
    a, v, m = (_simulate("--trace", f, "--prefix-index", "none") for f in (azure, vidur, moon))
    expect((v["completed"], v["total_input_tokens"], v["total_output_tokens"]), (3, 160, 13),
           "a trace's sums")
    expect(v, a, "Azure's and Vidur's form of one trace")
    expect(v, m, "Mooncake's form of the same")
    expect(_simulate("--trace", vidur, "--num-prompts", 2)["completed"], 2, "a part of a trace")
    check(_simulate("--trace", vidur, "--speed", 1000)["duration"] < v["duration"],
          "a faster trace ends sooner")


def the_trace_of_the_tree_is_served():
    path = os.path.join(ROOT, "test", "data", "traces", "mixed.csv")
    o = _simulate("--trace", path, "--max-model-len", 4096, "--kv-cache-memory", 2, "--bandwidth",
                  200, "--flops", 5000)
    expect(o["completed"] + o["failed"], 800, "requests")
    check(0 < o["too_long"] == o["failed"] < 160,
          f"requests of more than 4096 tokens: {o['too_long']}")


def a_trace_that_is_wrong_is_refused_with_its_line():
    for text, word in (("a,b\n1,2\n", "line 1 is neither"),
                       ("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n0,x,1\n",
                        "line 3"), ("arrived_at,num_prefill_tokens,num_decode_tokens\n0,0,1\n",
                                    "line 2"), ("{\"input_length\":\n", "line 1"),
                       ("arrived_at,num_prefill_tokens,num_decode_tokens\n", "contains no request"),
                       ("", "contains no request")):
        expect_error(call(*SIM, "--trace", _write("wrong", text)), 1, word)
    expect_error(call(*SIM, "--trace", "absent"), 1, "absent")
    head = "num_prefill_tokens,num_decode_tokens,arrived_at\n"
    for text, word in ((head + "5,6\n", "line 2"), (head + "7.5,3,0\n", "line 2"),
                       (head + "7,3.5,0\n", "line 2"), (head + "7,3,soon\n", "line 2"),
                       (head + "7,3,nan\n", "line 2"),
                       (head + "7,3,0\n\0\n7,3,0\n", "byte 54 is NUL"),
                       (head + "16777217,1,0\n", "line 2"),
                       ('{"timestamp": "x", "input_length": 6, "output_length": 1}\n', "line 1"),
                       ('{"input_length": 6}\n', "line 1"),
                       ('{"input_length": 6, "output_length": 1, "hash_ids": ["a"]}\n', "line 1"),
                       ("[1]\n", "line 1"),
                       ('{"input_length": 6, "output_length": 1, "hash_ids": 5}\n', "line 1"),
                       ('{"input_length": 1e3, "output_length": 1}\n', "line 1")):
        expect_error(call(*SIM, "--trace", _write("wrong", text)), 1, word)
    expect(_simulate("--trace", _write("large.csv", head + "16777216,0,0\n"), "--max-model-len",
                     100)["too_long"], 1, "the longest prompt of a trace")


def a_machine_takes_the_time_of_its_bytes_and_operations():
    one = _simulate("--num-prompts", 1, "--input-len", 512, "--output-len", 101, "--overhead-ms", 0)
    weights = 16 * (2048 * (2048 + 512 + 512) + 2048 * 2048 + 3 * 2048 * 8192) + 128256 * 2048
    token = math.hypot(weights * 2 / 50e9, weights * 2 / 500e9)
    rows = math.hypot(weights * 2 / 50e9, 512 * 2 * (weights - 128256 * 2048) / 500e9)
    check(abs(one["median_tpot_ms"] / (token * 1000) - 1) < .02,
          f"a token of a stream: {one['median_tpot_ms']} ms")
    check(abs(one["median_ttft_ms"] / (rows * 1000) - 1) < .05,
          f"a prompt: {one['median_ttft_ms']} ms, {rows * 1000} by its operations")
    expect(_simulate("--num-prompts", 30, "--request-rate", 1),
           _simulate("--num-prompts", 30, "--request-rate", 1), "twice the same")
    check(_simulate("--num-prompts", 30, "--input-len", "9:99", "--seed", 1) != _simulate(
        "--num-prompts", 30, "--input-len", "9:99", "--seed", 2), "another seed, another load")


def a_shape_may_be_cut_down():
    load = ("--num-prompts", 1, "--input-len", 16, "--output-len", 101, "--overhead-ms", 0)
    expect(_simulate(*load, "--layers", 16), _simulate(*load), "as many layers as the model has")
    layer, head = 2048 * (2048 + 512 + 512) + 2048 * 2048 + 3 * 2048 * 8192, 128256 * 2048
    for n in (1, 8, 4096):
        o, token = _simulate(*load, "--layers", n, "--kv-cache-memory",
                             100), (n * layer + head) * 2 * math.hypot(1 / 50e9, 1 / 500e9)
        check(abs(o["median_tpot_ms"] / (token * 1000) - 1) < .02,
              f"{n} layers: {o['median_tpot_ms']} ms")
        expect(o["kv_tokens"], int(100 * 2**30 / (n * 2 * 8 * 64 * 2)),
               f"rows of {n} layers in 100 GiB")


def experts_of_mxfp4_take_their_bits():
    o = _simulate("--shape", "gpt-oss-20b", "--num-prompts", 1, "--input-len", 1, "--output-len",
                  101, "--overhead-ms", 0)
    dense = 24 * 2880 * (2 * 4096 + 2 * 512 + 32) + 201088 * 2880
    experts = 24 * 3 * 2880 * 2880 * 4
    token = math.hypot((dense * 2 + experts * 4.25 / 8) / 50e9, (dense + experts) * 2 / 500e9)
    check(abs(o["median_tpot_ms"] / (token * 1000) - 1) < .02,
          f"a token of gpt-oss-20b: {o['median_tpot_ms']} ms, not {token * 1000}")


def more_memory_and_a_prefix_cache_help():
    load = ("--num-prompts", 60, "--input-len", "200:900", "--output-len", "50:300", "--prefix-len",
            190, "--request-rate", 5)
    small, large = (_simulate(*load, "--kv-cache-memory", g) for g in (.2, 4))
    check(small["preemptions"] > 0 and large["preemptions"] == 0,
          "preemptions of a small and a large cache")
    none, radix = (_simulate(*load, "--kv-cache-memory", 4, "--prefix-index", p)
                   for p in ("none", "radix"))
    expect(none["hit_rate"], 0, "hits without an index")
    check(radix["hit_rate"] > .2 and radix["mean_ttft_ms"] < none["mean_ttft_ms"],
          "hits and what they save")
    expect(_simulate(*load, "--kv-cache-memory", .2, "--admission", "worst-case")["preemptions"], 0,
           "preemptions of worst-case admission")


def a_sweep_finds_the_load_that_a_limit_allows():
    load = ("--num-prompts", 40, "--input-len", 100, "--output-len", 30, "--request-rate", 1)
    o = _simulate(*load, "--rate-sweep", "--limit", "ttft:3000,tpot:400")
    check(o["p95_ttft_ms"] <= 3000 and o["p95_tpot_ms"] <= 400, "the limits hold at what is found")
    beyond = _simulate(*load[:-2], "--request-rate", 1.3 * o["speed"])
    check(beyond["p95_ttft_ms"] > 3000 or beyond["p95_tpot_ms"] > 400 or o["speed"] > 1e4,
          "and do not far beyond")
    expect_error(call(*SIM, *load, "--rate-sweep", "--limit", "ttft:0.001"), 1, "--limit")
    text = call(*SIM[:-1], *load, "--rate-sweep", "--limit", "e2el:1000000").stdout.decode()
    check(text.startswith("the limits hold at any rate of this traffic:"), text)


def wrong_usage_is_said():
    expect_error(call("simulate", "--json"), 2, "--shape")
    expect_error(call("simulate", "--shape", "none", "--bandwidth", 1, "--flops", 1), 2, "none",
                 "synth --list")
    expect_error(call("simulate", "--shape", "gpt2"), 2, "--bandwidth")
    for args, word in ((("--limit", "p99:3"), "--limit"), (("--input-len", "9:3"), "--input-len"), (
            ("--input-len", "0"), "--input-len"), (("--block-size", 48), "--block-size"),
                       (("--speed", 0), "--speed"), (("--scheduling-policy", "lifo"), "lifo")):
        expect_error(call(*SIM, *args), 2, word)
    for limit in ("", "ttft:-5", "ttft:0", "ttft:nan", "ttft:inf", "ttft:5,", "ttft:5x"):
        expect_error(call(*SIM, "--limit", limit), 2, "--limit", "above 0")
    for flag, least, most in (("--layers", 1, 4096), ("--num-prompts", 1, 100000000),
                              ("--turns", 1, 1000), ("--speed", 1e-6, 1e6), ("--bits", 1, 32),
                              ("--request-rate", 1e-6, 1e9), ("--overhead-ms", 0, 1000),
                              ("--prefix-groups", 1, 1000000)):
        for beyond in (least - max(1, abs(least)) if least != 1e-6 else 9e-7,
                       most + max(1, most / 1e8)):
            expect_error(call(*SIM, flag, beyond), 2, flag)
    expect(_simulate("--num-prompts", 3, "--request-rate", 1e-6)["completed"], 3,
           "the slowest load")
    for args, word in ((("--num-prompts", 1, "--speed", 2), "--speed changes nothing without"), (
            ("--trace", _write("one.csv", "num_prefill_tokens,num_decode_tokens\n9,9\n"), "--turns",
             2), "--turns changes nothing with")):
        r = call(*SIM, *args)
        check(r.returncode == 0 and word in r.stderr.decode(), f"{args}: {r.stderr}")
    text = call(*SIM[:-1], "--num-prompts", 2, "--output-len", 0).stdout.decode()
    check(f"{'time per output token':26}{'-':>11}" in text, f"times of no token: {text}")
    expect_error(call(*SIM, "--kv-cache-memory", .0001), 1, "--kv-cache-memory")
    expect_error(call(*SIM, "--rate-sweep"), 2, "--rate-sweep", "--request-rate")


def lines_of_a_batch_have_a_place_among_others():
    text = "".join(json.dumps({"ids": list(range(5, 45)), "max_tokens": 2, "user": u, "priority": p,
                               "cache_salt": s}) + "\n" for u, p,
                   s in (("a", 0, "x"), ("b", -5, "y"), ("a", 7, "x")))
    r = call("run", "--batch", _write("b.jsonl", text), "--json", "--scheduling-policy", "fair",
             "--max-num-seqs", 1)
    o = lines(r)
    expect([x["output_ids"] for x in o], [o[0]["output_ids"]] * 3, "the same tokens, whoever asks")
    for field, value in (("priority", "high"), ("priority", 2**40), ("user", 5),
                         ("cache_salt", [1])):
        line = json.dumps({"ids": [5], field: value})
        r = call("run", "--batch", _write("w.jsonl", line + "\n"), "--json")
        check(field in lines(r)[0].get("error", ""), f"{field} {value!r}: {r.stdout[:200]!r}")


with tempfile.TemporaryDirectory() as folder:  # units of traces, batches and blocks
    os.chdir(folder)
    run_all(list(globals().items()))
