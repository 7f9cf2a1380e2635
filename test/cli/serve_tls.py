#!/usr/bin/env python3
"""serve_tls.py - the server with TLS: versions, certificates of both sides, handshakes that
fail, SIGHUP, and answers that are equal to those without TLS. Standard library only; the openssl
program makes the certificates."""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings

from _cli import DEMO, ROOT, call, check, expect, expect_error, run_all
from _server import HELD, Server, patient_model, read_all

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time"
GET = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# Old versions are tried on purpose.
warnings.filterwarnings("ignore", category=DeprecationWarning)

# ---- certificates ----


def _openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def _certificate(name, authority=None, days=2):
    """Makes NAME.pem and NAME.key, signed by itself or by AUTHORITY."""
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
           f"{name}.key", "-subj", f"/CN={name}"]
    if not authority:
        _openssl(*new, "-x509", "-days", days, "-out", f"{name}.pem", "-addext",
                 "subjectAltName=DNS:localhost,IP:127.0.0.1")
        return
    _openssl(*new, "-out", f"{name}.csr")
    _openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey",
             f"{authority}.key", "-days", days, "-out", f"{name}.pem")


def _context(authority="one", own=None, **fields):
    c = ssl.create_default_context(cafile=f"{authority}.pem")
    c.minimum_version = ssl.TLSVersion.TLSv1_2
    if own:
        c.load_cert_chain(f"{own}.pem", f"{own}.key")
    for name, value in fields.items():
        setattr(c, name, value)
    return c


def _copy(source, target):
    """Copies in one step, as tools that renew certificates do."""
    for kind in ("pem", "key"):
        shutil.copy(f"{source}.{kind}", f"{target}.new")
        os.replace(f"{target}.new", f"{target}.{kind}")


def _tls_server(*options, name="one", context=None, **more):
    return Server("--ssl-certfile", f"{name}.pem", "--ssl-keyfile", f"{name}.key",
                  "--no-access-log", *options, context=context or _context(), **more)


def _strict(what, context=None):
    """Returns a client for which an end without close_notify is an error."""
    s = socket.create_connection(("127.0.0.1", what.port), timeout=600)
    return (context or what.context).wrap_socket(s, server_hostname="localhost",
                                                 suppress_ragged_eofs=False)


def _all_of(s):
    """Returns what arrives until the other side ends the connection. Raises if it is truncated."""
    out = b""
    while piece := s.recv(65536):
        out += piece
    return out


def _plain(what):
    return socket.create_connection(("127.0.0.1", what.port), timeout=600)


def _says(what, *words):
    """Returns True when a line of the log has all WORDS."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if any(all(w in line for w in words) for line in what.log):
            return True
        time.sleep(.02)
    return False


def _failed(what):
    return what.gauges()["tls_handshakes_failed_total"]


def _reload(what, *words):
    del what.log[:]
    what.process.send_signal(signal.SIGHUP)
    check(_says(what, *words), f"SIGHUP is answered with {words}: {what.log}")


# ---- versions and answers ----


def answers_are_those_without_tls():
    def normal(b):
        return re.sub(rb'("id":"|"created":|x-request-id: )[^",\r]*', rb"\1", b, flags=re.I)

    message = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 40,
               "temperature": 0, "seed": 3}
    with Server("--no-access-log") as plain:
        check("http://" in plain.log[0], f"{plain.log[0]}")
        for path, fields in ((CHAT, message), (CHAT, {**message, "stream": True, "stream_options": {
                "include_usage": True}}), (COMPLETIONS, {"prompt": PROMPT, "max_tokens": 40,
                                                         "temperature": 0, "logprobs": 3}),
                             (COMPLETIONS, {"prompt": "x", "max_tokens": -1}),
                             ("/tokenize", {"prompt": PROMPT}), ("/nowhere", {})):
            got = []
            for s in (plain, server):
                status, head, body = s.request("POST", path, fields)
                if fields.get("stream"):  # The number of tokens of an event depends on time.
                    body = b"".join(re.findall(rb'"content":"((?:[^"\\]|\\.)*)"', body))
                got.append((status, sorted(head), normal(body)))
            expect(got[1], got[0], f"{path} {fields}")
    check("https://" in server.log[0], f"{server.log[0]}")


def connections_are_kept_and_end_properly():
    with _strict(server) as s:
        for _ in range(3):
            s.sendall(GET)
            check(s.recv(10000).startswith(b"HTTP/1.1 200"), "one after another")
        s.sendall(GET * 5 + LAST)
        expect(_all_of(s).count(b"HTTP/1.1 200"), 6, "six at once")
    # Without a length or chunks the end of the connection is the end of the answer.
    with _strict(server) as s:
        body = json.dumps({"prompt": PROMPT, "max_tokens": 20, "stream": True}).encode()
        s.sendall(
            b"POST %s HTTP/1.0\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n"
            % (COMPLETIONS.encode(), len(body)) + body)
        check(_all_of(s).endswith(b"data: [DONE]\n\n"), "a stream")
    with _strict(server) as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
                  + b"x" * 20000)
        check(_all_of(s).startswith(b"HTTP/1.1 413"), "a refusal")
    with _strict(server) as s:
        s.sendall(LAST)
        _all_of(s)
        s.unwrap().close()


def versions_ciphers_and_protocols_are_chosen():
    for context, version, cipher in ((_context(maximum_version=ssl.TLSVersion.TLSv1_2), "TLSv1.2",
                                      "ECDHE-"), (_context(), "TLSv1.3", "TLS_")):
        with _strict(server, context) as s:
            expect(s.version(), version, "version")
            check(s.cipher()[0].startswith(cipher), f"cipher {s.cipher()}")
    old = _context(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("ALL:@SECLEVEL=0")
    weak = _context(maximum_version=ssl.TLSVersion.TLSv1_2)
    weak.set_ciphers(
        "AES128-SHA:AES128-GCM-SHA256:ECDHE-ECDSA-AES128-SHA:DHE-RSA-AES128-GCM-SHA256")
    h2 = _context()
    h2.set_alpn_protocols(["h2"])
    for context, why in ((old, "TLS 1.1"), (weak, "weak ciphers"), (h2, "HTTP/2 alone")):
        before = _failed(server)
        try:
            _strict(server, context)
            check(False, f"{why} is taken")
        except ssl.SSLError:
            check(True, why)
        expect(_failed(server), before + 1, f"{why}: failed handshakes")
    both = _context()
    both.set_alpn_protocols(["h2", "http/1.1"])
    expect(_strict(server, both).selected_alpn_protocol(), "http/1.1", "protocol")


def sessions_are_resumed():
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context, session = _context(maximum_version=version), None
        for again in (False, True):
            s = context.wrap_socket(_plain(server), server_hostname="localhost", session=session)
            s.sendall(LAST)
            check(_all_of(s).startswith(b"HTTP/1.1 200"), "it serves")
            expect(s.session_reused, again, f"{version}: resumed")
            session = s.session
            s.close()


def nothing_is_negotiated_again():
    p = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2",
                          "-CAfile", "one.pem"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    p.stdin.write(b"R\n")
    p.stdin.flush()
    said = p.communicate(timeout=600)[0]
    check(b"no renegotiation" in said and b"RENEGOTIATING" in said, f"{said[-300:]}")
    expect(server.request("GET", "/health")[0], 200, "others are served")


# ---- handshakes that fail ----


def _hello():
    """Returns the first bytes of a client."""
    out = ssl.MemoryBIO()
    tls = _context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def _leave(s, how):
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half":
        s.shutdown(socket.SHUT_WR)
    else:
        s.close()


def clients_that_vanish_in_the_handshake_harm_nobody():
    hello, before, left = _hello(), _failed(server), []
    for i, how in enumerate(("close", "reset", "half") * 3):
        left.append(_plain(server))
        left[-1].sendall(hello[:(1, len(hello) // 2, len(hello))[i // 3]])
        if i % 2:
            time.sleep(.02)
        _leave(left[-1], how)
    _plain(server).close()  # A port scan is not a failure.
    check(server.wait(lambda g: g["tls_handshakes_failed_total"] == before + 9),
          f"{_failed(server) - before} failures")
    check(server.wait(lambda g: g["http_connections"] <= 1), "connections are gone")
    check(_says(server, "127.0.0.1: TLS failed: "), "it is said")
    for s in left:
        s.close()


def what_is_not_tls_is_cut():
    before = _failed(server)
    for request in (GET, b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 6000\r\n\r\n"
                    + b"x" * 6000, b"CONNECT x:1 HTTP/1.1\r\n\r\n"):
        with _plain(server) as s:
            s.sendall(request)
            head, _, body = read_all(s).partition(b"\r\n\r\n")
            check(head.startswith(b"HTTP/1.1 400"), f"{request[:20]}: {head}")
            expect(json.loads(body)["error"]["message"], "this port speaks HTTPS", "the sentence")
    for junk in (b"\0" * 3000, b"SSH-2.0-x\r\n", bytes(range(256)) * 100,
                 b"\x16\x03\x01\xff\xff" + b"a" * 100, b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff"):
        with _plain(server) as s:
            s.sendall(junk)
            s.settimeout(60)
            if junk[0] == 0x16:  # an incomplete record, unless its beginning was enough
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_WR)
            check(b"HTTP" not in read_all(s), f"{junk[:20]}")
    check(server.wait(lambda g: g["tls_handshakes_failed_total"] == before + 8),
          f"{_failed(server) - before} failures")
    check(_says(server, "TLS failed: HTTP without TLS"), "it is said")
    expect(server.request("GET", "/health")[0], 200, "others are served")


def handshakes_may_come_byte_by_byte():
    come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
    with _plain(server) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = server.context.wrap_bio(come, go, server_hostname="localhost")

        def step(what, *args):
            while True:
                try:
                    return what(*args)
                except ssl.SSLWantReadError:
                    for b in go.read():
                        s.sendall(bytes([b]))
                    come.write(s.recv(1))

        step(tls.do_handshake)
        tls.write(LAST)
        check(step(tls.read, 12) == b"HTTP/1.1 200", "answer")


def _is_taken(what):
    """Returns True as soon as a connection is not closed at once."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            return what.request("GET", "/health")[0] == 200
        time.sleep(.02)
    return False


def handshakes_that_dawdle_hold_up_nobody():
    """unit/net/tls tests their time with short limits."""
    hello, held = _hello(), [_plain(server) for _ in range(60)]
    for i, s in enumerate(held):
        s.sendall(hello[:i * len(hello) // 60])
    check(server.wait(lambda g: g["http_connections"] >= 61), "they are counted")
    expect(server.post("/tokenize", prompt="x")[0], 200, "others are served")
    with _tls_server("--max-connections", 3) as s:
        few = [_plain(s) for _ in range(3)]
        one_more = _plain(s)
        expect(read_all(one_more), b"", "one too many is closed")
        one_more.close()
        few.pop().close()
        check(_is_taken(s), "one has left")
        for x in few:
            x.close()
    for s in held:
        s.close()
    check(server.wait(lambda g: g["http_connections"] <= 1), "connections are gone")


def no_descriptor_is_left():
    with _tls_server(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))) as s:
        hello, held = _hello(), []
        for i in range(100):
            held.append(_plain(s))
            with contextlib.suppress(OSError):
                held[-1].sendall(hello[:i])
        check(_says(s, "cannot accept connections"), "it is said")
        time.sleep(.5)
        expect(sum("cannot accept connections" in x for x in s.log), 1, "once")
        for h in held:
            h.close()
        expect(s.request("GET", "/health")[0], 200, "it goes on when there are some again")
        expect(s.post(COMPLETIONS, prompt="x", max_tokens=1)[0], 200, "and serves")


# ---- clients that disconnect, and slow ones ----


def a_client_that_vanishes_frees_its_rows():
    with _tls_server(model=patient_model()) as s:
        for stream in (False, True):
            for how in ("close", "reset", "half", "notify"):
                c = s.send(COMPLETIONS, **HELD, n=32, stream=stream)
                check(s.wait(lambda g: g["num_requests_running"] > 0), "it is computed")
                if stream:
                    c.recv(1000)
                if how == "notify":
                    c.setblocking(False)
                    with contextlib.suppress(OSError):
                        # The client closes its direction, and does not wait for the server's close.
                        c.unwrap()
                else:
                    _leave(c, how)
                check(s.is_free(), f"stream {stream}, {how}: rows are held")
                c.close()
        check(s.wait(lambda g: g["http_connections"] <= 1), "connections are gone")
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=2)[0], 200, "and others are served")


def large_bodies_come_whole_to_slow_readers():
    prompt = "The quick brown fox. " * 50000
    body = json.dumps({"prompt": prompt}).encode()
    wanted = server.post("/tokenize", prompt=prompt)[1]
    for ending in ("close", "keep-alive"):
        with _plain(server) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
            s = server.context.wrap_socket(s, server_hostname="localhost",
                                           suppress_ragged_eofs=False)
            s.sendall(
                b"POST /tokenize HTTP/1.1\r\nHost: x\r\nConnection: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (ending.encode(), len(body)) + body + (GET + LAST if ending != "close" else b""))
            time.sleep(.5)
            got = _all_of(s).partition(b"\r\n\r\n")[2]
            expect(json.JSONDecoder().raw_decode(got.decode())[0], wanted, "the answer")
            expect(got.count(b"HTTP/1.1 200"), 0 if ending == "close" else 2, "answers behind it")


def the_load_generator_speaks_tls():
    load = [sys.executable, os.path.join(ROOT, "bench", "load"),
            "--url", f"https://127.0.0.1:{server.port}", "--num-prompts", "4", "--input-len", "5",
            "--output-len", "6", "--json"]
    r = subprocess.run([*load, "--cacert", "one.pem"], stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=600)
    check(r.returncode == 0, f"{r.stderr}")
    f = json.loads(r.stdout)
    expect((f["completed"], f["total_output_tokens"]), (4, 24), "counts")
    for others in (["--cacert", "two.pem"], []):
        r = subprocess.run([*load, *others], stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=600)
        check(r.returncode == 1 and b"CERTIFICATE_VERIFY_FAILED" in r.stderr
              and b"Traceback" not in r.stderr, f"a stranger's: {r.stderr}")


# ---- certificates of clients ----


def _asks_as(what, own):
    """Returns True if a client with this certificate is answered."""
    try:
        with _strict(what, _context(own=own)) as s:
            s.sendall(LAST)
            return _all_of(s).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def certificates_of_clients_are_proven():
    for reqs, none in ((1, True), (2, False)):
        with _tls_server("--ssl-ca-certs", "authority.pem", "--ssl-cert-reqs", reqs,
                         context=_context(own="client")) as s:
            for own, good in ((None, none), ("client", True), ("late", False), ("stranger", False),
                              ("two", False)):
                expect(_asks_as(s, own), good, f"--ssl-cert-reqs {reqs}, certificate {own}")
            for why in ("certificate has expired", "unable to get",
                        *(() if none else ("peer did not return a certificate",))):
                check(_says(s, "TLS failed: ", why), f"{why} is said: {s.log}")
            expect(_failed(s), 3 if none else 4, "failures")
            session = None
            for again in (False, True):
                c = s.context.wrap_socket(_plain(s), server_hostname="localhost", session=session)
                c.sendall(LAST)
                check(_all_of(c).startswith(b"HTTP/1.1 200"), "it serves")
                expect(c.session_reused, again, "resumed with a certificate")
                session = c.session
                c.close()


# ---- files ----


def files_are_read_again_by_a_signal():
    _copy("one", "used")
    with open("keys", "w") as f:
        f.write("first-key\n")
    with _tls_server("--api-key-file", "keys", name="used") as s:
        old = _strict(s)
        old.sendall(GET)
        old.recv(10000)
        body = json.dumps({"prompt": PROMPT, "max_tokens": 500, "min_tokens": 500,
                           "stream": True}).encode()
        stream = _strict(s)
        stream.sendall(
            b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: first-key\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (COMPLETIONS.encode(), len(body)) + body)
        stream.recv(100)
        _copy("two", "used")
        with open("keys", "w") as f:
            f.write("second-key\n")
        _reload(s, "used.pem: read again")
        check(any("keys: read again, 1 key" in x for x in s.log), f"the keys, too: {s.log}")
        expect(_asks_as(s, None), False, "new connections see the new certificate")
        s.context = _context("two")
        expect(s.request("GET", "/health")[0], 200, "which is good")
        for key, status in (("first-key", 401), ("second-key", 200)):
            expect(s.post("/tokenize", {"X-Api-Key": key}, prompt="x")[0], status, key)
        old.sendall(LAST)
        check(_all_of(old).startswith(b"HTTP/1.1 200"), "old connections go on")
        check(b"data: [DONE]" in _all_of(stream), "so do streams, whose key is no more")
        for source, target, words in (
                ("junk", "used.pem", ("used.pem", "certificate stays in use")),
                ("junk", "used.key", ("used.key", "certificate stays in use")),
                ("one.key", "used.key", ("used.key", "mismatch", "certificate stays in use")),
                (None, "used.pem", ("used.pem", "No such file", "certificate stays in use")),
                ("junk", "keys", ("keys", "old keys stay in use"))):
            if source:
                shutil.copy(source, target)
            else:
                os.remove(target)
            _reload(s, *words)
            expect(s.request("GET", "/health")[0], 200, "the old certificate is still there")
            expect(s.post("/tokenize", {"X-Api-Key": "second-key"}, prompt="x")[0], 200,
                   "so is the key")
            _copy("two", "used")
        shutil.copy("keys", "kept")
        os.remove("keys")
        os.mkfifo("keys")  # Reading it would wait for a writer.
        _reload(s, "not a regular file", "old keys stay in use")
        os.remove("keys")
        shutil.copy("kept", "keys")
        _copy("one", "used")
        for _ in range(20):
            s.process.send_signal(signal.SIGHUP)
        s.context = _context("one")
        _reload(s, "used.pem: read again")
        expect(s.request("GET", "/health")[0], 200, "twenty at once")
        old.close()
        stream.close()
        expect(s.end(), 0, "it ends as ever")


def bad_files_and_options_are_named():
    _openssl("pkcs8", "-topk8", "-in", "one.key", "-passout", "pass:secret", "-out", "secret.key")
    os.makedirs("folder.pem", exist_ok=True)
    one = ("--ssl-certfile", "one.pem", "--ssl-keyfile", "one.key")
    for status, options, *words in ((1, ("--ssl-certfile", "missing.pem"), "missing.pem",
                                     "No such file"),
                                    (1, ("--ssl-certfile", "junk"), "junk", "certificate in PEM"),
                                    (1, ("--ssl-certfile", "empty"), "empty", "certificate in PEM"),
                                    (1, ("--ssl-certfile", "folder.pem"), "folder.pem",
                                     "a regular file is expected"),
                                    (1, ("--ssl-certfile", "one.pem"), "one.pem", "private key"),
                                    (1, ("--ssl-certfile", "one.key"), "one.key",
                                     "certificate in PEM"),
                                    (1, (*one[:3], "missing.key"), "missing.key", "No such file"),
                                    (1, (*one[:3], "junk"), "junk", "private key"),
                                    (1, (*one[:3], "two.key"), "two.key", "mismatch"),
                                    (1, (*one[:3], "secret.key"), "secret.key", "passphrase"),
                                    (1, (*one, "--ssl-ca-certs", "missing.pem", "--ssl-cert-reqs",
                                         1), "missing.pem", "No such file"),
                                    (1, (*one, "--ssl-ca-certs", "junk", "--ssl-cert-reqs", 1),
                                     "junk", "certificates in PEM"),
                                    (2, (*one, "--ssl-cert-reqs", 2), "--ssl-cert-reqs 2",
                                     "--ssl-ca-certs"),
                                    (2, (*one, "--ssl-cert-reqs", 3), "--ssl-cert-reqs"),
                                    (2, one[2:], "--ssl-keyfile", "--ssl-certfile"),
                                    (2, ("--ssl-ca-certs", "one.pem"), "--ssl-ca-certs",
                                     "--ssl-certfile"),
                                    (2, ("--ssl-cert-reqs", 1), "--ssl-cert-reqs",
                                     "--ssl-certfile"),
                                    (2, (*one, "--host", "0.0.0.0"), "--api-key")):
        expect_error(call("serve", "-m", DEMO, "--port", 0, *options), status, *words)


def what_is_doubtful_is_said():
    with open("both.pem", "w") as f:
        f.write(open("late-server.pem").read() + open("late-server.key").read())
    os.chmod("both.pem", 0o644)
    with Server("--ssl-certfile", "both.pem", "--ssl-ca-certs", "authority.pem", "--no-access-log",
                context=_context()) as s:
        for words in ("both.pem: every user of this machine can read the key",
                      "both.pem: the certificate has expired", "clients are not asked"):
            check(any("warning: " in x and words in x for x in s.log), f"{words}: {s.log}")
    check(not any("every user" in x for x in server.log), "and nothing of a key that is kept")


def it_ends_as_without_tls():
    s = _tls_server("--shutdown-timeout", 600, "--max-num-seqs", 1, model=patient_model())
    held = s.send(COMPLETIONS, **HELD)
    idle, shaking = _strict(s), _plain(s)
    idle.sendall(GET)
    idle.recv(10000)
    check(s.wait(lambda g: g["num_requests_running"] > 0), "one is computed")
    slow = s.send(COMPLETIONS, prompt=PROMPT, max_tokens=300, min_tokens=300, stream=True)
    check(s.wait(lambda g: g["num_requests_waiting"] == 1), "another waits")
    s.process.send_signal(signal.SIGTERM)
    expect(_all_of(idle), b"", "an idle connection ends properly")
    held.close()
    body = read_all(slow)
    check(b"[DONE]" in body and b'"length"' in body and body.rstrip().endswith(b"0"),
          "what was there is computed to its end")
    for c in (slow, idle, shaking):
        c.close()
    expect(s.process.wait(600), 0, "status")


if not shutil.which("openssl"):
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.umask(0o077)
    _certificate("one")
    _certificate("two")
    _certificate("authority")
    _certificate("client", "authority")
    _certificate("late", "authority", -1)
    _certificate("late-server", "authority", -1)
    _certificate("stranger", "two")
    for name, text in (("junk", "this is no PEM\n"), ("empty", "")):
        with open(name, "w") as f:
            f.write(text)
    r = call("serve", "-m", DEMO, "--port", 0, "--ssl-certfile", "junk")
    if b"without TLS" in r.stderr:
        expect_error(r, 1, "junk", "libevent_openssl")
        run_all([])
    server = _tls_server()
    try:
        run_all(list(globals().items()))
    finally:
        server.end()
