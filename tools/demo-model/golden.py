"""Writes test/golden/demo: what Hugging Face computes from models/demo in float32, for tests
that pin greedy outputs.

Candidates whose 48 greedy steps are not all clear-cut (top logit at least 2e-3 ahead) are left
out. End tokens are ignored and generation goes on, as in the other goldens; `ends` says where
the first one came.
"""

import argparse
import json
import math
import os

import numpy as np
import torch

import corpus
from evaluate import MODELS, Model

STEPS, MARGIN, WANTED = 48, 2e-3, 10
TEXTS = [
    "Once upon a time",
    "There once was a clever mouse named",
    "12 + 7 = 19. 45 - 6 =",
    "The capital of France is",
    "One sunny day, Lily",
    "A",
]
CHATS = [
    ["Hello!"],
    ["What is 27 + 15?"],
    ["What is the capital of Norway?"],
    ["Tell me a story about a brave dragon."],
    ["What is 8 x 7?", "8 x 7 = 56.", "And minus 6?"],
    ["My name is Clara.", "Nice to meet you, Clara!", "What is my name?"],
    ["Which month comes after March?"],
    ["Tom has 5 apples. He gets 3 more. How many apples does Tom have now?"],
    ["What colour is a banana?"],
    ["Tell me a story about a lost key."],
    ["What is your name?"],
    ["Count from 3 to 9."],
]
SYSTEM = [
    ("Answer in one word.", "What is the opposite of hot?"),
    ("You are a helpful assistant.", "Write a short story about a queen."),
]


def candidates(m):
    for t in TEXTS:
        yield {"text": t, "ids": m.tok(t)["input_ids"]}
    chats = [[{"role": ("user", "assistant")[i % 2], "content": x} for i, x in enumerate(c)]
             for c in CHATS]
    chats += [[{"role": "system", "content": s}, {"role": "user", "content": u}] for s, u in SYSTEM]
    for c in chats:
        text = m.tok.apply_chat_template(c, tokenize=False, add_generation_prompt=True)
        yield {"messages": c, "text": text,
               "ids": m.tok(text, add_special_tokens=False)["input_ids"]}


def greedy(net, ids):
    ids, tokens, margins, first = list(ids), [], [], None
    for _ in range(STEPS):
        with torch.no_grad():
            z = net(torch.tensor([ids]), use_cache=False).logits[0, -1]
        first = z if first is None else first
        top = z.double().topk(2)
        tokens.append(int(top.indices[0]))
        margins.append(round(float(top.values[0] - top.values[1]), 5))
        ids.append(tokens[-1])
    return tokens, margins, first.float()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=os.path.join(MODELS, "..", "test", "golden", "demo"))
    args = p.parse_args()
    torch.set_num_threads(1)
    m = Model(os.path.join(MODELS, "demo"))
    os.makedirs(args.out, exist_ok=True)
    for f in os.listdir(args.out):
        os.remove(os.path.join(args.out, f))
    prompts, texts, results = [], [], []
    for c in candidates(m):
        tokens, margins, logits = greedy(m.net, c["ids"])
        if min(margins) < MARGIN:
            print(f"left out, margin {min(margins)}: {c['text']}")
            continue
        np.save(os.path.join(args.out, f"logits_{len(prompts)}.npy"), logits[None].numpy())
        ends = tokens.index(m.tok.eos_token_id) if m.tok.eos_token_id in tokens else None
        prompts.append(c["ids"])
        texts.append({**c, "output": m.tok.decode(tokens[:ends] if ends is not None else tokens)})
        results.append({"tokens": tokens, "margins": margins, "min_margin": min(margins),
                        "ends": ends})
    held = []
    i = 0
    while len(held) < WANTED:
        d = corpus.document("held", i)
        i += 1
        if "text" in d:
            nll, n, _, _ = m.score(d)
            held.append(
                {
                    "text": d["text"],
                    "ids": m.tok(d["text"])["input_ids"] + [m.tok.eos_token_id],
                    "nll": round(nll, 4),
                    "tokens": n,
                }
            )
    total = sum(h["nll"] for h in held) / sum(h["tokens"] for h in held)
    for name, data in (
        ("prompts.json", prompts),
        ("texts.json", texts),
        ("greedy.json", results),
        ("held.json", {"perplexity": round(math.exp(total), 4), "documents": held}),
    ):
        with open(os.path.join(args.out, name), "w") as f:
            f.write(json.dumps(data, ensure_ascii=False,
                               indent=1 if name != "prompts.json" else None) + "\n")
    print(f"{len(prompts)} prompts; held-out plain text: perplexity {math.exp(total):.3f}")


if __name__ == "__main__":
    main()
