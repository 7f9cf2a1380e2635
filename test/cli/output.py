#!/usr/bin/env python3
"""output.py - standard output that fails, is closed or is no longer read: no result is lost
without an error."""
import os
import subprocess
import time

from _cli import DEMO, GALLOP, ROOT, call, check, expect, rest_cpu, run_all, whole_cpu

RESULTS = {
    "help": ["--help"], "help of a verb": ["run", "--help"], "version": ["--version"],
    "run": ["run", "-m", DEMO, "-n", 2, "x"],
    "run --json": ["run", "-m", DEMO, "-n", 2, "--json", "x"],
    "logits": ["logits", "-m", DEMO, "--ids", "1,2", "--top", 2],
    "logits --json": ["logits", "-m", DEMO, "--ids", "1,2", "--top", 2, "--json"],
    "tokenize": ["tokenize", "-m", DEMO, "x"],
    "tokenize --json": ["tokenize", "-m", DEMO, "--json", "x"],
    "inspect": ["inspect", "-m", DEMO], "inspect --json": ["inspect", "-m", DEMO, "--json"],
    "synth --list": ["synth", "--list"],
    "ppl": ["ppl", "-m", DEMO, "--file", os.path.join(ROOT, "LICENSE"), "--max-tokens", 20],
    "bench": ["bench", "-m", DEMO, "--prefill", 16, "--decode", 0, "--reps", 1],
    "render": ["render", "-m", DEMO, "--messages", "-"],
}
MESSAGES = b'[{"role": "user", "content": "Hello"}]'


def a_full_disk_is_status_1_and_one_sentence():
    for what, args in RESULTS.items():
        with open("/dev/full", "wb") as full:
            r = call(*args, stdin=MESSAGES, stdout=full)
        expect((r.returncode, r.stderr), (1, b"gallop: standard output: No space left on device\n"),
               what + " to a full disk")


def a_closed_standard_output_is_status_1_and_no_file_takes_its_place():
    for what, args in RESULTS.items():
        r = subprocess.run(["sh", "-c", '"$@" >&-', "sh", GALLOP, *map(str, args)], input=MESSAGES,
                           stderr=subprocess.PIPE)
        expect((r.returncode, r.stderr), (1, b"gallop: standard output: Bad file descriptor\n"),
               what + " with stdout closed")
    r = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", GALLOP, "run", "-m", DEMO, "-n", "2",
                        "x"])
    expect(r.returncode, 1, "status of run with all three closed")
    r = subprocess.run(["sh", "-c", '"$@" 2>&- <&-', "sh", GALLOP, "run", "-m", DEMO, "-n", "2",
                        "x"], capture_output=True)
    expect(r.returncode, 0, "status of run with stdin and stderr closed, which it does not need")
    r = call("frobnicate", stdout=open("/dev/full", "wb"))
    expect(r.returncode, 2, "status of wrong usage to a full disk, where nothing was to be printed")


def a_reader_that_is_gone_ends_the_work_quietly():
    for what, args in RESULTS.items():
        ours, theirs = os.pipe()
        os.close(ours)
        r = call(*args, stdin=MESSAGES, stdout=theirs)
        os.close(theirs)
        expect((r.returncode, r.stderr), (1, b""), what + " into a pipe that nobody reads")


def a_reader_that_leaves_stops_an_answer_at_once():
    # With --json nothing is written before the end, and the error is still reported.
    for more in ([], ["--json"]):
        args = ["run", "-m", DEMO, "-n", "900", "--ignore-eos", "--min-new-tokens", "900", *more,
                "Once"]
        whole, whole_s = whole_cpu(*args)
        p = subprocess.Popen([GALLOP, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not more:
            p.stdout.read(4)
        p.stdout.close()
        status, took = rest_cpu(p)
        expect((whole.returncode, status, p.stderr.read()), (0, 1, b""),
               f"statuses whole and cut, words, {more}")
        check(took < 0.05 + whole_s / 2,
              f"computes {took:.3f} s after its reader has left, of {whole_s:.3f} s in all, {more}")
        p.stderr.close()


def a_pipe_that_does_not_block_and_a_slow_reader_get_everything():
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    p = subprocess.Popen([GALLOP, "inspect", "-m", DEMO, "--json"], stdout=theirs)
    os.close(theirs)
    time.sleep(0.2)
    got = b""
    while piece := os.read(ours, 1000):
        got += piece
    expect(p.wait(timeout=600), 0, "status into a pipe that does not block")
    check(
        got.endswith(b"}\n")
        and got.count(b'"use":') == call("inspect", "-m", DEMO, "--json").stdout.count(b'"use":'),
        f"what came through a pipe that does not block: {len(got)} bytes, at the end {got[-40:]!r}")


run_all(list(globals().items()))
