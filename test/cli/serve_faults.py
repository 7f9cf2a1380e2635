#!/usr/bin/env python3
"""serve_faults.py - clients that disconnect, are slow, send wrong lengths or are many; API keys,
full queues, signals. Standard library only."""
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from _cli import DEMO, GALLOP, call, check, expect, expect_error, run_all
from _server import HELD, Server, patient_model, read_all

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time"
FOREVER = {**HELD, "n": 32, "temperature": 0}  # for servers of patient_model()
server = Server("--no-access-log")


def _answer(s):
    """Returns the status and body of the answer on S."""
    head, _, body = read_all(s).partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def _runs(what):
    check(what.wait(lambda g: g["num_requests_running"] > 0), "it is computed")


def _resident(what):
    with open(f"/proc/{what.process.pid}/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def _deaf(port):
    """Returns a connection whose client has little room for what it does not read."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(600)
    s.connect(("127.0.0.1", port))
    return s


def a_client_that_vanishes_frees_its_rows():
    with Server("--no-access-log", model=patient_model()) as s:
        for stream in (False, True):
            for how in ("close", "reset", "half"):
                for when in ("before", "first"):
                    c = s.send(COMPLETIONS, **FOREVER, stream=stream)
                    if when == "first":
                        _runs(s)
                    if when == "first" and stream:
                        c.recv(1000)
                    if how == "reset":
                        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if how == "half":
                        c.shutdown(socket.SHUT_WR)
                    else:
                        c.close()
                    check(s.is_free(), f"stream {stream}, {how}, {when}: rows are held")
                    c.close()
        check(s.wait(lambda g: g["http_connections"] <= 1), "connections are gone")
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=2)[0], 200, "and others are served")


def one_bad_request_hurts_no_other():
    wanted = server.post(COMPLETIONS, prompt=PROMPT, max_tokens=60, temperature=0)[1]["choices"]
    got = []
    threads = [threading.Thread(target=lambda: got.append(
        server.post(COMPLETIONS, prompt=PROMPT, max_tokens=60, temperature=0))) for _ in range(8)]
    for t in threads:
        t.start()
    for bad in ({"prompt": [99999]}, {"prompt": [-1]}, {"prompt": [5] * 5000}, {"prompt": ""},
                {"prompt": []}, {"prompt": [[5], [99999]]}, {"prompt": PROMPT, "max_tokens": -7},
                {"prompt": PROMPT, "n": -1}):
        status, body = server.post(COMPLETIONS, **bad)
        check(status in (400, 200) and (status == 400 or bad["prompt"] == ""),
              f"{bad}: {status} {body}")
    for t in threads:
        t.join()
    for status, body in got:
        expect((status, body.get("choices")), (200, wanted), "those who asked at the same time")
    check(server.is_free(), "nothing is left of them")


def heads_that_two_readers_could_take_differently_are_refused():
    good = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    body = b'{"prompt":"Hello"}'
    expect(server.raw(good + b"Content-Length: 18\r\n\r\n" + body).split()[1], b"200", "a good one")
    expect(server.raw(good + b"Transfer-Encoding: chunked\r\n\r\n8;x=y\r\n" + body[:8]
                      + b"\r\na\r\n" + body[8:] + b"\r\n0\r\nA: b\r\n\r\n").split()[1], b"200",
           "one in chunks")
    for wrong, status in (
            (b"Content-Length: 18\nX: y\r\n\r\n", 400), (b"Content-Length : 18\r\n\r\n", 400),
            (b"Content-Length: 18\r\nContent-Length: 18\r\n\r\n", 400),
            (b"Content-Length: -1\r\n\r\n", 400), (b"Content-Length: +18\r\n\r\n", 400),
            (b"Content-Length: 18, 18\r\n\r\n", 400),
            (b"Content-Length: 18\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"Transfer-Encoding: xchunked\r\n\r\n", 501),
            (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"X: a\0b\r\n\r\n", 400), (b"X: a\r\n b\r\n\r\n", 400),
            (b"Host: y\r\n\r\n", 400), (b"X: a\rb\r\n\r\n", 400), (b"Expect: more\r\n\r\n", 417),
            (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
            (b"Transfer-Encoding: chunked\r\n\r\n4\r\nabcde\r\n", 400),
            (b"X: " + b"a" * 70000 + b"\r\n\r\n", 431), (b"X: y\r\n" * 200 + b"\r\n", 431),
            (b"Content-Length: 99999999999\r\n\r\n", 413),
            (b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413)):
        got = server.raw(good + wrong + body)
        expect(got.split()[1:2], [str(status).encode()], f"{wrong[:60]}")
        check(json.loads(got.partition(b"\r\n\r\n")[2])["error"]["code"] == status,
              "in OpenAI's form")
    for line, status in ((b"GET / HTTP/2.0", 505), (b"GET http://y/health HTTP/1.1", 200), (
            b"GET  / HTTP/1.1", 400), (b"G@T / HTTP/1.1", 400), (b"GET /", 400), (b"\0", 400)):
        expect(server.raw(line + b"\r\nHost: x\r\nConnection: close\r\n\r\n").split()[1:2],
               [str(status).encode()], str(line))
    expect(server.raw(b"GET /health HTTP/1.1\r\n\r\n").split()[1], b"400", "no Host")


def requests_may_come_byte_by_byte_and_two_at_once():
    with server.socket() as s:
        for b in b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
            s.sendall(bytes([b]))
        expect(_answer(s)[0], 200, "byte by byte")
    with server.socket() as s:
        for b in b"POST /tokenize HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 12\r\n\r\n" + b'{"prompt":1}':
            s.sendall(bytes([b]))
        expect(_answer(s)[0], 400, "with its body")
    with server.socket() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 9 + b"GET /health HTTP/1.0\r\n\r\n")
        expect(read_all(s).count(b"HTTP/1.1 200"), 10, "ten at once")
    s = server.send(COMPLETIONS, prompt=PROMPT, max_tokens=100, min_tokens=100, stream=True)
    s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    check(re.search(
        rb"\r\n0\r\n\r\nHTTP/1\.1 200 OK\r\nDate: [^\r]*GMT\r\nConnection: close\r\nContent-Length: 0\r\n\r\n$",
        read_all(s)), "behind a stream")
    s.close()
    with Server("--no-access-log", model=patient_model()) as patient:
        for reset in (False, True):
            s = patient.send(COMPLETIONS, **FOREVER, request_id="flood")
            _runs(patient)
            s.setblocking(False)
            try:
                for _ in range(64):
                    s.send(b"x" * 65536)
            except OSError:
                pass
            expect(patient.post("/tokenize", prompt="x")[0], 200, "others are served")
            if reset:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
            else:
                expect(patient.post("/abort_requests", request_ids="flood")[1], {"aborted": 1},
                       "it ends")
            check(patient.is_free(), f"one who sends without end is held back, reset: {reset}")
            s.close()


def a_slow_reader_gets_everything_in_fewer_events():
    fields = {"prompt": PROMPT, "max_tokens": 400, "min_tokens": 400, "temperature": 0, "n": 8,
              "return_token_ids": True}
    whole = server.post(COMPLETIONS, **fields)[1]["choices"]
    s, before = _deaf(server.port), server.gauges()["generation_tokens_total"]
    body = json.dumps({**fields, "stream": True}).encode()
    s.sendall(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (COMPLETIONS.encode(), len(body))
              + body)
    check(server.wait(lambda g: g["generation_tokens_total"] == before + 8 * 400),
          "computing does not wait for it")
    parts = [json.loads(x[6:]) for x in _answer(s)[1].decode().split("\n\n")
             if x.startswith("data: {")]
    s.close()
    for i in range(8):
        mine = [p["choices"][0] for p in parts if p["choices"][0]["index"] == i]
        expect("".join(m["text"] for m in mine), whole[i]["text"], "the text")
        expect(sum((m["token_ids"] for m in mine), []), whole[i]["token_ids"], "the tokens")
    check(len(parts) < 8 * 400, f"{len(parts)} events")


def keys_are_not_in_the_list_of_processes():
    with Server("--api-key", "first-key", "--api-key=second-key", "--admin-api-key=third-key") as s:
        with open(f"/proc/{s.process.pid}/cmdline", "rb") as f:
            arguments = f.read()
        check(b"\0--api-key\0" in arguments and b"-key\0" not in arguments.replace(
            b"--api-key\0", b""), f"{arguments}")
        for key in ("first-key", "second-key"):
            expect(s.post("/tokenize", {"X-Api-Key": key}, prompt="x")[0], 200, key)
        expect(s.request("GET", "/metrics", headers={"X-Api-Key": "third-key"})[0], 200, "admin")


def keys_are_asked_for():
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/keys", "w") as f:
            f.write("# ours\nsecond-key\n\nthird-key\r\n")
        with Server("--api-key", "first-key", "--api-key-file", f"{d}/keys", "--scheduling-policy",
                    "fair", model=patient_model()) as s:
            for key in ("first-key", "second-key", "third-key"):
                expect(s.post("/tokenize", {"Authorization": f"Bearer {key}"}, prompt="x")[0], 200,
                       key)
                expect(s.post("/tokenize", {"X-Api-Key": key}, prompt="x")[0], 200, key)
            for head in ({}, {"Authorization": "Bearer first-ke"},
                         {"Authorization": "Bearer first-key2"}, {"Authorization": "Bearer "},
                         {"Authorization": "first-key"}, {"Authorization": "Basic first-key"},
                         {"Authorization": "Bearer # ours"}):
                for method, path in (("POST", "/tokenize"), ("GET", "/metrics"),
                                     ("GET", "/v1/models"), ("GET", "/nowhere"), ("GET", "/load")):
                    expect(s.request(method, path, b"{}" if method == "POST" else None, head)[0],
                           401, f"{path} with {head}")
            for path in ("/health", "/ready", "/version"):
                expect(s.request("GET", path)[0], 200, f"{path} without a key")
            for size in (b"Content-Length: 30000000\r\n\r\n",
                         b"Transfer-Encoding: chunked\r\n\r\n1000000\r\n"):
                check(s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + size).startswith(
                    b"HTTP/1.1 401"), "who has no key is not asked for the body")
            ask = lambda key: s.post(COMPLETIONS, {"X-Api-Key": key}, prompt=list(
                range(40, 300)), max_tokens=1)[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
            first = [ask("first-key"), ask("first-key"), ask("second-key")]
            check(first[0] == 0 and first[1] > 0 and first[2] == 0,
                  f"rows of one key are not another's: {first}")
            long = s.socket()
            body = json.dumps({**FOREVER, "request_id": "a"}).encode()
            long.sendall(
                b"POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: first-key\r\nContent-Length: %d\r\n\r\n"
                % (COMPLETIONS.encode(), len(body)) + body)
            mine = {"X-Api-Key": "first-key"}
            check(s.wait(lambda g: g["num_requests_running"] > 0, headers=mine), "it is computed")
            expect(s.post("/abort_requests", {"X-Api-Key": "second-key"}, request_ids="a")[1],
                   {"aborted": 0}, "nor are its requests")
            expect(s.post("/abort_requests", mine, request_ids="a")[1], {"aborted": 1},
                   "which its own can end")
            long.close()
            check(not any("-key" in line for line in s.log), "no key is logged")


def the_admin_key_is_apart():
    admin, mine, none = {"Authorization": "Bearer admin-key"}, {"X-Api-Key": "client-key"}, {}
    with Server("--api-key", "client-key", env={"GALLOP_ADMIN_API_KEY": "admin-key"},
                model=patient_model()) as s:
        get = lambda path, head: s.request("GET", path, headers=head)[0]
        for path in ("/metrics", "/load", "/v1/health", "/v1/queue/status", "/v1/server_metrics",
                     "/v1/config"):
            expect([get(path, h) for h in (admin, mine, none)], [200, 401, 401], path)
        for path in ("/v1/models", "/openapi.json"):
            expect([get(path, h) for h in (admin, mine, none)], [401, 200, 401], path)
        expect([s.post("/tokenize", h, prompt="x")[0] for h in (admin, mine, none)],
               [401, 200, 401], "inference")
        expect([get(path, none) for path in ("/health", "/ready", "/version")], [200] * 3, "probes")
        body = json.dumps({**FOREVER, "request_id": "a"}).encode()
        with s.socket() as long:
            long.sendall(
                b"POST %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: client-key\r\nContent-Length: %d\r\n\r\n"
                % (COMPLETIONS.encode(), len(body)) + body)
            check(s.wait(lambda g: g["num_requests_running"] > 0, headers=admin), "it is computed")
            expect([get("/v1/status/a", h) for h in (admin, mine, none)], [200, 200, 401],
                   "the status of a request")
            expect(s.post("/abort_requests", admin, request_ids="a")[1], {"aborted": 1},
                   "requests of others are ended")
        security = json.loads(s.request(
            "GET", "/openapi.json", headers=mine)[2])["paths"]["/metrics"]["get"].get("security")
        check(security, "the document says that a key is needed")
        check(not any("-key" in line for line in s.log), "no key is logged")
    with Server("--admin-api-key", "admin-key") as s:
        expect([s.request("GET", "/metrics", headers=h)[0] for h in (admin, none)], [200, 401],
               "without other keys")
        expect([s.post("/tokenize", h, prompt="x")[0] for h in (admin, none)], [200, 200],
               "inference is for everybody then")
    expect_error(call("serve", "-m", DEMO, "--api-key", "a", "--admin-api-key", "a"), 2,
                 "--admin-api-key", "another")


def a_key_has_its_limits():
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/keys", "w") as f:
            f.write(
                "often-key requests_per_minute=2\nlong-key tokens_per_minute=30 requests_per_minute=1000\nfree-key\n")
        with Server("--api-key-file", f"{d}/keys") as s:
            ask = lambda key, **more: s.request("POST", COMPLETIONS, {"prompt": [
                5] * 20, "max_tokens": 20, "ignore_eos": True, **more}, {"X-Api-Key": key})
            status, head, _ = ask("often-key")
            expect((status, head["x-ratelimit-limit-requests"],
                    head["x-ratelimit-remaining-requests"]), (200, "2", "1"), "the first")
            check("x-ratelimit-limit-tokens" not in head
                  and 0 < float(head["x-ratelimit-reset-requests"][:-1]) <= 30, f"{head}")
            expect(ask("often-key", stream=True)[0], 200, "the second")
            status, head, body = ask("often-key")
            check(status == 429 and 1 <= int(head["retry-after"]) <= 30
                  and "limit" in json.loads(body)["error"]["message"], f"{status} {head}")
            expect(head["x-ratelimit-remaining-requests"], "0", "none is left")
            expect(s.request("GET", "/v1/models", headers={"X-Api-Key": "often-key"})[0], 200,
                   "what computes nothing is not limited")
            status, head, _ = ask("long-key")
            expect((status, head["x-ratelimit-limit-tokens"], head["x-ratelimit-remaining-tokens"]),
                   (200, "30", "0"), "tokens are counted")
            status, head, _ = ask("long-key", max_tokens=1)
            check(status == 429 and 10 <= int(head["retry-after"]) <= 22,
                  f"11 tokens too many were used: {status} {head}")
            expect([(r[0], [k for k in r[1] if "ratelimit" in k])
                    for r in (ask("free-key") for _ in range(4))], [(200, [])] * 4, "no limit")
            expect(s.gauges({"X-Api-Key": "free-key"})["requests_over_limit_total"], 2, "counted")
            check(not any("-key" in line for line in s.log), "no key is logged")
    for line, word in (("secret-key requests=1", "requests_per_minute=N"),
                       ("secret-key tokens_per_minute=x", "1 to 1000000000")):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(line)
            f.flush()
            r = call("serve", "-m", DEMO, "--api-key-file", f.name)
            expect_error(r, 1, f.name, word)
            check(b"secret" not in r.stderr, "nor is a key told in an error")


def a_full_queue_says_when_to_come_back():
    with Server("--max-num-seqs", 2, "--max-num-queued-reqs", 2, "--no-access-log",
                model=patient_model()) as s:
        held = [s.send(COMPLETIONS, **HELD) for _ in range(4)]
        check(s.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] == 4),
              "four are there")
        for body in ({"prompt": "x"}, {"prompt": "x", "stream": True}):
            status, head, text = s.request("POST", COMPLETIONS, body)
            check(status == 429 and int(head["retry-after"]) >= 1, f"{status} {head}")
            expect(json.loads(text)["error"]["type"], "RateLimitError", "its type")
        expect(s.post(COMPLETIONS, prompt="x", n=5)[0], 429,
               "a request for more than there is room for at once")
        expect(s.request("GET", "/health")[0], 200, "who asks for health is answered")
        held.pop().close()
        check(s.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] == 3),
              "one has left")
        for h in held:
            h.close()
        check(s.is_free(), "all have")
        expect(s.post(COMPLETIONS, prompt="x", n=5)[0], 400, "more answers than can ever be queued")
        expect(s.post(COMPLETIONS, prompt="x", max_tokens=1)[0], 200, "and there is room again")
    with Server("--max-num-seqs", 1, "--max-num-queued-tokens", 30, "--no-access-log",
                model=patient_model()) as s:
        held = s.send(COMPLETIONS, **HELD)
        _runs(s)
        waits = s.send(COMPLETIONS, prompt=[5] * 25, max_tokens=1, request_id="waits")
        check(s.is_queued("waits"), "one waits")
        expect(s.post(COMPLETIONS, prompt=[5] * 10, max_tokens=1)[0], 429,
               "too many tokens would wait")
        held.close()
        waits.close()
        check(s.is_free(), "they have left")
        expect(s.post(COMPLETIONS, prompt=[5] * 100, max_tokens=1)[0], 200,
               "one alone is never too long")


def bodies_are_limited_together():
    most = 100000
    with Server("--max-body-bytes", most, "--max-bodies-bytes", most, "--no-access-log",
                model=patient_model()) as s:
        count = lambda: s.gauges()["http_body_bytes"]
        held = s.socket()
        held.sendall(
            f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {most}\r\n\r\n".encode())
        expect(s.post(COMPLETIONS, prompt="x", max_tokens=1, metadata={"a": " " * 30000})[0], 200,
               "what was announced takes nothing")
        held.sendall(b" " * (most - 20000))
        check(s.wait(lambda g: g["http_body_bytes"] == most - 20000), "what came counts")
        status, head, text = s.request("POST", COMPLETIONS,
                                       {"prompt": "x", "stop": "y", "user": " " * 30000})
        if status == 503:
            check(int(head["retry-after"]) >= 1 and "bodies" in text.decode(), f"{head} {text}")
        else:  # on a slow machine the held body had stood still for a second: then it made room
            check(held.recv(12).endswith(b"408") and status == 200, f"{status} {head} {text}")
        expect(s.post(COMPLETIONS, prompt="x", max_tokens=1)[0], 200, "a small one")
        held.close()
        check(s.wait(lambda g: g["http_body_bytes"] == 0), "who left counts no more")
        ask = s.send(COMPLETIONS, **HELD, metadata={"a": " " * 30000})
        check(s.wait(lambda g: g["num_requests_running"] > 0 and g["http_body_bytes"] == 0),
              "what has been read counts no more")
        ask.close()
        expect(s.post(COMPLETIONS, prompt="x", max_tokens=1, metadata={"a": " " * 90000})[0], 200,
               "there is room again")
        check(count() == 0 and (status == 200 or s.gauges()["requests_refused_total"] >= 1),
              "it is counted as refused")


def a_request_that_takes_too_long_ends():
    """No machine computes so many tokens within a millisecond."""
    with Server("--request-timeout", 0.001, "--no-access-log", model=patient_model()) as s:
        for stream in (False, True):
            status, _, body = s.request("POST", COMPLETIONS, {**FOREVER, "stream": stream})
            check(status == 504 or stream, f"status of an answer that takes too long: {status}")
            check(re.search(rb'"code": ?504', body),
                  f"the error of an answer that takes too long: {body[-200:]}")
        check(s.is_free(), "nothing goes on")
    with Server("--request-timeout", 1000, "--no-access-log") as s:
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=4)[0], 200,
               "an answer that has its time")


def connections_are_counted():
    with Server("--max-connections", 3, "--no-access-log") as s:
        held = [s.socket() for _ in range(3)]
        for h in held:
            h.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            h.recv(100)
        with s.socket() as one_more:
            expect(_answer(one_more)[0], 503, "one too many")
        held.pop().close()
        end = time.monotonic() + 300
        while (left := s.request("GET", "/health")[0]) == 503 and time.monotonic() < end:
            time.sleep(.01)
        expect(left, 200, "one has left")
        for h in held:
            h.close()


def no_descriptor_is_left():
    with Server("--no-access-log",
                before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))) as s:
        held = []
        for _ in range(100):
            held.append(s.socket())
        end = time.monotonic() + 300
        while not any("cannot accept" in x for x in list(s.log)) and time.monotonic() < end:
            time.sleep(.01)
        time.sleep(1)
        expect(sum("cannot accept connections" in x for x in s.log), 1, f"it is said once: {s.log}")
        for h in held:
            h.close()
        expect(s.request("GET", "/health")[0], 200, "it goes on when there are some again")
        expect(s.post(COMPLETIONS, prompt="x", max_tokens=1)[0], 200, "and serves")


def idle_crowds_harm_no_stream():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    # as many as the system allows a process
    most = min(10000, (limit[1] if limit[1] > 0 else 20000) - 200)
    fields = {"prompt": PROMPT, "max_tokens": 300, "min_tokens": 300, "temperature": 0, "n": 4}
    with Server("--no-access-log", "--max-connections", most + 2) as s:
        _, wanted = s.post(COMPLETIONS, **fields)
        before, held, seen, full = _resident(s), [], [], threading.Event()

        def stream():
            while not seen or not full.is_set():
                parts = [json.loads(x)["choices"][0] for x in s.events(COMPLETIONS, **fields)[:-1]]
                seen.append(["".join(p["text"] for p in parts if p["index"] == i)
                             for i in range(4)])

        t = threading.Thread(target=stream)
        t.start()
        for _ in range(most):
            held.append(s.socket())
        check(s.wait(lambda g: g["http_connections"] >= most), f"{most} connections are open")
        full.set()
        t.join()
        for texts in seen:
            expect(texts, [c["text"] for c in wanted["choices"]],
                   f"streams beside {most} connections")
        each = (_resident(s) - before) / most
        print(f"{most} idle connections, {len(seen)} streams beside them, {each:.0f} bytes each")
        check(each < 65536, f"{each:.0f} bytes for an idle connection")
        held += [s.socket(), s.socket()]
        for _ in range(3):
            with s.socket() as one_more:
                expect(_answer(one_more)[0], 503, "those beyond")
        for h in held:
            h.close()
        check(s.wait(lambda g: g["http_connections"] == 1), "all have left")
        expect(s.post(COMPLETIONS, **fields)[1]["choices"], wanted["choices"],
               "and it serves as before")
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def a_killed_server_comes_back_on_its_port():
    s = Server("--no-access-log", model=patient_model())
    stream, idle = s.send(COMPLETIONS, **FOREVER, stream=True), s.socket()
    _runs(s)
    s.process.kill()
    check(b"[DONE]" not in read_all(stream), "a stream is cut")
    expect(s.process.wait(600), -signal.SIGKILL, "status")
    with Server("--no-access-log", port=s.port) as again:
        expect(again.port, s.port, "the port")
        expect(again.post(COMPLETIONS, prompt="x", max_tokens=1)[0], 200, "it serves at once")
    stream.close()
    idle.close()


def requests_that_dawdle_hold_up_nobody():
    """unit/net/server tests their time with short limits; with GALLOP_SLOW_TESTS=1 that of the
    program is tested, too."""
    heads = (b"GET /health HTTP/1.1\r\nHost: x\r\nX: ",
             b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n",
             b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n")
    held, begin = [server.socket() for _ in range(60)], time.monotonic()
    for i, s in enumerate(held):
        s.sendall(heads[i % 3])
        s.setblocking(False)
    slow = os.environ.get("GALLOP_SLOW_TESTS")
    answers = [b""] * len(held)
    while time.monotonic() - begin < (60 if slow else 1) and not all(answers):
        for i, s in enumerate(held):
            try:
                answers[i] = answers[i] or s.recv(1000)
            except BlockingIOError:
                s.send(b"a")
        expect(server.post("/tokenize", prompt="x")[0], 200, "others are served")
        time.sleep(.2)
    if slow:
        check(all(x.startswith(b"HTTP/1.1 408") for x in answers),
              f"all are ended: {sum(map(bool, answers))}")
        check(25 < time.monotonic() - begin < 60, "in their time")
    else:
        check(not any(answers), "they have their time")
    for s in held:
        s.close()
    check(server.wait(lambda g: g["http_connections"] <= 1), "connections are gone")


def a_prompt_of_too_many_bytes_is_not_tokenized():
    """A prompt whose bytes cannot fit, whatever its tokens, is refused like one that has too
    many tokens. With one byte less it is tokenized."""
    with open(f"{DEMO}/tokenizer.json") as f:
        tokens = json.load(f)
    longest = max([4] + [len(x.encode()) for x in list(tokens["model"]["vocab"])
                         + [t["content"] for t in tokens["added_tokens"]]])
    context = server.post("/tokenize", prompt="x")[1]["max_model_len"]
    exact = server.post("/tokenize", prompt="a" * (context * longest))[1]["count"]
    check(server.post("/tokenize", prompt="a" * (context * longest + 1))[1]["count"] >= exact
          > context, "other paths count any text")
    wanted = "This model's maximum context length is %d tokens. However, your request has %s input tokens. Please reduce the length of the input messages."
    for more, count in ((0, str(exact)), (1, f"at least {context + 1}"), (
            longest, f"at least {context + 1}"), (longest + 1, f"at least {context + 2}")):
        status, body = server.post(COMPLETIONS, prompt="a" * (context * longest + more))
        expect((status, body["error"]["message"], body["error"]["param"]),
               (400, wanted % (context, count), "prompt"), f"{more} bytes more")
    long = "a" * (context * longest + 1)
    expect(server.post(COMPLETIONS, prompt=long, max_tokens=1, truncate_prompt_tokens=5)[0], 200,
           "a prompt that is cut")
    expect(server.post(COMPLETIONS, prompt=["x", long], max_tokens=1)[0], 400, "one of several")
    ask = {"messages": [{"role": "user", "content": long * 2}], "max_tokens": 5}
    status, body = server.post("/v1/chat/completions", **ask)
    check(status == 400
          and f"maximum context length is {context} tokens. However, your request has at least "
          in body["error"]["message"], f"a chat: {body}")
    status, body = server.post("/v1/messages", **ask)
    check(status == 400
          and re.match(rf"prompt is too long: at least \d+ tokens > {context - 1} maximum$",
                       body["error"]["message"]), f"a message: {body}")
    check(server.post("/v1/messages/count_tokens", messages=ask["messages"])[1]["input_tokens"]
          > context, "counted all the same")


def one_key_leaves_places_to_others():
    """--scheduling-policy fair: a key that sends requests without end does not fill the queue,
    by key or by user; and refused requests take no room."""
    a, b = {"Authorization": "Bearer aaa"}, {"Authorization": "Bearer bbb"}
    for keys, one, two in ((("--api-key", "aaa", "--api-key", "bbb"), (a, {}), (b, {})),
                           ((), ({}, {"user": "one"}), ({}, {"user": "two"}))):
        with Server("--threads", 1, "--max-num-seqs", 2, "--max-num-queued-reqs", 14,
                    "--scheduling-policy", "fair", *keys, model=patient_model()) as s:
            are_there = lambda n: s.wait(lambda g: g["num_requests_running"]
                                         + g["num_requests_waiting"] == n, headers=one[0])
            held = [s.send(COMPLETIONS, one[0], **HELD, **one[1], request_id=f"held-{i}")
                    for i in range(12)]
            check(all(s.is_queued(f"held-{i}", one[0]) for i in range(12)), "twelve are there")
            for _ in range(20):
                expect(s.post(COMPLETIONS, one[0], prompt=PROMPT, max_tokens=1, **one[1])[0], 429,
                       "it has three quarters")
            expect(s.post(COMPLETIONS, two[0], prompt=PROMPT, max_tokens=1, n=13, **two[1])[0], 400,
                   "nobody has all")
            other = s.send(COMPLETIONS, {**two[0], "Connection": "close"}, prompt=PROMPT,
                           max_tokens=1, n=3, **two[1])
            check(are_there(15), "another has room")
            for k in held:
                k.close()
            expect(_answer(other)[0], 200, "and is answered")
            other.close()


def a_request_that_never_fits_beside_others_is_wrong():
    """--scheduling-policy fair: a request can have three quarters of the queue, rounded down.
    More is never reported as temporary."""
    for places, most in ((2, 1), (3, 2), (5, 3), (8, 6)):
        with Server("--threads", 1, "--max-num-seqs", 1, "--max-num-queued-reqs", places - 1,
                    "--scheduling-policy", "fair") as s:
            expect([s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1, n=n)[0]
                    for n in (most, most + 1)], [200, 400], f"of {places} places")


def what_a_key_is_refused_keeps_no_place():
    """Requests beyond the limit of their key are refused, and leave the queue to others."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/keys", "w") as f:
            f.write("aaa requests_per_minute=1\nbbb\n")
        with Server("--max-num-seqs", 2, "--max-num-queued-reqs", 2, "--api-key-file",
                    f"{d}/keys") as s:
            expect(s.post(COMPLETIONS, {"X-Api-Key": "aaa"}, prompt=PROMPT, max_tokens=1)[0], 200,
                   "one")
            for _ in range(8):
                expect(s.post(COMPLETIONS, {"X-Api-Key": "aaa"}, prompt=PROMPT, max_tokens=1)[0],
                       429, "beyond its limit")
            expect(s.post(COMPLETIONS, {"X-Api-Key": "bbb"}, prompt=PROMPT, max_tokens=1, n=4)[0],
                   200, "all places are free")


def what_several_answers_are_charged():
    """The prompt of several answers is charged once, and cache hits of its siblings do not
    belong to the request."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/keys", "w") as f:
            f.write("aaa tokens_per_minute=400\n")  # 7 return in a second.
        with Server("--api-key-file", f"{d}/keys") as s:
            ids = list(range(40, 340))
            got = json.loads(s.request("POST", COMPLETIONS, {
                "prompt": ids, "n": 4, "max_tokens": 3, "min_tokens": 3}, {"X-Api-Key": "aaa"})[2])
            expect(got["usage"]["prompt_tokens_details"] or {"cached_tokens": 0},
                   {"cached_tokens": 0}, "nothing was cached")
            expect(got["usage"]["completion_tokens"], 12, "tokens of all answers")
            left = int(s.request("POST", "/tokenize", {"prompt": "x"},
                                 {"X-Api-Key": "aaa"})[1]["x-ratelimit-remaining-tokens"])
            check(
                400 - 312 <= left < 300,
                f"{left} tokens of 400 are left: the prompt of 300 counts once, and 12 of answers")


def a_signal_drains():
    """While another request is held, one waits, which is computed behind it to its end."""
    s = Server("--no-access-log", "--shutdown-timeout", 600, "--max-num-seqs", 1,
               model=patient_model())
    held, idle = s.send(COMPLETIONS, **HELD), s.socket()
    _runs(s)
    slow = s.send(COMPLETIONS, prompt=PROMPT, max_tokens=800, min_tokens=800, stream=True)
    check(s.wait(lambda g: g["num_requests_waiting"] == 1), "one waits")
    s.process.send_signal(signal.SIGTERM)
    while s.request("GET", "/ready")[0] != 503:
        time.sleep(.01)
    status, head, _ = s.request("POST", COMPLETIONS, {"prompt": "x"})
    check(status == 503 and "retry-after" in head, "what is new is refused")
    expect(s.request("GET", "/health")[0], 200, "it is alive")
    held.close()
    body = read_all(slow)
    check(body.rstrip().endswith(b"0") and b"[DONE]" in body and b'"length"' in body,
          "what was there is computed to its end")
    slow.close()
    idle.close()
    expect(s.process.wait(600), 0, "then it ends well")


def a_drain_has_a_limit():
    s = Server("--no-access-log", "--shutdown-timeout", 0.2, model=patient_model())
    slow = s.send(COMPLETIONS, **FOREVER, stream=True)
    _runs(s)
    s.process.send_signal(signal.SIGTERM)
    body = read_all(slow)
    check(b'"finish_reason":"abort"' in body and b"[DONE]" in body,
          f"the last event says so: {body[-300:]}")
    slow.close()
    expect(s.process.wait(600), 0, "status")


def a_client_that_reads_nothing_holds_up_no_end():
    """The answer is computed, or aborted, and cannot be delivered: without a limit it would have
    its 60 s."""
    s = Server("--no-access-log", "--shutdown-timeout", 0.2, model=patient_model())
    deaf = _deaf(s.port)
    body = json.dumps({**FOREVER, "logprobs": 5, "stream": True}).encode()
    deaf.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                 % (COMPLETIONS.encode(), len(body)) + body)
    check(s.wait(lambda g: g["generation_tokens_total"] > 3000),
          "more than sockets and buffers take")
    begin = time.monotonic()
    expect(s.end(), 0, "status")
    check(time.monotonic() - begin < 30, f"it took {time.monotonic() - begin:.1f} s")
    deaf.close()


def a_second_signal_ends_at_once():
    s = Server("--no-access-log", "--shutdown-timeout", 1000, model=patient_model())
    slow = s.send(COMPLETIONS, **{**FOREVER, "n": 100}, stream=True)
    _runs(s)
    s.process.send_signal(signal.SIGTERM)
    while s.request("GET", "/ready")[0] != 503:
        time.sleep(.01)
    s.process.send_signal(signal.SIGINT)
    expect(s.process.wait(600), 0, "status")
    slow.close()


def a_unix_socket_is_served_and_removed():
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen([GALLOP, "serve", "-m", DEMO, "--uds", f"{d}/s"],
                             stderr=subprocess.PIPE)
        check(b"unix:" in p.stderr.readline(), "the address")
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(f"{d}/s")
            c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            expect(_answer(c)[0], 200, "status")
        expect_error(call("serve", "-m", DEMO, "--uds", f"{d}/s"), 1, f"{d}/s", "another server")
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(f"{d}/s")
        p.send_signal(signal.SIGTERM)
        expect(p.wait(600), 0, "status")
        p.stderr.close()
        check(not os.path.exists(f"{d}/s"), "it is removed")
        left = socket.socket(socket.AF_UNIX)
        left.bind(f"{d}/s")
        left.close()
        p = subprocess.Popen([GALLOP, "serve", "-m", DEMO, "--uds", f"{d}/s"],
                             stderr=subprocess.PIPE)
        check(b"unix:" in p.stderr.readline(), "one that was left behind is no hindrance")
        p.send_signal(signal.SIGTERM)
        expect(p.wait(600), 0, "status")
        p.stderr.close()


try:
    run_all(list(globals().items()))
finally:
    server.end()
