#!/usr/bin/env python3
"""serve_tools.py - tool calls that a request forces or whose functions are strict, in every markup
and API. The demo model writes whatever the constraint allows; the marks of harmony and of Mistral
are control tokens of its vocabulary."""
import json
import os
import re
import shutil
import sys
import tempfile

from _cli import DEMO, call, check, expect, run_all
from _server import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "net"))
import scripted  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
SAYS = [{"role": "user", "content": "Name a city."}]
CITY = {
    "type": "object", "properties": {
        "city": {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"}, "size":
        {"enum": ["small", "large"]}
    }, "required": ["city", "size"], "additionalProperties": False
}
COUNT = {
    "type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["n"], "additionalProperties": False
}
SCHEMAS = {"get_city": CITY, "count": COUNT}
UNSERVED = {
    "type": "object", "properties":
    {"a": {"type": "array", "uniqueItems": True, "items":
           {"type": "integer"}}}, "required": ["a"], "additionalProperties": False
}
CHATML = ("{%% if tools %%}{{ tools | tojson }}{%% endif %%}{%% for m in messages %%}"
          "{{ m.content }}{%% endfor %%}%s")
# What a model's markup is called, its control tokens, and the end of its prompts.
MARKUPS = {
    "hermes": ((), ""),
    "llama3_json": ((), ""),
    "mistral":
    (("[TOOL_CALLS]", "<|bos|>", "<|end|>", "[ARGS]", "[THINK]", "[/THINK]"), "{# [ARGS] #}"),
    "mistral_list": (("[TOOL_CALLS]", ), ""),
    "mistral_v3": (("[TOOL_CALLS]", ), ""),
    "phi4_mini_json": ((), ""),
    "openai": (("<|channel|>", "<|constrain|>", "<|return|>", "<|message|>", "<|start|>",
                "<|end|>"), "<|start|>assistant"),
}


def _model(markup):
    """Returns the demo model with other names of its six control tokens."""
    folder = os.path.join(FOLDER.name, markup)
    old = ["<|pad|>", "<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    new = dict(zip(old, MARKUPS[markup][0]))
    if os.path.isdir(folder):
        return folder
    os.mkdir(folder)
    for name in os.listdir(DEMO):
        path = os.path.join(DEMO, name)
        if not name.startswith(("tokenizer", "special")):
            shutil.copy(path, folder)
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(re.sub(r"<\|[a-z]+\|>", lambda m: new.get(m[0], m[0]), text))
    return folder


def _server(markup, *options, reasoning="none", end=""):
    template = os.path.join(FOLDER.name, markup + ".jinja")
    with open(template, "w", encoding="utf-8") as f:
        f.write(CHATML % (MARKUPS[markup][1] + end))
    parser = "mistral" if markup == "mistral_list" else markup
    return Server("--tool-call-parser",
                  parser,
                  "--chat-template",
                  template,
                  "--no-access-log",
                  "--reasoning-parser",
                  "openai_gptoss" if markup == "openai" else reasoning,
                  *options,
                  model=_model(markup))


def _tools(**strict):
    """Returns the functions as OpenAI's chat has them."""
    return [{
        "type": "function", "function": {
            "name": name, "parameters": schema,
            **({"strict": strict[name]} if name in strict else {})
        }
    } for name, schema in SCHEMAS.items()]


def _is_valid(name, arguments):
    try:
        v = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return False
    if name == "count":
        return list(v) == ["n"] and 1 <= v["n"] <= 99 and v["n"] == int(v["n"])
    return (list(v) == ["city", "size"] and re.fullmatch("[A-Z][a-z]{2,8}", v["city"])
            and v["size"] in ("small", "large"))


def _calls(message):
    return [(c["function"]["name"], c["function"]["arguments"])
            for c in message.get("tool_calls") or []]


def _data(server, path, **fields):
    """Returns the data of each event of a stream whose events have names."""
    _, _, body = server.request("POST", path, {**fields, "stream": True})
    return [json.loads(x) for x in re.findall("^data: (.*)$", body.decode(), re.M)]


def _joined(events):
    """Returns content, tool calls and end of a stream of chat completions."""
    content, calls, end = "", [], None
    for event in events:
        if event == "[DONE]" or not json.loads(event)["choices"]:
            continue
        choice = json.loads(event)["choices"][0]
        content += choice["delta"].get("content") or ""
        for c in choice["delta"].get("tool_calls", []):
            if c["index"] == len(calls):
                check(c["id"], "the first piece of a call has an id")
                calls.append([c["function"]["name"], ""])
            calls[c["index"]][1] += c["function"].get("arguments") or ""
        end = choice["finish_reason"] or end
    return content, [tuple(c) for c in calls], end


def _batch(folder, body):
    """Returns the message and the end of a line of an OpenAI batch."""
    path = os.path.join(FOLDER.name, "line.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}, f)
    out = call("run", "-m", folder, "--dtype", "fp32", "--quiet", "--json", "--batch", path).stdout
    choice = json.loads(out)["response"]["body"]["choices"][0]
    return choice["message"], choice["finish_reason"]


def _ask(server, what, **fields):
    """Returns the message and the end of a chat completion; its stream has the same."""
    body = {"messages": SAYS, "max_tokens": 700, "temperature": 1, "seed": 3, **fields}
    status, got = server.post("/v1/chat/completions", **body)
    expect(status, 200, f"{what}: status of {got}")
    if status != 200:
        return {}, None
    choice = got["choices"][0]
    content, calls, end = _joined(server.events("/v1/chat/completions", **body))
    expect(
        (content, calls, end),
        (choice["message"]["content"] or "", _calls(choice["message"]), choice["finish_reason"]),
        f"{what}: stream and whole answer")
    return choice["message"], choice["finish_reason"]


def _expect_calls(what, message, end, names=("get_city", "count"), most=1):
    calls = _calls(message)
    check(1 <= len(calls) <= most, f"{what}: found {message}")
    check(all(name in names and _is_valid(name, arguments) for name, arguments in calls),
          f"{what}: found {calls}")
    expect(end, "tool_calls", f"{what}: end")


def every_markup_writes_calls_that_are_forced():
    for markup in MARKUPS:
        with _server(markup) as server:
            for seed in range(3):
                message, end = _ask(server,
                                    markup,
                                    tools=_tools(),
                                    tool_choice="required",
                                    seed=seed,
                                    parallel_tool_calls=False)
                _expect_calls(f"{markup}, seed {seed}", message, end)
                check(not message["content"], f"{markup}: content beside the call: {message}")
                # Templates of Mistral's models refuse other ids.
                expect(len(message["tool_calls"][0]["id"]), 9 if "mistral" in markup else 29,
                       f"{markup}: letters of an id")
            message, end = _ask(server,
                                markup,
                                tools=_tools(),
                                temperature=0,
                                tool_choice={"type": "function", "function": {"name": "count"}},
                                parallel_tool_calls=False)
            _expect_calls(f"{markup}, named", message, end, ["count"])
            message, end = _ask(server,
                                markup,
                                tools=_tools(),
                                parallel_tool_calls=False,
                                tool_choice={
                                    "type": "allowed_tools", "allowed_tools": {
                                        "mode":
                                        "required", "tools":
                                        [{"type": "function", "function": {"name": "get_city"}}]
                                    }
                                })
            _expect_calls(f"{markup}, allowed", message, end, ["get_city"])
            message, end = _ask(server,
                                markup,
                                tools=_tools(),
                                tool_choice="required",
                                max_tokens=900)
            calls = _calls(message)
            check(calls and all(_is_valid(*c) for c in calls[:-1 if end == "length" else None]),
                  f"{markup}: parallel calls {calls}")


def formats_without_json_write_calls_that_are_forced():
    trip = {"type": "object", "required": ["city", "days", "with"], "properties": {
        "city": {"type": "string", "enum": ["Rome", "New York"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "with": {"type": "object", "required": ["car"], "properties": {"car": {"type": "boolean"}}}}}
    tools = [{"type": "function", "function": {"name": "plan.trip_1", "parameters": trip}}]
    for markup in ("cohere_command3", "inkling", "solar_open", "deepseek_v32", "kimi_k3", "muse_glimmer",
                   "hy_v3", "minimax_m3", "gemma4", "pythonic"):
        template = os.path.join(FOLDER.name, "plain.jinja")
        with open(template, "w", encoding="utf-8") as f:
            f.write(CHATML % "")
        with Server("--tool-call-parser", markup, "--chat-template", template, "--no-access-log",
                    "--reasoning-parser", "none") as server:
            for seed in range(2):
                message, end = _ask(server, markup, tools=tools, tool_choice="required", seed=seed,
                                    parallel_tool_calls=False)
                calls = _calls(message)
                expect((len(calls), end, message["content"]), (1, "tool_calls", None), f"{markup}: {message}")
                v = json.loads(calls[0][1])
                check(calls[0][0] == "plan.trip_1" and list(v) == ["city", "days", "with"]
                      and v["city"] in ("Rome", "New York") and 1 <= v["days"] <= 9
                      and isinstance(v["with"]["car"], bool), f"{markup}: {calls}")


# What a model writes that calls get_city with wrong arguments, and what precedes the call.
WRONG = '{"city": 5}'
SCRIPTS = {
    "hermes":
    ("Let me see. ",
     ["<tool_call>", "\n", '{"name": "', "get_city", '", "arguments": ', WRONG,
      "}\n</tool_call>"]),
    "llama3_json": ("", ['{"name": "', "get_city", '", "parameters": ', WRONG, "}"]),
    "mistral": ("Let me see. ", ["[TOOL_CALLS]", "get_city", "[ARGS]", WRONG]),
    "mistral_list":
    ("Let me see. ", ["[TOOL_CALLS]", " [", '{"name": "get_city", "arguments": ', WRONG, "}",
                      "]"]),
    "phi4_mini_json":
    ("Let me see. ", ["functools[", '{"name": "get_city", "arguments": ', WRONG, "}]"]),
    "openai": ("", [
        "<|channel|>", "commentary to=functions.get_city ", "<|constrain|>", "json", "<|message|>",
        WRONG, "<|call|>"
    ]),
}


def strict_functions_are_enforced_from_the_mark_on():
    for markup, (text, script) in SCRIPTS.items():
        folder = os.path.join(FOLDER.name, "scripted_" + markup)
        first = "assistant" if markup == "openai" else "<ask>"
        scripted.make(folder, [[first, *([text] if text else []), *script]],
                      "",
                      special=[
                          x for x in script
                          if x in MARKUPS[markup][0] or x in ("<|call|>", "<|constrain|>")
                      ])
        template = os.path.join(FOLDER.name, "ask.jinja")
        with open(template, "w", encoding="utf-8") as f:
            f.write(CHATML % (MARKUPS[markup][1] + ("" if markup == "openai" else "<ask>")))
        with Server("--no-access-log",
                    "--tool-call-parser",
                    markup.replace("_list", ""),
                    "--chat-template",
                    template,
                    "--dtype",
                    "fp32",
                    model=folder) as server:
            ask = lambda **fields: _ask(
                server, markup, temperature=0, max_tokens=700, parallel_tool_calls=False, **fields)
            message, end = ask(tools=_tools())
            expect(_calls(message), [("get_city", WRONG)],
                   f"{markup}: a function that is not strict")
            message, end = ask(tools=_tools(get_city=True))
            _expect_calls(f"{markup}: strict", message, end, ["get_city"])
            expect((message["content"] or "").strip(), text.strip(),
                   f"{markup}: text before the call")
            message, end = ask(tools=_tools(count=True))
            check(
                _calls(message)[:1] == [("get_city", WRONG)],
                f"{markup}: another function is strict: {message}")
            message, end = ask(tools=_tools(),
                               tool_choice={
                                   "type": "allowed_tools", "mode": "auto", "tools":
                                   [{"name": "count"}]
                               })
            check(markup == "openai" or _calls(message)[0][0] == "count",
                  f"{markup}: the only function that may be called: {message}")


def a_function_that_is_named_is_called_once():
    """The scripted model goes on with a second call, in every API and in a batch."""
    folder = os.path.join(FOLDER.name, "twice")
    scripted.make(folder, [["<ask>", '<tool_call>\n{"name": "', "count", '", "arguments": ', '{"n": 1}',
                            "}\n</tool_call>", "\n", '<tool_call>\n{"name": "count", "arguments": ',
                            '{"n": 2}', "}\n</tool_call> "]], CHATML % "<ask>{# <tool_call> arguments #}")
    named = {"type": "function", "function": {"name": "count"}}
    lone = {"messages": SAYS, "tools": _tools(), "max_tokens": 100, "temperature": 0}
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    with Server("--no-access-log", "--dtype", "fp32", model=folder) as server:
        _, _, model = server.request("GET", "/v1/models/" + json.loads(server.request("GET", "/v1/models")[2])["first_id"])
        expect(json.loads(model)["markup"], {"tool_call_parser": "hermes", "reasoning_parser": None,
                                             "tool_call_parser_from": "shown in the template",
                                             "reasoning_parser_from": "none"}, "formats of the model")
        for choice, n in ((named, 1), ("required", 2), (some, 2)):
            message, end = _ask(server, "twice", **{**lone, "tool_choice": choice})
            expect((_calls(message), end), ([("count", '{"n": %d}' % i) for i in (1, 2)][:n], "tool_calls"),
                   f"calls of {choice}")
        _, got = server.post("/v1/messages", messages=SAYS, max_tokens=100, temperature=0,
                             tools=[{"name": "count", "input_schema": COUNT}],
                             tool_choice={"type": "tool", "name": "count"})
        expect([b["type"] for b in got["content"]], ["tool_use"], f"blocks of {got}")
        _, got = server.post("/v1/responses", input="x", max_output_tokens=100, temperature=0,
                             tools=[{"type": "function", "name": "count", "parameters": COUNT}],
                             tool_choice={"type": "function", "name": "count"})
        expect([x["type"] for x in got["output"]], ["function_call"], f"items of {got}")
    message, end = _batch(folder, {**lone, "tool_choice": named})
    expect((_calls(message), end), ([("count", '{"n": 1}')], "tool_calls"), "calls of a batch")


def optional_members_of_tools_may_be_missing():
    """The template needs them, as that of gpt-oss does; in every API and in a batch."""
    folder, shown = os.path.join(FOLDER.name, "needs"), "{# <tool_call> arguments #}"
    scripted.make(folder, [["<ask>", "Yes."]], shown + "{% for t in tools %}{{ t.function.name + "
                  "t.function.description + t.function.parameters.properties | tojson }}{% endfor %}"
                  "{% for m in messages %}{{ m.content }}{% endfor %}<ask>")
    lone = {"messages": SAYS, "max_tokens": 5, "temperature": 0}
    of = lambda **members: {**lone, "tools": [{"type": "function", "function": {"name": "f", **members}}]}
    asked = [of(), of(description=None, parameters=None), of(description="d"),
             of(parameters={"type": "object"}), of(description="", parameters={})]
    with Server("--no-access-log", "--dtype", "fp32", model=folder) as server:
        for body in asked:
            status, got = server.post("/v1/chat/completions", **body)
            expect(status, 200, f"status of {body}: {got}")
            expect(_batch(folder, body)[0]["content"], "Yes.", f"batch of {body}")
        status, got = server.post("/v1/messages", **{**lone, "tools": [{"name": "f", "input_schema": {
            "type": "object"}}]})
        expect(status, 200, f"Messages: {got}")
        status, got = server.post("/v1/responses", input="x", max_output_tokens=5,
                                  tools=[{"type": "function", "name": "f", "parameters": {}}])
        expect(status, 200, f"Responses: {got}")


def a_limit_leaves_no_text_of_forced_calls():
    """Nor does it of the mark that closes a complete call that is not forced."""
    with _server("hermes") as server:
        for most in range(4, 100, 5):
            status, got = server.post("/v1/chat/completions", messages=SAYS, tools=_tools(), seed=1,
                                      tool_choice="required", temperature=1, max_tokens=most)
            message = got["choices"][0]["message"]
            check(not message["content"], f"{most} tokens of a forced call: {message}")
    tools = {"messages": SAYS, "tools": _tools(), "temperature": 0}
    folder = os.path.join(FOLDER.name, "twice")
    with Server("--no-access-log", "--dtype", "fp32", model=folder) as server:
        for most, content in ((5, None), (7, '<tool_call>\n{"name": "count", "arguments": ')):
            for message, end in (_ask(server, "cut", max_tokens=most, **tools),
                                 _batch(folder, {**tools, "max_tokens": most})):
                expect((len(_calls(message)), end), (1, "length"), f"calls of {most} tokens: {message}")
                expect((message["content"] or "").strip() or None, content and content.strip(),
                       f"content of {most} tokens")


def a_stop_string_keeps_what_is_complete():
    """The same in answers, streams and batches."""
    folder = os.path.join(FOLDER.name, "twice")
    tools = {"messages": SAYS, "tools": _tools(), "temperature": 0, "max_tokens": 100}
    first = [("count", '{"n": 1}')]
    with Server("--no-access-log", "--dtype", "fp32", model=folder) as server:
        for stop, calls in (("}}", []), ("}\n</to", first), ("\n</to", first), ("/tool", first), ('"n"', []),
                            ('", "arg', []), (" 2}", first)):
            for message, end in (_ask(server, "stop", stop=[stop], **tools),
                                 _batch(folder, {**tools, "stop": [stop]})):
                expect((_calls(message), end), (calls, "tool_calls" if calls else "stop"),
                       f"{stop!r} leaves {message}")
                check(not message["content"], f"{stop!r} leaves text: {message}")


# Answers that quote their marks in ordinary letters, as they copy a document.
QUOTES = {
    "openai": ("{# <|channel|> <|message|> #}", "<|start|>assistant", [
        "<|channel|>", "final", "<|message|>",
        "You wrote: <|end|><|start|>assistant<|channel|>commentary to=functions.count<|message|>{}<|call|>",
        " Right?", "<|return|>"
    ]),
    "mistral": ("{# [TOOL_CALLS] [ARGS] #}", "<ask>", [
        "Look: ", "[TOOL_CALLS]count[ARGS]{} ", "[TOOL_CALLS]", "get_city", "[ARGS]", '{"city": "Rome"}'
    ]),
    "hermes": ("{# <tool_call> arguments #}", "<ask>", [
        "See ", '<tool_call>{"name": "count", "arguments": {}}</tool_call> ', "<tool_call>",
        '{"name": "get_city", "arguments": {"city": "Rome"}}', "</tool_call>"
    ]),
}


def quoted_marks_are_content():
    """In answers and streams of the server, and in a batch."""
    for markup, (shows, first, script) in QUOTES.items():
        folder = os.path.join(FOLDER.name, "quotes_" + markup)
        special = [x for x in script if re.fullmatch(r"<\|?/?\w+\|?>|\[[A-Z_]+\]", x)]
        prompt = "assistant" if markup == "openai" else first
        others = ["<|start|>", "<|end|>", "<|call|>"] if markup == "openai" else ["<none>"]
        scripted.make(folder, [[prompt, *script], others],
                      CHATML % (shows + first),
                      special=special + others)
        quote = next(x for x in script if "count" in x)
        text = "".join(script[script.index(quote) - (markup != "openai"):script.index(quote) + 1])
        calls = [] if markup == "openai" else [("get_city", '{"city": "Rome"}')]
        with Server("--no-access-log", "--dtype", "fp32", model=folder) as server:
            message, end = _ask(server, markup, temperature=0, tools=_tools())
        line = _batch(folder, {"messages": SAYS, "max_tokens": 700, "temperature": 0, "tools": _tools()})
        for where, got, why in (("server", message, end), ("batch", *line)):
            expect(_calls(got), calls, f"{markup}, {where}: calls")
            expect(got["content"].rstrip(), (text if calls else text + " Right?").rstrip(),
                   f"{markup}, {where}: content")
            expect(why, "tool_calls" if calls else "stop", f"{markup}, {where}: end")


def tokens_of_reasoning_are_counted():
    """In chats, their streams and Responses; a server that parses no reasoning counts none."""
    folder = os.path.join(FOLDER.name, "reasons")
    scripted.make(folder, [["<ask>", "<think>", "One, ", "two, ", "three.", "</think>", "Yes", "."],
                           ["<none>"]], CHATML % "<ask>")
    ask = {"messages": SAYS, "max_tokens": 50, "temperature": 0}
    for row in ("qwen3", "none"):
        with Server("--no-access-log", "--dtype", "fp32", "--reasoning-parser", row,
                    model=folder) as server:
            usage = server.post("/v1/chat/completions", **ask)[1]["usage"]
            found = usage.get("completion_tokens_details")
            usages = [u for u in (json.loads(x).get("usage") for x in server.events(
                "/v1/chat/completions", stream_options={"include_usage": True,
                                                        "continuous_usage_stats": True}, **ask)
                                  if x != "[DONE]") if u]
            for u in (usage, usages[-1]):
                u.pop("prompt_tokens_details")  # the prefix cache knows the second prompt
            expect(usages[-1], usage, f"{row}: usage of a stream")
            if row == "none":
                expect((found, "completion_tokens_details" in usages[0]), (None, False), "no reasoning")
                continue
            response = server.post("/v1/responses", input="x", max_output_tokens=50,
                                   temperature=0)[1]
            expect(found, {"reasoning_tokens": 4}, f"tokens of reasoning in {usage}")
            expect(response["usage"]["output_tokens_details"], found, "Responses")
            expect(usages[0]["completion_tokens_details"], {"reasoning_tokens": 0}, "at first")
            expect(usages[-2]["completion_tokens_details"], found, "usage of the last event of the answer")


def results_that_are_errors_say_so_in_the_prompt():
    with _server("hermes") as server:
        def count(content, **members):
            used = {"type": "tool_use", "id": "toolu_1", "name": "count", "input": {}}
            result = {
                "type": "tool_result", "tool_use_id": "toolu_1", "content": content, **members
            }
            return server.post("/v1/messages/count_tokens", messages=[
                *SAYS, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}
            ])[1]["input_tokens"]

        for plain, error in (("boom", "Error:\nboom"), ("", "Error:\n")):
            check(count(plain) < count(error), "the line has tokens")
            for content in (plain, [{"type": "text", "text": plain}]):
                expect(count(content, is_error=True), count(error), f"tokens of {content}")
                expect(count(content, is_error=False), count(plain), f"tokens of {content}, no error")


def reasoning_precedes_what_is_forced():
    for end, kwargs in (("<think>\n", {}), ("", {}), ("<think>\n\n</think>\n\n", {})):
        with _server("hermes", reasoning="qwen3", end=end) as server:
            for fields in ({
                    "tools": _tools(), "tool_choice": "required", "parallel_tool_calls": False
            }, {
                    "response_format":
                {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY}}
            }):
                message, why = _ask(server, f"after {end!r}", **fields, **kwargs)
                if why == "length" and not end.endswith("</think>\n\n"):
                    check(message["reasoning"] and not message["content"] and not _calls(message),
                          f"open reasoning: {message}")
                elif "tools" in fields:
                    _expect_calls(f"after {end!r}", message, why)
                else:
                    check(_is_valid("get_city", message["content"]), f"after {end!r}: {message}")


def a_continued_message_stays_in_its_part():
    """What continues content is content, and its constraint holds from the first token on; what
    continues reasoning stays reasoning."""
    going_on = {"add_generation_prompt": False, "continue_final_message": True}
    rule = {"structured_outputs": {"regex": "[0-9]{3}"}, "max_tokens": 12, "temperature": 0}
    schema = {"output_config": {"format": {"type": "json_schema", "schema": {"const": "yes"}}}}
    for row in ("deepseek_r1", "qwen3"):
        with _server("hermes", reasoning=row) as server:
            for text in ("The answer is", "<think>x</think>The answer is", "<think>I must"):
                talk = SAYS + [{"role": "assistant", "content": text}]
                _, got = server.post("/v1/chat/completions", messages=talk, **going_on, **rule)
                message = got["choices"][0]["message"]
                opens = "I must" in text
                expect(message["content"] is None, opens, f"{row}: {text} goes on as {message}")
                expect(bool(message.get("reasoning")), opens, f"{row}: reasoning of {message}")
                check(opens or re.fullmatch("[0-9]{3}", message["content"]), f"{row}: {message}")
                _, got = server.post("/v1/messages", messages=talk, max_tokens=12, **schema)
                block = got["content"][0]
                expect(block.get("text"), None if opens else '"yes"', f"{row}: {text}, {block}")


def reasoning_between_control_tokens_precedes_what_is_forced():
    """The model may open its reasoning itself; strict functions leave it free to do so."""
    with _server("mistral", reasoning="mistral") as server:
        for seed in range(4):
            message, end = _ask(server, "Mistral", tools=_tools(), tool_choice="required",
                                parallel_tool_calls=False, seed=seed)
            check(end == "length" or _is_valid(*_calls(message)[0]), f"Mistral: {message}")
            message, end = _ask(server, "Mistral, begins to reason", tools=_tools(count=True),
                                max_tokens=20, seed=seed, logit_bias={"4": 100})
            check(message.get("reasoning"), f"[THINK] is chosen: {message}")
            message, end = _ask(server, "Mistral, calls", tools=_tools(count=True),
                                max_tokens=20, seed=seed, logit_bias={"0": 100})
            check(_calls(message) or end == "length", f"[TOOL_CALLS] is chosen: {message}")


def a_final_message_of_harmony_is_constrained():
    with _server("openai") as server:
        for seed in range(4):
            message, end = _ask(server,
                                "final",
                                seed=seed,
                                response_format={
                                    "type": "json_schema", "json_schema":
                                    {"name": "x", "schema": CITY}
                                })
            check(end == "length" or _is_valid("get_city", message["content"]),
                  f"final: {message}, {end}")


def content_and_calls_may_both_be_constrained():
    with _server("hermes") as server:
        for seed in range(6):
            message, end = _ask(server,
                                "both",
                                seed=seed,
                                tools=_tools(),
                                parallel_tool_calls=False,
                                response_format={
                                    "type": "json_schema", "json_schema":
                                    {"name": "x", "schema": COUNT}
                                })
            if _calls(message):
                check(end == "length" or isinstance(json.loads(_calls(message)[0][1]), dict),
                      f"both: {message}")
            else:
                check(_is_valid("count", message["content"]), f"both: {message}")


def other_apis_force_calls():
    functions = [{"type": "function", "name": n, "parameters": s, "strict": True}
                 for n, s in SCHEMAS.items()]
    clients = [{"name": n, "input_schema": s} for n, s in SCHEMAS.items()]
    with _server("hermes") as server:
        for choice in ("required", {"type": "function", "name": "count"}, {
                "type": "allowed_tools", "mode": "required", "tools":
            [{"type": "function", "name": "count"}]
        }):
            body = {
                "input": "A city.", "tools": functions, "tool_choice": choice, "max_output_tokens":
                300, "seed": 5, "parallel_tool_calls": False
            }
            status, got = server.post("/v1/responses", **body)
            expect(status, 200, f"status of Responses: {got}")
            expect([x["type"] for x in got["output"]], ["function_call"], f"items with {choice}")
            call = got["output"][0]
            check(_is_valid(call["name"], call["arguments"]), f"Responses: {call}")
            check(choice == "required" or call["name"] == "count",
                  f"Responses: {choice} gives {call}")
            last = _data(server, "/v1/responses", **body)[-1]["response"]
            expect([(x["name"], x["arguments"]) for x in last["output"]],
                   [(call["name"], call["arguments"])], "the stream of Responses")
        for choice in ({"type": "any"}, {"type": "tool", "name": "count"}):
            body = {
                "messages": SAYS, "tools": clients, "max_tokens": 300, "seed": 5, "tool_choice":
                {**choice, "disable_parallel_tool_use": True}
            }
            status, got = server.post("/v1/messages", **body)
            expect((status, got.get("stop_reason")), (200, "tool_use"), f"Messages: {got}")
            call = got["content"][0]
            check(
                len(got["content"]) == 1 and _is_valid(call["name"], call["input"]),
                f"Messages: {got}")
            pieces = _data(server, "/v1/messages", **body)
            text = "".join(x["delta"].get("partial_json", "") for x in pieces
                           if x["type"] == "content_block_delta")
            expect(json.loads(text), call["input"], "the stream of Messages")
        for field in ({"output_config":
                       {"format":
                        {"type": "json_schema", "schema":
                         CITY}}}, {"output_format": {"type": "json_schema", "schema": CITY}}):
            status, got = server.post("/v1/messages",
                                      messages=SAYS,
                                      max_tokens=300,
                                      seed=5,
                                      **field)
            check(status == 200 and _is_valid("get_city", got["content"][0]["text"]),
                  f"{field}: {got}")


def wrong_choices_are_400_with_the_field():
    named = lambda name: {"type": "function", "function": {"name": name}}
    form = {"response_format": {"type": "json_schema", "json_schema": {"schema": CITY}}}
    bad = {"type": "function", "function": {"name": "f", "parameters": UNSERVED}}
    strict = {
        "type": "function", "function": {"name": "f", "parameters": UNSERVED, "strict": True}
    }
    lax = {"type": "function", "function": {"name": "f", "parameters": UNSERVED, "strict": False}}
    place = "/tools/1/function/parameters/properties/a: uniqueItems"
    text, empty = ({
        "type": "function", "function": {"name": "f", "parameters": p}
    } for p in ({"type": "string"},
                {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}))
    nothing = "/tools/0/function/parameters: no text matches the schema"
    with _server("hermes") as server:
        for fields, param, words in (({"tool_choice": "required"}, "tool_choice", ["tools"]),
                                     ({"tool_choice": named("f")}, "tool_choice",
                                      ["tools"]), ({"tools": _tools(), "tool_choice":
                                                    named("f")}, "tool_choice", ["'f'"]),
                                     ({"tools": _tools(), "tool_choice": "required",
                                       **form}, "tool_choice", ["response_format"]),
                                     ({"tools": _tools(), "tool_choice":
                                       "some"}, "tool_choice", ["required"]),
                                     ({"tools": [*_tools()[:1], bad], "tool_choice":
                                       "required"}, "tools",
                                      ['"f"',
                                       place]), ({"tools": [*_tools()[:1], strict]}, "tools",
                                                 ['"f"', place]),
                                     ({"tools": [text], "tool_choice": "required"}, "tools",
                                      ['"f"', nothing + ", which must allow an object"]),
                                     ({"tools": [empty], "tool_choice": "required"}, "tools",
                                      ['"f"', nothing]), ({"tools": [*_tools(count=3)]},
                                                                   "tools", ["strict", "count"])):
            status, got = server.post("/v1/chat/completions",
                                      messages=SAYS,
                                      max_tokens=5,
                                      **fields)
            expect(status, 400, f"status of {fields}")
            expect(got["error"]["param"], param, f"field that {fields} names: {got}")
            check(all(w in got["error"]["message"] for w in words),
                  f"{words}: {got['error']['message']}")
        status, got = server.post("/v1/responses",
                                  input="x",
                                  tool_choice="required",
                                  tools=[{"type": "web_search"},
                                         {"type": "function", "name": "f", "parameters":
                                          UNSERVED}])
        check(status == 400 and "/tools/1/parameters/properties/a" in got["error"]["message"],
              f"{got}")
        status, got = server.post("/v1/messages",
                                  messages=SAYS,
                                  max_tokens=5,
                                  tools=[{"name": "f", "input_schema": UNSERVED, "strict": True}])
        check(status == 400 and "/tools/0/input_schema/properties/a" in got["error"]["message"],
              f"{got}")
        for fields in ({"tools": [bad]}, {"tools":
                                          [lax]}, {"tools": [lax], "tool_choice": "required"}):
            status, got = server.post("/v1/chat/completions",
                                      messages=SAYS,
                                      max_tokens=5,
                                      **fields)
            expect(status, 200, f"status of {fields}: {got}")
            expect(len(got.get("warnings", [])), "tool_choice" in fields, f"warnings of {fields}")
    with Server("--no-access-log", "--tool-call-parser", "none", "--chat-template",
                os.path.join(FOLDER.name, "hermes.jinja"), "--reasoning-parser", "qwen3") as server:
        expect(json.loads(server.request("GET", "/v1/models")[2])["data"][0]["markup"],
               {"tool_call_parser": None, "reasoning_parser": "qwen3", "tool_call_parser_from": "none",
                "reasoning_parser_from": "as configured"}, "formats as configured")
        status, got = server.post("/v1/chat/completions",
                                  messages=SAYS,
                                  tools=_tools(),
                                  tool_choice="required")
        check(status == 400 and "tool-call-parser" in got["error"]["message"], f"{got}")


run_all(list(globals().items()))
