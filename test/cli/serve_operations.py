#!/usr/bin/env python3
"""serve_operations.py - what those who keep a server up rely on: its log, reports of crashes. Standard library only."""
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time

from _cli import DEMO, GALLOP, call, check, expect, expect_error, run_all
from _server import Server, read_all

COMPLETIONS = "/v1/completions"
PROMPT = "Once upon a time"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _said(s, word, n=1):
    """The first N lines that hold WORD; they are read by a thread."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = [x for x in list(s.log) if word in x]
        if len(found) >= n:
            return found[:n]
        time.sleep(.01)
    check(False, f"no {n} lines with {word}: {s.log}")
    return [""] * n


def lines_of_requests_as_text():
    with Server() as s:
        head = {"X-Request-Id": "mine", "traceparent": TRACE}
        expect(s.post(COMPLETIONS, head, prompt=PROMPT, max_tokens=3, min_tokens=3)[0], 200, "status")
        line, = _said(s, "mine")
        check(re.fullmatch(r'gallop: 127\.0\.0\.1 "POST /v1/completions" 200 5\+3 tokens, 0 cached, [0-9.]+ s, first [0-9.]+ s, mine, '
                           + TRACE, line), line)
        for wrong in (TRACE.upper(), TRACE[:-1], TRACE + "0", "01" + TRACE[2:], "x " + TRACE, TRACE.replace("-", "_")):
            s.post(COMPLETIONS, {"X-Request-Id": "other", "traceparent": wrong}, prompt=PROMPT, max_tokens=1)
        check(all(x.endswith(", other") for x in _said(s, "other", 6)), "what is no traceparent is not repeated")
        expect(s.request("GET", "/nowhere%1b[31m", headers=head)[0], 404, "status")
        check(_said(s, "nowhere")[0].endswith(f' "GET /nowhere%1b[31m" 404, mine, {TRACE}'), f"{s.log[-1]}")
        check(not any(PROMPT in x for x in s.log), "no prompt is logged")


def lines_of_requests_as_json():
    with Server("--log-format", "json") as s:
        head = {"X-Request-Id": "mine", "traceparent": TRACE}
        expect(s.post(COMPLETIONS, head, prompt=PROMPT, max_tokens=3, min_tokens=3)[0], 200, "status")
        s.events(COMPLETIONS, prompt=PROMPT, max_tokens=2, min_tokens=2, n=2, request_id="stream")
        s.post(COMPLETIONS, prompt=PROMPT, no_such_field='"\n\\')
        expect(s.request("GET", '/now"here\\', headers=head)[0], 404, "status")
        own, stream, _ = (json.loads(_said(s, x)[0]) for x in ("mine", '"stream"', "no_such_field"))
        refused = json.loads(_said(s, "here")[0])
        for x in list(s.log):
            check({"time", "level", "message"} <= json.loads(x).keys(), x)
            check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", json.loads(x)["time"]), "a time of RFC 3339")
        times = [own.pop(k) for k in ("seconds", "first_token_seconds")]
        check(0 < times[1] <= times[0], f"{times}")
        own.pop("time"), own.pop("message")
        expect(own, {"level": "info", "client": "127.0.0.1", "method": "POST", "path": COMPLETIONS, "status": 200, "prompt_tokens": 5,
                     "cached_tokens": 0, "output_tokens": 3, "request_id": "mine", "traceparent": TRACE}, "a request")
        expect([stream[k] for k in ("status", "prompt_tokens", "output_tokens", "traceparent")], [200, 5, 4, ""], "a stream")
        expect([refused[k] for k in ("method", "path", "status", "request_id", "traceparent")],
               ["GET", '/now"here\\', 404, "mine", TRACE], "one that is refused")
        check(not any(PROMPT in x for x in s.log), "no prompt is logged")
    expect_error(call("serve", "--log-format", "xml"), 2, "--log-format", "text|json")
    r = call("serve", "--log-format", "json", "-m", "/nonexistent")
    expect((r.returncode, json.loads(r.stderr)["level"]), (1, "error"), "why it does not begin is a line like others")


def a_full_disk_for_the_log_stops_nothing():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open("/dev/full", "w") as full:
        p = subprocess.Popen([GALLOP, "serve", "-m", DEMO, "--port", str(port), "--log-format", "json"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=full)
    try:
        for _ in range(1000):
            try:
                s = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(.05)
        body = json.dumps({"prompt": PROMPT, "max_tokens": 4}).encode()
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (COMPLETIONS.encode(), len(body)) + body)
        check(read_all(s).startswith(b"HTTP/1.1 200"), "it is answered")
        s.close()
    finally:
        p.terminate()
    expect(p.wait(60), 0, "status")


def a_crash_is_reported():
    for sig in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL):
        s = Server()
        asked = [s.send(COMPLETIONS, prompt=PROMPT, max_tokens=900, min_tokens=900, n=16, request_id=f"long-{i}") for i in range(2)]
        check(s.wait(lambda g: g["generation_tokens_total"] > 0 and g["num_requests_running"] >= 17), "they are computed")
        threads = sorted(map(int, os.listdir(f"/proc/{s.process.pid}/task")))
        thread = threads[0 if sig == signal.SIGSEGV else -1]  # the main one, and one that computes or prepares
        ctypes.CDLL(None).tgkill(s.process.pid, thread, sig)
        status = s.end(signal.SIGCONT)
        for a in asked:
            a.close()
        said = "\n".join(s.log)
        if "Sanitizer" in said:  # has handlers of its own
            continue
        expect(status, -sig, "the status is that of the signal")
        check(re.search(rf"^gallop: crash: {sig.name} sent by process {os.getpid()}, thread {thread} of process {s.process.pid}, gallop \d", said,
                        re.M), f"what, who, where: {said}")
        for i in range(2):
            found = re.search(rf"^gallop: crash: request long-{i}: 5 tokens of prompt, (\d+) of answers$", said, re.M)
            check(found and (i or int(found[1]) > 0), f"request {i}: {said}")
        check("calls, the last first" in said and re.search(r"\[0x[0-9a-f]+\]", said), "the calls")
        check(PROMPT not in said, "no prompt")


run_all(list(globals().items()))
