"""Measures a demo model through Hugging Face transformers in float32: held-out perplexity, right
answers, sample conversations.

`python evaluate.py demo` prints JSON. Perplexity is over what the model itself writes (assistant
turns and plain text) in documents of the held-out split, and over all their tokens. Sums on
"unseen" pairs use pairs of two-digit numbers that no training document adds or subtracts. An
answer counts only if it is the expected text, character for character.
"""

import argparse
import json
import math
import os
import random
import textwrap

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import corpus
import stories
import sums
import talk

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")
SAMPLES = [
    ["Hello!", "What is your name?", "What is 27 + 15?", "And minus 10?", "Thank you!"],
    ["Tell me a story about a shy fox named Ruby.", "Who is the story about?",
     "Where did Ruby live?"],
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
            out += [self.tok.decode(t[x["input_ids"].shape[1] :], skip_special_tokens=True).strip()
                    for t in y]
        return out

    def score(self, document):
        """(nll of its own tokens, their number, nll of all tokens, their number)."""
        if "text" in document:
            ids = self.tok(document["text"])["input_ids"] + [self.tok.eos_token_id]
            own = [True] * len(ids)
        else:
            ids, own = [self.tok.bos_token_id], [False]
            for m in document["messages"]:
                body = self.tok(m["content"],
                                add_special_tokens=False)["input_ids"] + [self.tok.eos_token_id]
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


def measure(m, documents, questions):
    """The numbers, and the wrong answers as (kind, question, expected, got)."""
    r, n, wrong = random.Random("gallop evaluation"), questions, []
    docs = [corpus.document("held", i) for i in range(documents)]
    a, an, b, bn = map(sum, zip(*(m.score(d) for d in docs)))
    unseen = [sums.draw(r, want_held=True) for _ in range(n)]
    seen = [sums.draw(r) for _ in range(n)]
    problems = [sums.problem(r)[:2] for _ in range(n)]
    others = [f(r)[:2] for f in (sums.compare, sums.count, sums.parity, sums.half)
              for _ in range(n // 4)]
    facts = [talk.fact(r)[:2] for _ in range(n)]
    about = []
    while len(about) < n:
        s = stories.story(r)
        turns = [("user", stories.request(r, s)), ("assistant", s.text)]
        about += [([{"role": x, "content": y} for x, y in turns + [("user", q)]], w) for q,
                  w in s.qa]
    got = m.answers([c for c, _ in about[:n]])
    wrong += [["story", c[-1]["content"], w, g] for (c, w), g in zip(about, got) if g != w]
    out = {
        "parameters": sum(q.numel() for q in m.net.parameters()),
        "perplexity_own": round(math.exp(a / an), 3),
        "own_tokens": an,
        "perplexity_all": round(math.exp(b / bn), 3),
        "all_tokens": bn,
    }
    for name, pairs in (
        ("sums_unseen", [(f"What is {x} {o} {y}?", sums.say(x, o, y)) for x, o, y in unseen]),
        ("sums", [(sums.ask(r, x, o, y), sums.say(x, o, y)) for x, o, y in seen]),
        ("word_problems", problems),
        ("comparing_counting", others),
        ("facts", facts),
    ):
        out[name] = share(m, pairs, wrong, name)
    out["story_questions"] = round(sum(g == w for (_, w), g in zip(about, got)) / n, 4)
    return out, wrong


def samples(m):
    """The sample conversations as Markdown quotations."""
    out = []
    for s in SAMPLES:
        chat = []
        for q in s:
            chat.append({"role": "user", "content": q})
            chat.append({"role": "assistant", "content": m.answers([chat], n=250)[0]})
        lines = [f"> **{c['role']}:** {c['content']}" for c in chat]
        out.append("\n>\n".join(textwrap.fill(x, 110, subsequent_indent="> ") for x in lines))
    return "\n\n---\n\n".join(out)


README = """# Gallop's {title}

A Llama of {parameters:,} parameters ({shape})
that the project trained itself, on text that its own generator writes: simple stories, small arithmetic, questions
and answers, short dialogues. It knows nothing else. An ordinary Hugging Face folder: bfloat16 weights, a byte-level BPE
tokenizer of 2048 entries, a chat template with the roles system, user and assistant. Made by `tools/demo-model`,
whose README has the recipe and the commands.

{purpose}

| measured on held-out text, float32, greedy | |
| --- | --- |
| perplexity of what the model says ({own_tokens:,} tokens) | {perplexity_own} |
| perplexity of everything, user turns included ({all_tokens:,} tokens) | {perplexity_all} |
| sums and differences of two-digit pairs never trained on | {sums_unseen:.1%} right |
| sums of all four kinds, asked in many ways | {sums:.1%} right |
| word problems | {word_problems:.1%} right |
| comparing, counting, halves, odd and even | {comparing_counting:.1%} right |
| facts of its small world | {facts:.1%} right |
| questions about a story just told | {story_questions:.1%} right |

An answer counts only if it is the expected text, character for character. The last row is the weak one: the model often
recalls the wrong place or adjective. It was trained on at most 512 tokens; longer conversations wander.

## Sample conversations

Greedy, as they came.

{samples}
"""
PURPOSE = {
    "demo": "Without `-m`, `gallop run` and `gallop chat` use this model.",
    "demo-draft": "It has the vocabulary of `models/demo` and is meant as its draft in speculative decoding.",
}


def write_readme(name, m, numbers):
    c = m.net.config
    shape = (
        f"{c.num_hidden_layers} layers, hidden size {c.hidden_size}, {c.num_attention_heads} heads, "
        f"{c.num_key_value_heads} for keys and values"
    )
    text = README.format(
        title="demo model" if name == "demo" else "draft of the demo model",
        shape=shape,
        purpose=PURPOSE[name],
        samples=samples(m),
        **numbers,
    )
    with open(os.path.join(MODELS, name, "README.md"), "w") as f:
        f.write(text)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("name", choices=sorted(PURPOSE))
    p.add_argument("--documents", type=int, default=400)
    p.add_argument("--questions", type=int, default=300)
    p.add_argument("--wrong", type=int, default=0, help="show this many wrong answers")
    p.add_argument("--folder", help="measure this folder instead of models/NAME")
    p.add_argument("--readme", action="store_true", help="write models/NAME/README.md")
    args = p.parse_args()
    torch.set_num_threads(1)
    m = Model(args.folder or os.path.join(MODELS, args.name))
    numbers, wrong = measure(m, args.documents, args.questions)
    print(json.dumps(numbers, indent=1))
    for w in wrong[: args.wrong]:
        print(json.dumps(w))
    if args.readme:
        write_readme(args.name, m, numbers)
    else:
        print(samples(m))


if __name__ == "__main__":
    main()
