#!/usr/bin/env python3
"""test_samples.py - answers have the shape of samples recorded from OpenAI's API: each member of
a sample, with its type. Samples and transcripts of streams are in data/api of $GALLOP_SHARED or
of a folder shared beside the tree; without them the test is skipped. Standard library only."""
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "test", "net"), os.path.join(ROOT, "test", "cli")]
SAMPLES = os.path.join(os.environ.get("GALLOP_SHARED")
                       or os.path.join(os.path.dirname(ROOT), "shared"), "data", "api")
if not os.path.isdir(SAMPLES):
    print(f"skipped: no samples in {SAMPLES}")
    sys.exit(77)
import scripted  # noqa: E402
from _cli import check, expect, run_all  # noqa: E402
from _server import Server  # noqa: E402

COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"
SAME = {"object", "role", "type", "index"}  # members whose value is part of the format
# The end may come in the same event as tokens that were computed before the stream began.
MERGED = ("finish_reason",)
TEMPLATE = "{# <tool_call> arguments </think> #}{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}"
SCRIPTS = [["<call>", "<tool_call>{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ",
            "\"Paris\"}}</tool_call>"], ["<think>\n", "Hm.", "\n</think>\n\n", "It ", "rains."],
           ["<say>", "One, ", "two, ", "three."]]
TOOLS = [{"type": "function",
          "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
folder = tempfile.TemporaryDirectory()
scripted.make(folder.name, SCRIPTS, TEMPLATE)
server = Server("--dtype", "fp32", "--threads", 1, "--served-model-name", "small",
                "--reasoning-field", "reasoning_content", model=folder.name)


def _sample(name):
    with open(os.path.join(SAMPLES, "wire-samples", name + ".json"), encoding="utf-8") as f:
        return json.load(f)


def _transcript(name):
    """Returns the events of a recorded stream, with None for its end."""
    with open(os.path.join(SAMPLES, "sse-transcripts", name + ".txt"), encoding="utf-8") as f:
        return [None if x.strip() == "[DONE]" else json.loads(x) for x in f if x.strip()]


def _kind(x):
    return "number" if isinstance(x, (int, float)) and not isinstance(x, bool) else type(x).__name__


def _faults(sample, ours, where="", but=()):
    """Returns what SAMPLE has and OURS lacks: a member, its type, an entry of a list. BUT:
    members that differ on purpose."""
    if _kind(sample) != _kind(ours):
        return [f"{where} is of type {_kind(ours)}, not {_kind(sample)}"]
    if isinstance(sample, dict):
        out = [f"{where}.{k} is missing" for k in sample if k not in ours and k not in but]
        out += [f"{where}.{k} is {ours[k]!r}, not {sample[k]!r}" for k in SAME & set(sample) & set(
            ours) - set(but) if not isinstance(sample[k], (dict, list)) and sample[k] != ours[k]]
        return out + [x for k in sample if k in ours and k not in but
                      for x in _faults(sample[k], ours[k], f"{where}.{k}", but)]
    if isinstance(sample, list):
        if len(ours) < min(len(sample), 1):
            return [f"{where} is empty"]
        return [x for i, s in enumerate(sample)
                for x in _faults(s, ours[min(i, len(ours) - 1)], f"{where}[{i}]", but)]
    return []


def _compare(sample, ours, what, but=()):
    faults = _faults(sample, ours, "", but)
    check(not faults, f"{what}: {faults} in {str(ours)[:300]}")


def _ask(path, text=None, **fields):
    given = {"model": "small", "temperature": 0,
             "max_tokens": 9} if path != EMBEDDINGS else {"model": "small"}
    if text is not None:
        given |= {"messages": [{"role": "user",
                                "content": text}]} if path == CHAT else {"prompt": text}
    status, body = server.post(path, **given | fields)
    expect(status, 200, f"{path} {fields}: {str(body)[:300]}")
    return body


def _stream(text, **fields):
    """Returns the events of a chat, with None for the end of the stream."""
    fields = {"model": "small", "temperature": 0, "max_tokens": 9,
              "messages": [{"role": "user", "content": text}]} | fields
    return [None if x == "[DONE]" else json.loads(x) for x in server.events(CHAT, **fields)]


def what_is_missing_is_noticed():
    sample = {"object": "x", "a": [{"b": 1, "c": None}], "d": "s"}
    same = {"object": "x", "a": [{"b": 2.5, "c": None, "more": 1}, {"b": 3, "c": None}], "d": "t"}
    expect(_faults(sample, same), [], "nothing is missing")
    for change in ({"object": "y"}, {"a": []}, {"a": [{"c": None}]}, {"a": [{"b": "1", "c": None}]},
                   {"a": [{"b": True, "c": None}]}, {"a": [{"b": 1, "c": 1}]}, {"a": {}},
                   {"d": None}):
        expect(len(_faults(sample, same | change)), 1, f"a fault in {change}")
    expect(len(_faults(sample, {})), 3, "faults of nothing")
    expect(_faults(sample, {"object": "x", "a": [{"b": 1, "c": 7}]}, but=("c", "d")), [],
           "what differs on purpose")


def whole_answers():
    _compare(_sample("completion_resp"),
             _ask(COMPLETIONS, "<think>\n", stop=_sample("completion_req")["stop"]), "a completion")
    _compare(_sample("chat_resp_tool_calls"), _ask(CHAT, "<call>", tools=TOOLS), "calls of tools")
    got = _ask(CHAT, "<think>\n", logprobs=True, top_logprobs=2)
    _compare(_sample("chat_resp_logprobs"), got, "log-probabilities")
    for encoding in ("float", "base64"):
        got = _ask(EMBEDDINGS, input=_sample("embedding_req_float")["input"],
                   encoding_format=encoding)
        _compare(_sample(f"embedding_resp_{encoding}"), got, f"embeddings as {encoding}")
    _compare(_sample("models_list"), json.loads(server.request("GET", "/v1/models")[2]), "models")


def events_of_a_stream():
    events = _stream("<think>\n", stream_options={"include_usage": True}, include_reasoning=False)
    expect(events[-1], None, "the end of a stream")
    _compare(_sample("chat_chunk_final_usage"), events[-2], "the event with usage")
    expect(events[-2]["choices"], [], "its choices")
    expect(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""},
           "the role comes alone")
    _compare(_sample("chat_chunk_stream"), events[0], "the first event of a chat")
    calls = [e for e in _stream("<call>", tools=TOOLS)
             if e and e["choices"][0]["delta"].get("tool_calls")]
    pieces = [c for e in calls for c in e["choices"][0]["delta"]["tool_calls"]]
    merged = calls[0] | {"choices": [calls[0]["choices"][0] | {"delta": {"tool_calls": pieces}}]}
    _compare(_sample("chat_chunk_tool_call_delta"), merged, "pieces of a call", MERGED)


def streams_have_the_kinds_of_events_of_transcripts():
    """For each event of a transcript our stream has one with the same members. Kinds are
    distinguished by the members of the delta and by the finish reason."""
    def kind(e):
        c = e["choices"][0]
        return next(iter(c["delta"]), "end" if c["finish_reason"] else "nothing")

    for name, events in (("turn1_chunks", _stream("<say>")), ("scenario2_tool_call_chunks", _stream(
            "<call>", tools=TOOLS)), ("scenario3_reasoning_chunks", _stream("<think>\n")),
                         ("scenario4_vision_chunks", _stream("<say>", max_tokens=2))):
        theirs = _transcript(name)
        seen = {}
        for e in theirs:
            if e:
                seen.setdefault(kind(e), e)
        # The reasoning and the text around a call are those of the recorded model.
        if name == "scenario2_tool_call_chunks":
            seen = {k: e for k, e in seen.items() if k in ("role", "tool_calls")}
        for k, sample in seen.items():
            if k == "end":
                sample["choices"][0]["delta"] = {}
                ours = [e for e in events if e and e["choices"][0]["finish_reason"]
                        == sample["choices"][0]["finish_reason"]]
            else:
                ours = [e for e in events if e and k in e["choices"][0]["delta"]]
            check(ours, f"{name}: an event with {k} in {events}")
            if ours:
                _compare(sample, ours[0], f"{name}, an event with {k}",
                         ("system_fingerprint", *(() if k == "end" else MERGED)))
        expect(events[-1], None, f"{name}: the end of a stream")


def requests_of_samples_are_taken_or_refused_by_name():
    status, _, body = server.request("POST", CHAT, _sample("chat_req_string")
                                     | {"model": "small", "max_tokens": 3})
    check(status == 200 and body.endswith(b"data: [DONE]\n\n"), f"a chat: {status} {body[-200:]}")
    _ask(COMPLETIONS, **_sample("completion_req") | {"model": "small"})
    sample = _sample("chat_req_toolchoice_string")
    status, body = server.post(CHAT, **sample | {"model": "small", "max_tokens": 3})
    expect(status, 200, f"tool_choice {sample['tool_choice']}: {body}")
    for name, path, param, more in (("chat_req_parts_tools", CHAT, "messages", {
            "tool_choice": "auto"}), ("embedding_req_float", EMBEDDINGS, "dimensions", {})):
        status, body = server.post(path, **_sample(name) | {"model": "small"} | more)
        expect(status, 400, f"{name}: {body}")
        check(body["error"]["param"].startswith(param), f"{name}: {body} without {param}")
        _compare(_sample("error_envelope"), body, name, ("type", "code"))
    status, body = server.post(CHAT, model="no-such-model",
                               messages=[{"role": "user", "content": "x"}])
    expect((status, body["error"]["param"]), (404, _sample("error_envelope")["error"]["param"]),
           f"an unknown model: {body}")
    # These are vLLM's: a name, and the status as a number.
    _compare(_sample("error_envelope"), body, "an error", ("type", "code"))


if __name__ == "__main__":
    try:
        run_all(list(globals().items()))
    finally:
        expect(server.end(), 0, "the server ends with 0")
        folder.cleanup()
