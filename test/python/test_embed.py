"""embed() returns what the server returns, bit for bit, for folders of sentence-transformers."""
import array
import base64
import json
import os
import random
import shutil
import struct
import urllib.request

import gallop
import pytest

TEXT = "Once upon a time there was a kind fox"
KINDS = ("Transformer", ""), ("Pooling", "1_Pooling")
DENSE = ("Dense", "2_Dense")
MEAN = {"1_Pooling/config.json": {"pooling_mode": "mean"}}
BERT, ABOUT = "sentence_bert_config.json", "config_sentence_transformers.json"
PROMPT = {"default_prompt_name": "query", "prompts": {"query": "query: "}}
MESSAGE = {"modality_config": {"message": {"format": "flat"}}}
# What is in a folder, and the number of elements of its embeddings.
FOLDERS = {
    "pooling": ({**MEAN}, 192),
    "dense": ({**MEAN, "2_Dense/config.json": {
        "in_features": 192, "out_features": 7, "bias": False,
        "activation_function": "torch.nn.modules.activation.Tanh"}}, 7),
    "prompt": ({**MEAN, ABOUT: PROMPT}, 192),
    "template": ({**MEAN, BERT: MESSAGE}, 192),
    "template and prompt": ({**MEAN, BERT: MESSAGE, ABOUT: PROMPT}, 192),
    "length": ({**MEAN, BERT: {"max_seq_length": 6}}, 192),
    "dimensions": ({**MEAN, ABOUT: {"truncate_dim": 24}}, 24),
}


def make(path, files):
    """Makes a folder of the bundled model and FILES."""
    shutil.copytree(gallop.DEMO, path)
    kinds = [*KINDS, DENSE] if "2_Dense/config.json" in files else KINDS
    modules = [{"path": at, "type": "sentence_transformers.models." + kind} for kind, at in kinds]
    for name, content in {"modules.json": modules, **files}.items():
        os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
        with open(os.path.join(path, name), "w") as f:
            json.dump(content, f)
    if DENSE in kinds:
        draw = random.Random(1)
        data = struct.pack("<1344f", *(draw.uniform(-.1, .1) for _ in range(7 * 192)))
        head = json.dumps({"linear.weight": {"dtype": "F32", "shape": [7, 192],
                                             "data_offsets": [0, len(data)]}}).encode()
        with open(os.path.join(path, "2_Dense", "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + data)
    return str(path)


def served(server, texts, **fields):
    body = json.dumps({"input": texts, "encoding_format": "base64", **fields}).encode()
    request = urllib.request.Request(server.url + "/v1/embeddings", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as f:
        return [array.array("f", base64.b64decode(d["embedding"])) for d in json.load(f)["data"]]


@pytest.mark.parametrize("name", FOLDERS)
def test_embeddings_are_those_of_the_server(name, tmp_path):
    files, n = FOLDERS[name]
    path = make(tmp_path / "model", files)
    with gallop.LLM(path, threads=1) as llm, gallop.serve(path, threads=1) as server:
        ids = llm.tokenize(TEXT)
        assert len(ids) > 6
        found = llm.embed([TEXT, "x"])
        assert found == served(server, [TEXT, "x"])
        assert llm.embed(TEXT, normalize=False) == served(server, TEXT, normalize=False)[0]
        assert llm.embed([ids]) == served(server, [ids])
        assert len(found[0]) == n
        # The text as the file changes it, for the model without such files.
        chat = [{"role": "system", "content": "query: "}, {"role": "user", "content": TEXT}]
        short, long = (llm.tokenize(llm.render(x, add_generation_prompt=False), special=False)
                       for x in (chat[1:], chat))
        same = {"prompt": "query: " + TEXT, "pooling": TEXT, "length": ids[:6], "template": short,
                "template and prompt": long}
        plain = llm.embed(TEXT, "mean")
        assert (found[0] == plain) == (name == "pooling")
        if name in same:
            assert found[0] == llm.embed(same[name], "mean")
        assert plain != llm.embed(TEXT, "last")


def test_what_is_not_supported_is_refused_where_it_is_asked_for(tmp_path):
    path = make(tmp_path / "model", {"1_Pooling/config.json": {"pooling_mode": "cls"}})
    with gallop.LLM(path, threads=1) as llm:
        with pytest.raises(gallop.Unsupported, match="pooling cls"):
            llm.embed(TEXT)
        assert len(llm.embed(TEXT, "last")) == 192
        assert llm.generate(TEXT, max_new_tokens=2).text
        with pytest.raises(gallop.BadInput, match="pooling"):
            llm.embed(TEXT, "cls")
