"""A Llama decoder small enough to train on one core, with the parameter names of Hugging Face's
LlamaForCausalLM.

Only what the demo models use: tied embedding, grouped key/value heads, SwiGLU, rotary halves, no
biases, no cache.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "demo": dict(
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
    ),
    "demo-draft": dict(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=32,
    ),
}
EPS, THETA = 1e-5, 10000.0


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, EPS)


def rotate(x, cos, sin):
    """x [B, H, T, D]; halves are the pairs."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.k, self.d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        e = c["hidden_size"]
        self.q_proj = nn.Linear(e, self.h * self.d, bias=False)
        self.k_proj = nn.Linear(e, self.k * self.d, bias=False)
        self.v_proj = nn.Linear(e, self.k * self.d, bias=False)
        self.o_proj = nn.Linear(self.h * self.d, e, bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        q = rotate(self.q_proj(x).view(b, t, self.h, self.d).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(x).view(b, t, self.k, self.d).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(b, t, self.k, self.d).transpose(1, 2)
        g = self.h // self.k
        y = F.scaled_dot_product_attention(
            q, k.repeat_interleave(g, 1), v.repeat_interleave(g, 1), attn_mask=mask
        )
        return self.o_proj(y.transpose(1, 2).reshape(b, t, self.h * self.d))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        e, i = c["hidden_size"], c["intermediate_size"]
        self.gate_proj = nn.Linear(e, i, bias=False)
        self.up_proj = nn.Linear(e, i, bias=False)
        self.down_proj = nn.Linear(i, e, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = Norm(c["hidden_size"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = Norm(c["hidden_size"])
        self.mlp = Mlp(c)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, c, vocab):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"])


class Llama(nn.Module):
    def __init__(self, name, vocab):
        super().__init__()
        self.c, self.vocab = SHAPES[name], vocab
        self.model = Decoder(self.c, vocab)
        for n, p in self.named_parameters():
            if p.dim() == 2:
                s = (
                    0.02
                    if "embed" in n
                    else p.shape[1] ** -0.5 * (0.4 if "o_proj" in n or "down_proj" in n else 1.0)
                )
                nn.init.normal_(p, std=s)

    def forward(self, ids, mask, pos=None):
        """ids [B, T], mask bool [B, 1, T, T], true = may look; hidden states after the last norm
        [B, T, E]. pos [B, T]: positions, or None for 0 to T - 1."""
        t, d = ids.shape[1], self.c["head_dim"]
        pos = torch.arange(t)[None] if pos is None else pos
        f = pos[:, None, :, None].float() * THETA ** (-torch.arange(0, d, 2).float() / d)
        cos, sin = f.cos(), f.sin()
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin, mask)
        return self.model.norm(x)

    def loss(self, ids, mask, target, weight, pos=None):
        """Weighted mean negative log-likelihood of target [B, T] under weight [B, T]."""
        keep = weight.view(-1) > 0
        h = self(ids, mask, pos).view(-1, self.c["hidden_size"])[keep]
        nll = F.cross_entropy(h @ self.model.embed_tokens.weight.T, target.view(-1)[keep],
                              reduction="none")
        w = weight.view(-1)[keep]
        return (nll * w).sum() / w.sum()
