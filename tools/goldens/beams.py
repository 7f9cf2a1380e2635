"""Beam search of Hugging Face on committed checkpoints: golden/beam.json, a list of cases.

`python beams.py --out ../../test/golden` searches with parameters that are drawn at random: 1 to 5
beams, length penalties, all values of early_stopping, repetition penalties, min_new_tokens, and end
tokens that do occur besides those of the model. A case is kept if a float64 run gives the same sequences and no two scores are closer
than GAP. A case has `prompt`, the arguments of generate(), and its results, best first: `sequences`
(new tokens, cut behind the end token), `scores` (null with one beam, where generate() is greedy).
"""

import argparse
import json
import os
import random

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM

MODELS, CASES, GAP = ["gpt2", "gemma3"], 72, 2e-4


def draw(r, vocab):
    beams, most = r.choice([1, 2, 3, 4, 4, 5]), r.choice([1, 3, 8, 14, 20])
    return {
        "prompt": [r.randrange(3, vocab) for _ in range(r.choice([1, 2, 5, 9, 40]))],
        "num_beams": beams,
        "length_penalty": r.choice([1.0, 1.0, 0.6, 0.0, -1.0, 2.0]),
        "early_stopping": r.choice([False, True, "never"]),
        "repetition_penalty": r.choice([1.0, 1.0, 1.3, 0.8]),
        "min_new_tokens": min(r.choice([0, 0, 0, 3]), most),
        "max_new_tokens": most,
    }


def search(model, case, ends):
    x = torch.tensor([case["prompt"]])
    args = {k: v for k, v in case.items() if k != "prompt"}
    if case["num_beams"] == 1:
        args = {k: v for k, v in args.items() if k not in ("length_penalty", "early_stopping")}
    y = model.generate(
        x,
        attention_mask=torch.ones_like(x),
        do_sample=False,
        num_return_sequences=case["num_beams"],
        eos_token_id=ends or None,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
        **args
    )
    new = [s[len(case["prompt"]) :].tolist() for s in y.sequences]
    cut = [min([i + 1 for i, t in enumerate(s) if t in ends] or [len(s)]) for s in new]
    scores = None if case["num_beams"] == 1 else y.sequences_scores.tolist()
    return [s[:n] for s, n in zip(new, cut)], scores


def lies_apart(scores):
    return scores is None or all(a - b >= GAP for a, b in zip(scores, scores[1:]))


def cases(folder, seed):
    r = random.Random(seed)
    kw = {"attn_implementation": "eager"}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **kw).eval()
    exact = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, **kw).eval()
    own = model.generation_config.eos_token_id
    own = own if isinstance(own, list) else [own]
    for m in (model, exact):
        m.generation_config.eos_token_id = None
    kept = []
    while len(kept) < CASES:
        case = draw(r, model.config.get_text_config().vocab_size)
        found = sorted({t for s in search(model, case, [])[0] for t in s})
        ends = sorted({*own, *r.sample(found, min(r.choice([0, 1, 1, 2, 3]), len(found)))})
        sequences, scores = search(model, case, ends)
        if lies_apart(scores) and search(exact, case, ends)[0] == sequences:
            rounded = scores and [round(s, 6) for s in scores]
            kept.append(case | {"eos_token_id": ends, "sequences": sequences, "scores": rounded})
    return kept


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(1)
    for name in MODELS:
        kept = cases(os.path.join(a.out, name), a.seed)
        with open(os.path.join(a.out, name, "golden", "beam.json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c) for c in kept) + "\n]\n")


if __name__ == "__main__":
    main()
