#!/usr/bin/env python3
"""kvstore.py - blocks of a KV store are found by processes that compute the same bits, and by no
others.

Every option and every file that changes a bit of keys and values must change the key of the store:
each variant below runs with a store that the plain model has filled, and must read nothing. A
variant that changes no bit must find all whole blocks.
"""
import json
import os
import shutil
import struct
import tempfile

from _cli import DEMO, ROOT, call, check, expect, run_all

BLOCK = 16
PROMPT = "The old lighthouse stood on the hill and the sea was calm. " * 6
CALIBRATION = os.path.join(ROOT, "LICENSE")
folder = tempfile.TemporaryDirectory()


def _path(name):
    return os.path.join(folder.name, name)


def _run(store, *options, model=DEMO):
    r = call("run", "-m", model, "--quiet", "--json", "--block-size", BLOCK, "-n", 4, "--kv-store",
             store, *options, PROMPT)
    expect(r.returncode, 0, f"status with {options} ({r.stderr.decode().strip()[:200]})")
    return json.loads(r.stdout) if r.returncode == 0 else {"timing": {"stored_tokens": -1,
                                                                      "prompt_tokens": 0}}


def _stored(*args, **more):
    return _run(*args, **more)["timing"]["stored_tokens"]


def _finds(store, *options, model=DEMO):
    """Returns True if all whole blocks are read. Repeats the run if a busy machine did not wait
    for the disk."""
    for _ in range(50):
        timing = _run(store, *options, model=model)["timing"]
        if timing["stored_tokens"] == (timing["prompt_tokens"] - 1) // BLOCK * BLOCK:
            return True
    return False


def _calibrate(name, *options, tokens=200):
    text = _path("text-" + name)
    with open(CALIBRATION, "rb") as f, open(text, "wb") as out:
        f.seek(tokens * 10)
        out.write(f.read(3000))
    r = call("calibrate", "-m", DEMO, "--quiet", "--file", text, "--max-tokens", tokens, "-o",
             _path(name), "--force", *options)
    expect(r.returncode, 0, f"status of calibrate ({r.stderr.decode()})")
    return _path(name)


def a_folder_that_others_can_write_is_said():
    """The warning is one sentence with the folder and its mode, and the folder is still used. A
    folder that only this user can write causes no warning."""
    for mode, said in ((0o700, False), (0o755, False), (0o770, True), (0o702, True),
                       (0o1777, True)):
        store = _path(f"mode-{mode:o}")
        os.mkdir(store)
        os.chmod(store, mode)
        for _ in range(2):  # The folder is new, and then found again.
            r = call("run", "-m", DEMO, "--json", "-n", 1, "--kv-store", store, PROMPT)
            expect(r.returncode, 0, f"status with a folder of mode {mode:o}")
            told = [x for x in r.stderr.decode().splitlines() if store in x]
            expect(len(told), int(said), f"lines about a folder of mode {mode:o}: {told}")
            check(not said or f"(mode {mode:04o})" in told[0], f"the mode is named: {told}")
    if os.geteuid() == 0:
        store = _path("of-another")
        os.mkdir(store, 0o700)
        os.chown(store, 12345, 12345)
        r = call("run", "-m", DEMO, "--json", "-n", 1, "--kv-store", store, PROMPT)
        check("belongs to another user (id 12345)" in r.stderr.decode(),
              f"another's folder: {r.stderr}")


def options_that_change_bits_find_nothing():
    store = _path("options")
    expect(_stored(store), 0, "what is read from an empty store")
    variants = [["--dtype", "fp32"], ["--quant", "int8"], ["--quant", "int4"],
                ["--quant", "int4-g128"], ["--quant", "mxfp4"], ["--quant", '{"mlp": "int8"}'],
                ["--quant", '{"lm_head": "int8"}'], ["--kv-cache-dtype", "int8"],
                ["--kv-cache-dtype", "fp32"], ["--kv-cache-dtype", "int4"],
                ["--kv-sparse", "sink=4,window=32"], ["--kv-sparse", "sink=8,window=32"],
                ["--kv-sparse", "sink=4,window=48"], ["--block-size", 32],
                ["--attention-backend", "native"]]
    variants += [["--op-config", json.dumps({kind: "native"})]
                 for kind in ("norm", "qkv_projection", "rope", "out_projection", "mlp", "lm_head")]
    for v in variants:
        expect(_stored(store, *v), 0, f"tokens read with {v} that the plain model stored")
    check(_finds(store), "the plain model does not find its own blocks")


def another_arithmetic_finds_nothing():
    """Instruction sets of different arithmetic classes do not share blocks. The portable kernels
    have the bits of AVX2's."""
    classes = [{k: v["class"] for k, v in json.loads(call(
        "inspect", "--json", *isa).stdout)["kernels"].items()} for isa in ([], ["--isa", "avx2"])]
    store = _path("isa")
    _run(store)
    if classes[0] == classes[1]:
        check(_finds(store, "--isa", "avx2"),
              "--isa avx2 does not find blocks of the same arithmetic")
    else:
        expect(_stored(store, "--isa", "avx2"), 0, "tokens read with --isa avx2")


def options_that_change_no_bit_find_all_blocks():
    store = _path("same")
    _run(store)
    for v in (["--threads", 1], ["--kv-cache-type", "paged"], ["--prefix-index", "radix"],
              ["--prefix-index", "hash"], ["--op-config", '{"attention": "auto"}'],
              ["--max-model-len", 512], ["--temperature", 1, "--seed", 3]):
        check(_finds(store, *v), f"{v} does not find the blocks of the plain model")


def other_files_find_nothing():
    store, copy = _path("files"), _path("copy")
    _run(store)
    shutil.copytree(DEMO, copy)
    check(_finds(store, model=copy), "the same files in another folder do not find the blocks")
    weights, config = os.path.join(copy, "model.safetensors"), os.path.join(copy, "config.json")
    with open(weights, "r+b") as f:  # one bit of one weight in the middle
        n, = struct.unpack("<Q", f.read(8))
        f.seek(8 + n + 400001)
        old = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([old[0] ^ 1]))
    expect(_stored(store, model=copy), 0, "tokens read by a model with another weight")
    shutil.copy(os.path.join(DEMO, "model.safetensors"), weights)
    check(_finds(store, model=copy), "the same weights again do not find the blocks")
    with open(config) as f:
        about = json.load(f)
    for key, value in (("rms_norm_eps", 2e-5), ("rope_theta", 20000.0),
                       ("max_position_embeddings", 2048)):
        with open(config, "w") as f:
            json.dump({**about, key: value}, f)
        expect(_stored(store, model=copy), 0, f"tokens read by a model with another {key}")


def another_calibration_finds_nothing():
    a, b = _calibrate("a.json", tokens=150), _calibrate("b.json", tokens=250)
    with open(a) as f, open(b) as g:
        check(json.load(f)["linears"] != json.load(g)["linears"],
              "both calibrations are equal: the test shows nothing")
    store = _path("scales")
    _run(store, "--quant", "int8-static", "--scales", a)
    expect(_stored(store, "--quant", "int8-static", "--scales", b), 0,
           "tokens read with other scales")
    check(_finds(store, "--quant", "int8-static", "--scales", a),
          "the same scales do not find their blocks")
    f = _calibrate("f.safetensors", "--quant", "int4")
    store = _path("feedback")
    _run(store, "--quant", "int4")
    expect(_stored(store, "--quant", "int4", "--scales", f), 0,
           "tokens read with weights rounded by another rule")
    check(_finds(store, "--quant", "int4", "--scales", f),
          "the same rounding does not find its blocks")


def what_a_packed_file_was_calibrated_with_counts():
    a, b = _calibrate("a.json", tokens=150), _calibrate("b.json", tokens=250)
    f = _calibrate("f.safetensors", "--quant", "int4")

    def pack(name, *options):
        r = call("pack", "-m", DEMO, "--quiet", "-o", _path(name), *options)
        expect(r.returncode, 0, f"status of pack ({r.stderr.decode()})")
        return _path(name)

    one, other = (pack(n, "--quant", "int8-static", "--scales", s) for n,
                  s in (("one.gallop", a), ("other.gallop", b)))
    store = _path("packed")
    _run(store, model=one)
    expect(_stored(store, model=other), 0, "tokens read by a file packed with other scales")
    check(_finds(store, model=one), "a packed file does not find its own blocks")
    check(_finds(store, "--quant", "int8-static", "--scales", a),
          "a folder does not find the blocks of the file packed from it")
    plain, rounded = pack("plain.gallop", "--quant",
                          "int4"), pack("rounded.gallop", "--quant", "int4", "--scales", f)
    store = _path("packed4")
    _run(store, model=plain)
    expect(_stored(store, model=rounded), 0,
           "tokens read by a file whose weights were rounded by another rule")
    check(_finds(store, "--quant", "int4"),
          "a folder does not find the blocks of the file packed from it")


run_all(list(globals().items()))
