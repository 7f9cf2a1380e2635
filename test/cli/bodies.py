#!/usr/bin/env python3
"""bodies.py - the same bodies to `gallop serve`, to `gallop run --batch` and to gallop_answer() have
the same outcome: the status, and the answer or the error; and so have lines of `gallop run --batch` in
Gallop's own format, as far as their fields are those of completions. Standard library only."""
import json
import os
import re
import subprocess
import tempfile

from _cli import DEMO, GALLOP, call, check, expect, lines, run_all
from _server import Server

ANSWER = os.path.join(os.path.dirname(os.path.realpath(GALLOP)), "examples", "example_answer")
# What two answers to one body need not share: ids, times, and tokens that were computed before.
APART = re.compile("id|call_id|item_id|created|created_at|modified_at|completed_at|.*_duration|request_id"
                   "|cached_tokens|cache_read_input_tokens|seed")

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
RESPONSES, MESSAGES, COUNT = "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"
USER = [{"role": "user", "content": "What is 3 plus 4?"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}
# The least body of each path, which draws no tokens at random.
LEAST = {
    CHAT: {"messages": USER, "max_tokens": 4, "temperature": 0},
    TEXT: {"prompt": "Once upon", "max_tokens": 4, "temperature": 0},
    EMBED: {"input": "Once upon"},
    RESPONSES: {"input": "Hello", "max_output_tokens": 4, "temperature": 0},
    MESSAGES: {"messages": USER, "max_tokens": 4, "temperature": 0},
    COUNT: {"messages": USER},
    "/tokenize": {"prompt": "Once upon"},
    "/detokenize": {"tokens": [5, 6, 7]},
    "/api/generate": {"prompt": "Once", "stream": False, "options": {"temperature": 0, "num_predict": 4}},
    "/api/chat": {"messages": USER, "stream": False, "options": {"temperature": 0, "num_predict": 4}},
    "/api/embed": {"input": ["a", "b"]},
    "/api/embeddings": {"prompt": "a"},
    "/api/show": {},
}
# Bodies with fields that mean something together, and refusals.
MORE = [
    (CHAT, {"chat_template_kwargs": {"enable_thinking": False}}), (CHAT, {"reasoning_effort": "low"}),
    (CHAT, {"store": True, "metadata": {"a": "b"}}), (CHAT, {"service_tier": "auto"}),
    (CHAT, {"max_tokens": 12.0}), (CHAT, {"top_k": -1}), (CHAT, {"frequency_penalty": 3}),
    (CHAT, {"messages": [{"role": "developer", "content": "Be brief."}, *USER]}),
    (CHAT, {"messages": [{"role": "system", "content": "Be brief."}, *USER]}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}),
    (CHAT, {"messages": [*USER, {"role": "assistant", "content": "It is"}],
            "continue_final_message": True, "add_generation_prompt": False}),
    (CHAT, {"messages": []}), (CHAT, {"messages": [{"role": 5}]}), (CHAT, {"messages": None}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    (CHAT, {"tools": [TOOL]}), (CHAT, {"tools": [TOOL], "tool_choice": "required", "max_tokens": 60}),
    (CHAT, {"tools": [TOOL], "tool_choice": "none"}), (CHAT, {"tools": [TOOL], "tool_choice": "some"}),
    (CHAT, {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}),
    (CHAT, {"tool_choice": "required"}), (CHAT, {"tools": [{"type": "function"}]}),
    (CHAT, {"tools": [TOOL], "tool_choice": "required", "structured_outputs": {"regex": "a"}}),
    (CHAT, {"response_format": {"type": "json_object"}, "max_tokens": 40}),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
        "type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"]}}}, "max_tokens": 40}),
    (CHAT, {"response_format": {"type": "some"}}), (CHAT, {"response_format": 5}),
    (CHAT, {"structured_outputs": {"choice": ["yes", "no"]}}),
    (CHAT, {"structured_outputs": {"regex": "("}}), (CHAT, {"guided_regex": "[0-9]{3}", "max_tokens": 9}),
    (CHAT, {"logprobs": True, "top_logprobs": 2, "n": 2, "seed": 5, "temperature": 1}),
    (CHAT, {"top_logprobs": 2}), (CHAT, {"logprobs": True, "top_logprobs": 21}),
    (CHAT, {"stop": ["7", "e"]}), (CHAT, {"stop": 5}), (CHAT, {"logit_bias": {"5": 100}}),
    (CHAT, {"logit_bias": {"x": 1}}), (CHAT, {"n": 0}), (CHAT, {"n": 129}), (CHAT, {"best_of": 2}),
    (CHAT, {"max_tokens": 1 << 40}), (CHAT, {"max_tokens": 0}), (CHAT, {"seed": 1 << 63}),
    (CHAT, {"model": "other"}), (CHAT, {"model": "demo"}), (CHAT, {"temperature": "hot"}),
    (CHAT, {"use_beam_search": True, "n": 2}), (CHAT, {"echo": True}), (CHAT, {"documents": [{"a": "b"}]}),
    (CHAT, {"return_token_ids": True}), (CHAT, {"request_id": "a b"}), (CHAT, {"priority": 5}),
    (CHAT, {"no_such_field": 1}), (CHAT, {"function_call": "auto"}), (CHAT, {"min_tokens": 9}),
    (TEXT, {"prompt": ["a", "b"], "n": 2}), (TEXT, {"prompt": [1, 2, 3], "echo": True}),
    (TEXT, {"prompt": [[1, 2], [3]], "logprobs": 1}), (TEXT, {"prompt": [5, -1]}), (TEXT, {"prompt": ""}),
    (TEXT, {"prompt": []}), (TEXT, {"prompt": {}}), (TEXT, {"prompt": None}), (TEXT, {"suffix": "x"}),
    (TEXT, {"prompt": "a " * 3000}), (TEXT, {"prompt": "a " * 3000, "truncate_prompt_tokens": 5}),
    (TEXT, {"echo": True, "logprobs": 2, "max_tokens": 0}), (TEXT, {"prompt_logprobs": 1}),
    (TEXT, {"logprobs": 21}), (TEXT, {"best_of": 3, "n": 2, "temperature": 1, "seed": 5}),
    (TEXT, {"best_of": 1, "n": 2}), (TEXT, {"stop_token_ids": [5], "min_tokens": 2}),
    (TEXT, {"bad_words": ["the"]}), (TEXT, {"allowed_token_ids": [5, 6]}), (TEXT, {"allowed_token_ids": []}),
    (TEXT, {"add_special_tokens": False}), (TEXT, {"skip_special_tokens": False}), (TEXT, {"max_tokens": None}),
    (TEXT, {"num_beams": 2, "use_beam_search": True, "n": 2}), (TEXT, {"prompt": ["a"] * 1025}),
    (TEXT, {"temperature": 1.5, "seed": 7, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.2}),
    (EMBED, {"input": ["a", "b"]}), (EMBED, {"input": [[5, 6], [7]]}), (EMBED, {"input": []}),
    (EMBED, {"encoding_format": "base64"}), (EMBED, {"encoding_format": "x"}), (EMBED, {"normalize": False}),
    (EMBED, {"input": None}), (EMBED, {"dimensions": 8}), (EMBED, {"input": "a " * 3000}),
    (RESPONSES, {"instructions": "Be brief."}), (RESPONSES, {"text": {"format": {"type": "json_object"}}}),
    (RESPONSES, {"tools": [{"type": "function", "name": "f"}], "tool_choice": "required"}),
    (RESPONSES, {"previous_response_id": "x"}), (RESPONSES, {"input": 5}),
    (MESSAGES, {"system": "Be brief."}), (MESSAGES, {"max_tokens": None}), (MESSAGES, {"stop_sequences": ["7"]}),
    (MESSAGES, {"tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"},
                "max_tokens": 40}),
    ("/api/generate", {"format": "json"}), ("/api/generate", {"prompt": ""}), ("/api/embed", {"input": []}),
    ("/api/chat", {"messages": []}), ("/tokenize", {"messages": USER, "prompt": None}),
    ("/detokenize", {"tokens": [1 << 20]}), ("/v1/nowhere", {}), ("/v1/models", {}),
]


def _value(schema, wrong):
    """Returns a value that the JSON Schema of a field allows, or one of another type."""
    types = schema.get("type", "string" if "enum" not in schema else "enum")
    kind = [t for t in (types if isinstance(types, list) else [types]) if t != "null"][0]
    if wrong:
        return [5] if kind in ("boolean", "integer", "number", "enum") else 5
    if schema.get("enum"):
        return schema["enum"][0]
    least = schema.get("minimum", schema.get("exclusiveMinimum", 1))
    return {"boolean": True, "integer": int(least), "number": max(least, 0.5), "array": [],
            "object": {}}.get(kind, "x")


def _bodies(server):
    """Returns paths and bodies: each field of each path with a value that it takes and with one of
    another type, and the bodies above."""
    api = json.loads(server.request("GET", "/openapi.json")[2])
    out = [(path, body) for path, body in LEAST.items()]
    for path, body in LEAST.items():
        schema = api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for name, field in schema["properties"].items():
            if name in ("stream", "stream_options", "model", "name", "request_id"):
                continue  # Answers of a batch are whole; names and ids have bodies of their own.
            # Nothing is drawn at random.
            value = 0 if name == "temperature" else _value(field, False)
            out += [(path, {**body, name: x}) for x in (value, _value(field, True))]
    return out + [(path, {**LEAST.get(path, {}), **body}) for path, body in MORE]


def _plain(v):
    """Returns an answer without what two answers need not share."""
    if isinstance(v, dict):
        # Anthropic's input_tokens do not count those that were computed before.
        cached = {"input_tokens"} if "cache_creation_input_tokens" in v else set()
        return {k: _plain(x) for k, x in v.items() if not APART.fullmatch(k) and k not in cached}
    return [_plain(x) for x in v] if isinstance(v, list) else v


def a_body_has_one_outcome_at_three_doors():
    with Server("--no-access-log", "--served-model-name", "demo") as s:
        bodies = _bodies(s)
        check(len(bodies) > 400, f"every field has a body: {len(bodies)}")
        served = [s.post(path, **body) for path, body in bodies]
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "b.jsonl"), "w") as f:
            for i, (path, body) in enumerate(bodies):
                f.write(json.dumps({"custom_id": str(i), "method": "POST", "url": path, "body": body}) + "\n")
        batch = [o["response"] for o in lines(call(
            "run", "-m", DEMO, "--json", "--quiet", "--served-model-name", "demo", "--batch", f.name))]
    c = subprocess.run([ANSWER, DEMO], capture_output=True, timeout=600, input="".join(
        f"{path} {json.dumps(body)}\n" for path, body in bodies).encode())
    expect(c.returncode, 0, f"status of the C program: {c.stderr}")
    answers = [line.split(" ", 1) for line in c.stdout.decode().splitlines()]
    expect((len(batch), len(answers)), (len(bodies), len(bodies)), "answers")
    for (path, body), (status, whole), line, (code, answer) in zip(bodies, served, batch, answers):
        if path == "/v1/models":  # The server has another method there.
            status, whole = 404, line["body"]
        expect((line["status_code"], _plain(line["body"])), (status, _plain(whole)),
               f"run --batch, {path} {body}")
        expect((int(code), _plain(json.loads(answer))), (status, _plain(whole)),
               f"gallop_answer(), {path} {body}")
    statuses = {status for status, _ in served}
    check({200, 400, 404} <= statuses, f"answers and refusals: {statuses}")
    check(sum(status == 200 for status, _ in served) > 150, "many are answered")


# Fields of Gallop's own lines that are those of completions, with values of which some are refused.
SHARED = [{}, {"n": 2}, {"n": 2.0}, {"n": 0}, {"n": "x"}, {"best_of": 129}, {"seed": 5, "temperature": 1},
          {"logprobs": 2}, {"logprobs": 1025}, {"prompt_logprobs": 1, "n": 2}, {"prompt_logprobs": True},
          {"prompt_logprobs": 1025}, {"priority": "x"}, {"speculative": 1}, {"speculative": False}, {"user": 5},
          {"cache_salt": ""}, {"cache_salt": "a"}, {"stream": True}, {"stream": 1}, {"suffix": 5}, {"suffix": "x"},
          {"suffix": ""}, {"prompt": "a " * 3000}, {"stop": ["a"], "max_tokens": 40}, {"stop_token_ids": [499]},
          {"structured_outputs": {"regex": "[0-9]{3}"}}, {"structured_outputs": {"regex": "("}},
          {"structured_outputs": {"choice": []}}, {"structured_outputs": 5}, {"structured_outputs": {"some": 1}},
          {"guided_choice": ["yes", "no"]}, {"guided_regex": 5}, {"response_format": "json"},
          {"response_format": {"type": "json_object"}, "max_tokens": 40}, {"response_format": {"type": "some"}},
          {"num_beams": 2, "use_beam_search": True, "n": 2}, {"num_beams": 2, "top_k": 3},
          {"num_beams": 2, "logprobs": 1}, {"allowed_token_ids": [5, 6]}, {"bad_words": ["the"]},
          {"min_tokens": 3, "ignore_eos": True}, {"prompt": None, "ids": [1, 435, 499]}]


def own_lines_and_bodies_of_completions_have_one_outcome():
    plain = {"prompt": "Once upon", "max_tokens": 4, "temperature": 0}
    lines_in = [{**plain, **x} for x in SHARED]
    as_body = [{**{k: v for k, v in x.items() if k != "ids"}, **({"prompt": x["ids"]} if "ids" in x else {})}
               for x in lines_in]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.write("".join(json.dumps(x) + "\n" for x in lines_in))
        f.write("".join(json.dumps({"custom_id": "a", "method": "POST", "url": TEXT, "body": x}) + "\n"
                        for x in as_body))
        f.flush()
        out = lines(call("run", "-m", DEMO, "--json", "--quiet", "--batch", f.name))
    own = {}
    for o in out:
        if "index" in o:
            own.setdefault(o["index"], []).append(o)
    bodies = [o["response"] for o in out if "response" in o]
    expect((len(own), len(bodies)), (len(SHARED), len(SHARED)), "results")
    for i, (fields, body) in enumerate(zip(SHARED, bodies)):
        o = own[i][0]
        if body["status_code"] == 200:
            many = own[i] if len(own[i]) > 1 else o.get("choices", [o])
            expect([x.get("text") for x in many], [x["text"] for x in body["body"]["choices"]],
                   f"texts of an own line with {fields}")
            continue
        expect(o.get("error", "").partition(f"line {i + 1}: ")[2], body["body"]["error"]["message"],
               f"why an own line with {fields} is refused")
    check(sum(b["status_code"] == 400 for b in bodies) > 12, "some are refused")


def streams_are_refused_where_answers_are_whole():
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "b.jsonl"), "w") as f:
            f.write(json.dumps({"custom_id": "a", "method": "POST", "url": CHAT,
                                "body": {**LEAST[CHAT], "stream": True}}))
        line, = lines(call("run", "-m", DEMO, "--json", "--quiet", "--batch", f.name))
    expect((line["response"]["status_code"], line["response"]["body"]["error"]["param"]),
           (400, "stream"), "a line")


run_all(list(globals().items()))
