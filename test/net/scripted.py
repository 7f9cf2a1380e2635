#!/usr/bin/env python3
"""scripted.py - a checkpoint that generates given texts: a certain token follows each of its
tokens.

It is an ordinary Llama of one layer that adds nothing, whose embedding is the identity and whose
head is the table of successors. A script is a list of texts, each of which is a token, so no text
may be in two scripts or be a single byte. The model generates a script if the prompt ends with the
script's first text. Other text is bytes. Standard library only.
"""
import array
import json
import os
import struct

EOS = "<|eos|>"


def byte_letters():
    """Returns the letter of each byte in the vocabulary of a byte-level tokenizer."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in letters):
        letters[b] = chr(256 + n)
    return [letters[b] for b in range(256)]


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(data)]}
        at += 4 * len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for shape, data in tensors.values():
            f.write(data.tobytes())


def make(folder, scripts, template, special=(), context=2048, loops=()):
    """Writes the checkpoint. SPECIAL: the texts that are special tokens. LOOPS: texts after which the
    same text follows again."""
    texts = [EOS] + [text for script in scripts for text in script]
    assert len(set(texts)) == len(
        texts), f"stands in two places: {[x for x in texts if texts.count(x) > 1]}"
    ids = {text: 256 + i for i, text in enumerate(texts)}
    size = (256 + len(texts) + 63) // 64 * 64
    follows = {i: ids[EOS] for i in range(size)}
    for script in scripts:
        follows.update({ids[a]: ids[b] for a, b in zip(script, script[1:] + [EOS])})
    follows.update({ids[text]: ids[text] for text in loops})

    def matrix(rows, columns, ones=()):
        data = array.array("f", bytes(4 * rows * columns))
        for row, column in ones:
            data[row * columns + column] = 1.0
        return [rows, columns], data

    def ones(n):
        return [n], array.array("f", [1.0] * n)

    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": matrix(size, size, [(i, i) for i in range(size)]),
               "lm_head.weight": matrix(size, size, [(b, a) for a, b in follows.items()]),
               "model.norm.weight": ones(size), layer + "input_layernorm.weight": ones(size),
               layer + "post_attention_layernorm.weight": ones(size)}
    for name, rows, columns in (("self_attn.q_proj", 64, size), ("self_attn.k_proj", 64, size),
                                ("self_attn.v_proj", 64, size), ("self_attn.o_proj", size, 64),
                                ("mlp.gate_proj", 64, size), ("mlp.up_proj", 64, size),
                                ("mlp.down_proj", size, 64)):
        tensors[f"{layer}{name}.weight"] = matrix(rows, columns)
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": text in special or text == EOS} for text,
             i in ids.items()]
    files = {"config.json": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": size,
        "vocab_size": size, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "hidden_act": "silu",
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": context,
        "tie_word_embeddings": False, "eos_token_id": ids[EOS]}, "tokenizer.json": {
            "version": "1.0", "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {x: i for i, x in enumerate(byte_letters())},
                      "merges": []}},
             "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast",
                                       "eos_token": EOS, "chat_template": template},}
    os.makedirs(folder, exist_ok=True)
    for name, value in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f)
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
