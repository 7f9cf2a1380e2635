#!/usr/bin/env python3
"""options.py - other names of options and values, suggestions for mistyped ones, the sources of
a prompt, and seeds."""
import http.client
import json
import os
import re
import subprocess
import tempfile

from _cli import DEMO, GALLOP, call, check, expect, expect_error, lines, run_all

TINY = ["-m", DEMO, "-n", 1]


def _one(*args, **more):
    r = call("run", "-m", DEMO, "--json", *args, **more)
    check(r.returncode == 0, f"run {args}: {r.stderr}")
    return json.loads(r.stdout)


def a_mistyped_option_verb_or_value_is_guessed():
    for args, guess in ((["rnu"], '"run"'), (["sevre"], '"serve"'), (["Chat"], '"chat"'),
                        (["tokenise"], '"tokenize"'),
                        (["run", "--temprature", 1], "--temperature"),
                        (["run", "--max-token", "x"], None), (["run", "--top_k", 1], "--top-k"),
                        (["run", "--max-tokenz", 5], "--max-tokens"),
                        (["serve", "--hots", "x"], "--host"),
                        (["serve", "--served-modelname", "x"], "--served-model-name"),
                        (["run", "--dtype", "bf61"], "bf16"),
                        (["run", "--dtype", "bfloat61"], "bfloat16"),
                        (["run", "--kv-cache-type", "page"], "paged"),
                        (["serve", "--scheduling-policy", "faire"], "fair"),
                        (["serve", "--log-format", "jsno"], "json"),
                        (["run", *TINY, "--isa", "avx51", "x"], "avx512")):
        if guess:
            expect_error(call(*args), 2, f"did you mean {guess}?")
    for args in (["frobnicate"], ["run", "--frobnicate"], ["run", "--dtype", "q"]):
        r = call(*args)
        expect((r.returncode, b"did you mean" in r.stderr), (2, False),
               f"status and guess for {args}")


def a_beginning_of_an_option_that_is_unique_is_the_option():
    expect(_one("--max-tok", 2, "x")["timing"]["output_tokens"], 2, "tokens with --max-tok")
    expect_error(call("run", "--max-", 2, "x"), 2, "several options")


def types_have_the_names_of_vllm_too():
    for names in (("fp32", "float32", "float", "Float32"), ("bf16", "bfloat16", "auto")):
        found = [_one("--dtype", x, "-n", 8, "--logprobs", 0, "Once upon a time")["logprobs"]
                 for x in names]
        check(all(x == found[0] for x in found), f"--dtype {names} compute the same")
    a, b = (_one("--dtype", x, "-n", 4, "--logprobs", 0, "Once upon a time")["logprobs"]
            for x in ("fp32", "auto"))
    check(a != b, "auto is not fp32")
    env = _one("-n", 4, "--logprobs", 0, "Once upon a time",
               env={"GALLOP_DTYPE": "float32"})["logprobs"]
    expect(env, a, "GALLOP_DTYPE=float32")
    for name in ("float16", "half", "fp16"):
        expect_error(call("run", *TINY, "--dtype", name, "x"), 2, "--dtype", name,
                     "nothing is computed in float16", "bf16", "fp32")
        expect_error(call("serve", "-m", DEMO, "--dtype", name), 2,
                     "nothing is computed in float16")
    for names in (("fp32", "float32"), ("bf16", "bfloat16")):
        shown = [json.loads(call("inspect", "-m", DEMO, "--json", "--dtype", "fp32",
                                 "--kv-cache-dtype", x).stdout)["kv"]["dtype"] for x in names]
        expect(shown, [names[0]] * 2, f"rows of --kv-cache-dtype {names}")


def _inspected(*more, env={}):
    """Returns the output of `inspect` for the demo model, without the time that reading took."""
    r = call("inspect", "-m", DEMO, "--json", "--quiet", *more, env=env)
    return {k: v for k,
            v in json.loads(r.stdout).items() if k != "load_s"} if r.returncode == 0 else r.stderr


def a_variable_of_the_environment_is_its_option():
    """For each: a value, another one, and options without which it would change nothing."""
    plain = _inspected()
    with tempfile.TemporaryDirectory() as d:
        store = ["--kv-store", os.path.join(d, "store")]
        for option, value, other, more in (
                ("dtype", "fp32", "bf16", []), ("quant", "int8", "none", []),
                ("kv-cache-type", "dynamic", "paged", []), ("kv-cache-memory", "0.01", "0.02", []),
                ("kv-cache-layout", "head_major", "block_major", []), ("kv-store", os.path.join(
                    d, "a"), os.path.join(d, "b"), []), ("kv-store-size", "2", "3", store),
                ("kv-sparse", "sink=16,window=64", "sink=16,window=128", []),
                ("threads", "3" if plain["threads"] != 3 else "2", "1", []),
                *([("isa", "ref", "nonsense", [])] if plain["isa"] != "ref" else []),
                ("scales", os.path.join(d, "none"), os.path.join(d, "nor"),
                 ["--quant", "int8-static"])):
            variable, option = "GALLOP_" + option.upper().replace("-", "_"), "--" + option
            wanted = _inspected(*more, option, value)
            expect(_inspected(*more, env={variable: value}), wanted, f"{variable}={value}")
            check(wanted != _inspected(*more), f"{option} {value} changes something")
            expect(_inspected(*more, option, value, env={variable: other}), wanted,
                   f"{option} goes before {variable}={other}")
        env = {"GALLOP_HOST": "127.0.0.2", "GALLOP_PORT": "0", "GALLOP_LOG_FORMAT": "json",
               "GALLOP_API_KEY": "mine", "GALLOP_MODEL": DEMO}
        with subprocess.Popen([GALLOP, "serve"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env={**os.environ, **env}) as p:
            while "is served at" not in (line := json.loads(p.stderr.readline())["message"]):
                pass
            host, port = re.search(r"http://(.*):(\d+)", line).groups()
            expect((host, port != "8000"), ("127.0.0.2", True), "where it is served")
            for key, status in (("mine", 200), ("other", 401)):
                c = http.client.HTTPConnection(host, int(port))
                c.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
                expect(c.getresponse().status, status, f"status with the key {key}")
                c.close()
            p.terminate()
            p.stderr.read()


def other_names_of_options_mean_the_same():
    want = _one("-n", 3, "Once upon a time")["output_ids"]
    for more in (
            ["--max-new-tokens", 3, "Once upon a time"], ["--max-tokens", 3, "Once upon a time"],
            ["--max-tokens=3", "-p", "Once upon a time"], ["-n3", "--prompt", "Once upon a time"]):
        expect(_one(*more)["output_ids"], want, f"answer with {more}")
    for more in (["-p", "a", "b"], ["-p", "a", "--ids", "1"], ["-p", "a", "--file", "x"],
                 ["-p", "a", "--batch", "x"]):
        expect(call("run", *TINY, *more).returncode, 2, f"status with {more}")


def a_chat_template_has_one_name_in_all_verbs():
    pages = {verb: call(verb, "--help", "all").stdout.decode()
             for verb in ("run", "chat", "render", "serve")}
    for verb, page in pages.items():
        check("--chat-template F.jinja" in page, f"{verb} --help all has --chat-template")


def what_is_piped_stands_in_front_of_the_prompt():
    want = _one("-n", 3, "Once upon a time")
    for piped, more in ((b"Once upon", ["a time"]), (b"Once upon\n", ["-p", "a time"]),
                        (b"Once upon\r\n", ["a time"]), (b"", ["Once upon a time"]),
                        (b"\n", ["Once upon a time"]), (b"Once upon a time", [""]),
                        (b"Once upon a time\n", [])):
        o = _one("-n", 3, *more, stdin=piped)
        expect((o["prompt_ids"], o["output_ids"]), (want["prompt_ids"], want["output_ids"]),
               f"answer to {piped} and {more}")
    chat = _one("-n", 3, "--chat", "Once upon a time")["prompt_ids"]
    expect(_one("-n", 3, "--chat", "a time", stdin=b"Once upon")["prompt_ids"], chat,
           "the template wraps what was joined")
    two = _one("-n", 1, "b", stdin=b"a\n\nc\n")["prompt_ids"]
    expect(call("tokenize", "-m", DEMO, "--decode", "--ids", ",".join(map(str, two)),
                "--skip-special").stdout.decode().strip("\n"), "a\n\nc b", "line ends inside stay")
    expect_error(call("run", *TINY, "x", stdin=b"caf\xe9"), 1, "UTF-8")
    ids = _one("-n", 1, "--ids", "1,435", stdin=b"not read")["prompt_ids"]
    expect(ids, [1, 435], "--ids reads no standard input")


def a_pipe_that_nobody_closes_is_said():
    with subprocess.Popen([GALLOP, "run", "-m", DEMO, "-n", "1", "x"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        said = p.stderr.readline()
        check(b"waiting for the end of standard input" in said,
              f"what is said while nothing comes: {said}")
        p.stdin.close()
        expect(p.wait(100), 0, "status when the pipe is closed at last")


def a_seed_is_random_when_tokens_are_drawn_and_none_was_given():
    drawn = ["-n", 16, "--temperature", 1.5, "Once upon a time"]
    first, second = _one(*drawn), _one(*drawn)
    check(first["seed"] != second["seed"] and first["output_ids"] != second["output_ids"],
          f"two draws: {first}, {second}")
    again = _one(*drawn, "--seed", first["seed"])
    expect((again["seed"], again["output_ids"]), (first["seed"], first["output_ids"]),
           "the seed that --json says gives the answer again")
    r = call("run", "-m", DEMO, *drawn)
    said = re.fullmatch(r"gallop: the seed is (\d+); --seed \1 gives the same answer again\n",
                        r.stderr.decode())
    check(said, f"standard error of a draw: {r.stderr}")
    expect(call("run", "-m", DEMO, *drawn, "--seed", said[1]).stdout, r.stdout,
           "the seed that standard error says gives the answer again")
    for more in (["--seed", 5], ["--quiet"]):
        expect(call("run", "-m", DEMO, *drawn, *more).stderr, b"", f"standard error with {more}")
    for more in (["--greedy"], ["--temperature", 0]):
        r = call("run", "-m", DEMO, "--json", *drawn, *more)
        expect(("seed" in json.loads(r.stdout), b"seed" in r.stderr), (False, False),
               f"a seed with {more}")
    expect(_one(*drawn, "--seed", 2**64 - 1)["seed"], 2**64 - 1,
           "a seed that no signed integer holds")


def lines_of_a_batch_draw_with_seeds_of_their_own():
    line = {"prompt": "Once upon a time", "temperature": 1.5, "max_tokens": 16}
    batch = "\n".join(json.dumps(x) for x in [line, line, {**line, "seed": 7},
                                              {**line, "temperature": 0}]).encode()
    o = lines(call("run", "-m", DEMO, "--json", "--batch", "-", stdin=batch))
    check(o[0]["seed"] != o[1]["seed"] and o[0]["output_ids"] != o[1]["output_ids"],
          f"two equal lines: {o[:2]}")
    expect((o[2]["seed"], "seed" in o[3]), (7, False),
           "a seed that was given, and none where nothing is drawn")
    for x in o[:3]:
        expect(_one("-n", 16, "--temperature", 1.5, "--seed", x["seed"],
                    "Once upon a time")["output_ids"], x["output_ids"], f"seed {x['seed']} alone")
    r = call("run", "-m", DEMO, "--batch", "-", stdin=batch)
    expect(len(re.findall(rb"standard input: line [12]: the seed is \d+\n", r.stderr)), 2,
           f"seeds that are said: {r.stderr}")
    o = lines(call("run", "-m", DEMO, "--json", "--seed", 3, "--batch", "-", stdin=batch))
    expect([x.get("seed") for x in o], [3, 4, 7, None], "seeds with --seed 3")
    for seed in (2**64 - 1, 2**63, -5, -2**63):
        o = lines(call("run", "-m", DEMO, "--json", "--batch", "-",
                       stdin=json.dumps({**line, "seed": seed}).encode()))
        again = lines(call("run", "-m", DEMO, "--json", "--batch", "-",
                           stdin=json.dumps({**line, "seed": o[0]["seed"]}).encode()))
        expect((o[0]["seed"], again[0]["output_ids"]), (seed % 2**64, o[0]["output_ids"]),
               "a seed of 64 bits that is given again")
        expect(_one("-n", 16, "--temperature", 1.5, "--seed", o[0]["seed"],
                    "Once upon a time")["output_ids"], o[0]["output_ids"], "as an option")
    for seed in (2**64, -2**63 - 1, 1.5, "7"):
        r = call("run", "-m", DEMO, "--json", "--batch", "-",
                 stdin=json.dumps({**line, "seed": seed}).encode())
        check(b"seed" in r.stdout + r.stderr and b"64 bits" in r.stdout + r.stderr, f"seed {seed}: {r}")


run_all(list(globals().items()))
