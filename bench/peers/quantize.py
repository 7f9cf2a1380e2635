"""quantize.py - a folder with integer weights for vLLM, from one in bf16: what bench/peers/serve
--setup runs in vLLM's environment.

usage: PYTHON quantize.py W8A8|W4A16 SOURCE TARGET

Scheme and storage are those of compressed-tensors, the package that vLLM reads them with: W8A8
has a factor for each row and quantises inputs as they come, W4A16 has one for each 128 weights.
Both are symmetric and rounded to nearest, for which no data is needed. As with vLLM's own
compressor, the linears of the layers are quantised; the head, which is the embedding here, is
not.
"""
import json
import os
import shutil
import sys

# tokenizers.py beside this file would hide the package of that name.
sys.path[:] = [x for x in sys.path if x != os.path.dirname(os.path.abspath(__file__))]

STORED = {"W8A8": "int-quantized", "W4A16": "pack-quantized"}


def is_linear(name, shape):
    """Embeddings are outside of layers; norms have one dimension."""
    return ".layers." in name and name.endswith(".weight") and len(shape) == 2


def main(kind, source, target):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig, preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams
    from safetensors.torch import load_file, save_file
    scheme, compressor = preset_name_to_scheme(
        kind, ["Linear"]), BaseCompressor.get_value_from_registry(STORED[kind])
    out = {}
    for name, weight in load_file(os.path.join(source, "model.safetensors")).items():
        if not is_linear(name, weight.shape):
            out[name] = weight
            continue
        groups = weight.float().unflatten(1, (-1, scheme.weights.group_size or weight.shape[1]))
        factors, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), scheme.weights)
        parts = compressor.compress({"weight": weight, "weight_scale": factors.to(weight.dtype)},
                                    scheme)
        out |= {name.removesuffix("weight") + part: x.contiguous() for part, x in parts.items()}
    shutil.copytree(source, target, ignore=lambda folder, files: [
        x for x in files if x.endswith(".safetensors")], dirs_exist_ok=True)
    save_file(out, os.path.join(target, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config["quantization_config"] = QuantizationConfig(config_groups={"group_0": scheme}, ignore=[
        "lm_head"], format=STORED[kind], quantization_status="compressed").model_dump(mode="json")
    with open(os.path.join(target, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
