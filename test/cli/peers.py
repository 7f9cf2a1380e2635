#!/usr/bin/env python3
"""peers.py - bench/peers/offline and serve: their pages, how offline combines figures, its order
of runs, its memory, and workers that fail. No other engine is needed: a simulated one is in a
folder of the shape that --setup makes. Standard library only."""
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types

from _cli import DEMO, GALLOP, ROOT, check, expect, run_all

PEERS = os.path.join(ROOT, "bench", "peers")
# This replaces this folder in the path, because its files have names of standard modules.
sys.path[:1] = [PEERS]


def _load(name, path):
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
sys.modules["peers"] = peers = _load("peers", os.path.join(PEERS, "peers.py"))
tool = _load("offline_script", os.path.join(PEERS, "offline"))
serve = _load("serve_script", os.path.join(PEERS, "serve"))
worker = _load("worker_script", os.path.join(PEERS, "worker.py"))
_path = list(sys.path)
_load("worker_again", os.path.join(PEERS, "worker.py"))


def _run(script, *args):
    return subprocess.run([sys.executable, os.path.join(PEERS, script), *map(str, args)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1500)


def _of(form):
    return types.SimpleNamespace(format=form)


def _row(engine, test, n, number, tok_s):
    return {"engine": engine, "test": test, "n": n, "round": number, "tok_s": tok_s, "load": None,
            "peak_mb": 100 + number, "others": .01}


def pages_are_printed_and_wrong_arguments_refused():
    for script in ("offline", "serve"):
        r = _run(script, "--help")
        expect(r.returncode, 0, f"{script} --help")
        check(b"--setup DIR" in r.stdout and b"--rounds N" in r.stdout,
              f"{script} --help names its options")
    wrong = (), ("a", "--setup", "b"), ("a", "--only", "gallop,nobody"), ("a", "--only", "file"), (
        "a", "--format", "int3")
    for script, args in [("offline", ("a", "--streams", "0")),
                         ("offline", ("a", "--format", "int8", "--only", "pace")),
                         *((x, a) for x in ("offline", "serve") for a in wrong)]:
        expect(_run(script, *args).returncode, 2, f"{script} {args}")


def a_worker_takes_its_own_folder_from_the_path_and_no_other():
    check(PEERS not in _path and sys.path == _path,
          "also where a process of an engine runs it again")


def figures_are_medians_and_the_ratio_is_to_the_best_other():
    rows = [_row("gallop", "prefill", 512, i, v) for i, v in enumerate((100, 130, 120))]
    rows += [_row("vllm", "prefill", 512, i, v) for i, v in enumerate((90, 80, 1000))]
    rows += [_row("pace", "prefill", 512, i, v) for i, v in enumerate((100, 100, 100))]
    rows += [_row("gallop", "decode", 8, 0, 23), _row("vllm", "decode", 8, 0, 20),
             _row("gallop", "decode", 1, 0, 9)]
    s = tool.summary(rows)
    expect((s["gallop"]["tok_s"][("prefill", 512)], s["gallop"]["rounds"], s["gallop"]["peak_mb"]),
           (120, 3, 102), "medians of the rounds")
    expect(tool.ratios(s), {("prefill", 512): 1.2, ("decode", 8): 1.15},
           "ratios; none where nobody else was measured")
    expect([tool.goal("bf16", "prefill", 512), tool.goal("int8", "decode", 16),
            tool.goal("int4", "decode", 3)], [1.2, 2.0, None], "goals")
    expect([peers.verdict(1.2, 1.2), peers.verdict(1.19, 1.2), peers.verdict(None, 1.2)],
           ["met (1.2)", "missed (1.2)", "-"], "verdicts")
    lines = tool.table(_of("bf16"), [("prefill", 512), ("decode", 8), ("decode", 1)], s)
    check(len({line.count("|") for line in lines}) == 1, "all lines have the same cells")
    expect(lines[-2].split("|")[2:5], [" 1.20 ", " 1.15 ", " - "], "the row of ratios")
    check("missed" not in lines[-1] and lines[-1].count("met") == 2,
          f"the row of goals: {lines[-1]}")
    s["vllm"]["others"] = .11
    check("met" not in tool.table(_of("bf16"), [("prefill", 512)], s)[-1],
          "no goal is judged where others took the cores")
    expect(tool.ratios(tool.summary(rows[3:6])), {}, "no ratio without Gallop")


def gallop_on_the_file_of_llama_is_no_other_engine():
    rows = [_row(name, "decode", 16, 0, v) for name,
            v in (("gallop", 30), ("file", 40), ("llama", 10), ("vllm", 20))]
    s = tool.summary(rows)
    expect((tool.ratios(s), tool.same_file(s)), ({("decode", 16): 1.5}, {("decode", 16): 4.0}),
           "--quant to the best other, the file to llama.cpp")
    lines = tool.table(_of("int8"), [("decode", 16)], s)
    check(len({line.count("|") for line in lines}) == 1, "all lines have the same cells")
    for wanted in ("Gallop, --quant int8", "Gallop, Q8_0 file", "llama.cpp, Q8_0",
                   "vLLM on CPU, W8A8", "missed (2)"):
        check(any(wanted in line for line in lines), f"{wanted} in {lines}")
    expect(tool.same_file(tool.summary(rows[:2])), {}, "no ratio without llama.cpp")
    served = {name: {"output_throughput": v, "others": .01} for name,
              v in (("gallop", 44), ("file", 60), ("bench", 45), ("llama", 20), ("vllm", 10))}
    expect(serve.to_the_best_other(served), 2.2, "a server's, without our own others")
    expect(serve.to_the_best_other({"gallop": served["gallop"]}), None, "no ratio without others")
    check("goal: met (2.2)" in serve.judged(_of("int8"), 16, served, 2.2),
          "the goal of 16 streams in int8")
    check("goal: -" in serve.judged(_of("bf16"), 16, served, 2.2), "none in bf16")
    served["vllm"]["others"] = .11
    check("goal: disturbed" in serve.judged(_of("int8"), 16, served, 2.2),
          "no goal is judged where others took the cores")


class _Engine:
    """Reports steps as another engine would."""

    def __init__(self, steps):
        self.steps = steps

    def run(self, prompts, new):
        return iter(self.steps)


def a_worker_counts_from_the_first_token_of_all():
    steps = [([1, 0], 10.0), ([2, 1], 11.0), ([3, 2], 12.0), ([3, 3], 14.0)]
    a = worker.measure(_Engine(steps), 100, 2, 4, 3)
    expect((a["tokens"], a["seconds"]), (3, 3.0),
           "tokens after the step that gave the last stream its first")
    for steps in ([([1, 0], 1.0)], [([1, 1], 1.0), ([2, 2], 2.0)], []):
        try:
            worker.measure(_Engine(steps), 100, 2, 4, 3)
            check(False, f"tokens are missing in {steps}")
        except RuntimeError:
            pass
    expect(worker.ids(100, 2, 3), [[13, 32, 51], [70, 89, 8]],
           "ids of gallop bench, going on from stream to stream")


def room_is_made_by_ending_what_was_longest_idle():
    ended, free = [], [3]

    def engine(name):
        e = types.SimpleNamespace(name=name, process=None)
        e.end = lambda: (ended.append(name), free.__setitem__(0, free[0] + 4))
        return e

    engines, was = [engine(x) for x in "abc"], tool.available_gib
    tool.available_gib = lambda: free[0]
    try:
        tool.make_room(types.SimpleNamespace(free=9), engines, engines[1])
        expect(ended, ["a", "c"], "the oldest first, never the one whose turn it is")
        ended.clear()
        free[0], engines[1].process = 5, True
        tool.make_room(types.SimpleNamespace(free=9), engines, engines[1])
        expect(ended, [], "one that is loaded needs half")
    finally:
        tool.available_gib = was


def a_child_without_the_mark_ends_with_its_engine():
    """vLLM's engines are such children: their titles overwrite their environments."""
    tree = peers.Tree("vllm")
    tree.GRACE = 0  # the child is not asked to end, and need not be waited for
    script = "import subprocess, time; print(subprocess.Popen(['sleep', '600'], env={}).pid, flush=True); time.sleep(600)"
    tree.begin([sys.executable, "-c", script], {}, stdout=subprocess.PIPE)
    child = int(tree.process.stdout.readline())
    check(child in tree.pids(), "a child is part of the tree")
    tree.end()
    # That of a zombie is empty.
    check(not peers.read(f"/proc/{child}/cmdline"),
          "it is ended after its parent is gone, before another engine's turn")
    check(not tree.runs(), "nothing of the tree runs on")


MADE_UP = """#!{python}
import json, sys
if sys.argv[1] == "-c":
    sys.exit("made up 1.2")
sys.stdin.readline()
print(json.dumps({{"load": 1.5}}), flush=True)
for line in sys.stdin:
    q = json.loads(line)
    if q["streams"] == 3:
        sys.exit(4)
    print(json.dumps({{"first": .5, "tokens": q["streams"] * (q["new"] - 1), "seconds": 2.0}}), flush=True)
"""


def _folder(scratch):
    """Makes the folder that --setup would have made, with a simulated engine in place of vLLM's
    python and the demo model in place of the weights."""
    os.makedirs(os.path.join(scratch, "vllm", "bin"))
    open(os.path.join(scratch, "vllm", "done"), "w", encoding="ascii").close()
    python = os.path.join(scratch, "vllm", "bin", "python")
    with open(python, "w", encoding="utf-8") as f:
        f.write(MADE_UP.format(python=sys.executable))
    os.chmod(python, 0o755)
    os.symlink(DEMO, os.path.join(scratch, "llama-3.2-1b"))


def a_whole_run_has_gallop_and_who_is_there():
    with tempfile.TemporaryDirectory() as scratch:
        _folder(scratch)
        r = _run("offline", scratch, "--gallop", GALLOP, "--threads", 1, "--prefill", 40,
                 "--streams", "2,3", "--context", 20, "--tokens", 2, "--rounds", 1, "--free", 0,
                 "--roof-seconds", .01)
        text = r.stdout.decode()
        expect(r.returncode, 0, f"a run ends well: {text}")
        check("llama.cpp is left out" in text and "vLLM on CPU has ended" in text,
              f"who is absent, and who failed, is said: {text}")
        check("vLLM on CPU: made up 1.2" in text, f"versions: {text}")
        with open(os.path.join(scratch, "offline.json"), encoding="utf-8") as f:
            o = json.load(f)
        got = {(x["engine"], x["test"], x["n"]): x["tok_s"] for x in o["rows"]}
        expect([got[("vllm", "prefill", 40)], got[("vllm", "decode", 2)]], [80, 2],
               "figures of a worker")
        expect({k[1:] for k in got if k[0] == "gallop"},
               {("prefill", 40), ("decode", 2), ("decode", 3)}, "figures of Gallop")
        expect(set(o["ratios"]), {"prefill 40", "decode 2"}, "ratios where both are known")


def a_run_in_int8_packs_what_gallop_measures():
    with tempfile.TemporaryDirectory() as scratch:
        _folder(scratch)
        command = ("offline", scratch, "--gallop", GALLOP, "--format", "int8", "--only",
                   "gallop,file,llama", "--threads", 1, "--prefill", 40, "--streams", 2,
                   "--context", 20, "--tokens", 2, "--rounds", 1, "--free", 0, "--roof-seconds", .01)
        r = _run(*command)
        text = r.stdout.decode()
        packed = os.path.join(scratch, "llama-3.2-1b.int8.gallop")
        expect(r.returncode, 0, f"a run ends well: {text}")
        check("Gallop, --quant int8:" in text and text.count("llama-3.2-1b.q8_0.gguf is not there")
              >= 1, f"who is absent is said: {text}")
        with open(os.path.join(scratch, "offline-int8.json"), encoding="utf-8") as f:
            o = json.load(f)
        expect({(x["engine"], x["format"]) for x in o["rows"]}, {("gallop", "int8")},
               "figures of Gallop, and their format")
        made = os.stat(packed).st_mtime_ns
        expect(_run(*command).returncode, 0, "again")
        expect(os.stat(packed).st_mtime_ns, made, "what is packed is packed once")


run_all(list(globals().items()))
