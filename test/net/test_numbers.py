#!/usr/bin/env python3
"""test_numbers.py - numbers that JSON allows but 64 bits or other programs do not keep: in
schemas of tools, in tool calls of the history and in generated tool calls, on every API of
`gallop serve`. Standard library only; GALLOP_BIN names the program."""
import http.client
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scripted  # noqa: E402
from test_tools import Server  # noqa: E402

faults, count = [], 0
# The numbers as Python's json writes them. The model answers <kept> if all of them are in the tool
# call of the history and in the schema of the tool.
NUMBERS = (
    '{"a": 1.0, "b": 100000.0, "c": 18446744073709551615, "d": 0.30000000000000004, "e": 123456789012345678901234567890, '
    '"f": -0.0, "g": 1e+16, "h": 1e-07, "i": -9223372036854775809, "j": 9007199254740993, "k": 0.1}')
TEMPLATE = (
    "{# <tool_call> #}{% set n = namespace(lost='') %}"
    "{% for t in tools or [] %}{{ t | tojson }}{% if t.function.name == 'f' and '''WANTED''' not in t | tojson %}"
    "{% set n.lost = 'tool' %}{% endif %}{% endfor %}"
    "{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}[{{ c.function.arguments | tojson }}]"
    "{% if c.function.name == 'f' and '''WANTED''' != c.function.arguments | tojson %}{% set n.lost = 'call' %}{% endif %}"
    "{% endfor %}{% endfor %}{% if messages[0].content != '<say>' %}{{ '<lost>' if n.lost else '<kept>' }}{% endif %}")
SAID = '{"n": 18446744073709551615, "x": [0.1, 1E+3, -123456789012345678901234567890]}'
SCRIPTS = [["<kept>", "All of it."], ["<lost>", "Not all."], [
    "<say>", '<tool_call>{"name": "f", "arguments": ', SAID[:26], SAID[26:], "}</tool_call>"]]
SCHEMA = {"type": "object", "properties": {"n": json.loads(NUMBERS)}}


def check(good, what, *details):
    global count
    count += 1
    if not good:
        faults.append(what)
        print("  x", what, *details)


def post(server, path, body):
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    link.request("POST", path, body if isinstance(body, str) else json.dumps(body),
                 {"Content-Type": "application/json"})
    answer = link.getresponse()
    data = answer.read().decode()
    link.close()
    return answer.status, data


def function(**more):
    return {"name": "f", "parameters": SCHEMA, **more}


def histories(server):
    value = json.loads(NUMBERS)
    chat = {"messages": [
        {"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": NUMBERS}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "r"}],
            "tools": [{"type": "function", "function": function()}]}
    objects = json.loads(json.dumps(chat))
    objects["messages"][1]["tool_calls"][0]["function"]["arguments"] = value
    kwargs = {**chat, "chat_template_kwargs": {"n": 2 ** 70}}
    responses = {"input": [{"role": "user", "content": "u"},
                           {"type": "function_call", "call_id": "call_1", "name": "f",
                                                             "arguments": NUMBERS},
                           {"type": "function_call_output", "call_id": "call_1", "output": "r"}],
                 "tools": [{"type": "function", **function()}]}
    messages = {"max_tokens": 9, "messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant",
         "content": [{"type": "tool_use", "id": "call_1", "name": "f", "input": value}]},
        {"role": "user",
         "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "r"}]}],
        "tools": [{"name": "f", "input_schema": SCHEMA}]}
    ollama = {"stream": False, "messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "",
         "tool_calls": [{"function": {"name": "f", "arguments": value}}]},
        {"role": "tool", "content": "r"}], "tools": [{"type": "function", "function": function()}]}
    for path, body in (("/v1/chat/completions", chat), ("/v1/chat/completions", objects),
                       ("/v1/chat/completions", kwargs), ("/v1/responses", responses),
                       ("/v1/messages", messages), ("/api/chat", ollama)):
        status, answer = post(server, path, {"temperature": 0, "model": "model", **body}
                              if path != "/api/chat" else {"model": "model", **body})
        check(status == 200 and "All of it." in answer, f"numbers of a history by {path}", status,
              answer[:600])
        lost = json.dumps({"temperature": 0, "model": "model", **body} if path != "/api/chat"
                          else {"model": "model", **body})
        lost = lost.replace("123456789012345678901234567890", "123456789012345678901234567891")
        status, answer = post(server, path, lost)
        check(status == 200 and "Not all." in answer, f"another number by {path}", status,
              answer[:600])
    status, answer = post(server, "/v1/responses", {"model": "model", **responses})
    check(status == 200 and NUMBERS.replace(": ", ":").replace(", ", ",") in answer,
          "Responses shows the tool as it was given", answer[:900])


def said(server):
    """A generated tool call is passed on digit by digit."""
    user = {"messages": [{"role": "user", "content": "<say>"}], "model": "model"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    for stream in (False, True):
        for path, body in (("/v1/chat/completions", {**user, "tools": tools}),
                           ("/v1/responses", {"input": "<say>", "model": "model",
                                              "tools": [{"type": "function", "name": "f"}]}),
                           ("/v1/messages", {**user, "max_tokens": 20, "tools": [
                               {"name": "f", "input_schema": {"type": "object"}}]}),
                           ("/api/chat", {**user, "tools": tools})):
            status, answer = post(server, path, {**body, "stream": stream})
            plain = answer.replace("\\", "")
            for digits in ("-123456789012345678901234567890", "0.1", "1E+3"):
                check(status == 200 and digits in plain,
                      f"{digits} is said by {path}, {'stream' if stream else 'whole'}",
                      answer[-900:])
            check("18446744073709551615" in plain, f"the largest of 64 bits by {path}",
                  answer[-900:])


def fields(server):
    """An integer of that size as the value of a field is out of range, and the error names the
    field."""
    for name, value in (("max_tokens", 2 ** 64), ("seed", 2 ** 70), ("logit_bias", {"5": 2 ** 64}),
                        ("stop", [2 ** 64]), ("messages", [{"role": "user", "content": 2 ** 64}])):
        status, answer = post(server, "/v1/chat/completions",
                              {"messages": [{"role": "user", "content": "u"}], name: value})
        check(status == 400 and json.loads(answer)["error"]["param"] == name, f"{name} is named",
              status, answer)


def main():
    folder = tempfile.mkdtemp(prefix="gallop-numbers-")
    try:
        model = os.path.join(folder, "model")
        scripted.make(model, SCRIPTS, TEMPLATE.replace("WANTED", NUMBERS))
        with Server(model, "--tool-call-parser", "hermes") as s:
            histories(s)
            said(s)
            fields(s)
    finally:
        shutil.rmtree(folder)
    print(f"{count - len(faults)} of {count} hold")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
