#!/usr/bin/env python3
"""bench.py - `gallop bench` from outside: its keys, and bytes and shares that follow from the
output of inspect. Standard library only; GALLOP_BIN names the program."""
import json
import os
import tempfile

from _cli import DEMO, ROOT, call, check, run_all

GEMMA = os.path.join(ROOT, "test", "golden", "gemma3")
KEYS = {"test", "prompt", "batch", "tokens", "tok_s", "tok_s_min", "tok_s_max", "bytes_per_token",
        "roof_share", "threads", "dtype", "quant", "bound", "rows", "flops_per_token", "step_s",
        "ideal_step_s"}


def _bench(*args):
    r = call("bench", "--json", "--quiet", "--roof-seconds", 0.05, *args)
    check(r.returncode == 0, f"bench {args}: {r.stderr.decode()}")
    o = [json.loads(x) for x in r.stdout.decode().splitlines()]
    return o[0], o[1:]


def _inspect(*args):
    return json.loads(call("inspect", "--json", *args).stdout)


def every_row_has_its_keys_and_counts_its_tokens():
    roof, rows = _bench("-m", DEMO, "--prefill", "40,600", "--decode", 9, "--context", "20,300",
                       "--batch", "1,3", "--reps", 2, "--rows", 4)
    check(roof["test"] == "roof" and roof["dram_bytes_s"] > 1e8, "roofs come first")
    check(roof["bf16_native"] or roof["bf16_flops"] == roof["fp32_flops"],
          "bf16 is widened where there is no dot: the roof of fp32")
    again, _ = _bench("-m", DEMO, "--prefill", 8, "--decode", 0, "--reps", 1, "--dtype", "fp32")
    check(again["bf16_native"] == roof["bf16_native"],
          "which roof bf16 has is not a matter of the clock, nor of --dtype")
    check(not again["bf16_native"] or again["bf16_flops"] != again["fp32_flops"],
          "the bf16 roof is that of bf16 also in fp32")
    check([(r["test"], r["prompt"], r["batch"], r["tokens"], r["rows"]) for r in rows]
          == [("prefill", 40, 1, 40, 40), ("prefill", 600, 1, 600, 512), ("decode", 20, 1, 12, 4),
              ("decode", 20, 3, 12, 4), ("decode", 300, 1, 12, 4), ("decode", 300, 3, 12, 4)],
          "rows, their order, tokens in whole steps")
    check(all(set(r) == KEYS for r in rows), "keys")
    check(all(0 < r["tok_s_min"] <= r["tok_s"] <= r["tok_s_max"] for r in rows), "speeds")


def bytes_of_a_token_are_weights_and_visible_rows():
    for dtype in ("fp32", "bf16", "int8"):
        at = ["-m", DEMO, "--kv-cache-dtype", dtype]
        o = _inspect(*at)
        for rows in (1, 5):
            _, r = _bench(*at, "--prefill", 0, "--decode", rows, "--context", 100, "--batch", 3,
                         "--reps", 1, "--rows", rows)
            want = (o["weight_bytes"] + 3 * (100 + rows) * o["kv"]["bytes_per_token"]) / (3 * rows)
            check(abs(r[0]["bytes_per_token"] / want - 1) < 1e-6,
                  f"bytes of a token, {dtype}, {rows} rows")
    o = _inspect("-m", GEMMA)
    _, r = _bench("-m", GEMMA, "--prefill", 0, "--decode", 1, "--context", 1000, "--batch", 1,
                 "--reps", 1)
    check(r[0]["bytes_per_token"] < o["weight_bytes"] + 600 * o["kv"]["bytes_per_token"],
          "windows show fewer rows")


def a_share_is_the_ideal_time_over_the_time_taken():
    roof, rows = _bench("-m", DEMO, "--prefill", 64, "--decode", 4, "--context", 64, "--batch",
                       "1,8", "--reps", 1, "--mixed", 20)
    check([r["test"] for r in rows] == ["prefill", "decode", "mixed", "decode", "mixed"],
          "mixed rows stand beside those of decoding")
    for r in rows:
        what = f"{r['test']}, batch {r['batch']}"
        check(abs(r["roof_share"] / (r["ideal_step_s"] / r["step_s"]) - 1) < 1e-6,
              f"share of {what}")
        in_step = {"prefill": 64, "decode": r["batch"], "mixed": r["batch"] + 20}[r["test"]]
        check(abs(r["tok_s"] / (in_step / r["step_s"]) - 1) < 1e-6, f"tokens of a step, {what}")
        check(r["flops_per_token"] > 3e6 and r["bytes_per_token"] > 1000,
              f"bytes and operations, {what}")


def a_trace_adds_up():
    _, rows = _bench("-m", DEMO, "--prefill", 70, "--decode", 3, "--context", 40, "--batch", 2,
                    "--reps", 2, "--mixed", 9, "--trace")
    tests = [r for r in rows if r["test"] in ("prefill", "decode", "mixed")]
    check(len(tests) == 3, "a row of each")
    for t in tests:
        own = [r for r in rows if r.get("of") == t["test"]]
        kinds, ops, step = ([r for r in own if r["test"] == x]
                            for x in ("kind", "operator", "step"))
        what = "trace of " + t["test"]
        check(own and rows.index(own[0]) == rows.index(t) + 1, what + " follows its row")
        check(all(set(r) == {"test", "kind", "name", "calls", "seconds", "bytes", "flops", "gb_s",
                             "gflop_s", "ideal_s", "roof_share", "of", "prompt", "batch", "rows"}
                  for r in kinds + ops), what + ": keys")
        check([k["kind"] for k in kinds] == ["norm", "qkv_projection", "rope", "attention",
                                             "out_projection", "mlp", "lm_head", "other"],
              what + ": kinds")
        check({"self_attn.o_proj", "mlp", "lm_head", "attention"} <= {o["name"] for o in ops},
              what + ": names, without layers")
        check(len(step) == 1 and step[0]["between_s"] >= 0, what + ": one step")
        step = step[0]
        for key in ("seconds", "bytes", "flops", "calls", "ideal_s"):
            for k in kinds:
                s = sum(o[key] for o in ops if o["kind"] == k["kind"])
                check(abs(s - k[key]) <= 1e-6 * abs(s), f"{what}: {key} of {k['kind']}")
        check(abs(sum(k["seconds"] for k in kinds) - step["operators_s"]) < 1e-6 * step["seconds"],
              what + ": seconds")
        check(abs(step["operators_s"] + step["between_s"] - step["seconds"]) < 1e-6
              * step["seconds"], what + ": what lies between")
        check(abs(sum(k["ideal_s"] for k in kinds) / step["ideal_s"] - 1) < 1e-6, what + ": ideal")
        n = {"prefill": 70, "decode": 2, "mixed": 11}[t["test"]]
        for key in ("bytes", "flops"):
            check(abs(sum(k[key] for k in kinds) / n / t[key + "_per_token"] - 1) < 1e-6,
                  f"{what}: {key} are those of its row")
        check(step["steps"] == {"prefill": 1, "decode": 3, "mixed": 4}[t["test"]] * 2,
              what + ": steps")
    r = call("bench", "-m", DEMO, "--prefill", 20, "--decode", 0, "--reps", 1, "--roof-seconds",
             0.01, "--trace")
    check(r.returncode == 0 and b"between them" in r.stdout and b"qkv_projection" in r.stdout,
          "a trace as text")
    r = call("bench", "--serve", "-m", DEMO, "--num-prompts", 2, "--input-len", 8, "--output-len",
             4, "--json", "--quiet", "--trace")
    o = [json.loads(x) for x in r.stdout.decode().splitlines()]
    check(o and o[0]["test"] == "serve" and o[-1]["test"] == "step" and o[-1]["of"] == "serve",
          f"a trace of a load: {r.stderr}")


def _accepts(backend, quant):
    """Whether this build has the backend, with kernels for this machine."""
    r = call("inspect", "-m", DEMO, "--quant", quant, "--op-config", json.dumps({"lm_head": backend}))
    check(r.returncode == 0 or b"for this machine" in r.stderr or b"available are" in r.stderr,
          f"{backend}: {r.stderr}")
    return r.returncode == 0


def every_backend_stands_beside_ours():
    at = ["--backends", "-m", DEMO, "--reps", 2, "--batch", "1,5", "--prefill", "40,600"]
    of = {"none": {"gallop", "native", "tpp", "jit"}, "int8": {"gallop", "native", "jit"}}
    for quant, accepting in of.items():
        here = {x for x in accepting if _accepts(x, quant)}
        roof, rows = _bench(*at, "--quant", quant)
        check(roof["test"] == "roof" and roof["dram_bytes_s"] > 1e8, "roofs come first")
        check(all(set(r) == {"test", "kind", "name", "n", "k", "rows", "backend", "dtype", "quant",
                             "threads", "seconds", "gb_s", "gflop_s", "ideal_s", "roof_share",
                             "bound", "over_auto", "behind"} for r in rows), "keys of a backend")
        packed = {(t["packed_in"].split(".", 3)[-1]): t["packed_bytes"]
                  for t in _inspect("-m", DEMO, "--quant", quant)["tensors"] if t["use"] == "linear"}
        shapes = {(r["kind"], r["name"], r["n"], r["k"]) for r in rows}
        check([s[0] for s in sorted(shapes)] == ["lm_head", "mlp", "mlp", "out_projection",
                                                 "qkv_projection"], f"operators: {shapes}")
        for shape in shapes:
            own = [r for r in rows if (r["kind"], r["name"], r["n"], r["k"]) == shape]
            what = f"{shape[1]}, {quant}"
            check({r["backend"] for r in own} == here,
                  f"{what}: backends {[r['backend'] for r in own]}, expected {here}")
            counts = [1, 5] if shape[0] == "lm_head" else [1, 5, 40, 512]
            check([r["rows"] for r in own if r["backend"] == "gallop"] == counts,
                  f"{what}: rows, those of a prompt in steps")
            check([r["rows"] for r in own if r["backend"] == "native"] == [1],
                  f"{what}: native computes one row")
            for m in counts:
                beside = [r for r in own if r["rows"] == m]
                ours = next(r for r in beside if r["backend"] == "gallop")
                best = max(beside, key=lambda r: r["over_auto"])
                check(ours["over_auto"] == 1
                      and ours["behind"] == (best["backend"] if best["over_auto"] > 1.03 else None),
                      f"{what}, {m} rows: who is ahead")
                check(all(r["behind"] is None for r in beside if r is not ours),
                      f"{what}: only ours is said to be behind")
            for r in own:
                check(abs(r["gflop_s"] * r["seconds"] * 1e9 / (2 * r["n"] * r["k"] * r["rows"]) - 1)
                      < 1e-6, f"{what}: operations")
                check(abs(r["roof_share"] / (r["ideal_s"] / r["seconds"]) - 1) < 1e-6,
                      f"{what}: share")
                check(abs(r["gb_s"] * r["seconds"] * 1e9 / packed.get(r["name"], 1e9) - 1) < 1e-6
                      or r["name"] not in packed, f"{what}: bytes of its weights")
        check("mlp.down_proj" in packed and ("mlp", "mlp.down_proj") in {s[:2] for s in shapes},
              "bytes were compared with those of inspect")
    _, rows = _bench("--backends", "-m", os.path.join(ROOT, "test", "data", "blocks.gguf"), "--reps",
                    1, "--batch", 1, "--prefill", 0)
    check(all((r["over_auto"] == 1) == (r["backend"] == "blocks") for r in rows if r["name"]
              == "mlp.down_proj"), "weights in blocks are what the others are compared with")
    r = call(*["bench", *at[:3], "--reps", 1, "--batch", 1, "--prefill", 0, "--roof-seconds", 0.01])
    check(r.returncode == 0 and b"native" in r.stdout and b" cases\n" in r.stdout,
          "backends as text")
    r = call("bench", *at, "--op-config", '{"mlp":"native"}')
    check(r.returncode == 2 and b"--op-config" in r.stderr,
          "a backend that is chosen where all are measured")
    check(call("bench", *at[:3], "--batch", 0, "--prefill", 0).returncode == 2,
          "no rows for the backends")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "demo.gallop")
        check(call("pack", "-m", DEMO, "-o", path).returncode == 0, "a packed checkpoint")
        r = call("bench", "--backends", "-m", path)
        check(r.returncode == 1 and b"packed for one backend" in r.stderr,
              f"backends of packed weights: {r.stderr}")


def _speculate(*args):
    _, rows = _bench("-m", DEMO, "--speculate", 4, "--context", 24, "--decode", 48, "--reps", 2,
                    *args)
    return rows


def guesses_gain_what_their_share_of_right_ones_allows():
    rows = _speculate("--batch", "1,3", "--adaptive", "off", "--accept", 1, "--reps", 1)
    check([(r["test"], r["prompt"], r["batch"], r["tokens"]) for r in rows]
          == [("speculate", 24, n, 48) for n in (1, 3)], f"rows of guesses: {rows}")
    check(all(set(r) == {"test", "prompt", "batch", "tokens", "guesses", "accept", "adaptive",
                         "tok_s_plain", "tok_s", "speedup", "speedup_min", "speedup_max",
                         "tokens_per_step", "guesses_per_step", "step_s_plain", "step_ratio",
                         "ideal_speedup_steps", "ideal_speedup_roofs", "roof_share", "threads",
                         "dtype", "quant"} for r in rows), "keys of guesses")
    check(all(r["tokens_per_step"] == 5 and r["guesses_per_step"] == 4 for r in rows),
          "right guesses are all accepted")
    for r in rows:
        check(abs(r["ideal_speedup_steps"] * r["step_ratio"] / 5 - 1) < 1e-6,
              "right guesses gain the tokens of a step over its time")
        check(abs(r["step_s_plain"] * r["tok_s_plain"] / r["batch"] - 1) < 1e-6,
              "a step without guesses has a token of each sequence")
        check(1 <= r["ideal_speedup_roofs"] <= 5 and r["roof_share"] > 0, "ideals")
        check(abs(r["tok_s"] / r["tok_s_plain"] / r["speedup"] - 1) < 1e-6
              and r["speedup_min"] <= r["speedup"] <= r["speedup_max"], "speedups")
    rows = _speculate("--batch", 2, "--adaptive", "off", "--accept", 0)
    check(rows[0]["tokens_per_step"] == 1 and rows[0]["guesses_per_step"] == 4,
          f"wrong guesses are all dropped: {rows}")
    check(rows[0]["ideal_speedup_roofs"] == 1, "the best number of wrong guesses is none")
    rows = _speculate("--batch", 1, "--accept", 0, "--quant", "int8", "--decode", 300)
    check(rows[0]["tokens_per_step"] == 1 and rows[0]["guesses_per_step"] < 4,
          f"guesses that do not pay end: {rows}")
    r = call("bench", "-m", GEMMA, "--speculate", 2, "--decode", 12, "--context", 30, "--batch",
             "1,2", "--reps", 1, "--roof-seconds", .01, "--kv-cache-type", "dynamic")
    check(r.returncode == 0 and b"2 guesses, each right with the chance 0.8" in r.stdout,
          f"guesses as text: {r.stderr}")
    for args, why in (((33,), b"--speculate"), ((4, "--accept", 1.5), b"--accept"),
                      ((4, "--decode", 5), b"--decode"), ((4, "--decode", 0), b"--decode"),
                      ((4, "--batch", 257), b"--batch"),
                      ((4, "--max-model-len", 20), b"--max-model-len")):
        r = call("bench", "-m", DEMO, "--reps", 1, "--roof-seconds", .01, "--quiet", "--speculate",
                 *args)
        check(r.returncode == 2 and why in r.stderr, f"--speculate {args}: {r.stderr}")


def every_cache_is_measured():
    for kind in ("dynamic", "bmc", "slab_pool", "paged"):
        for model in (DEMO, GEMMA):
            _, r = _bench("-m", model, "--prefill", 30, "--decode", 6, "--context", "10,600",
                         "--batch", "2,1", "--reps", 2, "--kv-cache-type", kind, "--kv-cache-dtype",
                         "int8")
            check(len(r) == 5, f"{kind}: all rows")


def what_cannot_be_measured_is_refused():
    r = call("bench", "-m", DEMO, "--max-model-len", 100, "--context", 300)
    check(r.returncode == 2 and b"--max-model-len" in r.stderr, "a context beyond --max-model-len")
    r = call("bench", "-m", DEMO, "--batch", 200, "--rows", 60)
    check(r.returncode == 2 and b"--rows" in r.stderr, "too many tokens in a step")
    r = call("bench", "-m", DEMO, "--context", 10000000, "--batch", 256)
    check(r.returncode == 1 and b"do not fit" in r.stderr, "more rows than memory")
    check(call("bench", "-m", DEMO, "--rows", 0).returncode == 2, "no rows")
    r = call("bench", "-m", DEMO, "--mixed", 600)
    check(r.returncode == 2 and b"--mixed" in r.stderr, "a chunk beyond a step")
    r = call("bench", "-m", DEMO, "--trace", "file")
    check(r.returncode == 2 and b"--serve" in r.stderr, "requests of a file without a load")
    r = call("simulate", "--shape", "gpt2", "--bandwidth", 1, "--flops", 1, "--trace")
    check(r.returncode == 2 and b"--trace" in r.stderr, "a simulation of no file")


run_all(list(globals().items()))
