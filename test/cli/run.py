#!/usr/bin/env python3
"""run.py - `gallop run` from outside: the sources of prompts, batches, limits, errors and
messages."""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

from _cli import DEMO, GALLOP, ROOT, call, check, expect, expect_error, lines, rest_cpu, run_all
from _server import HELD, patient_model

NOWHERE = ["-m", "/nowhere/at/all"]
LONG = {"prompt": "Once", "max_new_tokens": 300, "ignore_eos": True}
VOCAB = 2048  # the vocabulary of the demo model
SHORT = {"prompt": "Once", "max_new_tokens": 2}


def _jsonl(*objects):
    return b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n"
                    for x in objects)


def _batch(*objects, more=(), **k):
    return call("run", "-m", DEMO, "--greedy", "--json", "--batch", "-", *more,
                stdin=_jsonl(*objects), **k)


def _one(*args, **k):
    r = call("run", "-m", DEMO, "--json", *args, **k)
    return json.loads(r.stdout) if r.returncode == 0 else {"error": r.stderr.decode()}


# ---- text that is not UTF-8 ----

def text_that_is_not_utf8_is_refused_before_a_model_is_looked_for():
    bad = b"caf\xe9 au lait"
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "prompt.txt")
        with open(path, "wb") as f:
            f.write(b"one\ntwo\n" + bad)
        for more in ([], ["--chat"]):
            expect_error(call("run", *NOWHERE, *more, bad), 1, "the prompt", "line 1, byte 4",
                         "0xe9", "UTF-8")
            expect_error(call("run", *NOWHERE, *more, "--file", path), 1, path, "line 3, byte 4",
                         "0xe9", "UTF-8")
            expect_error(call("run", *NOWHERE, *more, "--file", "-", stdin=bad), 1,
                         "line 1, byte 4", "UTF-8")
            expect_error(call("run", *NOWHERE, *more, stdin=bad), 1, "line 1, byte 4", "UTF-8")
        expect_error(call("run", *NOWHERE, "--system", bad, "x"), 1, "--system", "byte 4", "UTF-8")
        expect_error(call("run", "-m", DEMO, "--template", path, "x"), 1, path, "line 3, byte 4",
                     "UTF-8")
    for more in ([], ["--chat"]):
        r = _batch(SHORT, b'{"prompt":"caf\xe9"}', SHORT, more=more)
        o = lines(r)
        expect((r.returncode, [("error" in x) for x in o]), (1, [False, True, False]),
               f"a bad line of three, {more}")
        check("line 2" in o[1]["error"] and "byte 14" in o[1]["error"] and "UTF-8" in o[1]["error"],
              o[1]["error"])
    for text in ("\u00e9\U0001f600", "\u0000x", "\ufeffx"):  # Valid UTF-8 is unchanged.
        check("error" not in _one("-n", 1, "--file", "-", stdin=text.encode()),
              f"{text!r} is refused")


# ---- sources of the prompt ----

def a_prompt_that_would_be_dropped_is_wrong_usage():
    given = {"text": ["text"], "file": ["--file", "F"], "ids": ["--ids", "1,2"],
             "batch": ["--batch", "F"]}
    for a in given:
        for b in given:
            if a < b:
                expect_error(call("run", *NOWHERE, *given[a], *given[b]), 2,
                             "one of a prompt, --file, --ids and --batch")
    expect_error(call("run", *NOWHERE, "two", "prompts"), 2, "one prompt is expected, 2 were given")
    for empty in (b"", b"\n"):
        expect_error(call("run", *NOWHERE, stdin=empty), 2, "a prompt is needed")
    expect_error(call("run", *NOWHERE), 2, "a prompt is needed")


def a_piped_prompt_is_the_prompt_without_its_last_line_end():
    want = _one("-n", 4, "Once upon a time")
    for piped in (b"Once upon a time", b"Once upon a time\n", b"Once upon a time\r\n"):
        expect(_one("-n", 4, stdin=piped).get("prompt_ids"), want["prompt_ids"],
               f"prompt of {piped!r} in a pipe")
    expect(_one("-n", 4, "--file", "-", stdin=b"Once upon a time").get("output_ids"),
           want["output_ids"], "--file -")
    exact = _one("-n", 4, "--file", "-", stdin=b"Once upon a time\n").get("prompt_ids", [])
    check(len(exact) == len(want["prompt_ids"]) + 1, f"--file takes every byte: {exact}")
    expect(_one("-n", 4, "a time", stdin=b"Once upon")["prompt_ids"], want["prompt_ids"],
           "text behind a pipe")


def options_that_contradict_are_errors_and_idle_ones_are_said():
    for more in (["--chat"], ["--system", "x"], ["--template", "F"]):
        expect_error(call("run", *NOWHERE, "--ids", "1,2", *more), 2, "--chat", "--ids")
    expect_error(call("run", "-m", DEMO, "--revision", "main", "x"), 1, DEMO, "revision main")
    expect_error(call("run", "--revision", "main", "x"), 2, "--revision", "the demo model")
    expect_error(call("tokenize", "--revision", "main", "x"), 2, "--revision", "the demo model")
    for args, word in ((["--logprobs", 2, "x"], "--logprobs"),
                       (["--no-special", "--chat", "x"], "--no-special"),
                       (["--no-special", "--ids", "5"], "--no-special"),
                       (["--greedy", "--min-p", 0.1, "x"], "--min-p"),
                       (["--greedy", "--do-sample", "x"], "--do-sample"),
                       (["--greedy", "--temperature", 1, "x"], "--temperature"),
                       (["--greedy", "--top-k", 5, "x"], "--top-k"),
                       (["--greedy", "--top-p", 0.5, "x"], "--top-p"),
                       (["--force", "x"], "--force"),
                       (["--kv-cache-type", "dynamic", "--block-size", 32, "x"], "--block-size"),
                       (["--kv-cache-type", "bmc", "--kv-cache-layout", "block_major", "x"],
                        "--kv-cache-layout"),
                       (["--bmc-splits", 3, "x"], "--bmc-splits")):
        r = call("run", "-m", DEMO, "-n", 1, *args)
        said = r.stderr.decode()
        expect((r.returncode, said.count("\n")), (0, 1), f"status and warnings of {args}: {said!r}")
        check("warning" in said and word in said and "changes nothing" in said, f"{args}: {said!r}")
        expect(call("run", "-m", DEMO, "-n", 1, "--quiet", *args).stderr, b"",
               f"words of {args} with --quiet")
    for args in (["--logprobs", 2, "--json"], ["--greedy", "--seed", 5],
                 ["--kv-cache-type", "paged", "--block-size", 32],
                 ["--kv-cache-type", "bmc", "--bmc-splits", 3]):
        expect(call("run", "-m", DEMO, "-n", 1, *args, "x").stderr, b"",
               f"words of {args}, where nothing is idle")


# ---- special tokens and templates ----

def a_prompt_has_one_bos_and_a_template_writes_its_own():
    bos = 1
    messages = b'[{"role": "user", "content": "Hello there"}]'
    rendered = json.loads(call("render", "-m", DEMO, "--messages", "-", "--ids", "--json",
                               stdin=messages).stdout)["ids"]
    expect(rendered.count(bos), 1, f"BOS in what the template renders: {rendered}")
    expect(_one("-n", 1, "--chat", "Hello there")["prompt_ids"], rendered,
           "ids of run --chat and of render")
    plain = _one("-n", 1, "Hello there")["prompt_ids"]
    expect(plain.count(bos), 1, f"BOS in {plain}")
    expect(_one("-n", 1, "--no-special", "Hello there")["prompt_ids"], plain[1:],
           "ids with --no-special")
    expect(_one("-n", 1, "--ids", "5,6", "--no-special", "--quiet")["prompt_ids"], [5, 6],
           "--ids as they are")
    o = lines(_batch({"prompt": "Hello there"}, {"messages": json.loads(messages)}, {"ids": [5, 6]},
                     more=["-n", 1]))
    expect([x["prompt_ids"] for x in o], [plain, rendered, [5, 6]], "prompts of a batch")
    o = lines(_batch({"prompt": "Hello there"}, {"messages": json.loads(messages)}, {"ids": [5, 6]},
                     more=["-n", 1, "--chat"]))
    expect([x["prompt_ids"] for x in o], [rendered, rendered, [5, 6]],
           "prompts of a batch with --chat")


def a_system_message_and_another_template_are_used():
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
        f.write(
            "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}{{ 'go' if add_generation_prompt }}")
        f.flush()
        def ids(text):
            return _one("-n", 1, "--no-special", text)["prompt_ids"]
        expect(_one("-n", 1, "--chat-template", f.name, "Hi")["prompt_ids"], ids("user=Hi;go"),
               "--chat-template")
        expect(_one("-n", 1, "--template", f.name, "Hi")["prompt_ids"], ids("user=Hi;go"),
               "--template, its other name")
        expect(_one("-n", 1, "--template", f.name, "--system", "Be", "Hi")["prompt_ids"],
               ids("system=Be;user=Hi;go"), "--system")
        o = lines(_batch({"prompt": "Hi"}, {"messages": [{"role": "user", "content": "Yo"}]},
                         more=["-n", 1, "--template", f.name, "--system", "Be"]))
        expect([x["prompt_ids"] for x in o], [ids("system=Be;user=Hi;go"), ids("user=Yo;go")],
               "a batch with both")
        f.seek(0)
        f.truncate()
        f.write("{% if %}")
        f.flush()
        expect_error(call("run", "-m", DEMO, "--template", f.name, "x"), 1, f.name, "line 1")
    expect_error(call("run", "-m", DEMO, "--template", "/no/such.jinja", "x"), 1, "/no/such.jinja")


def a_line_has_the_tools_that_a_template_reads_in_the_system_message():
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
        f.write("{% for m in messages %}{{ m.role }}={{ m.content }}{{ m.tools or '' }};{% endfor %}")
        f.flush()
        say = {"messages": [{"role": "user", "content": "Hi"}]}
        own, null = ({**say, "tools": [{"type": "function", "function": x}]}
                     for x in ({"name": "f"}, {"name": "f", "description": None}))
        o = [x["prompt_ids"] for x in lines(_batch(say, own, null, more=[
            "-n", 1, "--template", f.name]))]
        check(len(o[1]) > len(o[0]), f"prompts without and with tools: {o}")
        expect(o[2], o[1], "the prompt with a description that is null")


# ---- options have an effect ----

def a_model_is_the_one_that_is_named():
    gpt2 = os.path.join(ROOT, "test", "golden", "gpt2")
    run = lambda *args, **env: json.loads(call("run", "--json", "-n", 8, "--ids", "5,6,7", *args,
                                               env=env).stdout)["output_ids"]
    demo, other = run(), run("--model", gpt2)
    check(demo != other, f"two models say the same: {demo}")
    for args, env, want in ((["-m", gpt2], {}, other), ([], {"GALLOP_MODEL": gpt2}, other),
                            (["-m", DEMO], {"GALLOP_MODEL": gpt2}, demo), (["-m", DEMO], {}, demo)):
        expect(run(*args, **env), want, f"tokens with {args} and {env}")


def links_out_of_a_folder_are_followed_only_where_allowed():
    want = _one("-n", 4, "Once")["output_ids"]
    with tempfile.TemporaryDirectory() as d:
        for name in os.listdir(DEMO):
            os.symlink(os.path.join(DEMO, name), os.path.join(d, name))
        for verb in ("run", "serve"):
            expect_error(call(verb, "-m", d, *(["x"] if verb == "run" else [
                "--port", 0, "--no-access-log"])), 1, d, "--allow-links")
        expect(json.loads(call("run", "-m", d, "--allow-links", "--json", "-n", 4,
                               "Once").stdout)["output_ids"], want, "tokens with --allow-links")


def a_prompt_of_a_file_is_every_byte_of_it():
    with tempfile.NamedTemporaryFile() as f:
        for text in (b"Once upon\na time\n", b"Once", b" \n\nOnce\r\n"):
            f.seek(0)
            f.truncate()
            f.write(text)
            f.flush()
            want = json.loads(b"[%s]" % call("tokenize", "-m", DEMO, text).stdout)
            expect(_one("-n", 1, "--file", f.name)["prompt_ids"], want,
                   f"the prompt of a file with {text}")
            expect(_one("-n", 1, "--file", "-", stdin=text)["prompt_ids"], want,
                   f"standard input with {text}")

def an_option_of_sampling_does_what_its_field_does():
    prompt = _one("-n", 1, "Once upon a time there was a little")["prompt_ids"]
    likely = _one("-n", 3, "--ids", ",".join(map(str, prompt)))["output_ids"]
    end = {"logit_bias": {"2": 99}}  # the end token
    shaped = {"do_sample": True, "temperature": 1.7, "seed": 3}
    push = ["--logit-bias", f"{likely[0]}=50"]  # it repeats until the penalty is larger
    dry = {"logit_bias": {str(likely[0]): 50}, "dry_multiplier": 3}
    cases = [(["-n", 4], {"max_new_tokens": 4}),
             (["--do-sample", "--seed", 1], {"do_sample": True, "seed": 1}),
             (["--do-sample", "--seed", 2], {"do_sample": True, "seed": 2}),
             (["--temperature", 1.7, "--seed", 3], {"temperature": 1.7, "seed": 3}),
             (["--temperature", 1.7, "--seed", 3, "--top-k", 3], {**shaped, "top_k": 3}),
             (["--temperature", 1.7, "--seed", 3, "--top-p", 0.4], {**shaped, "top_p": 0.4}),
             (["--temperature", 1.7, "--seed", 3, "--min-p", 0.3], {**shaped, "min_p": 0.3}),
             (["--temperature", 1.7, "--seed", 3, "--greedy"], {**shaped, "greedy": True}),
             (["--temperature", 1.7, "--seed", 3, "--typical-p", 0.2],
              {**shaped, "typical_p": 0.2}),
             (["--temperature", 1.7, "--seed", 3, "--top-n-sigma", 2],
              {**shaped, "top_n_sigma": 2}),
             (["--temperature", 1.7, "--seed", 3, "--xtc-probability", 1],
              {**shaped, "xtc_probability": 1}),
             (["--temperature", 1.7, "--seed", 3, "--xtc-probability", 1, "--xtc-threshold",
               0.01],
              {**shaped, "xtc_probability": 1, "xtc_threshold": 0.01}),
             ([*push, "--dry-multiplier", 3], dry),
             ([*push, "--dry-multiplier", 3, "--dry-base", 9], {**dry, "dry_base": 9}),
             ([*push, "--dry-multiplier", 3, "--dry-allowed-length", 5],
              {**dry, "dry_allowed_length": 5}),
             ([*push, "--dry-multiplier", 3, "--dry-penalty-last-n", 4],
              {**dry, "dry_penalty_last_n": 4}),
             ([*push, "--dry-multiplier", 3, "--logit-bias", f"{likely[1]}=49",
               "--dry-sequence-breakers", "girl", "--dry-sequence-breakers", "x"],
              {**dry, "logit_bias": {str(likely[0]): 50, str(likely[1]): 49},
               "dry_sequence_breakers": ["girl", "x"]}),
             (["--repetition-penalty", 1.9], {"repetition_penalty": 1.9}),
             (["--frequency-penalty", 9], {"frequency_penalty": 9}),
             (["--presence-penalty", 9], {"presence_penalty": 9}),
             (["--logit-bias", f"{likely[0]}=-50"], {"logit_bias": {str(likely[0]): -50}}),
             (["--stop-token", likely[1]], {"stop_token": [likely[1]]}),
             (["--logit-bias", "2=99"], end),
             (["--logit-bias", "2=99", "--ignore-eos"], {**end, "ignore_eos": True}),
             (["--stop", "e"], {"stop": ["e"]}), (["--logprobs", 2], {"logprobs": 2}),
             (["--bad-words", "girl", "--bad-words", "boy named"],
              {"bad_words": ["girl", "boy named"]}),
             (["--logit-bias", "2=99", "--min-new-tokens", 4], {**end, "min_new_tokens": 4})]
    plain = {"ids": prompt, "max_new_tokens": 24}
    keys = ("output_ids", "text", "finish_reason", "stop_reason", "logprobs")
    answers = [[x.get(k) for k in keys]
               for x in lines(call("run", "-m", DEMO, "--json", "--batch", "-",
                                   stdin=_jsonl(plain, *({**plain, **f} for _, f in cases))))]
    for (args, field), want in zip(cases, answers[1:]):
        o = _one(*([] if "-n" in args else ["-n", 24]), *args, "--quiet", "--ids",
                 ",".join(map(str, prompt)))
        expect([o.get(k) for k in keys], want, f"what {args} gives, and {field} in a line")
        check(want != answers[0] or "greedy" in field,
              f"{field} changes nothing here, so nothing is shown")
    check(len(set(map(str, answers))) > len(cases) - 2, "cases that cannot be told from each other")


def special_tokens_are_written_only_where_asked_for():
    bos = _one("-n", 1, "x")["prompt_ids"][0]
    for more in (["--ids", "5"], ["--file", "-"]):
        text = [_one("-n", 1, "--logit-bias", f"{bos}=1000", *more, *keep, stdin=b"x")["text"]
                for keep in ([], ["--keep-special"])]
        check(text[0] == "" and text[1] != "",
              f"the text of BOS without and with --keep-special: {text}")


def a_full_context_is_told_from_a_limit():
    for n, word in ((100, b"context of 16"), (12, None), (5, None)):
        r = call("run", "-m", DEMO, "--max-model-len", 16, "--ignore-eos", "-n", n, "--ids",
                 "5,6,7,8")
        check((word in r.stderr) if word else not r.stderr, f"-n {n} where 12 fit: {r.stderr!r}")
    r = call("run", "-m", DEMO, "--max-model-len", 16, "--ignore-eos", "--ids", "5,6,7,8")
    expect((r.stderr.count(b"\n"), b"context of 16" in r.stderr), (1, True),
           f"without -n: {r.stderr!r}")


def an_option_of_the_engine_reaches_it():
    def inspect(*args):
        return json.loads(call("inspect", "-m", DEMO, "--json", *args).stdout)

    for args, path, want in ((["--dtype", "fp32"], ["dtype"], "fp32"), (
        ["--dtype", "bf16"], ["dtype"], "bf16"), (["--threads", 1], ["threads"], 1),
                             (["--threads", 3], ["threads"], 3), (["--isa", "ref"], ["isa"], "ref"),
                             (["--kv-cache-dtype", "int8"], ["kv", "dtype"], "int8"),
                             (["--kv-cache-dtype", "fp32"], ["kv", "dtype"], "fp32"),
                             (["--kv-cache-type", "paged"], ["kv", "type"], "paged"),
                             (["--kv-cache-layout", "block_major"], ["kv", "layout"],
                              "block_major"),
                             (["--kv-cache-layout", "head_major"], ["kv", "layout"], "head_major"),
                             (["--block-size", 64], ["kv", "block"], 64),
                             (["--executor", "eager"], ["executor", "name"], "eager")):
        o = inspect(*args)
        for key in path:
            o = o[key]
        expect(o, want, f"{'.'.join(path)} of inspect {args}")
    plain = inspect()
    check(inspect("--max-num-batched-tokens", 16)["scratch_bytes"] < plain["scratch_bytes"],
          "--max-num-batched-tokens")
    check(inspect("--max-model-len", 64)["kv"]["tokens"] < plain["kv"]["tokens"], "--max-model-len")
    check(inspect("--kv-cache-memory", 0.01)["kv"]["budget_bytes"] != plain["kv"]["budget_bytes"],
          "--kv-cache-memory")
    backends = {t["op"]: t["backend"] for t in inspect("--op-config", '{"mlp":"native"}')["tensors"]
                if "op" in t}
    check(backends.pop("mlp") == "native" and "native" not in backends.values(),
          f"--op-config: {backends}")
    backends = {t["op"]: t["backend"]
                for t in inspect("--op-config", '{"mlp_backend":"IMBPS"}')["tensors"] if "op" in t}
    expect(backends, {"qkv_projection": "gallop", "out_projection": "gallop", "mlp": "imbps"},
           "backends of an MLP in splits")
    for options, says in ((["--op-config", '{"qkv_projection":"imbps"}'],
                           b"--op-config: backend imbps supports mlp only, not qkv_projection"),
                          (["--op-config", '{"mlp":"foo"}'],
                           b"--op-config: foo is not a backend of mlp; available are auto, "),
                          (["--attention-backend", "tpp"],
                           b"--attention-backend: tpp is not a backend of attention")):
        r = call("inspect", "-m", DEMO, *options)
        check(r.returncode == 2 and says in r.stderr and r.stderr.count(b"\n") == 1,
              f"{options}: {r.stderr}")
    for options, says in ((["-m", DEMO, "--quant", "int8", "--op-config", '{"mlp":"imbps"}'],
                           b"fp32 and bf16 only"),
                          (["-m", os.path.join(ROOT, "test", "golden", "qwen3-moe"),
                            "--op-config", '{"mlp":"imbps"}'], b"not the experts of a mixture"),
                          (["-m", os.path.join(ROOT, "test", "golden", "llama4"), "--op-config",
                            '{"mlp":"imbps"}'], b"not the experts of a mixture")):
        r = call("inspect", *options)
        check(r.returncode == 1 and says in r.stderr and r.stderr.count(b"\n") == 1,
              f"{options}: {r.stderr}")
    # Backends with the arithmetic of gallop. A build or a machine without them reports it.
    for backend, options in (("TPP", ["--dtype", "fp32"]), ("JIT", ["--quant", "int8"])):
        config = json.dumps({f"{kind}_backend": backend
                             for kind in ("qkv_proj", "out_proj", "mlp", "lm_head")})
        r = call("run", "-m", DEMO, "-n", 24, *options, "--op-config", config, "Once upon a time")
        if r.returncode == 0:
            plain = call("run", "-m", DEMO, "-n", 24, *options, "Once upon a time")
            check(r.stdout == plain.stdout, f"{backend} gives other tokens: {r.stdout}")
        else:
            check(r.returncode == 1 and f"backend {backend.lower()} ".encode() in r.stderr and
                  (b"this build" in r.stderr or b"for this machine" in r.stderr), r.stderr)


# ---- the length of an answer ----

def an_answer_without_a_limit_ends_after_512_tokens_and_says_so():
    r = call("run", "-m", DEMO, "--ignore-eos", "--json", "Once")
    o = json.loads(r.stdout)
    expect((len(o["output_ids"]), o["finish_reason"], r.stderr.count(b"\n")), (512, "length", 1),
           "tokens, reason, lines said")
    check(b"512" in r.stderr and b"-n" in r.stderr, f"what cut it: {r.stderr!r}")
    for more, n in ((["-n", 5], 5), (["--min-new-tokens", 515, "--quiet"], 515)):
        r = call("run", "-m", DEMO, "--ignore-eos", "--json", *more, "Once")
        expect(len(json.loads(r.stdout)["output_ids"]), n, f"tokens with {more}")
        expect(r.stderr, b"", f"words with {more}")
    r = _batch({"prompt": "Once", "ignore_eos": True},
               {"prompt": "Once", "ignore_eos": True, "max_tokens": 6})
    expect([len(x["output_ids"]) for x in lines(r)], [512, 6],
           "tokens of lines without and with a limit")
    check(b"line 1: the answer was cut after 512" in r.stderr and b"line 2" not in r.stderr,
          f"which line was cut: {r.stderr!r}")
    r = call("run", "-m", DEMO, "--json", "Once upon a time")
    check(json.loads(r.stdout)["finish_reason"] == "stop" and not r.stderr,
          "an answer that ends by itself")


def each_end_token_that_the_files_name_ends_an_answer():
    """The end token of the tokenizer counts in addition to those of generation_config.json, and
    to those of config.json if that names none."""
    with tempfile.TemporaryDirectory() as d:
        m = os.path.join(d, "m")
        shutil.copytree(DEMO, m)
        for file, add in (("config.json", {"eos_token_id": 301}),
                          ("generation_config.json", {"eos_token_id": [300, 302]})):
            with open(os.path.join(m, file)) as f:
                config = json.load(f)
            os.remove(os.path.join(m, file))
            with open(os.path.join(m, file), "w") as f:
                json.dump({**config, **add}, f)
        for ends in ((2, 300, 302), (2, 301)):
            for token in (2, 300, 301, 302, 303):
                o = _one("-m", m, "-n", 3, "--logit-bias", f"{token}=100", "Once upon a time")
                expect((o["finish_reason"], len(o["output_ids"])), ("stop", 1) if token in ends
                       else ("length", 3), f"an answer of token {token}, where {ends} are ends")
            if 300 in ends:
                os.remove(os.path.join(m, "generation_config.json"))


def tokens_that_the_model_suppresses_are_not_generated():
    """suppress_tokens of generation_config.json, whatever else a request asks for."""
    words = {"type": "object", "required": ["a"],
             "properties": {"a": {"type": "string", "maxLength": 8}}}
    with tempfile.TemporaryDirectory() as d:
        m = os.path.join(d, "m")
        shutil.copytree(DEMO, m)
        first = _one("-m", m, "--greedy", "-n", 8, "Once upon a time")["output_ids"]
        path = os.path.join(m, "generation_config.json")
        with open(path) as f:
            config = json.load(f)
        os.remove(path)
        with open(path, "w") as f:
            json.dump({**config, "suppress_tokens": [first[0], first[3], 1 << 20],
                       "eos_token_id": [2, 1 << 24]}, f)
        banned = {first[0], first[3]}
        lines_in = ({}, {"logit_bias": {first[0]: 1000}}, {"num_beams": 3},
                    {"temperature": 1, "seed": 1}, {"structured_outputs": {"json": words}},
                    {"n": 2, "temperature": 2, "seed": 3}, {"suppress_tokens": []},
                    {"begin_suppress_tokens": [first[0]], "suppress_tokens": []})
        r = call("run", "-m", m, "--json", "--batch", "-", "-n", 8,
                 stdin=_jsonl(*({"prompt": "Once upon a time", **x} for x in lines_in)))
        out = {}
        for o in lines(r):
            check("error" not in o, f"an answer: {o}")
            out.setdefault(o["index"], []).extend(o["output_ids"])
        for i, asked in enumerate(lines_in[:6]):
            check(not banned & set(out[i]), f"what comes with {asked}: {out[i]}, without {banned}")
        expect(out[6], first, "the tokens of a request that suppresses none")
        check(out[7][0] != first[0], f"the first token, if it may not begin an answer: {out[7]}")
        for field, token in (("suppress_tokens", 1 << 20), ("eos_token_id", 1 << 24)):
            check(f"generation_config.json: {field}: ignored token {token}: the vocabulary has "
                  f"{VOCAB} tokens" in r.stderr.decode(), f"a warning of {field}: {r.stderr!r}")
        found = lines(_batch({"prompt": "x", "eos_token_id": VOCAB}))[0]["error"]
        check(f"eos_token_id: found token {VOCAB}" in found, f"an end token of a request: {found}")


def the_models_own_limit_goes_before_512():
    with tempfile.TemporaryDirectory() as d:
        m = os.path.join(d, "m")
        shutil.copytree(DEMO, m)
        path = os.path.join(m, "generation_config.json")
        with open(path) as f:
            config = json.load(f)
        for own, n in (({"max_new_tokens": 7}, 7), ({"max_length": 20}, 17), ({"max_length": 4}, 1),
                       ({"max_length": 3}, None)):
            os.remove(path)
            with open(path, "w") as f:
                json.dump({**config, **own}, f)
            r = call("run", "-m", m, "--ignore-eos", "--json", "--quiet", "--ids", "5,6,7")
            found = lines(r)[0]
            expect(len(found["output_ids"]) if n else "max_length" in found["error"], n or True,
                   f"tokens of a model with {own}")
            expect(b"cut after" in r.stderr, False, f"what is said with {own}: {r.stderr!r}")
            expect(len(_one("-m", m, "-n", 9, "--ignore-eos", "--ids", "5,6,7")["output_ids"]), 9,
                   f"tokens with -n 9 and {own}")


def end_tokens_of_the_tokenizer_and_of_the_configs_end_an_answer():
    with tempfile.TemporaryDirectory() as d:
        m = os.path.join(d, "m")
        shutil.copytree(DEMO, m)
        loaded = {}
        for name in ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json",
                     "config.json"):
            with open(os.path.join(m, name)) as f:
                loaded[name] = json.load(f)

        def write(name, **more):
            os.remove(os.path.join(m, name))
            with open(os.path.join(m, name), "w") as f:
                json.dump({k: v for k, v in {**loaded[name], **more}.items() if v is not ...}, f)

        write("special_tokens_map.json", eos_token=...)
        # eos_token; eos_token_id of generation_config.json and of config.json; the tokens that end
        # an answer
        cases = (("<|end|>", 2, 2, [2]), ("<|assistant|>", 2, 2, [2, 5]),
                 ({"content": "<|assistant|>"}, [2, 3], 4, [2, 3, 5]),
                 ("<|assistant|>", ..., 4, [4, 5]), ("<|assistant|>", ..., ..., [5]),
                 (None, 3, 4, [3]), (..., 3, 4, [3]), ("<|nobody|>", 3, 4, [3]))
        for token, generated, configured, want in cases:
            write("tokenizer_config.json", eos_token=token)
            write("generation_config.json", eos_token_id=generated)
            write("config.json", eos_token_id=configured)
            for i in (2, 3, 4, 5):
                args = ["-m", m, "-n", 3, "--ids", "5,6,7", "--logit-bias", f"{i}=99"]
                got = _one(*args)
                expect((got["finish_reason"], len(got["output_ids"])),
                       ("stop", 1) if i in want else ("length", 3),
                       f"an answer of token {i} with {token}, {generated} and {configured}")
                expect(len(_one(*args, "--ignore-eos")["output_ids"]), 3,
                       "tokens with --ignore-eos")


def times_are_of_the_prompt_and_of_the_answer():
    t = _one("-n", 1, "--ids", ",".join(["5"] * 900))["timing"]
    check(t["prefill_s"] > 0 and t["decode_s"] == 0, f"one token: all is prefill: {t}")
    expect((t["prompt_tokens"], t["output_tokens"]), (900, 1), "counts")
    t = _one("-n", 300, "--ignore-eos", "--ids", "5")["timing"]
    check(t["decode_s"] > t["prefill_s"] > 0 and t["load_s"] > 0,
          f"299 tokens take longer than the first: {t}")
    expect((t["prompt_tokens"], t["output_tokens"]), (1, 300), "counts")


# ---- batches ----

def lines_with_openais_names_are_understood():
    user = [{"role": "user", "content": "Hello there"}]
    want = _one("-n", 3, "--chat", "--greedy", "Hello there")["output_ids"]
    for body in ({"messages": user, "max_tokens": 3}, {"messages": user, "max_completion_tokens": 3,
                                                       "model": "any", "n": 1, "stream": False},
                 {"messages": user, "max_new_tokens": 3, "stop": "zzz", "user": "me"},
                 {"messages": user, "max_tokens": 3, "stop": ["zzz", "yyy"]},
                 {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
                  "body": {"model": "m", "messages": user, "max_tokens": 3, "temperature": 0}},
                 {"custom_id": "",
                  "body": {"messages": user, "max_tokens": 3, "temperature": None}}):
        o = lines(_batch(body))[0]
        if "url" in body:
            text = call("tokenize", "-m", DEMO, "--decode", "--ids",
                        ",".join(map(str, want))).stdout.decode().rstrip("\n")
            expect((o["response"]["body"]["choices"][0]["message"]["content"], o["custom_id"]),
                   (text, "a"), f"answer to {body}")
            continue
        expect((o.get("output_ids"), o.get("custom_id")), (want, body.get("custom_id")),
               f"answer to {body}: {o.get('error')}")
    o = lines(_batch({"prompt": "Once", "max_tokens": 2, "logprobs": True, "top_logprobs": 3},
                     {"prompt": "Once", "max_tokens": 2, "logprobs": True},
                     {"prompt": "Once", "max_tokens": 2, "logprobs": False},
                     {"prompt": "Once", "max_tokens": 2, "logprobs": 1}))
    expect([len(x["logprobs"][0]["top"]) if "logprobs" in x else None for x in o], [3, 0, None, 1],
           "log-probabilities")
    word = lines(_batch({"prompt": "Once upon", "max_tokens": 30}))[0]["text"].split()[3]
    o = lines(_batch({"prompt": "Once upon", "max_tokens": 30, "stop": word}))[0]
    expect((o["finish_reason"], o["stop_reason"]), ("stop", word), "a stop string as a string")


def users_and_priorities_of_lines_order_a_batch():
    rows = [{"ids": [5], "max_tokens": 300, "min_tokens": 300, "user": u, "priority": p} for u,
            p in (("a", 0), ("a", 0), ("a", 0), ("b", -1))]
    for policy, wanted in (("fcfs", [0, 1, 2, 3]), ("fair", [0, 1, 3, 2]),
                           ("priority", [3, 0, 1, 2])):
        r = call("run", "-m", DEMO, "--greedy", "--batch", "-", "--max-num-seqs", 1,
                 "--scheduling-policy", policy, stdin=_jsonl(*rows))
        found = [int(x[4:]) for x in r.stdout.decode().splitlines() if re.fullmatch(r"--- \d", x)]
        expect(found, wanted, f"the order of answers, {policy}")


def rows_from_memory_and_from_the_store_are_told_apart():
    row = {"ids": [5 + i % 200 for i in range(100)], "max_tokens": 1}
    with tempfile.TemporaryDirectory() as d:
        ask = lambda: [json.loads(x)["timing"] for x in _batch(
            row, row, more=("--max-num-seqs", 1, "--kv-store", d, "--block-size", 16,
                            "--prefix-index", "hash")).stdout.splitlines()]
        got = [[(t["prompt_tokens"], t["cached_tokens"], t["stored_tokens"]) for t in ask()]
               for _ in range(2)]
    found = got[0][1][1]
    check(80 <= found < 100, f"rows that are found: {got}")
    expect(got, [[(100, 0, 0), (100, found, 0)], [(100, found, found), (100, found, 0)]],
           "tokens of the prompt, found, found in the store; of two lines, twice")


def a_stop_token_is_told_by_its_id():
    for token in (0, 300):
        o = json.loads(_batch({"prompt": "Once", "max_tokens": 9, "stop_token_ids": [token],
                               "logit_bias": {str(token): 100}}).stdout)
        expect((o["finish_reason"], o["stop_reason"]), ("stop", token),
               "a stop token, also the first of all")


def a_bad_line_says_its_number_and_keeps_its_name():
    bad = [({"prompt": "x", "ids": [5]}, "one of prompt, ids and messages"),
           ({}, "one of prompt, ids and messages"),
           ({"prompt": "x", "max_tokens": 1, "max_new_tokens": 1}, "max_new_tokens: "),
           ({"prompt": "x", "n": 129}, "n: "), ({"prompt": "x", "n": 0}, "n: "),
           ({"prompt": "x", "n": 2.5}, "n: "),
           ({"prompt": "x", "n": 2, "best_of": 3}, "best_of: "),
           ({"prompt": "x", "n": 2, "best_of": 1}, "best_of: "),
           ({"prompt": "x", "best_of": 129}, "best_of: "),
           ({"prompt": "x", "min_tokens": 1, "min_new_tokens": 1}, "min_new_tokens: "),
           ({"prompt": "x", "min_tokens": -1}, "min_new_tokens: "),
           ({"prompt": "x", "min_tokens": 3, "max_tokens": 2}, "min_new_tokens: "),
           ({"prompt": "x", "prompt_logprobs": -1}, "prompt_logprobs: "),
           ({"prompt": "x", "prompt_logprobs": 1025}, "prompt_logprobs: "),
           ({"prompt": "x", "prompt_logprobs": True}, "prompt_logprobs: "),
           ({"prompt": "x", "bad_words": ["w"] * 257}, "bad_words: "),
           ({"prompt": "x", "bad_words": "w" * 129}, "bad_words: "),
           ({"prompt": "x", "bad_words": [""]}, "bad_words: "),
           ({"prompt": "x", "stop_token_ids": [5] * 4097}, "stop_token: "),
           ({"prompt": "x", "stop_token_ids": [-1]}, "stop_token: "),
           ({"prompt": "x", "stop_token_ids": [VOCAB]}, "stop_token: "),
           ({"prompt": "x", "allowed_token_ids": []}, "allowed_token_ids: "),
           ({"prompt": "x", "allowed_token_ids": 5}, "allowed_token_ids: "),
           ({"prompt": "x", "allowed_token_ids": [VOCAB]}, "allowed_token_ids: "),
           ({"prompt": "x", "allowed_token_ids": [5] * (2**20 + 1)}, "allowed_token_ids: "),
           ({"prompt": "x", "logit_bias": {str(VOCAB): 1}}, "logit_bias: "),
           ({"prompt": "x", "logit_bias": {"5": 1e39}}, "logit_bias: "),
           ({"prompt": "x", "logit_bias": {"-5": 1}}, "logit_bias: "),
           ({"prompt": "x", "logit_bias": [[5, 1], [5, 2]]}, "logit_bias: "),
           ({"prompt": "x", "echo": True}, "echo: "),
           ({"prompt": "x", "max_tokens": 1, "max_completion_tokens": 1}, "max_new_tokens: "),
           ({"prompt": "x", "stream": True}, "stream"),
           ({"prompt": "x", "tools": [{"type": "function"}]}, "need messages"),
           ({"ids": [5], "documents": [{"text": "x"}]}, "need messages"),
           ({"prompt": "x", "top_logprobs": 2}, "top_logprobs"),
           ({"prompt": ["x"]}, "prompt: found a list"), ({"ids": "5"}, "ids: found a string"),
           ({"ids": [5, "x"]}, "ids[1]"),
           ({"ids": [2**31]}, "ids[0]"), ({"messages": "x"}, "messages: found a string"),
           ({"messages": []}, "messages: at least one"),
           ({"messages": [{"role": "user", "content": "x"}], "colour": 1}, "colour"),
           ({"prompt": "x", "temperature": "hot"}, "temperature"),
           ({"ids": [5, 10**6]}, "outside the vocabulary"), ({"ids": [5] * 2000}, "2000 input tokens"),
           ({"ids": []}, "empty"),
           ({"body": [1]}, "body: expected"),
           ({"body": {"prompt": "x"}, "url": "/v1/embeddings"}, "url"),
           ({"body": {"prompt": "x"}, "method": "GET"}, "method"),
           ({"body": {"prompt": "x"}, "prompt": "y"}, "prompt beside body")]
    r = _batch(*(x[0] | {"custom_id": f"c{i}"} for i, x in enumerate(bad)), b"[1]", b"{",
               {"prompt": "x", "custom_id": 5})
    o = lines(r)
    expect((r.returncode, [x["index"] for x in o]), (1, list(range(len(bad) + 3))),
           "status and order")
    for i, (x, word) in enumerate(bad):
        check(f"line {i + 1}:" in o[i]["error"] and word in o[i]["error"],
              f"{x}: {o[i]['error']!r}")
        expect(o[i].get("custom_id"), f"c{i}", f"custom_id of {x}")
    for i, word in enumerate(("expected a JSON object", "byte 1: ", "custom_id")):
        check(f"line {len(bad) + 1 + i}:" in o[len(bad) + i]["error"]
              and word in o[len(bad) + i]["error"], o[len(bad) + i]["error"])
    expect(r.stderr.decode().splitlines(), ["gallop: " + x["error"] for x in o], "what stderr says")


def fields_of_a_line_hold_up_to_their_limits():
    plain = {"ids": [1, 435, 499], "max_tokens": 6}
    o = lines(_batch({**plain, "bad_words": ["zzz"] * 255 + ["w" * 128]},
                     {**plain, "stop_token_ids": [VOCAB - 1] * 4096},
                     {**plain, "allowed_token_ids": [VOCAB - 1] * 2**20}, {**plain, "logit_bias": {
                         str(i): 3e38 if i == VOCAB - 1 else 0 for i in range(VOCAB)}},
                     {**plain, "min_tokens": 6, "logit_bias": {"2": 99}},
                     {**plain, "max_tokens": 0, "prompt_logprobs": 1024},
                     {**plain, "prompt_logprobs": 0, "n": 2},
                     {"ids": [5], "max_tokens": 0, "prompt_logprobs": 0}, {**plain, "best_of": 1},
                     {**plain, "allowed_token_ids": None, "n": None, "best_of": None,
                      "prompt_logprobs": None, "min_tokens": None}, plain))
    check(all("error" not in x for x in o), f"lines at their limits: {[x.get('error') for x in o]}")
    for i in (0, 1, 6, 8, 9):
        expect(o[i]["output_ids"], o[10]["output_ids"], f"line {i + 1}, whose field is not met")
    expect([o[i]["output_ids"] for i in (2, 3)], [[VOCAB - 1] * 6] * 2,
           "the only token that is allowed, and the one that is pushed")
    check(len(o[4]["output_ids"]) == 6 and 2 not in o[4]["output_ids"][:5],
          f"min_tokens holds the end back: {o[4]['output_ids']}")
    scored = [x.get("prompt_logprobs") for x in o]
    expect([x if x is None else [y and (y["id"], len(y["top"])) for y in x] for x in scored],
           [None] * 5 + [[None, (435, 1024), (499, 1024)], [None, (435, 0), (499, 0)],
                         [None]] + [None] * 3, "prompt_logprobs")
    expect((o[5]["output_ids"], [x and x["logprob"] for x in scored[5]]), ([], [
        x and x["logprob"] for x in scored[6]]), "the prompt's scores, with and without an answer")
    check(all("choices" not in x for i, x in enumerate(o) if i != 6) and len(o[6]["choices"]) == 2,
          "choices where several were asked for")


def several_answers_to_a_line_are_those_of_lines_with_the_seeds_that_follow():
    drawn = {"ids": [1, 435], "max_tokens": 12, "temperature": 1.5, "logprobs": 2,
             "stop": [" was", "."], "custom_id": "c"}
    keys = ("output_ids", "text", "finish_reason", "stop_reason", "logprobs")
    texts = [_jsonl({**drawn, "n": 5, "seed": 2**63 - 5}, {**drawn, "n": 128}),
             _jsonl(*({**drawn, "seed": 2**63 - 5 + i} for i in range(5)))]
    several, single = (lines(call("run", "-m", DEMO, "--json", "--quiet", *more, "--batch", "-",
                                  stdin=x)) for x, more in zip(texts, ((), ("--max-num-seqs", 1))))
    expect([(x["index"], [c["index"] for c in x["choices"]]) for x in several],
           [(0, list(range(5))), (1, list(range(128)))], "a line a request, with its answers")
    answers = [[c.get(k) for k in keys] for c in several[0]["choices"]]
    expect(answers, [[x.get(k) for k in keys] for x in single],
           "answers to one line, and to a line each")
    check(len(set(map(str, answers))) > 1, "answers that are all the same show nothing")
    expect([several[0][k] for k in keys], answers[0],
           "the first answer stands where a single one would")
    expect(sorted(set(several[0]) - set(single[0])), ["choices"],
           "keys of a line with several answers")
    check(all(c["timing"]["output_tokens"] == len(c["output_ids"]) for x in several
              for c in x["choices"]), "tokens of each answer")
    r = call("run", "-m", DEMO, "--batch", "-", stdin=_jsonl(
        {"ids": [1, 435], "n": 2, "ignore_eos": True}, {"ids": [1, 435], "max_tokens": 2}))
    expect([x for x in r.stdout.decode().splitlines() if x.startswith("--- ")],
           ["--- 1", "--- 0.0", "--- 0.1"], "how answers begin in text")
    expect(["line 1, answer %d: the answer was cut after 512" % i in x for i, x
            in enumerate(r.stderr.decode().splitlines())], [True, True], "each answer that was cut")
    expect(r.returncode, 0, "status")


def lines_are_counted_and_ended_as_text_is():
    r = call(
        "run", "-m", DEMO, "--json", "--batch", "-",
        stdin=b'\n \t\r\n{"ids":[5],"max_tokens":1}\r\n\n{"ids":[99999]}\n{"ids":[6],"max_tokens":1}')
    o = lines(r)
    expect(([x["index"] for x in o], ["error" in x for x in o]), ([0, 1, 2], [False, True, False]),
           "blank lines, CRLF, no end")
    check("standard input: line 5:" in o[1]["error"], o[1]["error"])
    with tempfile.NamedTemporaryFile("wb") as f:
        for text in (b"", b"\n", b" " * 65536, b"\n" * 70000):
            f.seek(0)
            f.truncate()
            f.write(text)
            f.flush()
            expect_error(call("run", "-m", DEMO, "--batch", f.name), 1, "no request")
            expect_error(call("run", "-m", DEMO, "--batch", "-", stdin=text), 1, "no request")
        f.seek(0)
        f.truncate()
        f.write(_jsonl({"prompt": "x " * 60000},
                       *[{"ids": [5 + i], "max_tokens": 1} for i in range(200)]))
        f.flush()
        o = lines(call("run", "-m", DEMO, "--json", "--quiet", "--batch", f.name))
    expect([x["index"] for x in o], list(range(201)), "a line longer than a buffer and 200 others")
    expect([x.get("prompt_ids") for x in o[1:]], [[5 + i] for i in range(200)], "their prompts")
    expect_error(call("run", "-m", DEMO, "--batch", "/no/such"), 1, "/no/such")
    expect_error(call("run", "-m", DEMO, "--batch", DEMO), 1, DEMO, "folder")
    expect_error(call("run", "-m", DEMO, "--batch", "/dev/zero"), 1, "/dev/zero", "line 1",
                 "256 MiB")


def a_finished_line_is_written_at_once():
    args = [GALLOP, "run", "-m", DEMO, "--greedy", "--batch", "-"]
    p = subprocess.Popen([*args, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for i in range(3):  # The program answers before the next request is sent.
        p.stdin.write(_jsonl({"ids": [5 + i], "max_tokens": 2}))
        p.stdin.flush()
        expect(json.loads(p.stdout.readline())["prompt_ids"], [5 + i],
               f"the answer to line {i + 1} of a pipe")
    p.stdin.close()
    expect((p.stdout.read(), p.wait(timeout=600)), (b"", 0), "the end of a pipe")
    p.stdout.close()
    text = subprocess.run(args, input=_jsonl(LONG, SHORT, {"ids": [99999]}, SHORT),
                          capture_output=True, timeout=600).stdout.decode()
    expect([x for x in text.splitlines() if x.startswith("--- ")], ["--- 1", "--- 3", "--- 0"],
           "short answers come before a long one")
    o = lines(_batch(LONG, SHORT, {"ids": [99999]}, SHORT))
    expect([x["index"] for x in o], [0, 1, 2, 3], "with --json in the order of input")


def a_signal_keeps_what_is_finished_and_cancels_the_rest():
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for more in ([], ["--json"]):
            p = subprocess.Popen([GALLOP, "run", "-m", patient_model(), "--batch", "-", *more],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            p.stdin.write(_jsonl(SHORT))
            p.stdin.flush()
            first = p.stdout.readline()
            p.stdin.write(_jsonl(LONG, HELD, SHORT, *([LONG] * 40)))
            p.stdin.flush()
            time.sleep(0.05)
            p.send_signal(number)
            rest, said = p.communicate(timeout=600)
            expect((p.returncode, said), (status, b""),
                   f"status and words after signal {number}, {more}")
            text = (first + rest).decode()
            check(text.endswith("\n"), f"the last line ends: {text[-60:]!r}")
            if more:
                o = [json.loads(x) for x in text.splitlines()]
                check(all(len(x["output_ids"]) in (2, 300) for x in o) and o[0]["index"] == 0,
                      f"only whole answers: {o}")
                check(len(o) < 44, f"{len(o)} answers: nothing was cancelled")
    p = subprocess.Popen([GALLOP, "run", "-m", patient_model(), "-n", "100000", "--ignore-eos",
                          "Once"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    p.stdout.read(1)
    p.send_signal(signal.SIGINT)
    rest, said = p.communicate(timeout=600)
    expect((p.returncode, rest[-1:], said), (130, b"\n", b""),
           "status, last byte and words of an answer that is stopped")
    p = subprocess.Popen([GALLOP, "run", "-m", DEMO, "--batch", "-"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    p.stdin.write(_jsonl(SHORT))
    p.stdin.flush()
    p.stdout.readline()
    p.send_signal(signal.SIGTERM)  # while it waits for the next line
    expect(p.wait(timeout=600), 143, "status of a batch that waits for its pipe")
    p.stdin.close()
    p.stdout.close()


def a_second_signal_ends_even_what_waits_for_its_reader():
    p = subprocess.Popen([GALLOP, "run", "-m", DEMO, "--json", "--batch", "-"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(_jsonl(*([{"ids": [5], "max_tokens": 1, "logprobs": 1024}] * 20)))
    p.stdin.close()
    other = os.open(f"/proc/self/fd/{p.stdout.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    end = time.monotonic() + 300
    while select.select([], [other], [], 0)[1] and time.monotonic() < end:
        time.sleep(.01)  # until the pipe is full
    os.close(other)
    time.sleep(.1)
    p.send_signal(signal.SIGINT)
    time.sleep(0.05)
    check(p.poll() is None, "the first signal ends it, although a result is only half written")
    p.send_signal(signal.SIGINT)
    try:
        expect(p.wait(timeout=600), -signal.SIGINT, "status after two signals")
    except subprocess.TimeoutExpired:
        check(False, "a second signal is not obeyed")
        p.kill()
        p.wait()
    p.stdout.close()


def a_reader_that_leaves_stops_a_batch():
    p = subprocess.Popen([GALLOP, "run", "-m", DEMO, "--json", "--batch", "-"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(_jsonl(SHORT, *([LONG] * 300)))  # a minute of computing
    p.stdin.close()
    p.stdout.readline()
    p.stdout.close()
    status, took = rest_cpu(p)
    expect((status, p.stderr.read()), (1, b""), "status and words")
    check(took < 6, f"it computes for {took:.1f} s more")
    p.stderr.close()


def output_goes_into_a_file_that_is_whole_or_not_there():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out")
        text = call("run", "-m", DEMO, "-n", 4, "Once").stdout
        r = call("run", "-m", DEMO, "-n", 4, "-o", path, "Once")
        with open(path, "rb") as f:
            expect((r.returncode, r.stdout, f.read()), (0, b"", text), "an answer in a file")
        expect_error(call("run", "-m", DEMO, "-n", 4, "--output", path, "Once"), 1, path, "--force")
        r = call("run", "-m", DEMO, "--greedy", "--json", "--batch", "-", "-o", path, "--force",
                 stdin=_jsonl(SHORT, {"ids": [99999]}, SHORT))
        with open(path) as f:
            expect((r.returncode, [json.loads(x)["index"] for x in f]), (1, [0, 1, 2]),
                   "a batch in a file")
        for args in (["-o", os.path.join(d, "none"), "--file", "/no/such"], ["-o", os.path.join(
                d, "none"), "-m", "/nowhere", "x"], ["-o", os.path.join(d, "no/dir"), "x"],
                     ["-o", d, "x"], ["-o", "/dev/full", "-n", 2, "x"]):
            r = call("run", *args)
            expect((r.returncode, r.stdout, r.stderr.count(b"\n"), os.listdir(d)),
                   (1, b"", 1, ["out"]), f"{args}: {r.stderr!r}")
        with open(path, "rb") as f:
            before = f.read()
        expect_error(call("run", "-m", DEMO, "-o", path, "--force", "--ids", "99999"), 1,
                     "outside the vocabulary")
        with open(path, "rb") as f:
            expect(f.read(), before, "the file of a prompt that is refused")
        for number, batch in ((signal.SIGTERM, True), (signal.SIGINT, False)):
            new = os.path.join(d, f"new{number}")
            args = ["--json", "--batch", "-"] if batch else ["-n", "100000", "--ignore-eos",
                                                             "--file", "-"]
            p = subprocess.Popen([GALLOP, "run", "-m", patient_model(), "-o", new, *args],
                                 stdin=subprocess.PIPE)
            p.stdin.write(_jsonl(SHORT) if batch else b"Once")
            p.stdin.flush() if batch else p.stdin.close()
            for _ in range(30000):
                parts = [x for x in os.listdir(d) if x.endswith(".part")]
                if parts and (os.path.getsize(os.path.join(d, parts[0])) if batch else True):
                    break
                time.sleep(0.01)
            p.send_signal(number)
            status = p.wait(timeout=600)
            p.stdin.close()
            check(status in (128 + number, -number), f"status {status} after signal {number}")
            expect(sorted(os.listdir(d)), sorted(["out", "new15"]), f"files after signal {number}")
        with open(os.path.join(d, "new15")) as f:
            expect([json.loads(x)["index"] for x in f], [0], "what was finished before the signal")


def a_frequency_penalty_of_the_command_line_counts():
    ids = [json.loads(call("run", "-m", DEMO, "-n", 60, "--greedy", "--ignore-eos",
                           "--json", *more, "Once upon a time").stdout)["output_ids"]
           for more in ([], ["--frequency-penalty", "0"], ["--frequency-penalty", "2"])]
    check(ids[0] == ids[1] and ids[0] != ids[2],
          f"answers without a penalty, with 0 and with 2: {ids}")


run_all(list(globals().items()))
