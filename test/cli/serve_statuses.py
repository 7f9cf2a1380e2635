#!/usr/bin/env python3
"""serve_statuses.py - which errors clients repeat. The libraries of OpenAI and Anthropic repeat a
request after 408, 409, 429 and 500 or above, unless the header X-Should-Retry forbids it. So what a
request itself causes must not be repeated, and what the load causes says when to come back."""
import json
import tempfile

from _cli import check, expect, run_all
from _server import HELD, Server, patient_model, read_all

COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"
MANY = {"type": "string", "allOf": [{"pattern": f"^(.*[{c}].*){{3}}$"} for c in "abcdefghijklmnopqrst"]}
JSON = {"Content-Type": "application/json"}


def _is_repeated(status, headers):
    """As _should_retry() of the libraries of OpenAI and Anthropic decides."""
    told = headers.get("x-should-retry")
    return told == "true" if told else status in (408, 409, 429) or status >= 500


def _expect_final(what, wanted, status, headers, body=b""):
    expect((status, _is_repeated(status, headers)), (wanted, False), f"{what}: {headers} {body[:200]}")


def _expect_later(what, wanted, status, headers, body=b""):
    check((status, _is_repeated(status, headers)) == (wanted, True)
          and (wanted == 408 or int(headers.get("retry-after", 0)) >= 1),
          f"{what}: {status} {headers} {body[:200]}")


def _raw(s, data):
    """Returns status, headers and body of the answer to these bytes."""
    head, _, body = s.raw(data).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), {k.lower(): v for k, v in (x.split(": ", 1) for x in lines)}, body


def what_a_request_causes_is_not_repeated():
    """One row an error: name, status, and the request as method, path, body and headers."""
    one = {"prompt": "x", "max_tokens": 4}
    rows = (
        ("no JSON", 400, "POST", COMPLETIONS, b"{", JSON),
        ("a wrong value", 400, "POST", COMPLETIONS, {**one, "n": -1}, {}),
        ("fields that exclude each other", 400, "POST", COMPLETIONS, {**one, "best_of": 2, "n": 3}, {}),
        ("a prompt beyond the context", 400, "POST", COMPLETIONS, {**one, "prompt": [5] * 2000}, {}),
        ("more answers than places", 400, "POST", COMPLETIONS, {**one, "prompt": ["x"] * 1000, "n": 2}, {}),
        ("a message without role", 400, "POST", CHAT, {"messages": [{}]}, {}),
        ("no text", 400, "POST", EMBEDDINGS, {"input": {}}, {}),
        ("a wrong regex", 400, "POST", COMPLETIONS, {**one, "structured_outputs": {"regex": "(a"}}, {}),
        ("a regex that is too complex", 400, "POST", COMPLETIONS,
         {**one, "structured_outputs": {"regex": "(" * 4000 + ")" * 4000}}, {}),
        ("a limit of a constraint met in the answer", 400, "POST", COMPLETIONS,
         {**one, "max_tokens": 60, "structured_outputs": {"json": MANY}}, {}),
        ("every token forbidden", 400, "POST", COMPLETIONS,
         {**one, "allowed_token_ids": [77], "stop_token_ids": [77], "min_tokens": 4}, {}),
        ("no key", 401, "POST", COMPLETIONS, one, {"Authorization": "Bearer x"}),
        ("no such model", 404, "POST", COMPLETIONS, {**one, "model": "x"}, {}),
        ("no such path", 404, "POST", "/v1/x", one, {}),
        ("a wrong method", 405, "GET", COMPLETIONS, None, {}),
        ("a body above the limit", 413, "POST", COMPLETIONS, b" " * (40 << 20), JSON),
        ("a large body without a key", 401, "POST", COMPLETIONS, b" " * (20 << 20),
         {**JSON, "Authorization": "Bearer x"}),
        ("a type that is no JSON", 415, "POST", COMPLETIONS, b"{}", {"Content-Type": "text/plain"}),
        ("large headers", 431, "GET", "/health", None, {"X-A": "a" * 70000}),
        ("what the server does not do", 501, "POST", "/api/pull", {"model": "x"}, {}),
    )
    with Server("--api-key", "a", "--no-access-log") as s:
        for name, wanted, method, path, body, headers in rows:
            got = s.request(method, path, body, {"Authorization": "Bearer a", **headers})
            _expect_final(name, wanted, *got)
        start = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
        _expect_final("a transfer coding", 501, *_raw(s, start + b"Transfer-Encoding: gzip, chunked\r\n\r\n"))
        _expect_final("a version of HTTP", 505, *_raw(s, b"GET / HTTP/3.7\r\nHost: x\r\n\r\n"))


def what_takes_too_long_is_not_computed_again():
    with Server("--request-timeout", 0.001, "--no-access-log", model=patient_model()) as s:
        for path, body in ((COMPLETIONS, {**HELD, "n": 8}),
                           (CHAT, {"messages": [{"role": "user", "content": "x" * 500}], "max_tokens": 400})):
            _expect_final(path, 504, *s.request("POST", path, body))


def vectors_that_are_ended_by_their_id_are_not_computed_again():
    with Server("--max-num-seqs", 1, "--no-access-log", model=patient_model()) as s:
        held = s.send(COMPLETIONS, **HELD)
        check(s.wait(lambda g: g["num_requests_running"] == 1), "one is computed")
        with s.send(EMBEDDINGS, headers={"X-Request-Id": "mine", "Connection": "close"}, input="x") as k:
            check(s.wait(lambda g: g["num_requests_waiting"] == 1), "a text waits")
            expect(s.post("/abort_requests", request_ids="mine")[1], {"aborted": 1}, "it is ended")
            answer = read_all(k)
        _expect_final("vectors", 400, int(answer.split()[1]), {}, answer)
        check(b'"param":null' in answer, f"no field is blamed: {answer}")
        held.close()


def what_the_load_causes_says_when_to_come_back():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("often requests_per_minute=1\nfree\n")
        keys.flush()
        free = {"Authorization": "Bearer free"}
        with Server("--max-num-seqs", 1, "--max-num-queued-reqs", 1, "--max-num-queued-tokens", 30,
                    "--max-request-memory", 2 / 1024, "--api-key-file", keys.name, "--no-access-log",
                    model=patient_model()) as s:
            def ask(headers=free, **body):
                fields = {"prompt": "x", "max_tokens": 1, **body}
                return s.request("POST", COMPLETIONS, fields, headers)

            _expect_later("the memory of requests", 429, *ask(x=[0] * 300000))
            expect(ask({"Authorization": "Bearer often"})[0], 200, "a first request of a key")
            _expect_later("the limit of a key", 429, *ask({"Authorization": "Bearer often"}))
            held = s.send(COMPLETIONS, headers=free, **HELD)
            check(s.wait(lambda g: g["num_requests_running"] == 1, headers=free), "one is computed")
            waits = s.send(COMPLETIONS, headers=free, prompt=[5] * 25, max_tokens=1)
            check(s.wait(lambda g: g["num_requests_waiting"] == 1, headers=free), "one waits")
            _expect_later("the queue", 429, *ask())
            _expect_later("the queue, in a stream", 429, *ask(stream=True))
            for k in (held, waits):
                k.close()
    with Server("--max-request-memory", 2 / 1024, "--no-access-log") as s:
        _expect_later("memory of an answer", 429, *s.request("POST", COMPLETIONS, {
            "prompt": [5] * 1000, "max_tokens": 1, "echo": True, "logprobs": 5, "n": 60}))
        check(s.post(COMPLETIONS, prompt="x", max_tokens=1)[0] == 200, "the memory is given back")
    with Server("--max-connections", 2, "--stall-timeout", 0.2, "--no-access-log") as s:
        _expect_later("a request that stalls", 408, *_raw(s, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                                                            b"Content-Length: 9\r\n\r\n{"))
        held = [s.socket() for _ in range(2)]
        for k in held:
            k.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            k.recv(100)
        _expect_later("connections", 503, *_raw(s, b""))
        for k in held:
            k.close()


run_all(list(globals().items()))
