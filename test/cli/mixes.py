#!/usr/bin/env python3
"""mixes.py - GGUF files of several quantized formats, as llama.cpp's Q2_K, Q3_K_M and IQ4_XS are,
hold the numbers of their formats.

Each is made here of the first layers of the bundled model, whose rows of 192 cannot be Q2_K, Q3_K
or IQ4_XS and become IQ4_NL, as they do in llama.cpp; beside it lies a folder of the same numbers in
fp32. Formats: gguf-py/gguf/quants.py of llama.cpp.
"""
import array
import json
import math
import os
import struct
import tempfile

from _cli import DEMO, call, expect, check, run_all

FOLDER = tempfile.TemporaryDirectory()
LAYERS, HEADS, KV_HEADS, DIM, WIDTH, MIDDLE = 2, 6, 2, 32, 192, 512
IDS = "1,403,262,263,310,400,17,99"
TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
NEAREST = [min(range(16), key=lambda i: abs(TABLE[i] - v)) for v in range(-128, 129)]
F32, BF16 = 0, 30


def _half(x):
    """X as fp16: the number that it becomes, and its bytes."""
    data = struct.pack("<e", x)
    return struct.unpack("<e", data)[0], data


def _nibbles(codes):
    return bytes(codes[i] | codes[i + 16] << 4 for i in range(16))


def _twos(codes):
    return bytes(sum(codes[128 * j + 32 * s + i] << 2 * s for s in range(4))
                 for j in range(2) for i in range(32))


def _fit(x, step, low, high):
    return [min(max(round(v / step), low), high) if step else 0 for v in x]


# Functions of one group: its bytes, and the numbers that these stand for.
def _iq4_nl(x):
    d, head = _half(max(x, key=abs) / -127)
    codes = [NEAREST[min(max(round(v / d), -128), 128) + 128] if d else 8 for v in x]
    return head + _nibbles(codes), [d * TABLE[c] for c in codes]


def _iq4_xs(x):
    parts = [x[i:i + 32] for i in range(0, 256, 32)]
    most = [max(map(abs, p)) / 127 for p in parts]
    d, head = _half(max(most) / 31)
    scales = _fit(most, d, 0, 31)
    body, numbers = b"", []
    for p, s in zip(parts, scales):
        codes = [NEAREST[min(max(round(v / (d * s)), -128), 128) + 128] if d * s else 8 for v in p]
        body += _nibbles(codes)
        numbers += [d * s * TABLE[c] for c in codes]
    stored = [s + 32 for s in scales]
    high = sum((s >> 4) << 2 * i for i, s in enumerate(stored))
    low = bytes(stored[i] & 15 | (stored[i + 1] & 15) << 4 for i in range(0, 8, 2))
    return head + struct.pack("<H", high) + low + body, numbers


def _q3_k(x):
    parts = [x[i:i + 16] for i in range(0, 256, 16)]
    most = [max(p, key=abs) / -4 for p in parts]
    d, head = _half(max(map(abs, most)) / 31)
    scales = _fit(most, d, -31, 31)
    codes = [c + 4 for p, s in zip(parts, scales) for c in _fit(p, d * s, -4, 3)]
    numbers = [d * scales[i // 16] * (c - 4) for i, c in enumerate(codes)]
    stored = [s + 32 for s in scales]
    packed = bytes(stored[i] & 15 | (stored[i + 8] & 15) << 4 for i in range(8))
    packed += bytes(sum((stored[i + 4 * j] >> 4) << 2 * j for j in range(4)) for i in range(4))
    high = bytes(sum((codes[32 * g + i] >> 2) << g for g in range(8)) for i in range(32))
    return high + _twos([c & 3 for c in codes]) + packed + head, numbers


def _q2_k(x):
    parts = [x[i:i + 16] for i in range(0, 256, 16)]
    lows = [max(0, -min(p)) for p in parts]
    steps = [(max(p) + m) / 3 for p, m in zip(parts, lows)]
    (d, head), (dmin, tail) = _half(max(steps) / 15), _half(max(lows) / 15)
    scales, mins = _fit(steps, d, 0, 15), _fit(lows, dmin, 0, 15)
    codes = [c for p, s, m in zip(parts, scales, mins)
             for c in _fit([v + dmin * m for v in p], d * s, 0, 3)]
    numbers = [d * scales[i // 16] * c - dmin * mins[i // 16] for i, c in enumerate(codes)]
    return bytes(s | m << 4 for s, m in zip(scales, mins)) + _twos(codes) + head + tail, numbers


FORMATS = {"IQ4_NL": (20, 32, _iq4_nl), "IQ4_XS": (23, 256, _iq4_xs), "Q3_K": (11, 256, _q3_k),
           "Q2_K": (10, 256, _q2_k)}


def _read():
    """The tensors of the demo model, in bf16: name, (shape, bytes)."""
    with open(os.path.join(DEMO, "model.safetensors"), "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    head, data = json.loads(data[8:8 + n]), data[8 + n:]
    return {k: (v["shape"], data[slice(*v["data_offsets"])])
            for k, v in head.items() if k != "__metadata__"}


def _floats(data):
    """Numbers in bf16."""
    return list(array.array("f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))))


def _text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def _value(v):
    if isinstance(v, str):
        return struct.pack("<I", 8) + _text(v)
    return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)


def _write_gguf(path, tensors):
    sizes = {"block_count": LAYERS, "context_length": 1024, "embedding_length": WIDTH,
             "feed_forward_length": MIDDLE, "attention.head_count": HEADS,
             "attention.head_count_kv": KV_HEADS, "attention.key_length": DIM,
             "attention.value_length": DIM, "rope.dimension_count": DIM, "rope.freq_base": 10000.0,
             "attention.layer_norm_rms_epsilon": 1e-5, "vocab_size": 2048}
    about = {"general.architecture": "llama", "tokenizer.ggml.model": "none",
             **{f"llama.{k}": v for k, v in sizes.items()}}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(about))
    head += b"".join(_text(k) + _value(v) for k, v in about.items())
    data = b""
    for name, (kind, shape, content) in tensors.items():
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += _text(name) + dims + struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


def _write_folder(path, tensors):
    os.makedirs(path)
    with open(os.path.join(DEMO, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump({**config, "num_hidden_layers": LAYERS, "torch_dtype": "float32"}, f)
    head, data = {}, b""
    for name, (shape, content) in tensors.items():
        end = len(data) + len(content)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), end]}
        data += content
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        text = json.dumps(head).encode()
        f.write(len(text).to_bytes(8, "little") + text + data)


def _zipped(rows, heads):
    """The rows of q and k in the order of llama.cpp: halves of a head alternate."""
    each = len(rows) // heads
    return [rows[h * each + s * each // 2 + i]
            for h in range(heads) for i in range(each // 2) for s in range(2)]


PARTS = {"self_attn.q_proj": ("attn_q", HEADS), "self_attn.k_proj": ("attn_k", KV_HEADS),
         "self_attn.v_proj": ("attn_v", 0), "self_attn.o_proj": ("attn_output", 0),
         "mlp.gate_proj": ("ffn_gate", 0), "mlp.up_proj": ("ffn_up", 0),
         "mlp.down_proj": ("ffn_down", 0)}


def _make(down):
    """A file whose matrices of long rows are DOWN, and the folder of its numbers."""
    source, stored, plain = _read(), {}, {}
    for name, new in {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}.items():
        shape, data = source[f"{name}.weight"]
        numbers = struct.pack(f"<{math.prod(shape)}f", *_floats(data))
        plain[f"{name}.weight"] = shape, numbers
        stored[f"{new}.weight"] = (BF16, shape, data) if len(shape) == 2 else (F32, shape, numbers)
    for i in range(LAYERS):
        norms = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
        for name, new in norms.items():
            shape, data = source[f"model.layers.{i}.{name}.weight"]
            numbers = struct.pack(f"<{shape[0]}f", *_floats(data))
            plain[f"model.layers.{i}.{name}.weight"] = shape, numbers
            stored[f"blk.{i}.{new}.weight"] = F32, shape, numbers
        for name, (new, heads) in PARTS.items():
            shape, data = source[f"model.layers.{i}.{name}.weight"]
            kind, size, group = FORMATS["IQ4_NL" if shape[1] % 256 else down]
            x, rows, numbers = _floats(data), [], []
            for r in range(shape[0]):
                row = x[r * shape[1]:(r + 1) * shape[1]]
                made = [group(row[k:k + size]) for k in range(0, shape[1], size)]
                rows.append(b"".join(m[0] for m in made))
                numbers += [v for m in made for v in m[1]]
            numbers = struct.pack(f"<{len(numbers)}f", *numbers)
            plain[f"model.layers.{i}.{name}.weight"] = shape, numbers
            rows = _zipped(rows, heads) if heads else rows
            stored[f"blk.{i}.{new}.weight"] = kind, shape, b"".join(rows)
    folder = os.path.join(FOLDER.name, down)
    path = folder + ".gguf"
    _write_gguf(path, stored)
    _write_folder(folder, plain)
    return path, folder


def _logits(model, *options):
    path = os.path.join(FOLDER.name, "x.npy")
    r = call("logits", "-m", model, "--ids", IDS, "--npy", path, "--quiet", *options)
    expect(r.returncode, 0, f"status of logits {os.path.basename(model)} {options}: {r.stderr}")
    with open(path, "rb") as f:
        data = f.read()
    x = array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])
    return [x[i:i + 2048] for i in range(0, len(x), 2048)]


def _divergence(a, b):
    """The mean KL divergence of the rows of B from those of A."""
    total = 0
    for x, y in zip(a, b):
        x, y = ([v - max(r) for v in r] for r in (x, y))
        p, q = (math.log(math.fsum(map(math.exp, r))) for r in (x, y))
        total += math.fsum(math.exp(u - p) * ((u - p) - (v - q)) for u, v in zip(x, y))
    return total / len(a)


def mixes_of_formats_hold_their_numbers_and_generate():
    for down in ("Q2_K", "Q3_K", "IQ4_XS"):
        path, folder = _make(down)
        exact = _logits(folder, "--dtype", "fp32")
        expect(_logits(path, "--dtype", "fp32") == exact, True, f"logits of {down} in fp32")
        stored = _divergence(exact, _logits(path))
        check(stored < 0.002, f"{down} as stored has a mean KL of {stored} from its numbers in fp32")
        r = call("inspect", "-m", path, "--json")
        kinds = {x["dtype"] for x in json.loads(r.stdout)["tensors"] if "_proj" in x["name"]}
        expect(kinds, {"IQ4_NL", down}, f"formats of {down}")
        r = call("run", "-m", path, "--ids", IDS, "-n", 8, "--json")
        expect(r.returncode, 0, f"status of run {down}: {r.stderr}")


run_all(list(globals().items()))
