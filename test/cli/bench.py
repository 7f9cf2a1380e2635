#!/usr/bin/env python3
"""bench.py - `gallop bench` from outside: keys, and bytes and shares that follow from what inspect says. Standard library only;
GALLOP_BIN names the program."""
import json
import os
import subprocess
import sys

GALLOP = os.environ.get("GALLOP_BIN", "build/gallop")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "models", "demo")
GEMMA = os.path.join(ROOT, "test", "golden", "gemma3")
KEYS = {"test", "prompt", "batch", "tokens", "tok_s", "tok_s_min", "tok_s_max", "bytes_per_token", "roof_share", "threads",
        "dtype", "quant", "bound", "rows"}
faults = []
count = 0


def call(*args):
    return subprocess.run([GALLOP, *map(str, args)], capture_output=True, timeout=100)


def check(good, what):
    global count
    count += 1
    if not good:
        faults.append(what)
        print("  x", what)


def bench(*args):
    r = call("bench", "--json", "--quiet", *args)
    check(r.returncode == 0, f"bench {args}: {r.stderr.decode()}")
    o = [json.loads(x) for x in r.stdout.decode().splitlines()]
    return o[0], o[1:]


def inspect(*args):
    return json.loads(call("inspect", "--json", *args).stdout)


def every_row_has_its_keys_and_counts_its_tokens():
    roof, rows = bench("-m", DEMO, "--prefill", "40,600", "--decode", 9, "--context", "20,300", "--batch", "1,3", "--reps", 2,
                       "--rows", 4)
    check(roof["test"] == "roof" and roof["dram_bytes_s"] > 1e8, "roofs come first")
    check(roof["bf16_flops"] >= roof["fp32_flops"], "bf16 is widened where its dot is slower: no roof below that of fp32")
    check([(r["test"], r["prompt"], r["batch"], r["tokens"], r["rows"]) for r in rows] ==
          [("prefill", 40, 1, 40, 40), ("prefill", 600, 1, 600, 512), ("decode", 20, 1, 12, 4), ("decode", 20, 3, 12, 4),
           ("decode", 300, 1, 12, 4), ("decode", 300, 3, 12, 4)], "rows, their order, tokens in whole steps")
    check(all(set(r) == KEYS for r in rows), "keys")
    check(all(0 < r["tok_s_min"] <= r["tok_s"] <= r["tok_s_max"] for r in rows), "speeds")


def bytes_of_a_token_are_weights_and_visible_rows():
    for dtype in ("fp32", "bf16", "int8"):
        at = ["-m", DEMO, "--kv-cache-dtype", dtype]
        o = inspect(*at)
        for rows in (1, 5):
            _, r = bench(*at, "--prefill", 0, "--decode", rows, "--context", 100, "--batch", 3, "--reps", 1, "--rows", rows)
            want = (o["weight_bytes"] + 3 * (100 + rows) * o["kv"]["bytes_per_token"]) / (3 * rows)
            check(abs(r[0]["bytes_per_token"] / want - 1) < 1e-6, f"bytes of a token, {dtype}, {rows} rows")
    o = inspect("-m", GEMMA)
    _, r = bench("-m", GEMMA, "--prefill", 0, "--decode", 1, "--context", 1000, "--batch", 1, "--reps", 1)
    check(r[0]["bytes_per_token"] < o["weight_bytes"] + 600 * o["kv"]["bytes_per_token"], "windows show fewer rows")


def a_share_is_the_ideal_time_over_the_time_taken():
    roof, rows = bench("-m", DEMO, "--prefill", 64, "--decode", 4, "--context", 64, "--batch", "1,8", "--reps", 1)
    for r in rows:
        memory = r["bytes_per_token"] * r["tok_s"] / roof["dram_bytes_s"]
        good = abs(r["roof_share"] / memory - 1) < 1e-5 if r["bound"] == "memory" else r["roof_share"] > memory
        check(good, f"share of {r['test']}, batch {r['batch']}")


def every_cache_is_measured():
    for kind in ("dynamic", "bmc", "slab_pool", "paged"):
        for model in (DEMO, GEMMA):
            _, r = bench("-m", model, "--prefill", 30, "--decode", 6, "--context", "10,600", "--batch", "2,1", "--reps", 2,
                         "--kv-cache-type", kind, "--kv-cache-dtype", "int8")
            check(len(r) == 5, f"{kind}: all rows")


def what_cannot_be_measured_is_refused():
    r = call("bench", "-m", DEMO, "--max-model-len", 100, "--context", 300)
    check(r.returncode == 2 and b"--max-model-len" in r.stderr, "a context beyond --max-model-len")
    r = call("bench", "-m", DEMO, "--batch", 200, "--rows", 60)
    check(r.returncode == 2 and b"--rows" in r.stderr, "too many tokens in a step")
    r = call("bench", "-m", DEMO, "--context", 10000000, "--batch", 256)
    check(r.returncode == 1 and b"do not fit" in r.stderr, "more rows than memory")
    check(call("bench", "-m", DEMO, "--rows", 0).returncode == 2, "no rows")


for test in [v for v in list(globals().values()) if callable(v) and getattr(v, "__module__", None) == "__main__"
             and v not in (call, check, bench, inspect)]:
    test()
print(f"{count - len(faults)} passed, {len(faults)} failed")
sys.exit(1 if faults else 0)
