#!/usr/bin/env python3
"""serve_constraints.py - what answers of the server must look like, in every API that can say it."""
import json
import re
import tempfile

from _cli import check, expect, run_all
from _server import Server

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"},
                                           "size": {"enum": ["small", "large"]}},
          "required": ["city", "size"], "additionalProperties": False}
SAYS = [{"role": "user", "content": "Name a city."}]


def _is_city(text):
    v = json.loads(text)
    return re.fullmatch("[A-Z][a-z]{2,8}", v["city"]) and v["size"] in ("small", "large") and len(v) == 2


def _post(server, path, body):
    status, _, text = server.request("POST", path, body)
    return status, json.loads(text)


def every_api_takes_a_schema():
    with Server() as server:
        named = {"name": "city", "schema": SCHEMA, "strict": True}
        status, got = _post(server, "/v1/chat/completions", {
            "messages": SAYS, "temperature": 0, "max_tokens": 450,
            "response_format": {"type": "json_schema", "json_schema": named}})
        expect(status, 200, f"status of chat: {got}")
        check(_is_city(got["choices"][0]["message"]["content"]), f"chat: {got}")
        expect(got["choices"][0]["finish_reason"], "stop", "end of chat")
        status, got = _post(server, "/v1/completions", {
            "prompt": "A city: ", "max_tokens": 450, "temperature": 0, "structured_outputs": {"json": SCHEMA}})
        check(status == 200 and _is_city(got["choices"][0]["text"]), f"completions: {got}")
        status, got = _post(server, "/v1/responses", {
            "input": "Name a city.", "max_output_tokens": 450, "temperature": 0,
            "text": {"format": {"type": "json_schema", **named}}})
        check(status == 200 and _is_city(got["output"][-1]["content"][0]["text"]), f"responses: {got}")
        status, got = _post(server, "/api/chat", {
            "model": "demo", "messages": SAYS, "stream": False, "format": SCHEMA, "options": {"num_predict": 450, "temperature": 0}})
        check(status == 200 and _is_city(got["message"]["content"]), f"Ollama's chat: {got}")


def a_schema_beside_the_type_is_enforced():
    """As llama.cpp's server and llama-cpp-python do it; what has no effect is said once."""
    yes = {"const": "yes"}
    with Server() as server:
        for path, key in (("/v1/chat/completions", "messages"), ("/v1/completions", "prompt")):
            for form in ({"type": "json_object", "schema": yes}, {"type": "json_schema", "schema": yes},
                         {"type": "json_schema", "json_schema": {"name": "n", "schema": yes}, "schema": {}}):
                status, got = _post(server, path, {key: SAYS if key == "messages" else "x", "max_tokens": 40,
                                                   "temperature": 0, "response_format": form})
                choice = got["choices"][0]
                text = choice["text"] if key == "prompt" else choice["message"]["content"]
                expect((status, json.loads(text)), (200, "yes"), f"{path} with {form}")
        status, got = _post(server, "/v1/responses", {
            "input": "x", "max_output_tokens": 40, "text": {"format": {"type": "json_object", "schema": yes}}})
        expect(json.loads(got["output"][-1]["content"][0]["text"]), "yes", "Responses")
        status, got = _post(server, "/v1/chat/completions", {
            "messages": SAYS, "max_tokens": 4, "temperature": 0,
            "response_format": {"type": "json_object", "schema": None, "zzz": 1}, "stream": False})
        check(status == 200 and got["choices"][0]["message"]["content"].startswith("{"), f"any object: {got}")
        status, got = _post(server, "/v1/chat/completions", {
            "messages": SAYS, "response_format": {"type": "json_object", "schema": {"$ref": "http://x"}}})
        expect((status, got["error"]["param"]), (400, "response_format"), f"a schema that is not supported: {got}")
    expect(sum("response_format.zzz" in x for x in server.log), 1, "a member that has no effect")


def a_stream_has_the_text_of_the_whole_answer():
    with Server() as server:
        body = {"messages": SAYS, "temperature": 1, "seed": 9, "max_tokens": 60,
                "structured_outputs": {"regex": "[a-z]{3,9}(, [a-z]{3,9}){2}"}}
        status, whole = _post(server, "/v1/chat/completions", body)
        expect(status, 200, f"status: {whole}")
        text = whole["choices"][0]["message"]["content"]
        check(re.fullmatch("[a-z]{3,9}(, [a-z]{3,9}){2}", text), f"found {text!r}")
        status, _, stream = server.request("POST", "/v1/chat/completions", {**body, "stream": True})
        if isinstance(stream, bytes):
            stream = stream.decode()
        pieces = [json.loads(line[6:]) for line in stream.split("\n")
                  if line.startswith("data: {")]
        expect("".join(p["choices"][0]["delta"].get("content") or "" for p in pieces if p["choices"]), text,
               "joined stream")


def wrong_constraints_are_400_with_the_field():
    with Server() as server:
        for fields, param, sentence in (
                ({"response_format": {"type": "yaml"}}, "response_format", "expected text, json_object"),
                ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "http://x/y"}}}},
                 "response_format", "$ref"),
                ({"guided_regex": "(a"}, "guided_regex", "a group without )"),
                ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs",
                 "a second constraint")):
            status, got = _post(server, "/v1/chat/completions", {"messages": SAYS, **fields})
            expect(status, 400, f"status of {fields}")
            expect(got["error"]["param"], param, f"field that {fields} names")
            check(sentence in got["error"]["message"], f"{fields}: {got}")


def limits_met_while_answering_are_400_with_the_field():
    many = {"type": "string", "allOf": [{"pattern": f"^(.*[{c}].*){{3}}$"} for c in "abcdefghijklmnopqrst"]}
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
        "type": "object", "properties": {"a": many}, "required": ["a"], "additionalProperties": False}}}
    sentence = "the constraint on the answer has reached a limit: %sthe grammar is too complex"
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{{ tools | tojson if tools else '' }}"
                       "{% for m in messages %}{{ m.content }}{% endfor %}")
        template.flush()
        options = ["--tool-call-parser", "hermes", "--chat-template", template.name]
        _expect_limits(options, many, tool, sentence)


def _expect_limits(options, many, tool, limit):
    with Server(*options) as server:
        inner = {"type": "object", "properties": {"in/ner": tool["function"]["parameters"]}, "required": ["in/ner"]}
        for path, body, param, place in (
                ("/v1/completions", {"prompt": "x", "structured_outputs": {"json": many}}, "structured_outputs", ""),
                ("/v1/completions", {"prompt": "x", "guided_json": inner}, "guided_json",
                 "schema at /properties/in~1ner: "),
                ("/v1/chat/completions", {"messages": SAYS, "tools": [tool], "tool_choice": "required"}, "tools",
                 'function "f": schema at /tools/0/function/parameters: ')):
            sentence = limit % place
            status, got = _post(server, path, {**body, "max_tokens": 60})
            expect((status, got["error"]["param"]), (400, param), f"a limit of {param}: {got}")
            check(sentence in got["error"]["message"], f"sentence: {got}")
            status, _, text = server.request("POST", path, {**body, "max_tokens": 60, "stream": True})
            expect(status, 200, "status of a stream")
            errors = [json.loads(line[6:])["error"] for line in text.decode().split("\n")
                      if line.startswith("data: {") and "error" in json.loads(line[6:])]
            expect([(e["code"], e["type"]) for e in errors], [(400, "BadRequestError")], f"errors of a stream: {text}")
            check(sentence in errors[0]["message"], f"error of a stream: {errors}")


LEFT_OUT = ["JSON schema: the keyword $ref at /properties/city is not supported and is ignored"]


def keywords_that_are_left_out_are_warnings():
    """Of a stream, the event that ends an answer has them."""
    schema = {"type": "object", "properties": {"city": {"$ref": "http://x/y", "const": "A"}},
              "required": ["city"], "additionalProperties": False}
    named = {"name": "city", "schema": schema, "strict": False}
    asked = (("/v1/chat/completions", {"messages": SAYS, "response_format": {"type": "json_schema", "json_schema": named}}),
             ("/v1/completions", {"prompt": ["A", "B"], "n": 2,
                                  "response_format": {"type": "json_schema", "json_schema": named}}),
             ("/v1/responses", {"input": "Name a city.", "text": {"format": {"type": "json_schema", **named}}}))
    with Server() as server:
        for path, body in asked:
            for _ in range(2):  # compiled, and kept from before
                status, got = _post(server, path, body)
                expect((status, got.get("warnings")), (200, LEFT_OUT), f"status and warnings of {path}")
            text = server.request("POST", path, {**body, "stream": True})[2].decode()
            events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
            ends = [e.get("response", e) for e in events if e.get("type") == "response.completed"
                    or any(c["finish_reason"] for c in e.get("choices", []))]
            expect([e.get("warnings") for e in ends], [LEFT_OUT] * (4 if "prompt" in body else 1),
                   f"warnings in the last events of {path}")
            expect(text.count("is ignored"), len(ends), f"events of {path} with warnings")
        named["strict"] = True
        status, got = _post(server, *asked[0])
        expect((status, "$ref" in got["error"]["message"]), (400, True), "what is not left out is refused")
        named["schema"] = SCHEMA
        status, got = _post(server, *asked[0])
        check(status == 200 and "warnings" not in got, f"a schema without warnings: {got}")


# The answer begins inside reasoning. The model, which never learned the marks, would not end it.
REASONS = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}<think>\n{# ends with </think> #}")


def a_budget_ends_reasoning():
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(REASONS)
        template.flush()
        with Server("--chat-template", template.name, "--reasoning-parser", "qwen3") as server:
            body = {"messages": SAYS, "temperature": 0, "max_tokens": 40, "ignore_eos": True}
            _, plain = _post(server, "/v1/chat/completions", {**body, "max_tokens": 6})
            text = plain["choices"][0]["message"]["reasoning"]
            for budget in (0, 6):
                status, got = _post(server, "/v1/chat/completions", {**body, "thinking_token_budget": budget})
                expect(status, 200, f"status: {got}")
                message = got["choices"][0]["message"]
                expect(message.get("reasoning", ""), text if budget else "", f"reasoning of {budget} tokens")
                check(message["content"], "content follows")
                stream = server.request("POST", "/v1/chat/completions", {
                    **body, "thinking_token_budget": budget, "stream": True})[2].decode()
                deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in stream.split("\n")
                          if line.startswith("data: {")]
                for key in ("reasoning", "content"):
                    expect("".join(d.get(key) or "" for d in deltas), message.get(key) or "", f"{key} of the stream")
            status, got = _post(server, "/v1/chat/completions", {
                **body, "ignore_eos": False, "max_tokens": 90, "thinking_token_budget": 3, "structured_outputs": {"regex": "[0-9]{4}"}})
            check(re.fullmatch("[0-9]{4}", got["choices"][0]["message"]["content"]), f"a constrained answer: {got}")
            check(got["choices"][0]["message"]["reasoning"], "it has reasoning, too")
            status, got = _post(server, "/v1/responses", {
                "input": "Name a city.", "temperature": 0, "max_output_tokens": 40, "ignore_eos": True,
                "thinking_token_budget": 6})
            expect([o["type"] for o in got["output"]], ["reasoning", "message"], "items of Responses")
            status, got = _post(server, "/v1/completions", {
                "prompt": "A city <think>", "temperature": 0, "max_tokens": 40, "thinking_token_budget": 2})
            check("</think>" in got["choices"][0]["text"], f"completions: {got}")
            status, got = _post(server, "/v1/chat/completions", {**body, "thinking_token_budget": -1})
            expect((status, got["error"]["param"]), (400, "thinking_token_budget"), "a negative budget")
    with Server() as server:
        status, got = _post(server, "/v1/chat/completions", {"messages": SAYS, "thinking_token_budget": 5})
        expect((status, got["error"]["param"]), (400, "thinking_token_budget"), "a model without reasoning")
        check("reasoning" in got["error"]["message"], f"sentence: {got}")


def _grammar_metrics(server):
    text = server.request("GET", "/metrics")[2].decode()
    return {m[1]: float(m[2]) for m in re.finditer(
        r"^gallop:grammar_(cache_\w+|\w+_seconds_(?:count|sum))\{[^}]*\} (\S+)$", text, re.M)}


def requests_move_the_metrics():
    with Server() as server:
        before = _grammar_metrics(server)
        expect(sorted(before), ["cache_hits_total", "cache_queries_total", "compile_seconds_count",
                                "compile_seconds_sum", "mask_seconds_count", "mask_seconds_sum"], "metrics")
        expect(set(before.values()), {0.0}, "their values without a constrained request")
        for regex in ("[0-9]{4}", "[0-9]{5}", "[0-9]{4}"):
            status, got = _post(server, "/v1/completions", {
                "prompt": "A number: ", "temperature": 0, "structured_outputs": {"regex": regex}})
            expect(status, 200, f"status: {got}")
        after = _grammar_metrics(server)
        expect(after["cache_queries_total"], 3, "constrained prompts")
        expect(after["cache_hits_total"], 1, "those whose constraint was there")
        expect(after["compile_seconds_count"], 2, "compiled constraints")
        check(after["mask_seconds_count"] >= 3, f"masks: {after}")
        check(after["compile_seconds_sum"] > 0 and after["mask_seconds_sum"] > 0, f"times: {after}")


run_all(list(globals().items()))
