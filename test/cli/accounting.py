#!/usr/bin/env python3
"""accounting.py - the numbers that the server reports, where they are known: metrics, usage,
limits of API keys and lists of models, for requests with several answers, several prompts, and
prompts that were seen before. Standard library only."""
import base64
import json
import math
import os
import re
import struct
import tempfile
import time

from _cli import check, expect, run_all
from _server import HELD, Server, patient_model, read_all

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time"  # The prompt has five tokens.
WAY = {"temperature": 1, "seed": 1, "ignore_eos": True}


def _metrics(s, key=None):
    """Returns each sample by its name and the labels that not all samples have:
    {("request_success_total", "length"): 3.0}."""
    text = s.request("GET", "/metrics",
                     headers={"Authorization": f"Bearer {key}"} if key else {})[2].decode()
    out = {}
    for name, labels, x in re.findall(r"^(?:vllm:|gallop:)?(\w+)(?:\{([^}]*)\})? (\S+)$", text,
                                      re.M):
        more = tuple(v for k, v in re.findall(r'(\w+)="([^"]*)"', labels)
                     if k not in ("engine", "model_name"))
        out[(name, *more) if more else name] = float(x)
    return out


def _grown(s, ask, key=None):
    """Returns what ASK() changes in the metrics, without buckets and times."""
    before = _metrics(s, key)
    ask()
    after = _metrics(s, key)
    return {k: after[k] - before.get(k, 0) for k in after if after[k] != before.get(k, 0)
            and "le" not in k and not (isinstance(k, tuple) and k[0].endswith("_bucket"))
            and "seconds" not in str(k) and "iteration" not in str(k) and "operator" not in str(k)
            and "request_memory" not in str(k)}, {k: after[k] - before.get(k, 0) for k in after
                                                  if str(k).endswith("seconds_count")}


def several_answers_are_counted_each_and_their_prompt_once():
    with Server("--no-access-log", "--prefix-index", "none") as s:
        ask = lambda **more: lambda: expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=4,
                                                   min_tokens=4, **WAY, **more)[0], 200, "status")
        got, times = _grown(s, ask(n=3))
        expect(got, {"generation_tokens_total": 12, "prompt_tokens_total": 5,
                     "prefix_cache_queries_total": 5, ("request_success_total", "length"): 3,
                     "request_prompt_tokens_sum": 5, "request_prompt_tokens_count": 1,
                     "request_generation_tokens_sum": 12, "request_generation_tokens_count": 3,
                     "request_params_n_sum": 3, "request_params_n_count": 1,
                     "request_params_max_tokens_sum": 4, "request_params_max_tokens_count": 1,
                     ("http_requests_total", COMPLETIONS, "POST", "200"): 1,
                     ("http_requests_total", "/metrics", "GET", "200"): 1},
               "a request with three answers of four tokens")
        wanted = {"time_to_first_token": 3, "inter_token_latency": 9,
                  "request_time_per_output_token": 3, "e2e_request_latency": 3,
                  "request_queue_time": 3, "request_inference_time": 3, "request_prefill_time": 3,
                  "request_decode_time": 3}
        expect({k: times[f"{k}_seconds_count"] for k in wanted}, wanted, "its times")
        one, times = _grown(s, lambda: s.post(COMPLETIONS, prompt=[PROMPT, PROMPT + " there"],
                                              max_tokens=1, **WAY))
        expect([one[k] for k in ("prompt_tokens_total", "generation_tokens_total",
                                 "request_prompt_tokens_count", "request_params_n_count",
                                 "request_params_n_sum", "request_prompt_tokens_sum")],
               [11, 2, 2, 1, 1, 11], "two prompts with an answer of one token each")
        expect([times[f"{k}_seconds_count"] for k in ("time_to_first_token", "inter_token_latency",
                                                      "request_time_per_output_token")], [2, 0, 0],
               "one token has no time to the next")
        free, _ = _grown(s, lambda: s.post(CHAT, messages=[{"role": "user", "content": "Hi"}],
                                           logit_bias={"1": -100}, stop=["."],
                                           **{**WAY, "ignore_eos": False}))
        used = free["prompt_tokens_total"] + free["request_params_max_tokens_sum"]
        context = json.loads(s.request("GET", "/v1/models")[2])["data"][0]["max_model_len"]
        expect(used, context, "without a limit an answer may have what the context leaves")


def times_of_a_request_add_up():
    with Server("--no-access-log") as s:
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=100, min_tokens=100, **WAY)[0], 200,
               "status")
        got = _metrics(s)
        of = lambda name: got[f"{name}_seconds_sum"]
        check(0 < of("inter_token_latency") <= of("e2e_request_latency") - of("time_to_first_token")
              + 1e-6, "from the first token to the last")
        check(abs(of("request_time_per_output_token") * 99 - of("request_decode_time")) < 1e-6,
              "decoding is 99 tokens behind the first")
        check(abs(of("request_prefill_time") + of("request_decode_time")
                  - of("request_inference_time")) < 1e-6, "both are the inference")
        check(of("request_queue_time") + of("request_inference_time") <= of("e2e_request_latency")
              + 1e-6, "which the queue is not in")


def ends_are_counted_by_their_reason():
    with Server("--no-access-log", model=patient_model()) as s:
        got, _ = _grown(s, lambda: s.post(COMPLETIONS, prompt=PROMPT, max_tokens=50, stop=["e"],
                                          temperature=0))
        expect({k: v for k, v in got.items() if k[0] == "request_success_total"},
               {("request_success_total", "stop"): 1}, "a stop string")

        def leave():
            c = s.send(COMPLETIONS, **HELD, n=2, stream=True)
            c.recv(100)
            c.close()
            check(s.is_free(), "it is aborted")
        got, _ = _grown(s, leave)
        expect({k[1]: v for k, v in got.items() if k[0] == "request_success_total"}, {"abort": 2},
               "a client that leaves")
        expect(got.get(("http_requests_total", COMPLETIONS, "POST", "499")), 1, "its status")
        got, _ = _grown(s, lambda: (s.post(COMPLETIONS, prompt=PROMPT, n=0),
                                    s.request("GET", "/none"), s.request("GET", COMPLETIONS)))
        expect({k[1:]: v for k, v in got.items() if k[0] == "http_requests_total"},
               {(COMPLETIONS, "POST", "400"): 1, ("none", "GET", "404"): 1,
                ("none", "GET", "405"): 1, ("/metrics", "GET", "200"): 1}, "refusals")
        expect([k for k in got if "refused" in str(k) or "limit" in str(k)], [],
               "are not because of load")


# For each path: the body, the part of an answer that says how it ended, and its value for a request
# that was ended by its id; the same of the last event.
ENDED = {COMPLETIONS: ({"prompt": PROMPT,
                        "max_tokens": 9}, lambda o: o["choices"][0]["finish_reason"], "abort"),
         CHAT: ({"messages": [{"role": "user", "content": "Hi"}],
                 "max_tokens": 9}, lambda o: o["choices"][0]["finish_reason"], "abort"),
         "/v1/messages": ({"messages": [{"role": "user", "content": "Hi"}],
                           "max_tokens": 9}, lambda o: (o.get("delta") or o)["stop_reason"], None),
         "/v1/responses": ({"input": "Hi", "max_output_tokens": 9}, lambda o: (
             o.get("response") or o)["status"], "cancelled"),
         "/api/generate": ({"prompt": "Hi"}, lambda o: o["done_reason"], "abort"), "/api/chat": (
             {"messages": [{"role": "user", "content": "Hi"}]}, lambda o: o["done_reason"],
             "abort"),}


def an_answer_that_is_ended_by_its_id_says_so_in_every_form():
    """The request waits while another runs, so that nothing depends on the rate of tokens."""
    with Server("--no-access-log", "--max-num-seqs", 1, model=patient_model()) as s:
        held = s.send(COMPLETIONS, **HELD)
        check(s.wait(lambda g: g["num_requests_running"] == 1), "one is computed")

        def ask(path, body):
            with s.send(path, headers={"X-Request-Id": "mine", "Connection": "close"}, **body) as c:
                check(s.wait(lambda g: g["num_requests_waiting"] == 1), f"{path} waits")
                expect(s.post("/abort_requests", request_ids="mine")[1], {"aborted": 1},
                       f"{path} is ended")
                head, _, answer = read_all(c).partition(b"\r\n\r\n")
            return int(head.split()[1]), answer.decode()
        for path, (body, how, wanted) in ENDED.items():
            status, answer = ask(path, {**body, "stream": False})
            expect((status, how(json.loads(answer))), (200, wanted), f"a whole answer of {path}")
            status, answer = ask(path, {**body, "stream": True})
            events = [json.loads(x) for x in re.findall(r"^(?:data: )?(\{.*\})\r?$", answer, re.M)]
            last = [o for o in events if o.get("choices") or o.get("done") or "delta" in o
                    or o.get("type", "").startswith("response.incomplete")][-1]
            expect((status, how(last)), (200, wanted), f"a stream of {path}")
        status, answer = ask("/v1/embeddings", {"input": "Hi"})
        expect((status, json.loads(answer)["error"]["type"]), (400, "BadRequestError"),
               "a vector that was not computed")
        ended = _metrics(s)
        expect([ended[("request_success_total", x)] for x in ("abort", "stop", "length", "error")],
               [13, 0, 0, 0], "they are counted so")
        held.close()


def the_newer_name_of_a_limit_wins():
    with Server("--no-access-log") as s:
        for old, new in ((2, 5), (5, 2)):
            o = s.post(CHAT, messages=[{"role": "user", "content": "Hi"}], max_tokens=old,
                       max_completion_tokens=new, **WAY)[1]
            expect((o["usage"]["completion_tokens"], o["choices"][0]["finish_reason"]),
                   (new, "length"), f"max_tokens {old}, max_completion_tokens {new}")


def rows_that_are_found_are_counted_once():
    long = "The old king had a small dog. " * 40
    with Server("--no-access-log", "--block-size", 16, "--prefix-index", "hash") as s:
        n = len(s.post("/tokenize", prompt=long)[1]["tokens"])
        first = s.post(COMPLETIONS, prompt=long, max_tokens=2, n=2, **WAY)[1]["usage"]
        expect((first["prompt_tokens"], first["completion_tokens"], first["total_tokens"]),
               (n, 4, n + 4), "usage of two answers")
        expect((first.get("prompt_tokens_details") or {}).get("cached_tokens", 0), 0,
               "nothing is found for a prompt that is new")
        box = []
        got, _ = _grown(s, lambda: box.append(s.post(COMPLETIONS, prompt=long, max_tokens=2, n=2,
                                                     **WAY)[1]["usage"]))
        found = box[0]["prompt_tokens_details"]["cached_tokens"]
        check(found % 16 == 0 and n - 17 <= found < n, f"whole blocks are found: {found} of {n}")
        expect([got[k] for k in ("prompt_tokens_total", "prefix_cache_queries_total",
                                 "prefix_cache_hits_total", "prompt_tokens_cached_total")],
               [n, n, found, found], "metrics of two answers that find it")
        events = s.events(COMPLETIONS, prompt=long, max_tokens=2, n=2,
                          stream_options={"include_usage": True}, **WAY)
        expect(json.loads(events[-2])["usage"], box[0], "usage of a stream")
        salted = s.post(COMPLETIONS, prompt=long, max_tokens=2, cache_salt="mine",
                        **WAY)[1]["usage"]
        expect((salted.get("prompt_tokens_details") or {}).get("cached_tokens", 0), 0,
               "another salt finds nothing")
        both = s.post(COMPLETIONS, prompt=[long, long], max_tokens=1, **WAY)[1]["usage"]
        expect((both["prompt_tokens"], both["prompt_tokens_details"]["cached_tokens"]),
               (2 * n, 2 * found), "usage of two prompts")
        vectors = s.post("/v1/embeddings", input=[long, long, PROMPT])[1]["usage"]
        expect((vectors["prompt_tokens"], vectors["prompt_tokens_details"]["cached_tokens"]),
               (2 * n + 5, 2 * found), "usage of vectors")


def other_forms_say_the_same_numbers():
    with Server("--no-access-log", "--prefix-index", "none") as s:
        messages = [{"role": "user", "content": "Hi there"}]
        chat = s.post(CHAT, messages=messages, max_tokens=7, temperature=0,
                      ignore_eos=True)[1]["usage"]
        n = chat["prompt_tokens"]
        ollama = s.post("/api/chat", messages=messages,
                        options={"num_predict": 7, "temperature": 0}, stream=False)[1]
        expect((ollama["prompt_eval_count"], ollama["done"]), (n, True), "Ollama's prompt")
        check(1 <= ollama["eval_count"] <= 7 and (ollama["eval_count"] == 7)
              == (ollama["done_reason"] == "length"), f"its answer: {ollama}")
        one = s.post("/api/chat", messages=messages, options={"num_predict": 1}, stream=False)[1]
        check(one["prompt_eval_duration"] > 0 and one["eval_duration"] == 0,
              f"behind the first token nothing is decoded: {one}")
        check(ollama["total_duration"] >= ollama["prompt_eval_duration"] + ollama["eval_duration"]
              > 0, f"its durations: {ollama}")
        message = s.post("/v1/messages", messages=messages, max_tokens=7, temperature=0)[1]
        counted = s.post("/v1/messages/count_tokens", messages=messages)[1]["input_tokens"]
        usage = message["usage"]
        expect(usage["input_tokens"] + (usage.get("cache_read_input_tokens") or 0), counted,
               "Anthropic's prompt")
        expect((counted, usage["output_tokens"]), (n, ollama["eval_count"]),
               "is the chat's, and so is its answer")
        response = s.post("/v1/responses", input="Hi there", max_output_tokens=7,
                          temperature=0)[1]["usage"]
        expect((response["input_tokens"], response["output_tokens"], response["total_tokens"]),
               (n, ollama["eval_count"], n + ollama["eval_count"]), "usage of a response")
        stopped = s.post("/v1/messages", messages=messages, max_tokens=200, temperature=0,
                         stop_sequences=["~~", "e"])[1]
        expect((stopped["stop_reason"], stopped["stop_sequence"]), ("stop_sequence", "e"),
               "which sequence ended it")
        ended = s.post(COMPLETIONS, prompt=PROMPT, max_tokens=200, temperature=0,
                       stop=["~~", "e"])[1]["choices"][0]
        expect((ended["finish_reason"], ended["stop_reason"]), ("stop", "e"), "vLLM's stop_reason")
        for token in (0, 300):
            ended = s.post(COMPLETIONS, prompt=PROMPT, max_tokens=9, temperature=0,
                           stop_token_ids=[token], logit_bias={str(token): 100})[1]["choices"][0]
            expect((ended["finish_reason"], ended["stop_reason"]), ("stop", token),
                   "a stop token, also the first of all")
        most = s.post(COMPLETIONS, prompt=PROMPT, max_tokens=2, temperature=0, stop=["~~"],
                      ignore_eos=True)[1]["choices"][0]
        expect((most["finish_reason"], most["stop_reason"]), ("length", None),
               "and none where its length ended it")


def alternatives_come_in_the_order_of_their_probability():
    with Server("--no-access-log") as s:
        for n in (1, 2):
            o = s.post(CHAT, messages=[{"role": "user", "content": "Hi"}], max_tokens=4, n=n,
                       logprobs=True, top_logprobs=5, **WAY)[1]
            expect([c["index"] for c in o["choices"]], list(range(n)), "answers in their order")
            for c in o["choices"]:
                expect(len(c["logprobs"]["content"]), 4, "an entry a token")
                for entry in c["logprobs"]["content"]:
                    top = [t["logprob"] for t in entry["top_logprobs"]]
                    check(len(top) == 5 and top == sorted(top, reverse=True) and entry["logprob"]
                          <= top[0] and sum(map(math.exp, top)) <= 1.0001, f"{entry}")
                    same = [t["logprob"] for t in entry["top_logprobs"]
                            if t["token"] == entry["token"] and t["bytes"] == entry["bytes"]]
                    check(not same or entry["logprob"] in same,
                          f"the chosen token has one probability: {entry}")
        o = s.post(COMPLETIONS, prompt=[PROMPT, "The dog"], max_tokens=3, n=2, logprobs=0, **WAY)[1]
        expect([c["index"] for c in o["choices"]], [0, 1, 2, 3], "answers of two prompts")
        alone = s.post(COMPLETIONS, prompt="The dog", max_tokens=3, n=2, logprobs=0,
                       **{**WAY, "seed": WAY["seed"] + 2})[1]
        expect([c["text"] for c in o["choices"][2:]], [c["text"] for c in alone["choices"]],
               "the second prompt's answers are behind the first's")


def ranks_of_a_prompt_s_tokens_are_their_places():
    with Server("--no-access-log") as s:
        for path, fields in ((COMPLETIONS, {"prompt": PROMPT}),
                             (CHAT, {"messages": [{"role": "user", "content": "Hi"}]})):
            o = s.post(path, **fields, max_tokens=1, prompt_logprobs=3)[1]
            given = (o["choices"][0] if path == COMPLETIONS else o)["prompt_logprobs"]
            expect(given[0], None, "nothing foretells the first token")
            for of_token in given[1:]:
                own, *others = of_token.values()
                listed = sorted([own] * (own["rank"] <= 3) + others, key=lambda x: x["rank"])
                expect([x["rank"] for x in listed], [1, 2, 3],
                       f"ranks of the likeliest: {of_token}")
                check([x["logprob"] for x in listed] == sorted(
                    (x["logprob"] for x in listed), reverse=True), f"in their order: {of_token}")
                check(own["rank"] >= 1
                      and (own["rank"] <= 3 or own["logprob"] <= listed[-1]["logprob"]),
                      f"the token's own: {of_token}")


def _streamed(events):
    """Returns of a stream, by index, the text, the lists of log-probabilities, and the prompt
    tokens of each event's usage."""
    out = {}
    for x in events[:-1]:
        o = json.loads(x)
        for c in o["choices"]:
            t = out.setdefault(c["index"], {"text": "", "offsets": [], "tokens": [], "prompt": [],
                                            "usage": set(), "n": []})
            t["text"] += c["text"]
            t["offsets"] += (c["logprobs"] or {}).get("text_offset", [])
            t["tokens"] += (c["logprobs"] or {}).get("tokens", [])
            t["prompt"] += c.get("prompt_token_ids") or []
            t["usage"].add(o["usage"]["prompt_tokens"])
            t["n"].append(o["usage"]["completion_tokens"])
    return out


def each_prompt_has_its_own_numbers():
    ask = {"max_tokens": 3, "min_tokens": 3, "n": 2, "echo": True, "logprobs": 1,
           "return_token_ids": True, **WAY}
    with Server("--no-access-log", "--prefix-index", "none", model=patient_model()) as s:
        texts = [PROMPT, "The dog"]
        both = s.post(COMPLETIONS, prompt=texts, prompt_logprobs=1, **ask)[1]["choices"]
        expect([c["index"] for c in both], [0, 1, 2, 3], "answers")
        for i, text in enumerate(texts):
            alone = s.post(COMPLETIONS, prompt=text, prompt_logprobs=1,
                           **{**ask, "seed": ask["seed"] + 2 * i})[1]["choices"]
            for k in range(2):
                expect({**both[2 * i + k], "index": 0}, {**alone[k], "index": 0},
                       f"answer {k} to prompt {i}, as it is alone")
        streamed = _streamed(s.events(COMPLETIONS, prompt=texts, stream_options={
            "include_usage": True, "continuous_usage_stats": True}, **ask))
        for c in both:
            got, n = streamed[c["index"]], len(c["prompt_token_ids"])
            expect((got["text"], got["tokens"], got["prompt"]),
                   (c["text"], c["logprobs"]["tokens"], c["prompt_token_ids"]), "a stream")
            expect(got["offsets"], c["logprobs"]["text_offset"], "places in the text of a stream")
            expect((got["usage"], got["n"][-1], got["n"]), ({n}, 3, sorted(got["n"])),
                   "usage of its events is of its own prompt and answer")
            for at, token in zip(c["logprobs"]["text_offset"], c["logprobs"]["tokens"]):
                check(c["text"][at:].startswith(token) or "<" in token,
                      f"{token!r} at {at} of {c['text']!r}")
        before = s.gauges()["generation_tokens_total"]
        c = s.send(COMPLETIONS, **HELD, n=3, stream=True, request_id="three")
        c.recv(100)
        check(s.wait(lambda g: g["generation_tokens_total"] > before + 100), "it goes on")
        least = s.gauges()["generation_tokens_total"] - before
        state = json.loads(s.request("GET", "/v1/status/three")[2])
        most = s.gauges()["generation_tokens_total"] - before
        expect((state["request_id"], state["status"], state["prompt_tokens"]),
               ("three", "decoding", 5), "a status")
        expect(json.loads(s.request("GET", "/v1/status/cmpl-three")[2])["request_id"], "three",
               "by the id of the answer")
        check(least <= state["generated_tokens"] <= most,
              f"the tokens of all answers: {state['generated_tokens']} of {least} to {most}")
        c.close()


def limits_of_keys_are_said_and_hold():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "keys")
        with open(path, "w") as f:
            f.write(
                "alpha requests_per_minute=5 tokens_per_minute=1000\nbeta tokens_per_minute=20\n")
        os.chmod(path, 0o600)
        _try_limits(path)


def _try_limits(path):
    with Server("--api-key-file", path, "--no-access-log") as s:
        def ask(key, **fields):
            status, head, body = s.request("POST", COMPLETIONS, {"prompt": PROMPT, "max_tokens": 4,
                                                                 "min_tokens": 4, **WAY, **fields},
                                           {"Authorization": f"Bearer {key}"})
            return status, {k[len("x-ratelimit-"):]: v for k,
                            v in head.items() if k.startswith("x-ratelimit-")}, head, body
        begin = time.monotonic()
        status, limits, _, _ = ask("alpha", n=3, prompt=[5] * 200, max_tokens=50, min_tokens=50)
        passed = time.monotonic() - begin
        expect((status, limits["limit-requests"], limits["limit-tokens"],
                limits["remaining-requests"]), (200, "5", "1000", "4"), "limits")
        left = int(limits["remaining-tokens"])
        # The bucket fills again meanwhile.
        check(650 <= left <= 650 + passed * 1000 / 60,
              f"the prompt is charged once and each answer: {left}")
        resets = [float(limits[k].rstrip("s")) for k in ("reset-requests", "reset-tokens")]
        check(12 - passed <= resets[0] <= 12 and 21 - passed <= resets[1] <= 21, f"{limits}")
        statuses = []
        while len(statuses) < 100 and 429 not in statuses:  # One token returns in 12 s.
            status, limits, head, body = ask("alpha")
            statuses.append(status)
        passed = time.monotonic() - begin
        check(set(statuses[:-1]) <= {200} and statuses[-1] == 429 and 5 <= len(statuses) <= 5
              + passed / 12, f"until the limit is reached: {statuses}")
        expect(limits["remaining-requests"], "0", "one more")
        check(1 <= int(head["retry-after"]) <= 12, f"when to come back: {head['retry-after']}")
        _, _, head, _ = ask("alpha")
        check(1 <= int(head["retry-after"]) <= 12,
              f"what is refused is not charged: {head['retry-after']}")
        got = _metrics(s, "alpha")
        expect((got["requests_over_limit_total"], got["requests_refused_total"]), (2, 0),
               "it is the key's limit, not load")
        status, limits, _, _ = ask("beta", max_tokens=30, min_tokens=30)
        expect((status, "limit-requests" in limits, limits["limit-tokens"]), (200, False, "20"),
               "a key with one limit")
        status, limits, head, _ = ask("beta")
        expect((status, limits["remaining-tokens"]), (429, "0"), "tokens that are used up")
        check(10 < int(head["retry-after"]) <= 60,
              f"15 tokens too many, a third of one a second: {head['retry-after']}")


def the_load_is_told_while_requests_are_there():
    get = lambda path: json.loads(s.request("GET", path)[2])
    waiting = lambda: _metrics(s)["num_requests_waiting"]
    begin = time.monotonic()
    with Server("--no-access-log", "--max-num-seqs", 1, model=patient_model()) as s:
        ready = time.monotonic()
        expect([get("/load"), get("/v1/queue/status")],
               [{"server_load": 0}, {"queue_size": 0, "active_requests": 0}],
               "before the first request")
        held = [s.send(COMPLETIONS, **HELD, n=64), s.send(COMPLETIONS, **HELD, n=5)]
        check(s.wait(lambda g: g["num_requests_running"] == 1 and g["num_requests_waiting"] > 20
                     and get("/load") == {"server_load": 2}),
              "one of 69 answers to two requests is computed")
        most = waiting()
        queue, health = get("/v1/queue/status"), get("/v1/health")
        check(most >= queue["queue_size"] >= health["queue_size"] >= waiting() > 5,
              f"answers that wait: {most}, {queue}, {health}")
        expect((queue["active_requests"], health["active_requests"], health["status"],
                health["scheduler_running"]), (1, 1, "healthy", True), "one is computed")
        for c in held:
            c.close()
        check(s.is_free(), "both have left")
        expect([get("/load"), get("/v1/queue/status")],
               [{"server_load": 0}, {"queue_size": 0, "active_requests": 0}], "behind the last")
        expect(s.post(COMPLETIONS, prompt=PROMPT, max_tokens=9, min_tokens=9, n=3, **WAY)[0], 200,
               "status")
        before, told, after, got = time.monotonic(), get(
            "/v1/server_metrics"), time.monotonic(), _metrics(s)
        mean = lambda name: got[f"{name}_seconds_sum"] / got[f"{name}_seconds_count"]
        for key, name in (("sched_session_ttft", "time_to_first_token"),
                          ("sched_session_tpot", "request_time_per_output_token"),
                          ("sched_active_ttft_time", "request_prefill_time")):
            check(abs(told[key] - mean(name)) < 1e-6, f"{key}: {told[key]}, {name}: {mean(name)}")
        expect(told["sched_total_generated_tokens"], got["generation_tokens_total"], "tokens")
        ended = sum(v for k, v in got.items() if k[0] == "request_success_total")
        check(ended / (after - begin) - 1e-6 <= told["sched_requests_served_per_second"] <= ended
              / (before - ready) + 1e-6, f"{ended} answers: {told}")


def steps_and_operators_are_counted():
    with Server("--no-access-log", "--prefix-index", "none") as s:
        def grown(ask):
            before = _metrics(s)
            expect(ask()[0], 200, "status")
            after = _metrics(s)
            return lambda *name: after.get(name if len(name) > 1 else name[0],
                                           0) - before.get(name if len(name) > 1 else name[0], 0)
        got = grown(lambda: s.post(COMPLETIONS, prompt=PROMPT, max_tokens=4, min_tokens=4, **WAY))
        expect((got("iteration_tokens_total_sum"), got("iteration_tokens_total_count")), (5 + 4, 4),
               "a prompt of five tokens and an answer of four in four steps")
        expect(got("operator_flops_total", "lm_head"), 4 * 2 * 2048 * 192,
               "operations of the head, for one row of each step")
        for name in ("norm", "qkv_projection", "rope", "attention", "out_projection", "mlp",
                     "lm_head"):
            check(got("operator_seconds_total", name) > 0, f"time of {name}")
        for name in ("qkv_projection", "attention", "out_projection", "mlp", "lm_head"):
            check(got("operator_bytes_total", name) > 0 and got("operator_flops_total", name) > 0,
                  f"bytes and operations of {name}")


def each_name_is_a_model():
    with Server("--no-access-log", "--served-model-name", "one", "--served-model-name", "two",
                "--max-model-len", 300) as s:
        models = json.loads(s.request("GET", "/v1/models")[2])["data"]
        expect([(m["id"], m["root"], m["max_model_len"]) for m in models],
               [("one", "one", 300), ("two", "one", 300)], "names")
        expect(json.loads(s.request("GET", "/v1/models/two")[2])["id"], "two", "one of them")
        expect(s.request("GET", "/v1/models/three")[0], 404, "none")
        expect([s.post(COMPLETIONS, prompt="x", max_tokens=1, model=m)[1].get("model")
                for m in ("one", "two")], ["one", "two"], "what answers say")
        expect(s.post(COMPLETIONS, prompt="x", max_tokens=1)[1]["model"], "one",
               "where none was asked for")


def vectors_are_those_of_their_texts():
    with Server("--no-access-log") as s:
        texts = [PROMPT, "The dog", PROMPT]
        o = s.post("/v1/embeddings", input=texts)[1]
        n = [len(s.post("/tokenize", prompt=t)[1]["tokens"]) for t in texts]
        expect([d["index"] for d in o["data"]], [0, 1, 2], "indices")
        expect((o["usage"]["prompt_tokens"], o["usage"]["total_tokens"]), (sum(n), sum(n)), "usage")
        expect(o["data"][0]["embedding"], o["data"][2]["embedding"], "of the same text")
        check(o["data"][0]["embedding"] != o["data"][1]["embedding"], "another text")
        for d in o["data"]:
            check(abs(math.fsum(x * x for x in d["embedding"]) - 1) < 1e-5, "the length is 1")
        packed = s.post("/v1/embeddings", input=texts, encoding_format="base64")[1]
        for d, e in zip(packed["data"], o["data"]):
            raw = base64.b64decode(d["embedding"])
            got = struct.unpack(f"<{len(raw) // 4}f", raw)
            check(len(got) == len(e["embedding"]) and all(
                abs(x - y) < 1e-6 for x, y in zip(got, e["embedding"])), "base64 is the floats")
        embed = s.post("/api/embed", input=texts)[1]
        expect(embed["prompt_eval_count"], sum(n), "Ollama's count")
        check(len(embed["embeddings"]) == 3 and all(abs(x - y) < 1e-6 for x, y in zip(
            embed["embeddings"][1], o["data"][1]["embedding"])), "and vectors")


run_all(list(globals().items()))
