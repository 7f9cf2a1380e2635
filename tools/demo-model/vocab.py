"""The tokenizer of the demo models: byte-level BPE of 2048 entries, digits one by one,
ChatML-like special tokens.

Trained on the first documents of the training split with the `tokenizers` package; the result is
a plain tokenizer.json.
"""

import json
import os

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import corpus

SIZE = 2048
SPECIAL = ["<|pad|>", "<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
PAD, BOS, END, SYSTEM, USER, ASSISTANT = range(6)
TEMPLATE = (
    "{{- bos_token }}\n"
    "{%- for message in messages %}\n"
    "    {%- if message['role'] not in ['system', 'user', 'assistant'] %}\n"
    "        {{- raise_exception('The roles of this model are system, user and assistant.') }}\n"
    "    {%- endif %}\n"
    "    {{- '<|' + message['role'] + '|>' + message['content'] | trim + eos_token }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|assistant|>' }}\n"
    "{%- endif %}\n"
)


def texts(count):
    for i in range(count):
        d = corpus.document("train", i)
        yield from ([d["text"]] if "text" in d else [m["content"] for m in d["messages"]])


def train(documents=20000):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(
        texts(documents),
        trainers.BpeTrainer(
            vocab_size=SIZE,
            special_tokens=SPECIAL,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    t.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A <|bos|> $B", special_tokens=[("<|bos|>", BOS)]
    )
    return t


def load(path):
    """The tokenizer of PATH/tokenizer.json, trained first if it is not there."""
    file = os.path.join(path, "tokenizer.json")
    if not os.path.exists(file):
        os.makedirs(path, exist_ok=True)
        train().save(file)
    return Tokenizer.from_file(file)


def encode(t, d):
    """Token ids of a document and the weight of each in the loss (what a user says counts
    little)."""
    if "text" in d:
        ids = [BOS] + t.encode(d["text"], add_special_tokens=False).ids + [END]
        return ids, [0.0] + [1.0] * (len(ids) - 1)
    ids, w = [BOS], [0.0]
    for m in d["messages"]:
        body = t.encode(m["content"], add_special_tokens=False).ids + [END]
        ids += [{"system": SYSTEM, "user": USER, "assistant": ASSISTANT}[m["role"]]] + body
        w += [0.1] + [1.0 if m["role"] == "assistant" else 0.1] * len(body)
    return ids, w


def write_config(path):
    """tokenizer_config.json and special_tokens_map.json beside tokenizer.json."""
    names = {"bos_token": SPECIAL[BOS], "eos_token": SPECIAL[END], "pad_token": SPECIAL[PAD]}
    added = {
        str(i): {
            "content": s,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
        for i, s in enumerate(SPECIAL)
    }
    c = {
        "added_tokens_decoder": added,
        **names,
        "additional_special_tokens": SPECIAL[SYSTEM:],
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    for name, data in (
        ("tokenizer_config.json", c),
        ("special_tokens_map.json", {**names, "additional_special_tokens": SPECIAL[SYSTEM:]}),
    ):
        with open(os.path.join(path, name), "w") as f:
            f.write(json.dumps(data, indent=2) + "\n")
