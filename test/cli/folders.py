#!/usr/bin/env python3
"""folders.py - checkpoint folders as they are found: configs with every key that a library writes,
tied heads, adapters, pointer files, fused experts.

Folders are made from the goldens by small changes, and their logits are compared bit by bit.
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
    """Returns the tensors of a safetensors file: name to (type, shape, bytes)."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k,
            v in head.items() if k != "__metadata__"}


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
    """Makes GOLDEN's checkpoint with other TENSORS, with the keys of CONFIG in its config (None:
    without the key) and with additional FILES."""
    path = os.path.join(scratch.name, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    keys = {**_json(os.path.join(GOLDEN, golden, "config.json")), **(config or {})}
    for file in os.listdir(os.path.join(GOLDEN, golden)):
        if file not in ("golden", "config.json", "generation_config.json") and not (
                file == "model.safetensors" and tensors is not None):
            shutil.copy(os.path.join(GOLDEN, golden, file), path)
    if tensors is not None:
        _write(os.path.join(path, "model.safetensors"), tensors)
    for file, content in {"config.json": keys, **files}.items():
        os.makedirs(os.path.dirname(os.path.join(path, file)), exist_ok=True)
        with open(os.path.join(path, file), "wb") as f:
            f.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def _logits(model, *options, says=()):
    """Returns the bytes of the logits. Standard error must contain each of SAYS, and must be
    empty without them."""
    out = os.path.join(scratch.name, "x.npy")
    r = call("logits", "-m", model, "--ids", IDS, "--npy", out, "--dtype", "fp32", *options)
    said = r.stderr.decode()
    expect(r.returncode, 0,
           f"status of logits of {os.path.basename(model)} {options}: {said[:300]}")
    check(bool(said) == bool(says) and all(x in said for x in says),
          f"logits of {os.path.basename(model)} say {said!r}, expected {says}")
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


# Keys that files of the hub have in addition to those of the class.
FOUND = {
    "llama3-rope": [{"pretraining_tp": 1, "rope_interleaved": False, "is_llama_config": True,
                     "_flash_attn_2_enabled": False},
                    {"transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}},
                     "unsloth_fixed": True, "unsloth_version": "2025.1.1"},
                    {"max_sequence_length": 2048, "use_sliding_window": False,
                     "quantization_config": None, "torch_dtype": "float16"},
                    {"bos_token": "<s>", "eos_token": "</s>", "_attn_implementation_autoset": True,
                     "model_max_length": 4096}],
    "qwen2": [{"use_mrope": False, "seq_length": 8192, "_name_or_path": "x", "rope_scaling": None},
              {"is_causal": True, "auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}}],
    "mistral": [{"is_decoder": False, "tokenizer_class": "LlamaTokenizer", "use_bias": False}],
    "mixtral": [{"router_jitter_noise": 0.01, "output_router_logits": True,
                 "router_aux_loss_coef": 0.02}],
    "phi3": [{"embd_pdrop": 0.1, "resid_pdrop": 0.1, "attention_bias": False, "lm_head_bias": False,
              "mlp_bias": False,
              "full_attn_mod": 1, "interpolate_factor": 1, "partial_rotary_factor": 1.0}],
    "gpt2": [{"n_special": 0, "predict_special_tokens": True, "output_past": True,
              "summary_first_dropout": 0.1, "xla_device": True,
              "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
              "_num_labels": 1}],
    "gptj": [{"rotary": True, "scale_attn_weights": True, "summary_type": "cls_index",
              "gradient_checkpointing": False}],
    "opt": [{"prefix": "</s>", "_remove_final_layer_norm": False, "activation_dropout": 0.0}],
    "gemma3": [{"cache_implementation": "hybrid", "use_bidirectional_attention": False,
                "_sliding_window_pattern": 6}],
    "gpt-oss": [{"experts_per_token": 4, "initial_context_length": 4096,
                 "output_router_logits": False}],
}


def keys_that_files_of_the_hub_have_are_known():
    for golden, patches in FOUND.items():
        plain = _logits(_folder("plain", golden))
        for patch in patches:
            check(_logits(_folder("found", golden, config=patch)) == plain,
                  f"{golden} with {patch} computes the same")


def a_key_that_changes_the_maths_is_refused_by_name():
    for golden in ("llama3-rope", "qwen2", "mistral", "qwen3", "gemma3", "gpt2", "opt", "llama4",
                   "gemma4"):
        for off in (False, None):
            _refused(_folder("causal", golden, config={"is_causal": off}), "config.json",
                     "in both directions")
    _refused(_folder("causal", "gemma3", config={"use_bidirectional_attention": True}),
             "config.json", "in both directions")
    _refused(_folder("causal", "gemma3", config={"use_bidirectional_attention": True,
                                                 "is_causal": False}), "expected only one")
    # as many as heads, in place of the 8 of the class; the golden has none
    _refused(_folder("null", "mistral", config={"num_key_value_heads": None}), "k_proj.weight",
             "config.json asks for")
    for golden, key in (("llama3-rope", "hidden_size"), ("mistral", "rms_norm_eps"),
                        ("gpt2", "n_head"), ("opt", "ffn_dim")):
        _refused(_folder("null", golden, config={key: None}), "config.json", f"{key} is null")
    for patch in ({"output_multiplier_scale": 0.5}, {"num_experts_per_token": 2},
                  {"_attention_scale": 2}, {"use_rope": False}, {"norm_topk_prob": None},
                  {"attention_dropouts_scale": 0.5}, {"text_scale": 0}):
        _refused(_folder("key", "llama3-rope", config=patch), "config.json", *patch,
                 "may change what this model computes")


# ---- heads ----

def _embedding(t):
    return t["model.embed_tokens.weight"]


def a_head_of_the_file_counts_more_than_tie_word_embeddings():
    tied = _tensors("llama3-rope")  # Its config says that they are tied.
    plain = _logits(_folder("plain", "llama3-rope"))
    check("lm_head.weight" not in tied, "the golden has no head of its own")
    dtype, shape, data = _embedding(tied)
    same = _folder("same", "llama3-rope", {**tied, "lm_head.weight": (dtype, shape, data)})
    check(_logits(same) == plain,
          "a stored copy of the embedding is the tied head, and nothing is said")
    wide = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    check(_logits(_folder("same", "llama3-rope", {**tied, "lm_head.weight": ("F32", shape, wide)}))
          == plain, "as fp32, too")
    other = {**tied, "lm_head.weight": (dtype, shape, data[:-2] + b"\x80\x3f")}
    apart = _folder("apart", "llama3-rope", other, {"tie_word_embeddings": False})
    both = _folder("both", "llama3-rope", other)
    says = (
        "warning",
        "tie_word_embeddings is true, but lm_head.weight differs from model.embed_tokens.weight",
        "the head of the file is used")
    far = {**tied, "lm_head.weight": ("F32", shape, wide[:-1] + bytes([wide[-1] ^ 1]))}
    check(_logits(_folder("far", "llama3-rope", far), says=says) not in (None, plain),
          "one in fp32 that differs in its last number, too")
    wanted = _logits(apart)
    check(wanted != plain and _logits(both, says=says) == wanted,
          "another head of the file is used")
    packed = os.path.join(scratch.name, "both.gallop")
    for model in (both, same):
        expect(call("pack", "-m", model, "-o", packed, "--force", "--quiet", "--dtype",
                    "fp32").returncode, 0, "status of pack")
        check(_logits(packed) == (wanted if model == both else plain),
              "and stays so in a packed checkpoint")
    _refused(_folder("short", "llama3-rope", {**tied, "lm_head.weight": (
        dtype, [shape[0] - 1, shape[1]], data[:-2 * shape[1]])}), "lm_head.weight", "[191, 48]",
             "[192, 48]")
    alone = {("lm_head.weight" if k == "model.embed_tokens.weight" else k): v for k,
             v in tied.items()}
    check(_logits(_folder("alone", "llama3-rope", alone)) == plain,
          "a tied table may be stored as the head alone")


def _sharded(name, golden, names, config=None):
    """Writes GOLDEN in two shards, with an index that also has NAMES, all in the first shard."""
    t = _tensors(golden)
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    where = {k: files[i % 2] for i, k in enumerate(t)}
    index = {"metadata": {}, "weight_map": {**where, **{k: files[0] for k in names}}}
    path = _folder(name, golden, {}, config, {"model.safetensors.index.json": index})
    os.remove(os.path.join(path, "model.safetensors"))
    for f in files:
        _write(os.path.join(path, f), {k: v for k, v in t.items() if where[k] == f})
    return path


def an_index_may_name_a_tied_head_and_buffers_that_no_shard_holds():
    plain = _logits(_folder("plain", "llama3-rope"))
    for names in ([], ["lm_head.weight"],
                  ["lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"]):
        check(_logits(_sharded("index", "llama3-rope", names)) == plain,
              f"an index that names {names}, too, is the same model")
    _refused(_sharded("index", "llama3-rope", ["model.layers.9.mlp.up_proj.weight"]),
             "model.layers.9.mlp.up_proj.weight", "the file that the index gives")
    _refused(_sharded("index", "llama3-rope", ["lm_head.weight"], {"tie_word_embeddings": False}),
             "lm_head.weight is missing")


def a_model_without_a_head_generates_nothing():
    for golden, name in (("qwen2", "Qwen2Model"), ("mistral", "MistralModel"),
                         ("llama2-bin", "LlamaModel"), ("qwen3", "Qwen3Model"),
                         ("mixtral", "MixtralModel"), ("qwen3-moe", "Qwen3MoeModel"),
                         ("phi3", "Phi3Model"), ("gpt-oss", "GptOssModel")):
        if golden == "llama2-bin":
            golden, bare = "llama3-rope", {"tie_word_embeddings": False}
        else:
            bare = {"tie_word_embeddings": False}
        t = {k[len("model."):]: v for k, v in _tensors(golden).items() if k.startswith("model.")}
        path = _folder("bare", golden, t, {**bare, "architectures": [name]})
        for verb in (("run", "--ids", "1", "-n", "1"), ("logits", "--ids", "1"),
                     ("bench", "--ids", "1")):
            if verb[0] != "bench":
                expect_error(call(verb[0], "-m", path, *verb[1:]), 1, "lm_head.weight is missing",
                             "/v1/embeddings")
        expect(call("inspect", "-m", path).returncode, 0, f"status of inspect of {name}")


# ---- experts ----

def _fused(golden, module, names):
    """Returns the tensors of GOLDEN with experts stacked as transformers 5 has them in memory."""
    t, out, layers = _tensors(golden), {}, {}
    for k, v in t.items():
        if f".{module}.experts." not in k:
            out[k.replace(f".{module}.gate.", ".mlp.gate.")] = v
            continue
        layer, rest = k.split(f".{module}.experts.")
        number, part = rest.split(".")[:2]
        layers.setdefault(layer, {})[int(number), part] = v
    gate, up, down = names
    for layer, parts in layers.items():
        n = 1 + max(x for x, _ in parts)
        dtype, (inner, hidden), _ = parts[0, gate]
        out[f"{layer}.mlp.experts.gate_up_proj"] = (dtype, [n, 2 * inner, hidden], b"".join(
            parts[x, gate][2] + parts[x, up][2] for x in range(n)))
        out[f"{layer}.mlp.experts.down_proj"] = (dtype, [n, hidden, inner],
                                                 b"".join(parts[x, down][2] for x in range(n)))
    return out


def fused_experts_are_those_that_lie_apart():
    for golden, module, names in (("mixtral", "block_sparse_moe", ("w1", "w3", "w2")),
                                  ("qwen3-moe", "mlp", ("gate_proj", "up_proj", "down_proj"))):
        plain, fused = _folder("plain", golden), _folder("fused", golden,
                                                         _fused(golden, module, names))
        for options in ((), ("--quant", "none"), ("--quant", "int8"), ("--quant", "int4"),
                        ("--quant", "mxfp4")):
            check(_logits(fused, *options) == _logits(plain, *options),
                  f"{golden}: fused experts give the same with {options}")
        packed = os.path.join(scratch.name, "fused.gallop")
        expect(call("pack", "-m", fused, "-o", packed, "--force", "--quiet", "--dtype",
                    "fp32").returncode, 0, f"status of pack of {golden}")
        check(_logits(packed) == _logits(plain), f"{golden}: packed fused experts give the same")
        scales = []
        for model in (plain, fused):
            with open(os.path.join(model, "tokenizer.json"), "w") as f:
                json.dump({"model": {"type": "BPE", "vocab": {chr(32 + i): i for i in range(95)},
                                     "merges": []}}, f)
            out, text = os.path.join(scratch.name,
                                     "scales.json"), os.path.join(scratch.name, "text")
            with open(text, "w") as f:
                f.write("The quick brown fox jumps over the lazy dog, and 9 others look on. " * 8)
            expect(call("calibrate", "-m", model, "--file", text, "-o", out, "--force",
                        "--quiet").returncode, 0, f"status of calibrate of {golden}")
            scales.append(_json(out)["linears"])
        check(any(".experts.2." in k for k in scales[0]),
              f"experts have scales: {list(scales[0])[:9]}")
        expect(scales[1], {k.replace("block_sparse_moe", "mlp").replace("w2", "down_proj"): x for k,
                           x in scales[0].items()},
               f"{golden}: each fused expert has scales of its own")
        short = _fused(golden, module, names)
        key = next(k for k in short if k.endswith("gate_up_proj"))
        dtype, shape, data = short[key]
        _refused(_folder("short", golden, {**short, key: (dtype, [shape[0], shape[2], shape[1]],
                                                          data)}), key, "config.json asks for")


# ---- folders that are not models ----

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4" * 64 + b"\nsize 4727864\n"


def a_pointer_of_git_lfs_is_called_that():
    for file in ("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json",
                 "config.json"):
        path = _folder("lfs", "llama3-rope", {}, files={file: LFS})
        if file != "model.safetensors":
            os.remove(os.path.join(path, "model.safetensors"))
        _refused(path, file, "Git LFS pointer", "git lfs pull")
    path = _folder("lfs", "llama3-rope", files={"tokenizer.json": LFS, "x.gguf": LFS})
    expect_error(call("tokenize", "-m", path, "text"), 1, "tokenizer.json", "Git LFS pointer",
                 "git lfs pull")
    _refused(os.path.join(path, "x.gguf"), "x.gguf", "Git LFS pointer")
    with open(os.path.join(path, "x.gallop"), "wb") as f:
        f.write(LFS)
    _refused(os.path.join(path, "x.gallop"), "x.gallop", "Git LFS pointer")
    with open(os.path.join(path, "x.gallop"), "wb") as f:
        f.write(LFS[1:])
    _refused(os.path.join(path, "x.gallop"), "x.gallop", "this file is not a model")


def an_adapter_is_refused_by_name():
    about = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 4}
    for base in (True, False):
        path = _folder("adapter", "llama3-rope",
                       files={"adapter_config.json": about, "adapter_model.safetensors": b"x"})
        if not base:
            os.remove(os.path.join(path, "config.json"))
            os.remove(os.path.join(path, "model.safetensors"))
        _refused(path, "adapter_config.json", "org/base", "not supported", "merge_and_unload",
                 *(["remove the file"] if base else []))
    _refused(_folder("adapter", "llama3-rope", files={"adapter_config.json": b"[]"}),
             "adapter_config.json", "not supported")


def files_of_macos_are_passed_over():
    apple = b"\0\5\x16\7\0\2\0\0Mac OS X        "
    plain = _logits(_folder("plain", "llama3-rope"))
    path = _folder("mac", "llama3-rope",
                   files={"._model.safetensors": apple, "._config.json": apple, "._x.gguf": apple})
    check(_logits(path) == plain, "a folder with files of macOS is the same model")
    os.rename(os.path.join(path, "model.safetensors"), os.path.join(path, "weights.safetensors"))
    check(_logits(path) == plain, "its one .safetensors file is found")
    _refused(os.path.join(path, "._x.gguf"), "macOS")


def folders_that_are_no_model_say_what_to_do():
    golden = os.path.join(GOLDEN, "llama3-rope")
    cache = os.path.join(scratch.name, "hub")
    shutil.copytree(golden, os.path.join(cache, "models--org--name", "snapshots", "a1b2c3"))
    root = os.path.join(cache, "models--org--name")
    _refused(root, f"{root}/snapshots/a1b2c3", "org/name")
    for commit in ("99aa", "f0f0"):
        shutil.copytree(golden, os.path.join(root, "snapshots", commit))
    os.makedirs(os.path.join(root, "refs"))
    for main, named in ((b"99aa", "99aa"), (b"gone", "f0f0")):
        with open(os.path.join(root, "refs", "main"), "wb") as f:
            f.write(main)
        _refused(root, f"{root}/snapshots/{named},")
    _refused(cache, "hub's cache", "models--org--name", "org/name")
    meta = os.path.join(scratch.name, "meta")
    os.makedirs(meta)
    for file in ("params.json", "consolidated.00.pth", "tokenizer.model"):
        with open(os.path.join(meta, file), "w") as f:
            f.write("{}")
    _refused(meta, "params.json", "convert_llama_weights_to_hf.py", "Hugging Face")
    path = _folder("maker", "llama3-rope", files={"params.json": {}})
    check(_logits(path) == _logits(_folder("plain", "llama3-rope")),
          "params.json beside config.json does not matter")
    os.rename(os.path.join(path, "model.safetensors"),
              os.path.join(path, "consolidated.safetensors"))
    _refused(path, "consolidated.safetensors", "vendor's own format")
    path = _folder("gguf", "llama3-rope", files={"model-q4.gguf": b"GGUF"})
    check(_logits(path) == _logits(_folder("plain", "llama3-rope")),
          "weights of the folder go before a GGUF file")
    os.remove(os.path.join(path, "model.safetensors"))
    _refused(path, "model-q4.gguf", "name that file")
    for file, word in (("consolidated.00.pth", "convert_llama_weights_to_hf.py"),
                       ("tf_model.h5", "safetensors"), ("flax_model.msgpack", "safetensors")):
        path = _folder("other", "llama3-rope", files={file: b"x"})
        os.remove(os.path.join(path, "model.safetensors"))
        _refused(path, file, word)


run_all(list(globals().items()))
