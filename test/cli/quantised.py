#!/usr/bin/env python3
"""quantised.py - folders of GPTQ, AWQ and compressed-tensors have the numbers that their formats
define, and inconsistent ones are refused.

Each folder is made from a small golden by rounding its linears, together with a folder of the same
numbers in fp32. The logits in fp32 must be equal. Formats: AutoGPTQ, AutoAWQ ("gemm"),
compressed-tensors.
"""
import json
import os
import random
import struct
import tempfile

from _cli import ROOT, call, check, expect, expect_error, lines, run_all

SOURCE = os.path.join(ROOT, "test", "golden", "phi3-longrope")
IDS = ",".join(str(i) for i in range(3, 30))
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
folder = tempfile.TemporaryDirectory()


def _read(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k,
            v in head.items() if k != "__metadata__"}


def _write(name, tensors, about=None, root={}):
    """Writes a folder of SOURCE's config with ABOUT as its quantization_config, and ROOT in the
    config itself."""
    path, head, at = os.path.join(folder.name, name), {}, 0
    os.makedirs(path, exist_ok=True)
    for k, (dtype, shape, data) in tensors.items():
        head[k] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(x[2] for x in tensors.values()))
    with open(os.path.join(SOURCE, "config.json")) as f:
        config = json.load(f)
    if about:
        config["quantization_config"] = about
    config.update(root)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f)
    return path


def _floats(x):
    return list(struct.unpack(f"<{len(x) // 2}f",
                              b"".join(b"\0\0" + x[i:i + 2] for i in range(0, len(x), 2))))


def _words(rows):
    """Returns lists of 32-bit integers as bytes."""
    return b"".join(struct.pack(f"<{len(r)}I", *r) for r in rows)


def _along(codes, bits=4, order=range(8)):
    """Packs a list of codes into words, in the ORDER of the format."""
    per = 32 // bits
    order = list(order)[:per]
    return [sum(codes[i + c] << bits * p for p, c in enumerate(order) if i + c < len(codes))
            for i in range(0, len(codes), per)]


def _turned(m):
    return [list(x) for x in zip(*m)]


SCALE = {"F16": ("<e", lambda x: struct.unpack("<e", struct.pack("<e", x))[0]),
         "BF16": ("<H", lambda x: struct.unpack("<f", struct.pack(
             "<I", struct.unpack("<I", struct.pack("<f", x))[0] & 0xffff0000))[0]),
         "F32": ("<f", lambda x: struct.unpack("<f", struct.pack("<f", x))[0])}


def _pack_scale(x, dtype):
    return struct.pack("<e",
                       x) if dtype == "F16" else struct.pack("<f", x)[2 if dtype == "BF16" else 0:]


class _Matrix:
    """Codes [n][k], zero points and scales [n][groups] near a matrix, and the group of each k."""

    def __init__(self, w, n, k, group, bits, asymmetric, dtype, order=False):
        draw = random.Random(n * k)
        self.n, self.k, self.bits, self.dtype = n, k, bits, dtype
        self.groups = 1 if group < 0 else k // group
        size = k // self.groups
        self.order = [i // size for i in range(k)]
        if order:
            draw.shuffle(self.order)
        middle, most = 1 << bits - 1, (1 << bits) - 1
        self.zeros = [[draw.randrange(1, most) if asymmetric else middle
                       for _ in range(self.groups)] for _ in range(n)]
        self.scales = [[SCALE[dtype][1]((0.5 + draw.random()) / 8 / middle)
                        for _ in range(self.groups)] for _ in range(n)]
        self.codes = [[max(0, min(most, round(w[r * k + i] / self.scales[r][g]) + self.zeros[r][g]))
                       for i, g in enumerate(self.order)] for r in range(n)]

    def numbers(self):
        return b"".join(struct.pack("<f", self.scales[r][g] * (c - self.zeros[r][g]))
                        for r in range(self.n) for c, g in zip(self.codes[r], self.order))

    def scales_of(self, by_row):
        rows = self.scales if by_row else _turned(self.scales)
        return (self.dtype, [len(rows), len(rows[0])],
                b"".join(_pack_scale(x, self.dtype) for r in rows for x in r))


def _gptq(m, less=1, order=False):
    words = _turned([_along(r, m.bits) for r in m.codes])
    zeros = [_along([x - less for x in r], m.bits) for r in _turned(m.zeros)]
    parts = {"qweight": ("I32", [len(words), m.n], _words(words)),
             "qzeros": ("I32", [m.groups, len(zeros[0])], _words(zeros)),
             "scales": m.scales_of(False), "g_idx": ("I32", [m.k], _words([m.order]))}
    return parts


def _awq(m):
    words, zeros = ([_along(r, 4, AWQ_ORDER) for r in _turned(x)] for x in (m.codes, m.zeros))
    return {"qweight": ("I32", [m.k, m.n // 8], _words(words)),
            "qzeros": ("I32", [m.groups, m.n // 8], _words(zeros)), "scales": m.scales_of(False)}


def _compressed(m, asymmetric=False):
    words, zeros = [_along(r) for r in m.codes], _turned([_along(r) for r in _turned(m.zeros)])
    parts = {"weight_packed": ("I32", [m.n, len(words[0])], _words(words)),
             "weight_scale": m.scales_of(True),
             "weight_shape": ("I64", [2], struct.pack("<qq", m.n, m.k))}
    if asymmetric:
        parts["weight_zero_point"] = ("I32", [len(zeros), m.groups], _words(zeros))
    return parts


def _bytes(m):
    return {"weight": ("I8", [m.n, m.k], b"".join(struct.pack("<b", c - 128) for r in m.codes
                                                  for c in r)), "weight_scale": m.scales_of(True)}


def _compressed_config(form, bits, group, symmetric=True, inputs=None):
    weights = {"num_bits": bits, "type": "int", "strategy": "channel" if group < 0 else "group",
               "group_size": None if group < 0 else group, "symmetric": symmetric, "dynamic": False,
               "observer": "minmax"}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
            "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                          "input_activations": inputs, "output_activations": None}}}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True,
        "damp_percent": 0.1}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
       "modules_to_not_convert": None}
W8A8 = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True}
# name: the rounding function and its arguments; the config; bits, group size, asymmetric, type of
# scales, shuffled; the resulting block type
FORMS = {
    "gptq": (_gptq, {}, GPTQ, 4, 32, False, "F16", False, "Q4_0"),
    "gptq-zeros": (_gptq, {}, {**GPTQ, "sym": False}, 4, 32, True, "F16", False, "Q5_0"),
    "gptq-v2": (_gptq, {"less": 0}, {**GPTQ, "sym": False, "checkpoint_format": "gptq_v2"}, 4, 32,
                True, "F16", False, "Q5_0"),
    "gptq-order": (_gptq, {}, {**GPTQ, "desc_act": True}, 4, 32, False, "F16", True, "F32"),
    "gptq-16": (_gptq, {}, {**GPTQ, "group_size": 16}, 4, 16, False, "F16", False, "F32"),
    "gptq-column": (_gptq, {}, {**GPTQ, "sym": False, "group_size": -1}, 4, -1, True, "BF16", False,
                    "Q5_0"),
    "gptq-8": (_gptq, {}, {**GPTQ, "bits": 8}, 8, 32, False, "F16", False, "Q8_0"),
    # Blocks have scales in half precision.
    "gptq-fine": (_gptq, {}, GPTQ, 4, 32, False, "F32", False, "F32"),
    "awq": (_awq, {}, AWQ, 4, 32, True, "F16", False, "Q5_0"),
    "compressed": (_compressed, {}, _compressed_config("pack-quantized", 4, 32), 4, 32, False,
                   "BF16", False, "Q4_0"),
    "compressed-zeros": (_compressed, {"asymmetric": True}, _compressed_config(
        "pack-quantized", 4, 32, False), 4, 32, True, "BF16", False, "Q5_0"),
    "compressed-column": (_compressed, {}, _compressed_config("pack-quantized", 4, -1), 4, -1,
                          False, "F16", False, "Q4_0"),
    "w8a8": (_bytes, {}, _compressed_config("int-quantized", 8, -1, inputs=W8A8), 8, -1, False,
             "BF16", False, "Q8_0"),
}


def _make(name):
    """Makes the folder of form NAME, and that of the same numbers."""
    write, more, about, bits, group, asymmetric, dtype, order, _ = FORMS[name]
    tensors, plain = {}, {}
    for k, (t, shape, data) in _read(os.path.join(SOURCE, "model.safetensors")).items():
        linear = k.endswith("_proj.weight") and (group < 0 or shape[1] % group == 0)
        tensors[k] = plain[k] = (t, shape, data)
        if linear:
            m = _Matrix(_floats(data), *shape, group, bits, asymmetric, dtype, order)
            del tensors[k]
            tensors.update({f"{k[:-len('weight')]}{part}": x for part,
                            x in write(m, **more).items()})
            plain[k] = ("F32", shape, m.numbers())
    return _write(name, tensors, about), _write(name + "-plain", plain), tensors, about


def _logits(model, *options):
    path = os.path.join(folder.name, "x.npy")
    r = call("logits", "-m", model, "--ids", IDS, "--npy", path, "--quiet", *options)
    expect(r.returncode, 0,
           f"status of logits {os.path.basename(model)} {options}: {r.stderr.decode()[:300]}")
    with open(path, "rb") as f:
        return f.read()


def a_folder_holds_the_numbers_of_its_format():
    for name, form in FORMS.items():
        model, plain, _, _ = _make(name)
        for options in (("--dtype", "fp32"), ("--quant", "none"), ("--quant", "int8")):
            expect(_logits(model, *options) == _logits(plain, *options), True,
                   f"logits of {name} are those of its numbers, {options}")
        kinds = {x["dtype"] for x in json.loads(call("inspect", "-m", model, "--json").stdout)[
            "tensors"] if x["name"].endswith("o_proj.weight")}
        expect(kinds, {form[-1]}, f"what {name} is computed from")
        if form[-1] != "F32":
            check(_logits(model) != _logits(model, "--quant", "none"),
                  f"{name} is computed as it is stored")


def a_packed_one_gives_the_same():
    for name in ("gptq", "awq", "w8a8", "gptq-order"):
        model, packed = os.path.join(folder.name, name), os.path.join(folder.name, name + ".gallop")
        expect(call("pack", "-m", model, "-o", packed, "--force", "--quiet").returncode, 0,
               f"status of pack {name}")
        expect(_logits(packed) == _logits(model), True, f"logits of packed {name}")


def what_does_not_fit_is_refused():
    _, _, tensors, about = _make("gptq")
    base = "model.layers.0.self_attn.o_proj."

    def refused(what, config, *words, form=None, root={}):
        expect_error(call("run", "-m", _write("bad", {**(form or tensors), **what}, config, root),
                          "--ids", "1", "-n", 1), 1, *words)

    for part in ("qzeros", "scales"):
        left = {k: v for k, v in tensors.items() if k != base + part}
        refused({}, about, base + part, "missing", form=left)
    t, shape, data = tensors[base + "scales"]
    refused({base + "scales": (t, [shape[1], shape[0]], data)}, about, base + "scales", "[96, 3]",
            "[3, 96]")
    refused({base + "scales": (t, shape, b"\0\x7c" + data[2:])}, about, base + "scales", "infinity")
    t, shape, data = tensors[base + "g_idx"]
    for wrong in (3, -1):
        refused({base + "g_idx": (t, shape, struct.pack("<i", wrong) + data[4:])}, about,
                base + "g_idx", str(wrong), "0 to 2")
    t, shape, data = tensors[base + "qweight"]
    refused({base + "qweight": ("F32", shape, data)}, about, base + "qweight", "F32", "I32")
    refused({base + "qweight": (t, [shape[0] * shape[1]], data)}, about, base + "qweight",
            "two dimensions")
    refused({}, {**about, "bits": 3}, "bits", "4 or 8")
    refused({}, {**about, "group_size": 0}, "group_size")
    refused({}, {**about, "group_size": 36}, "group size 36")
    refused({}, {**about, "checkpoint_format": "marlin"}, "marlin")
    refused({}, {**about, "quant_method": "fp8"}, "fp8")
    refused({}, {**AWQ, "version": "gemv"}, "gemv")
    refused({}, {**AWQ, "zero_point": False}, "zero_point")
    refused({}, _compressed_config("float-quantized", 8, -1), "float-quantized")
    refused({}, {**_compressed_config("pack-quantized", 4, 32), "config_groups": {}}, "group_0")
    refused({}, _compressed_config("int-quantized", 8, -1, inputs={**W8A8, "dynamic": False}),
            "dynamic")
    refused({}, _compressed_config("int-quantized", 8, -1, symmetric=False), "symmetric")
    refused({}, _compressed_config("pack-quantized", 8, 32), "num_bits")
    one = _compressed_config("pack-quantized", 4, 32)
    other = {"group_0": one["config_groups"]["group_0"], "experts": one["config_groups"]["group_0"]}
    refused({}, {**one, "config_groups": other}, "config_groups", "several")
    refused({},
            {**one, "config_groups": {"group_0": {**other["group_0"], "output_activations": W8A8}}},
            "output_activations")
    refused({}, {**one, "transform_config": {"config_groups": {"R4": {"type": "hadamard"}}}},
            "transform_config")
    refused({}, {**one, "sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse-24-bitmask")
    refused({}, {**GPTQ, "adapter": {"name": "lora"}}, "adapter")
    refused({}, about, "quantization_config", "gpt2",
            root={"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})


def zero_points_borrow_from_the_whole_word():
    """The first format took 1 from each zero point by a subtraction from the whole word, so a
    zero point of 0 borrows from the next."""
    for name, bits, ones in (("gptq-zeros", 4, 0x11111111), ("gptq-8", 8, 0x01010101)):
        config = {**FORMS[name][2], "sym": False}
        _, plain, tensors, _ = _make("gptq-zeros") if bits == 4 else _make("gptq-8")
        zeros = {k: x for k, x in tensors.items() if k.endswith(".qzeros")}
        # All zero points of v2 become 0, 5, 0, 5, ...: stored unchanged in v2, and less one in each
        # word in v1.
        fields = sum((5 if i % 2 else 0) << bits * i for i in range(32 // bits))
        new = {k: (t, shape, struct.pack("<I", fields) * (len(data) // 4)) for k,
               (t, shape, data) in zeros.items()}
        less = {k: (t, shape, struct.pack("<I", fields - ones & 0xffffffff) * (len(data) // 4))
                for k, (t, shape, data) in zeros.items()}
        v2 = _write("borrow-2", {**tensors, **new}, {**config, "checkpoint_format": "gptq_v2"})
        v1 = _write("borrow-1", {**tensors, **less}, {**config, "checkpoint_format": "gptq"})
        check(_logits(v1) == _logits(v2) and _logits(v1) != _logits(plain),
              f"{name}: zero points of 0 in the first format")


def the_format_has_two_names():
    """GPTQModel writes both names."""
    _, plain, tensors, about = _make("gptq-v2")
    left = {k: x for k, x in about.items() if k != "checkpoint_format"}
    check(_logits(_write("format", tensors, {**left, "format": "gptq_v2"}))
          == _logits(os.path.join(folder.name, "gptq-v2")), "format alone")
    check(_logits(_write("format", tensors, {**about, "format": "gptq"}))
          == _logits(os.path.join(folder.name, "gptq-v2")), "checkpoint_format goes before format")
    expect_error(call("run", "-m", _write("format", tensors, {**left, "format": "marlin"}), "--ids",
                      "1", "-n", 1), 1, "marlin")


def zero_points_that_sym_rules_out_are_refused():
    _, _, tensors, about = _make("gptq")
    v2 = {**about, "checkpoint_format": "gptq_v2"}
    expect_error(call("run", "-m", _write("sym", tensors, v2), "--ids", "1", "-n", 1), 1, "qzeros",
                 "zero point 7, expected 8", "sym is true", "checkpoint_format")
    _, _, tensors, about = _make("gptq-zeros")
    expect_error(call("run", "-m", _write("sym", tensors, {**about, "sym": True}), "--ids", "1",
                      "-n", 1), 1, "qzeros", "expected 8", "sym is true")
    expect(call("run", "-m", _write("sym", tensors, {k: x for k, x in about.items() if k != "sym"}),
                "--ids", "1", "-n", 1).returncode, 0, "status where sym is not said")


def a_file_beside_config_json_may_say_how_weights_are_stored():
    for name, file, about in (
            ("gptq", "quantize_config.json",
             {"bits": 4, "group_size": 32, "desc_act": False, "sym": True}),
            ("gptq-8", "quantize_config.json",
             {"bits": 8, "group_size": 32, "quant_method": "gptq"}), ("awq", "quant_config.json", {
                 "w_bit": 4, "q_group_size": 32, "zero_point": True, "version": "GEMM"}),
            ("awq", "quantize_config.json",
             {"w_bit": 4, "q_group_size": 32, "zero_point": True, "version": "GEMM"}),
            ("awq", "quant_config.json",
             {"bits": 4, "group_size": 32, "zero_point": True, "quant_method": "awq"})):
        model, _, tensors, config = _make(name)
        beside = _write("beside", tensors)
        for old in ("quantize_config.json", "quant_config.json"):
            if os.path.exists(os.path.join(beside, old)):
                os.remove(os.path.join(beside, old))
        with open(os.path.join(beside, file), "w") as f:
            json.dump(about, f)
        check(_logits(beside) == _logits(model), f"{name} whose {file} says how it is stored")
        packed = os.path.join(folder.name, "beside.gallop")
        expect(call("pack", "-m", beside, "-o", packed, "--force", "--quiet").returncode, 0,
               f"status of pack of {name} with {file}")
        check(_logits(packed) == _logits(model), f"{name} with {file}, packed")
        with open(os.path.join(beside, file), "w") as f:
            json.dump({**about, "bits": 3, "w_bit": 3}, f)
        expect_error(call("run", "-m", beside, "--ids", "1", "-n", 1), 1, file, "w_bit", "found 3")
        both = _write("beside", tensors, config)
        check(_logits(both) == _logits(model), "config.json goes before the file")
        os.remove(os.path.join(beside, file))
    _, plain, _, _ = _make("gptq")
    with open(os.path.join(plain, "quantize_config.json"), "w") as f:
        f.write("{}")
    expect(call("run", "-m", plain, "--ids", "1", "-n", 1).returncode, 0,
           "status of weights that are no integers beside such a file")


def what_is_beside_the_weights_is_said():
    _, _, tensors, about = _make("compressed")
    left = _write("left", {**tensors, "model.layers.0.self_attn.o_proj.weight_zero_point": ("I32", [
        1, 1], b"\0\0\0\0")}, {**about, "kv_cache_scheme": {"num_bits": 8, "type": "float"},
                               "transform_config": {}, "sparsity_config": {"format": "dense"}})
    r = call("run", "-m", left, "--ids", "1", "-n", 1)
    expect(r.returncode, 0, "status where zero points are left over")
    check(b"kv_cache_scheme" in r.stderr and b"weight_zero_point" in r.stderr,
          f"what is not used is said: {r.stderr}")


def an_order_of_minus_ones_is_none():
    path, _, tensors, about = _make("compressed")
    none = {k[:-len("packed")] + "g_idx": ("I32", [8 * shape[1]], b"\xff" * 32 * shape[1])
            for k, (_, shape, _) in tensors.items() if k.endswith("weight_packed")}
    expect(_logits(_write("none", {**tensors, **none}, about)) == _logits(path), True,
           "logits where g_idx is -1 throughout")


run_all(list(globals().items()))
