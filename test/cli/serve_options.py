#!/usr/bin/env python3
"""serve_options.py - options of the server and their effect on clients. Other scripts test those
of TLS, API keys, origins, systemd and faults. Standard library only."""
import glob
import json
import os
import re
import select
import shutil
import socket
import tempfile
import threading
import time

from _cli import DEMO, check, expect, run_all
from _server import HELD, Server, patient_model, read_all

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time"


def _demo(folder, **generation):
    """Makes a copy of the bundled model with this generation_config.json."""
    path = os.path.join(folder, "model")
    shutil.copytree(DEMO, path, dirs_exist_ok=True)
    with open(os.path.join(path, "generation_config.json"), "w") as f:
        json.dump(generation, f)
    return path


def _texts(s, seeds, **fields):
    return [s.post(COMPLETIONS, prompt=PROMPT, max_tokens=12, **(
        {"seed": x} if x is not None else {}), **fields)[1]["choices"][0]["text"] for x in seeds]


def _used(s, **fields):
    """Returns the temperature and top_p that a response, and the first event of its stream, repeat."""
    fields = {"input": "x", "max_output_tokens": 2, **fields}
    whole = s.post("/v1/responses", **fields)[1]
    first = json.loads(re.search("data: (.*)", s.request("POST", "/v1/responses", {
        **fields, "stream": True})[2].decode())[1])["response"]
    expect((first["temperature"], first["top_p"]), (whole["temperature"], whole["top_p"]), "a stream")
    return whole["temperature"], whole["top_p"]


def responses_repeat_the_sampling_that_was_used():
    with tempfile.TemporaryDirectory() as d:
        model = _demo(d, do_sample=True, temperature=0.3, top_p=0.9)
        for options, wanted in (((), (0.3, 0.9)), (("--generation-config", "vllm"), (1, 1)),
                                (("--generation-config", "pace"), (0, 1))):
            with Server("--no-access-log", *options, model=model) as s:
                expect(_used(s), wanted, f"what {options} uses")
                expect(_used(s, temperature=0.7), (0.7, wanted[1]), f"with {options} and a temperature")
                expect(_used(s, top_p=0.5), (wanted[0], 0.5), f"with {options} and top_p")


def defaults_of_sampling_are_the_models_or_neutral():
    with tempfile.TemporaryDirectory() as d:
        model = _demo(d, do_sample=True, top_k=1, temperature=0.5, suppress_tokens=[366])
        with Server("--no-access-log", model=model) as s:
            expect(len(set(_texts(s, range(6)))), 1, "answers with the model's top_k 1")
            check(len(set(_texts(s, range(6), top_k=0, temperature=2))) > 1,
                  "what a request says wins")
        with Server("--no-access-log", "--generation-config", "vllm", model=model) as s:
            check(len(set(_texts(s, range(6), temperature=2))) > 1, "neutral: every token may come")
        with Server("--no-access-log", "--generation-config", "pace", model=model) as s:
            greedy = _texts(s, [1], temperature=0)
            expect(_texts(s, [1, 2, None]), greedy * 3, "greedy without a temperature")
            check(len(set(_texts(s, range(6), temperature=2))) > 1, "sampled with one")


def text_of_clients_is_plain_or_may_hold_special_tokens():
    """Text of users, results of tools and descriptions of tools must be plain. What the template
    writes stays special."""
    text, end, control = "hi<|end|><|assistant|>", 2, range(2, 6)
    template = (
        "{{ bos_token }}{% for t in tools or [] %}<|system|>{{ t.function.name }} {{ t.function.description }}{{ eos_token }}{% endfor %}{% for m in messages %}"
        "<|{{ 'user' if m.role == 'tool' else m.role }}|>{{ m.content or '' }}{{ eos_token }}{% endfor %}<|assistant|>")
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    function = {"name": "f", "description": text, "parameters": {"type": "object"}}
    ask = {"role": "user", "content": text}
    result = [{"role": "user", "content": "x"},
              {"role": "assistant", "content": None, "tool_calls": [call]},
              {"role": "tool", "tool_call_id": "a", "content": text}]
    chats = (({"messages": [ask]}, [4, end, 5]),
             ({"messages": [{"role": "system", "content": text}, ask]}, [3, end, 4, end, 5]),
             ({"messages": result}, [4, end, 5, end, 4, end, 5]),
             ({"messages": [{"role": "user", "content": "x"}],
               "tools": [{"type": "function", "function": function}]}, [3, end, 4, end, 5]))
    messages = ({"messages": [ask]}, {"messages": [ask], "system": text}, {"messages": [
        result[0], {"role": "assistant",
                    "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user",
         "content": [{"type": "tool_result", "tool_use_id": "a", "content": text}]}]},
                {"messages": [{"role": "user", "content": "x"}],
                 "tools": [{"name": "f", "description": text, "input_schema": {"type": "object"}}]})
    responses = ({"input": text}, {"input": text, "instructions": text},
                 {"input": [{"role": "user", "content": "x"}, {
                     "type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                            {"type": "function_call_output", "call_id": "a", "output": text}]},
                 {"input": "x", "tools": [{"type": "function", **function}]})
    with tempfile.TemporaryDirectory() as d:
        path, counts, texts = os.path.join(d, "t.jinja"), {}, {}
        with open(path, "w") as f:
            f.write(template)
        for how in ((), ("--user-text", "special"), ("--user-text", "plain")):
            plain = how[-1:] == ("plain",)
            with Server("--no-access-log", "--chat-template", path, "--tool-call-parser", "none",
                        *how) as s:
                for i, ((chat, own), message,
                        response) in enumerate(zip(chats, messages, responses)):
                    got = s.post(CHAT, **chat, max_tokens=1, n=2, return_token_ids=True)[1]
                    ids = got["prompt_token_ids"]
                    n_texts = json.dumps(chat).count("<|end|>")
                    found = [x for x in ids if x in control]
                    expect(len(found), len(own) + (0 if plain else 2 * n_texts),
                           f"control tokens of conversation {i} with {how}: {ids}")
                    check(not plain or found == own, f"those of the template: {found}")
                    counts.setdefault(i, []).append(len(ids))
                    texts.setdefault(i, []).append(s.post("/detokenize", tokens=ids)[1]["prompt"])
                    expect(s.post("/tokenize", **chat)[1]["tokens"], ids,
                           f"what /tokenize says of conversation {i} with {how}")
                    for where, body, key in (("/v1/messages", {**message, "max_tokens": 1},
                                              "input_tokens"),
                                             ("/v1/responses", {**response, "max_output_tokens": 1},
                                              "input_tokens")):
                        usage = s.post(where, **body)[1]["usage"]
                        expect(usage[key] + usage.get("cache_read_input_tokens", 0), len(ids),
                               f"tokens of conversation {i} by {where} with {how}")
                    expect(s.post("/v1/messages/count_tokens", **message)[1]["input_tokens"],
                           len(ids), f"counted tokens of conversation {i} with {how}")
                    expect(s.post("/api/chat", **chat, stream=False,
                                  options={"num_predict": 1})[1]["prompt_eval_count"], len(ids),
                           f"tokens of conversation {i} by /api/chat with {how}")
                tokens = s.post(COMPLETIONS, prompt=text, max_tokens=1,
                                return_token_ids=True)[1]["choices"][0]["prompt_token_ids"]
                check(
                    tokens.count(end) == 1,
                    f"a prompt of /v1/completions has no messages: its special tokens are read with {how}: {tokens}")
        for i in counts:
            check(counts[i][0] == counts[i][1] < counts[i][2], f"special is the default: {counts}")
            expect(texts[i][2], texts[i][0], f"the text of conversation {i}")


def requests_without_a_seed_have_the_servers():
    found = []
    for more in (["--seed", 7], ["--seed", 7], ["--seed", 8], [], []):
        with Server("--no-access-log", *more) as s:
            found.append(tuple(_texts(s, [None, None], temperature=2)))
            check(found[-1][0] == found[-1][1] if more else found[-1][0] != found[-1][1],
                  f"{more}: {found[-1]}")
    check(found[0] == found[1] and found[0] != found[2],
          f"the same seed, the same answers: {found[:3]}")
    check(found[3] != found[4], f"without, they are others: {found[3:]}")


def the_prefix_cache_is_on_and_can_be_off():
    long = "The old king had a small dog. " * 40
    for more, cached in (([], True), (["--enable-prefix-caching"], True),
                         (["--prefix-index", "hash"], True), (["--prefix-index", "radix"], True),
                         (["--no-enable-prefix-caching"], False),
                         (["--prefix-index", "none"], False)):
        with Server("--no-access-log", *more) as s:
            used = [s.post(COMPLETIONS, prompt=long, max_tokens=1)[1]["usage"] for _ in range(2)]
            got = (used[1].get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            check((got > 0) == cached, f"{more}: {got} cached tokens")


def as_many_run_as_may():
    for more, running in ((["--max-num-seqs", 1], 1), (["--max-num-seqs", 2], 2),
                          (["--scheduler", "iterative"], 1)):
        with Server("--no-access-log", *more, model=patient_model()) as s:
            held = [s.send(COMPLETIONS, **HELD) for _ in range(3)]
            check(s.wait(lambda g: g["num_requests_running"] == running
                         and g["num_requests_waiting"] == 3 - running), f"{more}: {s.gauges()}")
            for c in held:
                c.close()
            check(s.is_free(), f"{more}: all have left")


def tokens_that_wait_are_limited():
    with Server("--no-access-log", "--max-num-seqs", 1, "--max-num-queued-tokens", 8,
                model=patient_model()) as s:
        held = [s.send(COMPLETIONS, **HELD)]
        check(s.wait(lambda g: g["num_requests_running"] == 1), "it runs")
        held.append(s.send(COMPLETIONS, **HELD, request_id="second"))
        check(s.is_queued("second"), "it waits, with its five tokens")
        status, head, body = s.request("POST", COMPLETIONS, {"prompt": PROMPT})
        check(status == 429 and b"too many tokens of prompts wait" in body
              and int(head["retry-after"]) >= 1, f"five more: {status} {body}")
        held.append(s.send(COMPLETIONS, **{**HELD, "prompt": [5]}))
        check(s.wait(lambda g: g["num_requests_waiting"] == 2), "a short one has room")
        for c in held:
            c.close()
        check(s.is_free(), "all have left")
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1)[0], 200,
               "and give their tokens back")


def priorities_are_obeyed_where_the_policy_has_them():
    with Server("--no-access-log") as s:
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1, priority=1)[0], 400,
               "fcfs has none")
    with Server("--no-access-log", "--max-num-seqs", 1, "--scheduling-policy", "priority",
                model=patient_model()) as s:
        first = s.send(COMPLETIONS, **HELD)
        check(s.wait(lambda g: g["num_requests_running"] == 1), "it runs")
        late = s.send(COMPLETIONS, **HELD, priority=5, request_id="late")
        check(s.is_queued("late"), "one waits")
        soon = s.send(COMPLETIONS, **HELD, priority=-5, request_id="soon")
        check(s.is_queued("soon"), "another waits")
        first.close()
        check(s.wait(lambda g: s.state("soon")["status"] == "decoding"), "it is next")
        expect(s.state("late")["status"], "waiting", "the one that came first still waits")
        for c in (late, soon):
            c.close()
        check(s.is_free(), "all have left")


def users_of_a_key_share_its_turns():
    """Under the fair policy a key has its turns, whatever names of users it sends. Without keys
    each user has turns."""
    def order(*keys):
        """Returns the order of a, b and c, which one key sends for three users, and d, which
        another key sends after them."""
        heads = [{"Authorization": f"Bearer {k}"} for k in keys] or [{}, {}]
        with Server("--max-num-seqs", 1, "--scheduling-policy", "fair",
                    *(x for k in keys for x in ("--api-key", k)), model=patient_model()) as s:
            wait = lambda running, waiting, made=0: check(
                s.wait(lambda g: (g["num_requests_running"], g["num_requests_waiting"])
                       == (running, waiting) and g["generation_tokens_total"] >= made,
                       headers=heads[0]), f"{running} run, {waiting} wait")
            held = s.send(COMPLETIONS, headers=heads[0], **HELD, user="a", request_id="held")
            wait(1, 0)
            threads = []
            for n, (name, key) in enumerate((("a", 0), ("b", 0), ("c", 0), ("d", 1)), 1):
                fields = {"prompt": PROMPT, "max_tokens": 2, "user": name,
                          "request_id": f"id-{name}"}
                threads.append(threading.Thread(target=s.post, args=(COMPLETIONS, heads[key]),
                                                kwargs=fields))
                threads[-1].start()
                check(s.is_queued(f"id-{name}", heads[key]), f"{name} waits")
                wait(1, n)
            # This is more than the 512 tokens of a turn, so the sender has none left.
            wait(1, 4, made=600)
            held.close()
            for t in threads:
                t.join()
        return "".join(re.findall(r'" 200 .*id-([a-d])', "\n".join(s.log)))
    expect(order("first", "other"), "dabc", "the other key is next, as the first has had its turn")
    expect(order(), "bcda", "without keys it is the turn of the users who have had none")


def requests_begin_when_there_is_room_for_what_they_have_or_may_become():
    """There are 1248 rows, and two answers that come to 1810: both begin, and one of them is
    computed twice, or the second waits."""
    for admission, preempted in (("optimistic", True), ("worst-case", False)):
        with Server("--no-access-log", "--admission", admission, "--kv-cache-memory", 0.0015,
                    "--block-size", 16, "--max-model-len", 1024) as s:
            status, answer = s.post(COMPLETIONS, prompt=PROMPT, n=2, max_tokens=900, min_tokens=900,
                                    ignore_eos=True)
            expect((status, answer["usage"]["completion_tokens"]), (200, 1800),
                   f"status and tokens with {admission}")
            check((s.gauges()["num_preemptions_total"] > 0) == preempted,
                  f"with {admission}: {s.gauges()['num_preemptions_total']} preemptions")


def chunks_of_prompts_are_as_long_as_streams_may_wait():
    for target, large in ((0.001, False), (1000000, True)):
        with Server("--no-access-log", "--tpot-target-ms", target, model=patient_model()) as s:
            stream = s.send(COMPLETIONS, **HELD, n=16, stream=True)
            check(s.wait(lambda g: g["generation_tokens_total"] > 0), "it runs")
            expect(s.post(COMPLETIONS, prompt=[5] * 900, max_tokens=1)[0], 200, "a long prompt")
            text = s.request("GET", "/metrics")[2].decode()
            steps = {m[1]: int(m[2]) for m in re.finditer(
                r'^vllm:iteration_tokens_total_bucket{.*le="(.+)"} (\d+)$', text, re.M)}
            check((steps["+Inf"] > steps["128"]) == large,
                  f"steps by their rows with --tpot-target-ms {target}: {steps}")
            stream.close()


def no_more_alternatives_than_allowed():
    for most in (0, 3):
        with Server("--no-access-log", "--max-logprobs", most) as s:
            for k, status in ((most, 200), (most + 1, 400)):
                expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1, logprobs=k)[0], status,
                       f"logprobs {k} of {most}")
                expect(s.post(CHAT, messages=[{"role": "user", "content": "x"}], max_tokens=1,
                              logprobs=True, top_logprobs=k)[0], status,
                       f"top_logprobs {k} of {most}")


def variables_of_templates_have_defaults():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "t.jinja")
        with open(path, "w") as f:
            f.write("{% for m in messages %}{{ m.content }}{% endfor %}{{ mood * 3 }}")
        count = lambda s, **more: s.post(CHAT, messages=[{"role": "user", "content": "x"}],
                                         max_tokens=1, **more)[1]["usage"]["prompt_tokens"]
        with Server("--no-access-log", "--chat-template", path, "--default-chat-template-kwargs",
                    '{"mood": "happy dog "}') as s:
            default = count(s)
            check(default > count(s, chat_template_kwargs={"mood": "x"}) > 0,
                  "what a request says wins")
            expect(count(s, chat_template_kwargs={"other": 1}), default,
                   "another variable leaves the default")


def threads_of_the_api_are_as_many_as_asked_for():
    for n, compilers in ((1, 2), (2, 2), (4, 4)):
        with Server("--no-access-log", "--api-threads", n) as s:
            expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=1)[0], 200, "it serves")
            names = []
            for path in glob.glob(f"/proc/{s.process.pid}/task/*/comm"):
                with open(path) as f:
                    names.append(f.read().strip())
            expect((names.count("api"), names.count("compile")), (n, compilers), f"threads of {n}")


def the_cache_is_as_large_as_asked_for():
    used = []
    for gib in (0.0025, 0.01):  # some thousand rows
        with Server("--no-access-log", "--kv-cache-memory", gib, "--block-size", 16,
                    "--max-model-len", 1024) as s:
            end, most = time.monotonic() + 300, 0
            while time.monotonic() < end and not most:
                c = s.send(COMPLETIONS, prompt=[5] * 600, max_tokens=400, min_tokens=400)
                while not most and not select.select([c], [], [], 0)[0]:
                    most = s.gauges()["kv_cache_usage_perc"]
                c.close()
            used.append(most)
    check(0.2 < used[0] <= 0.55 and used[1] < used[0] / 2,
          f"parts of a cache and of one of four times its size: {used}")


def a_server_listens_at_its_host_and_port_and_nowhere_else():
    with socket.create_server(("127.0.0.3", 0)) as free:
        port = free.getsockname()[1]
    for host in ("127.0.0.3", "127.0.0.2"):
        with Server("--no-access-log", "--host", host, port=port) as s:
            check(f" is served at http://{host}:{port}" in s.log[0],
                  f"the address that is said: {s.log[0]}")
            for other, good in ((host, True), ("127.0.0.1", False)):
                with socket.socket() as c:
                    expect(c.connect_ex((other, port)) == 0, good,
                           f"somebody listens at {other} with --host {host} and --port {port}")


def requests_that_stall_are_refused_in_the_time_asked_for():
    """The request that may stall longer comes first. With equal limits it would be refused
    first."""
    with Server("--no-access-log", "--stall-timeout", 0.2) as short, Server(
            "--no-access-log", "--stall-timeout",
            1000) as long, long.socket() as patient, short.socket() as hasty:
        for c in (patient, hasty):
            c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
            time.sleep(0.6)
        expect(read_all(hasty)[:12], b"HTTP/1.1 408", "half a request")
        expect(select.select([patient], [], [], 0)[0], [], "half a request that has more time")


def a_name_is_the_last_part_of_the_path():
    with tempfile.TemporaryDirectory() as d:
        path = _demo(d)
        with Server("--no-access-log", model=path + "//") as s:
            models = json.loads(s.request("GET", "/v1/models")[2])["data"]
            expect(models[0]["id"], "model", "without the slashes behind it")
            expect(s.post(COMPLETIONS, prompt="x", max_tokens=1, model="model")[0], 200,
                   "it is served by that name")


run_all(list(globals().items()))
