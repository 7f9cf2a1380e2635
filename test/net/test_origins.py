#!/usr/bin/env python3
"""test_origins.py - requests of pages from other origins, as browsers send them: every answer to
an allowed page has the header, whole, streamed or refused; other pages get nothing. Standard
library only; GALLOP_BIN names the program."""
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "test", "cli")]
from _cli import call, check, expect, expect_error, run_all  # noqa: E402
from _server import Server  # noqa: E402

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
OURS, OTHER = "https://app.example", "https://evil.example"
KEY = {"Authorization": "Bearer key"}
ASK = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 2}
WANTS = {"Access-Control-Request-Method": "POST",
         "Access-Control-Request-Headers": "authorization,content-type"}
folder = tempfile.TemporaryDirectory()
keys = os.path.join(folder.name, "keys")
with open(keys, "w", encoding="utf-8") as f:
    f.write("key\nslow requests_per_minute=1\n")
server = Server("--no-access-log", "--api-key-file", keys, "--allowed-origins", json.dumps(
    [OURS, "http://localhost:3000"]), "--allow-credentials", "--max-body-bytes", 2000)
closed = Server("--no-access-log")
CORS = ("access-control-allow-origin", "access-control-allow-credentials",
        "access-control-expose-headers", "access-control-allow-methods",
        "access-control-allow-headers", "access-control-max-age")


def _told(head):
    return {k: v for k, v in head.items() if k in CORS}


def _is_allowed(head, what):
    expect((head.get("access-control-allow-origin"), head.get("access-control-allow-credentials"),
            head.get("vary")), (OURS, "true", "Origin"), what)


def every_answer_to_an_allowed_page_says_so():
    slow = {"Authorization": "Bearer slow"}
    expect(server.request("POST", CHAT, ASK, slow)[0], 200, "the one request of a minute")
    for status, method, path, body, headers in (
            (200, "POST", CHAT, ASK, KEY), (200, "POST", CHAT, ASK | {"stream": True}, KEY),
            (200, "GET", MODELS, None, KEY), (200, "GET", "/health", None, {}),
            (200, "HEAD", "/health", None, {}), (200, "GET", "/", None, {}),
            (401, "POST", CHAT, ASK, {}), (401, "GET", "/nowhere", None, {}),
            (404, "GET", "/nowhere", None, KEY), (404, "POST", CHAT, ASK | {"model": "x"}, KEY),
            (400, "POST", CHAT, {}, KEY), (405, "GET", CHAT, None, KEY),
            (413, "POST", CHAT, b"x" * 2001, KEY), (429, "POST", CHAT, ASK, slow),
            (415, "POST", CHAT, b"{}", KEY | {"Content-Type": "text/plain"}),
            (501, "POST", "/api/pull", {}, KEY)):
        got, head, _ = server.request(method, path, body, headers | {"Origin": OURS})
        expect(got, status, f"{method} {path}")
        if path != "/":
            _is_allowed(head, f"{status} of {method} {path}")
        check("retry-after" in head or status != 429, "which the page may read")
        check("Retry-After" in head["access-control-expose-headers"],
              "with the headers that clients go by")
        for origin in (OTHER, "null", OURS + ".evil.example", None):
            got, head, _ = server.request(method, path, body,
                                          headers | ({"Origin": origin} if origin else {}))
            check(got == status or (got, origin is None) == (200, True) or got == 429,
                  f"{got} for {origin}, {method} {path}")
            expect(_told(head), {}, f"{origin} is told nothing")
            check("Origin" in head["vary"] or path == "/",
                  "and caches are told that it depends on it")


def browsers_ask_before_and_without_a_key():
    for path in (CHAT, MODELS, "/nowhere", "/", "/metrics"):
        status, head, body = server.request("OPTIONS", path, None, WANTS | {"Origin": OURS})
        expect((status, body), (200, b""), path)
        _is_allowed(head, path)
        expect((head["access-control-allow-methods"], head["access-control-allow-headers"],
                head["access-control-max-age"]),
               ("GET, HEAD, POST", "authorization,content-type", "600"), "what may be sent")
        for headers in (WANTS | {"Origin": OTHER}, WANTS | {"Origin": "null"}, WANTS, {}):
            status, head, body = server.request("OPTIONS", path, None, headers)
            # The page does not require a key.
            expect((status, _told(head)), (405 if path == "/" else 401, {}),
                   f"{path} for {headers}")
    expect(server.request("OPTIONS", CHAT, None, {"Origin": OURS})[0], 401,
           "what asks for no method is no such question")
    expect(server.request("OPTIONS", CHAT, None, {"Origin": OURS} | KEY)[0], 405,
           "and OPTIONS is no method otherwise")


def by_itself_there_is_no_such_thing():
    for origin in (OURS, "null", "*"):
        for method, path, body in (("POST", CHAT, ASK), ("GET", MODELS, None),
                                   ("GET", "/nowhere", None)):
            head = closed.request(method, path, body, {"Origin": origin})[1]
            expect((_told(head), head.get("vary")), ({}, None), f"{method} {path} of {origin}")
        expect(closed.request("OPTIONS", CHAT, None, WANTS | {"Origin": origin})[0], 405,
               "a question")
    expect(closed.request("POST", CHAT, b"{}", {"Origin": OURS, "Content-Type": "text/plain"})[0],
           415, "a form of another site")


def every_page_may_be_allowed():
    with Server("--no-access-log", "--allowed-origins", "*", "--allowed-methods", "POST",
                "--allowed-headers", "authorization") as s:
        for origin in (OURS, "null"):
            head = s.request("POST", CHAT, ASK, {"Origin": origin})[1]
            expect((head["access-control-allow-origin"],
                    "access-control-allow-credentials" in head), ("*", False), origin)
            head = s.request("OPTIONS", CHAT, None, WANTS | {"Origin": origin})[1]
            expect((head["access-control-allow-methods"], head["access-control-allow-headers"]),
                   ("POST", "authorization"), "lists")
        expect(_told(s.request("POST", CHAT, ASK)[1]), {}, "programs are told nothing")


def wrong_options_are_refused_at_start():
    for options, word in ((["--allowed-origins", "*", "--allow-credentials"],
                           "--allow-credentials"),
                          (["--allowed-origins", "https://a/"], "--allowed-origins"),
                          (["--allowed-methods", "GET"], "--allowed-origins"),
                          (["--allowed-origins", '["https://a"'], "--allowed-origins"),
                          (["--allowed-origins", "null"], "null")):
        expect_error(call("serve", "--port", 0, *options), 2, word)


if __name__ == "__main__":
    try:
        run_all(list(globals().items()))
    finally:
        server.end()
        closed.end()
        folder.cleanup()
