#!/usr/bin/env python3
"""serve_shares.py - what one client can take from the others: threads, memory and constraints. Each
test fills a pool for key A and asks for key B. Standard library only."""
import json
import re
import threading
import time

from _cli import check, expect, run_all
from _server import HELD, Server, patient_model, read_all

COMPLETIONS = "/v1/completions"
A, B = {"Authorization": "Bearer aaa"}, {"Authorization": "Bearer bbb"}
KEYS = ("--api-key", "aaa", "--api-key", "bbb", "--scheduling-policy", "fair")


def _gauge(s, name):
    return float(re.search(rf"^gallop:{name}{{[^}}]*}} (\S+)$",
                           s.request("GET", "/metrics", headers=A)[2].decode(), re.M)[1])


def _send(s, body, key=A):
    k = s.socket()
    k.settimeout(300)
    head = "".join(f"{n}: {v}\r\n" for n, v in key.items())
    k.sendall(f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}"
              f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return k


def large_bodies_do_not_delay_others():
    """A has 12 requests of 2.4 MB. With workers in order of arrival B would be the last; so half of
    A's are still not answered when B is."""
    big = b'{"prompt":"hi","max_tokens":1,"x":[' + b",".join([b"0"] * 1200000) + b"]}"
    with Server("--threads", 1, "--no-access-log", *KEYS) as s:
        n_done = []
        waits = [threading.Thread(target=lambda k=_send(s, big): n_done.append(read_all(k)))
                 for _ in range(12)]
        for t in waits:
            t.start()
        expect(s.post(COMPLETIONS, B, prompt="hi", max_tokens=1)[0], 200, "B's request")
        n = len(n_done)
        for t in waits:
            t.join()
        check(n <= 6, f"{n} of A's 12 large requests were answered before B's small one")
        check(all(d.startswith(b"HTTP/1.1 200") for d in n_done), "A's are answered, too")


def _fill(s, bodies):
    """Sends BODIES for A until 4 of them are refused. Returns the sockets of the others."""
    held, n_refused = [], 0
    for body in bodies:
        k = _send(s, body)
        if k.recv(12).endswith(b"429"):
            n_refused += 1
            k.close()
        else:
            held.append(k)
        if n_refused == 4:
            break
    expect(n_refused, 4, "refusals when the share is used up")
    return held


def _empty(s, held):
    """Closes the sockets HELD, and waits until the requests have given everything back."""
    for k in held:
        k.close()
    check(s.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] == 0, headers=A),
          "A's requests are gone")


def bodies_do_not_count_while_their_requests_are_answered():
    """A large body is read before its first token, and gives its bytes back."""
    body = json.dumps({**HELD, "stream": True, "user": "u" * 60000}).encode()
    with Server("--no-access-log", *KEYS, model=patient_model()) as s:
        with _send(s, body) as k:
            answer = b""
            while b"data:" not in answer:
                answer += k.recv(65536)
            text = s.request("GET", "/metrics", headers=A)[2].decode()
            expect(float(re.search(r"^vllm:http_body_bytes{[^}]*} (\S+)$", text, re.M)[1]), 0,
                   "bytes of bodies")


def memory_of_requests_is_shared():
    """Running answers with penalties hold memory, whatever the field `user` says: A has a key."""
    bodies = [json.dumps({**HELD, "max_tokens": 2000, "min_tokens": 2000, "stream": True,
                          "prompt": [[5, 6, 7]] * 8, "repetition_penalty": 1.1,
                          "user": f"{i:200}"}).encode() for i in range(400)]
    with Server("--threads", 1, "--max-num-seqs", 64, "--max-request-memory", 2 / 1024,
                "--no-access-log", *KEYS, model=patient_model()) as s:
        for key in (A, B):
            expect(s.post(COMPLETIONS, key, prompt="hi", max_tokens=1)[0], 200, "a first request")
        idle = _gauge(s, "request_memory_bytes")
        held = _fill(s, bodies)
        check(len(held) > 2, f"{len(held)} requests of A are held")
        for _ in range(5):
            expect(s.post(COMPLETIONS, B, prompt="hi", max_tokens=1)[0], 200, "B's request")
        _empty(s, held)
        end = time.monotonic() + 60
        while _gauge(s, "request_memory_bytes") > idle and time.monotonic() < end:
            time.sleep(.02)
        expect(_gauge(s, "request_memory_bytes"), idle, "bytes that requests hold")


def memory_of_constraints_is_shared():
    """Each answer of A has a schema of its own. What they hold is within the budget of requests,
    and B's small schemas have room, whether they are new or not."""
    def schema(i):
        return {"type": "array", "minItems": 1000,
                "items": {"enum": [{f"v{i}": j} for j in range(500)]}}

    with Server("--threads", 1, "--max-num-seqs", 64, "--max-request-memory", 32 / 1024,
                "--no-access-log", *KEYS) as s:
        limit = _gauge(s, "request_memory_limit_bytes")
        held = _fill(s, (json.dumps({"prompt": "hi", "max_tokens": 900, "stream": True,
                                     "structured_outputs": {"json": schema(i)}}).encode()
                         for i in range(400)))
        check(len(held) > 2, f"{len(held)} requests of A are held")
        for i in range(4):
            small = {"type": "object", "properties": {f"x{i // 2}": {"type": "integer"}}}
            expect(s.post(COMPLETIONS, B, prompt="hi", max_tokens=2,
                          structured_outputs={"json": small})[0], 200, "B's request")
            check(_gauge(s, "request_memory_bytes") <= limit, "what is held is within the budget")
        _empty(s, held)
        end = time.monotonic() + 60
        while _gauge(s, "request_memory_bytes") > limit / 6 and time.monotonic() < end:
            time.sleep(.02)
        check(_gauge(s, "request_memory_bytes") <= limit / 6,
              f"constraints without users take {_gauge(s, 'request_memory_bytes')} of {limit}")


run_all(list(globals().items()))
