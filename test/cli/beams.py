#!/usr/bin/env python3
"""beams.py - beam search of `gallop run` and of the server."""
import json
import tempfile

from _cli import DEMO, call, check, expect, expect_error, lines, run_all
from _server import Server

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PROMPT = "Once upon a time there was a"
SEARCH = {"use_beam_search": True, "n": 4, "length_penalty": 0.5, "early_stopping": "never"}
server = Server("--max-num-seqs", 8)


def _batch(*requests, args=()):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.write("".join(json.dumps(r) + "\n" for r in requests))
        f.flush()
        return call("run", "-m", DEMO, "--batch", f.name, "--json", *args)


def a_line_has_a_result_for_each_beam():
    r = _batch({"prompt": PROMPT, "max_new_tokens": 12, **SEARCH},
               {"prompt": PROMPT, "max_new_tokens": 3},
               {"prompt": PROMPT, "max_new_tokens": 12, "num_beams": 4, "n": 2},
               {"prompt": PROMPT, "max_new_tokens": 12, "num_beams": 4, "use_beam_search": False})
    expect(r.returncode, 0, "exit status")
    got = lines(r)
    expect([(a["index"], a.get("beam")) for a in got],
           [(0, 0), (0, 1), (0, 2), (0, 3), (1, None), (2, 0), (2, 1), (3, None)], "lines")
    scores = [a["score"] for a in got[:4]]
    check(scores == sorted(scores, reverse=True), f"scores {scores}")
    for a in got[:4]:
        want = a["cumulative_logprob"] / len(a["output_ids"]) ** 0.5
        check(abs(a["score"] - want) < 1e-5, f"score {a['score']}, expected {want}")
    check(len({tuple(a["output_ids"]) for a in got[:4]}) == 4, "the beams differ")
    greedy = _batch({"prompt": PROMPT, "max_new_tokens": 12},
                    {"prompt": PROMPT, "max_new_tokens": 12, "use_beam_search": True})
    one, beam = lines(greedy)
    expect(beam["output_ids"], one["output_ids"], "one beam is greedy")
    expect(got[7]["output_ids"], one["output_ids"], "no search")
    expect(beam["beam"], 0, "the number of the beam")


def options_are_those_of_lines_of_a_batch():
    def run(*args):
        r = call("run", "-m", DEMO, "-n", 12, "--json", PROMPT, *args)
        return lines(r)[0]["output_ids"], lines(r)[0].get("score")
    for args, fields in (
            (("--num-beams", 4), {"num_beams": 4}),
            (("--use-beam-search",), {"use_beam_search": True}),
            (("--num-beams", 5, "--length-penalty", "-2"), {"num_beams": 5, "length_penalty": -2}),
            (("--num-beams", 3, "--early-stopping", "true"),
             {"num_beams": 3, "early_stopping": True}),
            (("--num-beams", 3, "--early-stopping", "never", "--length-penalty", 3),
             {"num_beams": 3, "early_stopping": "never", "length_penalty": 3})):
        a = lines(_batch({"prompt": PROMPT, "max_new_tokens": 12, **fields}))[0]
        expect(run(*args), (a["output_ids"], a["score"]), f"options {args}")
    stop = ("--num-beams", 2, "--stop-token", run("--num-beams", 2)[0][4])
    check(run(*stop, "--early-stopping", "true", "--length-penalty", 5) !=
          run(*stop, "--early-stopping", "never", "--length-penalty", 5), "early stopping")
    check(run("--num-beams", 2)[1] is not None and run()[1] is None, "scores")


def what_beams_do_not_do_is_refused():
    for args, word in ((("--temperature", "0.5"), "temperature"), (("--top-k", 3), "top-k"),
                       (("--regex", "a+"), "beam search")):
        expect_error(call("run", "-m", DEMO, "-n", 4, "--num-beams", 2, PROMPT, *args), 1, word)
    r = call("run", "-m", DEMO, "--num-beams", 2, "--json", PROMPT, "--logprobs", 2)
    check("logprobs: " in lines(r)[0]["error"], f"{r.stdout}")
    expect_error(call("run", "-m", DEMO, "--num-beams", 33, "x"), 2, "--num-beams", "33")
    expect_error(call("chat", "-m", DEMO, "--num-beams", 2), 2, "--num-beams")


def what_a_request_excludes_is_no_result():
    two = {"prompt": PROMPT, "use_beam_search": True, "n": 4, "allowed_token_ids": [300, 301]}
    got = lines(_batch({**two, "max_new_tokens": 1}, {**two, "max_new_tokens": 2}))
    check("only 2 outputs" in got[0]["error"], f"{got[0]}")
    expect(sorted(a["output_ids"] for a in got[1:]),
           [[300, 300], [300, 301], [301, 300], [301, 301]], "all outputs of two tokens")


def an_answer_of_the_server_is_that_of_run():
    want = lines(_batch({"prompt": PROMPT, "max_new_tokens": 12, **SEARCH}))
    status, body = server.post(COMPLETIONS, prompt=PROMPT, max_tokens=12, **SEARCH)
    expect(status, 200, f"status of {body}")
    expect([c["text"] for c in body["choices"]], [a["text"] for a in want], "texts")
    expect([c["index"] for c in body["choices"]], [0, 1, 2, 3], "order")
    for c, a in zip(body["choices"], want):
        check(abs(c["score"] - a["score"]) < 1e-6, f"{c['score']} and {a['score']}")
        check(abs(c["cumulative_logprob"] - a["cumulative_logprob"]) < 1e-5, f"{c} and {a}")
        expect(c["finish_reason"], a["finish_reason"], "end")
    expect(body["usage"]["completion_tokens"], sum(len(a["output_ids"]) for a in want), "usage")
    status, body = server.post(COMPLETIONS, prompt=[PROMPT, "x"], max_tokens=5, temperature=0,
                               logprobs=0, **SEARCH)
    expect((status, len(body["choices"])), (200, 8), f"two prompts: {body}")
    c = body["choices"][0]
    check(abs(sum(c["logprobs"]["token_logprobs"]) - c["cumulative_logprob"]) < 1e-4, f"{c}")
    message = [{"role": "user", "content": "hi"}]
    status, body = server.post(CHAT, messages=message, max_tokens=5, num_beams=3)
    expect((status, len(body["choices"])), (200, 1), f"the best of three: {body}")
    check(body["choices"][0]["score"] <= 0, f"{body}")


def a_request_of_the_server_is_refused_by_name():
    for fields, param, word in (
            ({"stream": True}, "stream", "not streamed"),
            ({"temperature": 0.7}, "temperature", "draw"), ({"top_p": 0.9}, "top_p", "draw"),
            ({"response_format": {"type": "json_object"}}, "response_format", "beam search"),
            ({"n": 9}, "n", "max_num_seqs"), ({"n": 4, "num_beams": 3}, "n", "number of beams"),
            ({"logprobs": 2}, "logprobs", "chosen tokens")):
        status, body = server.post(COMPLETIONS, prompt="x", max_tokens=4,
                                   **{"use_beam_search": True, "n": 2, **fields})
        error = body.get("error", {})
        expect((status, error.get("param")), (400, param), f"{fields}: {body}")
        check(word in error["message"], f"{error} without {word!r}")


run_all(list(globals().items()))
