"""Writes test/golden/demo/draft.json: how many guesses of a draft model are right in every step of
the greedy answers of models/demo, computed by Hugging Face in float32.

For each draft and each prompt of prompts.json, `runs` has the number of right guesses of every
step that guesses, beginning behind the first token. A draft that has a pard_token guesses in one
pass over the known tokens and mask tokens, others guess one token after another. Answers in which
a compared guess is not clear-cut are left out.
"""

import argparse
import json
import os

import torch
from transformers import AutoModelForCausalLM

from evaluate import MODELS

MARGIN = 1e-3
DRAFTS = [("demo-draft", 4), ("demo-draft", 12), ("demo-pard", 4), ("demo-pard", 12)]


class Draft:
    def __init__(self, folder):
        self.net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        with open(os.path.join(folder, "config.json")) as f:
            self.mask = json.load(f).get("pard_token")

    def best(self, ids, n):
        """The n last rows of a pass over ids: their likeliest tokens and the margins."""
        with torch.no_grad():
            z = self.net(torch.tensor([ids]), use_cache=False).logits[0, -n:]
        top = z.double().topk(2)
        return top.indices[:, 0].tolist(), (top.values[:, 0] - top.values[:, 1]).tolist()

    def guesses(self, ids, n):
        if self.mask is not None:
            yield from zip(*self.best(ids + [self.mask] * (n - 1), n))
            return
        for _ in range(n):
            token, margin = self.best(ids, 1)
            ids = ids + token
            yield token[0], margin[0]


def runs(draft, prompt, answer, most):
    """The runs of right guesses, and the smallest margin of a guess that is compared."""
    known, result, least = 1, [], 1e9
    while min(most, len(answer) - known - 1) > 0:
        run = 0
        for token, margin in draft.guesses(prompt + answer[:known],
                                           min(most, len(answer) - known - 1)):
            least = min(least, margin)
            if token != answer[known + run]:
                break
            run += 1
        result.append(run)
        known += run + 1
    return result, least


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--golden", default=os.path.join(MODELS, "..", "test", "golden", "demo"))
    args = p.parse_args()
    torch.set_num_threads(1)
    with open(os.path.join(args.golden, "prompts.json")) as f:
        prompts = json.load(f)
    with open(os.path.join(args.golden, "greedy.json")) as f:
        answers = [a["tokens"] for a in json.load(f)]
    out = []
    for name, most in DRAFTS:
        draft, rows = Draft(os.path.join(MODELS, name)), []
        for i, (prompt, answer) in enumerate(zip(prompts, answers)):
            r, least = runs(draft, prompt, answer, most)
            if least >= MARGIN:
                rows.append({"prompt": i, "runs": r})
        n = [x for r in rows for x in r["runs"]]
        print(f"{name}, {most} guesses: {len(rows)} answers, {1 + sum(n) / len(n):.2f} tokens a step")
        out.append({"draft": name, "guesses": most, "answers": rows})
    with open(os.path.join(args.golden, "draft.json"), "w") as f:
        f.write("[\n" + ",\n".join(
            "{" + f'"draft": "{d["draft"]}", "guesses": {d["guesses"]}, "answers": [\n'
            + ",\n".join(" " + json.dumps(a) for a in d["answers"]) + "]}" for d in out) + "\n]\n")


if __name__ == "__main__":
    main()
