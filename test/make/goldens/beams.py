"""Beam search of Hugging Face on committed checkpoints and models/demo: beam.json, a list of cases.

`python beams.py --out ../../golden` gives every combination of beams, length penalty and
early_stopping to at least four models and draws the rest at random: prompts up to beyond every
window, end tokens that occur besides those of the model, prompts that end with one, lengths,
repetition penalties, numbers of results; on models/demo stop strings that occur.

The results are those of forwards over all tokens, without a cache. A case is kept only if searches
with a cache, in float64 and with log-probabilities that differ by up to NOISE, find the same
sequences in the same order, scores in float64 are within a quarter of what tests tolerate, and
experts are chosen by at least goldens.GAP. Every second case, and every one with stop strings, is
that of TRIES whose results the most wrong rules change, first those that no case before noticed.

A case has `prompt`, the arguments of generate(), and its results, best first: `sequences` (new
tokens, with the end token) and `scores` (null with one beam, where generate() is greedy).
"""

import argparse
import itertools
import json
import math
import os
import random

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoTokenizer, LogitsProcessor, LogitsProcessorList

from goldens import GAP, Reference, load

MODELS = ["gpt2", "gemma3", "llama3-rope", "mistral", "mixtral", "qwen2-window", "qwen3-moe", "phi3",
          "gpt-oss", "llama4", "demo"]
BEAMS, PENALTIES, EARLY = [2, 3, 5, 8, 32], [-1.0, 0.0, 0.6, 1.0, 2.0], [False, True, "never"]
CASES, NOISE, RUNS, TRIES = 30, 1e-4, 2, 10


class Noise(LogitsProcessor):

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def __call__(self, ids, scores):
        return scores + NOISE * (2 * torch.rand(scores.shape, generator=self.g) - 1)


class Model:
    """A model whose own end tokens end nothing, and its prompts and tokenizer if it has them."""

    def __init__(self, folder, prompts=None):
        self.ref, self.exact = Reference(load(folder)), load(folder, torch.float64)
        own = self.exact.generation_config.eos_token_id
        self.own = own if isinstance(own, list) else [own]
        for m in (self.ref.model, self.exact):
            m.generation_config.eos_token_id = None
        self.vocab = self.exact.config.get_text_config().vocab_size
        self.prompts, self.tok = prompts, prompts and AutoTokenizer.from_pretrained(folder)

    def search(self, case, noise=None, model=None, heuristic=None, **change):
        """Returns the sequences and their scores. HEURISTIC changes what decides on early stops."""
        model, args = model or self.ref.model, {"tokenizer": self.tok, **case, **change}
        right = type(model)._check_early_stop_heuristic
        model._check_early_stop_heuristic = (
            right if heuristic is None else lambda **kw: right(**{**kw, **heuristic(kw)}))
        x = torch.tensor([args.pop("prompt")])
        if args["num_beams"] == 1:
            del args["length_penalty"], args["early_stopping"]
        if noise is not None:
            args["logits_processor"] = LogitsProcessorList([Noise(noise)])
        y = model.generate(
            x,
            attention_mask=torch.ones_like(x),
            do_sample=False,
            pad_token_id=0,
            output_scores=True,
            output_logits=True,
            return_dict_in_generate=True,
            **args
        )
        new = [s[x.shape[1] :].tolist() for s in y.sequences]
        if args["num_beams"] == 1:
            return new, None
        lengths = (y.beam_indices >= 0).sum(1).tolist()
        return [s[:n] for s, n in zip(new, lengths)], y.sequences_scores.tolist()

    def results(self, case):
        """Returns the results of the case, or None if they are not clear."""
        self.ref.gap = math.inf
        sequences, scores = self.search(case, use_cache=False)
        if self.ref.gap < GAP:
            return None
        same, exact = self.search(case, model=self.exact)
        if same != sequences:
            return None
        if scores and any(abs(a - b) > (1e-4 + 2e-6 * abs(a)) / 4 for a, b in zip(scores, exact)):
            return None
        if any(self.search(case, noise=i)[0] != sequences for i in range(RUNS)):
            return None
        return {"sequences": sequences, "scores": scores and [round(s, 6) for s in scores]}

    def draw(self, r, rule, decisive):
        """A case without what ends it. A DECISIVE one is long and shows all beams, up to 8."""
        most, lengths = r.choice([12, 24] if decisive else [1, 4, 10, 16, 24]), [1, 2, 9, 30, 60]
        return {
            "prompt": list(r.choice(self.prompts))
            if self.prompts else [r.randrange(3, self.vocab) for _ in range(r.choice(lengths))],
            "num_beams": rule[0],
            "num_return_sequences": min(rule[0], 8 if decisive else r.choice([1, 2, 4, 32])),
            "length_penalty": rule[1],
            "early_stopping": rule[2],
            "repetition_penalty": r.choice([1.0, 1.0, 1.3, 0.8]),
            "min_new_tokens": 0 if decisive else min(r.choice([0, 0, 0, 3, 6]), most),
            "max_new_tokens": most,
        }

    def draw_ends(self, r, rule, decisive):
        """A case with end tokens that occur."""
        case = self.draw(r, rule, decisive)
        found = sorted({t for s in self.search(case)[0] for t in s[: r.choice([3, 24])]})
        most = r.choice([1, 2, 3, 6] if decisive else [0, 1, 1, 2, 3, 6])
        ends = sorted({*self.own, *r.sample(found, min(most, len(found)))})
        if r.random() < 1 / 3:
            case["prompt"][-1] = r.choice(ends)
        return case | {"eos_token_id": ends}

    def draw_stops(self, r, rule, decisive):
        """A case with stop strings that occur; none of them begins in the prompt."""
        while True:
            case = self.draw(r, rule, decisive=True) | {"eos_token_id": self.own}
            text = self.tok.decode(r.choice(self.search(case)[0]), skip_special_tokens=True)
            stops = [text[i : i + r.choice([1, 2, 4, 8])]
                     for i in (r.randrange(len(text)) for _ in range(r.choice([1, 1, 2])) if text)]
            before = self.tok.decode(case["prompt"])
            if stops and not any(before.endswith(s[:i]) for s in stops for i in range(1, len(s))):
                return case | {"stop_strings": stops}


def wrong_rules(case):
    """Returns what to change in search() to get results by rules that are not those of the case, by
    names."""
    early, penalty = case["early_stopping"], case["length_penalty"]
    wrong = {f"{early} as {e}": {"early_stopping": e} for e in EARLY
             if e != early and (penalty > 0 or True in (e, early))}
    if early == "never" and penalty > 0:
        wrong["limit"] = {"heuristic": lambda kw: {"max_length": kw["max_length"] - 1}}
    elif early is not True and penalty != 0:
        wrong["length"] = {"heuristic": lambda kw: {"cur_len": kw["cur_len"] + 1}}
    if early == "never" and penalty < 0:
        wrong["sign"] = {"heuristic": lambda kw: {"cur_len": kw["max_length"]}}
    if "stop_strings" in case:
        wrong["stop strings"] = {"stop_strings": None}
    return wrong


def plain_case(model, draw, r, rule):
    while True:
        case = draw(r, rule, False)
        results = model.results(case)
        if results:
            return case | results


def decisive_case(model, draw, r, rule, noticed):
    """Returns a case that notices wrong rules, which it adds to NOTICED."""
    best, most, names = None, None, None
    for i in itertools.count():
        case = draw(r, rule, True)
        right, wrong = model.search(case)[0], wrong_rules(case)
        found = {name for name, change in wrong.items() if model.search(case, **change)[0] != right}
        n = ("stop strings" in found, len(found - noticed), len(found))
        results = model.results(case) if best is None or n > most else None
        if results:
            best, most, names = case | results, n, found
        if best and (i >= TRIES or len(names) == len(wrong)):
            noticed |= names
            return best


def cases(model, draw, r, rules):
    kept, noticed = [], set()
    for i, rule in enumerate(rules):
        if rule[0] > 1 and (i % 2 or draw == model.draw_stops):
            kept.append(decisive_case(model, draw, r, rule, noticed))
        else:
            kept.append(plain_case(model, draw, r, rule))
    print(f"wrong rules that are noticed: {', '.join(sorted(noticed))}", flush=True)
    return kept


def make(out, name, i, seed):
    rules = list(itertools.product(BEAMS, PENALTIES, EARLY))
    random.Random(seed).shuffle(rules)
    rules = [(1, 1.0, False), *(rules[(i * CASES + k) % len(rules)] for k in range(CASES))]
    folder, r = os.path.join(out, name), random.Random(f"{name} {seed}")
    if name == "demo":
        with open(os.path.join(folder, "prompts.json")) as f:
            m = Model(os.path.join(os.path.dirname(__file__), "../../../models/demo"), json.load(f))
        kept, path = cases(m, m.draw_stops, r, rules), folder
    else:
        m = Model(folder)
        kept, path = cases(m, m.draw_ends, r, rules), os.path.join(folder, "golden")
    with open(os.path.join(path, "beam.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in kept) + "\n]\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", help="comma-separated names")
    a = p.parse_args()
    torch.set_num_threads(1)
    for i, name in enumerate(MODELS):
        if not a.only or name in a.only.split(","):
            print(name, flush=True)
            make(a.out, name, i, a.seed)


if __name__ == "__main__":
    main()
