"""_cli.py - what the scripts beside it share: calling the program, counting checks. Standard library only; GALLOP_BIN names it."""
import json
import os
import subprocess
import sys

GALLOP = os.path.abspath(os.environ.get("GALLOP_BIN", "build/gallop"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "models", "demo")
faults = []
count = 0


def call(*args, stdin=None, env={}, **more):
    """Runs the program to its end; stdin as bytes, nothing else from outside."""
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run([GALLOP, *(x if isinstance(x, bytes) else str(x) for x in args)], **given, timeout=100,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}, env={**os.environ, **env})


def check(good, what):
    global count
    count += 1
    if not good:
        faults.append(what)
        print("  x", what)


def expect(found, wanted, what):
    check(found == wanted, f"{what}: found {found!r}, expected {wanted!r}")


def expect_error(r, status, *words):
    """Exit status, nothing on stdout, one line on stderr that holds each of WORDS."""
    said = r.stderr.decode(errors="backslashreplace")
    what = " ".join(map(str, r.args[1:]))[:120]
    expect(r.returncode, status, f"status of `{what}` ({said.strip()[:200]})")
    check(not r.stdout, f"`{what}` prints {r.stdout!r} although it fails")
    for word in words:
        check(word in said, f"`{what}` says {said!r}, without {word!r}")
    expect(said.count("\n"), 1, f"lines that `{what}` says: {said!r}")


def lines(r):
    return [json.loads(x) for x in r.stdout.decode().splitlines()]


def run_all(names):
    for name, test in names:
        if callable(test) and test.__module__ == "__main__" and not name.startswith("_"):
            test()
    print(f"{count - len(faults)} passed, {len(faults)} failed")
    sys.exit(1 if faults else 0)
