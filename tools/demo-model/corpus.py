"""Writes the demo model's text: one JSON document a line, {"text"} or {"messages"}, two thirds
conversations.

Document i of a split depends on (split, i) only, so that the corpus needs no files: training
draws the same documents from the same numbers, wherever it was interrupted. `python corpus.py
--split held --count 5` shows some.
"""

import argparse
import json
import random

import talk


def document(split, i):
    """Document number i of the split "train" or "held"."""
    r = random.Random(f"gallop {split} {i}")
    if r.random() < 0.30:
        return {"text": talk.plain(r)}
    return {"messages": [{"role": a, "content": b} for a, b in talk.conversation(r)]}


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--split", default="train", choices=("train", "held"))
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--count", type=int, default=10)
    args = p.parse_args()
    for i in range(args.first, args.first + args.count):
        print(json.dumps(document(args.split, i), ensure_ascii=False))
