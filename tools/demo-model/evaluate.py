"""Measures a demo model through Hugging Face transformers in float32: held-out perplexity, right answers,
sample conversations.

`python evaluate.py demo` prints JSON. Perplexity is over what the model itself writes (assistant turns and
plain text) in documents of the held-out split, and over all their tokens. Sums on "unseen" pairs use pairs of
two-digit numbers that no training document adds or subtracts. An answer counts only if it is the expected
text, character for character.
"""

import argparse
import json
import math
import os
import random

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import corpus
import stories
import sums
import talk

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")
SAMPLES = [
    ["Hello!", "What is your name?", "What is 27 + 15?", "And minus 10?", "Thank you!"],
    ["Tell me a story about a shy fox named Ruby.", "Who is the story about?", "Where did Ruby live?"],
    [
        "What is the capital of Norway?",
        "Which month comes after March?",
        "Anna has 12 shells and finds 9 more. How many shells does Anna have now?",
        "What is the opposite of early?",
        "How does a black hole work?",
    ],
]


class Model:
    def __init__(self, folder):
        self.tok = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def answers(self, chats, n=40, batch=64):
        """Greedy answers to conversations (lists of messages), special tokens removed."""
        out = []
        for i in range(0, len(chats), batch):
            texts = [
                self.tok.apply_chat_template(c, tokenize=False, add_generation_prompt=True)
                for c in chats[i : i + batch]
            ]
            x = self.tok(
                texts,
                return_tensors="pt",
                padding=True,
                add_special_tokens=False,
                return_token_type_ids=False,
            )
            with torch.no_grad():
                y = self.net.generate(**x, max_new_tokens=n, do_sample=False)
            out += [
                self.tok.decode(t[x["input_ids"].shape[1] :], skip_special_tokens=True).strip() for t in y
            ]
        return out

    def score(self, document):
        """(nll of its own tokens, their number, nll of all tokens, their number)."""
        if "text" in document:
            ids = self.tok(document["text"])["input_ids"] + [self.tok.eos_token_id]
            own = [True] * len(ids)
        else:
            ids, own = [self.tok.bos_token_id], [False]
            for m in document["messages"]:
                body = self.tok(m["content"], add_special_tokens=False)["input_ids"] + [self.tok.eos_token_id]
                ids += [self.tok.convert_tokens_to_ids(f"<|{m['role']}|>")] + body
                own += [False] + [m["role"] == "assistant"] * len(body)
        ids, own = ids[:1024], own[:1024]
        with torch.no_grad():
            lp = self.net(torch.tensor([ids])).logits[0].log_softmax(-1)
        nll = -lp[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
        mine = torch.tensor(own[1:])
        return nll[mine].sum().item(), int(mine.sum()), nll.sum().item(), len(ids) - 1


def ask(questions):
    return [[{"role": "user", "content": q}] for q in questions]


def share(model, pairs, wrong, label):
    got = model.answers(ask([q for q, _ in pairs]))
    for (q, want), g in zip(pairs, got):
        if g != want:
            wrong.append([label, q, want, g])
    return round(sum(g == w for (_, w), g in zip(pairs, got)) / len(pairs), 4)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("name")
    p.add_argument("--documents", type=int, default=400)
    p.add_argument("--questions", type=int, default=300)
    p.add_argument("--wrong", type=int, default=0, help="show this many wrong answers")
    args = p.parse_args()
    torch.set_num_threads(1)
    m = Model(os.path.join(MODELS, args.name))
    r = random.Random("gallop evaluation")
    docs = [corpus.document("held", i) for i in range(args.documents)]
    a, an, b, bn = map(sum, zip(*(m.score(d) for d in docs)))
    wrong, n = [], args.questions
    unseen = [sums.draw(r, want_held=True) for _ in range(n)]
    seen = [sums.draw(r) for _ in range(n)]
    problems = [sums.problem(r)[:2] for _ in range(n)]
    others = [f(r)[:2] for f in (sums.compare, sums.count, sums.parity, sums.half) for _ in range(n // 4)]
    facts = [talk.fact(r)[:2] for _ in range(n)]
    about = []
    while len(about) < n:
        s = stories.story(r)
        about += [(s, q, w) for q, w in s.qa]
    got = m.answers(
        [
            [
                {"role": "user", "content": stories.request(r, s)},
                {"role": "assistant", "content": s.text},
                {"role": "user", "content": q},
            ]
            for s, q, _ in about[:n]
        ]
    )
    wrong += [["story", q, w, g] for (_, q, w), g in zip(about, got) if g != w]
    print(
        json.dumps(
            {
                "parameters": sum(q.numel() for q in m.net.parameters()),
                "perplexity_own": round(math.exp(a / an), 3),
                "own_tokens": an,
                "perplexity_all": round(math.exp(b / bn), 3),
                "all_tokens": bn,
                "sums_unseen": share(
                    m, [(f"What is {x} {o} {y}?", sums.say(x, o, y)) for x, o, y in unseen], wrong, "unseen"
                ),
                "sums": share(
                    m, [(sums.ask(r, x, o, y), sums.say(x, o, y)) for x, o, y in seen], wrong, "sum"
                ),
                "word_problems": share(m, problems, wrong, "problem"),
                "comparing_counting": share(m, others, wrong, "other"),
                "facts": share(m, facts, wrong, "fact"),
                "story_questions": round(sum(g == w for (_, _, w), g in zip(about, got)) / n, 4),
            },
            indent=1,
        )
    )
    for w in wrong[: args.wrong]:
        print(json.dumps(w))
    for s in SAMPLES:
        chat = []
        for q in s:
            chat.append({"role": "user", "content": q})
            chat.append({"role": "assistant", "content": m.answers([chat], n=250)[0]})
            print(f"\n> {q}\n{chat[-1]['content']}")
        print("\n----")


if __name__ == "__main__":
    main()
