#!/usr/bin/env python3
"""guesses.py - test/compare/guess-simulate counts as by hand what guesses from known tokens are right,
and the program counts what it does."""
import json
import os
import subprocess
import sys

from _cli import DEMO, ROOT, call, check, expect, run_all

TOOL = os.path.join(ROOT, "test", "compare", "guess-simulate")


def _simulate(prompt, output, *options, reason="stop"):
    """Returns steps, guesses, right guesses, and right guesses for each position."""
    line = json.dumps({"prompt_ids": prompt, "output_ids": output, "finish_reason": reason})
    r = subprocess.run([sys.executable, TOOL, *options, "-"], input=line.encode(),
                       stdout=subprocess.PIPE, check=True)
    found = json.loads(r.stdout)
    expect(found["tokens"], max(len(output) - 1, 0), "tokens")
    return [found[k] for k in ("steps", "drafted", "accepted", "accepted_per_pos")]


def guesses_follow_the_longest_and_then_the_most_recent_match():
    # 2 occurred before 3 and before 4; after 1 2, only 3 has followed.
    expect(_simulate([1, 2, 3, 9, 2, 4, 8, 1], [2, 3, 9], "-k", "2"), [1, 2, 2, [1, 1]], "1 2")
    expect(_simulate([1, 2, 3, 9, 2, 4, 8, 1], [2, 3, 9], "-k", "2", "--max", "1"),
           [2, 4, 1, [1, 0]], "2")


def a_match_of_one_token_allows_two_guesses():
    prompt = [1, 2, 3, 4, 5]
    expect(_simulate(prompt, [1, 2, 3, 4, 5], "-k", "4"), [2, 6, 3, [2, 1, 0, 0]], "factor 2")
    expect(_simulate(prompt, [1, 2, 3, 4, 5], "-k", "4", "--factor", "4"),
           [1, 4, 4, [1, 1, 1, 1]], "factor 4")
    expect(_simulate(prompt, [1, 2, 3, 4, 5], "-k", "4", "--min", "2"), [2, 4, 3, [1, 1, 1, 0]],
           "min 2")


def guesses_end_with_the_known_tokens_or_repeat_them():
    expect(_simulate([7], [7, 7, 7, 7, 7], "-k", "4"), [2, 2, 2, [2, 0, 0, 0]], "known")
    expect(_simulate([7], [7, 7, 7, 7, 7, 7], "-k", "4", "--repeats"), [2, 6, 4, [2, 2, 0, 0]],
           "repeated")


def no_guess_exceeds_the_limit_of_the_output():
    expect(_simulate([1, 2, 3, 4], [1, 2], "-k", "4", reason="length"), [1, 0, 0, [0] * 4],
           "one token is lacking")
    expect(_simulate([1, 2, 3, 4], [1], "-k", "4"), [0, 0, 0, [0] * 4], "none is lacking")
    expect(_simulate([], [], "-k", "0"), [0, 0, 0, []], "nothing")


def _run(*options, prompt="one two three one two three one"):
    """Returns the result of an answer of 60 tokens as JSON."""
    r = call("run", prompt, "-n", "60", "--ignore-eos", "--json", *options)
    expect(r.returncode, 0, f"{options}: {r.stderr}")
    return json.loads(r.stdout)


def guesses_change_the_steps_of_an_answer_and_nothing_else():
    config = {"method": "ngram", "num_speculative_tokens": 4, "adaptive": False,
              "prompt_lookup_max": 128}
    for more in ((), ("--temperature", "1", "--seed", "3"), ("--repetition-penalty", "1.3")):
        plain, guessed = _run(*more), _run("--speculative-config", json.dumps(config), *more)
        expect("speculation" in plain, False, "counts without guesses")
        counts = guessed.pop("speculation")
        expect({**guessed, "timing": 0}, {**plain, "timing": 0}, "the answer")
        steps, *found = _simulate(plain["prompt_ids"], plain["output_ids"], "-k", "4",
                                  reason="length")
        expect([counts["steps"], counts["drafted"], counts["accepted"],
                counts["accepted_per_pos"]], [steps + 1, *found], f"counts with {more}")


def a_line_of_a_batch_can_ask_for_no_guesses():
    lines = [{"prompt": "one two one two one", "max_tokens": 30, "speculative": x, "ignore_eos": True}
             for x in (True, False)]
    text = "\n".join(map(json.dumps, lines)).encode()
    r = call("run", "--batch", "-", "--json", "--speculative-config",
             '{"method":"suffix","adaptive":false}', stdin=text)
    got = [json.loads(x) for x in r.stdout.splitlines()]
    expect([x["output_ids"] for x in got], [got[0]["output_ids"]] * 2, "answers")
    expect([x.get("speculation", {}).get("drafted", 0) > 0 for x in got], [True, False], "guesses")
    r = call("run", "--batch", "-", stdin=b'{"prompt":"x","speculative":1}')
    check(b"speculative: found 1, expected true or false" in r.stderr, f"{r.stderr}")


def counts_are_in_the_lines_of_chats_and_loads():
    draft = {"model": os.path.join(ROOT, "models", "demo-draft"), "adaptive": False}
    config = ("--speculative-config", json.dumps(draft))
    r = call("run", "--chat", "--json", "-n", "40", "--ignore-eos", *config, "Tell me a story.")
    one = json.loads(r.stdout)
    counts = one["speculation"]
    check(counts["drafted"] >= counts["accepted"] > 0, f"{counts}")
    expect(sum(counts["accepted_per_pos"]), counts["accepted"], "right guesses by position")
    expect(counts["steps"] + counts["accepted"], len(one["output_ids"]), "tokens")
    at = ("bench", "--serve", "-m", DEMO, "--num-prompts", "3", "--input-len", "24", "--output-len",
          "60", "--quiet")
    r = call(*at, "--json", *config)
    load = json.loads(r.stdout.splitlines()[0])
    counts = load["speculation"]
    check(counts["drafted"] >= counts["accepted"] > 0, f"{counts}")
    expect(sum(counts["accepted_per_pos"]), counts["accepted"], "right guesses by position")
    expect(counts["steps"] + counts["accepted"], 180, "tokens of a load")
    check(b"speculative decoding: " in call(*at, *config).stdout, "counts as text")
    expect("speculation" in json.loads(call(*at, "--json").stdout.splitlines()[0]), False,
           "counts without guesses")


def a_configuration_that_is_not_built_is_refused_by_name():
    r = call("run", "x", "--speculative-config", '{"method":"eagle3"}')
    expect(r.returncode, 1, "status")
    check(b'--speculative-config: method "eagle3" is not supported' in r.stderr, f"{r.stderr}")


if __name__ == "__main__":
    run_all(list(globals().items()))
