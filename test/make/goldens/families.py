"""Golden rows beyond Llama and GPT-2: the same table, one family after another."""

from variants import BASE, variant

COMMON = {
    "hidden_size": 48,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "num_hidden_layers": 2,
    "intermediate_size": 80,
    "vocab_size": 192,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "use_cache": True,
}
PLAIN, LONG = [1, 9, 33, 70], [1, 9, 33, 70, 128]
LIMIT = [1, 9, 33, 120, 128, 129, 140]


def config(arch, kind, *, dtype="torch_dtype", base=None, **kw):
    c = {
        "architectures": [arch],
        "model_type": kind,
        **BASE,
        **(COMMON if base is None else base),
        dtype: "bfloat16",
        **kw,
    }
    return {k: x for k, x in c.items() if x is not ...}


def row(name, c, **kw):
    return variant(name, c, **{"lengths": PLAIN, **kw})


def opt(**kw):
    return config(
        "OPTForCausalLM",
        "opt",
        base={},
        hidden_size=48,
        ffn_dim=96,
        num_attention_heads=3,
        num_hidden_layers=2,
        vocab_size=192,
        pad_token_id=1,
        bos_token_id=2,
        max_position_embeddings=160,
        word_embed_proj_dim=48,
        do_layer_norm_before=True,
        activation_function="relu",
        dropout=0.1,
        attention_dropout=0.0,
        layerdrop=0.0,
        init_std=0.02,
        **kw
    )


def factors(a, b, n):
    return [round(a + (b - a) * i / (n - 1), 2) for i in range(n)]


WINDOW = {"no window": {"sliding_window": None}}
WIDE = {"no window": {"sliding_window": 4096}}
GEMMA = {
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_act": ...,
    "tie_word_embeddings": True,
    "vocab_size": 160,
}

VARIANTS = [
    row("opt", opt(), note="layer norm before, position table offset 2"),
    row(
        "opt-postln-proj",
        {**opt(), "do_layer_norm_before": False, "word_embed_proj_dim": 32},
        scale={"embed_tokens": 0.5},
        note="layer norm after, project_in and project_out, no final norm",
    ),
    row(
        "gptj",
        config(
            "GPTJForCausalLM",
            "gptj",
            base={},
            n_embd=48,
            n_head=2,
            n_layer=2,
            n_inner=None,
            n_positions=160,
            rotary_dim=16,
            vocab_size=192,
            activation_function="gelu_new",
            attn_pdrop=0.0,
            embd_pdrop=0.0,
            resid_pdrop=0.0,
            layer_norm_epsilon=1e-5,
            tie_word_embeddings=False,
        ),
    ),
    row(
        "phi3",
        config(
            "Phi3ForCausalLM",
            "phi3",
            rope_theta=10000.0,
            rope_scaling=None,
            sliding_window=40,
            original_max_position_embeddings=512,
        ),
        features=WINDOW,
        note="fused qkv_proj and gate_up_proj, sliding window 40",
    ),
    row(
        "phi3-longrope",
        config(
            "Phi3ForCausalLM",
            "phi3",
            rope_theta=10000.0,
            sliding_window=None,
            hidden_size=96,
            max_position_embeddings=1024,
            partial_rotary_factor=0.75,
            original_max_position_embeddings=128,
            tie_word_embeddings=True,
            rope_scaling={
                "type": "longrope",
                "short_factor": factors(1.0, 1.5, 12),
                "long_factor": factors(1.0, 9.0, 12),
            },
        ),
        lengths=LIMIT,
        cached=True,
        note="longrope on three quarters of the head, tied head, as in Phi-4-mini",
    ),
    row(
        "qwen2",
        config(
            "Qwen2ForCausalLM",
            "qwen2",
            rope_theta=1000000.0,
            sliding_window=32,
            use_sliding_window=False,
            max_window_layers=2,
            tie_word_embeddings=True,
        ),
        features={"no q, k, v biases": "self_attn.*bias"},
        note="a sliding_window that use_sliding_window: false switches off",
    ),
    row(
        "qwen2-window",
        config(
            "Qwen2ForCausalLM",
            "qwen2",
            rope_theta=10000.0,
            sliding_window=24,
            use_sliding_window=True,
            max_window_layers=1,
            num_hidden_layers=3,
        ),
        features={"no window": {"use_sliding_window": False}},
        note="window in layers 1 and 2 of 3",
    ),
    row(
        "qwen3",
        config(
            "Qwen3ForCausalLM",
            "qwen3",
            rope_theta=1000000.0,
            head_dim=32,
            num_key_value_heads=1,
            attention_bias=False,
            sliding_window=None,
            use_sliding_window=False,
        ),
    ),
    row(
        "qwen3-moe",
        config(
            "Qwen3MoeForCausalLM",
            "qwen3_moe",
            rope_theta=1000000.0,
            head_dim=16,
            attention_bias=False,
            num_experts=6,
            num_experts_per_tok=2,
            moe_intermediate_size=32,
            norm_topk_prob=True,
            decoder_sparse_step=1,
            mlp_only_layers=[1],
            num_hidden_layers=3,
            sliding_window=None,
            use_sliding_window=False,
        ),
        features={"weights not renormalised": {"norm_topk_prob": False}},
        note="6 experts, top 2, layer 1 dense",
    ),
    row(
        "mixtral",
        config(
            "MixtralForCausalLM",
            "mixtral",
            rope_theta=1000000.0,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=None,
            intermediate_size=48,
        ),
    ),
    row(
        "gemma3",
        config(
            "Gemma3ForCausalLM",
            "gemma3_text",
            **GEMMA,
            num_hidden_layers=7,
            query_pre_attn_scalar=24,
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            sliding_window=24,
            sliding_window_pattern=6,
            attention_bias=False,
            intermediate_size=64,
            attn_logit_softcapping=None,
            final_logit_softcapping=None
        ),
        features={
            **WIDE,
            "scale by head size": {"query_pre_attn_scalar": 16},
            "one rope base": {"rope_local_base_freq": 1000000.0},
        },
        scale={"embed_tokens.weight": 0.1},
        shift={"^model.norm.weight": 8.0, "q_norm|k_norm": 1.0},
        distinct=6,
    ),
    row(
        "gpt-oss",
        config(
            "GptOssForCausalLM",
            "gpt_oss",
            dtype="dtype",
            head_dim=16,
            num_hidden_layers=2,
            num_local_experts=6,
            num_experts_per_tok=3,
            intermediate_size=32,
            attention_bias=True,
            sliding_window=24,
            layer_types=["sliding_attention", "full_attention"],
            swiglu_limit=7.0,
            rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "yarn",
                "factor": 16.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 64,
                "rope_theta": 150000.0,
            },
        ),
        transposed="experts",
        scale={"sinks": 6.0},
        features={**WIDE, "no sinks": "sinks"},
        note="sinks, window in even layers, YaRN with truncate false",
    ),
    row(
        "llama4",
        config(
            "Llama4ForCausalLM",
            "llama4_text",
            dtype="dtype",
            head_dim=16,
            num_hidden_layers=4,
            intermediate_size=32,
            intermediate_size_mlp=64,
            num_local_experts=4,
            num_experts_per_tok=1,
            interleave_moe_layer_step=2,
            no_rope_layer_interval=4,
            use_qk_norm=True,
            attention_chunk_size=32,
            attn_temperature_tuning=True,
            floor_scale=16,
            attn_scale=0.3,
            rms_norm_eps=1e-5,
            attention_bias=False,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        ),
        transposed="experts",
        lengths=LONG,
        scale={"q_proj": 1.5},
        features={
            "no chunks": {"attention_chunk_size": 4096},
            "no temperature": {"attn_temperature_tuning": False},
            "no q/k norm": {"use_qk_norm": False},
        },
        note="chunks in three layers, no rope in the fourth, shared and routed experts in every second",
    ),
    row(
        "gemma4",
        config(
            "Gemma4ForCausalLM",
            "gemma4_text",
            dtype="dtype",
            **GEMMA,
            global_head_dim=32,
            num_hidden_layers=6,
            num_kv_shared_layers=2,
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=160,
            sliding_window=24,
            intermediate_size=64,
            use_double_wide_mlp=True,
            final_logit_softcapping=30.0,
            attention_bias=False,
            layer_types=[
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "sliding_attention",
                "sliding_attention",
                "full_attention",
            ]
        ),
        scale={"embed_tokens.weight": 0.1},
        # Scores are not divided by the root of the head's size: of norms near 1 they are so large
        # that bf16 decides which key wins.
        shift={"^model.norm.weight": 8.0, "q_norm|k_norm": -0.5},
        features={
            **WIDE,
            "no per-layer inputs": "per_layer_projection",
            "no softcap": {"final_logit_softcapping": None},
        },
        distinct=10,
        note="per-layer inputs, last two layers share keys and values, wide heads in global layers",
    ),
    row(
        "gemma4-moe",
        config(
            "Gemma4ForCausalLM",
            "gemma4_text",
            dtype="dtype",
            **GEMMA,
            global_head_dim=32,
            num_hidden_layers=3,
            hidden_size_per_layer_input=0,
            enable_moe_block=True,
            num_experts=4,
            top_k_experts=2,
            moe_intermediate_size=32,
            sliding_window=24,
            intermediate_size=64,
            attention_k_eq_v=True,
            num_global_key_value_heads=1,
            attention_bias=False,
            final_logit_softcapping=30.0,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"]
        ),
        scale={"embed_tokens.weight": 0.1},
        shift={"^model.norm.weight": 8.0},
        features=WIDE,
        distinct=6,
        note="experts beside a dense MLP, keys serve as values in global layers",
    ),
    row(
        "mistral",
        config(
            "MistralForCausalLM",
            "mistral",
            hidden_size=40,
            intermediate_size=77,
            num_attention_heads=8,
            num_key_value_heads=1,
            head_dim=48,
            vocab_size=201,
            sliding_window=21,
            rope_theta=10000.0,
        ),
        features=WIDE,
        note="sizes that are multiples of nothing, eight heads on one of keys, window 21",
    ),
]
