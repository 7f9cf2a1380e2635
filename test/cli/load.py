#!/usr/bin/env python3
"""load.py - bench/load: its figures add up, a short soak passes, and the check of a soak detects
faults. Standard library only."""
import copy
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys

from _cli import DEMO, GALLOP, ROOT, check, expect, run_all

SCRIPT = os.path.join(ROOT, "bench", "load")
TIMES = {f"{part}_{name}_ms" for part in ("mean", "median", "std", "p90", "p95", "p99", "max")
         for name in ("ttft", "tpot", "itl", "e2el")}
sys.path.pop(0)  # asyncio needs Python's inspect and not inspect.py of this folder.
_loader = importlib.machinery.SourceFileLoader("load_script", SCRIPT)
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("load_script", _loader))
_loader.exec_module(tool)


def _run(*args, options=()):
    return subprocess.run([sys.executable, SCRIPT, "--gallop", GALLOP, "--serve", DEMO,
                           *map(str, args), "--", *map(str, options)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)


def figures_add_up():
    for more in ((), ("--chat",), ("--text", "--prefix-len", 30)):
        r = _run("--num-prompts", 9, "--max-concurrency", 4, "--input-len", "5:20", "--output-len",
                 7, "--json", *more)
        o = json.loads(r.stdout.decode().splitlines()[0])
        check(TIMES <= set(o), f"keys: {TIMES - set(o)} are missing")
        expect((r.returncode, o["completed"], o["failed"], o["refused"], o["aborted"],
                o["total_output_tokens"], o["max_concurrent_requests"]), (0, 9, 0, 0, 0, 63, 4),
               f"counts with {more} ({o['errors']})")
        check(9 * 5 < o["total_input_tokens"], "tokens of prompts")
        for name in ("ttft", "tpot", "itl", "e2el"):
            t = [o[f"{part}_{name}_ms"] for part in ("median", "p90", "p95", "p99", "max")]
            check(t == sorted(t) and t[-1] > 0, f"{name}: percentiles {t}")
    r = _run("--num-prompts", 6, "--slow-readers", 3, "--input-len", 5, "--output-len", 50,
             "--json")
    o = json.loads(r.stdout.decode().splitlines()[0])
    expect((r.returncode, o["completed"], o["total_output_tokens"]), (0, 6, 300),
           f"beside slow readers ({o['errors']})")
    check(0 < o["p50_handoff_ms"] <= o["p99_handoff_ms"], "the hand-off is told")
    r = _run("--num-prompts", 3, "--vocab", 100000, "--seed", 1)
    check(r.returncode == 1 and b"outside the vocabulary" in r.stdout,
          f"requests that fail are said: {r.stdout.decode()}")


def quantiles_of_a_histogram():
    before, after = {.1: 5, .2: 7, float("inf"): 9}, {.1: 5, .2: 107, float("inf"): 109}
    expect([round(tool.quantile(before, after, q), 6) for q in (0, .5, 1)], [.1, .15, .2],
           "within a bucket")
    expect(tool.quantile({}, {.1: 1, float("inf"): 4}, .9), .1, "above all bounds")
    expect(tool.quantile(after, after, .9), 0, "nothing was counted")


def a_soak_of_seconds_holds():
    r = _run("--soak", 0.05,
             options=("--max-num-queued-reqs", 16, "--kv-cache-memory", 0.006, "--block-size", 32))
    check(r.returncode == 0 and b"all holds" in r.stdout, r.stdout.decode())


def what_a_soak_has_to_notice_is_noticed():
    check(not tool.flat_faults([50] * 40 + [51] * 10, "x", 2)
          and tool.flat_faults([50 + i for i in range(50)], "x", 2), "what grows")
    sent = {"finished": 10, "aborted": 4, "refused": 3, "failed": 2}
    good = {"status": {200: 11, 499: 2, 429: 4, 400: 2}, "requests_refused_total": 4,
            "request_params_n_sum": 15, "ended": {"stop": 9, "length": 4, "abort": 2, "error": 0}}
    expect(tool.conservation_faults(sent, 19, good), [],
           "clients who left too late are accounted for")
    for path, value in ((("status", 200), 10), (("status", 500), 1), (("status", 400), 3), (
            ("status", 499), 3), (("requests_refused_total",), 3), (("request_params_n_sum",), 16),
                        (("ended", "stop"), 8), (("ended", "error"), 1), (("ended", "length"), 99)):
        bad = copy.deepcopy(good)
        (bad[path[0]] if len(path) == 2 else bad)[path[-1]] = value
        check(tool.conservation_faults(sent, 19, bad), f"{path} {value} is not noticed")


run_all(list(globals().items()))
