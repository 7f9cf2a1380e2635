#!/usr/bin/env python3
"""guesses.py - tools/guess-simulate counts as by hand what guesses from known tokens are right."""
import json
import os
import subprocess
import sys

from _cli import ROOT, expect, run_all

TOOL = os.path.join(ROOT, "tools", "guess-simulate")


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


if __name__ == "__main__":
    run_all(list(globals().items()))
