#!/usr/bin/env python3
"""pooling.py - folders of sentence-transformers: the pooling of their files is served, or refused
by name.

The folders are made from the demo model. Format: modules.json, 1_Pooling/config.json
(`pooling_mode` since 5.4, before it one boolean for each mode).
"""
import base64
import json
import math
import os
import random
import shutil
import struct
import subprocess
import tempfile

from _cli import DEMO, GALLOP, ROOT, call, check, expect, run_all
from _server import Server

scratch = tempfile.TemporaryDirectory()
TEXTS = ["Once upon a time", "A dog", "x"]
OLDER = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False,
         "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False,
         "pooling_mode_weightedmean_tokens": False, "pooling_mode_lasttoken": False}


def _module(path, kind):
    return {"idx": 0, "name": path[:1] or "0", "path": path, "type": kind}


TRANSFORMER = _module("", "sentence_transformers.base.modules.transformer.Transformer")
POOLING = _module("1_Pooling", "sentence_transformers.sentence_transformer.modules.pooling.Pooling")
NORMALIZE = _module("2_Normalize", "sentence_transformers.models.Normalize")
LSTM = _module("2_LSTM", "sentence_transformers.models.LSTM")
DENSE = _module("2_Dense", "sentence_transformers.base.modules.dense.Dense")


def _folder(name, files):
    path = os.path.join(scratch.name, name)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(DEMO, path)
    for file, content in files.items():
        os.makedirs(os.path.dirname(os.path.join(path, file)), exist_ok=True)
        with open(os.path.join(path, file), "w") as f:
            json.dump(content, f)
    return path


def _vectors(model, *options):
    with Server("--max-num-seqs", 2, *options, model=model) as s:
        status, body = s.post("/v1/embeddings", input=TEXTS, normalize=False)
    expect(status, 200, f"status of embeddings of {os.path.basename(model)}")
    return [d["embedding"] for d in body["data"]]


def _refused(model, *words, options=()):
    r = subprocess.run([GALLOP, "serve", "-m", model, "--port", "0", *options],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    said = r.stderr.decode()
    expect(r.returncode, 1, f"status of serve of {os.path.basename(model)}")
    for word in words:
        check(word in said, f"serve says {said!r}, without {word!r}")


MEAN, LAST = _vectors(DEMO, "--pooling", "mean"), _vectors(DEMO, "--pooling", "last")


def what_the_folder_says_is_served():
    check(MEAN != LAST, "mean and last differ")
    pooling, modules = "1_Pooling/config.json", {"modules.json": [TRANSFORMER, POOLING]}
    for files, wanted in (({}, LAST),
                          ({pooling: {"pooling_mode": "mean", "embedding_dimension": 192,
                                      "include_prompt": True}}, MEAN),
                          ({pooling: {"pooling_mode": "lasttoken"}, **modules}, LAST),
                          ({pooling: {"pooling_mode": ["mean"]}, **modules}, MEAN),
                          ({pooling: {**OLDER, "pooling_mode_mean_tokens": True}, **modules}, MEAN),
                          ({pooling: {**OLDER, "pooling_mode_lasttoken": True}}, LAST),
                          ({pooling: {"word_embedding_dimension": 192}}, MEAN),
                          ({pooling: {"pooling_mode": "mean"}, "modules.json": [TRANSFORMER]},
                           LAST),
                          ({"1_P/config.json": {"pooling_mode": "mean"},
                            pooling: {"pooling_mode": "cls"},
                            "modules.json": [TRANSFORMER, {**POOLING, "path": "1_P"}, NORMALIZE]},
                            MEAN)):
        check(_vectors(_folder("st", files)) == wanted, f"embeddings of a folder with {files}")


def vectors_of_the_c_api_are_those_of_the_server():
    """examples/answer.c reads paths and bodies."""
    program = os.path.join(os.path.dirname(os.path.realpath(GALLOP)), "examples", "example_answer")
    body = json.dumps({"input": TEXTS, "normalize": False})

    def ask(path):
        r = subprocess.run([program, path], capture_output=True, timeout=600,
                           input=f"/v1/embeddings {body}\n".encode())
        return r.stdout.decode().split(" ", 1)

    file, modules = "1_Pooling/config.json", {"modules.json": [TRANSFORMER, POOLING]}
    status, answer = ask(_folder("st", {file: {"pooling_mode": "mean"}, **modules}))
    expect((status, [x["embedding"] for x in json.loads(answer)["data"]]), ("200", MEAN), "mean")
    status, answer = ask(_folder("st", {file: {"pooling_mode": "max"}, **modules}))
    expect((status, "max" in json.loads(answer)["error"]["message"]), ("400", True),
           f"a mode that is refused: {answer}")


def do_lower_case_is_refused():
    path = _folder("st", {"sentence_bert_config.json": {"do_lower_case": True}})
    _refused(path, "sentence_bert_config.json", "do_lower_case")
    check(_vectors(path, "--pooling", "last") == LAST, "--pooling decides instead")


# ---- texts ----

LONG = "Once upon a time there was a kind fox"
MESSAGE = {"text": {"method": "forward"}, "message": {"method": "forward", "format": "flat"}}
ST = {"1_Pooling/config.json": {"pooling_mode": "mean"}, "modules.json": [TRANSFORMER, POOLING]}


def _patch(path, file, **values):
    with open(os.path.join(path, file)) as f:
        config = json.load(f)
    with open(os.path.join(path, file), "w") as f:
        json.dump({k: v for k, v in {**config, **values}.items() if v is not ...}, f)


def _of_ids(*prompts):
    """Embeddings of token ids by the demo model, and whole texts of the user as tokens."""
    with Server("--pooling", "mean", model=DEMO) as s:
        return [x["embedding"] for x in s.post("/v1/embeddings", input=list(prompts),
                                               normalize=False)[1]["data"]]


def _ids(text, **message):
    with Server(model=DEMO) as s:
        if message:
            return s.post("/tokenize", messages=[{"role": "user", "content": text}],
                          **message)[1]["tokens"]
        return s.post("/tokenize", prompt=text)[1]["tokens"]


def _embedded(path, text, n_cut, **fields):
    """The embedding of TEXT, of which N_CUT tokens must be cut, and a second one unlike it."""
    with Server(model=path) as s:
        body = s.post("/v1/embeddings", input=["x", text], normalize=False, **fields)[1]
        expect(body["usage"]["prompt_tokens_details"]["truncated_tokens"], n_cut,
               f"tokens cut from {text!r} by {path}")
        s.post("/v1/embeddings", input=text)
    said = [x for x in s.log if "truncated_tokens" in x]
    expect(len(said), 1 if n_cut else 0, f"warnings of the first of two cuts: {said}")
    return body["data"][1]["embedding"]


def texts_are_messages_of_the_chat_template_if_the_folder_says_so():
    plain, asked = (_ids(LONG, add_generation_prompt=x) for x in (False, True))
    wanted, wanted_asked, in_parts = _of_ids(plain, asked, [4] + _ids(LONG)[1:])
    check(plain[-1] == 2 and asked[-1] == 5, "the tokens behind a message")
    bert = "sentence_bert_config.json"
    for config, want in (
            (MESSAGE, wanted), ({**MESSAGE, "message": {"format": "auto"}}, wanted),
            ({"message": {}}, wanted)):
        path = _folder("st", {**ST, bert: {"modality_config": config}})
        check(_embedded(path, LONG, 0) == want, f"a text as message with {config}")
    path = _folder("st", {**ST, bert: {"modality_config": MESSAGE, "processing_kwargs": {
        "chat_template": {"add_generation_prompt": True, "padding": True}}}})
    check(_embedded(path, LONG, 0) == wanted_asked, "variables of the template")
    for kind in ("structured", "auto"):
        path = _folder("st", {**ST, bert: {"modality_config": {"message": {"format": kind}}}})
        with open(os.path.join(path, "chat_template.jinja"), "w") as f:
            f.write("{% for m in messages %}<|{{ m.role }}|>"
                    "{{ m.content[0].text if m.content[0]['type'] == 'text' }}{% endfor %}")
        check(_embedded(path, LONG, 0) == in_parts, f"content in parts with {kind}")
    check(_embedded(_folder("st", {**ST, bert: {"modality_config": {"text": {}}}}), LONG, 0)
          == _of_ids(_ids(LONG))[0], "a folder whose texts are no messages")
    path = _folder("st", {**ST, bert: {"modality_config": {"message": {"format": "odd"}}}})
    _refused(path, bert, "odd", "pooling last or mean")
    with Server("--pooling", "mean", model=path) as s:
        check(any("leaves out the chat template" in x for x in s.log), "--pooling leaves it out")
    path = _folder("st", {**ST, bert: {"modality_config": MESSAGE}})
    _patch(path, "tokenizer_config.json", chat_template=...)
    _refused(path, bert, "chat template", "lacks")


def the_default_prompt_is_before_each_text():
    about, prompts = "config_sentence_transformers.json", {"query": "query: ", "plain": ""}
    name, prompt = {"default_prompt_name": "query"}, "query: "
    path = _folder("st", {**ST, about: {**name, "prompts": prompts}})
    check(_embedded(path, LONG, 0) == _of_ids(_ids(prompt + LONG))[0], "the prompt before a text")
    with Server(model=path) as s:
        got = s.post("/v1/embeddings", input=_ids(LONG), normalize=False)[1]["data"][0]["embedding"]
        check(got == _of_ids(_ids(LONG))[0], "token ids stay as they are")
    with Server("--pooling", "mean", model=path) as s:
        check(any("leaves out the default prompt" in x for x in s.log), "--pooling leaves it out")
        got = s.post("/v1/embeddings", input=LONG, normalize=False)[1]["data"][0]["embedding"]
        check(got == _of_ids(_ids(LONG))[0], "and it is left out")
    for config in ({**name, "prompts": {}}, {"default_prompt_name": "plain", "prompts": prompts},
                   {"default_prompt_name": None, "prompts": prompts}, {"prompts": prompts}):
        check(_embedded(_folder("st", {**ST, about: config}), LONG, 0) == _of_ids(_ids(LONG))[0],
              f"no prompt with {config}")
    _refused(_folder("st", {**ST, about: {"default_prompt_name": "odd", "prompts": prompts}}),
             about, '"odd"', "missing")
    bert = {"sentence_bert_config.json": {"max_seq_length": 6}}
    path = _folder("st", {**ST, **bert, about: {**name, "prompts": prompts}})
    ids = _ids(prompt + LONG)
    check(_embedded(path, LONG, len(ids) - 6) == _of_ids(ids[:6])[0], "a cut counts the prompt")
    excluded = {"1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False}}
    both = {**ST, **excluded, about: {**name, "prompts": prompts}}
    _refused(_folder("st", both), "1_Pooling/config.json", "include_prompt")
    with Server(model=DEMO) as s:
        ids = s.post("/tokenize", add_generation_prompt=False,
                     messages=[{"role": "system", "content": prompt},
                               {"role": "user", "content": LONG}])[1]["tokens"]
    path = _folder("st", {**both, "sentence_bert_config.json": {"modality_config": MESSAGE}})
    check(_embedded(path, LONG, 0) == _of_ids(ids)[0], "the prompt as a message of the system")


def texts_are_cut_as_sentence_transformers_cuts_them():
    bert, config = "sentence_bert_config.json", "tokenizer_config.json"
    ids = _ids(LONG)
    n = len(ids)
    first6, first5, last6, of_ids = _of_ids(ids[:6], ids[:5], ids[:1] + ids[-5:],
                                             [5, 6, 7, 8, 9, 10])
    check(n == 10, f"the text has {n} tokens")
    for name, about, tokenizer, positions, want, cut in (
            ("max_seq_length", {"max_seq_length": 6}, {}, 1024, first6, 4),
            ("null", {"max_seq_length": None}, {"model_max_length": 6}, 1024, first6, 4),
            ("exactly as long", {"max_seq_length": n}, {}, 1024, _of_ids(ids)[0], 0),
            ("one less", {"max_seq_length": n - 1}, {}, 1024, _of_ids(ids[:-1])[0], 1),
            ("model_max_length", {}, {"model_max_length": 6}, 1024, first6, 4),
            ("positions", {}, {"model_max_length": 1000000000000000019884624838656}, 6, first6, 4),
            ("a float", {}, {"model_max_length": 6.0}, 1024, first6, 4),
            ("no number", {}, {"model_max_length": None}, 6, first6, 4),
            ("the smaller one", {}, {"model_max_length": 5}, 6, first5, 5),
            ("processor_kwargs", {"max_seq_length": 5, "processor_kwargs": {"model_max_length": 6}},
             {}, 1024, first6, 4),
            ("tokenizer_args", {"tokenizer_args": {"model_max_length": 6}},
             {"model_max_length": 5}, 1024, first6, 4),
            ("processing_kwargs", {"max_seq_length": 5, "processing_kwargs": {
                "common": {"max_length": 5}, "text": {"max_length": 6}}}, {}, 1024, first6, 4),
            ("the left side", {"max_seq_length": 6}, {"truncation_side": "left"}, 1024, last6, 4)):
        path = _folder("st", {**ST, bert: about})
        _patch(path, config, **{"model_max_length": ..., **tokenizer})
        _patch(path, "config.json", max_position_embeddings=positions)
        check(_embedded(path, LONG, cut) == want, f"a text cut by {name}")
    path = _folder("st", {**ST, bert: {"max_seq_length": 6}})
    with Server(model=path) as s:
        got = s.post("/v1/embeddings", input=list(range(5, 15)), normalize=False)[1]
        check(got["data"][0]["embedding"] == of_ids and got["usage"]["prompt_tokens"] == 6,
              "token ids are cut, too")
        expect(s.post("/api/embed", input=LONG)[1]["prompt_eval_count"], 6, "Ollama's count")
        status, body = s.post("/api/embed", input=LONG, truncate=False)
        check(status == 400 and "10 tokens" in json.dumps(body) and "6" in json.dumps(body),
              f"a client that wants no cut: {status} {body}")
        expect(s.post("/api/embed", input="x", truncate=False)[0], 200, "status of a short text")
    _patch(path, "tokenizer.json", post_processor={
        "type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "<|end|>", "type_id": 0}}], "pair": [], "special_tokens": {
                x: {"id": x, "ids": [i], "tokens": [x]} for x, i in (("<|bos|>", 1), ("<|end|>", 2))}})
    check(_embedded(path, LONG, 5) == _of_ids(ids[:5] + [2])[0], "the token behind a text stays")
    check(_embedded(path, LONG, 3, add_special_tokens=False) == _of_ids(ids[1:7])[0], "without it")
    _patch(path, "tokenizer_config.json", truncation_side="left")
    check(_embedded(path, LONG, 5) == _of_ids(ids[:1] + ids[-4:] + [2])[0], "so it does on the left")


def what_a_template_writes_behind_a_message_is_kept():
    bert, asked = "sentence_bert_config.json", _ids(LONG, add_generation_prompt=True)
    kwargs = {"add_generation_prompt": True, "max_length": 8}
    path = _folder("st", {**ST, bert: {"modality_config": MESSAGE,
                                       "processing_kwargs": {"chat_template": kwargs}}})
    check(_embedded(path, LONG, len(asked) - 8) == _of_ids(asked[:6] + [2, 5])[0], "two tokens")
    path = _folder("st", {**ST, bert: {"modality_config": MESSAGE, "processing_kwargs": {
        "chat_template": {**kwargs, "restore_suffix": False}}}})
    check(_embedded(path, LONG, len(asked) - 8) == _of_ids(asked[:8])[0], "unless the folder says so")
    path = _folder("st", {**ST, bert: {"modality_config": MESSAGE, "max_seq_length": 1}})
    with open(os.path.join(path, "chat_template.jinja"), "w") as f:
        f.write("<|user|>{{ messages[0].content }}<|end|><|assistant|>")
    with Server(model=path) as s:
        got = s.post("/v1/embeddings", input=LONG, normalize=False)[1]["data"][0]["embedding"]
        check(got == _of_ids([5])[0], "not more than the limit")
    _patch(path, "sentence_bert_config.json", max_seq_length=2)
    with open(os.path.join(path, "chat_template.jinja"), "w") as f:
        f.write("<|user|><|end|><|assistant|>")
    with Server(model=path) as s:
        got = s.post("/v1/embeddings", input=LONG, normalize=False)[1]["data"][0]["embedding"]
        check(got == _of_ids([4, 2])[0], "nothing is kept if all texts are rendered alike")


def embeddings_are_cut_to_the_dimensions_that_the_folder_names():
    about = "config_sentence_transformers.json"
    path = _folder("st", {**ST, about: {"truncate_dim": 24}})
    expect(_vectors(path), [x[:24] for x in MEAN], "embeddings of 24 dimensions")
    with Server(model=path) as s:
        one = s.post("/v1/embeddings", input=TEXTS[0])[1]["data"][0]["embedding"]
        check(len(one) == 24 and abs(sum(x * x for x in one) - 1) < 1e-5, "cut, and then length 1")
        bytes64 = s.post("/v1/embeddings", input="x", encoding_format="base64")[1]["data"][0]
        expect(len(base64.b64decode(bytes64["embedding"])), 4 * 24, "bytes in base64")
        expect(len(s.post("/api/embed", input="x")[1]["embeddings"][0]), 24, "Ollama's dimensions")
        expect(s.post("/api/show", model="st")[1]["model_info"]["llama.embedding_length"], 24,
               "what /api/show says")
    expect(_vectors(_folder("st", {**ST, about: {"truncate_dim": 1000}})), MEAN, "more than there are")
    for bad in (0, -1, "24"):
        _refused(_folder("st", {**ST, about: {"truncate_dim": bad}}), about, "truncate_dim")
    _refused(_folder("st", {**ST, "sentence_bert_config.json": {"max_seq_length": 0}}),
             "sentence_bert_config.json: max_seq_length")


def inspect_shows_how_embeddings_are_made():
    path = _folder("st", {**ST, "sentence_bert_config.json": {"modality_config": MESSAGE,
                                                              "max_seq_length": 6},
                          "config_sentence_transformers.json": {
                              "truncate_dim": 24, "default_prompt_name": "query",
                              "prompts": {"query": "q: "}}})
    expect(json.loads(call("inspect", "-m", path, "--json").stdout)["embeddings"],
           {"pooling": "mean", "prompt": "q: ", "chat_template": True, "max_tokens": 6,
            "dimensions": 24},
           "embeddings of --json")
    said = call("inspect", "-m", path).stdout.decode()
    check("embeddings: mean of all tokens, with the default prompt, texts as messages of the user "
          "in the chat template, texts cut to 6 tokens, the first 24 dimensions\n" in said,
          f"inspect says {said}")
    check("embeddings" not in json.loads(call("inspect", "-m", DEMO, "--json").stdout),
          "a model without such files")
    path = _folder("st", {**ST, "1_Pooling/config.json": {"pooling_mode": "cls"}})
    check(b"embeddings are refused: 1_Pooling/config.json: pooling cls"
          in call("inspect", "-m", path).stdout, "what serve refuses")


def what_the_user_says_goes_before_the_folder():
    path = _folder("st", {"1_Pooling/config.json": {"pooling_mode": "mean"},
                          "modules.json": [TRANSFORMER, POOLING, LSTM]})
    check(_vectors(path, "--pooling", "last") == LAST, "--pooling last of a folder that says mean")
    check(_vectors(path, "--pooling", "mean") == MEAN, "--pooling mean")
    for modules, left_out in (([TRANSFORMER, POOLING, DENSE,
                                {**DENSE, "path": "3_Dense"}, NORMALIZE], "2_Dense, 3_Dense"),
                              ([TRANSFORMER, POOLING, NORMALIZE], None)):
        path = _folder("st",
                       {"1_Pooling/config.json": {"pooling_mode": "mean"}, "modules.json": modules})
        with Server("--pooling", "last", model=path) as s:
            said = [x for x in s.log if "modules.json" in x]
        check(len(said) == (left_out is not None)
              and all(f"leaves out {left_out}," in x for x in said),
              f"modules that --pooling leaves out are named: {said}")


def a_packed_checkpoint_keeps_what_the_folder_says():
    path = _folder("st", {"1_Pooling/config.json": {"pooling_mode": "mean"},
                          "modules.json": [TRANSFORMER, POOLING]})
    packed = os.path.join(scratch.name, "st.gallop")
    expect(call("pack", "-m", path, "-o", packed, "--quiet").returncode, 0, "status of pack")
    check(_vectors(packed) == MEAN, "embeddings of a packed folder")
    path = _folder("st", {**ST, "sentence_bert_config.json": {"max_seq_length": 6},
                          "config_sentence_transformers.json": {"truncate_dim": 24}})
    expect(call("pack", "-m", path, "-o", packed, "--quiet", "--force").returncode, 0, "status")
    check(_embedded(packed, LONG, 4) == _of_ids(_ids(LONG)[:6])[0][:24], "texts are cut, too")


def _gguf(pooling):
    """Returns a GGUF file with this pooling_type: 64 bytes more, so that tensors stay aligned."""
    with open(os.path.join(ROOT, "test", "data", "gguf", "llama3-rope.gguf"), "rb") as f:
        data = f.read()
    n, = struct.unpack_from("<Q", data, 16)
    key, pad = b"llama.pooling_type", b"general.ab"
    more = struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, pooling) + struct.pack(
        "<Q", len(pad)) + pad + struct.pack("<IQ", 8, 0)
    check(len(more) == 64, "what is put in keeps the alignment")
    path = os.path.join(scratch.name, "pooling.gguf")
    with open(path, "wb") as f:
        f.write(data[:16] + struct.pack("<Q", n + 2) + more + data[24:])
    return path


def pooling_type_of_gguf_is_served():
    def vectors(*options):
        with Server("--dtype", "fp32", *options, model=path) as s:
            return s.post("/v1/embeddings", input=[5, 6, 7],
                          normalize=False)[1]["data"][0]["embedding"]
    path = _gguf(3)
    last, mean = vectors("--pooling", "last"), vectors("--pooling", "mean")
    for pooling, wanted in ((0, last), (1, mean), (3, last)):
        path = _gguf(pooling)
        check(last != mean and vectors() == wanted, f"embeddings of pooling_type {pooling}")
    for pooling, name in ((2, "cls"), (4, "rank")):
        path = _gguf(pooling)
        _refused(path, f"pooling_type {name}", "pooling last or mean")
        check(vectors("--pooling", "mean") == mean, "--pooling decides instead")
    _refused(_gguf(5), "llama.pooling_type")


def what_is_not_computed_is_refused_by_name():
    for config, words in (({"pooling_mode": "cls"}, ["pooling cls"]),
                          ({"pooling_mode": ["mean", "max"]}, ["several modes"]),
                          ({**OLDER, "pooling_mode_cls_token": True}, ["pooling cls"]),
                          ({**OLDER, "pooling_mode_mean_tokens": True,
                            "pooling_mode_max_tokens": True}, ["several modes"]),
                          ({"pooling_mode": "weightedmean"}, ["weightedmean"]),
                          ({"pooling_mode": 5}, ["several modes"]), ([], ["an object"])):
        _refused(_folder("st", {"1_Pooling/config.json": config}), "1_Pooling/config.json", *words)
    pooling = {"1_Pooling/config.json": {"pooling_mode": "mean"}}
    _refused(_folder("st", {**pooling, "modules.json": [TRANSFORMER, POOLING, LSTM]}),
             "modules.json", "2_LSTM", "LSTM", "pooling last or mean")
    _refused(_folder("st", {**pooling, "modules.json": [TRANSFORMER, POOLING, NORMALIZE, DENSE]}),
             "modules.json", "2_Dense", "in this order")
    _refused(_folder("st", {**pooling, "modules.json": [POOLING, TRANSFORMER]}), "modules.json",
             "Transformer", "in this order")
    _refused(_folder("st", {**pooling, "modules.json": [TRANSFORMER, POOLING, {"path": "3_X"}]}),
             "modules.json", "expected the strings type and path")
    _refused(_folder("st", {**pooling, "modules.json": {}}), "modules.json", "a list")


# The functions that the modules themselves compute, by the class of the activation.
ACTS = {"torch.nn.modules.activation.Tanh": math.tanh,
        "torch.nn.modules.linear.Identity": lambda x: x,
        "torch.nn.modules.activation.ReLU": lambda x: max(x, 0),
        "torch.nn.modules.activation.Sigmoid": lambda x: 1 / (1 + math.exp(-x)),
        "torch.nn.modules.activation.SiLU": lambda x: x / (1 + math.exp(-x)),
        "torch.nn.modules.activation.GELU": lambda x: x * (1 + math.erf(x / 2 ** .5)) / 2}


def _dense(path, n_in, n_out, bias, act, seed, tensors=None):
    """Writes the module into the folder PATH, and returns the function that it computes."""
    draw = random.Random(seed)
    w = [[draw.uniform(-1, 1) * n_in ** -.5 for _ in range(n_in)] for _ in range(n_out)]
    b = [draw.uniform(-1, 1) if bias else 0 for _ in range(n_out)]
    parts = {"linear.weight": ("F32", [n_out, n_in],
                               struct.pack(f"<{n_in * n_out}f", *(x for r in w for x in r)))}
    if bias:
        parts["linear.bias"] = ("F32", [n_out], struct.pack(f"<{n_out}f", *b))
    head, at = {}, 0
    for k, (dtype, shape, data) in (tensors or parts).items():
        head[k] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text
                + b"".join(x[2] for x in (tensors or parts).values()))
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump({"in_features": n_in, "out_features": n_out, "bias": bias,
                   "activation_function": act, "module_input_name": "sentence_embedding",
                   "module_output_name": "sentence_embedding"}, f)
    return lambda x: [ACTS[act](sum(a * c for a, c in zip(r, x)) + d) for r, d in zip(w, b)]


def dense_modules_are_applied():
    pooling = {"1_Pooling/config.json": {"pooling_mode": "mean"}}
    n = len(MEAN[0])
    for i, act in enumerate(ACTS):
        path = _folder("st", {**pooling, "modules.json": [TRANSFORMER, POOLING, DENSE, NORMALIZE]})
        f = _dense(os.path.join(path, "2_Dense"), n, 40 + i, i % 2 == 0, act, i)
        got = _vectors(path)
        for v, x in zip(got, MEAN):
            check(len(v) == 40 + i and all(abs(a - b) < 1e-5 for a, b in zip(v, f(x))),
                  f"embeddings behind a Dense of {act}")
    last = {**DENSE, "path": "3_Dense"}
    path = _folder("st",
                   {**pooling, "modules.json": [TRANSFORMER, POOLING, DENSE, last, NORMALIZE]})
    f, g = (_dense(os.path.join(path, d), *size, False, "torch.nn.modules.linear.Identity", size[0])
            for d, size in (("2_Dense", (n, 400)), ("3_Dense", (400, 24))))
    with Server(model=path) as s:
        for x, text in zip(MEAN, TEXTS):
            wanted = g(f(x))
            length = sum(a * a for a in wanted) ** .5
            got = s.post("/v1/embeddings", input=text)[1]["data"][0]["embedding"]
            check(len(got) == 24 and all(abs(a - b / length) < 1e-5 for a, b in zip(got, wanted)),
                  "two of them, and then length 1")
            bytes64 = s.post("/v1/embeddings", input=text,
                             encoding_format="base64")[1]["data"][0]["embedding"]
            check(len(base64.b64decode(bytes64)) == 4 * 24, "as base64, too")
            expect(s.post("/api/show", model="st")[1]["model_info"]["llama.embedding_length"], 24,
                   "what /api/show says")
            got = s.post("/api/embed", input=text)[1]["embeddings"][0]
            check(len(got) == 24 and all(abs(a - b / length) < 1e-5 for a, b in zip(got, wanted)),
                  "by Ollama's API, too")
    packed = os.path.join(scratch.name, "dense.gallop")
    expect(call("pack", "-m", path, "-o", packed, "--quiet").returncode, 0,
           "status of pack of a folder with Dense")
    _refused(packed, "2_Dense", "packed checkpoint")


def a_dense_module_that_does_not_fit_is_refused():
    pooling, act, n = ({"1_Pooling/config.json": {"pooling_mode": "mean"}},
                       "torch.nn.modules.linear.Identity", len(MEAN[0]))
    path = _folder("st", {**pooling, "modules.json": [TRANSFORMER, POOLING, DENSE]})
    own, config = os.path.join(path, "2_Dense"), os.path.join(path, "2_Dense", "config.json")
    _refused(path, "2_Dense/config.json")
    _dense(own, n, 8, False, act, 1)
    os.unlink(os.path.join(own, "model.safetensors"))
    _refused(path, "2_Dense/model.safetensors")
    _dense(own, n + 1, 8, False, act, 1)
    _refused(path, "has 193 inputs", "hidden size is 192")
    two = _folder("two", {**pooling, "modules.json": [TRANSFORMER, POOLING, DENSE,
                                                      {**DENSE, "path": "3_Dense"}]})
    _dense(os.path.join(two, "2_Dense"), n, 8, False, act, 1)
    _dense(os.path.join(two, "3_Dense"), 9, 8, False, act, 1)
    _refused(two, "3_Dense/config.json", "in_features is 9", "has 8 outputs")
    _dense(own, n, 8, False, act, 1, {"linear.weight": ("F32", [n, 8], bytes(32 * n))})
    _refused(path, "2_Dense/model.safetensors", "linear.weight", "8 rows of 192")
    _dense(own, n, 8, True, act, 1, {"linear.weight": ("F32", [8, n], bytes(32 * n))})
    _refused(path, "linear.bias", "missing")
    _dense(own, n, 8, False, act, 1,
           {"linear.weight": ("F32", [8, n], b"\0\0\x80\x7f" + bytes(32 * n - 4))})
    _refused(path, "linear.weight", "infinity")
    _dense(own, n, 8, False, act, 1)
    good = json.load(open(config))
    for patch, word in (({"activation_function": "torch.nn.modules.activation.Mish"}, "Mish"),
                        ({"module_input_name": "token_embeddings"}, "module_input_name"),
                        ({"out_features": 0}, "out_features"),
                        ({"out_features": 65537}, "out_features"), ({"scale": 2}, "scale")):
        with open(config, "w") as f:
            json.dump({**good, **patch}, f)
        _refused(path, "2_Dense/config.json", word)


def a_model_without_a_head_is_served_for_embeddings():
    """Such libraries save the class of the base model, names without "model.", and no lm_head."""
    path = _folder("bare", {"1_Pooling/config.json": {"pooling_mode": "mean"},
                            "modules.json": [TRANSFORMER, POOLING]})
    with open(os.path.join(path, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump({**config, "architectures": ["LlamaModel"], "tie_word_embeddings": False}, f)
    with open(os.path.join(path, "model.safetensors"), "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    text = json.dumps({k[len("model."):]: v for k,
                       v in head.items() if k.startswith("model.")}).encode()
    check("lm_head.weight" not in head, "the demo model is tied")
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    check(_vectors(path) == MEAN, "embeddings of a model without a head")
    with Server(model=path) as s:
        for route, fields in (("/v1/completions", {"prompt": "x"}), (
                "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                              ("/api/generate", {"prompt": "x", "stream": False})):
            status, body = s.post(route, max_tokens=1, **fields)
            check(400 <= status < 500 and "only compute embeddings" in json.dumps(body)
                  and scratch.name not in json.dumps(body), f"{route}: {status} {body}")
        expect(s.post("/v1/embeddings", input="x")[0], 200, "status of embeddings behind them")
        expect(s.post("/api/show", model="bare")[1]["capabilities"], ["embedding"],
               "what /api/show says")
    for verb in (("run", "-n", "1", "x"), ("chat",),
                 ("ppl", "--file", os.path.join(DEMO, "config.json"))):
        r = call(*verb[:1], "-m", path, *verb[1:])
        said = r.stderr.decode()
        check(r.returncode == 1 and "lm_head.weight is missing" in said and said.count("\n") == 1,
              f"{verb} says {r.returncode} {said!r}")


# ---- attention in both directions ----

with open(os.path.join(ROOT, "test", "data", "embeddings", "bidirectional.json")) as f:
    BOTH = json.load(f)


def _golden(name, patch):
    path, golden = os.path.join(scratch.name, "golden"), os.path.join(ROOT, "test", "golden", name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    shutil.copy(os.path.join(golden, "model.safetensors"), path)
    with open(os.path.join(golden, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump({**config, **patch}, f)
    return path


def embeddings_of_both_directions_are_those_of_transformers():
    models = {(r["golden"], json.dumps(r["config"])) for r in BOTH}
    for name, patch in sorted(models):
        rows = [r for r in BOTH if (r["golden"], json.dumps(r["config"])) == (name, patch)]
        path = _golden(name, json.loads(patch))
        for way, more in (("mean", ()),
                          ("last", ("--kv-cache-type", "paged", "--max-num-seqs", 2))):
            with Server("--dtype", "fp32", "--pooling", way, *more, model=path) as s:
                status, body = s.post("/v1/embeddings", input=[r["ids"] for r in rows],
                                      normalize=False)
                expect(status, 200, f"status of embeddings of {name} {patch}: {str(body)[:200]}")
                for r, d in zip(rows, body.get("data", [])):
                    worst = max(abs(a - b) for a,
                                b in zip(r[way], d["embedding"])) / max(map(abs, r[way]))
                    check(worst < 2e-5,
                          f"{name} {patch}, {way} of {len(r['ids'])} tokens: off by {worst:.1e}")
                again = s.post("/v1/embeddings", input=rows[2]["ids"],
                               normalize=False)[1]["data"][0]["embedding"]
                check(again == body["data"][2]["embedding"],
                      f"{name} {patch}: asked alone, and again, it is the same")


def a_model_of_both_directions_takes_whole_prompts_and_makes_no_text():
    path = _golden("qwen2", {"is_causal": False})
    with Server("--max-num-batched-tokens", 16, "--max-num-seqs", 4, model=path) as s:
        expect(s.post("/v1/embeddings", input=[5] * 16)[0], 200,
               "status of a prompt as long as a step")
        status, body = s.post("/v1/embeddings", input=[5] * 17)
        check(status == 400 and "17 tokens, expected at most max_batched_tokens, 16"
              in json.dumps(body),
              f"a longer one: {status} {body}")
        kept = s.post("/v1/embeddings", input=[5] * 15 + [6])[1]["data"][0]["embedding"]
        for more in ([], [7], [7] * 40):
            body = s.post("/api/embed", input=[5] * 15 + [6] + more)[1]
            check(
                body.get("embeddings") == [kept],
                f"what is cut by Ollama's truncate with {len(more)} tokens too many: {str(body)[:200]}")
            body = s.post("/v1/embeddings", input=more + [5] * 15 + [6],
                          truncate_prompt_tokens=-1)[1]
            check(body.get("data", [{}])[0].get("embedding") == kept,
                  f"the same of OpenAI's: {str(body)[:200]}")
        expect(s.post("/api/embed", input=[5] * 17, truncate=False)[0], 400, "what may not be cut")
        # One and a half of them would fit into a step.
        prompts = [[5 + i] * 9 + [7] for i in range(9)]
        alone = [s.post("/v1/embeddings", input=p)[1]["data"][0]["embedding"] for p in prompts]
        status, body = s.post("/v1/embeddings", input=prompts)
        check(status == 200 and [d["embedding"] for d in body["data"]] == alone,
              "many of them, none of which is cut")
        status, body = s.post("/v1/completions", prompt=[5], max_tokens=1)
        check(status == 400 and "bidirectional attention" in json.dumps(body)
              and scratch.name not in json.dumps(body), f"completions: {status} {body}")
    _refused(path, "bidirectional attention", options=("--kv-store", scratch.name))
    _refused(path, "--kv-sparse", "bidirectional", options=("--kv-sparse", "sink=4,window=64"))


run_all(list(globals().items()))
