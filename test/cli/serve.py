#!/usr/bin/env python3
"""serve.py - the server from outside: its answers in the formats of OpenAI and vLLM, on the demo
model. Standard library only."""
import json
import os
import re
import time

from _cli import DEMO, ROOT, call, check, expect, expect_error, lines, run_all
from _server import HELD, Server, patient_model, read_all

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time"
server = Server("--max-logprobs", 5, "--served-model-name", "small", "--served-model-name", "other",
                "--measure-roof", "--speculative-config", '{"method":"suffix"}')


def _ask(path=COMPLETIONS, **fields):
    status, body = server.post(path, **{"temperature": 0, **(
        {"prompt": PROMPT} if path == COMPLETIONS
        else {"messages": [{"role": "user", "content": "Who are you?"}]}), **fields})
    expect(status, 200, f"status of {path} {fields} ({str(body)[:300]})")
    return body


def _refused(status, param, path=COMPLETIONS, word="", **fields):
    if path == COMPLETIONS and "prompt" not in fields:
        fields["prompt"] = "x"
    if path == CHAT and "messages" not in fields:
        fields["messages"] = [{"role": "user", "content": "x"}]
    got, body = server.post(path, **fields)
    error = body.get("error", {})
    expect((got, error.get("param"), error.get("code")), (status, param, status),
           f"{path} {str(fields)[:200]}: {str(body)[:200]}")
    check(word in error.get("message", ""), f"{error} without {word!r}")
    expect(set(error), {"message", "type", "param", "code"}, "members of an error")


def tokens_are_those_of_run():
    for n, seed in ((20, None), (30, 7)):
        more = [] if seed is None else ["--temperature", 1.5, "--seed", seed]
        own = lines(call("run", "-m", DEMO, "--json", "-n", n, *more, PROMPT))[0]
        got = _ask(max_tokens=n, return_token_ids=True,
                   **({} if seed is None else {"temperature": 1.5, "seed": seed}))
        choice = got["choices"][0]
        expect((choice["token_ids"], choice["text"]), (own["output_ids"], own["text"]),
               f"tokens and text, seed {seed}")
        expect(got["usage"]["completion_tokens"], len(own["output_ids"]), "tokens in usage")


def a_chat_is_rendered_as_run_does():
    own = lines(call("run", "-m", DEMO, "--json", "--chat", "-n", 20, "Who are you?"))[0]
    got = _ask(CHAT, max_tokens=20, return_token_ids=True)
    expect(got["choices"][0]["token_ids"], own["output_ids"], "ids of a chat's answer")
    expect(got["choices"][0]["message"]["content"], own["text"], "its text")
    parts = [{"type": "text", "text": "Who are"}, {"type": "text", "text": "you?"}]
    joined = _ask(CHAT, max_tokens=3, return_token_ids=True,
                  messages=[{"role": "user", "content": parts}])
    expect(joined["prompt_token_ids"], _ask(CHAT, max_tokens=3, return_token_ids=True, messages=[
        {"role": "user", "content": "Who are\nyou?"}])["prompt_token_ids"],
           "parts of a content are lines of it")


def streams_say_the_same_as_whole_answers():
    for path in (COMPLETIONS, CHAT):
        more = {"logprobs": 2} if path == COMPLETIONS else {"logprobs": True, "top_logprobs": 2}
        whole = _ask(path, max_tokens=12, n=2, **more)
        fields = {"prompt": PROMPT} if path == COMPLETIONS else {
            "messages": [{"role": "user", "content": "Who are you?"}]}
        events = server.events(path, temperature=0, max_tokens=12, n=2,
                               stream_options={"include_usage": True}, **fields, **more)
        expect(events[-1], "[DONE]", "the last event")
        parts = [json.loads(x) for x in events[:-1]]
        expect((parts[-1]["choices"], parts[-1]["usage"]), ([], whole["usage"] | {
            "prompt_tokens_details": parts[-1]["usage"]["prompt_tokens_details"]}),
               "the event of usage")
        for i in range(2):
            mine = [p["choices"][0] for p in parts[:-1] if p["choices"][0]["index"] == i]
            text = "".join(m["text"] if path == COMPLETIONS else m["delta"]["content"]
                           for m in mine)
            expect(text, whole["choices"][i]["text"] if path == COMPLETIONS
                   else whole["choices"][i]["message"]["content"], "text")
            expect([m["finish_reason"] for m in mine],
                   [None] * (len(mine) - 1) + [whole["choices"][i]["finish_reason"]], "reasons")
            if path == CHAT:
                expect([m["delta"].get("role") for m in mine],
                       ["assistant"] + [None] * (len(mine) - 1), "the role comes first")
                expect((mine[0]["delta"], mine[0]["logprobs"]),
                       ({"role": "assistant", "content": ""}, None), "and alone")
                expect([t for m in mine[1:] for t in m["logprobs"]["content"]],
                       whole["choices"][i]["logprobs"]["content"], "logprobs")
            else:
                for key, wanted in whole["choices"][i]["logprobs"].items():
                    expect([t for m in mine for t in m["logprobs"][key]], wanted,
                           f"logprobs: {key}")
        usage = [json.loads(x)["usage"]["completion_tokens"] for x in server.events(
            path, temperature=0, max_tokens=6,
            stream_options={"include_usage": True, "continuous_usage_stats": True}, **fields)[:-1]]
        # Tokens that exist before the stream has begun arrive in one event, which happens on a busy
        # machine.
        check(usage == sorted(usage) and usage[-2:] == [6, 6] and len(set(usage)) == len(usage) - 1,
              f"usage in each event: {usage}")


def prompts_come_as_texts_and_ids_and_lists_of_both():
    ids = server.post("/tokenize", prompt=PROMPT)[1]["tokens"]
    wanted = _ask(max_tokens=6)["choices"][0]["text"]
    for prompt, n in ((PROMPT, 1), ([PROMPT, "A dog"], 2), (ids, 1), ([ids, ids], 2),
                      ([PROMPT] * 9, 9)):
        got = _ask(prompt=prompt, max_tokens=6)
        expect([c["index"] for c in got["choices"]], list(range(n)), "indexes")
        expect(got["choices"][0]["text"], wanted, f"text for {str(prompt)[:40]}")
    got = _ask(prompt=[PROMPT, "A dog"], max_tokens=4, n=2)
    expect([c["text"] for c in got["choices"]][::2],
           [_ask(prompt=p, max_tokens=4)["choices"][0]["text"] for p in (PROMPT, "A dog")],
           "prompt by prompt, n of each")


def a_role_comes_with_the_first_token_and_not_before():
    fields = {"messages": [{"role": "user", "content": "Who are you?"}], "temperature": 0,
              "max_tokens": 4, "n": 3, "return_token_ids": True}
    parts = [json.loads(x) for x in server.events(CHAT, **fields, stream_options={
        "include_usage": True, "continuous_usage_stats": True})[:-2]]
    expect([(p["choices"][0]["index"], p["choices"][0]["delta"]) for p in parts[:3]],
           [(i, {"role": "assistant", "content": ""}) for i in range(3)],
           "one for each choice, in front of all else")
    expect([p["usage"]["completion_tokens"] for p in parts[:3]], [0] * 3, "which counts no token")
    ids = server.post("/tokenize", messages=fields["messages"])[1]["tokens"]
    expect([p.get("prompt_token_ids") for p in parts], [ids] * 3 + [None] * (len(parts) - 3),
           "ids of the prompt come with it")
    check(all("role" not in p["choices"][0]["delta"] for p in parts[3:]), "and once")
    # A chat that waits for a long answer has sent nothing yet.
    with Server("--max-num-seqs", 1, "--no-access-log", model=patient_model()) as one:
        busy = one.send(COMPLETIONS, **HELD, stream=True)
        busy.recv(1)
        waiting = one.send(CHAT, **fields | {"n": 1}, stream=True)
        check(one.wait(lambda g: g["num_requests_waiting"] == 1), "it waits")
        head = waiting.recv(65536)
        check(b" 200 OK" in head and b"role" not in head, f"headers alone: {head}")
        busy.close()
        while not head.endswith(b"0\r\n\r\n") and (piece := waiting.recv(65536)):
            head += piece
        check(b'"role":"assistant","content":""' in head, "then the role")
        waiting.close()


def log_probabilities_of_chosen_tokens():
    first = _ask(max_tokens=3, logprobs=5, return_token_ids=True,
                 return_tokens_as_token_ids=True)["choices"][0]
    tops = [{int(k.removeprefix("token_id:")): v for k, v in t.items()}
            for t in first["logprobs"]["top_logprobs"]]
    chosen = [max(tops[0], key=lambda i: i), 300, 7, 300]  # one of them twice
    for k in (0, 1, 5):
        got = _ask(max_tokens=3, logprobs=k, logprob_token_ids=chosen,
                   return_tokens_as_token_ids=True)["choices"][0]["logprobs"]
        expect(got["token_logprobs"], first["logprobs"]["token_logprobs"], "those of the answer")
        for own, top, told in zip(first["token_ids"], tops, got["top_logprobs"]):
            told = {int(k.removeprefix("token_id:")): v for k, v in told.items()}
            expect(list(told), [own, *(i for i in dict.fromkeys(chosen) if i != own)],
                   "its own, then each that was asked for")
            check(all(told[i] == top[i] for i in told if i in top)
                  and all(v <= 0 for v in told.values()), f"{told}, {top}")
    fields = {"messages": [{"role": "user", "content": "Who are you?"}],
              "temperature": 0, "max_tokens": 3, "logprobs": True, "logprob_token_ids": chosen,
              "return_tokens_as_token_ids": True}
    whole = _ask(CHAT, **fields)["choices"][0]["logprobs"]["content"]
    for t in whole:
        names = [f"token_id:{i}" for i in dict.fromkeys(chosen)]
        expect([x["token"] for x in t["top_logprobs"]],
               [t["token"], *(x for x in names if x != t["token"])], "of a chat")
    events = [json.loads(x)["choices"][0]["logprobs"] for x in server.events(CHAT, **fields)[:-1]]
    expect([t for e in events if e for t in e["content"]], whole, "in a stream")
    scored = _ask(max_tokens=2, echo=True, logprobs=2,
                  logprob_token_ids=[5])["choices"][0]["logprobs"]["top_logprobs"]
    check(len(scored[1]) in (2, 3) and len(scored[-1]) in (1, 2),
          f"the prompt's are the likeliest: {scored}")
    _ask(max_tokens=1, logprobs=1, logprob_token_ids=list(range(128)))
    for more in ({"logprob_token_ids": list(range(129)), "logprobs": 1}, {
            "logprob_token_ids": [], "logprobs": 1}, {"logprob_token_ids": [-1], "logprobs": 1},
                 {"logprob_token_ids": [99999], "logprobs": 1}, {"logprob_token_ids": [5]},
                 {"logprob_token_ids": "5", "logprobs": 1},
                 {"logprob_token_ids": [5], "logprobs": 1, "echo": True, "max_tokens": 0}):
        _refused(400, "logprob_token_ids", **more)
    _refused(400, "logprob_token_ids", CHAT, logprob_token_ids=[5])


def a_prompt_is_scored_and_echoed():
    ids = server.post("/tokenize", prompt=PROMPT)[1]["tokens"]
    for max_tokens in (0, 1):
        c = _ask(max_tokens=max_tokens, echo=True, logprobs=1)["choices"][0]
        lp = c["logprobs"]
        expect(len(lp["tokens"]), len(ids) + max_tokens, "tokens that are scored")
        expect({len(v) for v in lp.values()}, {len(ids) + max_tokens}, "lists of equal length")
        check(lp["token_logprobs"][0] is None and all(x <= 0 for x in lp["token_logprobs"][1:]),
              f"{lp['token_logprobs']}")
        check(c["text"].startswith(PROMPT) and (max_tokens or c["text"] == PROMPT), c["text"])
    scored = _ask(max_tokens=0, prompt_logprobs=2)["choices"][0]["prompt_logprobs"]
    expect(len(scored), len(ids), "entries of prompt_logprobs")
    for i, (entry, value) in enumerate(zip(scored[1:], lp["token_logprobs"][1:])):
        check(abs(entry[str(ids[i + 1])]["logprob"] - value) < 1e-6,
              f"the same score in both forms: {entry}, {value}")
    expect(_ask(prompt=ids, max_tokens=0, echo=True)["choices"][0]["text"], PROMPT,
           "ids are echoed as text")


def ranks_are_those_among_all_tokens():
    every = _ask(prompt=[300, 7], max_tokens=1,
                 prompt_logprobs=5)["choices"][0]["prompt_logprobs"][1]
    expect(list(every)[0], "7", "a token's own entry is the first")
    expect(sorted(v["rank"] for v in every.values())[:5], list(range(1, 6)),
           "ranks of the likeliest")
    alone = _ask(prompt=[300, 7], max_tokens=1,
                 prompt_logprobs=0)["choices"][0]["prompt_logprobs"][1]
    expect((list(alone), alone["7"]["rank"]), (["7"], every["7"]["rank"]),
           "the same rank beside none")
    check(every["7"]["rank"] > 5, f"it is one that is not among them: {every['7']}")
    for token in every:
        got = _ask(prompt=[300, int(token)], max_tokens=1,
                   prompt_logprobs=0)["choices"][0]["prompt_logprobs"][1][token]
        expect(got, every[token], f"of token {token}")


def what_a_prompt_is_scored_with_is_limited():
    with Server("--max-logprobs", 1024, "--no-access-log") as s:
        ask = lambda **f: (lambda status, body: (status, body["error"][
            "param"] if status != 200 else None))(*s.post(COMPLETIONS, max_tokens=0, **f))
        most = {"prompt": [[5] * 1024], "prompt_logprobs": 1023, "n": 4}
        expect(ask(**most, stop_token_ids=[10**6]), (400, "stop_token_ids"),
               "the most is not refused for that")
        expect(ask(**{**most, "prompt": [[5] * 1024, [5]]}), (400, "prompt_logprobs"),
               "a token more")
        expect(ask(**{**most, "prompt_logprobs": 1024}), (400, "prompt_logprobs"),
               "one of each token more")
        expect(ask(**{**most, "n": 5}), (400, "prompt_logprobs"), "an answer more")
        del most["prompt_logprobs"]
        expect(ask(**most, logprobs=1024, echo=True), (400, "logprobs"), "of an echo")
        expect(ask(**most, logprobs=1024, stop_token_ids=[10**6]), (400, "stop_token_ids"),
               "which alone has them of the prompt")


def offsets_are_places_in_the_text():
    text = "D\u00fa bist \U0001f600 na\u00efve \u65e5\u672c, 3 cats."
    smile = server.post("/tokenize", prompt="\U0001f600", add_special_tokens=False)[1]["tokens"]
    check(len(smile) > 2, f"a character of several tokens: {smile}")
    for more in ({}, {"allowed_token_ids": smile, "temperature": 2, "seed": 1, "ignore_eos": True},
                 {"stop": " girl"}, {"stop": "e"}):
        for echo in (True, False):
            fields = {"prompt": text, "max_tokens": 12, "logprobs": 1, "echo": echo, **more}
            c = _ask(**fields)["choices"][0]
            lp, shown = c["logprobs"], c["text"]
            at = lp["text_offset"]
            check(at[0] == 0 and at == sorted(at), f"they begin with the text: {at}")
            for i, (begin, token) in enumerate(zip(at, lp["tokens"])):
                if "\ufffd" not in token and token[:2] != "<|" and begin < len(
                        shown) and "stop" not in more:
                    expect(shown[begin:begin + len(token)], token,
                           f"token {i} at {begin} of {shown!r}")
            if "stop" in more:
                free = _ask(**{**fields, "stop": None})["choices"][0]["logprobs"]
                expect(at, free["text_offset"][:len(at)], "a stop string moves nothing")
            named = _ask(**fields, return_tokens_as_token_ids=True)["choices"][0]["logprobs"]
            expect(named["text_offset"], at, "nor do names of tokens")
            events = [json.loads(x)["choices"][0]["logprobs"]
                      for x in server.events(COMPLETIONS, **{"temperature": 0, **fields})[:-1]]
            expect([x for e in events if e for x in e["text_offset"]], at, "in a stream")
    ids = [*server.post("/tokenize", prompt="A")[1]["tokens"], 0, 1,
           *server.post("/tokenize", prompt=" dog", add_special_tokens=False)[1]["tokens"]]
    for skip in (True, False):
        c = _ask(prompt=ids, max_tokens=0, echo=True, logprobs=0,
                 skip_special_tokens=skip)["choices"][0]
        expect(c["text"][c["logprobs"]["text_offset"][-1]:], c["logprobs"]["tokens"][-1],
               "behind special tokens")


def texts_of_several_tokens_have_one_entry():
    ids = list(range(128, 256))
    texts = [server.post("/detokenize", tokens=[i])[1]["prompt"] for i in ids]
    double = [i for i, t in zip(ids, texts) if t == "\ufffd"]
    check(len(double) > 1, "tokens of the same text")
    raw = server.request("POST", COMPLETIONS,
                         {"prompt": PROMPT, "max_tokens": 1, "temperature": 0, "logprobs": 1,
                          "logprob_token_ids": double, "allowed_token_ids": double})[2].decode()
    seen = []
    lp = json.loads(raw, object_pairs_hook=lambda pairs: seen.append([k for k, _ in pairs])
                    or dict(pairs))["choices"][0]["logprobs"]
    check(all(len(k) == len(set(k)) for k in seen), "no key twice")
    expect(lp["top_logprobs"], [{"\ufffd": lp["token_logprobs"][0]}], "the token's own stays")
    named = _ask(max_tokens=1, logprobs=1, logprob_token_ids=double, allowed_token_ids=double,
                 return_tokens_as_token_ids=True)
    expect(len(named["choices"][0]["logprobs"]["top_logprobs"][0]), len(double),
           "by their ids all are there")


def an_echo_of_many_log_probabilities_is_the_same_in_a_stream():
    fields = {"prompt": [[5 + i % 900 for i in range(n)] for n in (700, 3, 400)], "max_tokens": 3,
              "logprobs": 5, "echo": True, "temperature": 0, "n": 2}
    whole = _ask(**fields)["choices"]
    for c in whole:
        events = [json.loads(x)["choices"][0] for x in server.events(COMPLETIONS, **fields)[:-1]]
        mine = [e for e in events if e["index"] == c["index"]]
        expect("".join(e["text"] for e in mine), c["text"], "text")
        for name, values in c["logprobs"].items():
            expect([x for e in mine for x in e["logprobs"][name]], values, name)


def a_request_that_forbids_every_token_is_refused():
    cat, dog = (server.post("/tokenize", prompt=" " + x, add_special_tokens=False)[1]["tokens"]
                for x in ("cat", "dog"))
    expect((len(cat), len(dog)), (1, 1), "a token each")
    for path, more in ((COMPLETIONS, {}), (CHAT, {"messages": [{"role": "user", "content": "x"}]})):
        _refused(400, "allowed_token_ids", path, "allowed_token_ids: ", **more, max_tokens=9,
                 allowed_token_ids=cat + dog, bad_words=["cat", "dog"])
        _refused(400, "allowed_token_ids", path, **more, max_tokens=9, stream=True,
                 allowed_token_ids=cat, bad_words=["cat"])
        _refused(400, "allowed_token_ids", path, **more, max_tokens=9, min_tokens=2,
                 allowed_token_ids=cat, stop_token_ids=cat)
        _ask(path, **more, max_tokens=2, allowed_token_ids=cat + dog, bad_words=["cat"])
        later = {**more, "max_tokens": 9, "allowed_token_ids": cat, "bad_words": ["cat cat cat"],
                 "ignore_eos": True}
        _refused(400, "allowed_token_ids", path, "no token can be chosen", **later)
        events = server.events(path, **({"prompt": PROMPT} if not more else {}), **later)
        check('"code":400' in events[-2] and events[-1] == "[DONE]"
              and "cat" in "".join(events[:-2]), f"in a stream: {events[-3:]}")
    # While the log-probabilities of such a prompt are written, its two tokens arrive, and the
    # failure after them.
    slow = {"prompt": [[5 + i % 900 for i in range(700)]] * 2, "max_tokens": 9, "echo": True,
            "logprobs": 5, "temperature": 0, "allowed_token_ids": cat, "bad_words": ["cat cat cat"],
            "ignore_eos": True}
    for _ in range(5):
        events = server.events(COMPLETIONS, **slow)
        check('"code":400' in events[-2] and events[-1] == "[DONE]", f"it fails: {events[-2:]}")
        parts = [json.loads(x)["choices"][0] for x in events[:-2]]
        for index in range(2):
            text = "".join(p["text"] for p in parts if p["index"] == index)
            check(text.endswith(" cat cat"),
                  f"tokens in front of a failure that came with them: {text[-20:]!r}")
        check(all(p["finish_reason"] is None for p in parts), "and no end but the failure")


def sampling_fields_do_what_they_say():
    first = _ask(max_tokens=8, return_token_ids=True)["choices"][0]["token_ids"]
    expect(_ask(max_tokens=8, stop=" girl")["choices"][0]["text"], " there was a cheerful",
           "a stop string is cut off")
    got = _ask(max_tokens=8, stop=[" girl"], include_stop_str_in_output=True)["choices"][0]
    expect((got["text"], got["finish_reason"], got["stop_reason"]),
           (" there was a cheerful girl", "stop", " girl"), "or kept")
    got = _ask(max_tokens=8, stop_token_ids=[first[3]])["choices"][0]
    expect((got["finish_reason"], got["stop_reason"]), ("stop", first[3]), "a stop token")
    check(first[0] not in _ask(max_tokens=1, logit_bias={str(first[0]): -100},
                               return_token_ids=True)["choices"][0]["token_ids"], "bias")
    allowed = [first[1], first[2]]
    got = _ask(max_tokens=5, allowed_token_ids=allowed, ignore_eos=True,
               return_token_ids=True)["choices"][0]["token_ids"]
    check(set(got) <= set(allowed) and len(got) == 5, f"{got} are among {allowed}")
    for words, gone, kept in ((["girl"], "girl", ""), ([" girl"], "girl", ""),
                              (["   girl"], "girl", ""), (["a cheerful"], "a cheerful", "was a"),
                              (["no", "named Nora"], "named Nora", "girl named"),
                              (["was"], "was", "")):
        for path in (COMPLETIONS, CHAT):
            got = _ask(path, max_tokens=12, bad_words=words, n=2,
                       **({} if path == COMPLETIONS
                          else {"messages": [{"role": "assistant", "content": PROMPT}],
                                "add_generation_prompt": False, "continue_final_message": True}))
            for c in got["choices"]:
                text = c["text"] if path == COMPLETIONS else c["message"]["content"]
                check(gone not in text and (path == CHAT or kept in text),
                      f"{text!r} without {words}")
    check("girl" in _ask(max_tokens=8, bad_words=["girls", "x girl"])["choices"][0]["text"],
          "other words stay")
    for fields in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1}):
        expect(_ask(temperature=2, seed=3, max_tokens=8, return_token_ids=True,
                    **fields)["choices"][0]["token_ids"], first, str(fields))
    plain = _ask(max_tokens=60, return_token_ids=True)["choices"][0]["token_ids"]
    for name, value in (("presence_penalty", 2), ("frequency_penalty", 2),
                        ("repetition_penalty", 1.5)):
        own = lines(call("run", "-m", DEMO, "--json", "-n", 60, "--" + name.replace("_", "-"),
                         value, PROMPT))[0]["output_ids"]
        got = _ask(max_tokens=60, return_token_ids=True, **{name: value})["choices"][0]["token_ids"]
        check(got == own and got != plain, f"{name}: {got}, run: {own}")
    a, b = (_ask(temperature=2, max_tokens=20)["choices"][0]["text"] for _ in range(2))
    check(a != b, "without a seed, answers differ")
    a, b = (_ask(temperature=2, max_tokens=20, seed=5, n=3)["choices"] for _ in range(2))
    expect([x["text"] for x in a], [x["text"] for x in b], "with one they do not")
    expect(a[1]["text"], _ask(temperature=2, max_tokens=20, seed=6)["choices"][0]["text"],
           "answer 1 has the next seed")
    for more in ({}, {"seed": 5}):
        a = _ask(prompt=[PROMPT] * 4, temperature=2, max_tokens=20, n=2, **more)["choices"]
        expect(len({x["text"] for x in a}), 8, f"equal prompts of a list draw apart {more}")
    for k in (3, 7):
        expect(a[k]["text"], _ask(temperature=2, max_tokens=20, seed=5 + k)["choices"][0]["text"],
               f"answer {k} of a list has the seed that follows by {k}")
    for seed in (2 ** 64 - 1, 2 ** 63, -2):
        expect(_ask(temperature=2, max_tokens=20, seed=seed)["choices"][0]["text"],
               _ask(temperature=2, max_tokens=20, seed=seed - 1, n=2)["choices"][1]["text"],
               f"the 64 bits of {seed}")
    expect(_ask(max_tokens=30, min_tokens=30, stop=" ")["usage"]["completion_tokens"], 30,
           "min_tokens")
    check(_ask(max_tokens=20, repetition_penalty=5)["choices"][0]["text"]
          != _ask(max_tokens=20)["choices"][0]["text"], "penalty")
    got = _ask(prompt=list(range(40, 60)), truncate_prompt_tokens=7, max_tokens=1,
               return_token_ids=True)["choices"][0]
    expect(got["prompt_token_ids"], list(range(53, 60)), "the end of the prompt stays")
    got = _ask(prompt=list(range(40, 60)), truncate_prompt_tokens=7, truncation_side="right",
               max_tokens=1, return_token_ids=True)
    expect(got["choices"][0]["prompt_token_ids"], list(range(40, 47)), "or its beginning")
    expect(_ask(prompt=[5] * 2000, truncate_prompt_tokens=-1,
                max_tokens=24)["usage"]["prompt_tokens"], 1000, "or what leaves room")
    got = server.post("/v1/chat/completions", truncate_prompt_tokens=-1, messages=[
        {"role": "user", "content": "a " * 3000}])[1]["usage"]
    expect((got["prompt_tokens"], got["completion_tokens"]), (1023, 1), "for one token without a limit")
    tokens = [server.post("/tokenize", messages=[
        {"role": "user", "content": "x"}, {"role": "assistant", **content},
        {"role": "user", "content": "y"}])[1].get("tokens")
              for content in ({"content": ""}, {"content": None}, {})]
    check(tokens[0] and tokens[0] == tokens[1] == tokens[2], f"a message without content: {tokens}")
    lp = _ask(max_tokens=2, logprobs=1,
              return_tokens_as_token_ids=True)["choices"][0]["logprobs"]["tokens"]
    expect(lp, [f"token_id:{i}" for i in first[:2]], "tokens by their ids")


def chat_fields_reach_the_template():
    ids = lambda **f: _ask(CHAT, max_tokens=1, return_token_ids=True, **f)["prompt_token_ids"]
    closed, opened = ids(add_generation_prompt=False), ids()
    check(len(opened) > len(closed) and opened[:len(closed)] == closed,
          "the assistant's turn is opened")
    left = ids(messages=[{"role": "user", "content": "Hi"},
                         {"role": "assistant", "content": "I am"}], add_generation_prompt=False,
               continue_final_message=True)
    text = server.post("/detokenize", tokens=left)[1]["prompt"]
    check(text.endswith("I am"), f"the last message is left open: {text!r}")
    for said in ("I am", "user", "", "a" * 300, "two words "):
        talk = [{"role": "user", "content": said or "x"},
                {"role": "assistant", "content": "yes " + said},
                {"role": "user", "content": said * 2 or "x"},
                {"role": "assistant", "content": said}]
        plain = lambda **f: server.post("/detokenize", tokens=server.post(
            "/tokenize", add_generation_prompt=False, **f)[1]["tokens"])[1]["prompt"]
        whole, marked = plain(messages=talk), plain(messages=talk[:3]
                                                    + [{"role": "assistant", "content": "\u2603"}])
        front = marked[:marked.index("\u2603")]
        left = plain(messages=talk, continue_final_message=True)
        check(whole.startswith(left) and left.rstrip() == (front + said).rstrip(),
              f"it is cut at its own text: {left!r} of {whole!r}")
    expect(server.post("/tokenize", messages=[
        {"role": "user", "content": "Who are you?"}])[1]["tokens"], opened, "/tokenize of a chat")
    _refused(400, "continue_final_message", CHAT, continue_final_message=True)


def paths_are_documented_for_machines():
    status, head, body = server.request("GET", "/openapi.json")
    expect((status, head["content-type"]), (200, "application/json"), "/openapi.json")
    paths = json.loads(body)["paths"]
    for path in (COMPLETIONS, CHAT, "/v1/models/{name}", "/openapi.json"):
        check(path in paths, f"{path} is documented")
    status, head, _ = server.request("GET", COMPLETIONS)
    expect((status, head["allow"]), (405, "POST"), "another method")


def offsets_of_logprobs_are_places_in_the_text():
    special = "<|user|>"
    for prompt in (PROMPT, special + "Hi" + special, [1, 435, 499]):
        for skip in (True, False):
            for echo in (True, False):
                c = _ask(prompt=prompt, max_tokens=4, logprobs=0, echo=echo,
                         skip_special_tokens=skip)["choices"][0]
                rows = list(zip(c["logprobs"]["tokens"], c["logprobs"]["text_offset"]))
                bad = [(token, at) for token, at in rows
                       if token != "<|bos|>" and c["text"][at:at + len(token)] != token]
                expect((bad, rows[0][1]), ([], 0), f"{prompt} {skip} {echo}: {c}")


def of_many_answers_the_likeliest_are_given():
    fields = {"temperature": 1.5, "seed": 4, "max_tokens": 10, "logprobs": 0,
              "prompt": [PROMPT, "A dog"]}
    mean = lambda c: sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"])
    every, best = _ask(n=6, **fields), _ask(n=2, best_of=6, **fields)
    wanted = [c for p in range(2) for c in sorted(every["choices"][6 * p:6 * p + 6], key=mean,
                                                  reverse=True)[:2]]
    check(len({mean(c) for c in every["choices"]}) == 12, "answers that can be told apart")
    expect([c["text"] for c in best["choices"]], [c["text"] for c in wanted],
           "the two likeliest of each prompt, best first")
    expect([c["index"] for c in best["choices"]], list(range(4)), "indexes")
    expect(best["usage"]["completion_tokens"], every["usage"]["completion_tokens"],
           "usage counts all")
    del fields["logprobs"]
    without = _ask(n=2, best_of=6, **fields)["choices"]
    expect([(c["text"], c["logprobs"]) for c in without], [(c["text"], None) for c in wanted],
           "without log-probabilities")
    expect([c["text"] for c in _ask(n=3, best_of=3, **fields)["choices"]],
           [c["text"] for c in _ask(n=3, **fields)["choices"]], "no more than n")


def null_is_no_limit():
    got = _ask(max_tokens=None, ignore_eos=True, prompt=[5] * 1000)
    expect((got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"]), (24, "length"),
           "null: to the end of the context")
    expect(_ask(ignore_eos=True)["usage"]["completion_tokens"], 16, "not given: 16")


def the_last_message_is_echoed():
    user, said = {"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": [
        {"type": "text", "text": "I am"}, {"type": "text", "text": "the"}]}
    going_on = {"add_generation_prompt": False, "continue_final_message": True}
    for messages, more, front in (([user], {}, ""), ([user, said], going_on, "I am\nthe"),
                                  ([user, said], {}, "I am\nthe"),
                                  ([user], {"add_generation_prompt": False}, "Who are you?")):
        fields = {"messages": messages, "max_tokens": 6, "temperature": 0, "n": 2, **more}
        plain, echoed = (_ask(CHAT, **fields, echo=e)["choices"] for e in (False, True))
        expect([c["message"]["content"] for c in echoed],
               [front + c["message"]["content"] for c in plain], f"an echo of {messages} {more}")
        parts = [json.loads(x)["choices"][0] for x in server.events(CHAT, **fields, echo=True)[:-1]]
        for i in range(2):
            mine = [p["delta"] for p in parts if p["index"] == i]
            expect("".join(d.get("content", "") for d in mine), echoed[i]["message"]["content"],
                   "the same in a stream")
            expect([d.get("role") for d in mine], ["assistant"] + [None] * (len(mine) - 1),
                   "the role comes first")


def an_answer_ends_where_the_context_does():
    for n, left in ((1000, 24), (1022, 2), (1023, 1)):
        for more in ({"max_tokens": left + 1}, {"max_tokens": 2 ** 31 - 1}, {"max_tokens": None},
                     {"max_tokens": left}):
            got = _ask(prompt=[5] * n, ignore_eos=True, **more)
            expect((got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"]),
                   (left, "length"), f"{more} behind {n} tokens")
    got = _ask(prompt=[[5] * 1000, [5] * 1020], ignore_eos=True, max_tokens=30, n=2)
    expect(got["usage"]["completion_tokens"], 2 * (24 + 4), "each prompt has its own room")
    _refused(400, "prompt", prompt=[[5] * 1000, [5] * 1024], max_tokens=1)
    n = server.post("/tokenize", messages=[{"role": "user", "content": "x"}])[1]["count"]
    ask = [{"role": "user", "content": "x"}]
    for fields in ({"max_tokens": 1024}, {"max_completion_tokens": 1024.0}):
        got = _ask(CHAT, messages=ask, ignore_eos=True, **fields)
        expect((got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"]),
               (1024 - n, "length"), f"chat {fields}")
    got = server.post("/v1/messages", messages=ask, max_tokens=4096, ignore_eos=True)[1]
    expect((got["usage"]["output_tokens"], got["stop_reason"]), (1024 - n, "max_tokens"),
           "messages")
    got = server.post("/v1/responses", input="x", max_output_tokens=4096, ignore_eos=True)[1]
    expect((got["usage"]["output_tokens"], got["incomplete_details"]),
           (1024 - n, {"reason": "max_output_tokens"}), "responses")
    status, got = server.post("/api/chat", messages=ask, stream=False,
                              options={"num_predict": 4096, "seed": 1.0, "temperature": 0})
    check(status == 200 and got["eval_count"] <= 1024 - n, f"Ollama's: {got}")
    long = [{"role": "user", "content": "x " * 1500}]
    for path, fields, words in (
            (CHAT, {"messages": long}, ("maximum context length is 1024 tokens",)),
            ("/v1/messages", {"messages": long, "max_tokens": 9},
             ("prompt is too long: ", " tokens > 1023 maximum")), ("/v1/responses", {
                 "input": "x " * 1500, "max_output_tokens": 9}, ("maximum context length",)),
            ("/api/chat", {"messages": long, "options": {"num_predict": 9}},
             ("maximum context length",)),
            ("/api/generate", {"prompt": "x " * 1500}, ("maximum context length",))):
        status, got = server.post(path, **fields)
        check(status == 400 and all(w in str(got["error"]) for w in words),
              f"{path}: {status} {got}")
    check(server.gauges()["num_requests_running"] == 0, "nothing runs")


def parts_of_contents_are_texts_of_all_kinds():
    def ids(content, role="user"):
        status, body = server.post("/tokenize", messages=[{"role": role, "content": content}])
        expect(status, 200, f"{content}: {body}")
        return body["tokens"]

    wanted = ids("a\nb")
    for role in ("user", "assistant"):
        plain = ids("a\nb", role)
        for kind, member in (("text", "text"), ("input_text", "text"), ("output_text", "text"),
                             ("refusal", "refusal"), ("thinking", "thinking")):
            expect(ids([{"type": kind, member: "a"}, {"type": "text", "text": "b"}], role), plain,
                   f"{kind} of {role}")
    for parts in (["a", "b"], [{"type": "text", "text": "a"}, {"type": "text", "text": None}, "b"],
                  [{"type": "refusal", "refusal": None},
                   {"type": "text", "text": "a", "annotations": []},
                   {"type": "text", "text": "b"}]):
        expect(ids(parts), wanted, f"{parts}")
    for part, word in (({"type": "text"}, "messages[0].content[0].text: expected a string"),
                       ({"type": "refusal", "text": "a"}, "content[0].refusal: expected a string"),
                       ({"type": "input_audio", "text": "a"}, "'input_audio' are not supported"),
                       ({"text": "a"}, "parts of type ''"), (5, "parts of type ''"),
                       ({"type": "thinking", "thinking": 5}, "thinking: expected")):
        _refused(400, "messages", CHAT, word, messages=[{"role": "user", "content": [part]}])
    got = _ask(CHAT, messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": [
        {"type": "output_text", "text": "Well"}, {"type": "text", "text": None},
        {"type": "refusal", "refusal": "so"}]}], add_generation_prompt=False,
               continue_final_message=True, echo=True, max_tokens=2)
    check(got["choices"][0]["message"]["content"].startswith("Well\nso"),
          f"an echo of parts: {got}")


def what_clients_write_differently_is_taken():
    wanted = _ask(CHAT, max_tokens=3, temperature=1, seed=1000)["choices"]
    message = '"messages":[{"role":"user","content":"Who are you?","name":null,"tool_calls":null}]'
    for body in (
            '{%s,"max_tokens":3.0,"seed":1000.0,"model":"","user":""}',
            '\ufeff{%s,"max_tokens":3,"seed":1e3,"stop":null,"tools":null}',
            '{%s,"max_tokens":3,"seed":1000,"logit_bias":null,"stream_options":null,"n":null,"response_format":null}'):
        status, _, text = server.request("POST", CHAT, (body % message).encode())
        check(status == 200 and json.loads(text)["choices"] == wanted, f"{body}: {status} {text}")
    check(json.loads(text)["model"] == "small", "the name that is served")
    for fields in ({"user": "u" * 5000}, {"tool_choice": {"type": "auto"}}, {"tool_choice": {"type": "none"}},
                   {"functions": []}, {"function_call": "none"}, {"function_call": "auto"}):
        got = _ask(CHAT, max_tokens=3, temperature=1, seed=1000, **fields)
        expect(got["choices"], wanted, f"with {fields}")
    for fields in ({"user": "u" * 65537}, {"tool_choice": {"type": "required"}},
                   {"tool_choice": {"type": "some"}}, {"functions": [{}]}, {"function_call": {"name": "f"}}):
        _refused(400, next(iter(fields)), CHAT, **fields)
    status, got = server.post("/api/embed", input=[])
    expect((status, got["embeddings"], got["prompt_eval_count"]), (200, [], 0), "vectors of no texts")
    expect(server.post("/v1/embeddings", input=[])[0], 400, "OpenAI's API wants texts")


def a_conversation_that_a_server_keeps_is_refused_by_its_code():
    """anthropic's tool_runner goes on without `thread` if the error has this code."""
    for thread in ({"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}):
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            status, got = server.post(path, messages=[{"role": "user", "content": "x"}], max_tokens=2,
                                      thread=thread)
            expect((status, got["error"]["details"]),
                   (400, {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}),
                   f"{path} with {thread}")
    _, got = server.post("/v1/messages", messages=[], max_tokens=2)
    check("details" not in got["error"], f"another error: {got}")


def a_stream_of_messages_begins_with_the_same_usage():
    """What it begins with does not depend on the prefix cache, or on the tokens that there are by then."""
    ask = {"messages": [{"role": "user", "content": "Once upon a time " * 20}], "max_tokens": 9,
           "temperature": 1, "seed": 3}
    n = server.post("/v1/messages/count_tokens", messages=ask["messages"])[1]["input_tokens"]
    starts, ends = [], []
    for _ in range(3):
        body = server.request("POST", "/v1/messages", {**ask, "stream": True})[2].decode()
        data = [json.loads(x[6:]) for x in body.split("\n") if x.startswith("data: ")]
        starts.append(data[0]["message"]["usage"])
        ends.append(next(x["usage"] for x in data if x["type"] == "message_delta"))
    expect(starts, [{"input_tokens": n, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                     "output_tokens": 0}] * 3, "usage of message_start")
    expect({x["output_tokens"] for x in ends}, {9}, "tokens in the end")
    check(ends[1]["cache_read_input_tokens"] > 0, f"the cache is reported in the end: {ends}")


def every_refusal_names_its_field():
    for fields, param in (({"max_tokens": -1}, "max_tokens"),
                          ({"temperature": "hot"}, "temperature"), ({"n": 129}, "n"),
                          ({"prompt": []}, "prompt"), ({"prompt": {"a": 1}}, "prompt"),
                          ({"prompt": [1, "a"]}, "prompt"),
                          ({"prompt": [[1], []]}, "prompt"), ({"prompt": [-1]}, "prompt"),
                          ({"prompt": [99999]}, "prompt"),
                          ({"prompt": [5] * 2000}, "prompt"),
                          ({"prompt": [5] * 1024, "max_tokens": 100}, "prompt"),
                          ({"prompt": ["x"] * 1025}, "prompt"), ({"logprobs": 6}, "logprobs"),
                          ({"stop": ""}, "stop"),
                          ({"stop": ["a"] * 65}, "stop"),
                          ({"logit_bias": {"9999": 1}}, "logit_bias"),
                          ({"logit_bias": {"a": 1}}, "logit_bias"),
                          ({"logit_bias": {"1": 101}}, "logit_bias"),
                          ({"stop_token_ids": [99999]}, "stop_token_ids"),
                          ({"allowed_token_ids": []}, "allowed_token_ids"),
                          ({"allowed_token_ids": [99999]}, "allowed_token_ids"),
                          ({"min_tokens": 20}, "min_tokens"),
                          ({"stream_options": {"include_usage": True}}, "stream_options"),
                          ({"priority": 1}, "priority"),
                          ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
                          ({"truncation_side": "top"}, "truncation_side"),
                          ({"suffix": "end"}, "suffix"), ({"best_of": 2, "n": 3}, "best_of"),
                          ({"best_of": 2, "stream": True}, "best_of"),
                          ({"best_of": 129}, "best_of"), ({"best_of": 0}, "best_of"),
                          ({"response_format": {"type": "yaml"}},
                          "response_format"), ({"bad_words": ["x"] * 257}, "bad_words"),
                          ({"bad_words": ["x" * 129]}, "bad_words"),
                          ({"bad_words": [""]}, "bad_words"), ({"bad_words": "x"}, "bad_words"),
                          ({"typical_p": 0}, "typical_p"), ({"top_n_sigma": -2}, "top_n_sigma"),
                          ({"xtc_probability": 2}, "xtc_probability"),
                          ({"dry_base": .5}, "dry_base"),
                          ({"dry_allowed_length": 1025}, "dry_allowed_length"),
                          ({"dry_sequence_breakers": "x"}, "dry_sequence_breakers"),
                          ({"dry_sequence_breakers": ["x" * 41]}, "dry_sequence_breakers"),
                          ({"dry_sequence_breakers": ["x"] * 33}, "dry_sequence_breakers"),
                          ({"use_beam_search": 1}, "use_beam_search"),
                          ({"num_beams": 33}, "num_beams"), ({"num_beams": 0}, "num_beams"),
                          ({"length_penalty": 101}, "length_penalty"),
                          ({"early_stopping": "always"}, "early_stopping")):
        _refused(400, param, **fields)
    for fields, param in (
            ({"messages": []}, "messages"), ({"messages": "hi"}, "messages"),
            ({"messages": [{"content": "x"}]}, "messages"),
            ({"messages": [{"role": "user",
                            "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]},
             "messages"), ({"top_logprobs": 2}, "top_logprobs"),
            ({"tool_choice": "required"}, "tool_choice"), ({"tools": [{}] * 129}, "tools"),
            ({"chat_template": "{{ 1 }}"}, "chat_template"), ({"max_tokens": 0}, "max_tokens"),
            ({"chat_template_kwargs": 3}, "chat_template_kwargs")):
        _refused(400, param, CHAT, **fields)
    _refused(404, "model", model="gpt-4", word="gpt-4")
    for fields, word in (({"min_tokens": 20}, "min_tokens: found 20, expected at most 16"),
                         ({"stop_token_ids": [99999]}, "stop_token_ids: found token 99999"),
                         ({"prompt": [5] * 2000},
                          "maximum context length is 1024 tokens. However, your request has 2000 input tokens. "),
                         ({"prompt": [5] * 1024, "max_tokens": None}, "no room for an answer"),
                         ({"prompt": [5] * 1025, "max_tokens": 0}, "has 1025 input tokens. ")):
        error = server.post(COMPLETIONS, **{"prompt": PROMPT, **fields})[1]["error"]
        check(word in error["message"], f"in the words of the request: {error}")
    for fields, param, word in (({"max_tokens": 10 ** 30}, "max_tokens", "whole number in ["),
                                ({"seed": -2 ** 63 - 1}, "seed", "64 bits"),
                                ({"seed": 2 ** 64}, "seed", "64 bits"),
                                ({"seed": 1.5}, "seed", "64 bits"),
                                ({"min_p": 10 ** 30}, "min_p", "number in ["),
                                ({"prompt": [10 ** 30]}, "prompt", "token ids"), ({"prompt": [
                                    "x"] * 1000, "n": 2}, "n", "2 answers to each of 1000 prompts"),
                                ({"prompt": ["x"] * 1000, "n": 2, "best_of": 3, "logprobs": None},
                                 "best_of", "3 answers to each")):
        error = server.post(COMPLETIONS, **{"prompt": PROMPT, **fields})[1]["error"]
        check(error["param"] == param and word in error["message"], f"{error}")
    called = [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
              {"type": "function_call_output", "call_id": "a", "output": "x"}]
    expect(server.post("/v1/responses", input=called)[1]["error"]["param"], "input",
           "what a response is made of")
    for body, word in ((b"{", "JSON"), (b"[]", "object"),
                       (b"[" * 100, "deeper"),
                       (b'{"prompt":"\xff"}', "0xff"), (b'{"temperature":NaN}', "JSON"),
                       (b"", "JSON"), (b"\xef\xbb\xbf", "JSON")):
        status, _, text = server.request("POST", COMPLETIONS, body)
        check(status == 400 and word in json.loads(text)["error"]["message"],
              f"{body[:40]}: {status} {text}")
    once, twice = (json.loads(server.request("POST", "/tokenize", body)[2])
                   for body in (b'{"prompt":"b"}', b'{"prompt":"a","prompt":"b"}'))
    expect(twice, once, "of a key that is there twice, the last one counts")
    expect(server.request("POST", COMPLETIONS, b"{}", {"Content-Type": "text/plain"})[0], 415,
           "another type than JSON")
    expect(server.request("GET", "/nowhere")[0], 404, "an unknown path")
    expect(server.request("GET", COMPLETIONS)[0], 405, "another method")
    for path in ("/", "/page/page.css"):
        expect((server.request("POST", path, b"{}")[0], server.request("POST", path, b"{}")[1].get(
            "allow")), (405, "GET, HEAD"), f"POST {path}")
    check(ROOT not in str(server.post(CHAT, messages=[{"role": "user"}])),
          "no path of this machine is told")


def types_of_bodies():
    host = f"127.0.0.1:{server.port}"
    bodies = {COMPLETIONS: b'{"prompt":"x","max_tokens":1}', "/tokenize": b'{"prompt":"x"}',
              "/abort_requests": b'{"request_ids":"x"}'}
    form, text = "application/x-www-form-urlencoded", "text/plain"
    for kind, origin, wanted in (("application/json", None, (200, 200)),
                                 ("Application/JSON; charset=utf-8", "http://x", (200, 200)),
                                 ("application/jsonx", None, (415, 200)), (form, None, (415, 200)),
                                 (text, "http://x", (415, 415)), (None, None, (200, 200)),
                                 (None, f"http://{host}", (200, 200)),
                                 (None, "http://x", (415, 415)), (None, "null", (415, 415)),
                                 (form, f"http://{host}", (415, 200)),
                                 (form, f"http://{host}.x", (415, 415))):
        head = {k: v for k, v in (("Content-Type", kind), ("Origin", origin)) if v}
        for path, body in bodies.items():
            got = server.raw(
                b"POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s"
                % (path.encode(), host.encode(),
                   "".join(f"{k}: {v}\r\n" for k, v in head.items()).encode(), len(body), body))
            expect(int(got.split()[1]), wanted[path != COMPLETIONS], f"{path} with {head}")


def what_changes_nothing_is_taken():
    before = _ask(max_tokens=3)["choices"]
    for fields in ({"user": "me"}, {"metadata": {}}, {"suffix": None}, {"suffix": ""},
                   {"best_of": 1}, {"response_format": {"type": "text"}}, {"no_such_field": [1]},
                   {"model": "small"}, {"model": "other"}, {"max_tokens": 3.0},
                   {"service_tier": "auto"}):
        expect(_ask(**{"max_tokens": 3, **fields})["choices"], before, f"with {fields}")
    _ask(max_tokens=1, no_such_field=2)
    said = lambda: sum("no_such_field" in x for x in server.log)
    while not said():  # A thread reads the log.
        time.sleep(.01)
    expect(said(), 1, "a field that is not known is said once")


def small_answers():
    expect(server.request("GET", "/health")[::2], (200, b""), "/health")
    expect(server.request("GET", "/ready")[0], 200, "/ready")
    expect(json.loads(server.request("GET", "/version")[2])["version"],
           call("--version").stdout.decode().split()[1], "/version")
    models = json.loads(server.request("GET", "/v1/models")[2])
    expect([(m["id"], m["object"], m["max_model_len"]) for m in models["data"]],
           [("small", "model", 1024), ("other", "model", 1024)], "names of the model")
    expect(json.loads(server.request("GET", "/v1/models/other")[2])["id"], "other", "one model")
    status, head, body = server.request("OPTIONS", "*")
    expect((status, head["allow"], body), (200, "GET, HEAD, POST, OPTIONS", b""),
           "the server itself")
    status, _, text = server.request("GET", "/v1/models/no%C3%A4ne")
    check(status == 404 and "`no\u00e4ne`" in json.loads(text)["error"]["message"],
          f"a model that is not served is named: {status} {text}")
    got = server.post("/tokenize", prompt="Hello", return_token_strs=True)[1]
    expect((got["count"], got["max_model_len"], got["token_strs"][-1]),
           (len(got["tokens"]), 1024, "Hello"), "/tokenize")
    expect(server.post("/detokenize", tokens=got["tokens"][1:])[1], {"prompt": "Hello"},
           "/detokenize")
    expect(server.post("/detokenize", tokens=[99999])[0], 400, "a token that is none")
    for path in ("/load", "/v1/health", "/v1/queue/status", "/v1/server_metrics", "/v1/config"):
        status, _, body = server.request("GET", path)
        check(status == 200 and isinstance(json.loads(body), dict), f"{path}: {status} {body}")
    expect(server.request("GET", "/v1/status/none")[0], 404, "a request that is not there")
    expect(server.request("HEAD", "/health")[0], 200, "HEAD")


def metrics_have_vllms_names_and_add_up():
    before, n = server.gauges(), 3
    for _ in range(n):
        _ask(max_tokens=5)
    after = server.gauges()
    grown = {k: after[k] - before[k] for k in after}
    expect((grown["generation_tokens_total"], grown["time_to_first_token_seconds_count"],
            grown["inter_token_latency_seconds_count"], grown["e2e_request_latency_seconds_count"],
            grown["request_prompt_tokens_sum"]), (5 * n, n, 4 * n, n, 5 * n), "sums")
    for name in ("num_requests_running", "num_requests_waiting",
                 "kv_cache_usage_perc", "prefix_cache_hits_total", "num_preemptions_total",
                 "request_queue_time_seconds_count", "prompt_tokens_total"):
        check(name in after, f"there is no vllm:{name}")
    text = server.request("GET", "/metrics")[2].decode()
    check('vllm:request_success_total{engine="0",model_name="small",finished_reason="length"}'
          in text, "labels")
    check('http_requests_total{handler="/v1/completions",method="POST",status="200"}' in text,
          "requests by route")


def _operators():
    """Returns {(figure, operator): value}, and the roofs."""
    text = server.request("GET", "/metrics")[2].decode()
    rows = re.findall(r'^gallop:operator_(\w+)_total\{engine="0",operator="(\w+)"\} (\S+)$', text,
                      re.M)
    return {(figure, name): float(x) for figure, name,
            x in rows}, dict(re.findall(r"^gallop:roof_(\w+)_per_second (\S+)$", text, re.M))


def operators_count_their_time_bytes_and_operations():
    with open(os.path.join(DEMO, "config.json")) as f:
        config = json.load(f)
    before, roof = _operators()
    used = _ask(max_tokens=5)["usage"]
    after, _ = _operators()
    names = ["norm", "qkv_projection", "rope", "attention", "out_projection", "mlp", "lm_head",
             "other"]
    expect(sorted(after), sorted((figure, name) for figure in ("seconds", "bytes", "flops")
                                 for name in names), "operators")
    grown = {key: after[key] - before[key] for key in after}
    check(all(grown["seconds", name] > 0 for name in names), f"each takes time: {grown}")
    expect(grown["flops", "lm_head"], 2 * config["vocab_size"] * config["hidden_size"]
           * used["completion_tokens"], "operations of the logits")
    check(grown["bytes", "mlp"] > 0 and grown["flops", "attention"] > 0 and grown["bytes", "rope"]
          == 0, f"what they need: {grown}")
    check(float(roof["bytes"]) > 1e8 and float(roof["flops"]) > 1e8,
          f"the roofs that --measure-roof found: {roof}")


def the_document_of_operations_has_the_metrics_that_there_are():
    there = set(re.findall(r"^# TYPE (\S+)", server.request("GET", "/metrics")[2].decode(), re.M))
    with open(f"{ROOT}/docs/SERVING.md") as f:
        text = f.read()
    named = {re.sub("_bucket$", "", x)
             for x in re.findall(r"(?:vllm|gallop):\w+|\bhttp_requests_total", text)}
    expect((sorted(named - there), sorted(there - named)), ([], []),
           "metrics that only docs/SERVING.md, or only the server has")


def requests_have_ids_and_can_be_ended_by_them():
    status, head, body = server.request("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 1},
                                        {"X-Request-Id": "mine-1"})
    expect((status, head.get("x-request-id"), json.loads(body)["id"]),
           (200, "mine-1", "cmpl-mine-1"), "an id of the header")
    expect(_ask(CHAT, max_tokens=1, request_id="two")["id"], "chatcmpl-two", "an id of the body")
    expect(server.request("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 1},
                          {"X-Request-Id": "x" * 128})[0], 200, "the longest")
    for bad in ("x" * 129, "x" * 4000, "a b", "\xe9"):
        status, head, _ = server.request("POST", COMPLETIONS, {"prompt": "x", "max_tokens": 1},
                                         {"X-Request-Id": bad})
        expect((status, head.get("x-request-id")), (400, None),
               f"an id that is too long or no word: {bad[:9]}")
    with Server("--no-access-log", model=patient_model()) as patient:
        s = patient.send(COMPLETIONS, {"Connection": "close"}, **HELD, n=64, request_id="long")
        check(patient.wait(lambda g: g["num_requests_running"] > 0), "it runs")
        check(json.loads(patient.request("GET", "/v1/status/long")[2])["request_id"] == "long",
              "it has a status")
        expect(patient.post("/abort_requests", request_ids=["long", "none"])[1], {"aborted": 1},
               "how many were ended")
        body = read_all(s)
        check(b'"finish_reason":"abort"' in body, f"{body[-300:]}")
        s.close()
        check(patient.is_free(), "and its rows are free")


def the_document_is_what_the_tables_say():
    with open(f"{ROOT}/docs/API.md") as f:
        check(f.read() == call("help", "--api").stdout.decode(),
              "docs/API.md is not `gallop help --api`: write it anew")


def wrong_options_are_said():
    expect_error(call("serve", "--host", "0.0.0.0"), 2, "--api-key", "--allow-no-keys")
    for key, says in (("two words", "printable"), ("", "0 characters")):
        expect_error(call("serve", "--api-key", key), 2, "--api-key", says)
    expect_error(call("serve", "--admin-api-key", ""), 2, "--admin-api-key", "0 characters")
    expect_error(call("serve", "--port", 0, "--served-model-name", "a", "--served-model-name", ""),
                 2, "--served-model-name", "a name")
    for name in ("a\tb", "a\nb", "\x7f"):
        expect_error(call("serve", "--port", 0, "--served-model-name", name), 2,
                     "--served-model-name", "control character")
    expect_error(call("serve", "--port", 65536), 2, "--port")
    expect_error(call("serve", "--port", server.port, "-m", DEMO), 1, "listen", "in use")
    # before a model is looked for
    expect_error(call("serve", "--port", server.port, "-m", "/no/such/model"), 1, "listen",
                 "in use")
    for wrong, says in (
            (("--default-chat-template-kwargs", "[]"), "object"),
            (("--served-model-name", ""), "a name"), (("--tool-call-parser", "foo"), "foo"),
            (("--reasoning-parser", "foo"), "foo"), (("--op-config", '{"mlp":"foo"}'), "foo"),
            (("--quant", "foo"), "foo"), (("--isa", "foo"), "foo"), (("--kv-sparse", "foo"), "foo"),
            (("--allowed-origins", "[1]"), "no string")):
        # before the address is bound
        expect_error(call("serve", "--port", server.port, *wrong), 2, wrong[0], says)
    expect_error(call("serve", "--max-bodies-bytes", 33554431), 2, "--max-bodies-bytes", "33554432")


try:
    run_all(list(globals().items()))
finally:
    check(server.end() == 0, "the server ends with 0")
