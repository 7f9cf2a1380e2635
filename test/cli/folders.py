#!/usr/bin/env python3
"""folders.py - folders as they are found: configs with every key that a library writes, tied heads, adapters, pointers, fused experts.

Folders are made from the goldens by small changes; what must be the same is compared bit by bit.
"""
import json
import os
import shutil
import struct
import tempfile

from _cli import ROOT, call, check, expect, expect_error, run_all

GOLDEN = os.path.join(ROOT, "test", "golden")
CONFIGS = os.path.join(ROOT, "test", "data", "configs")
IDS = ",".join(str(i) for i in range(3, 40))
scratch = tempfile.TemporaryDirectory()


def _read(path):
    """Tensors of a safetensors file: name to (type, shape, bytes)."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in head.items() if k != "__metadata__"}


def _write(path, tensors):
    head, at = {}, 0
    for k, (dtype, shape, data) in tensors.items():
        head[k] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(x[2] for x in tensors.values()))


def _tensors(golden):
    return _read(os.path.join(GOLDEN, golden, "model.safetensors"))


def _json(path):
    with open(path) as f:
        return json.load(f)


def _folder(name, golden, tensors=None, config=None, files={}):
    """GOLDEN's checkpoint with other TENSORS, keys of CONFIG in its config (None: without the key) and FILES beside it."""
    path = os.path.join(scratch.name, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    keys = {**_json(os.path.join(GOLDEN, golden, "config.json")), **(config or {})}
    for file in os.listdir(os.path.join(GOLDEN, golden)):
        if file not in ("golden", "config.json", "generation_config.json") and not (file == "model.safetensors" and tensors is not None):
            shutil.copy(os.path.join(GOLDEN, golden, file), path)
    if tensors is not None:
        _write(os.path.join(path, "model.safetensors"), tensors)
    for file, content in {"config.json": keys, **files}.items():
        os.makedirs(os.path.dirname(os.path.join(path, file)), exist_ok=True)
        with open(os.path.join(path, file), "wb") as f:
            f.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def _logits(model, *options, says=()):
    """The bytes of the logits; on stderr each of SAYS, and nothing without them."""
    out = os.path.join(scratch.name, "x.npy")
    r = call("logits", "-m", model, "--ids", IDS, "--npy", out, "--quiet", "--dtype", "fp32", *options)
    said = r.stderr.decode()
    expect(r.returncode, 0, f"status of logits of {os.path.basename(model)} {options}: {said[:300]}")
    check(bool(said) == bool(says) and all(x in said for x in says), f"logits of {os.path.basename(model)} say {said!r}, expected {says}")
    if r.returncode:
        return None
    with open(out, "rb") as f:
        return f.read()


def _refused(model, *words):
    expect_error(call("run", "-m", model, "--ids", "1", "-n", 1), 1, *words)


# ---- config.json ----

def every_key_that_transformers_writes_is_known():
    for version in ("4", "5"):
        for golden, config in _json(os.path.join(CONFIGS, f"transformers-{version}.json")).items():
            path = _folder("config", golden)
            with open(os.path.join(path, "config.json"), "w") as f:
                json.dump(config, f)
            same = _logits(path) == _logits(_folder("plain", golden))
            check(same, f"{golden} with all keys of transformers {version} computes the same")


# Keys that files of the hub have beside those of the class.
FOUND = {
    "llama3-rope": [{"pretraining_tp": 1, "rope_interleaved": False, "is_llama_config": True, "_flash_attn_2_enabled": False},
                    {"transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}}, "unsloth_fixed": True, "unsloth_version": "2025.1.1"},
                    {"max_sequence_length": 2048, "use_sliding_window": False, "quantization_config": None, "torch_dtype": "float16"},
                    {"bos_token": "<s>", "eos_token": "</s>", "_attn_implementation_autoset": True, "model_max_length": 4096}],
    "qwen2": [{"use_mrope": False, "seq_length": 8192, "_name_or_path": "x", "rope_scaling": None},
              {"is_causal": True, "auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}}],
    "mistral": [{"is_decoder": False, "tokenizer_class": "LlamaTokenizer", "use_bias": False}],
    "mixtral": [{"router_jitter_noise": 0.01, "output_router_logits": True, "router_aux_loss_coef": 0.02}],
    "phi3": [{"embd_pdrop": 0.1, "resid_pdrop": 0.1, "attention_bias": False, "lm_head_bias": False, "mlp_bias": False,
              "full_attn_mod": 1, "interpolate_factor": 1, "partial_rotary_factor": 1.0}],
    "gpt2": [{"n_special": 0, "predict_special_tokens": True, "output_past": True, "summary_first_dropout": 0.1, "xla_device": True,
              "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "_num_labels": 1}],
    "gptj": [{"rotary": True, "scale_attn_weights": True, "summary_type": "cls_index", "gradient_checkpointing": False}],
    "opt": [{"prefix": "</s>", "_remove_final_layer_norm": False, "activation_dropout": 0.0}],
    "gemma3": [{"cache_implementation": "hybrid", "use_bidirectional_attention": False, "_sliding_window_pattern": 6}],
    "gpt-oss": [{"experts_per_token": 4, "initial_context_length": 4096, "output_router_logits": False}],
}


def keys_that_files_of_the_hub_have_are_known():
    for golden, patches in FOUND.items():
        plain = _logits(_folder("plain", golden))
        for patch in patches:
            check(_logits(_folder("found", golden, config=patch)) == plain, f"{golden} with {patch} computes the same")


def a_key_that_changes_the_maths_is_refused_by_name():
    for golden in ("llama3-rope", "qwen2", "mistral", "qwen3", "gemma3", "gpt2", "opt"):
        for off in (False, None):
            _refused(_folder("causal", golden, config={"is_causal": off}), "config.json", "is_causal is " + ("null" if off is None else "false"),
                     "both directions")
    _refused(_folder("causal", "gemma3", config={"use_bidirectional_attention": True}), "use_bidirectional_attention", "both directions")
    for patch in ({"output_multiplier_scale": 0.5}, {"num_experts_per_token": 2}, {"_attention_scale": 2}, {"use_rope": False},
                  {"norm_topk_prob": None}, {"attention_dropouts_scale": 0.5}, {"text_scale": 0}):
        _refused(_folder("key", "llama3-rope", config=patch), "config.json", *patch, "may change what it computes")


run_all(list(globals().items()))
