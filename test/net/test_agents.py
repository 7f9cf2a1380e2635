#!/usr/bin/env python3
"""test_agents.py - requests of coding agents: the forms of Claude Code, Codex and others are
accepted and have their meaning, and fields that change no answer are never refused. Prompts are
compared by their number of tokens; a scripted model has one for each byte. Standard library
only; GALLOP_BIN names the program."""
import datetime
import json
import os
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "test", "net"), os.path.join(ROOT, "test", "cli")]
import scripted  # noqa: E402
from _cli import check, expect, run_all  # noqa: E402
from _server import Server  # noqa: E402

MESSAGES, RESPONSES, CHAT = "/v1/messages", "/v1/responses", "/v1/chat/completions"
# Writes its whole input. The last message comes last, so that its text begins the script.
TEMPLATE = (
    "{# <tool_call> arguments </think> #}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}{% if reasoning_effort %}{{ reasoning_effort }}{% endif %}{% if tools %}{{ tools | tojson }}"
    "{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.reasoning_content }}{% for c in m.tool_calls %}({{ c.function.name }} "
    "{{ c.function.arguments | tojson }}){% endfor %}{{ m.content }}{% endfor %}")
SCRIPTS = [
    ["<call>", "<tool_call>{\"name\": \"Bash\", ", "\"arguments\": {\"command\": ",
     "\"ls\"}}", "</tool_call>"], ["<agent>", "<tool_call>{\"name\": \"team__close\", ",
                                   "\"arguments\": {\"target\":", " \"a\"}}</tool_call>"],
    ["<two>", "<tool_call>{\"name\": \"Bash\", \"arguments\": {\"command\": \"y\"}}</tool_call>",
     "\n<tool_call>{\"name\": \"Bash\", \"arguments\": {\"command\":", " \"z\"}}</tool_call>"],
    ["<think>\n", "Hm, ", "well.", "\n</think>\n\n", "Done."], ["<say>", "It ", "rains."],
    ["<muse> <think>", " so"]]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
folder = tempfile.TemporaryDirectory()
scripted.make(folder.name, SCRIPTS, TEMPLATE, loops=[" so"])
server = Server("--dtype", "fp32", "--threads", 1, model=folder.name)


def _answer(path, **fields):
    status, body = server.post(path, **fields)
    expect(status, 200, f"{path} {fields}: {str(body)[:300]}")
    return body


def _events(path, headers={}, **fields):
    """Returns the data of each event of a stream whose events have names."""
    status, _, body = server.request("POST", path, {**fields, "stream": True}, headers)
    expect(status, 200, f"{path}: {body[:300]}")
    return [json.loads(x.split("data: ", 1)[1]) for x in body.decode().split("\n\n")[:-1]]


def _count(messages=[{"role": "user", "content": "x"}], **fields):
    return _answer(MESSAGES + "/count_tokens", messages=messages, **fields)["input_tokens"]


def _chat_tokens(messages, **fields):
    return _answer(CHAT, messages=messages, max_tokens=1, **fields)["usage"]["prompt_tokens"]


def _response_tokens(items, **fields):
    return _answer(RESPONSES, input=items, max_output_tokens=1, **fields)["usage"]["input_tokens"]


def _said(sentence):
    """Returns how often the log has it. A line may come after the answer that it describes."""
    end = time.monotonic() + 60
    while not any(sentence in line for line in list(server.log)) and time.monotonic() < end:
        time.sleep(.01)
    return sum(sentence in line for line in list(server.log))


def _user(*blocks):
    return {"role": "user",
            "content": [b if isinstance(b, dict) else {"type": "text", "text": b} for b in blocks]}


# ---- Claude Code ----

TOOL = {"name": "Bash", "description": "d", "input_schema": SCHEMA}
CLAUDE = {"model": os.path.basename(folder.name), "max_tokens": 100, "temperature": 0,
          "tools": [TOOL],
          "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1;"},
                     {"type": "text", "text": "You are an agent.", "cache_control": {
                         "type": "ephemeral"}}], "metadata": {"user_id": "{\"device_id\":\"d\"}"},
          "thinking": {"type": "adaptive", "display": "updates"},
          "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
          "output_config": {"effort": "high"}}


def claude_code_asks_for_a_tool_and_goes_on_behind_its_result():
    turns = [_user("<system-reminder>\n"), {"role": "system", "content": [
        {"type": "text", "text": "# Environment"}]}, _user("<call>")]
    path, heads = MESSAGES + "?beta=true", {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,effort-2025-11-24"}
    status, got = server.post(path, heads, messages=turns, **CLAUDE)
    expect(status, 200, f"{got}")
    call, = got["content"]
    expect((call["type"], call["name"], call["input"], got["stop_reason"]),
           ("tool_use", "Bash", {"command": "ls"}, "tool_use"), "a call")
    expect(got["context_management"], {"applied_edits": []}, "which edits were made")
    turns += [{"role": "assistant", "content": got["content"]},
              _user({"tool_use_id": call["id"], "type": "tool_result", "content": "<say>",
                     "is_error": False, "cache_control": {"type": "ephemeral"}})]
    status, got = server.post(path, heads, messages=turns, **CLAUDE)
    expect((status, [b["text"] for b in got["content"]], got["stop_reason"]),
           (200, ["It rains."], "end_turn"), f"{got}")
    last = _events(path, heads, messages=turns, **CLAUDE)[-2]
    expect((last["type"], last["context_management"]), ("message_delta", {"applied_edits": []}),
           "also in events")
    check("context_management" not in _answer(MESSAGES, messages=[_user("x")], max_tokens=1),
          "not where it is not asked for")


def a_billing_line_is_no_part_of_the_prompt():
    line, rest = "x-anthropic-billing-header: cc_version=2.1.332; cch=%s;", "You are an agent."
    block = lambda text: {"type": "text", "text": text}
    wanted = _count(system=rest)
    for system in ([block(line % "a"), block(rest)], [block(line % "another one"), block(rest)],
                   [block(line % "a" + "\n" + rest)], line % "a" + "\n" + rest):
        expect(_count(system=system), wanted, f"{system}")
    for system in (line % "a", [block(line % "a")], [block(line % "a" + "\n")]):
        expect(_count(system=system), _count(), "no system message is left")
    turns = lambda text: [_user("x"), {"role": "system", "content": text}]
    expect(_count(turns([block(line % "a"), block(rest)])), _count(turns(rest)),
           "in the middle of a conversation")
    for text in (f" {line}", "x-anthropic-billing-header", "x-anthropic-billing-header; a",
                 "x-anthropic-billing-headers: a"):
        expect(_count(system=text), _count(system="." * len(text)), f"{text} is text")
    expect(_count(system="x-anthropic-billing-header:"), _count(), "a line that says no more")
    long = "All work and no play. " * 40
    for cch in "ab":
        got = _answer(MESSAGES, messages=[_user("x")],
                      system=[block(line % cch * len(cch)), block(long)], max_tokens=1)
    check(got["usage"]["cache_read_input_tokens"] >= 256,
          f"it does not spoil the prefix cache: {got['usage']}")


def thinking_may_be_asked_for_and_hidden():
    for thinking, shown in (({"type": "adaptive"}, True),
                            ({"type": "adaptive", "budget_tokens": 0}, True),
                            ({"type": "enabled", "budget_tokens": None}, True),
                            ({"type": "enabled", "display": "summarized"}, True),
                            ({"type": "adaptive", "display": None}, True),
                            ({"type": "adaptive", "display": "omitted"}, False)):
        got = _answer(MESSAGES, messages=[_user("<think>\n")], max_tokens=20, temperature=0,
                      thinking=thinking)
        expect([b["type"] for b in got["content"]], ["thinking", "text"] if shown else ["text"],
               f"{thinking}")
    for kind, told in (("adaptive", ""), ("enabled", "True"), ("disabled", "False")):
        expect(_count(thinking={"type": kind}), _count() + len(told),
               f"what the template is told where thinking is {kind}")
    for effort in ("low", "max"):
        expect(_count(output_config={"effort": effort}), _count() + len(effort),
               "effort is the variable of the template")
    expect(_count(output_config={"effort": None, "format": None, "task_budget": {
        "type": "tokens", "total": 20000}}), _count(), "null is nothing")
    for fields, param in (({"thinking": {"type": "always"}}, "thinking"), (
            {"thinking": 5}, "thinking"), ({"context_management": []}, "context_management"),
                          ({"output_config": {"effort": 5}}, "output_config"),
                          ({"output_config": {"effort": "x" * 33}}, "output_config"),
                          ({"output_config": {"format": {"type": "json_schema", "schema": 5}}},
                           "output_config"), ({"output_config": 5}, "output_config")):
        for path in (MESSAGES, MESSAGES + "/count_tokens"):
            status, body = server.post(path, messages=[_user("x")], **fields)
            expect((status, body["error"]["param"]), (400, param), f"{fields}: {body}")


def a_budget_of_thinking_is_kept():
    """The script reasons without an end."""
    asked = {"messages": [_user("<muse> <think>")], "temperature": 0}
    for budget in (1024, 1025):
        got = _answer(MESSAGES, **asked, max_tokens=1100,
                      thinking={"type": "enabled", "budget_tokens": budget})
        expect([b.get("thinking") for b in got["content"] if b["type"] == "thinking"],
               [" so" * budget], f"reasoning with a budget of {budget}")
        expect((got["usage"]["output_tokens"], got["stop_reason"]),
               (budget + len("</think>") + 1, "end_turn"), "tokens: reasoning, its mark, the end")
    got = _answer(MESSAGES, **asked, max_tokens=1100, thinking_token_budget=7,
                  thinking={"type": "enabled", "budget_tokens": 1024})
    expect(got["usage"]["output_tokens"], 7 + len("</think>") + 1,
           "thinking_token_budget has precedence")
    for kind in ("adaptive", "disabled"):
        got = _answer(MESSAGES, **asked, max_tokens=1100,
                      thinking={"type": kind, "budget_tokens": 5})
        expect(got["usage"]["output_tokens"], 1100, f"no budget where thinking is {kind}")
    least = "expected a whole number in [1024,2147483647]"
    less = "expected less than max_tokens, which is"
    for budget, most, found in ((1023, 1100, f"found 1023, {least}"),
                                (0, 1100, f"found 0, {least}"),
                                (1024.5, 1100, f"found 1024.5, {least}"),
                                ("x", 1100, f"found a string, {least}"),
                                (1024, 1024, f"found 1024, {less} 1024"),
                                (4000, 20, f"found 4000, {less} 20")):
        status, body = server.post(MESSAGES, **asked, max_tokens=most,
                                   thinking={"type": "enabled", "budget_tokens": budget})
        expect((status, body["error"]["param"], body["error"]["message"]),
               (400, "thinking", f"thinking.budget_tokens: {found}"), f"a budget of {budget}")
    status, body = server.post(MESSAGES + "/count_tokens", **{"messages": asked["messages"]},
                               thinking={"type": "enabled", "budget_tokens": 1})
    expect((status, body["error"]["param"]), (400, "thinking"), f"counting tokens: {body}")


def a_budget_without_marks_is_a_warning():
    with Server() as plain:
        for _ in range(2):
            status, body = plain.post(MESSAGES, messages=[_user("x")], max_tokens=2000,
                                      stop_sequences=["e"],
                                      thinking={"type": "enabled", "budget_tokens": 1024})
            expect(status, 200, f"{body}")
        warned = [line for line in plain.log if "`budget_tokens` in 'thinking' is not" in line]
        expect(len(warned), 1, f"{plain.log}")


def responses_repeat_the_format():
    named = {"type": "json_schema", "name": "city", "schema": {"const": 1}, "strict": True}
    lax = {"type": "json_schema", "name": "x", "description": "any",
           "schema": {"type": "integer"}, "strict": False}
    plain = {"type": "text"}
    for text, echoed in ((None, {"format": plain}), ({}, {"format": plain}),
                         ({"format": None, "verbosity": None},
                          {"format": plain, "verbosity": None}),
                         ({"verbosity": "low"}, {"format": plain, "verbosity": "low"}),
                         *((x, x) for x in ({"format": plain}, {"format": {"type": "json_object"}},
                                            {"format": lax},
                                            {"format": named, "verbosity": "high"}))):
        body = {"input": "x", "max_output_tokens": 3, "text": text}
        expect(_answer(RESPONSES, **body)["text"], echoed, f"text of the answer to {text}")
        expect([e["response"]["text"] for e in _events(RESPONSES, **body) if "response" in e],
               [echoed] * 3, f"text of the stream of {text}")


def system_messages_stand_anywhere():
    turn = lambda role, text: {"role": role, "content": text}
    turns = [turn("user", "a"), turn("system", "Be brief."), turn("assistant", "b"),
             turn("user", "c")]
    expect(_count(turns, system="S"), _chat_tokens([turn("system", "S"), *turns]), "as in a chat")
    once = {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"}
    expect(_count([turns[0], once, turns[2]]), _count(turns[:3]), "a system message of one turn")
    expect(_count([turns[0], once, *turns[2:]]), _count([turns[0], *turns[2:]]),
           "whose turn is over")
    expect(_count([turns[0], once | {"clear_at": "never"}, *turns[2:]]), _count(turns),
           "or never is")
    expect(_count([turns[0], {"role": "system", "output_config": {"effort": "low"}}]),
           _count(turns[:1]), "without a text")
    for content in (5, [{"type": "image"}], [{"type": "text"}]):
        status, body = server.post(MESSAGES, messages=[turns[0], turn("system", content)])
        expect((status, body["error"]["param"]), (400, "messages"), f"{content}: {body}")


def deferred_tools_are_shown_once_they_are_found():
    tool = lambda name, **more: {"name": name, "description": "d",
                                 "input_schema": {"type": "object"}, **more}
    a, b, late = tool("A"), tool("B"), tool("Late", defer_loading=True)
    turns = [_user("x"), {"role": "assistant",
                          "content": [{"type": "tool_use", "id": "t", "name": "A", "input": {}}]}]
    result = lambda *content: [*turns, _user({"type": "tool_result", "tool_use_id": "t",
                                              "content": list(content)})]
    expect(_count(tools=[a, late]), _count(tools=[a]), "not before")
    expect(_count(tools=[a, late | {"defer_loading": False}]), _count(tools=[a, tool("Late")]),
           "false defers nothing")
    found = result({"type": "tool_reference", "tool_name": "Late"})
    text = result({"type": "text", "text": "The tool Late is available."})
    expect(_count(found, tools=[a, late]), _count(text, tools=[a, tool("Late")]), "and then it is")
    expect(_count(found, tools=[a, b]), _count(text, tools=[a, b]), "others stay")
    expect(_count(tools=[a, late, {"type": "tool_search_tool_regex_20251119", "name": "s"}]),
           _count(tools=[a, tool("Late")]), "a search that is not run here finds all")
    def change(kind, tool):
        return [_user("x"), {"role": "system", "content": [{"type": "text", "text": "."},
                                                           {"type": kind, "tool": tool}]}]
    plain = [_user("x"), {"role": "system", "content": "."}]
    named = {"type": "tool_reference", "name": "Late"}
    expect(_count(change("tool_addition", named), tools=[a, late]),
           _count(plain, tools=[a, tool("Late")]), "an addition")
    expect(_count(change("tool_removal", named), tools=[a, tool("Late")]), _count(plain, tools=[a]),
           "a removal")
    expect(_count(change("tool_addition", {"type": "tool_definition", "definition": b}), tools=[a]),
           _count(plain, tools=[a, b]), "a definition")
    expect(_count(change("tool_addition", {"type": "mcp_tool_reference", "name": "A"}), tools=[a]),
           _count(plain, tools=[a]), "other tools")
    expect(_said("a 'tool_addition' of other tools than functions is left out"), 1,
           "which is said once")
    define = lambda **more: {"type": "tool_definition", "definition": b | more}
    for kind in (None, "custom"):
        expect(_count(change("tool_addition", define(type=kind)), tools=[a]),
               _count(plain, tools=[a, b]), f"a definition of type {kind}")
    expect(_count(change("tool_addition", define(type="bash_20250124")), tools=[a]),
           _count(plain, tools=[a]), "one of a server's")
    for kind in (5, [], {}, True):
        expect(server.post(MESSAGES, messages=change("tool_addition", define(type=kind)),
                           tools=[a])[0], 400, f"a definition of type {kind}")
    many = [_user("x"), {"role": "system", "content": [
        {"type": "tool_addition", "tool": define(name=f"b{i}")} for i in range(1024)]}]
    expect([server.post(MESSAGES, messages=many, tools=tools)[1]["error"]["param"] for tools in (
        [], [a])], ["messages", "tools"], "1024 are too many for the context, 1025 for anybody")
    for what in (change("tool_addition", {"type": "tool_definition"}), change(
            "tool_addition", {"type": "tool_reference"}), result({"type": "tool_reference"})):
        expect(server.post(MESSAGES, messages=what, tools=[a])[0], 400, f"{what}")
    # after the others, so that the text before it in the prompt is cached
    early, long = tool("Early", defer_loading=True), tool("C" * 200)
    _answer(MESSAGES, messages=found, tools=[early, long, tool("D" * 200)], max_tokens=1)
    got = _answer(MESSAGES, messages=result({"type": "tool_reference", "tool_name": "Early"}),
                  tools=[early, long, tool("D" * 200)], max_tokens=1)
    check(got["usage"]["cache_read_input_tokens"] >= 256, f"{got['usage']}")


def tools_and_blocks_of_servers_are_left_out():
    expect(_count(tools=[TOOL, {"type": "web_search_20250305", "name": "web_search"},
                         {"type": "bash_20250124", "name": "bash"}]), _count(tools=[TOOL]), "tools")
    expect(_count(tools=[{"type": "web_search_20250305", "name": "web_search"}]), _count(),
           "the only one")
    expect(_count(tools=[TOOL | {"type": "custom"}, ]), _count(tools=[TOOL]),
           "a tool of the client's may say so")
    for kind in ("web_search_20250305", "bash_20250124"):
        expect(_said(f"tools of type '{kind}' are left out"), 1, f"{kind} is said once")
    turns = lambda *blocks: [_user("x"), {"role": "assistant", "content": [
        {"type": "text", "text": "a"}, *blocks]}, _user("y")]
    for block in ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                  {"type": "redacted_thinking", "data": "x"},
                  {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                  {"type": "mcp_tool_use", "id": "s"}):
        expect(_count(turns(block)), _count(turns()), f"{block}")
        expect(_said(f"blocks of type '{block['type']}' are left out"), 1, f"{block} is said once")
    text = {"type": "text", "text": "Rain. Much."}
    for block in ({"type": "document",
                   "source": {"type": "text", "media_type": "text/plain", "data": "Rain. Much."}},
                  {"type": "document", "source": {"type": "content", "content": [text]}},
                  {"type": "compaction", "content": "Rain. Much."},
                  {"type": "document", "title": "Rain.",
                   "source": {"type": "content", "content": "Much."}}):
        expect(_count([_user(block)]), _count([_user(text)]), f"{block}")
    found = {"type": "search_result", "title": "t", "source": "s", "content": [text]}
    for wrap in (lambda *b: [_user(*b)], lambda *b: [
            _user({"type": "tool_result", "tool_use_id": "t", "content": [*b]})]):
        expect(_count(wrap(found)),
               _count(wrap(*({"type": "text", "text": x} for x in ("t", "s", "Rain. Much.")))),
               "a search result")
    result = lambda **more: [_user({"type": "tool_result", "tool_use_id": "t", **more})]
    expect((_count(result()), _count(result(content=None)), _count(result(content=[]))),
           (_count(result(content="")),) * 3, "an empty result")
    for content, said in (([{}], "content[0].type: expected a string"),
                          ([text, {"type": 5}], "content[1].type: expected a string"),
                          ([{"type": "audio"}],
                           "content[0]: a block of type 'audio' is not supported here")):
        expect(server.post(MESSAGES, messages=[_user("x"), {"role": "user", "content": content}])[
            1]["error"]["message"], f"messages[1].{said}", "why")
    for block in ({"type": "image", "source": {}},
                  {"type": "document", "source": {"type": "base64", "data": ""}},
                  {"type": "container_upload"}, {"type": "document"}, {"type": "search_result"},
                  {"type": "nothing"}):
        for messages in ([_user(block)],
                         [_user({"type": "tool_result", "tool_use_id": "t", "content": [block]})]):
            status, body = server.post(MESSAGES, messages=messages, max_tokens=1)
            expect((status, body["error"]["param"]), (400, "messages"), f"{block}: {body}")


# ---- usage ----

def tokens_that_were_cached_are_counted_once():
    """Each API has its own way to report the length of the prompt and its cached part."""
    long = "Never odd or even. " * 60
    def messages(got):
        u = got["usage"]
        return (u["input_tokens"] + u["cache_read_input_tokens"] + u["cache_creation_input_tokens"],
                u["cache_read_input_tokens"])
    def responses(got):
        u = got["usage"]
        expect(u["total_tokens"], u["input_tokens"] + u["output_tokens"], "all tokens")
        expect(u["input_tokens_details"]["cache_write_tokens"], 0, "what newer clients look for")
        return u["input_tokens"], u["input_tokens_details"]["cached_tokens"]
    def chat(got):
        u = got["usage"]
        expect(u["total_tokens"], u["prompt_tokens"] + u["completion_tokens"], "all tokens")
        return u["prompt_tokens"], u["prompt_tokens_details"]["cached_tokens"]
    for salt, (path, fields, usage) in enumerate(((MESSAGES, {"max_tokens": 1}, messages), (
            RESPONSES, {"max_output_tokens": 1}, responses), (CHAT, {"max_tokens": 1}, chat))):
        turns = [{"role": "user", "content": long}]
        wanted = _count(turns)
        fields |= {"cache_salt": str(salt), "input" if path == RESPONSES else "messages": turns}
        first, second = usage(_answer(path, **fields)), usage(_answer(path, **fields))
        expect((first, second[0]), ((wanted, 0), wanted), f"{path}: tokens of the prompt")
        check(256 <= second[1] < wanted, f"{path}: cached tokens: {second}")
        if path == CHAT:
            several = usage(_answer(path, **fields | {"cache_salt": "n", "n": 3}))
            expect(
                several, (wanted, 0),
                "a prompt is counted once for all answers, which have nothing cached from each other")
    end, = (e for e in _events(MESSAGES, messages=turns, max_tokens=1, cache_salt="0")
            if e["type"] == "message_delta")
    expect(messages(end), (wanted, second[1]), "usage at the end of a stream")
    got = _answer("/api/chat", messages=[{"role": "user", "content": long}], stream=False,
                  options={"num_predict": 1})
    expect(got["prompt_eval_count"], wanted, "Ollama counts all tokens of the prompt")


def models_are_listed_for_clients_of_both_vendors():
    listed = json.loads(server.request("GET", "/v1/models")[2])
    name = os.path.basename(folder.name)
    model, = (m for m in listed["data"] if m["id"] == name)
    expect((listed["object"], listed["has_more"], listed["first_id"], listed["last_id"]),
           ("list", False, listed["data"][0]["id"], listed["data"][-1]["id"]), "the list")
    expect((model["object"], model["owned_by"], model["max_model_len"]), ("model", "gallop", 2048),
           "OpenAI's members, and vLLM's")
    expect((model["type"], model["display_name"], model["lifecycle"], model["max_input_tokens"],
            model["max_tokens"]), ("model", name, "active", 2048, 2048), "Anthropic's members")
    made = datetime.datetime.strptime(model["created_at"],
                                      "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    expect(int(made.timestamp()), model["created"], "the same time")


# ---- Codex ----

FUNCTION = {"type": "function", "name": "Bash", "description": "d", "strict": False,
            "parameters": SCHEMA}
NAMESPACE = {"type": "namespace", "name": "team", "description": "Agents.", "tools": [
    {"type": "function", "name": "close", "strict": False, "parameters": {"type": "object"},
     "defer_loading": True}, {"type": "custom", "name": "patch", "format": {"type": "text"}}]}
CODEX = {"tool_choice": "auto", "parallel_tool_calls": True, "reasoning": {"summary": "auto"},
         "store": False, "temperature": 0, "include": ["reasoning.encrypted_content"],
         "prompt_cache_key": "k", "client_metadata": {"turn_id": "t"}, "text": {"verbosity": "low"},
         "service_tier": "auto", "max_output_tokens": 100,
         "tools": [FUNCTION, NAMESPACE, {"type": "web_search", "external_web_access": False},
                   {"type": "custom", "name": "apply_patch"}, {"type": "local_shell"},
                   {"type": "tool_search", "execution": "client"}]}


def _item(kind, **fields):
    return {"type": kind, **fields}


def _message(role, text):
    return _item("message", id="msg_1", role=role, content=[
        {"type": "output_text" if role == "assistant" else "input_text", "text": text}])


def codex_calls_functions_of_a_namespace():
    items = [_message("developer", "Be brief."), _message("user", "<agent>")]
    whole = _answer(RESPONSES, input=items, **CODEX)
    events = _events(RESPONSES, input=items, **CODEX)
    added, = (e["item"] for e in events if e["type"] == "response.output_item.added")
    done, = (e["item"] for e in events if e["type"] == "response.output_item.done")
    ended, = (e for e in events if e["type"] == "response.function_call_arguments.done")
    expect((ended["name"], json.loads(ended["arguments"])), ("close", {"target": "a"}),
           "the event of whole arguments")
    expect((added["name"], added["namespace"], added["arguments"]), ("close", "team", ""),
           "the item that begins")
    for call in (whole["output"][0], done, events[-1]["response"]["output"][0]):
        expect((call["type"], call["name"], call["namespace"], json.loads(call["arguments"]),
                call["status"]), ("function_call", "close", "team", {"target": "a"}, "completed"),
               "a call")
    got = _answer(RESPONSES, input=[*items, done, _item("function_call_output", call_id=done[
        "call_id"], output=[{"type": "input_text", "text": "<say>"}])], **CODEX)
    expect([i["content"][0]["text"] for i in got["output"]], ["It rains."],
           "the answer to its result")
    plain = _answer(RESPONSES, input="<call>", **CODEX)["output"][0]
    expect((plain["name"], "namespace" in plain), ("Bash", False), "a function of none has none")
    own = {**FUNCTION, "name": "team__close"}
    for tools in ([own, NAMESPACE], [NAMESPACE, own], [own], [{**NAMESPACE, "name": "tea"}, own]):
        call = _answer(RESPONSES, input="<agent>", **CODEX | {"tools": tools})["output"][0]
        expect((call["name"], "namespace" in call), ("team__close", False),
               f"a function that is called so: {tools}")
    for kind in ("web_search", "custom", "local_shell", "tool_search"):
        expect(_said(f"tools of type '{kind}' are left out"), 1, f"{kind} is said once")
    for tools in ([{"type": "namespace", "name": "n"}], [{"type": "namespace", "tools": []}],
                  [{"type": 5}], [{"type": "function"}], [{**NAMESPACE, "tools": [
                      {"type": "function", "name": str(i)} for i in range(1025)]}]):
        status, body = server.post(RESPONSES, input="x", tools=tools)
        expect((status, body["error"]["param"]), (400, "tools"), f"{str(tools)[:80]}: {body}")


def functions_of_responses_are_those_of_a_chat():
    chat = lambda name, **more: {"type": "function", "function": {"name": name, **more}}
    ask, turns = [_message("user", "x")], [{"role": "user", "content": "x"}]
    tools = [chat("Bash", description="d", parameters=SCHEMA),
             chat("team__close", parameters={"type": "object"})]
    expect(_response_tokens(ask, tools=CODEX["tools"]), _chat_tokens(turns, tools=tools), "tools")
    expect(_response_tokens(ask, tools=[{k: v for k, v in FUNCTION.items() if k != "type"}]),
           _chat_tokens(turns, tools=tools[:1]), "no type")
    expect(_response_tokens(ask, tools=[{"type": "web_search"}]), _chat_tokens(turns),
           "none are left")
    called = lambda name, arguments: {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c", "type": "function",
         "function": {"name": name, "arguments": json.dumps(arguments)}}]}
    result = lambda text: {"role": "tool", "tool_call_id": "c", "content": text}
    shell = {"type": "exec", "command": ["ls"]}
    for call, output, turn, text in (
            (_item("function_call", call_id="c", name="f", arguments="{\"a\": 1}"),
             _item("function_call_output", call_id="c", output="r"),
             called("f", {"a": 1}), "r"),
            (_item("function_call", call_id="c", name="f", namespace="n", arguments="{}", id="fc",
                   status="completed"),
             _item("function_call_output", call_id="c", output=[
                 {"type": "input_text", "text": "r"}, {"type": "output_text", "text": "s"}]),
             called("n__f", {}), "r\ns"),
            (_item("function_call", call_id="c", name="f", namespace=None, arguments="{}"),
             _item("function_call_output", call_id="c", output=None),
             called("f", {}), ""),
            (_item("custom_tool_call", call_id="c", name="apply_patch", input="*** Begin"),
             _item("custom_tool_call_output", call_id="c", output="r"),
             called("apply_patch", {"input": "*** Begin"}), "r"),
            (_item("custom_tool_call", call_id="c", name="p", namespace="n", input=""),
             _item("custom_tool_call_output", call_id="c", output=[]),
             called("n__p", {"input": ""}), ""),
            (_item("local_shell_call", call_id="c", action=shell, status="completed"),
             _item("local_shell_call_output", id="c", output="r"),
             called("local_shell", shell), "r"),
            (_item("shell_call", call_id="c", action={"commands": ["ls"]}),
             _item("shell_call_output", call_id="c", output=[{"stdout": "r"}]),
             called("shell", {"commands": ["ls"]}), '[{"stdout":"r"}]'),
            (_item("apply_patch_call", call_id="c", operation={"type": "create_file"}),
             _item("apply_patch_call_output", call_id="c", output="r"),
             called("apply_patch", {"type": "create_file"}), "r")):
        expect(_response_tokens([*ask, call, output]), _chat_tokens([*turns, turn, result(text)]),
               f"{call}")
    text = {**called("f", {}), "content": "a"}
    call, output = _item("function_call", call_id="c", name="f",
                         arguments="{}"), _item("function_call_output", call_id="c", output="r")
    for items in ([_message("assistant", "a"), call, output],
                  [call, _message("assistant", "a"), output]):
        expect(_response_tokens([*ask, *items]), _chat_tokens([*turns, text, result("r")]),
               "a text beside a call is of the same turn")
    other = {"id": "d", "type": "function", "function": {"name": "g", "arguments": "{\"b\": 2}"}}
    two = {**called("f", {}), "tool_calls": [*called("f", {})["tool_calls"], other]}
    results = [result("r"), {"role": "tool", "tool_call_id": "d", "content": "s"}]
    items = [call, _item("function_call", call_id="d", name="g", arguments="{\"b\": 2}"), output,
             _item("function_call_output", call_id="d", output="s")]
    expect(_response_tokens([*ask, *items]), _chat_tokens([*turns, two, *results]),
           "two calls of one turn")
    blocks = [{"type": "tool_use", "id": "c", "name": "f", "input": {}},
              {"type": "tool_use", "id": "d", "name": "g", "input": {"b": 2}}]
    given = [{"type": "tool_result", "tool_use_id": i, "content": t} for i,
             t in (("c", "r"), ("d", "s"))]
    expect(_count([_user("x"), {"role": "assistant", "content": [{"type": "text", "text": "a"},
                                                                 *blocks]}, _user(*given, "then")]),
           _chat_tokens([*turns, {**two, "content": "a"}, *results,
                         {"role": "user", "content": "then"}]), "two calls of one turn, as blocks")
    thought = _item("reasoning", id="rs", summary=[],
                    content=[{"type": "reasoning_text", "text": "Hm."}], encrypted_content="gAAAA")
    expect(_response_tokens([*ask, thought, call, output]),
           _chat_tokens([*turns, {**called("f", {}), "reasoning_content": "Hm."}, result("r")]),
           "reasoning of an earlier turn")
    expect(_response_tokens([*ask, thought | {"content": None}, _message("user", "y")]),
           _chat_tokens([*turns, {"role": "user", "content": "y"}]),
           "reasoning that only others can read")
    expect(_response_tokens([*ask, _item("message", role="assistant",
                                         content=[{"type": "refusal", "refusal": "No."}])]),
           _chat_tokens([*turns, {"role": "assistant", "content": "No."}]), "a refusal")


def what_the_tools_of_others_did_is_left_out():
    ask = [_message("user", "x")]
    for kind in ("web_search_call", "mcp_list_tools", "compaction"):
        expect(_response_tokens([*ask, _item(kind, id="i")]), _response_tokens(ask), f"{kind}")
        expect(_response_tokens([*ask, _item(kind, id="i")]), _response_tokens(ask), f"{kind}")
        expect(_said(f"items of type '{kind}' are left out of the input"), 1,
               f"{kind} is said once")
    for item in (_item("item_reference", id="i"), _item("nothing"), _item("function_call"),
                 _item("function_call_output", output="r"), _item("custom_tool_call", call_id="c"),
                 _item("function_call", call_id="c", name="f"),
                 _item("local_shell_call", action={}),
                 _item("function_call_output", call_id="c", output=[{"type": "input_image"}]),
                 _item("message", role="tool", content="x"), _item("message", role="user", content=[
                     {"type": "nothing", "text": "x"}]), _item("message", role="user", content=5),
                 _item("message", role="user", content=[{"type": "input_text"}])):
        status, body = server.post(RESPONSES, input=[*ask, item])
        expect((status, body["error"]["param"]), (400, "input"), f"{item}: {body}")


# ---- all APIs ----

def a_client_may_want_one_call_at_a_time():
    """Each API has its own field. Without it there are two calls."""
    ask, chat = {"messages": [_user("<two>")], "max_tokens": 99}, {
        "type": "function", "function": {"name": "Bash", "parameters": SCHEMA}}
    calls = {MESSAGES: lambda got: [b["input"]["command"] for b in got["content"]
                                    if b["type"] == "tool_use"],
             RESPONSES: lambda got: [json.loads(i["arguments"])["command"] for i in got["output"]
                                     if i["type"] == "function_call"],
             CHAT: lambda got: [json.loads(c["function"]["arguments"])["command"]
                                for c in got["choices"][0]["message"]["tool_calls"]]}
    for path, fields, one, two in (
            (MESSAGES, ask | {"tools": [TOOL]},
             {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
             {"tool_choice": {"type": "auto", "disable_parallel_tool_use": False}}),
            (RESPONSES, {"input": "<two>", "tools": [FUNCTION]}, {"parallel_tool_calls": False},
             {"parallel_tool_calls": True}), (CHAT, ask | {"tools": [chat]}, {
                 "parallel_tool_calls": False}, {"parallel_tool_calls": True})):
        for more, wanted in (({}, ["y", "z"]), (two, ["y", "z"]), (one, ["y"])):
            expect(calls[path](_answer(path, temperature=0, **fields | more)), wanted,
                   f"{path} {more}")


def events_of_text_alone_have_log_probabilities():
    """Types of clients require a list, which is empty if none were requested."""
    for prompt in ("<call>", "<think>\n", "<say>"):
        for event in _events(RESPONSES, input=prompt, temperature=0, tools=[FUNCTION]):
            text = event["type"] in ("response.output_text.delta", "response.output_text.done")
            expect(event.get("logprobs"), [] if text else None, event["type"])


def as_many_tools_as_the_limit_are_taken():
    functions = [{"type": "function", "name": str(i)} for i in range(1025)]
    tools = [{"name": str(i), "input_schema": {"type": "object"}} for i in range(1025)]
    # The first ones are too long for the context.
    for n, param in ((1024, "input"), (1025, "tools")):
        for given in (functions[:n], [*functions[:n - 1],
                                      {"type": "namespace", "name": "n", "tools": functions[:1]}]):
            if len(given) <= 1024:
                status, body = server.post(RESPONSES, input="x", tools=given)
                expect((status, body["error"]["param"]), (400, param),
                       f"{n} functions: {str(body)[:200]}")
    expect(server.post(RESPONSES, input="x", tools=functions)[1]["error"]["param"], "tools",
           "one too many")
    check(_count(tools=tools[:1024]) > 10000, "as many tools as may be")
    expect(server.post(MESSAGES + "/count_tokens", messages=[_user("x")], tools=tools)[0], 400,
           "one more")


def fields_that_change_no_answer_are_taken():
    function = {"type": "function", "function": {"name": "Bash", "description": "d", "strict": True,
                                                 "parameters": SCHEMA}}
    said, ask = "It rains.", [{"role": "user", "content": "<say>", "name": "u"}]
    part = [{"role": "user", "content": [{"type": "text", "text": "<say>",
                                          "cache_control": {"type": "ephemeral"}}]}]
    for path, base, text, fields in (
            (CHAT,
             {"messages": ask, "max_tokens": 9}, lambda g: g["choices"][0]["message"]["content"],
             ({"messages": part}, {"tools": [function], "tool_choice": "auto",
                                   "parallel_tool_calls": True}, {"tools": []}, {"tools": None},
              {"store": True, "metadata": {"a": "b"}, "service_tier": "auto", "user": "u",
               "safety_identifier": "s"},
              {"prompt_cache_key": "k", "prompt_cache_retention": "24h", "prompt_cache_options": {},
               "verbosity": "low", "prediction": None},
              {"response_format": {"type": "text"}, "modalities": ["text"], "logit_bias": {},
               "stop": None, "n": 1, "seed": None},
              {"logprobs": False, "top_logprobs": 0, "frequency_penalty": 0, "presence_penalty": 0,
               "stream": False, "stream_options": None},
              {"max_completion_tokens": 9, "max_tokens": None},
              {"provider": {"order": ["x"]}, "usage": {"include": True}, "transforms": []},
              {"thinking": {"type": "enabled"}, "extra_body": {}, "enable_thinking": False,
               "keep_alive": -1})),
            (MESSAGES, {"messages": part, "max_tokens": 9}, lambda g: g["content"][0]["text"],
             ({"service_tier": "auto", "metadata": {"user_id": "u"}, "inference_geo": "eu",
               "betas": ["x"], "speed": "fast", "diagnostics": {}},
              {"container": None, "mcp_servers": [], "context_management": None,
               "output_config": {}, "stop_sequences": None, "system": None},
              {"context_management": {"edits": []}, "cache_control": {"type": "ephemeral"},
               "tool_choice": {"type": "auto"}, "tools": []},
              {"billing_policy": {"type": "billing_policy"}, "fallbacks": [],
               "user_profile_id": "u", "workspace_id": "w", "thread": None},
              {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
               "a_new_field": {"a": 1}})),
            (RESPONSES, {"input": "<say>",
                         "max_output_tokens": 9}, lambda g: g["output"][0]["content"][0]["text"],
             ({"store": True, "metadata": {}, "service_tier": "flex", "user": "u",
               "safety_identifier": "s", "prompt_cache_retention": "24h"},
              {"include": ["web_search_call.action.sources", "file_search_call.results",
                           "code_interpreter_call.outputs",
                           "computer_call_output.output.image_url", "message.input_image.image_url",
                           "web_search_call.results"]},
              {"include": [], "include": None, "text": {
                  "format": {"type": "text"}, "verbosity": "high"}, "reasoning": {"effort": None}},
              {"background": False, "conversation": None, "previous_response_id": None,
               "prompt": None, "truncation": "disabled"}, {"truncation": "auto"},
              {"max_tool_calls": 5, "top_logprobs": 0, "stream_options": {
                  "include_obfuscation": False}, "tools": [], "tool_choice": "auto"},
              {"context_management": [{"type": "compaction", "compact_threshold": 10000}],
               "client_metadata": {}, "prompt_cache_options": {}},
              {"tools": [FUNCTION | {"strict": True}], "parallel_tool_calls": True,
               "instructions": None, "a_new_field": 5}))):
        for more in fields:
            expect(text(_answer(path, temperature=0, **base | more)), said, f"{path} {more}")
    for path, fields, param in ((MESSAGES, {"compaction": {"type": "x"}}, "compaction"), (
            MESSAGES, {"thread": {"type": "create"}}, "thread"), (
                RESPONSES, {"input": "x", "include": ["message.output_text.logprobs"]}, "include")):
        status, body = server.post(path, **{"messages" if path == MESSAGES else "input": [
            _user("x")] if path == MESSAGES else "x", **fields})
        expect((status, body["error"]["param"]), (400, param),
               f"what would change it is refused: {body}")


if __name__ == "__main__":
    try:
        run_all(list(globals().items()))
    finally:
        server.end()
        folder.cleanup()
