"""Makes the demo model out of a trained draft: twice as wide, one layer more, and at first the
same function.

Follows Chen, Goodfellow, Shlens, "Net2Net: Accelerating Learning via Knowledge Transfer" (2016).
The residual stream holds two equal copies of the draft's; heads and MLP units are doubled. A
matrix that reads two equal copies with [W/2 + N, W/2 - N] does not see the noise N, but its
gradient does, so the copies part as soon as training goes on. The new layer begins with zero
outputs.
"""

import torch

NEW = 2  # index of the layer that the draft does not have


def widen(w, g):
    """[o, i] -> [2 o, 2 i] for outputs and inputs that come in two equal copies."""
    rows = []
    for _ in range(2):
        n = torch.randn(w.shape, generator=g) * w.std() * 0.5
        rows.append(torch.cat((w / 2 + n, w / 2 - n), 1))
    return torch.cat(rows)


def grown(draft, model, seed):
    """The state of MODEL (a Llama twice as wide and one layer deeper) that computes what the
    state DRAFT does."""
    g = torch.Generator().manual_seed(seed)
    out = {}
    for name, new in model.state_dict().items():
        part = name.split(".")
        source = name
        if part[1] == "layers":
            layer = int(part[2])
            if layer == NEW:
                ends = name.endswith(("o_proj.weight", "down_proj.weight"))
                out[name] = torch.zeros_like(new) if ends else new.clone()
                continue
            part[2] = str(layer - (layer > NEW))
            source = ".".join(part)
        w = draft[source]
        if name == "model.embed_tokens.weight":
            out[name] = torch.cat((w, w), 1)
        elif name == "model.norm.weight":
            out[name] = torch.cat((w, w)) / 2
        elif w.dim() == 1:
            out[name] = torch.cat((w, w))
        else:
            out[name] = widen(w, g)
    return out
