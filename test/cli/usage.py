#!/usr/bin/env python3
"""usage.py - wrong usage gives exit status 2 and one sentence, before any model is looked for,
and messages contain nothing that harms a terminal."""
import json
import os
import tempfile

from _cli import DEMO, call, check, expect, expect_error, run_all

WRONG = [  # the arguments of run, and words of the message
    (["--kv-sparse", "bad"], ["bad", "sink=N,window=N"]),
    (["--kv-sparse", "sink=4"], ["sink=N,window=N"]),
    (["--isa", "avx10"], ["--isa", "avx10", "avx512"]), (["--isa", ""], ["--isa"]),
    (["--block-size", "17"], ["--block-size", "17", "power of two"]),
    (["--block-size", "8"], ["--block-size", "[16,256]"]),
    (["--block-size", "512"], ["--block-size"]),
    (["--logit-bias", "5"], ["--logit-bias", "'5'", "ID=V"]),
    (["--logit-bias", "5=x"], ["ID=V"]), (["--logit-bias", "=1"], ["ID=V"]),
    (["--logit-bias", "5=nan"], ["ID=V"]),
    (["--logit-bias", "-1=2"], ["logit_bias", "-1"]),
    (["--logit-bias", "5=1", "--logit-bias", "5=2"], ["token 5", "twice"]),
    (["--stop", ""], ["stop", "empty"]),
    (["--stop", b"a\xffb"], ["--stop", "UTF-8", "0xff", "byte 2"]),
    (["--stop", "x" * 1025], ["stop", "1025"]), (["--op-config", "{"], ["--op-config"]),
    (["--op-config", '{"mlp":1}'], ["--op-config", "mlp"]),
    (["--op-config", '{"soup":"native"}'], ["--op-config", "soup"]),
    (["--op-config", "[]"], ["--op-config", "object"]),
    (["--op-config", '{"mlp":"foo"}'], ["--op-config", "foo", "mlp", "native"]),
    (["--attention-backend", "foo"], ["--attention-backend", "foo", "native"]),
    (["--dtype", "fp8"], ["--dtype", "fp8", "fp32|bf16"]),
    (["--quant", "int5"], ["--quant", "int5"]),
    (["--kv-cache-type", "heap"], ["--kv-cache-type", "heap"]),
    (["--kv-cache-memory", "0"], ["--kv-cache-memory", "(0,"]),
    (["--kv-cache-memory", "1048577"], ["--kv-cache-memory"]),
    (["--threads", "0"], ["--threads", "[1,1024]"]), (["--threads", "1025"], ["--threads"]),
    (["--max-model-len", "1"], ["--max-model-len"]),
    (["--max-num-batched-tokens", "0"], ["--max-num-batched-tokens"]),
    (["--seed", "-1"], ["--seed", "18446744073709551615"]),
    (["--seed", "18446744073709551616"], ["--seed"]),
    (["--top-p", "0"], ["--top-p", "(0,1]"]), (["--top-p", "1.01"], ["--top-p"]),
    (["--min-p", "-0.1"], ["--min-p"]),
    (["--temperature", "-1"], ["--temperature"]),
    (["--repetition-penalty", "0"], ["--repetition-penalty", "(0,inf)"]),
    (["-n", "-1"], ["--max-new-tokens"]), (["--logprobs", "1025"], ["--logprobs", "[0,1024]"]),
    (["--stop-token", "-1"], ["--stop-token"]), (["--colour"], ["--colour"]), (["-Z"], ["-Z"]),
    (["-n"], ["--max-new-tokens"]),
]


def a_bad_value_of_an_option_is_status_2_before_a_model_is_looked_for():
    for more, words in WRONG:
        expect_error(call("run", "-m", "/nowhere/at/all", *more,
                          *([] if more in (["-n"],) else ["x"])), 2, *words)
    for ids in ("1,,2", "", ",1", "1,x", "1.5", "99999999999", "1;2"):
        expect_error(call("run", "-m", "/nowhere/at/all", "--ids", ids), 2, "--ids", "1,2,3")
    expect_error(call("inspect", "-m", "/nowhere/at/all", "--isa", "avx10"), 2, "avx10")
    expect_error(call("inspect", "-m", "/nowhere/at/all"), 1, "/nowhere/at/all")


def lists_and_surplus_words_of_bench_and_inspect_are_status_2_too():
    for more, word in ((["--prefill", "x"], "--prefill"), (["--context", "1,,2"], "--context"),
                       (["--batch", "0"], "--batch"), (["--batch", "257"], "--batch"),
                       (["--prefill", "0", "--decode", "0"], "every measurement"), (["surplus"], "surplus")):
        expect_error(call("bench", "-m", "/nowhere/at/all", *more), 2, word)
    expect_error(call("bench", "--kernels", "surplus"), 2, "surplus")
    expect_error(call("inspect", "-m", DEMO, "surplus"), 2, "surplus")


def limits_that_are_allowed_are_taken():
    for more in (["--kv-cache-memory", 0.002], ["--seed", 2**64 - 1], ["--seed", 2**63],
                 ["--seed", 0], ["--logprobs", 1024], ["--temperature", 0], ["--top-p", 1],
                 ["--min-p", 0], ["--min-p", 1], ["--top-k", 0], ["--threads", 1],
                 ["--max-model-len", 3], ["--block-size", 16], ["--block-size", 256],
                 ["--stop", "x" * 1024], ["--max-num-batched-tokens", 1], ["--isa", "ref"],
                 ["--kv-sparse", "sink=0,window=1"]):
        r = call("run", "-m", DEMO, "-n", 1, "--quiet", "--ids", "5,6", *more)
        expect((r.returncode, r.stderr), (0, b""), f"run with {more}")


def the_upper_half_of_64_bits_is_a_seed_of_its_own():
    args = ["run", "-m", DEMO, "-n", 20, "--temperature", "1.5", "Once upon a time", "--seed"]
    high, same, low = (call(*args, seed).stdout for seed in (2**64 - 1, 2**64 - 1, 2**63 - 1))
    check(high == same and high != low,
          f"seeds 2^64 - 1 twice and 2^63 - 1: {high!r}, {same!r}, {low!r}")


def ids_are_parted_by_commas_or_blanks():
    want = call("run", "-m", DEMO, "-n", 4, "--ids", "5,6,7").stdout
    for ids in ("5 6 7", " 5, 6 ,7 ", "5\n6\t7", "5,6,7,"):
        r = call("run", "-m", DEMO, "-n", 4, "--ids", ids)
        expect((r.returncode, r.stdout), (0, want), f"--ids {ids!r}")


def a_list_of_options_may_come_in_any_order():
    first, second = json.loads(call("run", "-m", DEMO, "-n", 2, "--json",
                                    "Once upon a time").stdout)["output_ids"]
    for more in ([second, 2000], [2000, second]):
        r = call("run", "-m", DEMO, "-n", 9, "--json",
                 *(x for i in more for x in ("--stop-token", i)), "Once upon a time")
        o = json.loads(r.stdout)
        expect((o["output_ids"], o["stop_reason"]), ([first, second], second),
               f"output with stop tokens {more}")
    for more in (["9=1", "5=100"], ["5=100", "9=1"]):
        o = json.loads(call("run", "-m", DEMO, "-n", 1, "--json",
                            *(x for b in more for x in ("--logit-bias", b)), "x").stdout)
        expect(o.get("output_ids"), [5], f"output with biases {more}")


def a_quantisation_that_is_not_there_is_refused():
    for name in ("int3", "[]", '{"mlp":"int3"}', '{"norm":"int8"}', "{"):
        expect_error(call("run", "-m", DEMO, "--quant", name, "x"), 2, "--quant")
    expect_error(call("run", "-m", DEMO, "--quant", "int8-static", "x"), 1, "scales")
    expect(call("run", "-m", DEMO, "-n", 1, "--quant", "none", "x").returncode, 0,
           "status with --quant none")


def what_is_said_is_fit_for_a_terminal():
    evil = b"a\x1b[2Jb\xc2\x9b31mc\x9b31md\xe2\x80\xaee"
    for args in (["run", "-m", evil, "x"], ["run", "-m", DEMO, "--isa", evil, "x"], [evil], [
            "run", b"--" + evil], ["run", "--ids", evil], ["run", "-m", DEMO, "--dtype", evil, "x"],
                 ["run", "-m", DEMO, "--file", evil], ["inspect", "-m", evil]):
        said = call(*args).stderr
        text = said.decode(errors="replace")
        check(said.count(b"\n") == 1 and "a?[2J" in text, f"{args}: {said!r}")
        check(all(c == "\n" or (c.isprintable() and c != "\ufffd") for c in text),
              f"{args} lets through: {said!r}")
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "config.json"), "w") as f:
            f.write('{"model_type": "\x7f\u009b31m\u202e", "architectures": ["\u0085\u009bX"]}')
        said = call("run", "-m", d, "x").stderr.decode(errors="replace")
        check(said.endswith("\n") and all(c == "\n" or c.isprintable() for c in said),
              f"names of a file: {said!r}")


run_all(list(globals().items()))
