#!/usr/bin/env python3
"""serve_operations.py - what operators of a server rely on: its log, crash reports, systemd,
jumps of the clock. Standard library only."""
import concurrent.futures
import ctypes
import json
import mmap
import os
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

from _cli import DEMO, GALLOP, call, check, expect, expect_error, in_front, run_all
from _server import HELD, Server, passing, patient_model, read_all

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _said(s, word, n=1):
    """Returns the first N lines of the log that contain WORD. A thread reads the log."""
    end = time.monotonic() + 300
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
        expect(s.post(COMPLETIONS, head, prompt=PROMPT, max_tokens=3, min_tokens=3,
                      temperature=0)[0], 200, "status")
        line, = _said(s, "mine")
        check(re.fullmatch(
            TIME
            + r' gallop: 127\.0\.0\.1 "POST /v1/completions" 200 5\+3 tokens, 0 cached, [0-9.]+ s, first [0-9.]+ s, mine, '
            + TRACE, line), line)
        for wrong in (TRACE.upper(), TRACE[:-1], TRACE + "0", "01" + TRACE[2:], "x " + TRACE,
                      TRACE.replace("-", "_"), TRACE[:3] + "0" * 32 + TRACE[35:],
                      TRACE[:36] + "0" * 16 + TRACE[52:]):
            s.post(COMPLETIONS, {"X-Request-Id": "other", "traceparent": wrong}, prompt=PROMPT,
                   max_tokens=1)
        check(all(x.endswith(", other") for x in _said(s, "other", 8)),
              "what is no traceparent is not repeated")
        expect(s.request("GET", "/nowhere%1b[31m", headers=head)[0], 404, "status")
        check(_said(s, "nowhere")[0].endswith(
            f' "GET /nowhere%1b[31m" 404, mine, {TRACE}: there is nothing at this path'),
              f"{s.log[-1]}")
        check(not any(PROMPT in x for x in s.log), "no prompt is logged")
        check(all(re.match(TIME + " gallop: ", x) for x in s.log), f"each line has a time: {s.log}")
    r = call("serve", "-m", "/nonexistent", "--port", 0)
    check(re.match(TIME + " gallop: ", r.stderr.decode()),
          f"why it does not begin, too: {r.stderr}")


def _refused(s):
    """Refused requests: the status, a part of the reason, and the path."""
    chat = "/v1/chat/completions"
    message = [{"role": "user", "content": PROMPT}]
    for status, reason, path, body, headers in (
            (400, "temperature: found -1, expected", COMPLETIONS,
             {"prompt": PROMPT, "temperature": -1}, {}),
            (400, "max_tokens: found a string", chat, {"messages": message, "max_tokens": PROMPT},
             {}), (400, "the body is not JSON", COMPLETIONS, b'{"prompt": "Once upon', {}),
            (400, "messages[0].role: expected a string", chat,
             {"messages": [{"role": 1, "content": PROMPT}]}, {}),
            (404, "The model `x?[31m` does not exist", COMPLETIONS,
             {"prompt": PROMPT, "model": "x\x1b[31m"}, {}),
            (404, "The model `...` does not exist", COMPLETIONS, {"prompt": "x", "model": PROMPT},
             {}), (404, "no request of that id", "/v1/status/none", None, {}),
            (405, "this path does not take that method", "/metrics", {}, {}),
            (415, "Unsupported Media Type: Only 'application/json' is allowed", COMPLETIONS,
             b"prompt", {"Content-Type": "text/plain"}), (401, "a valid API key is needed", chat, {
                 "messages": message}, {"Authorization": "Bearer secret-of-mine"})):
        if "Authorization" not in headers:
            headers = {**headers, "Authorization": "Bearer own-key"}
        expect(s.request("GET" if body is None else "POST", path, body, headers)[0], status,
               f"status of {path} {body}")
        yield status, reason, path
    with s.socket() as c:
        c.sendall(b"GET / HTTP/1.1\r\nHost x\r\n\r\n")
        check(read_all(c).startswith(b"HTTP/1.1 400"), "no header")
    yield 400, "", None


def reasons_of_refusals_are_in_their_lines():
    with Server("--api-key", "own-key") as s:
        for status, reason, path in _refused(s):
            line = _said(s, f'{path}" {status}' if path else f"no request: {status}")[-1]
            check((f" {status}" in line and line.partition(f" {status}")[2].endswith(reason))
                  or f": {reason}" in line, f"{reason}: {line}")
            del s.log[:]
        check(not any(x in line for line in s.log
                      for x in (PROMPT, "secret-of-mine", "own-key", "\x1b")), f"{s.log}")
    with Server("--api-key", "own-key", "--log-format", "json") as s:
        for status, reason, path in _refused(s):
            line, = _said(s, f'"status":{status}')
            o = json.loads(line)
            check(reason in o["reason"] and o["reason"], f"{reason}: {line}")
            check(path is None or o["path"] == path, line)
            check(not any(x in line for x in (PROMPT, "secret-of-mine", "own-key")), line)
            del s.log[:]
    with Server("--max-num-seqs", 1, "--max-num-queued-reqs", 1, model=patient_model()) as s:
        held = [s.send(COMPLETIONS, **HELD) for _ in range(2)]
        check(s.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] == 2),
              "both places are taken")
        expect(s.post(COMPLETIONS, prompt=PROMPT)[0], 429, "a full queue")
        check(_said(s, '" 429')[0].endswith(": the queue is full; come back later"), f"{s.log}")
        for c in held:
            c.close()
        check(all(x.endswith(": the client closed the connection") for x in _said(s, " 499 ", 2)),
              f"{s.log}")


def what_a_template_repeats_of_a_prompt_is_not_logged():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "mine.jinja")
        with open(path, "w", encoding="utf-8") as f:
            f.write("{{ raise_exception('refused: ' ~ messages[0].content) }}")
        with Server("--chat-template", path) as s:
            status, got = s.post(CHAT, messages=[{"role": "user", "content": PROMPT}])
            check(status == 400 and f"refused: {PROMPT}" in str(got), f"the client: {got}")
            line, = _said(s, '" 400')
            check(line.endswith("mine.jinja line 1: ..."), line)
            check(not any(PROMPT in x for x in s.log), f"{s.log}")


def lines_of_requests_as_json():
    with Server("--log-format", "json") as s:
        head = {"X-Request-Id": "mine", "traceparent": TRACE}
        expect(s.post(COMPLETIONS, head, prompt=PROMPT, max_tokens=3, min_tokens=3,
                      temperature=0)[0], 200, "status")
        s.events(COMPLETIONS, prompt=PROMPT, max_tokens=2, min_tokens=2, n=2, request_id="stream")
        s.post(COMPLETIONS, prompt=PROMPT, no_such_field='"\n\\')
        expect(s.request("GET", '/now"here\\', headers=head)[0], 404, "status")
        own, stream, _ = (json.loads(_said(s, x)[0]) for x in ("mine", '"stream"', "no_such_field"))
        refused = json.loads(_said(s, "here")[0])
        for x in list(s.log):
            check({"time", "level", "message"} <= json.loads(x).keys(), x)
            check(re.fullmatch(TIME, json.loads(x)["time"]), "a time of RFC 3339")
        times = [own.pop(k) for k in ("seconds", "first_token_seconds")]
        check(0 < times[1] <= times[0], f"{times}")
        own.pop("time"), own.pop("message")
        expect(own, {"level": "info", "client": "127.0.0.1", "method": "POST", "path": COMPLETIONS,
                     "status": 200, "prompt_tokens": 5, "cached_tokens": 0, "output_tokens": 3,
                     "request_id": "mine", "traceparent": TRACE}, "a request")
        expect([stream[k] for k in ("status", "prompt_tokens", "output_tokens", "traceparent")],
               [200, 5, 4, ""], "a stream")
        expect([refused[k]
                for k in ("method", "path", "status", "request_id", "traceparent", "reason")],
               ["GET", '/now"here\\', 404, "mine", TRACE, "there is nothing at this path"],
               "one that is refused")
        check(not any(PROMPT in x for x in s.log), "no prompt is logged")
        used = s.post(COMPLETIONS, {"X-Request-Id": "many"}, prompt=["A cat", "The dog"], n=3,
                      max_tokens=2, min_tokens=2)[1]["usage"]
        many = json.loads(_said(s, "many")[0])
        expect([many[k] for k in ("prompt_tokens", "output_tokens")], [used["prompt_tokens"], 12],
               "all prompts once, and all answers to them")
        cached = used["prompt_tokens_details"]["cached_tokens"]
        check(many["cached_tokens"] == cached
              and f" {used['prompt_tokens']}+12 tokens, {cached} cached, " in many["message"],
              f"as text: {many['message']}")
    expect_error(call("serve", "--log-format", "xml"), 2, "--log-format", "text|json")
    r = call("serve", "--log-format", "json", "-m", "/nonexistent", "--port", 0)
    expect((r.returncode, json.loads(r.stderr)["level"]), (1, "error"),
           "why it does not begin is a line like others")


def a_seed_that_the_server_chose_is_in_the_log_and_gives_the_answer_again():
    drawn = {"prompt": PROMPT, "max_tokens": 12, "temperature": 1.5, "n": 2}
    texts = lambda s, **fields: [x["text"]
                                 for x in s.post(COMPLETIONS, **drawn, **fields)[1]["choices"]]
    with Server() as s:
        wanted = texts(s, request_id="text")
        line, = _said(s, ", text")
        found = re.search(r" s, first [0-9.]+ s, seed (\d+), text$", line)
        check(found, f"a line with a seed: {line}")
        expect(texts(s, seed=int(found[1])), wanted, "answers with that seed")
        s.post(CHAT, messages=[{"role": "user", "content": PROMPT}], max_tokens=1,
               request_id="chat")
        check(", seed " in _said(s, ", chat")[0], f"a chat draws, too: {s.log[-1]}")
        for name, fields in (("own", {"seed": 5}), ("greedy", {"temperature": 0}),
                             ("refused", {"temperature": -1})):
            s.post(COMPLETIONS, **{**drawn, **fields}, headers={"X-Request-Id": name})
            check("seed" not in _said(s, f", {name}")[0],
                  f"a request that has no seed of the server's: {s.log[-1]}")
    with Server("--log-format", "json") as s:
        wanted = texts(s, request_id="json")
        seed = json.loads(_said(s, '"json"')[0])["seed"]
        expect(texts(s, seed=seed), wanted, "answers with the seed of a line of JSON")
        expect(json.loads(json.dumps(float(seed))), seed, "a seed that a double holds")
        texts(s, request_id="own", seed=5)
        check("seed" not in json.loads(_said(s, '"own"')[0]), f"a request with a seed: {s.log[-1]}")
    with Server("--seed", 7) as s:
        texts(s, request_id="given")
        check("seed" not in _said(s, ", given")[0], f"the seed of --seed: {s.log[-1]}")


def _listens(process):
    """Returns the port of 127.0.0.1 at which the process listens, from the kernel; 0: none."""
    sockets = {os.readlink(f"/proc/{process.pid}/fd/{x}")
               for x in os.listdir(f"/proc/{process.pid}/fd")}
    with open(f"/proc/{process.pid}/net/tcp") as f:
        rows = [x.split() for x in f.read().splitlines()[1:]]
    return next((int(x[1].split(":")[1], 16) for x in rows
                 if x[3] == "0A" and f"socket:[{x[9]}]" in sockets), 0)


def clients_that_connect_while_the_model_is_loaded_are_answered():
    """The chat template is a pipe. As long as nothing is written to it, the program is loading."""
    with tempfile.TemporaryDirectory() as d:
        for uds in (False, True):
            pipe = f"{d}/template{uds}"
            os.mkfifo(pipe)
            with open(f"{d}/again", "w") as f:
                f.write("{{ messages }}")
            p = subprocess.Popen([GALLOP, "serve", "-m", DEMO, "--chat-template", pipe, *(
                ["--uds", f"{d}/s"] if uds else ["--port", "0"])], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            template = None
            while template is None and p.poll() is None:
                try:
                    template = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                except OSError:  # The program has not opened it yet.
                    time.sleep(.01)
            with socket.socket(socket.AF_UNIX if uds else socket.AF_INET) as c:
                c.connect(f"{d}/s" if uds else ("127.0.0.1", _listens(p)))
                c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                expect(select.select([c], [], [], .1)[0], [],
                       "what comes while the model is loaded")
                if uds:
                    expect_error(call("serve", "-m", DEMO, "--uds", f"{d}/s", "--no-access-log"), 1,
                                 f"{d}/s", "another server")
                os.rename(f"{d}/again", pipe)  # It is read twice.
                os.write(template, b"{{ messages }}")
                os.close(template)
                expect(read_all(c)[:12], b"HTTP/1.1 200",
                       f"who came before the model was loaded is answered, --uds {uds}")
            p.terminate()
            p.communicate()
            expect(p.returncode, 0, "status")
    with tempfile.TemporaryDirectory() as d:
        expect_error(call("serve", "-m", f"{d}/none.gguf", "--uds", f"{d}/s"), 1, "none.gguf")
        expect(os.listdir(d), [], "a socket is removed when the model cannot be loaded")


def a_signal_while_the_model_is_loaded_leaves_no_socket():
    for number in (signal.SIGINT, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as d:
            os.mkfifo(f"{d}/template")
            p = subprocess.Popen([GALLOP, "serve", "-m", DEMO, "--chat-template", f"{d}/template",
                                  "--uds", f"{d}/s"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(f"{d}/template", "w"):  # Returns when the program is loading.
                p.send_signal(number)
                expect(p.wait(), -number, "status")
            expect(os.listdir(d), ["template"], "what is left")


def an_address_that_is_none_is_named_before_keys_are_missed():
    r = call("serve", "-m", DEMO, "--host", "x y")
    expect_error(r, 1, "--host x y: ")
    check(b"api-key" not in r.stderr, f"keys are not what is wrong: {r.stderr}")


def a_full_disk_for_the_log_stops_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener, open("/dev/full", "w") as full:
        command, more = passing([listener], [GALLOP, "serve", "-m", DEMO, "--log-format", "json"])
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=full, **more)
        with socket.create_connection(listener.getsockname(), timeout=600) as s:
            body = json.dumps({"prompt": PROMPT, "max_tokens": 4}).encode()
            s.sendall(
                b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                % (COMPLETIONS.encode(), len(body)) + body)
            check(read_all(s).startswith(b"HTTP/1.1 200"), "it is answered")
    p.terminate()
    expect(p.wait(600), 0, "status")


def a_crash_is_reported():
    for sig in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL):
        s = Server(model=patient_model())
        asked = [s.send(COMPLETIONS, **HELD, n=16, request_id=f"long-{i}") for i in range(2)]
        made = lambda i: json.loads(s.request("GET", f"/v1/status/long-{i}")[2]).get(
            "generated_tokens", 0)
        check(s.wait(lambda g: made(0) > 0 and made(1) > 0), "they are computed")
        least = s.gauges()["generation_tokens_total"]
        threads = sorted(map(int, os.listdir(f"/proc/{s.process.pid}/task")))
        # the main thread, and one that computes or prepares
        thread = threads[0 if sig == signal.SIGSEGV else -1]
        ctypes.CDLL(None).tgkill(s.process.pid, thread, sig)
        status = s.end(signal.SIGCONT)
        for a in asked:
            a.close()
        said = "\n".join(s.log)
        if "Sanitizer" in said:  # The program has its own handlers.
            continue
        expect(status, -sig, "the status is that of the signal")
        check(re.search(
            rf"^gallop: crash: {sig.name} sent by process {os.getpid()}, thread {thread} of process {s.process.pid}, gallop \d",
            said, re.M), f"what, who, where: {said}")
        found = [
            re.search(rf"^gallop: crash: request long-{i}: 5 tokens of prompt, (\d+) of answers$",
                      said, re.M) for i in range(2)]
        check(all(found) and all(int(x[1]) > 0 for x in found), f"the requests: {said}")
        check(all(found) and sum(int(x[1]) for x in found) >= least,
              f"the tokens of all their answers, at least {least}: {said}")
        check("calls, the last first" in said and re.search(r"\[0x[0-9a-f]+\]", said), "the calls")
        check(PROMPT not in said, "no prompt")


def _ask(family, address):
    with socket.socket(family) as c:
        c.connect(address)
        c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return read_all(c)[:12]


def a_service_manager_is_told():
    with tempfile.TemporaryDirectory() as d:
        for name in (f"{d}/notify", f"@gallop-test-{os.getpid()}"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(name.replace("@", "\0"))
                manager.settimeout(100)
                s = Server(env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "400000"})
                expect(manager.recv(1000).split(b"\n")[0], b"READY=1", "when requests are taken")
                for _ in range(3):
                    expect(manager.recv(1000), b"WATCHDOG=1", "while all is well")
                s.process.terminate()
                told = [manager.recv(1000)]
                while told[-1] == b"WATCHDOG=1":
                    told.append(manager.recv(1000))
                expect(told[-1], b"STOPPING=1", "when it is to end")
                expect(s.end(), 0, "status")
    with tempfile.TemporaryDirectory() as d, socket.socket(socket.AF_UNIX,
                                                           socket.SOCK_DGRAM) as manager:
        with open(f"{d}/keys", "w") as f:
            f.write("one")
        manager.bind(f"{d}/notify")
        manager.settimeout(100)
        with Server("--api-key-file", f"{d}/keys", env={"NOTIFY_SOCKET": f"{d}/notify"}) as s:
            manager.recv(1000)
            s.process.send_signal(signal.SIGHUP)
            check(re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", manager.recv(1000)),
                  "when keys are read again")
            expect(manager.recv(1000), b"READY=1", "and when they are")
        with Server(env={"NOTIFY_SOCKET": f"{d}/notify"}) as s:
            while not manager.recv(1000).startswith(b"READY=1"):
                pass
            s.process.send_signal(signal.SIGHUP)
            check(manager.recv(1000).startswith(b"RELOADING=1"), "a reload")
            expect(manager.recv(1000), b"READY=1", "of nothing changes nothing")
            expect(s.request("GET", "/health")[0], 200, "it goes on")
    s = Server()
    expect(s.end(signal.SIGHUP), -signal.SIGHUP, "without a manager it is the end of a terminal")
    for env in ({"NOTIFY_SOCKET": "/nonexistent/socket"}, {"NOTIFY_SOCKET": "x" * 200},
                {"NOTIFY_SOCKET": ""}, {"WATCHDOG_USEC": "-1", "WATCHDOG_PID": "1"}):
        expect(Server(env=env).end(), 0, f"nobody there: {env}")


def keys_are_read_again_by_a_signal():
    with tempfile.TemporaryDirectory() as d:
        def write(text):
            with open(f"{d}/keys", "w") as f:
                f.write(text)

        def reload(word):
            del s.log[:]
            s.process.send_signal(signal.SIGHUP)
            _said(s, word)

        def ask(key):
            status, head, _ = s.request("POST", "/tokenize", {"prompt": "x"}, {"X-Api-Key": key})
            return status, head.get("x-ratelimit-limit-requests"), head.get(
                "x-ratelimit-limit-tokens")

        write("used requests_per_minute=1\nfree\nold\n")
        with Server("--api-key-file", f"{d}/keys", "--no-access-log") as s:
            expect([ask("used"), ask("used"), ask("free"), ask("old")], [
                (200, "1", None), (429, "1", None), (200, None, None), (200, None, None)], "before")
            write(
                "used requests_per_minute=1 tokens_per_minute=500\nfree requests_per_minute=7\nnew\n")
            reload("3 keys in all")
            expect([ask("used"), ask("free"), ask("old"), ask("new")],
                   [(429, "1", "500"), (200, "7", None), (401, None, None), (200, None, None)],
                   "limits are the new ones, and what was used up is not given again")
            for _ in range(5):
                reload("3 keys in all")
            expect(ask("used")[0], 429, "however often")
            for empty in ("", "# nobody\n"):
                write(empty)
                reload("all requests are refused")
                expect([ask("used")[0], ask("free")[0], ask("new")[0], ask("")[0],
                        s.request("GET", "/metrics")[0], s.request("GET", "/health")[0]],
                       [401] * 5 + [200], "a file without keys takes all of them back")
            write("used requests_per_minute=1\nfree\nnew\n")
            reload("3 keys in all")
            expect([ask("free")[0], ask("new")[0], s.request("GET", "/metrics")[0]],
                   [200, 200, 401], "and they may be given again")
            ask("used")
            os.remove(f"{d}/keys")
            os.mkfifo(f"{d}/keys")  # Reading it would wait for a writer.
            reload("the old keys stay in use")
            expect([ask("used")[0], ask("free")[0], ask("new")[0]], [429, 200, 200],
                   "a pipe is not read")
        os.remove(f"{d}/keys")
        write("other\n")
        with Server("--api-key", "own", "--api-key-file", f"{d}/keys", "--no-access-log") as s:
            write("")
            reload("only the 1 of --api-key are left")
            expect([ask("own")[0], ask("other")[0]], [200, 401], "a key of the command line stays")
        expect_error(call("serve", "-m", DEMO, "--api-key-file", f"{d}/keys"), 1, "holds no key")


def the_admin_key_is_read_again_by_a_signal():
    with tempfile.TemporaryDirectory() as d:
        def write(text):
            with open(f"{d}/admin", "w") as f:
                f.write(text)

        def ask(key):
            return s.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})[0]

        def reload(condition):
            s.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 300
            while not condition() and time.monotonic() < end:
                time.sleep(.02)

        write("first\n")
        with Server("--api-key", "client", "--admin-api-key-file", f"{d}/admin",
                    "--no-access-log") as s:
            expect([ask("first"), ask("second"), ask("client")], [200, 401, 401], "before")
            write("second\n")
            reload(lambda: ask("second") == 200)
            expect([ask("first"), ask("second"), ask("client")], [401, 200, 401],
                   "the new key alone")
            write("client\n")
            reload(lambda: any("is also an admin key" in x for x in list(s.log)))
            expect([ask("client"), s.post("/tokenize", {"X-Api-Key": "client"}, prompt="x")[0]],
                   [401, 200], "a client's key does not become it")
            expect(ask("second"), 200, "and the old one stays")
            write("")
            reload(lambda: ask("second") == 401)
            expect([ask("second"), ask("client"), ask("")], [401] * 3,
                   "a file without a key lets nobody in")
            write("third\n")
            reload(lambda: ask("third") == 200)
            expect(ask("third"), 200, "and there may be one again")


def sockets_of_a_service_manager_are_served():
    with tempfile.TemporaryDirectory() as d, socket.create_server(
            ("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as path:
        path.bind(f"{d}/s")
        path.listen()
        port = tcp.getsockname()[1]
        early = socket.create_connection(("127.0.0.1", port))
        early.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        with Server(sockets=[tcp, path], env={"LISTEN_FDNAMES": "http:local"}) as s:
            expect(s.port, port, "the port that was passed, not --port")
            check(f"http://127.0.0.1:{port}, unix:{d}/s" in s.log[0], f"both are said: {s.log[0]}")
            expect(read_all(early)[:12], b"HTTP/1.1 200",
                   "who came before the program has waited for it")
            expect(_ask(socket.AF_UNIX, f"{d}/s"), b"HTTP/1.1 200", "the other one")
            expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1)[0], 200, "answers")
        early.close()
        check(os.path.exists(f"{d}/s"), "the manager's socket stays")
        with Server(sockets=[tcp]) as s:
            expect(_ask(socket.AF_INET, ("127.0.0.1", port)), b"HTTP/1.1 200",
                   "the next start has it again")
        with Server(env={"LISTEN_FDS": "1", "LISTEN_PID": "1"}) as s:
            check(s.port != port, "what is for another process is let be")


def sockets_of_a_service_manager_that_cannot_be_served():
    def fails(s, status, *words, options=(), **env):
        command, more = passing(s, [GALLOP, "serve", "-m", DEMO, "--port", "0", *options], env)
        r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=600,
                           **more)
        expect_error(r, status, *words)

    with socket.create_server(("0.0.0.0", 0)) as wide, socket.create_server(
            ("127.0.0.1", 0)) as tcp, socket.socket() as plain, socket.socket(
                socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socketpair()[0] as pair:
        fails([tcp, wide], 2, "LISTEN_FDS", "socket 4", "--api-key", "--allow-no-keys")
        with Server("--api-key", "k", sockets=[tcp, wide]) as s:
            expect(s.request("GET", "/metrics")[0], 401, "with keys other machines are served")
        expect(Server("--allow-no-keys", sockets=[wide]).end(), 0, "or if it is said so")
        for wrong in (plain, udp, pair):
            fails([tcp, wrong], 1, "descriptor 4", "(two)", "is not a listening stream socket",
                  LISTEN_FDNAMES="one:two:three")
        fails([tcp] * 17, 1, "17", "16")
        fails([tcp], 1, "descriptor 4", "listening", LISTEN_FDS="2")
    with Server(env={"LISTEN_FDS": "x", "LISTEN_PID": "1"}):
        pass


JUMP = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long *jump;
int clock_gettime(clockid_t c, struct timespec *t)
{
    long rc = syscall(SYS_clock_gettime, c, t);
    if (rc == 0 && jump && (c == CLOCK_REALTIME || c == CLOCK_REALTIME_COARSE))
        t->tv_sec += *jump;
    return (int)rc;
}
time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return out ? *out = t.tv_sec : t.tv_sec;
}
__attribute__((constructor)) static void begin(void)
{
    int fd = open(getenv("GALLOP_TEST_JUMP"), O_RDONLY);
    jump = mmap(NULL, sizeof(*jump), PROT_READ, MAP_SHARED, fd, 0);
}
"""


def the_clock_of_the_wall_may_jump():
    """A library that replaces a function of the C library moves the clock by years during a
    stream."""
    with tempfile.TemporaryDirectory() as d:
        if not (front := in_front(d, JUMP)):
            return
        with open(f"{d}/by", "w+b") as f:
            f.write(bytes(8))
            f.flush()
            by = mmap.mmap(f.fileno(), 8)
            with Server("--request-timeout", 1000, "--log-format", "json",
                        env={**front, "GALLOP_TEST_JUMP": f"{d}/by"}) as s:
                fields = {"prompt": PROMPT, "max_tokens": 200, "min_tokens": 200, "temperature": 0,
                          "n": 4}
                wanted = [c["text"] for c in s.post(COMPLETIONS, **fields)[1]["choices"]]
                idle, moved = s.socket(), False
                for years in (10, -10, 0):
                    by[:] = struct.pack("l", years * 31556952)
                    parts = [json.loads(x)["choices"][0]
                             for x in s.events(COMPLETIONS, **fields)[:-1]]
                    expect(["".join(p["text"] for p in parts if p["index"] == i) for i in range(4)],
                           wanted, f"a stream, {years} years away")
                    moved |= abs(s.post(COMPLETIONS, prompt="x", max_tokens=1)[1]["created"]
                                 - time.time()) > 1e8
                check(moved, "the clock did jump")
                idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                expect(read_all(idle)[:12], b"HTTP/1.1 200", "who was connected still is")
                idle.close()
                check(all(0 <= json.loads(x).get("seconds", 0) < 1000 for x in list(s.log)),
                      "durations are durations")
            by.close()


STUCK = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile char *name;
int clock_gettime(clockid_t c, struct timespec *t)
{
    char own[17] = "";
    prctl(PR_GET_NAME, own);
    while (name && *name && strcmp(own, (const char *)name) == 0)
        name[15] = 1, usleep(10000);
    return (int)syscall(SYS_clock_gettime, c, t);
}
__attribute__((constructor)) static void begin(void)
{
    int fd = open(getenv("GALLOP_TEST_STUCK"), O_RDWR);
    name = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}
"""


def _the_end_is_bounded(front, folder, thread, signals, timeout_s):
    """Sends SIGNALS to a server whose thread of this name is stuck."""
    path = f"{folder}/{thread}{signals}"
    with open(path, "w+b") as f:
        f.write(bytes(16))
        f.flush()
        name = mmap.mmap(f.fileno(), 16)
    s = Server("--request-timeout", 1000, "--shutdown-timeout", timeout_s, model=patient_model(),
               env={**front, "GALLOP_TEST_STUCK": path})
    expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1)[0], 200, "before")
    name[:len(thread)] = thread.encode()
    slow = s.send(COMPLETIONS, **HELD)
    check(s.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] > 0),
          "it is there")
    end = time.monotonic() + 300
    while not name[15] and time.monotonic() < end:
        time.sleep(.01)
    check(name[15], f"the thread {thread} is stuck")
    for i in range(signals):
        s.process.send_signal(signal.SIGTERM)
        if i == 0:
            _said(s, "shutting down")
    expect(s.process.wait(600), 1, f"{signals} signals end a server whose thread {thread} is stuck")
    s.reader.join(600)
    check("a thread is stuck" in s.log[-1], f"and say so: {s.log[-1]}")
    slow.close()
    name.close()


def the_end_is_bounded_whatever_a_thread_does():
    """A library that replaces functions of the C library holds a thread that prepares requests,
    or the engine's thread within a step, forever. The servers wait for it at the same time."""
    with tempfile.TemporaryDirectory() as d, concurrent.futures.ThreadPoolExecutor(4) as threads:
        if front := in_front(d, STUCK):
            ends = [threads.submit(_the_end_is_bounded, front, d, thread, *how)
                    for thread in ("api", "engine") for how in ((1, .2), (2, 1000))]
            for x in ends:
                x.result()


def a_step_that_takes_too_long_makes_health_fail():
    """Each read of the clock, of which a step has several, takes the engine's thread 0.6 s while
    the file exists."""
    with tempfile.TemporaryDirectory() as d:
        if not (front := in_front(
                d, STUCK.replace("while (name", "for (int i = 0; i < 60 && name").replace(
                    "(const char *)name) == 0)", "(const char *)name) == 0; i++)"))):
            return
        with open(f"{d}/name", "w+b") as f:
            f.write(bytes(16))
            f.flush()
            name = mmap.mmap(f.fileno(), 16)
            with Server("--step-timeout", 0.5,
                        env={**front, "GALLOP_TEST_STUCK": f"{d}/name"}) as s:
                def healthy(want):
                    end = time.monotonic() + 300
                    while (s.request("GET", "/health")[0] == 200) != want:
                        if time.monotonic() > end:
                            return False
                        time.sleep(.05)
                    return True

                name[:6] = b"engine"
                # These would take minutes.
                asked = s.send(COMPLETIONS, prompt=PROMPT, max_tokens=400, min_tokens=400)
                check(healthy(False), "/health of a step that takes too long")
                name[:6] = bytes(6)
                expect(asked.recv(12), b"HTTP/1.1 200", "the request is answered then")
                check(healthy(True), "/health afterwards")
                check(s.gauges()["step_timeouts_total"] >= 1, "such steps are counted")
                asked.close()
            name.close()


def the_log_is_as_long_as_asked_for():
    with tempfile.TemporaryDirectory() as d:
        for more, requests, whole in (([], True, True), (["--no-access-log"], False, True),
                                      (["--quiet"], False, False)):
            p = subprocess.Popen([GALLOP, "serve", "-m", DEMO, "--uds", f"{d}/s", *more],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            while p.poll() is None and not os.path.exists(f"{d}/s"):
                time.sleep(.01)
            with socket.socket(socket.AF_UNIX) as c:
                while c.connect_ex(f"{d}/s") != 0 and p.poll() is None:
                    time.sleep(.01)
                body = json.dumps({"prompt": PROMPT, "max_tokens": 1})
                c.sendall(
                    f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                expect(read_all(c)[:12], b"HTTP/1.1 200", f"it is served with {more}")
            p.terminate()
            said = p.communicate()[1].decode()
            expect(("POST" in said, "is served at" in said, "shutting down" in said),
                   (requests, whole, whole),
                   f"requests, beginning and end in the log with {more}: {said}")


def a_log_that_nobody_reads_blocks_nobody():
    """Standard error is a full pipe: requests are answered, and missing lines of the log are
    counted when there is room."""
    p = subprocess.Popen([GALLOP, "serve", "-m", DEMO, "--port", "0", "--threads", "1"],
                         stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    port = None
    while not port:
        found = re.search(rb"127\.0\.0\.1:(\d+)", p.stderr.readline())
        port = found and int(found[1])
    s = Server.__new__(Server)
    s.context, s.port = None, port
    for i in range(200):
        expect(s.request("GET", "/" + "x" * 900)[0], 404, f"request {i}")
    expect(s.request("GET", "/health")[0], 200, "/health")
    os.set_blocking(p.stderr.fileno(), False)
    while p.stderr.read(1 << 20):
        pass
    expect(s.request("GET", "/again")[0], 404, "another")
    os.set_blocking(p.stderr.fileno(), True)
    check(re.search(rb"\d+ log lines are missing", p.stderr.readline()),
          "what is missing is said")
    check(b"/again" in p.stderr.readline(), "and the log goes on")
    p.terminate()
    expect(p.wait(100), 0, "status")
    p.stderr.close()


def nothing_is_left_of_a_server_that_was_ended():
    s = Server("--no-access-log", "--shutdown-timeout", 0.1, model=patient_model())
    slow = s.send(COMPLETIONS, **HELD, n=16)
    check(s.wait(lambda g: g["num_requests_running"] > 0), "it is computed")
    children = "".join(open(f"/proc/{s.process.pid}/task/{t}/children").read()
                       for t in os.listdir(f"/proc/{s.process.pid}/task"))
    expect(children, "", "it is one process")
    expect(s.end(), 0, "SIGTERM ends it")
    slow.close()


def a_stop_string_stops_the_computing():
    with Server("--no-access-log") as s:
        whole = s.post(COMPLETIONS, prompt=PROMPT, max_tokens=60, min_tokens=60, temperature=0)[1]
        stop = whole["choices"][0]["text"][20:26]
        cut = s.post(COMPLETIONS, prompt=PROMPT, max_tokens=60, temperature=0, stop=stop)[1]
        expect(cut["choices"][0]["text"], whole["choices"][0]["text"].split(stop)[0],
               "the text in front of it")
        check(cut["usage"]["completion_tokens"] < whole["usage"]["completion_tokens"],
              f"tokens behind it: {cut['usage']}")
        expect(s.gauges()["generation_tokens_total"], 60 + cut["usage"]["completion_tokens"],
               "what was computed is what is billed")


run_all(list(globals().items()))
