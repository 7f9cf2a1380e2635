#!/usr/bin/env python3
"""pack.py - gallop pack and quantize: a packed checkpoint gives the results of its source, and
is refused if it was changed."""
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from _cli import DEMO, GALLOP, ROOT, call, check, expect, expect_error, lines, run_all
from _server import Server

GOLDENS = os.path.join(ROOT, "test", "golden")
GGUF = os.path.join(ROOT, "test", "data", "gguf")
BLOCKS = os.path.join(ROOT, "test", "data", "blocks.gguf")
IDS = "5,6,7,8,9,10,11"
folder = tempfile.mkdtemp(prefix="gallop-pack-")
packed = os.path.join(folder, "a.gallop")


def _pack(model, *options):
    """Packs a model into a new file."""
    r = call("pack", "-m", model, "-o", packed, "--force", "--quiet", *options)
    expect((r.returncode, r.stderr), (0, b""), f"pack -m {os.path.basename(model)} {options}")
    return packed


def _answer(model, *options):
    r = call("run", "-m", model, "--quiet", "--json", "--ids", IDS, "-n", 6, "--logprobs", 3,
             *options)
    expect(r.returncode, 0,
           f"status of run -m {os.path.basename(model)} {options}: {r.stderr.decode()[:300]}")
    return [{k: v for k, v in x.items() if k in ("output_ids", "logprobs", "text")}
            for x in lines(r)]


def every_kind_of_model_gives_the_same():
    models = [os.path.join(GOLDENS, x) for x in sorted(os.listdir(GOLDENS))
              if x not in ("README.md", "demo")]
    models += [os.path.join(GGUF, x) for x in ("qwen3.gguf", "gpt-oss.gguf", "gemma3.gguf",
                                               "phi3-longrope.gguf")] + [BLOCKS]
    for i, model in enumerate(models):
        for options in ((), ("--dtype", "fp32"), ("--quant", "int8"),
                        ("--quant", "int4"))[i % 4:][:1] + (((),) if i % 4 else ()):
            expect(_answer(_pack(model, *options)), _answer(model, *options),
                   f"{os.path.basename(model)} {options}")


def texts_and_templates_come_with_it():
    _pack(DEMO)
    messages = os.path.join(folder, "messages.json")
    with open(messages, "w") as f:
        json.dump([{"role": "user", "content": "Hello"}], f)
    for args in (("run", "-n", 12, "Once upon a time"), ("run", "--chat", "-n", 8, "Who are you?"),
                 ("tokenize", "a dog"), ("render", "--messages", messages)):
        of_pack, of_source = (call(args[0], "-m", x, "--quiet", *args[1:]).stdout
                              for x in (packed, DEMO))
        check(of_pack and of_pack == of_source, f"{args}: {of_pack!r}, of the source {of_source!r}")
    os.remove(messages)
    with Server("--served-model-name", "m",
                model=packed) as one, Server("--served-model-name", "m") as other:
        fields = {"messages": [{"role": "user", "content": "Who are you?"}], "temperature": 0,
                  "max_tokens": 8}
        of_pack, of_source = (x.post("/v1/chat/completions", **fields)[1]["choices"]
                              for x in (one, other))
        expect(of_pack, of_source, "a chat that is served")
    with open(os.path.join(DEMO, "config.json")) as f:
        expect(json.loads(call("inspect", "-m", packed, "--json").stdout)["layers"],
               json.load(f)["num_hidden_layers"], "layers")


def packed_files_have_one_type():
    _pack(DEMO)
    expect_error(call("run", "-m", packed, "--dtype", "fp32", "x"), 1, packed,
                 "packed for dtype bf16 and quant none, expected dtype fp32")
    expect_error(call("run", "-m", packed, "--quant", "int8", "x"), 1, "and quant int8; pack")
    expect_error(call("ppl", "-m", packed, "--kl", "--file", os.path.join(DEMO, "config.json")), 1,
                 "expected dtype fp32 and quant none")
    expect(call("run", "-m", packed, "--dtype", "bf16", "--quant", "none", "-n", 1, "x").returncode,
           0, "what it is packed for")
    expect_error(call("pack", "-m", packed, "-o", packed + "2"), 1, "is already packed")
    check(not os.path.exists(packed + "2"), "and nothing was written")
    r = call("quantize", "-m", DEMO, "--quant", "int8", "-o", packed, "--force", "--json")
    expect({**json.loads(r.stdout), "bytes": 0},
           {"file": packed, "files": 1, "bytes": 0, "dtype": "bf16", "quant": "int8"}, "quantize")
    expect(_answer(packed), _answer(DEMO, "--quant", "int8"), "of quantised weights")


def wrong_usage():
    expect_error(call("pack", "-m", DEMO), 2, "-o F.gallop is needed")
    expect_error(call("quantize", "-m", DEMO, "-o", packed), 2, "--quant is needed")
    expect_error(call("pack", "-m", DEMO, "-o", packed, "more"), 2, "options only")
    expect_error(call("pack", "-m", DEMO, "-o", packed, "--split-size", "0"), 2, "--split-size")
    _pack(DEMO)
    expect_error(call("pack", "-m", DEMO, "-o", packed), 1, packed, "--force")
    expect_error(call("pack", "-m", DEMO, "-o", os.path.join(folder, "none", "a.gallop")), 1,
                 "none")
    expect_error(call("pack", "-m", DEMO, "-o", "/dev/full"), 1, "/dev/full")
    expect(sorted(os.listdir(folder)), ["a.gallop"], "files that are left")


def what_is_not_as_it_was_written_is_refused():
    _pack(os.path.join(GOLDENS, "qwen3"))
    with open(packed, "rb") as f:
        whole = f.read()
    right, broken, r = _answer(packed), os.path.join(folder, "b.gallop"), random.Random(3)

    def attempt(data, words):
        with open(broken, "wb") as f:
            f.write(data)
        got = call("run", "-m", broken, "--quiet", "--json", "--ids", IDS, "-n", 6, "--logprobs", 3)
        if got.returncode:
            expect_error(got, 1, broken, *words)
        return got

    for at in [0, 8, 25, 4095, len(whole) - 1, len(whole) - 40, *r.sample(range(len(whole)), 60)]:
        data = bytearray(whole)
        data[at] ^= 1 << r.randrange(8)
        got = attempt(data, ())
        check(got.returncode == 1 or _answer(broken) == right, f"byte {at} altered")
    for n in (0, 20, 4096, len(whole) // 2, len(whole) - 1):
        expect(attempt(whole[:n], ()).returncode, 1, f"{n} bytes of it")
    expect(attempt(whole + b"\0", ("pack the checkpoint again",)).returncode, 1, "one byte more")
    expect(attempt(whole.replace(b"version 1\n", b"version 9\n", 1),
                   ("version 9", "gallop pack")).returncode, 1, "a newer one")
    os.remove(broken)


def weights_in_several_files():
    _pack(DEMO, "--split-size", 0.001)
    names = sorted(os.listdir(folder))
    check(len(names) > 3 and names[:2] == ["a.gallop", "a.gallop.1"], f"files: {names}")
    check(all(os.path.getsize(os.path.join(folder, x)) <= 0.001 * 2**30 for x in names),
          "none is larger")
    expect(_answer(packed), _answer(DEMO), "of several files")
    expect_error(call("run", "-m", packed + ".2", "x"), 1,
                 "part 2 of a packed checkpoint; name the first one")
    with open(packed + ".2", "rb") as f:
        part = f.read()
    for damaged in (part[:100], part[:8192], part[:-1] + bytes([part[-1] ^ 1]),
                    part.replace(b"version 1\n", b"version 9\n", 1)):
        with open(packed + ".2", "wb") as f:
            f.write(damaged)
        expect_error(call("run", "-m", packed, "x"), 1, packed + ".2: ",
                     "pack the checkpoint again")
    os.remove(packed + ".2")
    expect_error(call("run", "-m", packed, "x"), 1, packed + ".2")
    for x in names:
        if x not in ("a.gallop", "a.gallop.2"):
            os.remove(os.path.join(folder, x))


def a_writer_that_is_killed_leaves_the_old_file():
    _pack(DEMO)
    before = os.stat(packed)
    r = random.Random(5)
    for _ in range(12):
        p = subprocess.Popen([GALLOP, "pack", "-m", DEMO, "-o", packed, "--force", "--dtype",
                              "fp32", "--quiet"])
        time.sleep(r.uniform(0, .03))
        p.send_signal(signal.SIGKILL)
        p.wait()
        if os.stat(packed).st_ino != before.st_ino:
            break  # This was done before.
        check(call("run", "-m", packed, "-n", 1, "--quiet", "x").returncode == 0,
              "the old one works")
    for x in os.listdir(folder):
        if x != "a.gallop":
            os.remove(os.path.join(folder, x))


def a_packed_copy_is_kept_in_the_cache():
    model, cache = os.path.join(folder, "model"), os.path.join(folder, "cache")
    shutil.copytree(os.path.join(GOLDENS, "qwen3"), model)
    env = {"XDG_CACHE_HOME": cache}
    kept = os.path.join(cache, "gallop", "packed")

    def run(*options):
        r = call("run", "-m", model, "--pack-cache", "--quiet", "--json", "--ids", IDS, "-n", 6,
                 "--logprobs", 3, *options, env=env)
        expect(r.returncode, 0, f"status with --pack-cache {options}: {r.stderr.decode()[:300]}")
        return [{k: v for k, v in x.items() if k in ("output_ids", "logprobs", "text")}
                for x in lines(r)]

    for options in ((), ("--dtype", "fp32"), ("--quant", "int8"), ()):
        expect(run(*options), _answer(model, *options), f"with the cache {options}")
    first = sorted(os.listdir(kept))
    expect(len(first), 3, f"one for each type: {first}")
    check(all(x.startswith("model-") and x.endswith(".gallop") for x in first), f"names: {first}")
    made = os.stat(os.path.join(kept, first[0])).st_ino
    run(), run("--dtype", "fp32"), run("--quant", "int8")
    expect(os.stat(os.path.join(kept, first[0])).st_ino, made, "it is not made twice")
    os.truncate(os.path.join(kept, first[0]), 5000)
    run(), run("--dtype", "fp32"), run("--quant", "int8")
    check(os.path.getsize(os.path.join(kept, first[0])) > 5000, "one that was cut is made again")
    os.utime(os.path.join(model, "config.json"), (1, 1))
    run()
    expect(len(os.listdir(kept)), 4, "another when the checkpoint has changed")
    expect(call("run", "-m", os.path.join(kept, first[0]), "--pack-cache", "-n", 1, "--ids", IDS,
                env=env).returncode, 0, "of a packed one")
    expect_error(call("run", "-m", model, "--pack-cache", "--ids", IDS,
                      env={"XDG_CACHE_HOME": "/dev/null"}), 1, "/dev/null")
    expect_error(call("pack", "-m", model, "-o", packed + "2", "--pack-cache"), 2, "--pack-cache", "-o F.gallop")
    shutil.rmtree(model)
    shutil.rmtree(cache)


def _rollup(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return {x.split(":")[0]: int(x.split()[1]) for x in f if x.endswith("kB\n")}


def processes_share_its_memory():
    shape = os.path.join(folder, "model")
    expect(call("synth", "smollm2-135m", "--layers", 4, "-o", shape, "--quiet").returncode, 0,
           "a model of some size")
    size = os.path.getsize(_pack(shape)) / 1024
    with Server(model=packed) as one, Server(model=packed) as other:
        kb = _rollup(other.process.pid)
        check(kb["Rss"] > size, f"all of it is mapped: {kb['Rss']} of {size} KiB")
        check(kb["Pss"] - size / 2 < .3 * size + 50000, f"but shared: {kb['Pss']} of {size} KiB")
        check(one.post("/tokenize", prompt="a")[0] == 200 and other.post("/tokenize", prompt="a")[0]
              == 200, "both serve")
    shutil.rmtree(shape)


try:
    run_all(list(globals().items()))
finally:
    shutil.rmtree(folder)
