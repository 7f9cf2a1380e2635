#!/usr/bin/env python3
"""serve_company.py - mixed requests over 1, 8 and 64 connections get what `run --batch`
computes: tokens, texts, finish reasons, and every bit of the log-probabilities, while other
clients disconnect. Standard library only; GALLOP_BIN names the program."""
import http.client
import json
import queue
import random
import struct
import threading

from _cli import DEMO, call, check, expect, lines, run_all
from _server import Server

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TOP = 3
PREFIXES = (
    "Once upon a time there was a little girl who lived in a house by the sea, and every day",
    "The king had three sons, and the youngest of them was so good that everybody in the country loved him. One day")
TAILS = ("", " she", " he went", " the dog said", ", when it rained,")


def _requests():
    """Returns pairs of a path and the fields of a request. Each kind of request has several
    lengths and prefixes."""
    draw, out = random.Random(5), []
    for i in range(40):
        fields = {"prompt": draw.choice(PREFIXES) + draw.choice(TAILS),
                  "max_tokens": draw.randint(1, 32), "temperature": 0}
        if i % 3:
            fields |= {"temperature": draw.choice((0.7, 1.3)), "seed": 100 + i}
        if i % 4 == 1:
            fields |= {"stop": [draw.choice((" the", ".", "o", " was a"))], "max_tokens": 48}
        if i % 5 == 2:
            fields |= {"top_p": 0.9, "top_k": 30}
        if i % 7 == 3:
            fields |= {"repetition_penalty": 1.3, "min_tokens": 12}
        if i % 6 == 4:
            fields |= {"n": 3}
        if i % 8 == 5:
            fields |= {"ignore_eos": True, "logit_bias": {"17": -100, "262": 2.5}}
        if i % 4 == 3:
            out.append((CHAT, {"messages": [{"role": "user", "content": fields.pop("prompt")}],
                               "logprobs": True, "top_logprobs": TOP, **fields}))
        else:
            out.append((COMPLETIONS, {"logprobs": TOP, **fields}))
    return out


def _bits(x):
    return struct.pack("f", x)


def _wanted(requests):
    """Returns what `run --batch` answers to each request: (ids, text, reason, log-probabilities
    as bits) of each of its answers."""
    text = "".join(json.dumps(fields) + "\n" for _, fields in requests)
    r = call("run", "-m", DEMO, "--batch", "-", "--json", "--quiet", stdin=text.encode())
    out = [[] for _ in requests]
    for answers, line in zip(out, lines(r)):
        check("output_ids" in line, f"a line of run: {line}")
        for o in line.get("choices", [line]):
            answers.append((o["output_ids"], o["text"], o["finish_reason"],
                            [_bits(t["logprob"]) for t in o["logprobs"]],
                            [sorted(_bits(x) for _, x in t["top"]) for t in o["logprobs"]]))
    expect([len(x) for x in out], [fields.get("n", 1) for _, fields in requests],
           f"answers of run ({r.stderr.decode()[:200]})")
    return out


def _tops(entry, chosen):
    """Returns of a completion's {text: log-probability}, which also has the chosen token, those
    that `run` calls the likeliest."""
    found = sorted(entry, reverse=True)[:TOP]
    check(chosen in entry, "the chosen token is among its alternatives")
    return sorted(map(_bits, found))


def _choice(path, parts):
    """Returns what _wanted() has for a choice, from the parts of the choice (one, if it was not
    streamed)."""
    ids, text, own, top = [], "", [], []
    for p in parts:
        ids += p.get("token_ids") or []
        body = p if path == COMPLETIONS else p.get("delta") or p.get("message") or {}
        text += (body.get("text") if path == COMPLETIONS else body.get("content")) or ""
        said = p.get("logprobs") or {}
        if path == COMPLETIONS:
            own += said.get("token_logprobs") or []
            top += [list(x.values()) for x in said.get("top_logprobs") or []]
        else:
            own += [t["logprob"] for t in said.get("content") or []]
            top += [[x["logprob"] for x in t["top_logprobs"]] for t in said.get("content") or []]
    reasons = [p["finish_reason"] for p in parts if p["finish_reason"]]
    top = [_tops(t, o) if path == COMPLETIONS else sorted(map(_bits, t)) for t, o in zip(top, own)]
    return ids, text, reasons[-1] if reasons else None, [_bits(x) for x in own], top


def _ask(connection, path, fields, stream):
    """Returns the answers to a request in the form of _wanted()."""
    # Alternatives with the same text are distinguished.
    ids = {"return_token_ids": True, "return_tokens_as_token_ids": True}
    body = json.dumps({**fields, **ids, "stream": stream})
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    r = connection.getresponse()
    data = r.read()
    if r.status != 200:
        return [(r.status, data)]
    parts = [json.loads(data)] if not stream else [
        json.loads(x[6:]) for x in data.decode().split("\n\n") if x.startswith("data: {")]
    choices = [c for p in parts for c in p["choices"]]
    return [_choice(path, [c for c in choices if c["index"] == i])
            for i in range(fields.get("n", 1))]


def _vanish(server, stop, got, requests, draw):
    """Runs clients that send a request, read little or nothing, and disconnect, until STOP is
    set; at most one for each answer GOT, because a slow program would compute for them alone."""
    n = -1
    while not stop.is_set():
        if len(got) == n:
            stop.wait(.005)
            continue
        n = len(got)
        path, fields = draw.choice(requests)
        s = server.send(path, **{**fields, "min_tokens": 40, "max_tokens": 200,
                                 "stream": draw.random() < .5})
        s.settimeout(draw.choice((.001, .02, .1)))
        try:
            s.recv(draw.choice((1, 1000)))
        except OSError:
            pass
        s.close()


def _serve(server, requests, n_connections):
    """Returns the answers to all REQUESTS, sent in random order over N connections, each as a
    whole and as a stream."""
    todo, got = queue.SimpleQueue(), {}
    order = [(i, stream) for i in range(len(requests)) for stream in (False, True)]
    random.Random(n_connections).shuffle(order)
    for x in order:
        todo.put(x)

    def work():
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        try:
            while True:
                i, stream = todo.get_nowait()
                got[i, stream] = _ask(connection, *requests[i], stream)
        except queue.Empty:
            connection.close()

    stop = threading.Event()
    leavers = [threading.Thread(target=_vanish, args=(server, stop, got, requests, random.Random(
        k))) for k in range(3 if n_connections > 1 else 1)]
    workers = [threading.Thread(target=work) for _ in range(n_connections)]
    for t in leavers + workers:
        t.start()
    for t in workers:
        t.join()
    stop.set()
    for t in leavers:
        t.join()
    return got


def a_bit_that_differs_is_noticed():
    part = {"index": 0, "text": "a", "token_ids": [5], "finish_reason": "stop", "logprobs": {
        "token_logprobs": [-0.773757935], "top_logprobs": [{"a": -0.773757935}]}}
    near = {**part,
            "logprobs": {"token_logprobs": [-0.773757994], "top_logprobs": [{"a": -0.773757994}]}}
    check(_choice(COMPLETIONS, [part]) == _choice(COMPLETIONS, [json.loads(json.dumps(part))]),
          "equal answers are equal")
    check(_choice(COMPLETIONS, [part]) != _choice(COMPLETIONS, [near]),
          "a neighbouring float is another answer")


def answers_do_not_depend_on_connections():
    requests = _requests()
    wanted = _wanted(requests)
    with Server("--no-access-log", "--max-num-seqs", 16, "--block-size", 16) as server:
        for n in (1, 8, 64):
            got = _serve(server, requests, n)
            expect(len(got), 2 * len(requests), f"answers over {n} connections")
            for (i, stream), answers in got.items():
                expect(answers, wanted[i],
                       f"{n} connections, {'stream' if stream else 'whole'}, {requests[i]}")
            check(server.is_free(), f"rows are held after {n} connections")
        gone = server.request("GET", "/metrics")[2].decode().split(
            'finished_reason="abort"} ')[1].split()[0]
        check(int(gone) > 0, "some of those who vanished were being computed for")
        check(server.gauges()["prefix_cache_hits_total"] > 0, "rows were shared")


run_all(list(globals().items()))
