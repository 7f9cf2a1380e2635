"""Trains models/demo-pard out of models/demo-draft: a draft that guesses several tokens in one pass
(PARD, https://arxiv.org/abs/2504.18583).

Behind the known tokens follow mask tokens, each of which predicts one more token. In training, a
row gets the mask tokens of several places (anchors) at its end: those of an anchor have the
positions behind it, and see the text up to it and the mask tokens in front of them. The mask token
is <|pad|>, which no text contains. `python pard.py --steps 1200`; restartable as train.py is.
"""

import argparse
import json
import os
import shutil

import torch
from safetensors.torch import load_file

import llama
import train
import vocab

NAME, SOURCE = "demo-pard", "demo-draft"
ANCHORS, MASKS = 32, 11
FIRST = 1000000  # number of the first document, beyond those that trained the draft
ROW = train.ROW


def spread(rows, n, r):
    """A batch of n rows with mask tokens: ids, mask, target, weight, positions."""
    ids, see, target, weight = rows.batch(n)
    see = see[:, 0]
    all_ids, all_see, all_target, all_weight, all_pos = [], [], [], [], []
    for b in range(n):
        spoken = (weight[b] == 1).nonzero()[:, 0]
        at = spoken[torch.randint(len(spoken), (ANCHORS,), generator=r)]
        pos = at[:, None] + torch.arange(1, MASKS + 1)  # [ANCHORS, MASKS]
        inside = pos < ROW
        place = pos.clamp(max=ROW - 1)
        inside &= see[b][place, at[:, None].expand_as(place)]  # the same document
        total = ROW + ANCHORS * MASKS
        m = torch.zeros(total, total, dtype=torch.bool)
        m[:ROW, :ROW] = see[b]
        m[ROW:, :ROW] = see[b][at].repeat_interleave(MASKS, 0)
        m[ROW:, ROW:] = torch.block_diag(
            *[torch.ones(MASKS, MASKS, dtype=torch.bool).tril()] * ANCHORS)
        all_ids.append(torch.cat((ids[b], torch.full((ANCHORS * MASKS,), vocab.PAD))))
        all_target.append(torch.cat((target[b], target[b][place].flatten())))
        all_weight.append(torch.cat((weight[b], (weight[b][place] * inside).flatten())))
        all_pos.append(torch.cat((torch.arange(ROW), pos.flatten())))
        all_see.append(m)
    ids, see, target, weight, pos = (
        torch.stack(x) for x in (all_ids, all_see, all_target, all_weight, all_pos))
    return ids, see[:, None], target, weight, pos


def right(model, tok, batches=6):
    """Shares of right guesses of the mask tokens, by their distance, on held-out text."""
    r, rows = torch.Generator().manual_seed(1), train.Rows(tok, "held")
    hits, n = torch.zeros(MASKS), torch.zeros(MASKS)
    with torch.no_grad():
        for _ in range(batches):
            ids, see, target, weight, pos = spread(rows, 4, r)
            h = model(ids, see, pos)[:, ROW:]
            best = (h @ model.model.embed_tokens.weight.T).argmax(-1)
            counts = (weight[:, ROW:] == 1).view(-1, MASKS)
            hits += ((best == target[:, ROW:]).view(-1, MASKS) & counts).sum(0)
            n += counts.sum(0)
    return (hits / n).tolist()


def export(model, folder):
    train.export(model, SOURCE, folder)
    file = os.path.join(folder, "config.json")
    with open(file) as f:
        config = json.load(f)
    config["pard_token"] = vocab.PAD
    with open(file, "w") as f:
        f.write(json.dumps(dict(sorted(config.items())), indent=2) + "\n")
    shutil.copyfile(os.path.join(train.MODELS, SOURCE, "tokenizer.json"),
                    os.path.join(folder, "tokenizer.json"))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--steps", type=int, default=1200)
    train.add_options(p, 1e-3)
    args = p.parse_args()

    train.begin(args.seed)
    tok = vocab.load(os.path.join(train.MODELS, SOURCE))
    model = llama.Llama(SOURCE, tok.get_vocab_size())
    model.load_state_dict({k: v.float() for k, v in load_file(
        os.path.join(train.MODELS, SOURCE, "model.safetensors")).items()})
    opt = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.9, 0.98), eps=1e-9,
                            weight_decay=0.01, fused=True)
    random = torch.Generator().manual_seed(args.seed)
    state = train.State(args.state or os.path.join(train.HERE, NAME + ".state"), model, opt,
                        train.Rows(tok, "train", (FIRST, [])), random)
    folder = args.out or os.path.join(train.MODELS, NAME)
    train.run(state, args, lambda: spread(state.rows, args.batch, random),
              lambda: export(model, folder), warm=50)
    print("right guesses by distance: " + " ".join(f"{x:.3f}" for x in right(model, tok)))


if __name__ == "__main__":
    main()
