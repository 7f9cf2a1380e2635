"""The table of golden checkpoints: one row a variant. A new family is a new row.

config    what config.json says, complete: nothing is added to it form      how the weights are
stored (store.write) stored    bf16, f16 or f32 lengths   prompt lengths names     function of
the tensors' dict just before it is written features  name -> a change of the config, or a
pattern of tensors to clear, whose effect on the logits must show cached    also write what
generate() gives with its cache, where a cache changes the result batch     also write a
left-padded batch distinct  fewest different tokens of a greedy run, where it is not 8 scale
regular expression -> extra factor on the randomness of matching tensors; shift: an offset
"""

import torch

BASE = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SHORT, LONG = [1, 9, 33, 70], [1, 9, 33, 70, 128]


def llama(style="legacy", **kw):
    c = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **BASE,
        "hidden_act": "silu",
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": 192,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "use_cache": True,
        ("dtype" if style == "new" else "torch_dtype"): "bfloat16",
    }
    c.update(kw)
    return {k: v for k, v in c.items() if v is not ...}


def gpt2(**kw):
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "activation_function": "gelu_new",
        "attn_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "resid_pdrop": 0.1,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5,
        "n_embd": 48,
        "n_head": 3,
        "n_layer": 2,
        "n_positions": 160,
        "n_ctx": 160,
        "vocab_size": 192,
        **kw,
    }


def inv_freq(d, layers):
    """Adds the rotary_emb.inv_freq buffers of old Llama checkpoints, which a reader must skip."""

    def names(t):
        f = 10000.0 ** (-torch.arange(0, d, 2).float() / d)
        return {**t, **{f"model.layers.{i}.self_attn.rotary_emb.inv_freq": f.clone()
                        for i in range(layers)}}

    return names


def original_gpt2(n, layers):
    """The names of the first GPT-2 file: no `transformer.`, mask buffers, no head."""

    def names(t):
        out = {k.removeprefix("transformer."): v for k, v in t.items() if k != "lm_head.weight"}
        for i in range(layers):
            out[f"h.{i}.attn.bias"] = torch.ones(n, n).tril().view(1, 1, n, n)
        return out

    return names


def variant(name, config, form="st", stored="bf16", lengths=SHORT, **kw):
    return {
        "name": name,
        "config": config,
        "form": form,
        "stored": stored,
        "lengths": lengths,
        "names": None,
        "features": {},
        "cached": False,
        "batch": False,
        "scale": {},
        "note": None,
        **kw,
    }


NO_ROPE = {"plain rope": {"rope_scaling": None}}
NEW_PLAIN = {"plain rope": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}}

VARIANTS = [
    variant(
        "llama2-bin",
        llama(rope_scaling=None, pretraining_tp=1),
        form="bin-2",
        names=inv_freq(16, 2),
        batch=True,
        note="oldest style: no num_key_value_heads, rope_theta, head_dim; two .bin shards and an index, in which "
        "inv_freq buffers stand among the tensors, one tensor is transposed and one is a view",
    ),
    variant(
        "llama3-rope",
        llama(
            num_key_value_heads=1,
            tie_word_embeddings=True,
            rope_theta=500000.0,
            max_position_embeddings=1024,
            rope_scaling={
                "factor": 8.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 64,
                "rope_type": "llama3",
            },
        ),
        lengths=LONG,
        features=NO_ROPE,
        scale={"q_proj|k_proj": 1.3},
        note="rope type llama3, tied head",
    ),
    variant(
        "llama-linear-bias-headdim",
        llama(
            "new",
            num_attention_heads=4,
            head_dim=48,
            num_key_value_heads=2,
            attention_bias=True,
            mlp_bias=True,
            vocab_size=187,
            rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
        ),
        features={**NEW_PLAIN, "no attention bias": "self_attn.*bias", "no mlp bias": "mlp.*bias"},
        note="head_dim 48 is not hidden / heads, attention and MLP biases, linear rope, odd vocabulary",
    ),
    variant(
        "llama-dynamic",
        llama(
            num_key_value_heads=1,
            max_position_embeddings=128,
            rope_theta=10000.0,
            rope_scaling={"type": "dynamic", "factor": 4.0},
        ),
        lengths=[1, 9, 33, 120, 128, 129, 140],
        features=NO_ROPE,
        cached=True,
        note="dynamic NTK, limit 128; prompts before, at and past it",
    ),
    variant(
        "llama-yarn",
        llama(
            "new",
            hidden_size=16,
            intermediate_size=48,
            num_attention_heads=8,
            num_key_value_heads=1,
            head_dim=256,
            vocab_size=160,
            rope_parameters={
                "rope_type": "yarn",
                "factor": 8.0,
                "original_max_position_embeddings": 64,
                "rope_theta": 10000.0,
            },
        ),
        lengths=LONG,
        features=NEW_PLAIN,
        note="yarn; the largest heads, eight on one of keys",
    ),
    variant(
        "gpt2",
        gpt2(torch_dtype="bfloat16"),
        lengths=LONG,
        batch=True,
        note="Conv1D weights [in, out], learned positions, tied head",
    ),
    variant(
        "gpt2-orig-bin",
        gpt2(n_embd=32, n_head=2, n_positions=96, n_ctx=96, vocab_size=160),
        form="bin-legacy",
        stored="f32",
        names=original_gpt2(96, 2),
        note="float32 .bin of torch before 1.6, names without `transformer.`, mask buffers; no torch_dtype",
    ),
]
