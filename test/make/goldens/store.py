"""Writes weights in the forms checkpoints come in: safetensors, zip .bin, .bin of torch before
1.6, shards with an index."""

import json
import os

import torch
from safetensors.torch import save_file

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def awkward(tensors):
    """One matrix stored transposed and one as a view into a larger storage, as torch.save
    allows."""
    out, left = {}, ["transposed", "view"]
    for k, t in tensors.items():
        if t.dim() == 2 and left and t.shape[0] != t.shape[1]:
            if left.pop(0) == "transposed":
                t = t.t().contiguous().t()
            else:
                big = torch.zeros(t.numel() + 160, dtype=t.dtype)
                t = big[96 : 96 + t.numel()].view(t.shape).copy_(t)
        out[k] = t
    return out


def split(tensors, parts):
    """The tensors in PARTS runs of about equal bytes, in order."""
    total = sum(t.nbytes for t in tensors.values())
    out, seen = [{} for _ in range(parts)], 0
    for k, t in tensors.items():
        out[min(parts - 1, seen * parts // total)][k] = t
        seen += t.nbytes
    return out


def write(folder, tensors, form):
    """Stores tensors under FOLDER; FORM is st, bin, bin-legacy, st-N or bin-N (N shards)."""
    kind, _, n = form.partition("-")
    if form == "st":
        save_file(
            {k: t.contiguous() for k, t in tensors.items()},
            os.path.join(folder, "model.safetensors"),
            metadata={"format": "pt"},
        )
    elif form == "bin":
        torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))
    elif form == "bin-legacy":
        torch.save(tensors, os.path.join(folder, "pytorch_model.bin"),
                   _use_new_zipfile_serialization=False)
    else:
        stem, ext = ("model", "safetensors") if kind == "st" else ("pytorch_model", "bin")
        shards, where = split(tensors if kind == "st" else awkward(tensors), int(n)), {}
        for i, s in enumerate(shards):
            name = f"{stem}-{i + 1:05d}-of-{len(shards):05d}.{ext}"
            where.update({k: name for k in s})
            if kind == "st":
                save_file(
                    {k: t.contiguous() for k, t in s.items()},
                    os.path.join(folder, name),
                    metadata={"format": "pt"},
                )
            else:
                torch.save(s, os.path.join(folder, name))
        index = {
            "metadata": {"total_size": sum(t.nbytes for t in tensors.values())},
            "weight_map": dict(sorted(where.items())),
        }
        with open(os.path.join(folder, f"{stem}.{ext}.index.json"), "w") as f:
            json.dump(index, f, indent=1)
    for f in os.listdir(folder):
        path = os.path.join(folder, f)
        if os.path.isfile(path):
            os.chmod(path, 0o644)
