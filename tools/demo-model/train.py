"""Trains a demo model on the generated corpus, restartable at any moment.

`python train.py demo --steps N` writes models/demo/model.safetensors (bf16) at the end, and its
state to --state every few minutes; started again it goes on from there, and the result does not
depend on where it was interrupted (same torch build, same thread count). The learning rate is
constant after the warm-up and falls to zero along a half cosine over the last 40 % of the steps,
so --steps may still be changed by a restart before that point.
"""

import argparse
import json
import math
import os
import time

import torch
from safetensors.torch import save_file

import corpus
import grow
import llama
import vocab

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "..", "models")
ROW = 512
BUFFER = 48


class Rows:
    """Packs whole documents into rows of ROW tokens: from a small buffer the longest that still
    fits."""

    def __init__(self, tok, split, state=None):
        self.tok, self.split = tok, split
        self.next, self.buffer = state or (0, [])

    def fill(self):
        while len(self.buffer) < BUFFER:
            self.buffer.append(self.next)
            self.next += 1

    def document(self, i):
        ids, w = vocab.encode(self.tok, corpus.document(self.split, i))
        return ids[: ROW + 1], w[: ROW + 1]

    def row(self):
        """ids, target, weight, document number of each position."""
        ids, target, weight, doc = [], [], [], []
        self.fill()
        cache = {i: self.document(i) for i in self.buffer}
        k = 0
        while True:
            room = ROW - len(ids)
            fit = [i for i in self.buffer if len(cache[i][0]) - 1 <= room]
            if not fit:
                break
            i = (
                self.buffer[0]
                if not ids and self.buffer[0] in fit
                else max(fit, key=lambda j: (len(cache[j][0]), -j))
            )
            self.buffer.remove(i)
            d, w = cache[i]
            ids, target, weight, doc = ids + d[:-1], target + d[1:], weight + w[1:], doc + [k] * (
                len(d) - 1)
            k += 1
        pad = ROW - len(ids)
        return ids + [vocab.PAD] * pad, target + [vocab.PAD] * pad, weight + [0.0] * pad, doc + [
            -1] * pad

    def batch(self, n):
        ids, target, weight, doc = zip(*(self.row() for _ in range(n)))
        doc = torch.tensor(doc)
        mask = (doc[:, :, None] == doc[:, None, :]) & torch.ones(ROW, ROW, dtype=torch.bool).tril()
        return torch.tensor(ids), mask[:, None], torch.tensor(target), torch.tensor(weight)


def rate(step, steps, peak, warm=100):
    hold = int(0.6 * steps)
    if step < warm:
        return peak * (step + 1) / warm
    if step < hold:
        return peak
    return peak * 0.5 * (1 + math.cos(math.pi * (step - hold) / (steps - hold)))


def held_loss(model, tok, batches=6):
    rows = Rows(tok, "held")
    model.eval()
    with torch.no_grad():
        r = sum(model.loss(*rows.batch(4)).item() for _ in range(batches)) / batches
    model.train()
    return r


def export(model, name, folder):
    """The checkpoint folder, as Hugging Face writes one."""
    os.makedirs(folder, exist_ok=True)
    save_file(
        {k: v.to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()},
        os.path.join(folder, "model.safetensors"),
        metadata={"format": "pt"},
    )
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": vocab.BOS,
        "eos_token_id": vocab.END,
        "pad_token_id": vocab.PAD,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 1024,
        "mlp_bias": False,
        "model_type": "llama",
        "rms_norm_eps": llama.EPS,
        "rope_scaling": None,
        "rope_theta": llama.THETA,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": model.vocab,
        **llama.SHAPES[name],
    }
    generation = {
        "bos_token_id": vocab.BOS,
        "eos_token_id": vocab.END,
        "pad_token_id": vocab.PAD,
        "do_sample": False,
    }
    for file, data in (("config.json", config), ("generation_config.json", generation)):
        with open(os.path.join(folder, file), "w") as f:
            f.write(json.dumps(dict(sorted(data.items())), indent=2) + "\n")
    vocab.write_config(folder)


def begin(seed):
    """Makes the results of a run depend on nothing but its options."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)


def add_options(p, rate):
    p.add_argument("--batch", type=int, default=4, help="rows of %d tokens a step" % ROW)
    p.add_argument("--rate", type=float, default=rate, help="peak learning rate")
    p.add_argument("--out", help="folder of the checkpoint (default: models/NAME)")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--state", help="file of the training state (default: NAME.state here)")
    p.add_argument("--save-every", type=float, default=180, help="seconds between saves")
    p.add_argument("--stop-at", type=int, help="leave after this step, for tests of the restart")


class State:
    """What a run goes on from: model, optimizer, position in the corpus, and the random numbers of
    RANDOM, if there is a generator. They are read from the file PATH if it exists."""

    def __init__(self, path, model, opt, rows, random=None):
        self.path, self.model, self.opt, self.rows, self.random = path, model, opt, rows, random
        self.step = 0
        if os.path.exists(path):
            s = torch.load(path, weights_only=True)
            model.load_state_dict(s["model"])
            opt.load_state_dict(s["optimizer"])
            if random:
                random.set_state(s["random"])
            self.step, self.rows = s["step"], Rows(rows.tok, "train", (s["next"], s["buffer"]))

    def save(self):
        s = {"model": self.model.state_dict(), "optimizer": self.opt.state_dict(),
             "step": self.step, "next": self.rows.next, "buffer": self.rows.buffer}
        if self.random:
            s["random"] = self.random.get_state()
        torch.save(s, self.path + ".new")
        os.replace(self.path + ".new", self.path)


def run(state, args, batch, write, warm=100):
    """Trains up to step args.steps. BATCH() returns the arguments of the model's loss, and WRITE()
    writes the checkpoint."""
    model, opt = state.model, state.opt
    saved, shown, mean = time.time(), time.time(), 0.0
    while state.step < args.steps and state.step != args.stop_at:
        for g in opt.param_groups:
            g["lr"] = rate(state.step, args.steps, args.rate, warm)
        loss = model.loss(*batch())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        state.step += 1
        mean += loss.item()
        if state.step % 50 == 0:
            now = time.time()
            print(f"step {state.step} loss {mean / 50:.4f} "
                  f"{50 * args.batch * ROW / (now - shown):.0f} tokens/s", flush=True)
            mean, shown = 0.0, now
        if time.time() - saved > args.save_every:
            state.save()
            write()
            saved = time.time()
    state.save()
    write()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("name", choices=sorted(llama.SHAPES))
    p.add_argument("--steps", type=int, required=True)
    p.add_argument(
        "--grow", help="state of a trained draft to begin from, its position in the corpus included"
    )
    add_options(p, 3e-3)
    args = p.parse_args()

    begin(args.seed)
    folder = args.out or os.path.join(MODELS, args.name)
    tok = vocab.load(os.path.join(MODELS, "demo"))
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        tok.save(os.path.join(folder, "tokenizer.json"))
    model = llama.Llama(args.name, tok.get_vocab_size())
    matrices = [q for n, q in model.named_parameters() if q.dim() == 2 and "embed" not in n]
    others = [q for n, q in model.named_parameters() if q.dim() != 2 or "embed" in n]
    opt = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=args.rate,
        betas=(0.9, 0.98),
        eps=1e-9,
        fused=True,
    )
    path, rows = args.state or os.path.join(HERE, args.name + ".state"), Rows(tok, "train")
    if args.grow and not os.path.exists(path):
        s = torch.load(args.grow, weights_only=True)
        model.load_state_dict(grow.grown(s["model"], model, args.seed))
        rows = Rows(tok, "train", (s["next"], s["buffer"]))
    state = State(path, model, opt, rows)
    print(
        f"{args.name}: {sum(q.numel() for q in model.parameters())} parameters, from step "
        f"{state.step} of {args.steps}",
        flush=True,
    )
    run(state, args, lambda: state.rows.batch(args.batch),
        lambda: export(model, args.name, folder))
    print(f"held-out loss {held_loss(model, tok):.4f}", flush=True)


if __name__ == "__main__":
    main()
