#!/usr/bin/env python3
"""replicas.py - the example of Ray Serve: replicas follow the queues of their engines, and every
answer is that of an engine alone. test/clients/run runs it with the packages of replicas.txt."""
import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import gallop

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "test", "cli"))
from _cli import check, expect, run_all  # noqa: E402

PROMPTS = [f"Question: what is {i} plus {j}?" for i in range(8) for j in range(8)]
N = 200
MAX_SEQS = 2
# Seconds in which a second replica must have answered; starting one takes about 5.
PATIENCE = 120

with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    PORT = s.getsockname()[1]
folder = tempfile.TemporaryDirectory(prefix="ray", dir="/tmp")  # Ray's sockets need short paths.


started = []


def _start():
    """Starts the example, whose output goes to the file `log`."""
    return subprocess.Popen(
        [sys.executable, os.path.join(ROOT, "examples", "python", "ray_serve.py")],
        stdout=open(os.path.join(folder.name, "log"), "w"), stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, start_new_session=True, cwd=folder.name,
        env={**os.environ, "PORT": str(PORT), "THREADS": "1", "MAX_SEQS": str(MAX_SEQS),
             "MAX_REPLICAS": "2", "INTERVAL_S": "0.5", "UPSCALE_DELAY_S": "0.5",
             "DOWNSCALE_DELAY_S": "1", "RAY_TMPDIR": folder.name, "RAY_USAGE_STATS_ENABLED": "0",
             "RAY_DEDUP_LOGS": "0"})


def _ask(prompt, **body):
    """Returns the status and the answer of the example."""
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}",
                                     json.dumps({"prompt": prompt, **body}).encode())
    try:
        with urllib.request.urlopen(request, timeout=120) as r:
            return r.status, json.loads(r.read())
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())


def _begin():
    """Starts the example and waits until it answers. Returns its process.

    Ray gives up if its own processes take 30 s to start, as on a machine with much else to do. It
    gets two more tries, and then the tests are skipped."""
    for _ in range(3):
        process, limit = _start(), time.monotonic() + PATIENCE
        started.append(process)
        while process.poll() is None and time.monotonic() < limit:
            try:
                if _ask("Once", max_new_tokens=1)[0] == 200:
                    return process
            except (OSError, ValueError):  # Ray's own errors are not JSON.
                pass
            time.sleep(0.25)
        _end(process)
        with open(os.path.join(folder.name, "log"), errors="replace") as f:
            said = f.read()
        if "timed out during startup" not in said:
            sys.exit(f"the example does not answer (status {process.returncode}):\n{said[-4000:]}")
    print("skipped: replicas: Ray does not start on this machine within 30 s")
    sys.exit(0)


def _end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def answers_are_those_of_the_engine():
    with gallop.LLM() as llm:
        want = llm.generate("Once upon a time", max_new_tokens=12)
    status, answer = _ask("Once upon a time", max_new_tokens=12)
    expect((status, answer.get("text"), answer.get("tokens")), (200, want.text, want.n_output),
           "an answer")
    expect(_ask("Once", max_new_tokens=4, temperature=-1)[0], 400, "status of a wrong request")
    expect(_ask("Once", max_new_token=4)[0], 400, "status of an unknown parameter")


def replicas_follow_the_queue():
    """More requests than one engine has places for bring a second replica, whose answers are those
    of the first. When they end, it ends."""
    answers, n = {}, 0
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(6 * MAX_SEQS) as pool:
        seen = set()
        while len(seen) < 2 and time.monotonic() < begin + PATIENCE:
            asked = PROMPTS[n % len(PROMPTS):][:6 * MAX_SEQS]
            rows = pool.map(lambda p: _ask(p, max_new_tokens=N, ignore_eos=True), asked)
            for prompt, (status, answer) in zip(asked, rows):
                if status != 200:
                    return check(False, f"an answer: status {status}: {answer}")
                seen.add(answer["replica"])
                answers.setdefault(prompt, set()).add(answer["text"])
            n += len(asked)
    expect(len(seen), 2, "replicas that have answered")
    print(f"  a second replica answered after {time.monotonic() - begin:.0f} s")
    with gallop.LLM() as llm:
        want = llm.generate(list(answers), max_new_tokens=N, ignore_eos=True)
    expect([answers[p] for p in answers], [{w.text} for w in want], "answers of all replicas")
    # A single request at a time: one replica has places enough.
    while time.monotonic() < begin + 2 * PATIENCE:
        time.sleep(1)
        rows = [_ask("Once", max_new_tokens=1)[1] for _ in range(12)]
        if len({r.get("replica", r.get("error")) for r in rows}) == 1 and "replica" in rows[0]:
            return
    check(False, "the second replica ends when it is not needed")


def the_example_ends_with_its_engines():
    server.send_signal(signal.SIGINT)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        check(False, "the example ends within 60 s of an interrupt")


signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
try:
    server = _begin()
    run_all(list(globals().items()))
finally:
    for each in started:
        _end(each)
