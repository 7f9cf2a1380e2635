#!/usr/bin/env python3
"""numbers.py - the output of `logits` and `ppl` at their limits, compared with sums of each
other's results."""
import array
import ast
import json
import math
import os
import random
import re
import shutil
import tempfile

from _cli import DEMO, ROOT, call, check, expect, expect_error, lines, run_all

BLOCKS = os.path.join(ROOT, "test", "data", "blocks.gguf")
FOLDER = tempfile.TemporaryDirectory()
TEXT = "Once upon a time there was a little fox who lived in the woods. One day she met a bear. " "\"What is 3 plus 4?\" said the bear. The fox did not know, and they went to ask the owl. Zebras quarrel \u00e9 42!"


def _path(name):
    return os.path.join(FOLDER.name, name)


def _read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[8:10], "little")
    head = ast.literal_eval(data[10:10 + n].decode())
    check((10 + n) % 64 == 0 and head["descr"] == "<f4" and head["fortran_order"] is False,
          f"the header of {path}: {head}")
    x = array.array("f", data[10 + n:])
    expect(len(x), math.prod(head["shape"]), f"values of {path}")
    return head["shape"], x


def _ids(text=TEXT, model=DEMO, *more):
    return lines(call("tokenize", "-m", model, "--json", *more, text))[0]["ids"]


def _logits(ids, *more, model=DEMO, name="x.npy"):
    """Returns rows of logits as lists."""
    r = call("logits", "-m", model, "--ids", ",".join(map(str, ids)), "--npy", _path(name), *more)
    expect((r.returncode, r.stdout), (0, b""),
           f"status and output of logits {more} ({r.stderr.decode()})")
    shape, x = _read_npy(_path(name))
    return [x[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]


def _log_softmax(x):
    most = max(x)
    total = most + math.log(math.fsum(math.exp(v - most) for v in x))
    return [v - total for v in x]


# ---- logits ----

def _wide_model(inner):
    """Makes a checkpoint of one layer with an MLP of width WIDE, whose weights have random bits."""
    folder, E, V = _path("wide"), 48, 96
    shapes = {"embed_tokens": (V, E), "norm": (E,), "layers.0.input_layernorm": (E,),
              "layers.0.post_attention_layernorm": (E,)}
    shapes |= {f"layers.0.self_attn.{x}_proj": (E, E) for x in "qkvo"}
    shapes |= {"layers.0.mlp.gate_proj": (inner, E), "layers.0.mlp.up_proj": (inner, E),
               "layers.0.mlp.down_proj": (E, inner)}
    noise, sizes, data, head = random.Random(5), bytes((0xbc if x & 1 else 0x3c) + (x >> 1) % 2
                                                       for x in range(256)), b"", {}
    for name, shape in shapes.items():
        w = bytearray(noise.randbytes(2 * math.prod(shape)))
        w[1::2] = w[1::2].translate(sizes)  # bf16 numbers from 2^-7 to 2^-3
        head[f"model.{name}.weight"] = {"dtype": "BF16", "shape": shape,
                                        "data_offsets": [len(data), len(data) + len(w)]}
        data += w
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": E,
                   "intermediate_size": inner, "num_hidden_layers": 1, "num_attention_heads": 2,
                   "num_key_value_heads": 2, "vocab_size": V, "rms_norm_eps": 1e-5,
                   "max_position_embeddings": 512, "rope_theta": 10000.0, "hidden_act": "silu",
                   "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
                   "torch_dtype": "bfloat16"}, f)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        text = json.dumps(head).encode()
        f.write(len(text).to_bytes(8, "little") + text + data)
    return folder


def an_mlp_in_splits_has_the_bits_of_a_whole_one():
    model, ids = _wide_model(20480), [(i * 37 + 5) % 96 for i in range(150)]
    for dtype in ("fp32", "bf16"):
        want = _logits(ids, "--dtype", dtype, model=model)
        check(len({tuple(row) for row in want}) == 150, f"{dtype}: logits tell tokens apart")
        for chunk in (*range(1, 34), 150):
            got = _logits(ids[:2 * chunk], "--dtype", dtype, "--chunk", chunk, "--op-config",
                          '{"mlp":"imbps"}', model=model)
            expect([i for i, row in enumerate(got) if row != want[i]], [],
                   f"rows that differ in {dtype}, {chunk} at a time")


def chunks_and_last_rows_cut_nothing_off():
    ids = (_ids() * 5)[:300]  # A step has 128 rows.
    want = _logits(ids)
    expect(len(want), 300, "rows of 300 tokens")
    for chunk in (1, 7, 300, 1000):
        got = _logits(ids, "--chunk", chunk)
        expect([i for i in range(300) if got[i] != want[i]], [],
               f"rows that differ with --chunk {chunk}")
    hidden = ["--hidden", _path("h.npy")]
    for last, more in ((1, []), (1, ["--chunk", 100]), (1, hidden), (128, []), (129, hidden), (
            129, []), (299, ["--chunk", 100]), (300, []), (301, []), (2147483647, hidden)):
        got = _logits(ids, "--last", last, *more)
        expect(len(got), min(last, 300), f"rows of --last {last} {more}")
        check(got == want[-min(last, 300):], f"--last {last} {more} gives other rows")
    shape, _ = _read_npy(_path("h.npy"))
    config = json.load(open(os.path.join(DEMO, "config.json")))
    expect(shape, (config["num_hidden_layers"] + 1, 300, config["hidden_size"]),
           "shape of the hidden states")
    args = ["logits", "-m", DEMO, "--ids", "1,2"]
    for flag, value in (("--chunk", 0), ("--chunk", 65537), ("--chunk", -1), ("--last", 0),
                        ("--last", -1), ("--last", 2147483648), ("--top", 0), ("--top", 1025)):
        expect_error(call(*args, flag, value), 2, flag)
    expect_error(call(*args, "--chunk", 65, "--max-num-batched-tokens", 64), 2, "--chunk: found 65",
                 "--max-num-batched-tokens, 64")
    expect(call(*args, "--chunk", 64, "--max-num-batched-tokens", 64, "--top", 1).returncode, 0,
           "status of a chunk as large as a step")


def the_largest_logits_are_those_of_the_file():
    ids = _ids()[:9]
    rows = _logits(ids)
    ranked = [sorted(((-v, i) for i, v in enumerate(row))) for row in rows]
    for top in (1, 2, 1024):
        for last in (1, 9):
            o = lines(call("logits", "-m", DEMO, "--ids", ",".join(map(str, ids)), "--top", top,
                           "--last", last, "--json"))[0]
            expect([x["pos"] for x in o], list(range(9 - last, 9)),
                   f"positions of --top {top} --last {last}")
            for x in o:
                expect([i for i, _ in x["top"]], [i for _, i in ranked[x["pos"]][:top]],
                       f"ids of --top {top} at {x['pos']}")
                check(all(abs(v + w) <= 1e-6 * abs(w) for (_, v), (w, _) in zip(
                    x["top"], ranked[x["pos"]])), f"values of --top {top} at {x['pos']}")
    text = call("logits", "-m", DEMO, "--ids", ",".join(map(str, ids)), "--top", 2, "--last",
                1).stdout.decode()
    expect(text, "8: " + " ".join(f"{i}={-v:.6g}" for v, i in ranked[8][:2]) + "\n",
           "the line without --json")
    tiny = os.path.join(ROOT, "test", "golden", "llama3-rope")
    o = lines(call("logits", "-m", tiny, "--ids", "1,2", "--top", 1024, "--json"))[0]
    n = json.load(open(os.path.join(tiny, "config.json")))["vocab_size"]
    expect([len({i for i, _ in x["top"]}) for x in o], [min(n, 1024)] * 2,
           "ids of --top in a small vocabulary")


def equal_logits_come_in_the_order_of_their_ids():
    model, twins = _path("twins"), (7, 2000)
    shutil.copytree(DEMO, model)
    best = lines(call("logits", "-m", DEMO, "--ids", "3,5", "--top", 1, "--last", 1,
                      "--json"))[0][0]["top"][0][0]
    check(best not in (3, 5, *twins),
          f"the likeliest token {best} is neither of the prompt nor one of {twins}")
    # The embedding is also the head.
    with open(os.path.join(model, "model.safetensors"), "r+b") as f:
        n = int.from_bytes(f.read(8), "little")
        table = json.loads(f.read(n))["model.embed_tokens.weight"]
        begin, width = 8 + n + table["data_offsets"][0], table["shape"][1] * 2
        f.seek(begin + best * width)
        row = f.read(width)
        for i in twins:
            f.seek(begin + i * width)
            f.write(row)
    for top in (1, 2, 3):
        o = lines(call("logits", "-m", model, "--ids", "3,5", "--top", top, "--last", 1,
                       "--json"))[0]
        expect([i for i, _ in o[0]["top"]], sorted([best, *twins])[:top],
               f"ids of --top {top} of three equal logits")


def a_prompt_fills_the_context_and_no_more():
    ids = _ids()
    n = len(ids)
    want = _logits(ids)
    check(_logits(ids, "--max-model-len", n) == want, "a prompt as long as the context")
    r = call("logits", "-m", DEMO, "--max-model-len", n - 1, "--ids", ",".join(map(str, ids)),
             "--npy", _path("none.npy"))
    expect_error(r, 1, f"{n} tokens", f"context length is {n - 1}")
    check(not os.path.exists(_path("none.npy")), "a prompt that is refused leaves no file")
    expect_error(call("logits", "-m", DEMO, "--ids", "5,2048", "--top", 1), 1, "2048", "position 1")
    expect_error(call("logits", "-m", DEMO, "--ids", "5,-1", "--top", 1), 1, "-1", "position 1")
    check(_logits([3]) == _logits([3, 5, 7])[:1], "a prompt of one token")
    expect_error(call("logits", "-m", DEMO, "--no-special", ""), 1, "empty")
    expect(lines(call("logits", "-m", DEMO, "--top", 1, "--json", ""))[0][0]["pos"], 0,
           "position of an empty text behind BOS")


def a_text_is_the_ids_of_tokenize():
    for more in ([], ["--no-special"]):
        r = call("logits", "-m", DEMO, *more, "--top", 1, "--last", 1, TEXT)
        ids = _ids(TEXT, DEMO, *more)
        want = call("logits", "-m", DEMO, "--ids", ",".join(map(str, ids)), "--top", 1, "--last", 1)
        expect(r.stdout, want.stdout, f"the last row of a text {more}")


# ---- ppl ----

def _ppl(text, *more, model=DEMO):
    with open(_path("text.txt"), "w") as f:
        f.write(text)
    r = call("ppl", "-m", model, "--file", _path("text.txt"), "--json", *more)
    expect((r.returncode, r.stderr), (0, b""), f"status and words of ppl {more}")
    return lines(r)[0]


def _windows(ids, bos, ctx):
    body = ctx - len(bos)
    return [bos + ids[at:at + body] for at in range(0, len(ids), body)]


def _scores(windows, model=DEMO, *more):
    """Returns pairs of the log-softmax of each row that predicts a token, and that token."""
    pairs = []
    for w in windows:
        if len(w) > 1:
            rows = _logits(w, *more, model=model)
            pairs += [(_log_softmax(rows[i]), w[i + 1]) for i in range(len(w) - 1)]
    return pairs


def kl_is_that_of_fp32_to_the_other_and_not_the_reverse():
    ids = _ids(TEXT, DEMO, "--no-special")
    bos = _ids()[:1]
    windows = _windows(ids, bos, 24)
    check(len(windows) > 2 and len(windows[-1]) < 24,
          f"several windows, the last a shorter one: {[len(w) for w in windows]}")
    p = _scores(windows, DEMO, "--dtype", "fp32")
    q = _scores(windows, DEMO, "--dtype", "bf16", "--quant", "int4")
    there = [math.fsum(math.exp(a) * (a - b) for a, b in zip(x, y)) for (x, _), (y, _) in zip(p, q)]
    back = [math.fsum(math.exp(b) * (b - a) for a, b in zip(x, y)) for (x, _), (y, _) in zip(p, q)]
    mean, reverse = math.fsum(there) / len(there), math.fsum(back) / len(back)
    check(abs(mean - reverse) > 1e-3 * mean,  # int4 moves the scores enough at every level
          f"the two directions are far enough apart to be told: {mean} and {reverse}")
    o = _ppl(TEXT, "--ctx", 24, "--kl", "--dtype", "bf16", "--quant", "int4")
    expect(o["tokens"], len(p), "tokens")
    check(
        abs(o["kl_mean"] - mean) < 2e-6 * mean,
        f"kl_mean: found {o['kl_mean']}, expected KL(fp32 || int4) {mean}, the reverse is {reverse}")
    p99 = sorted(there)[int((len(there) - 1) * 0.99)]
    check(abs(o["kl_p99"] - p99) < 2e-6 * p99, f"kl_p99: found {o['kl_p99']}, expected {p99}")
    same = [x.index(max(x)) == y.index(max(y)) for (x, _), (y, _) in zip(p, q)]
    expect(round(o["top1_agree"], 7), round(sum(same) / len(same), 7), "top1_agree")
    nll = -math.fsum(y[t] for y, t in q) / len(q)
    check(abs(o["nll"] - nll) < 1e-6 and abs(o["ppl"] - math.exp(nll)) < 1e-5 * o["ppl"],
          f"nll {o['nll']} and ppl {o['ppl']}, expected {nll}")
    for dtype in ([], ["--kv-cache-dtype", "fp32"]):
        expect_error(call("ppl", "-m", DEMO, "--file", _path("text.txt"), "--kl", "--dtype", "fp32",
                          *dtype), 2, "--kl", "fp32")
    o = _ppl(TEXT, "--ctx", 24, "--kl", "--dtype", "fp32", "--kv-cache-dtype", "bf16")
    check(0 < o["kl_mean"] < mean, f"KL of fp32 with rows in bf16: {o['kl_mean']}")


def linears_in_int8_are_near_and_the_same_on_all_kernels():
    o = _ppl(TEXT, "--ctx", 64, "--kl", "--quant", "int8")
    check(2e-4 < o["kl_mean"] < 5e-3 and o["top1_agree"] > 0.9, f"KL of int8 from fp32: {o}")
    best = _ppl(TEXT, "--quant", "int8", "--dtype", "fp32")
    for isa in ("ref", "avx2", "avx512", "avx512vnni"):
        expect(_ppl(TEXT, "--quant", "int8", "--dtype", "fp32", "--isa", isa), best,
               f"scores of int8 with --isa {isa}")


def scales_found_before_are_near_those_of_each_row():
    with tempfile.TemporaryDirectory() as folder:
        scales, packed = os.path.join(folder, "scales.json"), os.path.join(folder, "m.gallop")
        r = call("calibrate", "-m", DEMO, "--file", _path("text.txt"), "-o", scales, "--json")
        with open(scales) as f:
            found = json.load(f)
        expect({**json.loads(r.stdout), "dynamic": 0, "tokens": 0},
               {"file": scales, "tokens": 0, "linears": len(found["linears"]), "dynamic": 0},
               "calibrate")
        check(sum(x["largest"] > 0 for x in found["linears"].values()) > len(found["linears"]) / 2,
              f"scales: {found}")
        o, dynamic = (_ppl(TEXT, "--ctx", 64, "--kl", *x) for x
                      in (("--quant", "int8-static", "--scales", scales), ("--quant", "int8")))
        check(o["nll"] != dynamic["nll"] and 2e-4 < o["kl_mean"] < 1e-2,
              f"KL of int8-static from fp32: {o}")
        exact = ("--quant", "int8-static", "--scales", scales, "--dtype", "fp32")
        best = _ppl(TEXT, *exact)
        for isa in ("ref", "avx2", "avx512"):
            expect(_ppl(TEXT, *exact, "--isa", isa), best,
                   f"scores of int8-static with --isa {isa}")
        call("quantize", "-m", DEMO, "--quant", "int8-static", "--scales", scales, "-o", packed)
        ids = list(range(3, 40))
        expect(_logits(ids, model=packed),
               _logits(ids, "--quant", "int8-static", "--scales", scales), "logits when packed")
        expect_error(call("calibrate", "-m", DEMO, "--file", _path("text.txt"), "-o", scales), 1,
                     scales)
        other = os.path.join(ROOT, "test", "golden", "qwen3")
        expect_error(call("run", "-m", other, "--ids", "1", "--quant", "int8-static", "--scales",
                          scales), 1, scales, "another model")
        with open(scales, "w") as f:
            f.write("{}")
        expect_error(call("run", "-m", DEMO, "--quant", "int8-static", "--scales", scales, "x"), 1,
                     scales, "format")


def rounding_to_four_bits_by_a_text_costs_half():
    with tempfile.TemporaryDirectory() as folder:
        seen, scales, packed = (os.path.join(folder, x)
                                for x in ("seen.safetensors", "scales.json", "m.gallop"))
        r = call("calibrate", "-m", DEMO, "--quant", "int4", "--file", _path("text.txt"), "-o",
                 seen, "--json", "--ctx", 64)
        found = json.loads(r.stdout)
        check(found["linears"] > 10 and found["tokens"] > 50, f"calibrate --quant int4: {found}")
        without, by = (_ppl(TEXT, "--ctx", 64, "--kl", "--quant", "int4", *x)
                       for x in ((), ("--scales", seen)))
        check(1e-4 < by["kl_mean"] < without["kl_mean"] / 2,
              f"mean KL {by['kl_mean']}, without {without['kl_mean']}")
        exact = ("--quant", "int4", "--scales", seen, "--dtype", "fp32")
        best = _ppl(TEXT, *exact)
        for isa in ("ref", "avx2", "avx512"):
            expect(_ppl(TEXT, *exact, "--isa", isa), best, f"scores of int4 with --isa {isa}")
        call("quantize", "-m", DEMO, "--quant", "int4", "--scales", seen, "-o", packed)
        ids = list(range(3, 40))
        expect(_logits(ids, model=packed), _logits(ids, "--quant", "int4", "--scales", seen),
               "logits when packed")
        call("calibrate", "-m", DEMO, "--quant", "int8-static", "--file", _path("text.txt"), "-o",
             scales)
        expect_error(call("run", "-m", DEMO, "--quant", "int8-static", "--scales", seen, "x"), 1,
                     seen, "int8-static")
        for quant, path in (("int4", scales), ("int8", seen), ("mxfp4", seen)):
            r = call("run", "-m", DEMO, "-n", 1, "--quant", quant, "--scales", path, "x")
            check(r.returncode == 0 and f"{path} is not used" in r.stderr.decode(),
                  f"{quant} with a file of another: {r}")
        other = os.path.join(ROOT, "test", "golden", "qwen3")
        expect_error(call("run", "-m", other, "--ids", "1", "--quant", "int4", "--scales", seen), 1,
                     seen, "another model")
        with open(seen, "rb") as f:
            whole = f.read()
        start = 8 + int.from_bytes(whole[:8], "little")
        for name, data in (("cut", whole[:-4]), ("infinite", whole[:start] + b"\0\0\x80\x7f"
                                                  + whole[start + 4 :]), ("no header", whole[:20])):
            path = os.path.join(folder, "bad.safetensors")
            with open(path, "wb") as f:
                f.write(data)
            expect_error(call("run", "-m", DEMO, "--quant", "int4", "--scales", path, "x"), 1, path)
        expect_error(call("calibrate", "-m", DEMO, "--quant", "mxfp4", "--file", _path("text.txt"),
                          "-o", seen), 2, "--quant", "int4")


def experts_of_one_name_are_calibrated_together():
    """gpt-oss has one name for a linear of all experts of a layer: both files contain it once
    and can be read again."""
    with tempfile.TemporaryDirectory() as folder:
        model, text = os.path.join(folder, "m"), os.path.join(folder, "text.txt")
        shutil.copytree(os.path.join(ROOT, "test", "golden", "gpt-oss"), model)
        with open(os.path.join(model, "tokenizer.json"), "w") as f:
            json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": {
                "type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
                       "model": {"type": "BPE", "vocab": {chr(97 + i): i for i in range(26)},
                                 "merges": []}}, f)
        with open(text, "w") as f:
            f.write("".join(chr(97 + i * i % 26) for i in range(200)))
        for quant in ("int4", "int8-static"):
            scales = os.path.join(folder, quant)
            r = call("calibrate", "-m", model, "--quant", quant, "--file", text, "--ctx", 64, "-o",
                     scales, "--json")
            expect(r.returncode, 0, f"status of calibrate --quant {quant}: {r.stderr}")
            with open(scales, "rb") as f:
                data = f.read()
            held = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")] if quant == "int4"
                              else data)
            held = {k for k in held.get("linears", held) if k != "__metadata__"}
            expect(json.loads(r.stdout)["linears"], len(held), f"linears of {quant}")
            check(any("experts" in x for x in held), f"experts are among {held}")
            expect(call("run", "-m", model, "--quant", quant, "--scales", scales, "--ids", "1,2,3",
                        "-n", 2).returncode, 0, f"status of run with {quant}")
        expect_error(call("calibrate", "-m", model, "--file", text, "--ctx", 100000, "-o", scales,
                          "--force"), 1, "--ctx 100000", "context")
        expect(call("calibrate", "-m", model,
                    "--file", text, "-o", scales, "--force", "--max-model-len", 48).returncode, 0,
               "status where the context is shorter than a window by itself")


def linears_in_four_bits_are_near_and_the_same_on_all_kernels():
    for quant, most in (("int4", 0.1), ("int4-g128", 0.2), ("mxfp4", 0.3)):
        o = _ppl(TEXT, "--ctx", 64, "--kl", "--quant", quant)
        check(1e-3 < o["kl_mean"] < most, f"KL of {quant} from fp32: {o}")
        best = _ppl(TEXT, "--quant", quant, "--dtype", "fp32")
        for isa in ("ref", "avx2", "avx512", "avx512vnni"):
            expect(_ppl(TEXT, "--quant", quant, "--dtype", "fp32", "--isa", isa), best,
                   f"scores of {quant} with --isa {isa}")
    mixed = json.dumps({"mlp": "int4", "lm_head": "none"})
    expect(json.loads(call("inspect", "-m", DEMO, "--json", "--quant", mixed).stdout)["quant"],
           mixed.replace(" ", ""), "several kinds")


def weights_in_blocks_are_near_and_the_same_on_all_kernels():
    ids = list(range(3, 90))
    exact = _logits(ids, "--dtype", "fp32", model=BLOCKS)
    best = _logits(ids, "--kv-cache-dtype", "fp32", model=BLOCKS)
    kl = math.fsum(sum(math.exp(a) * (a - b) for a, b in zip(_log_softmax(x), _log_softmax(y)))
                   for x, y in zip(exact, best)) / len(ids)
    check(1e-6 < kl < 2e-3, f"mean KL from fp32: {kl}")
    for isa in ("ref", "avx2", "avx512", "avx512vnni"):
        expect(_logits(ids, "--kv-cache-dtype", "fp32", "--isa", isa, model=BLOCKS), best,
               f"logits with --isa {isa}")
    unpacked = _logits(ids, "--quant", "none", model=BLOCKS)
    check(unpacked != best and max(abs(a - b) for x, y in zip(unpacked, exact) for a,
                                   b in zip(x, y)) < 0.1, "with --quant none")
    for options, quant in (((), "gguf"), (("--quant", "none"), "none"),
                           (("--dtype", "fp32"), "none"), (("--quant", "int8"), "int8")):
        expect(json.loads(call("inspect", "-m", BLOCKS, "--json", *options).stdout)["quant"], quant,
               f"quant with {options}")


def every_token_is_scored_once_whatever_the_window():
    ids = _ids(TEXT, DEMO, "--no-special")
    bos, n = _ids()[:1], len(ids)
    for ctx, most in ((2, 5), (3, 5), (n, None), (n + 1, None), (n + 2, None), (1024, None), (
            11, 20), (11, 21), (11, 19), (11, 2), (11, n), (11, n + 1), (11, 2147483647)):
        o = _ppl(TEXT, "--ctx", ctx, *([] if most is None else ["--max-tokens", most]))
        part = ids[:most]
        expect(o["tokens"], len(part),
               f"tokens with --ctx {ctx} --max-tokens {most}: each behind BOS")
        if ctx in (2, 11) and most in (5, 21, 2):
            pairs = _scores(_windows(part, bos, ctx))
            nll = -math.fsum(x[t] for x, t in pairs) / len(pairs)
            check(abs(o["nll"] - nll) < 1e-6,
                  f"nll with --ctx {ctx} --max-tokens {most}: found {o['nll']}, expected {nll}")
    for flag, value in (("--ctx", 1), ("--ctx", 0), ("--max-tokens", 1), ("--max-tokens", 0)):
        expect_error(call("ppl", "-m", DEMO, "--file", _path("text.txt"), flag, value), 2, flag)
    expect_error(call("ppl", "-m", DEMO, "--file", _path("text.txt"), "--ctx", 1025), 1,
                 "--ctx 1025", "1024")
    expect(_ppl(TEXT, "--ctx", 20, "--max-model-len", 20)["tokens"], n,
           "tokens with windows as long as the context")
    expect_error(call("ppl", "-m", DEMO, "--file", _path("text.txt"), "--ctx", 21,
                      "--max-model-len", 20), 1, "--ctx 21", "20")


def without_bos_the_first_token_of_a_window_is_not_scored():
    model = _path("plain")
    shutil.copytree(DEMO, model)
    with open(os.path.join(model, "tokenizer.json")) as f:
        tokenizer = json.load(f)
    tokenizer["post_processor"] = None
    with open(os.path.join(model, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f)
    ids = _ids(TEXT, model)
    expect(ids, _ids(TEXT, DEMO, "--no-special"), "ids where the tokenizer adds nothing")
    for ctx, most, want in ((10, 20, 18), (10, 21, 18), (10, 22, 19), (10, 9, 8), (10, 10, 9),
                            (2, 6, 3), (2, 7, 3), (1024, None, len(ids) - 1)):
        o = _ppl(TEXT, "--ctx", ctx, *([] if most is None else ["--max-tokens", most]), model=model)
        expect(o["tokens"], want, f"tokens with --ctx {ctx} --max-tokens {most}")
        if most == 22:
            pairs = _scores(_windows(ids[:most], [], ctx), model)
            nll = -math.fsum(x[t] for x, t in pairs) / len(pairs)
            check(abs(o["nll"] - nll) < 1e-6, f"nll without BOS: found {o['nll']}, expected {nll}")
    with open(_path("one.txt"), "w") as f:
        f.write("a")
    expect_error(call("ppl", "-m", model, "--file", _path("one.txt")), 1, "one.txt", "no token to score")
    expect(_ppl("a")["tokens"], 1, "tokens of one letter behind BOS")
    expect_error(call("ppl", "-m", DEMO, "--file", os.devnull), 1, "/dev/null", "no token to score")


def _expect_text(found, wanted, what):
    """Words and whole numbers must be equal. A fraction may differ by one in its last digit,
    because the numbers of JSON were rounded before."""
    number = re.compile(r"\d+\.(\d+)(?:e([+-]\d+))?")
    words = [number.sub(lambda m: f"<{len(m[1])} digits{m[2] and ', an exponent' or ''}>", x)
             for x in (found, wanted)]
    expect(*words, f"words of {what}")
    for a, b in zip(number.finditer(found), number.finditer(wanted)):
        unit = 10.0 ** (int(b[2] or 0) - len(b[1]))
        check(abs(float(a[0]) - float(b[0])) < 1.01 * unit,
              f"a number of {what}: found {a[0]}, expected {b[0]}")


def people_read_the_same_numbers():
    o = _ppl(TEXT, "--kl")
    r = call("ppl", "-m", DEMO, "--file", _path("text.txt"), "--kl")
    _expect_text(
        r.stdout.decode(),
        f"{o['tokens']} tokens scored, mean negative log-likelihood {o['nll']:.6f}, perplexity {o['ppl']:.4f}\n"
        f"KL from fp32: mean {o['kl_mean']:.3e}, 99th percentile {o['kl_p99']:.3e}; the likeliest token agrees in {100 * o['top1_agree']:.2f} %\n",
        "the lines without --json")


def _overflowing():
    """Makes the demo model with weights so large, though finite, that their sums overflow."""
    path = _path("overflowing")
    shutil.copytree(DEMO, path)
    with open(os.path.join(path, "model.safetensors"), "r+b") as f:
        n = int.from_bytes(f.read(8), "little")
        head = json.loads(f.read(n))
        for name, about in head.items():
            power = (100 if "down_proj" in name else 50 if "gate_proj" in name or "up_proj" in name
                     else 0)
            if not power:
                continue
            expect(about["dtype"], "BF16",
                   f"dtype of {name}, which this test scales by its exponents")
            begin, end = about["data_offsets"]
            f.seek(8 + n + begin)
            x = array.array("H", f.read(end - begin))
            for i, v in enumerate(x):
                x[i] = v + (power << 7) if v & 0x7f80 else v
            f.seek(8 + n + begin)
            f.write(x.tobytes())
    return path


def logits_that_are_no_numbers_fail_in_a_sentence():
    model = _overflowing()
    with open(_path("nan.txt"), "w") as f:
        f.write(TEXT)
    for more in ([], ["--json"]):
        expect_error(call("ppl", "-m", model, "--file", _path("nan.txt"), *more), 1,
                     "negative log-likelihood of prediction 0 is not finite")
        expect_error(call("logits", "-m", model, "--ids", "1,2,3", "--top", 2, *more), 1,
                     "logits of position 0 contain an infinity or NaN")
    r = call("run", "-m", model, "--json", "-n", 2, "hi")
    expect(r.returncode, 1, "status of run")
    check("contain NaN" in lines(r)[0]["error"], f"run says {r.stdout!r}")


run_all(list(globals().items()))
