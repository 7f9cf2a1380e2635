#!/usr/bin/env python3
"""test_tools.py - tool calls and reasoning in the answers of `gallop serve`: scripted models of
each family (scripted.py), streaming and whole. Standard library only; GALLOP_BIN names the
program."""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scripted  # noqa: E402

GALLOP = os.path.abspath(os.environ.get("GALLOP_BIN", "build/gallop"))
faults, count = [], 0

# The last message comes last, so that its text begins the script. As Qwen's templates do, it takes
# contents as text, whatever else the message has.
HERMES = (
    "{# <tool_call> arguments </think> #}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content + '' }}"
    "{% for c in m.tool_calls %}[{{ c.function.arguments.city }}]{% endfor %}{% endfor %}")
HARMONY = "{# <|channel|> <|message|> #}{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}"
PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"
SCRIPTS = [
    ["<call>", "Let ", "me see.\n", "<tool", "_call>\n{\"na", "me\": \"get_", "weather\", \"argu",
     "ments\": {\"city\": ", "\"Par",
     "is\"", "}}\n</tool_call>"],
    ["<two>", "<tool_call>{\"name\": \"f\", ", "\"arguments\": {}}", "</tool_call>", "\n",
     "<tool_call>{\"name\"", ": \"g\", \"arguments\"",
     ": {\"x\": [1,", " 2]}", "}</tool_call>\n"],
    ["<none>", "<tool_call>", "nothing", "</tool_call> of it"],
    ["<think>\n", "Hm, ", "well.", "\n</thi", "nk>\n\n", "Pari", "s."],
    ["<both>", "<think>\nHm.", "\n</think>\n\n<tool_call>{\"name\": \"f\",",
     " \"arguments\": {\"a\": 1}}</tool_call>"],
    ["<muse>\n<think>", "Hmm, ", "<tool_call>{\"name\": ", "\"f\", ", "\"arguments\": {\"a\": \"</",
     "think>\"}}</tool_call>\n", "<think>Ah", ", that", " is", " much."],
    ["<name>\n<think>", "The ", "<tool_call> ", "mark ", "calls."],
    ["<tell>", "The mark ", "<think> opens ", "reasoning", " here."],
    ["<llama>", "{\"name\": ", "\"get_weather\"", ", \"parameters\": {\"city\"", ": \"Rome\"}}"],
    ["<mistral>", "[TOOL_CALLS]", "get_", "weather[ARGS]", "{\"city\": \"", "Oslo\"}"],
    ["<phi>", "functools[{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ", "\"Bonn\"}",
     "}]"],
    ["<|start|>assistant", "<|channel|>", "commentary", " to=functions.get_weather", " <|constrain|>json",
     "<|message|>", "{\"city\"", ": \"Bern\"}",
     "<|call|>", "never said"],
]
SPECIAL = ["[TOOL_CALLS]", "<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|call|>"]
TOOLS = [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}}
         for n in ("get_weather", "f", "g")]


def check(good, what, *details):
    global count
    count += 1
    if not good:
        faults.append(what)
        print("  x", what, *details)


class Server:
    def __init__(self, model, *args):
        self.process = subprocess.Popen([GALLOP, "serve", "-m", model, "--port", "0", "--dtype",
                                         "fp32", "--threads", "1", *args], stderr=subprocess.PIPE,
                                        text=True)
        self.lines, self.port = "", None
        while self.port is None:
            line = self.process.stderr.readline()
            if not line:
                break
            self.lines += line
            found = re.search(r"http://[^:]+:(\d+)", line)
            self.port = int(found.group(1)) if found else None
        self.lines += self.process.stderr.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stderr.close()
        self.process.wait(300)

    def post(self, path, **fields):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        link.request("POST", path, json.dumps(fields), {"Content-Type": "application/json"})
        body = json.loads(link.getresponse().read())
        link.close()
        return body

    def ask(self, text, stream=False, messages=None, **fields):
        """Returns the status and the body: an object, or the list of a stream's events."""
        body = {"messages": messages or [{"role": "user", "content": text}], "temperature": 0,
                "stream": stream, **fields}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        link.request("POST", "/v1/chat/completions", json.dumps(body),
                     {"Content-Type": "application/json"})
        answer = link.getresponse()
        data = answer.read().decode()
        link.close()
        if not stream or answer.status != 200:
            return answer.status, json.loads(data)
        return answer.status, [json.loads(x[6:]) for x in data.split("\n\n")
                               if x.startswith("data: {")]


def joined(events):
    """Returns the message that a client makes of a stream, and its finish reason."""
    message, reason = {"content": None, "reasoning": None, "tool_calls": []}, None
    for event in events:
        for choice in event["choices"]:
            delta, reason = choice["delta"], choice["finish_reason"] or reason
            for key in ("content", "reasoning"):
                if delta.get(key) is not None:
                    message[key] = (message[key] or "") + delta[key]
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    check(call["index"] == len(message["tool_calls"]), "calls are numbered", call)
                    message["tool_calls"].append({"id": call["id"], "type": call["type"],
                                                  "function": dict(call["function"])})
                else:
                    message["tool_calls"][call["index"]]["function"]["arguments"] += call[
                        "function"]["arguments"]
    return message, reason


def says(server, what, text, content=None, calls=(), reasoning=None, reason=None, stopped_by=None,
         **fields):
    """Checks that the answer to TEXT, whole and in a stream, has these parts."""
    reason = reason or ("tool_calls" if calls else "stop")
    status, whole = server.ask(text, **fields)
    check(status == 200, what, whole)
    if status != 200:
        return
    message = whole["choices"][0]["message"]
    events = server.ask(text, stream=True, **fields)[1]
    streamed, streamed_reason = joined(events)
    for form, found in (("whole", whole["choices"]),
                        ("stream", [x for e in events for x in e["choices"] if x["finish_reason"]])):
        check([x["stop_reason"] for x in found] == [stopped_by], f"{what}, {form}: stop_reason", found)
    for form, m, r in (("whole", message, whole["choices"][0]["finish_reason"]),
                       ("stream", streamed, streamed_reason)):
        found = [(c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls")
                 or []]
        check((m.get("content") or None, m.get("reasoning"), found,
               r) == (content, reasoning, list(calls), reason), f"{what}, {form}", m, r)
    check("tool_calls" not in message or message["tool_calls"],
          f"{what}: an empty list is left out")
    check(events[0]["choices"][0]["delta"].get("role") == "assistant",
          f"{what}: the role comes first", events[0])
    return message, events


def hermes(model):
    with Server(model) as s:
        check("parsed as hermes, reasoning as qwen3" in s.lines, "the choice is told", s.lines)
        call = [("get_weather", '{"city": "Paris"}')]
        for _ in range(100):  # Tokens that are generated faster than they are sent share an event.
            message, events = says(s, "a call", "<call>", "Let me see.", call, tools=TOOLS)
            parts = [c["function"]["arguments"] for e in events for x in e["choices"]
                     for c in x["delta"].get("tool_calls", [])]
            if len(parts) > 2:
                break
        check(len(parts) > 2, "arguments come in pieces", parts)
        check(re.fullmatch(r"call_\w{24}", message["tool_calls"][0]["id"]), "an id", message)
        says(s, "two calls", "<two>", None, [("f", "{}"), ("g", '{"x": [1, 2]}')], tools=TOOLS)
        says(s, "one call only", "<two>", None, [("f", "{}")], tools=TOOLS,
             parallel_tool_calls=False)
        says(s, "no call", "<none>", "<tool_call>nothing</tool_call> of it", tools=TOOLS)
        says(
            s, "no tools", "<two>",
            '<tool_call>{"name": "f", "arguments": {}}</tool_call>\n<tool_call>{"name": "g", "arguments": '
            '{"x": [1, 2]}}</tool_call>\n')
        says(s, "tool_choice none", "<none>", "<tool_call>nothing</tool_call> of it", tools=TOOLS,
             tool_choice="none")
        says(s, "reasoning", "<think>\n", "Paris.", reasoning="Hm, well.")
        says(s, "reasoning left out", "<think>\n", "Paris.", include_reasoning=False)
        says(s, "reasoning and a call", "<both>", None, [("f", '{"a": 1}')], reasoning="Hm.",
             tools=TOOLS)
        # Where a budget is spent, </think> is forced, the last of whose tokens ends the script.
        for budget, made in ((1, None), (2, ('f', '{"a": "</think>"}'))):
            says(s, f"a call ends reasoning of {budget} tokens", "<muse>\n<think>", None,
                 [made] if made else [], reasoning="Hmm, " if budget == 1 else "Hmm, \nAh, that",
                 tools=TOOLS, thinking_token_budget=budget)
        says(s, "the budget goes on after a call", "<muse>\n<think>", None,
             [("f", '{"a": "</think>"}')], reasoning="Hmm, \nAh, that is", tools=TOOLS,
             thinking_token_budget=3)
        says(s, "a mark of calls that reasoning mentions", "<name>\n<think>", None,
             reasoning="The <tool_call> mark ", tools=TOOLS, thinking_token_budget=3)
        says(s, "a mark of reasoning that content mentions", "<tell>",
             "The mark <think> opens reasoning here.", tools=TOOLS, thinking_token_budget=1)
        says(s, "cut inside of a call", "<call>", "Let me see.", [("get_weather", '{"city": ')],
             reason="length", tools=TOOLS, max_tokens=7)
        says(s, "a stop string inside of a call's arguments", "<call>", "Let me see.",
             reason="stop", stopped_by="Par", tools=TOOLS, stop=["Par"])
        says(s, "a stop string inside of a call's name", "<call>", "Let me see.", reason="stop",
             stopped_by="weather", tools=TOOLS, stop="weather")
        says(s, "a stop string that closes a call", "<call>", "Let me see.", call, tools=TOOLS,
             stop="</tool_call>")
        says(s, "a stop string after a call", "<two>", None, [("f", "{}")], tools=TOOLS, stop="\n")
        end = s.post("/tokenize", prompt="</tool_call>")["tokens"]
        says(s, "a stop token after a call's arguments", "<two>", None, [("f", "{}")], tools=TOOLS,
             stop_token_ids=end[:1])
        par = s.post("/tokenize", prompt="\"Par")["tokens"]
        says(s, "a stop token inside of a call's arguments", "<call>", "Let me see.", reason="stop",
             stopped_by=par[0], tools=TOOLS, stop_token_ids=par)
        says(s, "a stop token that does not come", "<both>", None, [("f", '{"a": 1}')],
             reasoning="Hm.", tools=TOOLS, stop_token_ids=par)
        says(s, "a stop string inside of a second call", "<two>", None, [("f", "{}")], tools=TOOLS,
             stop=["[1,"])
        says(s, "a stop string that does not come", "<two>", None,
             [("f", "{}"), ("g", '{"x": [1, 2]}')], tools=TOOLS, stop=["never"])
        says(s, "a limit inside of a call, with a stop string that does not come", "<call>",
             "Let me see.", [("get_weather", '{"city": ')], reason="length", tools=TOOLS,
             max_tokens=7, stop=["never"])
        says(s, "cut inside of reasoning", "<think>\n", None, reasoning="Hm, ", reason="length",
             max_tokens=1)
        whole = s.ask("<call>", tools=TOOLS, tool_choice="none")[1]["usage"]["prompt_tokens"]
        check(whole < s.ask("<call>", tools=TOOLS)[1]["usage"]["prompt_tokens"],
              "without a choice tools are not written")
        events = s.ask("<call>", stream=True, tools=TOOLS, logprobs=True)[1]
        check(sum(len((x["logprobs"] or {}).get("content", [])) for e in events
                  for x in e["choices"]) == 11, "logprobs of all tokens")
        history = [{"role": "user", "content": "u"},
                   {"role": "assistant", "content": None, "tool_calls": [
                       {"id": "call_1", "type": "function",
                        "function": {"name": "get_weather", "arguments": "{\"city\": \"Lima\"}"}}]},
                   {"role": "tool", "tool_call_id": "call_1", "content": "<none>"}]
        status, answer = s.ask(None, messages=history, tools=TOOLS)
        check(status == 200 and "nothing" in answer["choices"][0]["message"]["content"],
              "a call and its result", answer)
        for fields, param in (({"tools": [], "tool_choice": "required"}, "tool_choice"),
                              ({"tools": TOOLS, "tool_choice": {
                                  "type": "function", "function": {"name": "none"}}}, "tool_choice"),
                              ({"tools": TOOLS, "tool_choice": "some"}, "tool_choice"),
                              ({"tools": [{"type": "web_search"}]}, "tools"),
                              ({"tools": [{"type": "function", "function": {}}]}, "tools"),
                              ({"tools": TOOLS * 342}, "tools"),
                              ({"parallel_tool_calls": 1}, "parallel_tool_calls")):
            status, answer = s.ask("<none>", **fields)
            check(status == 400 and answer["error"]["param"] == param, "refused", fields, status,
                  answer)


def families(model):
    for parser, text, city in (("llama3_json", "<llama>", "Rome"), ("mistral", "<mistral>", "Oslo"),
                               ("phi4_mini_json", "<phi>", "Bonn")):
        with Server(model, "--tool-call-parser", parser, "--reasoning-parser", "none") as s:
            message, _ = says(s, parser, text, None, [("get_weather", json.dumps({"city": city}))],
                              tools=TOOLS)
            check(len(message["tool_calls"][0]["id"]) == (9 if parser == "mistral" else 29),
                  "length of an id", message)
            says(s, "reasoning is content", "<think>\n", "Hm, well.\n</think>\n\nParis.")
    with Server(model, "--reasoning-field", "reasoning_content") as s:
        message = s.ask("<think>\n")[1]["choices"][0]["message"]
        check(message.get("reasoning_content") == "Hm, well." and "reasoning" not in message,
              "another name", message)
    # vLLM requires it for what is the default here.
    with Server(model, "--enable-auto-tool-choice") as s:
        says(s, "a call, with vLLM's option", "<call>", "Let me see.",
             [("get_weather", '{"city": "Paris"}')], tools=TOOLS)
    with Server(model, "--tool-call-parser", "none") as s:
        says(s, "calls as text", "<none>", "<tool_call>nothing</tool_call> of it", tools=TOOLS)


def harmony(model):
    with Server(model) as s:
        check("parsed as openai, reasoning as openai_gptoss" in s.lines, "the choice is told",
              s.lines)
        says(s, "harmony", "<|start|>assistant", None, [("get_weather", '{"city": "Bern"}')],
             tools=TOOLS)
        bern = s.post("/tokenize", prompt=": \"Bern\"}")["tokens"]
        says(s, "a stop token beside that of the format", "<|start|>assistant", reason="stop",
             stopped_by=bern[0], tools=TOOLS, stop_token_ids=bern)


def plain(model):
    with Server(model) as s:
        says(s, "no marks are known", "<none>", "<tool_call>nothing</tool_call> of it")
        status, answer = s.ask("<none>", tools=TOOLS)
        check(status == 400 and "does not write them" in answer["error"]["message"],
              "tools that nobody writes", answer)
    run = subprocess.run([GALLOP, "serve", "-m", model, "--port", "0", "--tool-call-parser",
                          "hermes2"], capture_output=True, text=True)
    check(run.returncode == 2 and "expected auto, none, hermes" in run.stderr,
          "a name that is not known", run)


def main():
    folder = tempfile.mkdtemp(prefix="gallop-tools-")
    try:
        for name, template, tests in (("hermes", HERMES, (hermes, families)),
                                      ("harmony", HARMONY, (harmony,)), ("plain", PLAIN, (plain,))):
            model = os.path.join(folder, name)
            scripted.make(model, SCRIPTS, template, SPECIAL)
            for test in tests:
                if not sys.argv[1:] or test.__name__ in sys.argv[1:]:
                    test(model)
    finally:
        shutil.rmtree(folder)
    print(f"{count - len(faults)} of {count} hold")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
