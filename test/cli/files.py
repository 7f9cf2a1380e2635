#!/usr/bin/env python3
"""files.py - the files that verbs write are complete or absent, and nothing is overwritten
without --force."""
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time

from _cli import DEMO, GALLOP, call, check, run_all

SYNTH = ("synth", "smollm2-135m", "--layers", "1", "--quiet")
MADE = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"]


def _in_a_folder(test):
    def run():
        with tempfile.TemporaryDirectory() as d:
            test(d)
    return run


def _put(path, text=b"mine"):
    with open(path, "wb") as f:
        f.write(text)
    return path


def _get(path):
    with open(path, "rb") as f:
        return f.read()


def _few_bytes():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


@_in_a_folder
def synth_takes_no_folder_that_holds_anything(d):
    m = os.path.join(d, "m")
    os.mkdir(m)
    _put(os.path.join(m, "notes.txt"))
    r = call(*SYNTH, "-o", m)
    check(r.returncode == 1 and b"notes.txt" in r.stderr and b"--force" in r.stderr,
          f"a folder with a file is refused: {r.stderr}")
    check(os.listdir(m) == ["notes.txt"], f"and stays as it is: {os.listdir(m)}")
    r = call(*SYNTH, "-o", _put(os.path.join(d, "file")))
    check(r.returncode == 1 and _get(os.path.join(d, "file")) == b"mine",
          "a file in the folder's place is refused")
    r = call(*SYNTH, "-o", m, "--force")
    check(r.returncode == 0 and sorted(os.listdir(m)) == sorted([*MADE, "notes.txt"]),
          f"--force writes beside it: {r.stderr}")
    r = call("synth", "llama-9", "-o", os.path.join(d, "new"))
    check(r.returncode == 2 and b"llama-9" in r.stderr and b"--list" in r.stderr,
          f"an unknown shape is wrong usage: {r.stderr}")
    check(not os.path.exists(os.path.join(d, "new")), "and makes no folder")
    empty = os.path.join(d, "empty")
    os.mkdir(empty)
    check(call(*SYNTH, "-o", empty).returncode == 0 and sorted(os.listdir(empty)) == MADE,
          "an empty folder is taken")


@_in_a_folder
def synth_replaces_links_and_not_what_they_lead_to(d):
    m, theirs = os.path.join(d, "m"), _put(os.path.join(d, "theirs"))
    os.mkdir(m)
    for name in MADE:
        os.symlink(theirs, os.path.join(m, name))
    check(call(*SYNTH, "-o", m).returncode == 1, "links count as files")
    check(call(*SYNTH, "-o", m, "--force").returncode == 0, "--force")
    check(_get(theirs) == b"mine", "what the links led to is as it was")
    check(not any(os.path.islink(os.path.join(m, name)) for name in MADE),
          "files stand in the links' places")


@_in_a_folder
def an_interrupted_or_failed_synth_leaves_nothing(d):
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        m = os.path.join(d, "m")
        p = subprocess.Popen([GALLOP, "synth", "llama-3.1-8b", "-o", m], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        while p.poll() is None and not (os.path.isdir(m) and len(os.listdir(m)) == 4):
            time.sleep(0.005)
        half = sorted(os.listdir(m))
        p.send_signal(sig)
        check(p.wait() == -sig, f"{sig.name} ends synth: {p.returncode}")
        check(not set(half) & set(MADE), f"no file has its name while they are written: {half}")
        check(os.listdir(d) == [], f"{sig.name}: left behind: {[*os.walk(d)]}")
    r = call(*SYNTH, "-o", m, preexec_fn=_few_bytes)
    check(r.returncode == 1 and b"m/model.safetensors: cannot write: File too large" in r.stderr,
          f"a full disk: {r.stderr}")
    check(os.listdir(d) == [], f"a full disk: left behind: {[*os.walk(d)]}")


@_in_a_folder
def a_failed_npy_leaves_no_file_and_an_old_one_alone(d):
    new, old = os.path.join(d, "new.npy"), _put(os.path.join(d, "old.npy"))
    for flag, path in (("--npy", new), ("--hidden", new), ("--npy", old), ("--hidden", old)):
        ids = ",".join(["5"] * 200)
        r = call("logits", "-m", DEMO, "--ids", ids, flag, path, preexec_fn=_few_bytes)
        check(r.returncode == 1 and path.encode() + b": cannot write: File too large" in r.stderr,
              f"{flag}: {r.stderr}")
        check(os.listdir(d) == ["old.npy"] and _get(old) == b"mine",
              f"{flag} {path}: {os.listdir(d)}")
    r = call("logits", "-m", DEMO, "--ids", "5,1000000", "--npy", new, "--hidden", old)
    check(r.returncode == 1 and os.listdir(d) == ["old.npy"] and _get(old) == b"mine",
          f"a bad id: {r.stderr} {os.listdir(d)}")


@_in_a_folder
def an_npy_replaces_a_file_at_one_stroke(d):
    path, theirs = _put(os.path.join(d, "x.npy")), _put(os.path.join(d, "theirs"))
    os.chmod(path, 0o640)
    hard = os.path.join(d, "hard")
    os.link(path, hard)
    r = call("logits", "-m", DEMO, "--ids", "5,6", "--npy", path)
    check(r.returncode == 0 and _get(path)[:6] == b"\x93NUMPY" and _get(hard) == b"mine",
          "another file has the name now")
    check(os.stat(path).st_mode & 0o777 == 0o640, "with the permissions of the old one")
    link = os.path.join(d, "link.npy")
    os.symlink(theirs, link)
    r = call("logits", "-m", DEMO, "--ids", "5,6", "--npy", link)
    check(r.returncode == 0 and _get(link) == _get(path) and _get(theirs) == b"mine",
          "a link is replaced")
    r = call("logits", "-m", DEMO, "--ids", "5,6", "--npy", d)
    check(r.returncode == 1 and b"folder" in r.stderr, f"a folder: {r.stderr}")


@_in_a_folder
def what_is_no_file_is_written_to(d):
    regular = os.path.join(d, "regular")
    call("logits", "-m", DEMO, "--ids", "5,6", "--npy", regular)
    want = _get(regular)
    r = call("logits", "-m", DEMO, "--ids", "5,6", "--npy", "/dev/null")
    check(r.returncode == 0 and not os.path.isfile("/dev/null"), "/dev/null")
    check(call("logits", "-m", DEMO, "--ids", "5,6", "--npy", "/dev/stdout").stdout == want,
          "/dev/stdout, a pipe")
    out = os.path.join(d, "out")
    with open(out, "wb") as f:
        subprocess.run([GALLOP, "logits", "-m", DEMO, "--ids", "5,6", "--npy", "/dev/stdout"],
                       stdout=f, timeout=600)
        check(os.fstat(f.fileno()).st_size == len(want),
              "/dev/stdout, a file: the one that was opened is written to")
    check(os.path.exists("/dev/stdout") and _get(out) == want, "/dev/stdout is still there")
    fifo, got = os.path.join(d, "fifo"), []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: got.append(_get(fifo)))
    reader.start()
    check(call("logits", "-m", DEMO, "--ids", "5,6", "--npy", fifo).returncode == 0, "a fifo")
    reader.join()
    check(got == [want], "a fifo gets the array")
    r = call("logits", "-m", DEMO, "--ids", "5,6", "--npy", "/dev/full")
    check(r.returncode == 1 and b"/dev/full: cannot write: No space left on device" in r.stderr,
          f"/dev/full: {r.stderr}")


run_all(list(globals().items()))
