"""Makes small random checkpoints and what Hugging Face computes from them, in float32, eagerly,
without a cache.

`python goldens.py --out DIR` writes every committed variant; see README.md for the files. Seeds
are tried in order until the logits are lively and every greedy step is clear-cut, so a float32
engine must produce equal tokens.
"""

import argparse
import json
import math
import os
import re
import shutil
import sys
import tempfile
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

import families
import store
import variants

STEPS, MARGIN, GAP = 24, 2e-3, 1e-4
ROWS = variants.VARIANTS + families.VARIANTS


def dump(folder, name, data):
    with open(os.path.join(folder, name), "w") as f:
        f.write(json.dumps(data, indent=None if isinstance(data, list) else 1) + "\n")


def randomise(model, g, v):
    """Weights that make every part count: unit gain through matrices, norms near neutral, small
    biases."""
    head = {id(p) for n,
            p in model.named_parameters() if re.search(r"lm_head\.weight$|embed_out", n)}
    tied = model.config.get_text_config().tie_word_embeddings
    tables = {id(m.weight): m for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    conv = {id(m.weight) for m in model.modules() if type(m).__name__ == "Conv1D"}
    with torch.no_grad():
        for n, p in model.named_parameters():
            x = torch.randn(p.shape, generator=g)
            if id(p) in tables:
                s = 3.0 * p.shape[1] ** -0.5 if tied and p.shape[0] == v["vocab"] else 1.0
                s = s if re.search(r"embed_tokens|wte", n) else 0.5 * s
            elif id(p) in head:
                s = 3.0 * p.shape[1] ** -0.5
            elif p.dim() >= 2:
                fan = p.shape[-2] if id(p) in conv or v.get("transposed",
                                                            "^$") in n else p.shape[-1]
                s = (1.8 if tied else 1.6 if re.search(r"q_proj|k_proj|qkv|c_attn", n)
                     else 1.2) * fan**-0.5
            else:
                s = 0.15
            neutral = (
                p
                if p.dim() == 1 and re.search(r"norm.*weight|ln_.*weight|scale$", n)
                else torch.zeros_like(p)
            )
            for pattern, f in v["scale"].items():
                s *= f if re.search(pattern, n) else 1.0
            shift = sum(f for pattern, f in v.get("shift", {}).items() if re.search(pattern, n))
            p.copy_(neutral + shift + s * x)
        for n, b in model.named_buffers():
            if n.endswith("layer_scalar"):
                b.copy_(1 + 0.15 * torch.randn(b.shape, generator=g))


def tensors(model, v):
    """The tensors as the hub names them, in the stored dtype, in the variant's order and extras."""
    dtype = store.DTYPES[v["stored"]]
    with tempfile.TemporaryDirectory() as d:
        model.to(dtype).save_pretrained(d)
        t = {}
        for f in sorted(os.listdir(d)):
            if f.endswith(".safetensors"):
                t.update(load_file(os.path.join(d, f)))
    model.to(torch.float32)
    t = dict(sorted(t.items()))
    return v["names"](t) if v["names"] else t


def load(folder, dtype=torch.float32, change=None):
    """The folder as transformers reads it; CHANGE is another config for the same weights."""
    config = AutoConfig.from_pretrained(folder) if change is None else change
    kw = {"config": config, "dtype": dtype, "attn_implementation": "eager"}
    if hasattr(config.get_text_config(), "num_experts_per_tok") or hasattr(
        config.get_text_config(), "num_experts"
    ):
        kw["experts_implementation"] = "eager"
    return AutoModelForCausalLM.from_pretrained(folder, **kw).eval()


class Reference:
    """A model without memory: every forward is over all tokens; rope forgets longer sequences."""

    def __init__(self, model):
        self.model = model
        self.gap, self.before_projection = math.inf, None
        for name, m in model.named_modules():
            if re.search(r"router$|mlp\.gate$|block_sparse_moe\.gate$", name) and any(
                True for _ in m.parameters()
            ):
                m.register_forward_hook(self.watch)
            if name.endswith("project_out") and m is not None:
                m.register_forward_pre_hook(self.keep)

    def watch(self, module, args, out):
        c = self.model.config.get_text_config()
        k = next(getattr(c, a) for a in ("num_experts_per_tok", "top_k_experts")
                 if getattr(c, a, None))
        n = next(getattr(c, a) for a in ("num_local_experts", "num_experts") if getattr(c, a, None))
        x = (
            out[1]
            if type(module).__name__ == "Llama4Router"
            else next(t for t in (out if isinstance(out, tuple) else (out,)) if t.shape[-1] == n)
        )
        if k < n:
            top = x.topk(k + 1, -1).values
            self.gap = min(self.gap, (top[..., k - 1] - top[..., k]).min().item())

    def keep(self, module, args):
        self.before_projection = args[0]

    def forget(self):
        for parent in self.model.modules():
            for key, m in list(parent.named_children()):
                if hasattr(m, "max_seq_len_cached") and hasattr(m, "original_inv_freq"):
                    setattr(parent, key, type(m)(m.config))

    def __call__(self, ids, **kw):
        self.forget()
        x = torch.tensor(ids if isinstance(ids[0], list) else [ids])
        with torch.no_grad():
            return self.model(x, use_cache=False, **kw)

    def greedy(self, ids):
        ids, tokens, margins = list(ids), [], []
        for _ in range(STEPS):
            top = self(ids).logits[0, -1].double().topk(2)
            tokens.append(int(top.indices[0]))
            margins.append(round(float(top.values[0] - top.values[1]), 5))
            ids.append(tokens[-1])
        return {"tokens": tokens, "margins": margins, "min_margin": min(margins)}

    def cached(self, ids):
        """What generate() gives with its cache, end tokens ignored; margins included."""
        self.forget()
        x = torch.tensor([ids])
        y = self.model.generate(
            x,
            attention_mask=torch.ones_like(x),
            max_new_tokens=STEPS,
            do_sample=False,
            use_cache=True,
            eos_token_id=None,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        margins = [float((t := s[0].double().topk(2).values)[0] - t[1]) for s in y.logits]
        return {"tokens": y.sequences[0, len(ids) :].tolist(), "min_margin": round(min(margins), 5)}


def batch(ref, prompts):
    """Two prompts left-padded into one batch; position ids count attended tokens."""
    a, b = prompts[1], prompts[2]
    n = max(len(a), len(b))
    ids = [[0] * (n - len(p)) + p for p in (a, b)]
    mask = [[0] * (n - len(p)) + [1] * len(p) for p in (a, b)]
    out = {"pad_token_id": 0, "padded_input_ids": ids, "attention_mask": mask, "tokens": [[], []]}
    ids, mask = [list(r) for r in ids], [list(r) for r in mask]
    for _ in range(STEPS):
        m = torch.tensor(mask)
        kw = {"attention_mask": m, "position_ids": (m.cumsum(-1) - 1).clamp(min=0)}
        for i, t in enumerate(ref(ids, **kw).logits[:, -1].argmax(-1).tolist()):
            out["tokens"][i].append(t)
            ids[i].append(t)
            mask[i].append(1)
    return out


def kl(p, q):
    p, q = p.double().log_softmax(-1), q.double().log_softmax(-1)
    return float((p.exp() * (p - q)).sum())


def make(v, seed, folder):
    """Writes the checkpoint; returns its reference, read back from the folder, and the prompts."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "golden"))
    dump(folder, "config.json", v["config"])
    ends = {k: v["config"][k] for k in variants.BASE if k in v["config"]}
    dump(folder, "generation_config.json", {"_from_model_config": True, **ends})
    g = torch.Generator().manual_seed(zlib.crc32(v["name"].encode()) + 7919 * seed)
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(folder)
    vocab = config.get_text_config().vocab_size
    # The class is made directly: AutoModel maps some text configurations to another class.
    kind = getattr(transformers, v["config"]["architectures"][0])
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    randomise(model, g, {**v, "vocab": vocab})
    store.write(folder, tensors(model, v), v["form"])
    ref = Reference(load(folder))
    state, dtype = ref.model.state_dict(), store.DTYPES[v["stored"]]
    for n, p in model.named_parameters():
        if not torch.equal(state[n].float(), p.detach().to(dtype).float()):
            raise SystemExit(f"{v['name']}: transformers read another {n} than was written")
    return ref, [torch.randint(3, vocab, (n,), generator=g).tolist() for n in v["lengths"]]


def hidden(ref, out, logits):
    """Hidden states of prompt 1 as the README describes them, and whether the head reads the
    last entry."""
    h = [x[0] for x in out.hidden_states]
    last = ref.model.get_output_embeddings()(h[-1])
    cap = getattr(ref.model.config.get_text_config(), "final_logit_softcapping", None)
    is_input = bool((((last / cap).tanh() * cap if cap else last) - logits).abs().max() < 1e-4)
    if ref.before_projection is not None:  # OPT with project_out: what the last layer put out
        h[-1] = ref.before_projection[0]
    return torch.stack(h), is_input


def forwards(ref, prompts, golden):
    """Stores logits and hidden states; returns the last logits, the mean standard deviation,
    is_input."""
    lasts, std, is_input = [], [], None
    for i, p in enumerate(prompts):
        out = ref(p, output_hidden_states=i == 1)
        logits = out.logits[0].float()
        if i == 1:
            h, is_input = hidden(ref, out, logits)
            np.save(os.path.join(golden, "hidden_1.npy"), h.numpy())
        lasts.append(logits[-1])
        std.append(float(logits.std()))
        np.save(os.path.join(golden, f"logits_{i}.npy"),
                (logits if len(p) <= 80 else logits[-16:]).numpy())
    return lasts, sum(std) / len(std), is_input


def without(v, folder, what):
    """The model with a feature left out: a change of the config, or a pattern of tensors set to
    nothing."""
    if isinstance(what, str):
        other = load(folder)
        with torch.no_grad():
            for n, p in other.named_parameters():
                if re.search(what, n):
                    p.fill_(-1e4 if n.endswith("sinks") else 0)
        return Reference(other)
    with tempfile.TemporaryDirectory() as d:
        dump(d, "config.json", {**v["config"], **what})
        return Reference(load(folder, change=AutoConfig.from_pretrained(d)))


def half(folder, prompts, lasts):
    """How far Hugging Face's own bfloat16 run is from float32, prompt by prompt."""
    low, rows = Reference(load(folder, torch.bfloat16)), []
    for p, want in zip(prompts, lasts):
        got = low(p).logits[0, -1].float()
        rows.append({"kl": kl(want, got), "argmax": int(got.argmax()),
                     "ref_argmax": int(want.argmax())})
    return rows


def with_cache(v, ref, prompts, greedy, info):
    """The tokens of generate() with its cache, and in info where its rope switches."""
    cached = [ref.cached(p) for p in prompts]
    limit = v["config"].get("original_max_position_embeddings",
                            v["config"]["max_position_embeddings"])
    info["greedy_cached_equals_greedy"] = [c["tokens"] == x["tokens"] for c,
                                           x in zip(cached, greedy)]
    info["min_margin_cached"] = min(c["min_margin"] for c in cached)
    info["rope_switch"] = {
        "original_max_position_embeddings": limit,
        "prompt_is_past_it": [n > limit for n in v["lengths"]],
        "greedy_steps_before_switch": [max(0, min(STEPS, limit - n + 1)) for n in v["lengths"]],
    }
    return cached


def attempt(v, seed, folder):
    """Writes the checkpoint and its goldens; returns None, or why this seed is not good enough."""
    golden = os.path.join(folder, "golden")
    ref, prompts = make(v, seed, folder)
    dump(golden, "prompts.json", prompts)
    lasts, std, is_input = forwards(ref, prompts, golden)
    if not 2.0 <= std <= 4.0:
        return f"standard deviation of the logits {std:.2f}"
    greedy = []
    for p in prompts:
        greedy.append(ref.greedy(p))
        if greedy[-1]["min_margin"] < MARGIN:
            return f"margin {greedy[-1]['min_margin']}"
    distinct = [len(set(x["tokens"])) for x in greedy]
    if min(distinct) < v.get("distinct", 8):
        return f"{min(distinct)} distinct tokens"
    if ref.gap < GAP:
        return f"experts only {ref.gap:.1e} apart"
    dump(golden, "greedy.json", greedy)
    bf16 = half(folder, prompts, lasts)
    dump(golden, "bf16.json", bf16)
    info = {
        "model_class": v["config"]["architectures"][0],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "seed": seed,
        "config_style": "new" if "dtype" in v["config"] else "legacy",
        "stored": v["stored"],
        "form": v["form"],
        "prompt_lengths": v["lengths"],
        "logits_std": round(std, 4),
        "min_margin": min(x["min_margin"] for x in greedy),
        "distinct_greedy_tokens": distinct,
        "last_hidden_is_head_input": is_input,
        "read_back_difference": 0.0,
        "max_bf16_kl": max(r["kl"] for r in bf16),
    }
    if ref.gap < math.inf:
        info["min_router_gap"] = round(ref.gap, 6)
    if v["note"]:
        info["note"] = v["note"]
    for name, what in v["features"].items():
        o = without(v, folder, what)
        far = max(float((o(p).logits[0, -1] - want).abs().max()) for p, want in zip(prompts, lasts))
        info.setdefault("max_logit_change", {})[name] = round(far, 4)
        if far < 0.05:
            return f"{name} changes the logits by {far:.4f} only"
    if v["cached"]:
        dump(golden, "greedy_cached.json", with_cache(v, ref, prompts, greedy, info))
        if info["min_margin_cached"] < MARGIN:
            return "margin with a cache"
    if v["batch"]:
        b = batch(ref, prompts)
        if b["tokens"] != [greedy[1]["tokens"], greedy[2]["tokens"]]:
            raise SystemExit(f"{v['name']}: the padded batch gives other tokens")
        dump(golden, "batch.json", b)
    dump(golden, "golden.json", info)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", help="folder that gets one folder a variant")
    p.add_argument("--seed", type=int, default=1, help="first seed to try")
    p.add_argument("--only", help="comma-separated names")
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    names = {v["name"] for v in ROWS}
    wanted = set(args.only.split(",")) if args.only else names
    rows = [v for v in ROWS if v["name"] in wanted]
    unknown = wanted - names
    if unknown:
        sys.exit(f"no variant is named {', '.join(sorted(unknown))}")
    if args.list:
        for v in rows:
            print(
                f"{v['name']:28} {v['config']['architectures'][0]:32} {v['stored']:5} "
                f"{v['form']:11} {v['note'] or ''}"
            )
        return
    if not args.out:
        sys.exit("--out DIR is missing")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for v in rows:
        folder = os.path.join(args.out, v["name"])
        for seed in range(args.seed, args.seed + 60):
            why = attempt(v, seed, folder)
            if why is None:
                size = sum(os.path.getsize(os.path.join(d, f)) for d, _,
                           fs in os.walk(folder) for f in fs)
                print(f"{v['name']}: seed {seed}, {size // 1024} KB", flush=True)
                break
            print(f"{v['name']}: seed {seed}: {why}", flush=True)
        else:
            sys.exit(f"{v['name']}: no seed was good enough")


if __name__ == "__main__":
    main()
