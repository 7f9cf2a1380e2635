#!/usr/bin/env python3
"""batch.py - batches that continue where they were killed, results in OpenAI's format, fields
that determine the order, and the progress display."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from _cli import (DEMO, FAST_CLOCK, GALLOP, call, check, expect, expect_error, in_front, lines,
                  on_a_terminal, run_all)
from _server import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "net"))
import scripted  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()


def _file(name, *objects):
    path = os.path.join(FOLDER.name, name)
    with open(path, "wb") as f:
        f.write(b"".join(x if isinstance(x, bytes) else json.dumps(x).encode() + b"\n"
                         for x in objects))
    return path


def _read(path):
    with open(path, "rb") as f:
        return f.read()


def _batch(path, *more, **kwargs):
    return call("run", "-m", DEMO, "--quiet", "--json", "--batch", path, *more, **kwargs)


def _resume(path, out, *more):
    return _batch(path, "-o", out, "--resume", *more)


def _results(path):
    """Returns results without what differs between two runs."""
    return [{k: v for k, v in json.loads(x).items() if k != "timing"}
            for x in _read(path).decode().splitlines()]


REQUESTS = [{"prompt": f"Once upon a {x}", "max_tokens": 4,
             **({"custom_id": f"id-{x}"} if i % 2 else {})} for i,
            x in enumerate(("time", "day", "girl", "cat", "sea"))]


# ---- --resume ----

def what_a_killed_batch_has_written_is_kept_and_the_rest_is_added():
    batch, out = _file("r.jsonl", *REQUESTS), os.path.join(FOLDER.name, "r.out")
    expect((_resume(batch, out).returncode, _resume(batch, out).stdout), (0, b""),
           "status and output of a whole batch")
    whole = _results(out)
    expect([x["index"] for x in whole], list(range(5)), "results of a whole batch")
    text = _read(out)
    expect((_resume(batch, out).returncode, _read(out)), (0, text),
           "a batch that is complete stays as it is, byte for byte")
    ends = [i + 1 for i, c in enumerate(text) if c == 10]
    for n in [0, 1, ends[0] - 1, ends[0], ends[0] + 1, ends[1] - 10, ends[2] + 40, ends[4] - 1]:
        _file("r.out", text[:n])
        r = _resume(batch, out)
        expect((r.returncode, _results(out)), (0, whole),
               f"results after {n} of {len(text)} bytes were written: {r.stderr}")
        kept = sum(e <= n for e in ends) + (n == ends[4] - 1)
        expect(_read(out)[:ends[kept - 1] if kept else 0], text[:ends[kept - 1] if kept else 0],
               f"whole lines of {n} bytes stay as they are")


def results_in_any_order_are_matched_by_their_index():
    batch, out = _file("o.jsonl", *REQUESTS), os.path.join(FOLDER.name, "o.out")
    _resume(batch, out)
    rows = _read(out).splitlines(True)
    whole = _results(out)
    _file("o.out", rows[3], rows[1])
    expect(_resume(batch, out).returncode, 0, "status")
    expect([x["index"] for x in _results(out)], [3, 1, 0, 2, 4], "what is there stays in front")
    expect(sorted(_results(out), key=lambda x: x["index"]), whole, "results of all")


def results_that_are_errors_are_computed_again():
    bad = {"prompt": "x", "temperature": "hot"}
    batch, out = _file("e.jsonl", REQUESTS[0], bad, REQUESTS[1]), os.path.join(FOLDER.name, "e.out")
    for _ in range(2):
        expect(_resume(batch, out).returncode, 1, "status with a request that fails")
        expect(sorted((x["index"], "error" in x) for x in _results(out)),
               [(0, False), (1, True), (2, False)], "one result of each")
    _file("e.jsonl", REQUESTS[0], {"prompt": "x", "max_tokens": 1}, REQUESTS[1])
    expect(_resume(batch, out).returncode, 0, "status when it was mended")
    expect(sorted((x["index"], "error" in x) for x in _results(out)),
           [(0, False), (1, False), (2, False)], "results when it was mended")


def a_file_of_something_else_is_left_alone():
    batch = _file("x.jsonl", *REQUESTS)
    for content in (b"dear diary", b"dear diary\n", b"[1]\n", b'{"a":1}\n',
                    b'{"index":0}\n{"inde\n{"index":1}\n', b'{"index":0}\n\n'):
        out = _file("x.out", content)
        expect_error(call("run", "-m", DEMO, "--json", "--batch", batch, "-o", out, "--resume"), 1,
                     out, "is not a result")
        expect(_read(out), content, "the file")
    out = _file("x.out", {"index": 0, "custom_id": "other"})
    r = call("run", "-m", DEMO, "--json", "--quiet", "--batch", batch, "-o", out, "--resume")
    expect(r.returncode, 1, "status with the results of another batch")
    check(b"another batch" in r.stderr, f"results of another batch: {r.stderr}")


def resume_needs_a_batch_a_form_and_a_file():
    batch = _file("u.jsonl", *REQUESTS)
    for more in (["--batch", batch, "--json"], ["--batch", batch, "-o", "x"],
                 ["-o", "x", "--json", "text"]):
        expect_error(call("run", "-m", DEMO, "--resume", *more), 2, "--resume is for --batch")
    expect_error(call("run", "-m", DEMO, "--resume", "--batch", batch, "--json", "-o", "x",
                      "--force"), 2, "--force")


def a_killed_process_leaves_whole_lines_and_goes_on():
    slow = [{"prompt": f"Once {i}", "max_tokens": 100, "ignore_eos": True} for i in range(6)]
    batch, out = _file("k.jsonl", *slow), os.path.join(FOLDER.name, "k.out")
    command = [GALLOP, "run", "-m", DEMO, "--quiet", "--json", "--max-num-seqs", "1", "--batch",
               batch, "-o", out, "--resume"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as p:
        while p.poll() is None and not (os.path.exists(out) and _read(out).count(b"\n") >= 1):
            time.sleep(.01)
        p.kill()
    kept = _read(out)
    kept = kept[:kept.rfind(b"\n") + 1]
    check(kept, "a line is in the file while the batch goes on")
    expect((_resume(batch, out).returncode, _read(out)[:len(kept)]), (0, kept),
           "what was written stays")
    expect([x["index"] for x in _results(out)], list(range(6)), "all results")


# ---- OpenAI's format ----

def _openai(custom_id, url="/v1/chat/completions", **body):
    return {"custom_id": custom_id, "method": "POST", "url": url,
            "body": {"max_tokens": 4, "temperature": 0, **body}}


USER = [{"role": "user", "content": "Hello there"}]


def lines_of_openais_batch_files_are_answered_in_its_form():
    batch = _file("a.jsonl", _openai("a", model="m", messages=USER, temperature=0),
                  _openai("b", "/v1/completions", prompt="Once upon", n=2, temperature=1, seed=5),
                  _openai("c", messages=USER, temperature="hot"),
                  {"prompt": "Once upon", "max_tokens": 4})
    r = _batch(batch)
    a, b, c, own = lines(r)
    expect(r.returncode, 1, "status with a line that is wrong")
    for o in (a, b, c):
        expect((sorted(o), sorted(o["response"])), (["custom_id", "error", "id", "response"], [
            "body", "request_id", "status_code"]), "members of a line")
        check(o["error"] is None and o["id"].startswith("batch_req_"), f"id and error: {o}")
    expect(len({o["id"] for o in (a, b, c)} | {o["response"]["request_id"] for o in (a, b, c)}), 6,
           "ids are different")
    expect([(o["custom_id"], o["response"]["status_code"]) for o in (a, b, c)],
           [("a", 200), ("b", 200), ("c", 400)], "names and status")
    chat, want = a["response"]["body"], json.loads(call("run", "-m", DEMO, "--json", "--chat", "-n",
                                                        4, "Hello there").stdout)
    expect((chat["object"], chat["model"], [(x["message"]["content"], x["finish_reason"])
                                            for x in chat["choices"]]),
           ("chat.completion", "m", [(want["text"], "length")]), "a chat completion")
    n = len(want["prompt_ids"])
    expect([chat["usage"][x] for x in ("prompt_tokens", "completion_tokens", "total_tokens")],
           [n, 4, n + 4], "usage")
    text = b["response"]["body"]
    wants = [json.loads(call("run", "-m", DEMO, "--json", "-n", 4, "--temperature", 1, "--seed",
                             5 + i, "Once upon").stdout) for i in range(2)]
    expect([(x["index"], x["text"], x["finish_reason"]) for x in text["choices"]],
           [(i, x["text"], x["finish_reason"]) for i, x in enumerate(wants)], "completions")
    expect((text["object"], text["usage"]["completion_tokens"]),
           ("text_completion", sum(len(x["output_ids"]) for x in wants)), "of both answers")
    error = c["response"]["body"]["error"]
    expect((error["code"], error["type"], error["param"]), (400, "BadRequestError", "temperature"),
           f"an error: {error}")
    check(b"line 3: 400 temperature" in r.stderr, f"which the log says with its line: {r.stderr}")
    expect((own["index"], "output_ids" in own), (3, True), "a line of our own form among them")
    text = call("run", "-m", DEMO, "--quiet", "--batch",
                _file("t.jsonl", _openai("a", messages=USER, temperature=0))).stdout.decode()
    expect(text, f"--- 0\n{want['text']}\n", "without --json it is text")


def log_probabilities_have_openais_form():
    batch = _file("l.jsonl", _openai("a", messages=USER, logprobs=True, top_logprobs=2),
                  _openai("b", "/v1/completions", prompt="Once upon", logprobs=2))
    chat, text = (o["response"]["body"]["choices"][0] for o in lines(_batch(batch)))
    content = chat["logprobs"]["content"]
    expect("".join(x["token"] for x in content), chat["message"]["content"], "tokens")
    for x in content:
        expect((bytes(x["bytes"]).decode(), len(x["top_logprobs"]), x["top_logprobs"][0]["token"]),
               (x["token"], 2, x["token"]), "bytes and the likeliest")
        expect(x["top_logprobs"][0]["logprob"], x["logprob"],
               "the likeliest of a greedy answer is the token")
    found = text["logprobs"]
    expect("".join(found["tokens"]), text["text"], "tokens of a completion")
    expect(found["text_offset"], [sum(map(len, found["tokens"][:i])) for i in range(4)], "offsets")
    expect([list(x)[0] for x in found["top_logprobs"]], found["tokens"], "the likeliest")
    expect([x[t] for x, t in zip(found["top_logprobs"], found["tokens"])], found["token_logprobs"],
           "their log-probabilities")


def batches_of_openais_form_are_resumed_by_their_names():
    batch, out = _file("or.jsonl", *(_openai(x, messages=USER, max_tokens=2) for x
                                     in ("a", "b", "a", "c"))), os.path.join(FOLDER.name, "or.out")
    expect(_resume(batch, out).returncode, 0, "status")
    rows = _read(out).splitlines(True)
    _file("or.out", rows[3], rows[0], rows[1][:30])
    expect(_resume(batch, out).returncode, 0, "status of the rest")
    after = _read(out).splitlines(True)
    expect((after[:2], [json.loads(x)["custom_id"] for x in after]),
           ([rows[3], rows[0]], ["c", "a", "b", "a"]), "a name that stands twice is answered twice")
    _file("or.jsonl", _openai("a", messages=USER, temperature="hot"))
    os.unlink(out)
    for _ in range(2):
        _resume(batch, out)
        expect([json.loads(x)["response"]["status_code"] for x in _read(out).splitlines()], [400],
               "one result, which is an error")
    _file("or.jsonl", _openai("a", messages=USER, max_tokens=2))
    _resume(batch, out)
    expect([json.loads(x)["response"]["status_code"] for x in _read(out).splitlines()], [200],
           "an error is tried again, when its line was mended")


# The last message begins the script that the model answers with.
HERMES = "{# <tool_call> arguments </think> #}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content + '' }}{% endfor %}"
SCRIPTS = [["<call>", "Let ", "me see.\n", "<tool_call>\n{\"name\": \"f\", ",
            "\"arguments\": {\"city\": ", "\"Paris\"", "}}\n</tool_call>"],
           ["<two>", "<tool_call>{\"name\": \"f\", ", "\"arguments\": {}}",
            "</tool_call>\n<tool_call>{\"name\": \"g\", ",
            "\"arguments\": {\"x\": [1]}}</tool_call>"],
           ["<none>", "<tool_call>", "nothing", "</tool_call> of it"],
           ["<think>\n", "Hm, ", "well.", "\n</think>\n\n", "Pari", "s."],
           ["<word>", "na", "\u00efve <mark>", "<mark>", " K\u00f6", "ln"]]


def _unlike(choice):
    """Returns a choice without ids."""
    for x in choice.get("message", {}).get("tool_calls", []):
        check(x.pop("id"), "a call has an id")
    return choice


def a_line_of_openais_form_says_what_the_server_says():
    """Tool calls and reasoning, answers that end by length and by stop strings, and
    log-probabilities, of a scripted model."""
    model = os.path.join(FOLDER.name, "scripted")
    scripted.make(model, SCRIPTS, HERMES, special=["<mark>"])
    tools = {"tools": [{"type": "function", "function": {
        "name": x, "parameters": {"type": "object"}}} for x in ("f", "g")]}
    user = lambda text, **more: ("/v1/chat/completions",
                                 {"messages": [{"role": "user", "content": text}], **more})
    asked = [user("<call>", **tools), user("<call>", **tools, n=2),
             user("<call>", **tools, max_tokens=5), user("<call>", **tools, stop=["city"]),
             user("<call>"), user("<two>", **tools), user("<none>", **tools), user("<think>\n"),
             user("<think>\n", max_tokens=2),
             user("<word>", logprobs=True, top_logprobs=2, n=2), user("<word>", logprobs=True),
             *(("/v1/completions", {"prompt": "<word>", "logprobs": k, **more}) for k in (0, 2)
               for more in ({}, {"n": 2}, {"max_tokens": 3}, {"logit_bias": {"0": 99}}))]
    # The token of "Paris", inside the arguments of a call, ends the answer.
    asked.append(user("<call>", **tools, stop_token_ids=[262]))
    strict = {"tools": [{"type": "function", "function": {
        "name": x, "strict": True, "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}},
            "required": ["city"], "additionalProperties": False}}} for x in ("f", "g")]}
    named = {"type": "function", "function": {"name": "g"}}
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    asked += [user("<none>", **strict, tool_choice="required", max_tokens=400),
              user("<call>", **strict, tool_choice=named, max_tokens=400, temperature=1, seed=5),
              user("<none>", **strict, tool_choice=some, max_tokens=400, seed=7, n=2),
              user("<call>", **tools, tool_choice="none"), user("<call>", **tools, tool_choice="auto"),
              user("<call>", **strict, max_tokens=120),
              user("<two>", **tools, parallel_tool_calls=False),
              user("<think>\n", max_tokens=120, structured_outputs={"regex": "[0-9]{3}"}),
              user("<think>\n", **strict, tool_choice="required", max_tokens=400),
              user("<call>", **tools, structured_outputs={"regex": "Hello"}, max_tokens=120)]
    forced = len(asked) - 10
    wrong = [user("x", tool_choice="required"), user("x", **tools, tool_choice="some"),
             user("x", **tools, tool_choice={"type": "function", "function": {"name": "h"}}),
             user("x", **tools, tool_choice="required", structured_outputs={"regex": "a"}),
             user("x", **tools, parallel_tool_calls=1)]
    asked += wrong
    batch = _file("s.jsonl", *({"custom_id": str(i), "method": "POST", "url": url, "body": {
        "max_tokens": 40, "temperature": 0, **body}} for i, (url, body) in enumerate(asked)))
    found = [o["response"] for o in lines(call("run", "-m", model, "--dtype", "fp32", "--quiet",
                                               "--json", "--batch", batch))]
    ids = [x["id"] for o in found for c in o["body"].get("choices", [])
           for x in c.get("message", {}).get("tool_calls", [])]
    check(len(set(ids)) == len(ids) > 4 and all(re.fullmatch(r"call_\w{24}", x) for x in ids),
          f"each call has an id of its own: {ids}")
    with Server("--dtype", "fp32", "--no-access-log", model=model) as s:
        for response, (url, body) in zip(found, asked):
            status, own = s.post(url, **{"max_tokens": 40, "temperature": 0, **body})
            expect(response["status_code"], status, f"status of {body}: {response} {own}")
            if status != 200:
                continue
            expect([_unlike(x) for x in response["body"]["choices"]],
                   [_unlike(x) for x in own["choices"]], f"choices of {body}")
            for x in (own, response["body"]):
                # Lines that are computed together share less.
                x["usage"].pop("prompt_tokens_details")
            expect(response["body"]["usage"], own["usage"], f"usage of {body}")
    refused = [o["body"]["error"]["message"] for o in found[-len(wrong):]]
    for sentence, words in zip(refused, ("tool_choice: found no `tools`", "tool_choice",
                                         "tool_choice: found the function 'h'",
                                         "tool_choice: tool calls are forced, and structured_outputs",
                                         "parallel_tool_calls: found 1, expected true or false")):
        check(words in sentence, f"a refusal: {sentence}")
    choices = [o["body"]["choices"][0] for o in found[:-len(wrong)]]
    call_of = lambda c: [(x["function"]["name"], json.loads(x["function"]["arguments"]))
                         for x in c["message"].get("tool_calls", [])]
    expect((call_of(choices[0]), choices[0]["message"]["content"], choices[0]["finish_reason"]),
           ([("f", {"city": "Paris"})], "Let me see.", "tool_calls"), "a call")
    expect((call_of(choices[5]), choices[5]["message"]["content"]),
           ([("f", {}), ("g", {"x": [1]})], None), "two calls")
    cut = choices[forced - 1]
    expect((call_of(cut), cut["message"]["content"], cut["finish_reason"], cut["stop_reason"]),
           ([], "Let me see.", "stop", 262), "a call that a stop token cuts")
    calls = [call_of(x) for x in choices[forced:]]
    cities = {("f", "Rome"), ("f", "Oslo"), ("g", "Rome"), ("g", "Oslo")}
    for i in (0, 2, 5, 8):
        check(calls[i] and {(name, a["city"]) for name, a in calls[i]} <= cities, f"{i}: {calls}")
    expect({name for i in (1, 2) for name, _ in calls[i]}, {"g"}, "a function that was named")
    expect((calls[3], calls[4], calls[6]), ([], [("f", {"city": "Paris"})], [("f", {})]),
           "no call, a free one, and one of two")
    check(re.fullmatch("[0-9]{3}", choices[forced + 7]["message"]["content"].strip()),
          f"a constraint behind reasoning: {choices[forced + 7]}")
    expect([choices[forced + i]["message"].get("reasoning") for i in (7, 8)], ["Hm, well."] * 2,
           "reasoning in front of what is constrained")
    expect([x["finish_reason"] for x in choices[2:5]], ["length", "stop", "stop"],
           "a call that is cut by a length, by a stop string, and one without tools")
    expect((choices[7]["message"]["reasoning"], choices[7]["message"]["content"],
            choices[8]["message"]["content"]), ("Hm, well.", "Paris.", None), "reasoning")


def options_of_the_server_hold_for_lines_of_openais_form():
    """A scripted model answers lines with options that `serve` has, too."""
    model = os.path.join(FOLDER.name, "options")
    scripted.make(model, [["<call>", "{\"name\": \"f\", \"parameters\": ", "{}}"],
                          ["<think>", "Hm.", "</think>", "Paris."], ["<word>", "Rome"]],
                  HERMES.replace("m.content", "x|default('') + m.content"), special=["<mark>"])
    tools = [{"type": "function", "function": {"name": "f"}}]

    def ask(text, *options, **fields):
        batch = _file("op.jsonl", {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
                                   "body": {"messages": [{"role": "user", "content": text}],
                                            "temperature": 0, "max_tokens": 20, **fields}})
        r = call("run", "-m", model, "--dtype", "fp32", "--quiet", "--json", "--batch", batch, *options)
        return json.loads(r.stdout)["response"]

    def message(*args, **fields):
        return ask(*args, **fields)["body"]["choices"][0]["message"]

    expect(message("<call>", tools=tools).get("tool_calls"), None, "calls that the template does not show")
    expect([x["function"]["name"] for x in message("<call>", "--tool-call-parser", "llama3_json",
                                                   tools=tools)["tool_calls"]], ["f"],
           "calls in the format that is named")
    expect([message("<think>")[x] for x in ("reasoning", "content")], ["Hm.", "Paris."], "reasoning")
    expect(message("<think>", "--reasoning-field", "reasoning_content")["reasoning_content"], "Hm.",
           "reasoning in another field")
    expect(message("<think>", "--reasoning-parser", "none")["content"], "Hm.</think>Paris.",
           "reasoning as content")
    expect(message("word>", "--default-chat-template-kwargs", '{"x": "<"}')["content"], "Rome",
           "a variable of the template")
    expect([ask("<word>", "--served-model-name", "a", "--served-model-name", "b", model=x)["status_code"]
            for x in "abc"], [200, 200, 404], "names of the model")
    expect(ask("<word>", "--served-model-name", "mod\u00e8le", model="mod\u00e8le")["status_code"], 200,
           "a name with other letters than ASCII's")
    text = call("run", "-m", model, "--dtype", "fp32", "--quiet", "--tool-call-parser", "llama3_json",
                "--batch", _file("op.jsonl", _openai("a", max_tokens=20, tools=tools, messages=[
                    {"role": "user", "content": "<call>"}]))).stdout.decode()
    check(text.startswith("--- 0\n{") and '"tool_calls"' in text, f"calls without --json: {text}")
    marks = _openai("a", messages=[{"role": "user", "content": "<|user|>"}])
    n = [o["response"]["body"]["usage"]["prompt_tokens"] for more in ((), ("--user-text", "plain"))
         for o in lines(_batch(_file("ma.jsonl", marks), *more))]
    check(n[0] < n[1], f"tokens of a mark as a special token and as plain text: {n}")
    vectors = [json.loads(_batch(_file("po.jsonl", _openai("a", "/v1/embeddings", input="Once upon")),
                                 "--pooling", x).stdout)["response"]["body"]["data"][0]["embedding"]
               for x in ("last", "mean")]
    check(vectors[0] != vectors[1], "vectors of the last token and of all tokens")
    r = call("run", "-m", DEMO, "-n", 1, "--tool-call-parser", "none", "x")
    check(b"change nothing without --batch" in r.stderr, f"without a batch: {r.stderr}")


def a_batch_is_for_one_model():
    names = lambda *models: [o["response"]["status_code"] for o in lines(_batch(_file(
        "mo.jsonl", *(_openai("a", "/v1/completions", prompt="x", **({"model": m} if m else {}))
                      for m in models))))]
    expect(names("gpt", None, "gpt", "other", "demo"), [200, 200, 200, 404, 200],
           "the first name is one of the model")
    expect(names("demo", "gpt"), [200, 200], "its own name is none that a line gives")
    expect(names("demo", "gpt", "other"), [200, 200, 404], "one other name")
    expect(names(DEMO, "gpt"), [200, 200], "and so is its path")


def lines_of_openais_form_as_text():
    """Without --json each generated text is printed, or the whole answer where it is more than that."""
    some = [_openai("a", "/v1/completions", prompt=["Once", "The"]),
            _openai("b", "/v1/completions", prompt="Once", n=1, best_of=3, seed=5, temperature=1),
            _openai("c", "/v1/completions", prompt="Once", echo=True),
            _openai("d", "/v1/embeddings", input="Once"), _openai("e", messages=USER, n=2)]
    batch = _file("as.jsonl", *some)
    bodies = [o["response"]["body"] for o in lines(_batch(batch))]
    parts = re.split(r"^--- ([0-9.]+)\n", call("run", "-m", DEMO, "--quiet", "--batch",
                                               batch).stdout.decode(), flags=re.M)[1:]
    found = {k: v[:-1] for k, v in zip(parts[::2], parts[1::2])}
    expect(sorted(found), ["0.0", "0.1", "1", "2", "3", "4.0", "4.1"], "what is printed")
    expect([found["0.0"], found["0.1"]], [x["text"] for x in bodies[0]["choices"]],
           "the answers to both prompts")
    expect([json.loads(found[x])["choices"][0]["text"] for x in "12"],
           [x["choices"][0]["text"] for x in bodies[1:3]], "the best of three, and a prompt with its answer")
    expect(json.loads(found["3"])["data"], bodies[3]["data"], "a vector")
    expect([found["4.0"], found["4.1"]], [x["message"]["content"] for x in bodies[4]["choices"]],
           "two messages")


def options_of_sampling_are_defaults_of_lines():
    def ask(*options, url="/v1/completions", **body):
        batch = _file("de.jsonl", {"custom_id": "a", "method": "POST", "url": url, "body": body})
        return lines(_batch(batch, *options))[0]["response"]

    used = lambda r: r["body"]["usage"]["completion_tokens"]
    expect([used(ask("-n", 3, "--ignore-eos", prompt="Once")),
            used(ask("-n", 3, "--ignore-eos", prompt="Once", max_tokens=5)),
            ask("-n", 3, "--ignore-eos", url="/api/generate", prompt="Once")["body"]["eval_count"]],
           [3, 5, 3], "tokens with -n 3, or of the body")
    expect(len(ask("--logprobs", 1, prompt="Once", max_tokens=2)["body"]["choices"][0]["logprobs"]["tokens"]),
           2, "log-probabilities of completions")
    chat = ask("--logprobs", 1, url="/v1/chat/completions", messages=USER, max_tokens=2)["body"]
    expect([len(x["top_logprobs"]) for x in chat["choices"][0]["logprobs"]["content"]], [1, 1], "and of chats")
    text = lambda *options, **body: ask(*options, prompt="Once", max_tokens=6,
                                        **body)["body"]["choices"][0]["text"]
    expect([text("--seed", 5), text("--seed", 5)], [text(seed=5)] * 2, "a seed")
    expect(ask("--num-beams", 2, "--min-new-tokens", 5, url="/v1/embeddings", input="x")["status_code"], 200,
           "embeddings have no sampling")
    expect(ask("--regex", "[0-9]{2}", prompt="Once", max_tokens=9)["body"]["choices"][0]["text"].isdigit(),
           True, "a constraint")


def lines_of_another_batch_are_told_apart():
    batch = _file("an.jsonl", _openai("a\0b", "/v1/completions", prompt="Once"),
                  _openai("a\0c", "/v1/completions", prompt="Once", model="one"),
                  _openai("d", "/v1/completions", prompt="Once", model="two"))
    out = os.path.join(FOLDER.name, "an.out")
    for _ in range(2):
        expect(_resume(batch, out).returncode, 1, "status with a line of another model")
        expect([(x["custom_id"], x["response"]["status_code"]) for x in _results(out)],
               [("a\0b", 200), ("a\0c", 200), ("d", 404)], "a name stays refused when it is tried again")
    _file("an.out", {"index": 0, "output_ids": [1]})
    r = _resume(_file("an.jsonl", _openai("a", "/v1/completions", prompt="Once")), out)
    expect(r.returncode, 1, "status with a result of another form")
    check(b"another batch" in r.stderr, f"results of another batch: {r.stderr}")
    for line, word in (({**_openai("a", prompt="x"), "extra": 1}, "extra"),
                       ({**_openai("a", prompt="x"), "url": 5}, "each once"),
                       (b'{"custom_id":"a","method":"POST","url":"x","url":"x","body":{}}\n', "each once")):
        o, = lines(_batch(_file("ex.jsonl", line)))
        check(word in o["error"], f"what is wrong with {line}: {o}")


def a_signal_leaves_no_result_of_lines_of_openais_form():
    """Embeddings and answers that are cancelled have no lines."""
    more = [_openai("e", "/v1/embeddings", input=["Once " * 400] * 200) for _ in range(20)]
    batch = _file("si.jsonl", _openai("a", "/v1/completions", prompt="Once"), *more)
    out = os.path.join(FOLDER.name, "si.out")
    command = [GALLOP, "run", "-m", DEMO, "--quiet", "--json", "--threads", "1", "--batch", batch, "-o",
               out, "--resume"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
        while p.poll() is None and not (os.path.exists(out) and _read(out).count(b"\n") >= 1):
            time.sleep(.01)
        p.send_signal(signal.SIGINT)
        said = p.stderr.read()
    expect((p.returncode, {x["response"]["status_code"] for x in _results(out)}, b"400" in said),
           (-signal.SIGINT if p.returncode < 0 else 130, {200}, False), f"status and results: {said}")


# ---- order and sharing ----

def _order(*requests, more=()):
    """Returns the indices of answers in the order in which they arrived."""
    r = call("run", "-m", DEMO, "--quiet", "--max-num-seqs", 1, *more, "--batch",
             _file("p.jsonl", *({"prompt": "Once", "max_tokens": 2, **x} for x in requests)))
    return [int(x) for x in re.findall(r"^--- (\d+)$", r.stdout.decode(), re.M)]


def _together(*requests, more):
    """Returns the indices of answers of fixed lengths in the order in which they end. All begin
    as soon as they can."""
    batch = _file("to.jsonl", *({"ids": [5], "ignore_eos": True, **x} for x in requests))
    r = call("run", "-m", DEMO, "--quiet", "--batch", batch, *more)
    return [int(x) for x in re.findall(r"^--- (\d+)$", r.stdout.decode(), re.M)]


def priority_says_who_is_first():
    waiting = [{"priority": 3}, {"priority": 1}, {"priority": -2}, {"priority": 2}, {}]
    expect(_order(*waiting), [0, 1, 2, 3, 4], "answers by arrival")
    expect(_order(*waiting, more=["--scheduling-policy", "priority"]), [2, 4, 1, 3, 0],
           "answers by priority")
    expect(_order({}, {}, {}, more=["--scheduling-policy", "priority"]), [0, 1, 2],
           "answers of equal priority")


def users_take_turns_under_the_fair_policy():
    mine = [{"user": "me", "prompt": "Once upon a time there was " * 100} for _ in range(4)]
    expect(_order(*mine, {"user": "you"}), [0, 1, 2, 3, 4], "answers by arrival")
    order = _order(*mine, {"user": "you"}, more=["--scheduling-policy", "fair"])
    check(order.index(4) <= 1, f"somebody else is not behind all four of one user: {order}")


def cache_salt_parts_the_rows_that_are_shared():
    prompt = "Once upon a time there was a little girl who lived in a house near the sea. " * 40
    for salts, want in ((("a", "a", "b", None, None), [False, True, False, False, True]),
                        ((None, None), [False, True])):
        store = tempfile.mkdtemp(dir=FOLDER.name)
        batch = _file("s.jsonl", *({"prompt": prompt, "max_tokens": 2,
                                    **({"cache_salt": x} if x else {})} for x in salts))
        found = [o["timing"]["cached_tokens"] for o in lines(
            _batch(batch, "--max-num-seqs", 1, "--block-size", 16, "--kv-store", store))]
        expect([x > 100 for x in found], want, f"cached tokens with salts {salts}: {found}")


def a_folder_of_the_kv_store_stays_below_its_size():
    prompt = "Once upon a time there was a little girl who lived in a house near the sea. "
    batch = _file("z.jsonl",
                  *({"prompt": f"{i} " + prompt * 20, "max_tokens": 2} for i in range(6)))
    sizes = {}
    for size in (16, 0.0005):
        store = tempfile.mkdtemp(dir=FOLDER.name)
        expect(_batch(batch, "--kv-store", store, "--kv-store-size", size).returncode, 0,
               f"status with --kv-store-size {size}")
        sizes[size] = sum(os.path.getsize(os.path.join(d, f)) for d, _,
                          names in os.walk(store) for f in names)
    check(sizes[16] > 0.0005 * 2**30 >= sizes[0.0005] > 0,
          f"bytes of the folder by --kv-store-size: {sizes}")


def schedulers_order_a_batch():
    """There are a long answer and a short one; and a short answer and a prompt of many chunks,
    which is computed before it or together with it."""
    answers, chunks = [{"max_tokens": 300},
                       {"max_tokens": 5}], [{"max_tokens": 4}, {"ids": [5] * 900, "max_tokens": 1}]
    for scheduler, of_answers, of_chunks in (("continuous_batch", [1, 0], [0, 1]), (
            "continuous_prefill_first", [1, 0], [1, 0]), ("iterative", [0, 1], [0, 1])):
        more = ["--scheduler", scheduler, "--max-num-batched-tokens", 64]
        expect(_together(*answers, more=more), of_answers,
               f"a long answer and a short one with {scheduler}")
        expect(_together(*chunks, more=more), of_chunks,
               f"a short answer and a long prompt with {scheduler}")


def requests_begin_when_there_is_room_for_what_they_have_or_may_become():
    """1248 rows hold the first request and the second while the first runs, but not the largest
    size of both."""
    cache = ["--kv-cache-memory", 0.0015, "--block-size", 16, "--max-model-len", 1024]
    for admission, order in (("optimistic", [1, 0]), ("worst-case", [0, 1])):
        expect(_together({"max_tokens": 900}, {"max_tokens": 600}, more=[
            "--admission", admission, *cache]), order, f"answers with {admission}")


def chunks_of_prompts_are_as_long_as_streams_may_wait():
    long = {"ids": [5] * 900, "max_tokens": 1}
    for target, order in ((0.001, [0, 1]), (1000000, [1, 0])):
        expect(_together({"max_tokens": 30}, long, more=["--tpot-target-ms", target]), order,
               f"30 tokens and a long prompt with --tpot-target-ms {target}")


def lines_that_wait_are_limited():
    batch = _file("w.jsonl", *({"ids": [5] * 6, "max_tokens": 4} for _ in range(5)))
    for more, wait in ((["--max-num-queued-reqs", 2], 2), (["--max-num-queued-tokens", 10], 1),
                       ([], 5)):
        r = _batch(batch, "--max-num-seqs", 1, *more)
        refused = [o for o in lines(r) if "error" in o]
        check(all("the queue is full" in o["error"] for o in refused),
              f"refusals with {more}: {refused}")
        check((len(refused) > 0) == (wait < 5) and len(refused) <= 5 - wait,
              f"{len(refused)} of 5 lines are refused with {more}")


# ---- progress ----

def a_batch_shows_its_progress_on_a_terminal_and_nowhere_else():
    if not (front := in_front(FOLDER.name, FAST_CLOCK)):
        return
    batch = _file("g.jsonl", *({"prompt": f"Once {i}", "max_tokens": 60, "ignore_eos": True}
                               for i in range(4)))
    options = ["run", "-m", DEMO, "--json", "--max-num-seqs", 1, "--batch", batch]
    status, shown = on_a_terminal("stderr", *options, env=front)
    expect(status, 0, "status")
    check(re.search(rb"requests \[#* *\] [0-3]/4", shown),
          f"the progress of a batch: {shown[-300:]}")
    check(shown.endswith(b"\r\x1b[K"), f"the line is wiped at the end: {shown[-50:]!r}")
    expect(on_a_terminal("stderr", *options, "--quiet", env=front)[1], b"", "progress with --quiet")
    expect(call(*options, env=front).stderr, b"", "progress where there is no terminal")


def a_long_prompt_of_run_shows_its_progress_on_a_terminal_and_nowhere_else():
    if not (front := in_front(FOLDER.name, FAST_CLOCK)):
        return
    options = ["run", "-m", DEMO, "--greedy", "-n", 3, "--max-num-batched-tokens", 16, "word " * 500]
    status, shown = on_a_terminal("stderr", *options, env=front)
    expect(status, 0, "status")
    found = re.findall(rb"processing the prompt, tokens \[#* *\] (\d+)/(\d+)", shown)
    check(found and {int(n) for _, n in found} == {int(found[0][1])} and int(found[0][1]) > 500,
          f"the progress of a prompt: {shown[-300:]}")
    check(0 < int(found[0][0]) < int(found[0][1]), f"tokens that are processed: {found[0]}")
    check(b"\r\x1b[K" in shown.rpartition(b"]")[2], f"the line is wiped: {shown[-50:]!r}")
    expect(on_a_terminal("stderr", *options, "--quiet", env=front)[1], b"", "progress with --quiet")
    check(b"processing" not in call(*options, env=front).stderr, "progress where there is no terminal")


run_all(list(globals().items()))
