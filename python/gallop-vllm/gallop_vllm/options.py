"""options.py - what vLLM's configuration and `--additional-config '{"gallop": {...}}'` mean for the
executor, and what of it cannot be done."""
import json

# Options of struct gallop_options that can be given, and "mode".
OPTIONS = {"mode": str, "model": str, "quant": (str, dict), "scales": str, "kv_cache_dtype": str,
           "kv_cache_type": str, "kv_cache_layout": str, "op_config": (str, dict),
           "attention_backend": str, "isa": str, "threads": int, "kv_sparse": str, "allow_links": int,
           "max_logits": int}
# Options that are vLLM's own.
ELSEWHERE = {"revision": "--revision", "dtype": "--dtype", "max_model_len": "--max-model-len",
             "max_num_seqs": "--max-num-seqs", "max_batched_tokens": "--max-num-batched-tokens",
             "block_size": "--block-size", "kv_cache_tokens": "--num-gpu-blocks-override",
             "kv_cache_memory": "--kv-cache-memory-bytes", "seed": "--seed",
             "speculative_config": "--speculative-config"}
MODES = ("blocks", "slots")
KV_DTYPES = {"auto": "auto", "bfloat16": "bf16", "float32": "fp32", "int8_per_token_head": "int8"}
SLOT_TYPES = ("slab_pool", "paged", "dynamic", "bmc")
MAX_DRAFTS = 32


def given(additional_config):
    """Returns the checked object "gallop" of vLLM's additional_config. ValueError."""
    config = additional_config if isinstance(additional_config, dict) else {}
    options = config.get("gallop", {})
    where = 'additional_config["gallop"]'
    if not isinstance(options, dict):
        raise ValueError(f"{where}: found {options!r}, expected an object")
    for name, value in options.items():
        if name in ELSEWHERE:
            raise ValueError(f"{where}: {name} is set by vLLM's option {ELSEWHERE[name]}")
        if name not in OPTIONS:
            raise ValueError(f"{where}: unknown option {name}, expected one of "
                             + ", ".join(sorted(OPTIONS)))
        kinds = OPTIONS[name] if isinstance(OPTIONS[name], tuple) else (OPTIONS[name],)
        if not isinstance(value, kinds):
            raise ValueError(f"{where}: {name} is {value!r}, expected "
                             + " or ".join({str: "a string", int: "an integer",
                                            dict: "an object"}[k] for k in kinds))
    if options.get("mode", "blocks") not in MODES:
        raise ValueError(f"{where}: mode is {options['mode']!r}, expected blocks or slots")
    slots = options.get("mode") == "slots"
    if "kv_cache_type" in options and not slots:
        raise ValueError(f"{where}: kv_cache_type needs the mode slots")
    if options.get("kv_cache_type", "slab_pool") not in SLOT_TYPES:
        raise ValueError(f"{where}: kv_cache_type is {options['kv_cache_type']!r}, expected one of "
                         + ", ".join(SLOT_TYPES))
    return options


def has_slots(options):
    return options.get("mode") == "slots"


def kv_dtype(options, cache_dtype):
    """Returns the library's name of the number format of the KV cache."""
    if cache_dtype not in KV_DTYPES:
        raise ValueError(f"kv_cache_dtype: gallop-vllm supports {', '.join(KV_DTYPES)}, found "
                         f"{cache_dtype}")
    own = KV_DTYPES[cache_dtype]
    if "kv_cache_dtype" in options and own not in ("auto", options["kv_cache_dtype"]):
        raise ValueError(f'kv_cache_dtype: {cache_dtype} and additional_config["gallop"] '
                         f'({options["kv_cache_dtype"]}) differ')
    return options.get("kv_cache_dtype", own)


def block_bytes(kv, dtype, block_size, n_layers, n_heads, head_size):
    """Returns an upper bound of the bytes of a KV block in all layers."""
    kv = dtype if kv == "auto" else kv
    size = {"fp32": 4 * head_size, "bf16": 2 * head_size, "int8": head_size + 4,
            "int4": head_size // 2 + 8}[kv]
    return 2 * block_size * n_layers * n_heads * size


def as_text(value):
    """Returns the value of an option as the library takes it: objects as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value
