#!/usr/bin/env python3
"""test_forms.py - the other APIs beside OpenAI's chat and completions: their answers are those
of `gallop run`, whole and in events, in their own format, and unsupported fields are refused in
it. Standard library only; GALLOP_BIN names the program."""
import array
import base64
import json
import os
import shutil
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "test", "net"), os.path.join(ROOT, "test", "cli")]
import scripted  # noqa: E402
from _cli import DEMO, call, check, expect, lines, run_all  # noqa: E402
from _server import Server  # noqa: E402

MESSAGES, RESPONSES, EMBEDDINGS = "/v1/messages", "/v1/responses", "/v1/embeddings"
QUESTION = "Who are you?"
ASK = [{"role": "user", "content": QUESTION}]
N = 20

# Answers with its script, with hermes' marks of tool calls and reasoning.
HERMES = (
    "{# <tool_call> arguments </think> #}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls %}[{{ c.function.arguments.city }}]{% endfor %}{% endfor %}")
SCRIPTS = [["<call>", "<think>\nHm.", "\n</think>\n\nLet ", "me see.\n", "<tool", "_call>\n{\"na",
            "me\": \"get_", "weather\", \"argu", "ments\": {\"city\": ", "\"Par", "is\"",
            "}}\n</tool_call>"], ["<say>", "It ", "rains."]]
folder = tempfile.TemporaryDirectory()
scripted.make(folder.name, SCRIPTS, HERMES)
server = Server("--served-model-name", "small")
talker = Server("--dtype", "fp32", "--threads", 1, model=folder.name)
own = lines(call("run", "-m", DEMO, "--json", "--chat", "-n", N, QUESTION))[0]


def _answer(of, path, **fields):
    status, body = of.post(path, **fields)
    expect(status, 200, f"{path} {fields}: {str(body)[:300]}")
    return body


def _events(of, path, **fields):
    """Returns pairs of name and data of a stream. The name is also in the data."""
    status, head, body = of.request("POST", path, {**fields, "stream": True})
    expect((status, head["content-type"]), (200, "text/event-stream; charset=utf-8"),
           f"{path}: {body[:200]}")
    out = []
    for event in body.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        out.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        expect(out[-1][1]["type"], out[-1][0], "the name of an event")
    return out


# ---- Anthropic's Messages ----

def _message_of(events):
    """Returns the message that a client makes of the events."""
    message, names = None, [name for name, _ in events]
    expect((names[0], names[-2:]), ("message_start", ["message_delta", "message_stop"]), "events")
    for name, data in events:
        if name == "message_start":
            message = data["message"]
        elif name == "content_block_start":
            expect(data["index"], len(message["content"]), "index of a block")
            message["content"].append(data["content_block"] | (
                {"input": ""} if data["content_block"]["type"] == "tool_use" else {}))
        elif name == "content_block_delta":
            block, delta = message["content"][data["index"]], data["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking",
                   "input_json_delta": "input"}[delta["type"]]
            block[key] += delta["partial_json" if key == "input" else key]
        elif name == "content_block_stop" and message["content"][-1]["type"] == "tool_use":
            message["content"][-1]["input"] = json.loads(message["content"][-1]["input"])
        elif name == "message_delta":
            message.update(data["delta"], usage=message["usage"] | data["usage"])
    return message


def messages_say_what_run_says():
    fields = {"model": "small", "messages": ASK, "max_tokens": N, "temperature": 0}
    got = _answer(server, MESSAGES, **fields)
    expect(got["content"], [{"type": "text", "text": own["text"]}], "content")
    expect((got["type"], got["role"], got["model"], got["stop_sequence"]),
           ("message", "assistant", "small", None), "members")
    expect(got["stop_reason"], {"length": "max_tokens", "stop": "end_turn"}[own["finish_reason"]],
           "stop_reason")
    usage = got["usage"]
    expect((usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]),
           (len(own["prompt_ids"]) if "prompt_ids" in own else _count(ASK), len(own["output_ids"])),
           "usage")
    streamed = _message_of(_events(server, MESSAGES, **fields))
    for m in (got, streamed):
        m.pop("id"), m.pop("usage")
    expect(streamed, got, "a stream says the same")


def _count(messages, **fields):
    return _answer(server, MESSAGES + "/count_tokens", model="small", messages=messages,
                   **fields)["input_tokens"]


def tokens_of_messages_are_counted_as_they_are_rendered():
    system = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    chat = [{"role": "system", "content": "Be brief.\nBe kind."}, *ASK]
    expect(_count(ASK), server.post("/tokenize", messages=ASK)[1]["count"], "tokens")
    expect(_count(ASK, system=system), server.post("/tokenize", messages=chat)[1]["count"],
           "with a system message")
    turns = [*ASK, {"role": "assistant", "content": [{"type": "text", "text": "I am"}]}]
    check(_count(turns) < server.post(
        "/tokenize", messages=[*ASK, {"role": "assistant", "content": "I am"}])[1]["count"],
          "the last turn of the assistant is left open")


def messages_end_at_sequences_and_go_on_behind_a_beginning():
    text = own["text"]
    word = text.split(" ")[2]
    got = _answer(server, MESSAGES, messages=ASK, max_tokens=N, temperature=0,
                  stop_sequences=[word])
    expect((got["stop_reason"], got["stop_sequence"], got["content"][0]["text"]),
           ("stop_sequence", word, text.split(word)[0]), "stop")
    head = text.split(word)[0].rstrip()
    got = _answer(server, MESSAGES, messages=[*ASK, {"role": "assistant", "content": head}],
                  max_tokens=3, temperature=0)
    check(text[len(head):].startswith(got["content"][0]["text"]),
          f"{got['content']} goes on behind {head!r} in {text!r}")


def messages_have_thinking_and_calls_as_blocks():
    fields = {"messages": [{"role": "user", "content": "<call>"}], "max_tokens": 100,
              "temperature": 0, "tools": [{"name": "get_weather", "description": "d",
                                           "input_schema": {"type": "object"}}]}
    wanted = [{"type": "thinking", "thinking": "Hm.", "signature": ""},
              {"type": "text", "text": "Let me see."},
              {"type": "tool_use", "name": "get_weather", "input": {"city": "Paris"}}]
    for got in (_answer(talker, MESSAGES, **fields),
                _message_of(_events(talker, MESSAGES, **fields))):
        call_id = got["content"][-1].pop("id", "")
        check(call_id.startswith("call_"), "a call has an id")
        expect((got["content"], got["stop_reason"]), (wanted, "tool_use"), "blocks")
    got = _answer(talker, MESSAGES, **fields, thinking={"type": "disabled"})
    expect([b["type"] for b in got["content"]], ["text", "tool_use"], "thinking is left out")
    result = {"type": "tool_result", "tool_use_id": call_id,
              "content": [{"type": "text", "text": "<say>"}]}
    turns = [*fields["messages"], {"role": "assistant", "content": [
        *wanted[:2], wanted[2] | {"id": call_id}]}, {"role": "user", "content": [result]}]
    got = _answer(talker, MESSAGES, **fields | {"messages": turns})
    expect((got["content"], got["stop_reason"]),
           ([{"type": "text", "text": "It rains."}], "end_turn"), "the answer to a result")


def messages_are_refused_in_their_form():
    part = lambda **block: {"messages": [{"role": "user", "content": [block]}]}
    for fields, param in (
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "tool", "content": ""}]}, "messages"),
            (part(type="image", source={}), "messages"), (part(type="text"), "messages"),
            (part(), "messages"), (part(type="tool_result"), "messages"), ({"system": 5}, "system"),
            ({"max_tokens": 0}, "max_tokens"), ({"system": [{"type": "image"}]}, "system"),
            ({"thinking": {}}, "thinking"), ({"tool_choice": {"type": "tool"}}, "tool_choice"),
            ({"tools": [{"type": 5}]}, "tools"), ({"tools": [{"name": "f"}]}, "tools"),
            ({"stop_sequences": "x"}, "stop_sequences"), ({"mcp_servers": [{}]}, "mcp_servers"),
            ({"tools": [{"name": "f", "input_schema": {}}]}, "tools")):
        for path in (MESSAGES, MESSAGES + "/count_tokens"):
            if path != MESSAGES and param in ("max_tokens", "stop_sequences"):
                continue
            status, body = server.post(path, **{"messages": ASK, **fields})
            expect((status, body["type"], body["error"]["type"], body["error"]["param"]),
                   (400, "error", "invalid_request_error", param), f"{path} {fields}: {body}")
    for fields, status, kind in (({"model": "none"}, 404, "not_found_error"),):
        got = server.post(MESSAGES, **{"messages": ASK, **fields})
        expect((got[0], got[1]["error"]["type"]), (status, kind), f"{fields}")
    status, _, body = server.request("GET", MESSAGES)
    expect((status, json.loads(body)["type"]), (405, "error"), "another method")


# ---- OpenAI's Responses ----

def _response_of(events):
    """Returns the response at the end of a stream. Its items must be those that the events make."""
    expect([data["sequence_number"] for _, data in events], list(range(len(events))),
           "numbers of events")
    expect([name for name, _ in events[:2]], ["response.created", "response.in_progress"],
           "the first events")
    items, texts = [], {}
    for name, data in events[2:-1]:
        if name == "response.output_item.added":
            expect(data["output_index"], len(items), "index of an item")
            items.append(data["item"])
        elif name == "response.output_item.done":
            expect(data["item"]["id"], items[-1]["id"], "id of an item")
            items[-1] = data["item"]
        else:
            expect((data["output_index"], data["item_id"]), (len(items) - 1, items[-1]["id"]),
                   f"place of {name}")
        if name.endswith(".delta"):
            texts[len(items)] = texts.get(len(items), "") + data["delta"]
        if name.endswith("_text.done") or name.endswith("arguments.done"):
            expect(data["text" if name.endswith("_text.done") else "arguments"],
                   texts.get(len(items), ""), "text of an item")
    response = events[-1][1]["response"]
    expect(events[-1][0], "response." + response["status"], "the last event")
    expect(response["output"], items, "items at the end")
    return response


def responses_say_what_run_says():
    fields = {"model": "small", "input": QUESTION, "max_output_tokens": N, "temperature": 0}
    got = _answer(server, RESPONSES, **fields)
    expect(got["status"], {"length": "incomplete", "stop": "completed"}[own["finish_reason"]],
           "status")
    expect([(i["type"], i["role"], [p["text"] for p in i["content"]]) for i in got["output"]],
           [("message", "assistant", [own["text"]])], "output")
    expect((got["usage"]["input_tokens"], got["usage"]["output_tokens"]),
           (_count(ASK), len(own["output_ids"])), "usage")
    expect((got["store"], got["temperature"], got["max_output_tokens"]), (False, 0, N),
           "settings are said")
    streamed = _response_of(_events(server, RESPONSES, **fields))
    expect([i["content"] for i in streamed["output"]], [i["content"] for i in got["output"]],
           "a stream says the same")
    cut = _response_of(_events(server, RESPONSES, **fields | {"max_output_tokens": 3}))
    expect((cut["status"], cut["incomplete_details"]),
           ("incomplete", {"reason": "max_output_tokens"}), "an answer that is cut")
    items = [{"role": "developer", "content": "Be brief."}, {
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
    first = _answer(server, RESPONSES, **fields | {"input": items})["output"][0]["content"]
    expect(_answer(server, RESPONSES, **fields, instructions="Be brief.")["output"][0]["content"],
           first, "instructions")
    chat = server.post("/v1/chat/completions", messages=[{"role": "system", "content": "Be brief."},
                                                         *ASK], max_tokens=N, temperature=0)
    expect(first[0]["text"], chat[1]["choices"][0]["message"]["content"], "as a chat")


def responses_have_reasoning_and_calls_as_items():
    fields = {"input": "<call>", "max_output_tokens": 100, "temperature": 0,
              "tools": [{"type": "function", "name": "get_weather",
                         "parameters": {"type": "object"}, "strict": False}]}
    for got in (_answer(talker, RESPONSES, **fields),
                _response_of(_events(talker, RESPONSES, **fields))):
        thought, said, called = got["output"]
        expect((thought["type"], thought["content"][0]["text"]), ("reasoning", "Hm."), "reasoning")
        expect((said["type"], said["content"][0]["text"]), ("message", "Let me see."), "text")
        expect((called["type"], called["name"], json.loads(called["arguments"])),
               ("function_call", "get_weather", {"city": "Paris"}), "call")
        check(got["usage"]["output_tokens_details"]["reasoning_tokens"] in (1, 2),
              f"{got['usage']}")
    turns = [{"role": "user", "content": "<call>"}, *got["output"],
             {"type": "function_call_output", "call_id": called["call_id"], "output": "<say>"}]
    got = _answer(talker, RESPONSES, **fields | {"input": turns})
    expect([i["content"][0]["text"] for i in got["output"]], ["It rains."],
           "the answer to a result")


def responses_that_are_not_built_are_refused():
    for fields, param in (
            ({"input": []}, "input"), ({"input": [{"type": "item_reference", "id": "x"}]}, "input"),
            ({}, "input"),
            ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input"),
            ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
            ({"input": "x", "background": True}, "background"),
            ({"input": "x", "include": ["x"]}, "include"),
            ({"input": "x", "text": {"format": {"type": "json_schema"}}}, "text"),
            ({"input": "x", "truncation": "left"}, "truncation"),
            ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
            ({"input": "x", "tool_choice": "required"}, "tool_choice"),
            ({"input": "x", "reasoning": 5}, "reasoning")):
        status, body = server.post(RESPONSES, **fields)
        expect((status, body["error"]["param"]), (400, param), f"{fields}: {body}")
    expect(server.post(RESPONSES, input="x", store=True, max_output_tokens=1)[0], 200,
           "nothing is kept, and that is said")
    got = server.post(RESPONSES, {"X-Request-Id": 'a"\\b'}, input="x", max_output_tokens=1)[1]
    expect((got["id"], got["output"][0]["id"]), ('resp_a"\\b', 'msg_0_a"\\b'),
           "ids that JSON has to escape")


# ---- OpenAI's embeddings ----

def _hidden(text):
    """Returns the rows of the last layer, from `gallop logits`."""
    path = os.path.join(folder.name, "hidden.npy")
    r = call("logits", "-m", DEMO, "--hidden", path, text)
    expect(r.returncode, 0, f"logits: {r.stderr}")
    with open(path, "rb") as f:
        data = f.read()
    at = 10 + int.from_bytes(data[8:10], "little")
    layers, rows, n = eval(data[10:at])["shape"]
    values = array.array("f", data[at:])
    return [values[((layers - 1) * rows + i) * n:((layers - 1) * rows + i + 1) * n]
            for i in range(rows)]


def _vectors(of, **fields):
    got = _answer(of, EMBEDDINGS, **fields)
    expect([d["index"] for d in got["data"]], list(range(len(got["data"]))), "indexes")
    return [array.array("f", base64.b64decode(d["embedding"]) if isinstance(d["embedding"], str)
                        else d["embedding"]) for d in got["data"]]


def embeddings_are_the_hidden_states_of_the_model():
    texts = ["Once upon a time", "A dog", "x"]
    rows = [_hidden(t) for t in texts]
    for got in (_vectors(server, input=texts, normalize=False),
                _vectors(server, input=texts, normalize=False, encoding_format="base64")):
        expect(got, [r[-1] for r in rows], "those of the last token")
    with Server("--pooling", "mean") as other:
        wanted = [array.array("f", (sum(map(float, c)) / len(r) for c in zip(*r))) for r in rows]
        expect(_vectors(other, input=texts, normalize=False), wanted, "the mean of all")
    unit = _vectors(server, input=texts)
    for more in ({"encoding_format": "base64"}, {"normalize": True}, {"normalize": None},
                 {"normalize": True, "encoding_format": "base64"}):
        expect(_vectors(server, input=texts, **more), unit, f"as floats, normalized: {more}")
    for v, full in zip(unit, rows):
        length = sum(x * x for x in full[-1]) ** .5
        check(all(abs(a - b / length) < 1e-6 for a, b in zip(v, full[-1])), "their length is 1")
    ids = [server.post("/tokenize", prompt=t)[1]["tokens"] for t in texts]
    expect(_vectors(server, input=ids, normalize=False), [r[-1] for r in rows], "of ids")
    expect(_vectors(server, input=ids[0], normalize=False), [rows[0][-1]], "of one list of them")
    got = _answer(server, EMBEDDINGS, input=texts)
    expect((got["object"], got["usage"]["prompt_tokens"], got["usage"]["total_tokens"]),
           ("list", *[sum(map(len, ids))] * 2), "usage")
    for fields, param in (({"input": []}, "input"), ({}, "input"), ({"input": [5, 99999]}, "input"),
                          ({"input": "x", "dimensions": 8}, "dimensions"),
                          ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
                          ({"input": [5] * 2000}, "input")):
        status, body = server.post(EMBEDDINGS, **fields)
        expect((status, body["error"]["param"]), (400, param), f"{str(fields)[:60]}: {body}")


def many_embeddings_are_those_of_one_text():
    """Other threads write the answers, up to the largest number of texts; also for clients that
    disconnect meanwhile."""
    texts = [f"text {i % 40}" for i in range(1024)]
    wanted = {t: v for t, v in zip(texts[:40], (_vectors(server, input=t)[0] for t in texts[:40]))}
    for n in (10, 11, 1024):  # 192 numbers each
        expect(_vectors(server, input=texts[:n]), [wanted[t] for t in texts[:n]], f"{n} texts")
    expect(server.request("HEAD", "/health")[0], 200, "and others are served")
    sockets = [server.send(EMBEDDINGS, input=texts[:20]) for _ in range(20)]
    for i, s in enumerate(sockets):
        if i % 2:
            s.close()
    for s in sockets[::2]:
        s.settimeout(100)
        check(s.recv(100).startswith(b"HTTP/1.1 200"), "who stays is answered")
        s.close()
    check(server.is_free(), "and nothing is held")
    expect(len(server.post(EMBEDDINGS, input=texts + ["x"])[1]["error"]["param"]), 5,
           "one text too many")


# ---- Ollama ----

def _lines(of, path, **fields):
    status, head, body = of.request("POST", path, fields)
    expect((status, head["content-type"]), (200, "application/x-ndjson"), f"{path}: {body[:200]}")
    out = [json.loads(x) for x in body.decode().splitlines()]
    expect([x["done"] for x in out], [False] * (len(out) - 1) + [True], "the last line is done")
    return out


def ollama_says_what_run_says():
    options = {"temperature": 0, "num_predict": N}
    reason = own["finish_reason"]
    for path, fields, text in (("/api/chat", {"messages": ASK}, lambda x: x["message"]["content"]),
                               ("/api/generate", {"prompt": QUESTION}, lambda x: x["response"])):
        got = _answer(server, path, model="small:latest", stream=False, options=options, **fields)
        expect((text(got), got["done_reason"], got["eval_count"]),
               (own["text"], reason, len(own["output_ids"])), path)
        streamed = _lines(server, path, options=options, **fields)
        expect("".join(map(text, streamed)), own["text"], f"{path} in lines")
        expect((streamed[-1]["done_reason"], streamed[-1]["eval_count"]),
               (reason, len(own["output_ids"])), f"the end of {path}")
        check(streamed[-1]["eval_duration"] > 0 and streamed[-1]["total_duration"]
              >= streamed[-1]["eval_duration"], "times")
    plain = lines(call("run", "-m", DEMO, "--json", "-n", 8, "Once"))[0]["text"]
    got = _answer(server, "/api/generate", prompt="Once", raw=True, stream=False,
                  options={"temperature": 0, "num_predict": 8})
    expect(got["response"], plain, "a raw prompt")
    expect([m["name"] for m in json.loads(server.request("GET", "/api/tags")[2])["models"]],
           ["small"], "/api/tags")
    for path, fields, param in (
            ("/api/chat", {"messages": ASK, "options": {"top_p": 2}}, "options"),
            ("/api/chat", {"messages": ASK, "options": {"seed": "x"}}, "options"),
            ("/api/chat", {"messages": ASK, "format": "yaml"}, "format"),
            ("/api/generate", {"prompt": 5}, "prompt"), ("/api/chat", {"messages": {}}, "messages"),
            ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["x"]}]},
             "messages")):
        status, body = server.post(path, **fields)
        expect((status, body["param"], type(body["error"])), (400, param, str),
               f"{path} {fields}: {body}")


def ollama_options_that_are_not_built_are_logged():
    """The example of Ollama's documentation, with defaults written out."""
    every = {"num_keep": 5, "seed": 42, "num_predict": 4, "top_k": 20, "top_p": .9, "min_p": 0.0,
             "typical_p": .7, "repeat_last_n": 33, "temperature": .8, "repeat_penalty": 1.2,
             "presence_penalty": 1.5, "frequency_penalty": 1.0, "penalize_newline": True,
             "stop": ["\n", "user:"], "numa": False, "num_ctx": 1024, "num_batch": 2, "num_gpu": 1,
             "main_gpu": 0, "use_mmap": True, "num_thread": 8}
    with Server() as s:
        said = lambda name: sum(f"'options.{name}' is not supported and changes nothing" in line
                                for line in s.log)
        for _ in range(2):
            _answer(s, "/api/chat", messages=ASK, stream=False,
                    options={"num_predict": 1, "mirostat": 0, "typical_p": 1.0, "tfs_z": 1,
                             "repeat_last_n": -1, "seed": None, "typical": None})
        expect([said(n) for n in ("mirostat", "typical_p", "tfs_z", "repeat_last_n", "seed")],
               [0] * 5, "what asks for nothing")
        for _ in range(2):
            _answer(s, "/api/generate", prompt="A", stream=False, options=every)
            _answer(s, "/api/chat", messages=ASK, stream=False,
                    options={"num_predict": 1, "mirostat": 2, "tfs_z": .5})
        names = ("repeat_last_n", "penalize_newline", "numa", "main_gpu", "mirostat", "tfs_z")
        s.wait(lambda _: all(map(said, names)))
        expect([said(n) for n in names], [1] * 6, "each is said once")
        expect([said(n) for n in ("seed", "top_k", "typical_p", "num_ctx", "stop")], [0] * 5,
               "what counts, or need not")


def ollama_is_asked_for_nothing():
    """Ollama's clients load or unload a model in this way. A chat of OpenAI's API needs a
    message."""
    before = server.gauges()["generation_tokens_total"]
    for path, key in (("/api/generate", "response"), ("/api/chat", "message")):
        for fields in ({}, {"keep_alive": 0}, {"prompt": ""} if key == "response"
                       else {"messages": []}, {"stream": False, "model": "small"}):
            got = _answer(server, path, **fields)
            expect((got["done"], got["done_reason"], got["eval_count"]), (True, "load", 0),
                   f"{path} {fields}")
            expect(got[key], "" if key == "response" else {"role": "assistant", "content": ""},
                   "an empty answer")
        expect(server.post(path, model="none")[0], 404, "of another model")
    expect(server.gauges()["generation_tokens_total"], before, "nothing is computed")
    expect(server.post("/v1/chat/completions", messages=[])[0], 400, "elsewhere that is a fault")


def ollama_tells_what_is_served():
    get = lambda path, of=server: json.loads(of.request("GET", path)[2])
    tags, running = get("/api/tags")["models"], get("/api/ps")["models"]
    for m in tags + running:
        expect((m["name"], m["model"], m["details"]["family"], len(m["digest"])),
               ("small", "small", "llama", 64), "a model")
    expect((running[0]["context_length"], running[0]["size_vram"]), (1024, 0), "what runs")
    for body in ({"model": "small"}, {"name": "small:latest"}, {"model": "small", "verbose": True},
                 {}):
        shown = _answer(server, "/api/show", **body)
        expect((shown["model_info"]["general.architecture"],
                shown["model_info"]["llama.context_length"]), ("llama", 1024), "sizes")
        expect((shown["capabilities"], shown["details"]), (["completion"], tags[0]["details"]),
               "what it can")
        check("<|user|>" in shown["template"] or "message" in shown["template"], "its template")
    expect(_answer(talker, "/api/show")["capabilities"], ["completion", "tools", "thinking"],
           "calls and thinking")
    expect(_answer(talker, "/api/show")["template"], HERMES, "its template")
    version = get("/api/version")
    check(tuple(map(int, version["version"].split("."))) >= (0, 13, 4),
          "Codex takes no older version for Ollama's")
    expect(version["gallop"], get("/version")["version"], "that of the program")
    status, body = server.post("/api/show", model="none")
    expect((status, type(body["error"])), (404, str), "another model")
    expect(server.request("HEAD", "/")[0], 200, "how its clients look for a server")
    for method, path in (("POST", "/api/pull"), ("POST", "/api/push"), ("POST", "/api/create"),
                         ("POST", "/api/copy"), ("DELETE", "/api/delete"),
                         ("POST", "/api/blobs/sha256:00"), ("HEAD", "/api/blobs/sha256:00")):
        status, _, body = server.request(method, path, {} if method == "POST" else None)
        check(status == 501 and (method == "HEAD" or "/api/tags" in json.loads(body)["error"]),
              f"{method} {path}: {status} {body}")
    status, _, body = server.request("POST", "/api/nothing", {})
    expect((status, type(json.loads(body)["error"])), (404, str), "another path")
    status, _, body = server.request("GET", "/api/show")
    expect((status, type(json.loads(body)["error"])), (405, str), "another method")


def ollama_embeds():
    texts = ["Once upon a time", "A dog"]
    wanted = [list(v) for v in _vectors(server, input=texts)]
    got = _answer(server, "/api/embed", model="small:latest", input=texts,
                  options={"temperature": 0}, keep_alive="5m")
    expect([list(array.array("f", v)) for v in got["embeddings"]], wanted, "vectors of length 1")
    count = sum(len(server.post("/tokenize", prompt=t)[1]["tokens"]) for t in texts)
    expect((got["model"], got["prompt_eval_count"]), ("small:latest", count), "members")
    expect(_answer(server, "/api/embed", input=texts[0])["embeddings"], got["embeddings"][:1],
           "of one text")
    got = _answer(server, "/api/embeddings", prompt=texts[0])
    expect([array.array("f", got["embedding"])], _vectors(server, input=texts[0], normalize=False),
           "as it is")
    long = "Once upon a time there was a dog. " * 300
    whole = server.post("/tokenize", prompt=long)[1]["tokens"]
    for path, field in (("/api/embed", "input"), ("/api/embeddings", "prompt")):
        got = _answer(server, path, **{field: long})
        vector = got["embeddings"][0] if path == "/api/embed" else got["embedding"]
        expect([array.array("f", vector)], _vectors(server, input=whole[:1024], normalize=path
                                                    == "/api/embed"), "the end is cut off")
    for path, fields, param in (("/api/embed", {"input": long, "truncate": False}, "input"),
                                ("/api/embed", {}, "input"),
                                ("/api/embed", {"input": "x", "dimensions": 8}, "dimensions"),
                                ("/api/embeddings", {"prompt": ["x"]}, "prompt"),
                                ("/api/embeddings", {}, "prompt")):
        status, body = server.post(path, **fields)
        expect((status, body["param"], type(body["error"])), (400, param, str),
               f"{path} {str(fields)[:50]}: {body}")
    expect(_answer(server, "/api/embed", input=[])["embeddings"], [], "vectors of no text")
    expect(server.post("/api/embed", model="none", input="x")[0], 404, "another model")


def the_tokenizer_is_told_of_on_demand():
    expect(server.request("GET", "/tokenizer_info")[0], 404, "by itself it is not")
    check("/tokenizer_info" not in json.loads(server.request("GET", "/openapi.json")[2])["paths"],
          "nor is there such a path")
    template = os.path.join(folder.name, "own.jinja")
    with open(template, "w", encoding="utf-8") as f:
        f.write("{{ messages[0].content }}")
    for options, wanted in (([], None),
                            (["--chat-template", template], "{{ messages[0].content }}")):
        with Server("--enable-tokenizer-info-endpoint", "--api-key", "k", *options) as s:
            expect(s.request("GET", "/tokenizer_info")[0], 401, "not without a key")
            status, _, body = s.request("GET", "/tokenizer_info",
                                        headers={"Authorization": "Bearer k"})
            info = json.loads(body)
            expect((status, info["eos_token"], info["bos_token"]), (200, "<|end|>", "<|bos|>"),
                   "texts of tokens")
            check("message" in info["chat_template"] and info["tokenizer_class"],
                  "template and class")
            check(wanted is None or info["chat_template"] == wanted,
                  f"the template that is used: {info['chat_template']}")
            expect(s.request("POST", "/tokenizer_info", {}, {"Authorization": "Bearer k"})[0], 405,
                   "another method")


def a_tokenizer_without_a_limit_is_told_of():
    """Its model_max_length has 31 digits."""
    limit = 1000000000000000019884624838656
    model = os.path.join(folder.name, "unlimited")
    shutil.copytree(DEMO, model)
    path = os.path.join(model, "tokenizer_config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    os.remove(path)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**config, "model_max_length": limit}, f)
    with Server("--enable-tokenizer-info-endpoint", model=model) as s:
        expect(json.loads(s.request("GET", "/tokenizer_info")[2])["model_max_length"], limit,
               "the limit")


def ollama_has_thinking_and_calls():
    fields = {"messages": [{"role": "user", "content": "<call>"}],
              "options": {"temperature": 0, "num_predict": 100},
              "tools": [{"type": "function",
                         "function": {"name": "get_weather", "parameters": {"type": "object"}}}]}
    for got in ([_answer(talker, "/api/chat", stream=False, **fields)],
                _lines(talker, "/api/chat", **fields)):
        expect("".join(x["message"].get("thinking", "") for x in got), "Hm.", "thinking")
        expect("".join(x["message"]["content"] for x in got), "Let me see.", "content")
        calls = [x["message"]["tool_calls"] for x in got if "tool_calls" in x["message"]]
        expect(calls, [[{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]],
               "calls")
        expect([x["done"] for x in got], [False] * (len(got) - 1) + [True], "done")
        if len(got) > 1:  # Clients leave the loop at the line with "done".
            expect(got[-1]["message"], {"role": "assistant", "content": ""},
                   "the message of the line that says done")
            check("tool_calls" in got[-2]["message"],
                  "calls come right before the line that says done")
    # num_predict ends the answer inside the tool call: the arguments are still an object.
    cut = _answer(talker, "/api/chat", stream=False,
                  **{**fields, "options": {"temperature": 0, "num_predict": 8}})
    expect((cut["message"]["tool_calls"], cut["done_reason"]),
           ([{"function": {"name": "get_weather", "arguments": {"arguments": '{"city": '}}}],
            "length"), "a call that is cut")


def ollama_leaves_thinking_out_where_it_is_not_wanted():
    for think, wanted in ((None, "Hm."), (True, "Hm."), ("low", "Hm."), (False, "")):
        for path, fields in (("/api/chat", {"messages": [{"role": "user", "content": "<call>"}]}),
                             ("/api/generate", {"prompt": "<call>"})):
            fields = {**fields, "options": {"temperature": 0, "num_predict": 3}, "think": think}
            for got in ([_answer(talker, path, stream=False, **fields)],
                        _lines(talker, path, **fields)):
                thought = "".join(x.get("message", x).get("thinking", "") for x in got)
                said = "".join(x["message"]["content"] if path == "/api/chat" else x["response"]
                               for x in got)
                expect((thought, said.strip()), (wanted, "Let me see."), f"{path}, think {think}")
                check(thought or not any("thinking" in x.get("message", x) for x in got),
                      f"no empty thinking: {got}")


def _prompt_tokens(answer):
    """Returns the tokens of the prompt. Anthropic's API counts cached ones separately."""
    usage = answer.get("usage", answer)
    return (usage.get("prompt_tokens") or usage.get("prompt_eval_count") or
            usage["input_tokens"] + usage.get("cache_read_input_tokens", 0))


def variables_of_the_request_go_before_those_of_the_server():
    """The template writes as many words as its variable says."""
    path = os.path.join(folder.name, "variables.jinja")
    with open(path, "w", encoding="utf-8") as f:
        f.write(
            "{{ messages[-1].content }}{{ ' cat' * (words or 0) }}{{ ' cat' * (more or 0) }}"
            "{% if reasoning_effort == 'high' %}{{ ' cat' * 9 }}{% endif %}{% if enable_thinking %}{{ ' cat' * 20 }}{% endif %}")
    ask, own = {"messages": [{"role": "user", "content": "Hi"}]}, {
        "words": 3, "more": 1, "reasoning_effort": "high", "enable_thinking": True}
    with Server("--chat-template", path, "--default-chat-template-kwargs", json.dumps(own)) as s:
        def count(path="/tokenize", **fields):
            got = _answer(s, path, **{**ask, **fields})
            return got["count"] if path == "/tokenize" else _prompt_tokens(got)

        plain = count(chat_template_kwargs={"words": 0, "more": 0, "reasoning_effort": "low",
                                            "enable_thinking": False})
        for kwargs, words in ((None, 33), ({}, 33), ({"words": 5}, 35),
                              ({"words": 0, "more": 7}, 36), ({"reasoning_effort": "low"}, 24),
                              ({"enable_thinking": False}, 13)):
            for path in ("/tokenize", "/v1/chat/completions", "/v1/messages"):
                more = {} if path == "/tokenize" else {"max_tokens": 1}
                expect(count(path, chat_template_kwargs=kwargs, **more) - plain, words,
                       f"{path} with {kwargs}")
        expect(count("/v1/chat/completions", reasoning_effort="low", max_tokens=1) - plain, 24,
               "a field of the request")
        expect(count("/v1/chat/completions", reasoning_effort="none", max_tokens=1) - plain, 4,
               "which switches thinking off")
        expect(count("/v1/chat/completions", reasoning_effort="low",
                     chat_template_kwargs={"reasoning_effort": "high"}, max_tokens=1) - plain, 33,
               "the template's own words go before it")


def input_tokens_and_cached_ones_make_the_prompt():
    with Server() as s:
        ask = {"messages": [{"role": "user", "content": "cat " * 600}]}
        n = _answer(s, "/v1/messages/count_tokens", **ask)["input_tokens"]
        for again in (False, True):
            for used in (_answer(s, MESSAGES, max_tokens=1, **ask)["usage"],
                         _message_of(_events(s, MESSAGES, max_tokens=1, **ask))["usage"]):
                expect(used["input_tokens"] + used["cache_read_input_tokens"], n, f"{used}")
        check(used["cache_read_input_tokens"] > 0, f"some were there: {used}")
        used = _answer(s, RESPONSES, input=ask["messages"][0]["content"],
                       max_output_tokens=1)["usage"]
        expect((used["input_tokens"], used["input_tokens_details"]["cached_tokens"] > 0,
                used["total_tokens"]), (n, True, n + 1), f"{used}")
        used = _answer(s, "/v1/chat/completions", max_tokens=1, **ask)["usage"]
        expect((used["prompt_tokens"], used["prompt_tokens_details"]["cached_tokens"] > 0,
                used["total_tokens"]), (n, True, n + 1), f"{used}")


def a_stop_sequence_inside_of_a_call_leaves_it_out():
    fields = {"messages": [{"role": "user", "content": "<call>"}],
              "max_tokens": 50, "temperature": 0, "stop_sequences": ["Par"],
              "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}]}
    whole = _answer(talker, "/v1/messages", **fields)
    expect(([b["type"] for b in whole["content"]], whole["stop_reason"], whole["stop_sequence"]),
           (["thinking", "text"], "stop_sequence", "Par"), "an answer that a stop sequence ends")
    streamed = _message_of(_events(talker, "/v1/messages", **fields))
    expect([b["type"] for b in streamed["content"]], ["thinking", "text"], "the same in events")


def thinking_is_switched_in_the_prompt():
    """The template writes ten words if thinking is off, twenty if it is on, and forty more if
    the effort is high."""
    path = os.path.join(folder.name, "thinking.jinja")
    with open(path, "w", encoding="utf-8") as f:
        f.write(
            "{{ messages[-1].content }}{% if enable_thinking is defined %}{{ ' cat' * (20 if enable_thinking else 10) }}"
            "{% if not enable_thinking and (reasoning is not defined or reasoning or thinking_budget != 0) %}"
            "{{ raise_exception('other names') }}{% endif %}"
            "{% if thinking != enable_thinking %}{{ raise_exception('two names, two values') }}{% endif %}{% endif %}"
            "{% if reasoning_effort == 'high' %}{{ ' cat' * 40 }}{% endif %}")
    messages = {"messages": [{"role": "user", "content": "Hi"}]}
    chat = {**messages, "max_tokens": 1}
    one = {"options": {"num_predict": 1}, "stream": False}
    with Server("--chat-template", path) as s:
        plain = _answer(s, "/v1/chat/completions", **chat)["usage"]["prompt_tokens"]
        for path, fields, more in (
                ("/v1/chat/completions", {**chat, "reasoning_effort": "none"}, 10),
                ("/v1/chat/completions", {**chat, "reasoning_effort": "high"}, 40),
                ("/v1/chat/completions", {**chat, "reasoning_effort": "low"}, 0),
                ("/v1/chat/completions", {**chat, "reasoning_effort": None}, 0),
                ("/v1/chat/completions",
                 {**chat, "chat_template_kwargs": {"enable_thinking": True, "thinking": True},
                                          # Variables of the template itself take precedence.
                                          "reasoning_effort": "none"}, 20),
                ("/v1/responses",
                 {"input": "Hi", "max_output_tokens": 1, "reasoning": {"effort": "none"}}, 10),
                ("/v1/responses",
                 {"input": "Hi", "max_output_tokens": 1, "reasoning": {"effort": "high"}}, 40),
                ("/v1/responses",
                 {"input": "Hi", "max_output_tokens": 1, "reasoning": {"effort": None}}, 0),
                ("/v1/messages", {**chat, "thinking": {"type": "disabled"}}, 10),
                ("/v1/messages", {**chat, "thinking": {"type": "adaptive"}}, 0),
                ("/v1/messages", {**chat, "thinking": {"type": "enabled"}}, 20),
                ("/v1/messages/count_tokens", {**messages, "thinking": {"type": "disabled"}}, 10),
                ("/api/chat", {**messages, **one}, 0),
                ("/api/chat", {**messages, **one, "think": False}, 10),
                ("/api/chat", {**messages, **one, "think": True}, 20),
                ("/api/chat", {**messages, **one, "think": "low"}, 20),
                ("/api/chat", {**messages, **one, "think": "high"}, 60),
                ("/api/generate", {"prompt": "Hi", **one, "think": False}, 10),
                ("/api/generate", {"prompt": "Hi", **one, "think": "high"}, 60)):
            got = _answer(s, path, **fields)
            expect(_prompt_tokens(got) - plain, more, f"words that {path} adds with {fields}")
        status, body = s.post("/api/chat", **messages, **one, think=5)
        expect((status, "think" in body["error"]), (400, True), "a number")


# ---- common to the APIs ----

def _texts_of_forms(fields, n=N):
    """Returns the answer of each API that has these fields of a chat. Ollama has them as
    options, with another name for one."""
    def by(path, text, has, rename={}, nested=None, **more):
        if not set(fields) <= has:
            return {}
        own = {rename.get(k, k): v for k, v in fields.items()}
        return {path: text(_answer(server, path, **more,
                                   **({nested: {**own, "num_predict": n}} if nested else own)))}
    common = {"temperature", "top_p", "top_k", "seed"}
    more = common | {"min_p", "typical_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "stop"}
    ollama = {"rename": {"repetition_penalty": "repeat_penalty"}, "nested": "options",
              "stream": False}
    return {**by("/v1/chat/completions", lambda x: x["choices"][0]["message"]["content"],
                 more | {"min_tokens", "ignore_eos"}, messages=ASK, max_tokens=n),
            **by(MESSAGES, lambda x: x["content"][0]["text"],
                 common | {"stop", "min_tokens", "ignore_eos"}, {"stop": "stop_sequences"},
                 messages=ASK, max_tokens=n),
            **by(RESPONSES, lambda x: x["output"][0]["content"][0]["text"],
                 common | {"min_tokens", "ignore_eos"}, input=QUESTION, max_output_tokens=n),
            **by("/api/chat", lambda x: x["message"]["content"], more, messages=ASK, **ollama),
            **by("/api/generate", lambda x: x["response"], more, prompt=QUESTION, **ollama)}


def a_field_of_sampling_does_the_same_in_every_form():
    base = {"temperature": 2, "seed": 5}
    plain = _texts_of_forms(base)
    expect((len(plain), len(set(plain.values()))), (5, 1), f"the same draw in every form: {plain}")
    for name, value, forms in (("temperature", 1, 5), ("seed", 6, 5), ("top_p", .3, 5),
                               ("top_k", 2, 5), ("min_p", .3, 3), ("typical_p", .3, 3),
                               ("frequency_penalty", 2, 3),
                               ("presence_penalty", 2, 3), ("repetition_penalty", 1.9, 3),
                               ("stop", [plain[MESSAGES][-9:-6]], 4)):
        found = _texts_of_forms({**base, name: value})
        expect((len(found), len(set(found.values()))), (forms, 1),
               f"{name} in every form that has it: {found}")
        check(found["/v1/chat/completions"] != plain["/v1/chat/completions"],
              f"{name} {value} changes the answer: {found}")
    plain = _texts_of_forms({"temperature": 0}, 300)  # it ends without a stop string
    for name, value in (("min_tokens", 300), ("ignore_eos", True)):
        found = _texts_of_forms({"temperature": 0, name: value}, 300)
        expect((len(found), len(set(found.values()))), (3, 1),
               f"{name} in every form that has it: {found}")
        check(found[MESSAGES].startswith(plain[MESSAGES]) and found[MESSAGES] != plain[MESSAGES],
              f"{name} makes it longer: {found} {plain}")


if __name__ == "__main__":
    try:
        run_all(list(globals().items()))
    finally:
        server.end()
        talker.end()
        folder.cleanup()
