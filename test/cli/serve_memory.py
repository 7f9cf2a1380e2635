#!/usr/bin/env python3
"""serve_memory.py - the memory that requests can demand of a server: the worst bodies, within
--max-request-memory. Standard library only."""
import json
import re
import time

from _cli import check, expect, run_all
from _server import HELD, Server, patient_model

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time"
LONG = {"max_tokens": 900, "ignore_eos": True, "stream": True}
LASTING = {**HELD, "stream": True}


def _gauge(s, name):
    return float(re.search(rf"^gallop:{name}{{[^}}]*}} (\S+)$",
                           s.request("GET", "/metrics")[2].decode(), re.M)[1])


def _send(s, path, body):
    k = s.socket()
    k.sendall(
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % (path.encode(), len(body)) + body)
    return k


def _list(what, n):
    return b"[" + b",".join([what] * n) + b"]"


def _body(fields, **raw):
    """Returns the JSON of the fields, with additional members whose text is given."""
    text = json.dumps(fields).encode()[:-1]
    return text + b"".join(b',"%s":%s' % (k.encode(), v) for k, v in raw.items()) + b"}"


def worst_bodies_stay_within_the_budget():
    """Each body is small or large in bytes, and demands much: it is served or gets 429, the
    memory stays below the limit, and all of it is released."""
    with Server("--threads", 1, "--max-num-seqs", 2, "--max-request-memory", 16 / 1024,
                "--scheduling-policy", "priority", "--no-access-log") as s:
        limit = _gauge(s, "request_memory_limit_bytes")
        expect(limit, 16777216, "the limit")
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=2)[0], 200, "a first request")
        many = {"prompt": [[5, 6, 7]] * 8, "n": 128, "repetition_penalty": 1.1, **LONG}
        bodies = {"penalties of 1024 answers": (COMPLETIONS, json.dumps(many).encode()),
                  "words of 1024 answers": (
                      COMPLETIONS, _body({**many, "stop": ["x" * 1000 + str(i) for i in range(64)],
                                                                 "bad_words": [f"word {i} " + "y"
                                                                               * 100 for i
                                                                               in range(256)]})),
                  "allowed ids": (COMPLETIONS, _body({**many, "prompt": PROMPT},
                                                     allowed_token_ids=_list(b"9", 250000))),
                  "numbers of a field that is not known": (
                      COMPLETIONS, _body({"prompt": PROMPT, **LONG}, junk=_list(b"0", 1000000))),
                  "objects": (COMPLETIONS,
                              _body({"prompt": PROMPT, **LONG}, junk=_list(b"{}", 60000))),
                  "keys": (COMPLETIONS, _body({"prompt": PROMPT, **LONG}, junk=b"{" + b",".join(
                      b'"%d":0' % i for i in range(150000)) + b"}")),
                  "ids": (COMPLETIONS, _body({**LONG}, prompt=_list(b"5", 800000))),
                  "text": (COMPLETIONS, _body({"prompt": "a b" * 1200000, **LONG})),
                  "an echo to many": (CHAT, json.dumps({"messages": [
                      {"role": "user", "content": "a" * 1000000}], "n": 128, "echo": True,
                                                        "add_generation_prompt": False,
                                                        **LONG}).encode())}
        served = 0
        for name, (path, body) in bodies.items():
            idle, most = _gauge(s, "request_memory_bytes"), 0
            sockets = [_send(s, path, body) for _ in range(4)]
            for k in sockets:
                k.settimeout(100)
                head = b""
                while b"\r\n\r\n" not in head and (more := k.recv(4096)):
                    head += more
                    most = max(most, _gauge(s, "request_memory_bytes"))
                status = int(head.split()[1])
                check(status in (200, 400, 429), f"{name}: {status}")
                served += status == 200
                check(status != 429 or b"Retry-After: " in head, f"{name}: when to come back")
            check(most <= limit, f"{name}: {most} bytes are held")
            # before the 1024 that wait
            status = s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1, priority=-9)[0]
            check(status in (200, 429), f"{name}: a neighbour gets {status}")
            for k in sockets:
                k.close()
            check(s.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] == 0),
                  f"{name}: all of them are gone")
            end = time.monotonic() + 60
            while _gauge(s, "request_memory_bytes") > idle + (1 << 20) and time.monotonic() < end:
                time.sleep(.02)
            check(_gauge(s, "request_memory_bytes") <= idle + (1 << 20),
                  f"{name}: what is held comes back")
            expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1)[0], 200,
                   f"{name}: and others are served")
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1, junk="x" * 17000000)[0], 429,
               "a body that is larger than the memory of all requests")
        check(served > 0, "others are served")
        check(_gauge(s, "requests_over_memory_total") > 0, "and are counted")


def what_waits_is_small():
    """Trees of JSON, lists and penalties of waiting requests are not kept: 1024 answers of 195
    bytes, and 1 MB of an unknown field."""
    with Server("--threads", 1, "--max-num-seqs", 1, "--no-access-log",
                model=patient_model()) as s:
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=2)[0], 200, "a first request")
        for body, most in ((json.dumps({**LASTING, "prompt": [[5, 6, 7]] * 8, "n": 120,
                                        "repetition_penalty": 1.1}).encode(), 8 << 20),
                           (_body({**LASTING, "n": 128}, junk=_list(b"0", 500000)), 1 << 20),
                           (_body({**LASTING, "n": 128}, allowed_token_ids=_list(b"9", 150000)),
                            1 << 20)):
            idle, made = _gauge(s, "request_memory_bytes"), s.gauges()["generation_tokens_total"]
            k = _send(s, COMPLETIONS, body)
            check(s.wait(lambda g: g["generation_tokens_total"] > made and g["num_requests_waiting"]
                         > 100), "answers wait")
            check(s.wait(lambda g: _gauge(s, "request_memory_bytes") - idle <= most
                         or g["num_requests_waiting"] < 50), "little is held,")
            check(s.gauges()["num_requests_waiting"] >= 50, f"while answers wait, for {body[:60]}")
            k.close()
            check(s.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] == 0),
                  "it is gone")


run_all(list(globals().items()))
