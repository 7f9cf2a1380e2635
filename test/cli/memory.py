#!/usr/bin/env python3
"""memory.py - the memory that a model takes while it is opened: its packed weights and little
more, without a copy of the file."""
import json
import os
import struct
import subprocess
import tempfile

from _cli import GALLOP, check, run_all

V, E, I, LAYERS = 65536, 1024, 8192, 2
# the program, scratch that one token writes, and 32 MiB of the file that are being packed
MARGIN = 110 << 20


def _write_model(folder, tied):
    """Writes a model of zeros, which take no space on the disk. Returns the bytes of the
    weights."""
    tensor = {"model.embed_tokens.weight": (V, E), "model.norm.weight": (E,)}
    if not tied:
        tensor["lm_head.weight"] = (V, E)
    for n in range(LAYERS):
        at = f"model.layers.{n}."
        tensor |= {at + f"{name}_layernorm.weight": (E,) for name in ("input", "post_attention")}
        tensor |= {at + f"self_attn.{name}_proj.weight": (E, E) for name in "qkvo"}
        tensor |= {at + "mlp.gate_proj.weight": (I, E), at + "mlp.up_proj.weight": (I, E),
                   at + "mlp.down_proj.weight": (E, I)}
    header, end = {}, 0
    for name, shape in tensor.items():
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + end)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"architectures": ["LlamaForCausalLM"], "hidden_size": E, "intermediate_size": I,
                   "num_hidden_layers": LAYERS, "num_attention_heads": 16, "vocab_size": V,
                   "max_position_embeddings": 131072, "tie_word_embeddings": tied,
                   "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"}, f)
    return end


def _most_memory(*arguments):
    """Returns the largest resident memory of the program in bytes, including mapped files."""
    with subprocess.Popen([GALLOP, *map(str, arguments)], stdout=subprocess.DEVNULL) as p:
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    check(p.returncode == 0, f"status {p.returncode} of {arguments}")
    return usage.ru_maxrss * 1024


def weights_are_not_in_memory_twice():
    with open(GALLOP, "rb") as f:
        program = f.read()
    if b"__asan_init" in program or b"__tsan_init" in program:
        return  # It has its own memory.
    for tied in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            weights = _write_model(folder, tied)
            most = _most_memory("run", "-m", folder, "--ids", "1,2,3", "-n", 2, "--ignore-eos")
            check(most < weights + MARGIN,
                  f"{most >> 20} MiB for {weights >> 20} MiB of weights, tied: {tied}")
            check(most > weights, f"{most >> 20} MiB cannot hold {weights >> 20} MiB of weights")


run_all(list(globals().items()))
