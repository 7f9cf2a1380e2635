"""options.py - what vLLM's configuration and `--additional-config '{"gallop": {...}}'` mean for the
executor, and what of it cannot be done."""
import json

# Options of struct gallop_options that can be given, and "mode".
OPTIONS = {"mode": str, "model": str, "quant": (str, dict), "scales": str, "kv_cache_dtype": str,
           "kv_cache_type": str, "kv_cache_layout": str, "op_config": (str, dict),
           "attention_backend": str, "isa": str, "threads": int, "kv_sparse": str, "allow_links": int,
           "max_logits": int, "executor": str, "pjrt_plugin": str, "pjrt_device": int,
           "pjrt_options": (str, dict), "executor_process": int, "prompt_buckets": str,
           "batch_buckets": str, "context_buckets": str}
# Options that are vLLM's own.
ELSEWHERE = {"revision": "--revision", "dtype": "--dtype", "max_model_len": "--max-model-len",
             "max_num_seqs": "--max-num-seqs", "max_batched_tokens": "--max-num-batched-tokens",
             "block_size": "--block-size", "kv_cache_tokens": "--num-gpu-blocks-override",
             "kv_cache_memory": "--kv-cache-memory-bytes", "seed": "--seed",
             "speculative_config": "--speculative-config"}
# Options with a fixed set of values.
CHOICES = {"mode": ("blocks", "slots"), "executor": ("eager", "pjrt"),
           "kv_cache_dtype": ("fp32", "bf16", "int8", "int4"),
           "kv_cache_type": ("slab_pool", "paged", "dynamic", "bmc")}
# vLLM's --kv-cache-dtype and the library's names.
KV_DTYPES = {"auto": "auto", "bfloat16": "bf16", "int8_per_token_head": "int8",
             "int4_per_token_head": "int4"}
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
        if name in CHOICES and value not in CHOICES[name]:
            raise ValueError(f"{where}: {name} is {value!r}, expected one of "
                             + ", ".join(CHOICES[name]))
    _check_executor(options, where)
    if "kv_cache_type" in options and not has_slots(options):
        raise ValueError(f"{where}: kv_cache_type needs the mode slots")
    return options


def _check_executor(options, where):
    if not has_frames(options):
        for name in ("pjrt_plugin", "pjrt_device", "pjrt_options", "executor_process",
                     "prompt_buckets", "batch_buckets", "context_buckets"):
            if name in options:
                raise ValueError(f"{where}: {name} needs the executor pjrt")
    elif options.get("mode") == "blocks":
        raise ValueError(f"{where}: the executor pjrt has slots, not blocks")


def has_frames(options):
    return options.get("executor") == "pjrt"


def has_slots(options):
    return options.get("mode", "slots" if has_frames(options) else "blocks") == "slots"


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


def check_weights(own, found, expected):
    """Refuses a file of weights, the option "model", that is not one of vLLM's model. FOUND and
    EXPECTED are (number of layers, size of the vocabulary) of the file and of vLLM's model."""
    if "model" in own and found != expected:
        raise ValueError('additional_config["gallop"]: model %s has %d layers and a vocabulary of %d '
                         "tokens, but vLLM's model has %d and %d: it is another model"
                         % (own["model"], *found, *expected))


def as_text(value):
    """Returns the value of an option as the library takes it: objects as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value
