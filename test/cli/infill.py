#!/usr/bin/env python3
"""infill.py - filling the gap between two texts: --suffix, lines of a batch, and requests to a server."""
import json
import os
import shutil
import tempfile

from _cli import DEMO, call, check, expect, expect_error, lines, run_all
from _server import Server

FOLDER = tempfile.TemporaryDirectory()
MODEL = os.path.join(FOLDER.name, "model")
BEFORE, BEHIND = "Once upon a time there was", " in a busy city."
PAD, PREFIX, SUFFIX, MIDDLE = 0, 3, 4, 5


def _make_model():
    """The bundled model, whose tokens of conversations are renamed."""
    shutil.copytree(DEMO, MODEL)
    with open(os.path.join(MODEL, "tokenizer.json")) as f:
        text = f.read()
    for old, new in (("pad", "fim_pad"), ("system", "fim_prefix"), ("user", "fim_suffix"),
                     ("assistant", "fim_middle")):
        text = text.replace(f"<|{old}|>", f"<|{new}|>")
    with open(os.path.join(MODEL, "tokenizer.json"), "w") as f:
        f.write(text)


def _run(*args, model=MODEL):
    return lines(call("run", "-m", model, "--json", "-n", 6, *args))[0]


def _batch(*requests):
    text = "".join(json.dumps(x) + "\n" for x in requests)
    return lines(call("run", "-m", MODEL, "--json", "--batch", "-", stdin=text.encode()))


def _ids(text):
    return lines(call("tokenize", "-m", MODEL, "--no-special", "--batch", "-",
                      stdin=json.dumps(text).encode()))[0]["ids"]


def the_prompt_has_both_texts_and_the_tokens_between_them():
    bos = lines(call("tokenize", "-m", MODEL, "--batch", "-", stdin=b'""'))[0]["ids"]
    want = [PREFIX, *_ids(BEFORE), SUFFIX, *_ids(BEHIND), MIDDLE]
    expect(_run("--suffix", BEHIND, BEFORE)["prompt_ids"], bos + want, "the prompt of --suffix")
    expect(_run("--suffix", BEHIND, "--no-special", BEFORE)["prompt_ids"], want, "without BOS")
    expect(_run("--suffix", BEHIND, "")["prompt_ids"],
           bos + [PREFIX, SUFFIX, *_ids(BEHIND), MIDDLE], "nothing before the gap")
    expect(_run("--suffix", "", BEFORE)["prompt_ids"], bos + _ids(BEFORE), "an empty text: no gap")


def lines_of_a_batch_fill_gaps_too():
    own = {"prompt": BEFORE, "suffix": BEHIND, "max_tokens": 6}
    body = {"model": "demo", "temperature": 0, **own}
    one, openai, plain = _batch(own, {"custom_id": "a", "method": "POST", "url": "/v1/completions",
                                      "body": body}, {**own, "suffix": ""})
    same = _run("--suffix", BEHIND, BEFORE)
    expect((one["prompt_ids"], one["text"]), (same["prompt_ids"], same["text"]), "a line")
    expect(openai["response"]["body"]["choices"][0]["text"], same["text"], "a line of OpenAI's")
    check(plain["prompt_ids"] != same["prompt_ids"], "a line without a gap")
    bad = _batch({**own, "suffix": 5}, {"ids": [5], "suffix": "x"},
                 {"messages": [{"role": "user", "content": "x"}], "suffix": "x"})
    check(all("suffix" in x["error"] for x in bad), f"wrong lines: {bad}")


def tokens_of_files_end_a_filling():
    o = _run("--suffix", BEHIND, "--logit-bias", f"{PAD}=99", BEFORE)
    expect((o["output_ids"], o["text"], o["finish_reason"]), ([PAD], "", "stop"), "the end of a gap")
    o = _run("--logit-bias", f"{PAD}=99", BEFORE)
    expect((len(o["output_ids"]), o["finish_reason"]), (6, "length"), "no end of other answers")


def what_cannot_be_filled_is_refused():
    expect_error(call("run", "--suffix", "x", "y"), 1, "suffix", "<|fim_prefix|>")
    expect_error(call("run", "-m", MODEL, "--suffix", "x", "--ids", "5"), 2, "--suffix")
    expect_error(call("run", "-m", MODEL, "--suffix", "x", "--chat", "y"), 2, "--suffix", "--chat")
    expect_error(call("run", "-m", MODEL, "--suffix", "x", "--batch", "-"), 2, "--suffix")


def a_server_fills_gaps():
    want = _run("--suffix", BEHIND, BEFORE)
    ask = {"prompt": BEFORE, "suffix": BEHIND, "max_tokens": 6, "temperature": 0}
    with Server(model=MODEL) as s:
        status, o = s.post("/v1/completions", **ask)
        expect((status, o["choices"][0]["text"], o["usage"]["prompt_tokens"]),
               (200, want["text"], len(want["prompt_ids"])), "a completion")
        o = s.post("/v1/completions", **{**ask, "prompt": [BEFORE, "A"], "suffix": BEHIND})[1]
        expect((len(o["choices"]), o["choices"][0]["text"]), (2, want["text"]), "two prompts")
        o = s.post("/v1/completions", **ask, logit_bias={str(PAD): 99})[1]["choices"][0]
        expect((o["text"], o["finish_reason"], o.get("stop_reason")), ("", "stop", None), "its end")
        options = {"temperature": 0, "num_predict": 6}
        o = s.post("/api/generate", prompt=BEFORE, suffix=BEHIND, stream=False, options=options)[1]
        expect((o["response"], o["prompt_eval_count"]), (want["text"], len(want["prompt_ids"])),
               "Ollama's API")
        o = s.post("/api/generate", suffix=BEHIND, stream=False, options=options)[1]
        check(o["prompt_eval_count"] > 3, f"nothing before the gap: {o}")
        for fields in ({"prompt": [5, 6]}, {"echo": True}, {"truncate_prompt_tokens": 5},
                       {"suffix": 5}):
            status, o = s.post("/v1/completions", **{**ask, **fields})
            expect((status, o["error"]["param"]), (400, "suffix"), f"{fields}")
    with Server() as s:
        status, o = s.post("/v1/completions", **ask)
        check(status == 400 and o["error"]["param"] == "suffix" and "fim_prefix" in
              o["error"]["message"], f"a model that fills no gaps: {status} {o}")
        expect(s.post("/v1/completions", **{**ask, "suffix": ""})[0], 200, "an empty text")
        expect(s.post("/api/generate", prompt="x", suffix="y", stream=False)[0], 400, "Ollama's API")


_make_model()
run_all(list(globals().items()))
