#!/usr/bin/env python3
"""test_choices.py - answers with several choices: choice I of a response is the answer that seed +
I gets alone, in text, ids, log-probabilities, finish reason, reasoning and tool calls, whole and
in events; usage, metrics and limits count every choice, and the prompt once. Standard library
only; GALLOP_BIN names the program."""
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "test", "net"), os.path.join(ROOT, "test", "cli")]
import scripted  # noqa: E402
from _cli import check, expect, run_all  # noqa: E402
from _server import Server  # noqa: E402

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPTS = ["Once upon a time", "A dog"]
N, SEED = 5, 33
DRAW = {"temperature": 2, "max_tokens": 9, "stop": ["."], "return_token_ids": True}
BOTH = {COMPLETIONS: {"prompt": PROMPTS, "logprobs": 3},
        CHAT: {"messages": [{"role": "user", "content": "Who are you?"}], "logprobs": True,
               "top_logprobs": 3, "max_tokens": 7}}
HERMES = (
    "{# <tool_call> arguments </think> #}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}"
    "{% endfor %}")
SCRIPTS = [["<both>", "<think>\nHm.", "\n</think>\n\nSo: ", "<tool_call>{\"name\": \"f\",",
            " \"arguments\": {\"a\": ", "1}}", "</tool_call>", "\n<tool_call>{\"name\": \"g\", ",
            "\"arguments\": {}}</tool_call>"]]
TOOLS = [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}}
         for n in ("f", "g")]
folder = tempfile.TemporaryDirectory()
scripted.make(folder.name, SCRIPTS, HERMES)
server = Server()
talker = Server("--dtype", "fp32", "--threads", 1, model=folder.name)


def _answer(of, path, **fields):
    status, body = of.post(path, **fields)
    expect(status, 200, f"{path} {fields}: {str(body)[:300]}")
    return body


def _singles(path, fields):
    """Returns each choice alone, from a request with one prompt and its seed: choice K of all
    prompts draws with SEED + K."""
    prompts = fields["prompt"] if path == COMPLETIONS else [None]
    out = []
    for at, p in enumerate(prompts):
        for i in range(at * N, at * N + N):
            out.append(_answer(server, path,
                               **{**fields, **({"prompt": p} if p else {}), "seed": SEED + i}))
    return out


def _joined(events, path, n):
    """Returns the choices that events make, with everything that is sent for each."""
    out = [{"index": i, "text": "", "finish_reason": None, "stop_reason": None, "logprobs": {},
            "token_ids": []} for i in range(n)]
    for event in events:
        expect(len(event["choices"]), 1, "choices of an event")
        choice = event["choices"][0]
        mine = out[choice["index"]]
        check(mine["finish_reason"] is None,
              f"nothing comes behind the end of choice {choice['index']}: {choice}")
        mine["text"] += choice["text"] if path == COMPLETIONS else choice["delta"].get(
            "content") or ""
        for key, values in (choice["logprobs"] or {}).items():
            mine["logprobs"].setdefault(key, []).extend(values)
        mine["token_ids"] += choice.get("token_ids") or []
        mine["finish_reason"], mine["stop_reason"] = choice["finish_reason"], choice.get(
            "stop_reason")
    return out


def _told(choice):
    """Returns everything that is sent for CHOICE, whole or joined."""
    return {"text": choice["text"] if "text" in choice else choice["message"]["content"], **{
        key: choice[key] for key in ("finish_reason", "stop_reason", "token_ids", "logprobs")}}


def each_choice_is_what_its_seed_gets_alone():
    for path, of in BOTH.items():
        fields = {**DRAW, **of}
        alone = _singles(path, fields)
        wanted = [_told(a["choices"][0]) for a in alone]
        check(len({w["text"] for w in wanted}) == len(wanted), "choices that can be told apart")
        check({w["finish_reason"] for w in wanted} == {"stop", "length"},
              f"{path}: both ends: {[w['finish_reason'] for w in wanted]}")
        whole = _answer(server, path, **fields, seed=SEED, n=N)
        expect([c["index"] for c in whole["choices"]], list(range(len(wanted))), f"{path}: indexes")
        for got, w in zip(whole["choices"], wanted):
            expect(_told(got), w, f"{path}: choice {got['index']}")
        check("." in [c["stop_reason"] for c in whole["choices"]],
              f"{path}: a stop string ended one")
        if path == COMPLETIONS:
            expect([c["prompt_token_ids"] for c in whole["choices"]],
                   [a["choices"][0]["prompt_token_ids"] for a in alone], "ids of prompts")
        usage = whole["usage"]
        n_prompt, n_output = sum(a["usage"]["prompt_tokens"] for a
                                 in alone[::N]), sum(a["usage"]["completion_tokens"] for a in alone)
        expect((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]),
               (n_prompt, n_output, n_prompt + n_output),
               f"{path}: usage counts prompts once and all choices")
        expect(n_output, sum(len(w["token_ids"]) for w in wanted), f"{path}: which are the tokens")
        events = [json.loads(x) for x in server.events(
            path, **fields, seed=SEED, n=N,
            stream_options={"include_usage": True, "continuous_usage_stats": True})[:-1]]
        last = events.pop()
        expect((last["choices"], {k: last["usage"][k] for k in usage if k.endswith("tokens")}),
               ([], {k: usage[k] for k in usage if k.endswith("tokens")}),
               f"{path}: usage of the stream")
        streamed = _joined(events, path, len(wanted))
        for got, w in zip(streamed, wanted):
            expect(_told(got), w, f"{path}: choice {got['index']} of the stream")
        so_far = [0] * len(wanted)
        for e in events:
            i = e["choices"][0]["index"]
            so_far[i] += len(e["choices"][0].get("token_ids") or [])
            used, of_prompt = e["usage"], alone[i]["usage"]["prompt_tokens"]
            expect((used["prompt_tokens"], used["completion_tokens"], used["total_tokens"]),
                   (of_prompt, so_far[i], of_prompt + so_far[i]),
                   f"{path}: usage of an event is that of its choice so far")


def rows_of_a_sibling_are_no_hits_of_the_cache():
    """The first choice computes the prompt. The part that the others share is not reported as
    cached."""
    ids = list(range(100, 700))
    with Server("--prefix-index", "radix") as fresh:
        for n, seen in ((4, 0), (3, 512)):
            usage = _answer(fresh, COMPLETIONS, prompt=ids, n=n, max_tokens=3,
                            ignore_eos=True)["usage"]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            check(cached == 0 if not seen else seen <= cached < len(ids), f"n {n}: {usage}")
            expect((usage["prompt_tokens"], usage["completion_tokens"]), (600, 3 * n), "tokens")


def metrics_and_limits_count_every_choice_and_a_prompt_once():
    names = ("prompt_tokens_total", "generation_tokens_total")
    before = server.gauges()
    usage = _answer(server, CHAT, messages=[{"role": "user", "content": "Who are you?"}], n=4,
                    max_tokens=6, ignore_eos=True)["usage"]
    after = server.gauges()
    expect([after[n] - before[n] for n in names], [usage["prompt_tokens"], 24],
           "tokens that the metrics count")
    path = os.path.join(folder.name, "keys")
    with open(path, "w", encoding="utf-8") as f:
        f.write("some-key tokens_per_minute=100\n")
    with Server("--api-key-file", path) as s:
        status, head, _ = s.request("POST", COMPLETIONS, {"prompt": [
            5] * 20, "n": 4, "max_tokens": 5, "ignore_eos": True}, {"X-Api-Key": "some-key"})
        # More than one token returns every second.
        left = int(head["x-ratelimit-remaining-tokens"])
        check(status == 200 and 60 <= left <= 80,
              f"of 100 tokens 20 + 4 * 5 are charged: {left} are left")


def calls_and_reasoning_of_each_choice_are_its_own():
    ask = {"messages": [{"role": "user", "content": "<both>"}], "temperature": 0, "tools": TOOLS,
           "n": 3}
    for more, calls, reason in (({}, [("f", '{"a": 1}'), ("g", "{}")], "tool_calls"), (
            {"stop": ["never"]}, [("f", '{"a": 1}'), ("g", "{}")], "tool_calls"),
                                ({"parallel_tool_calls": False}, [("f", '{"a": 1}')], "tool_calls"),
                                ({"max_tokens": 2}, [], "length")):
        whole = _answer(talker, CHAT, **ask, **more)
        single = _answer(talker, CHAT, **{**ask, "n": 1}, **more)
        expect(whole["usage"]["completion_tokens"], 3 * single["usage"]["completion_tokens"],
               "usage")
        ids = []
        for i, c in enumerate(whole["choices"]):
            m = c["message"]
            expect((c["index"], c["finish_reason"], m.get("reasoning"),
                    (m["content"] or "").strip()), (i, reason, "Hm.", "So:"), f"{more}: {c}")
            expect([(x["function"]["name"], x["function"]["arguments"])
                    for x in m.get("tool_calls", [])], calls, f"{more}: calls of {i}")
            ids += [x["id"] for x in m.get("tool_calls", [])]
        expect(len(set(ids)), 3 * len(calls), f"ids of calls differ: {ids}")
        told = [{"reasoning": "", "content": "", "calls": [], "reason": None} for _ in range(3)]
        for event in (json.loads(x) for x in talker.events(CHAT, **ask, **more)[:-1]):
            for c in event["choices"]:
                mine, delta = told[c["index"]], c["delta"]
                mine["reason"] = c["finish_reason"] or mine["reason"]
                mine["reasoning"] += delta.get("reasoning") or ""
                mine["content"] += delta.get("content") or ""
                for x in delta.get("tool_calls", []):
                    if "id" in x:
                        expect(x["index"], len(mine["calls"]),
                               "calls of a choice are numbered from 0")
                        mine["calls"].append([x["id"], x["function"]["name"], ""])
                    mine["calls"][x["index"]][2] += x["function"]["arguments"]
        for i, mine in enumerate(told):
            expect((mine["reasoning"], mine["content"].strip(), mine["reason"]),
                   ("Hm.", "So:", reason), f"{more}: choice {i} of the stream")
            expect([tuple(x[1:]) for x in mine["calls"]], calls,
                   f"{more}: calls of choice {i} of the stream")
        ids = [x[0] for mine in told for x in mine["calls"]]
        expect(len(set(ids)), 3 * len(calls), f"ids of calls of the stream differ: {ids}")


def an_echo_stands_in_front_of_each_choice():
    got = _answer(server, COMPLETIONS, prompt=PROMPTS, n=2, echo=True, max_tokens=3, temperature=1,
                  seed=SEED, logprobs=1)
    alone = [_answer(server, COMPLETIONS, prompt=p, echo=True, max_tokens=3, temperature=1,
                     seed=SEED + 2 * k + i, logprobs=1)["choices"][0]
             for k, p in enumerate(PROMPTS) for i in range(2)]
    for c, a, p in zip(got["choices"], alone, [p for p in PROMPTS for _ in range(2)]):
        check(c["text"].startswith(p), f"{c['text']!r} begins with {p!r}")
        expect((c["text"], c["logprobs"]), (a["text"], a["logprobs"]), f"choice {c['index']}")


if __name__ == "__main__":
    try:
        run_all(list(globals().items()))
    finally:
        for s in (server, talker):
            check(s.end() == 0, "the server ends with 0")
        folder.cleanup()
