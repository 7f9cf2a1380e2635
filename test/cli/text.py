#!/usr/bin/env python3
"""text.py - `tokenize` and `render`: the sources of text, invalid text, and options that exclude
each other."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from _cli import (DEMO, GALLOP, call, check, expect, expect_error, lines, rest_cpu, run_all,
                  whole_cpu)

FOLDER = tempfile.TemporaryDirectory()
MESSAGES = [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "caf\u00e9"}]


def _file(name, data):
    path = os.path.join(FOLDER.name, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def _tokenize(*args, **more):
    return call("tokenize", "-m", DEMO, *args, **more)


def _render(*args, **more):
    return call("render", "-m", DEMO, *args, **more)


def _ids(r):
    expect((r.returncode, r.stderr), (0, b""), f"status and words of {r.args[3:]}")
    return lines(r)[0]["ids"]


# ---- tokenize ----

def a_text_is_the_same_from_everywhere():
    text = "Once upon a time,\n caf\u00e9 \U0001f600"
    want = _ids(_tokenize("--json", text))
    for args, stdin in ((["--file", _file("t.txt", text)], None), (["--file", "-"], text),
                        (["--batch", "-"], json.dumps({"text": text})),
                        (["--batch", _file("t.jsonl", json.dumps(text))], None)):
        expect(_ids(_tokenize("--json", *args, stdin=stdin and stdin.encode())), want,
               f"ids of {args}")
    r = _tokenize(text)
    expect(r.stdout.decode(), ",".join(map(str, want)) + "\n", "the line without --json")
    plain = _ids(_tokenize("--json", "--no-special", text))
    check(want != plain and want[-len(plain):] == plain,
          f"--no-special leaves out what stands in front: {want} and {plain}")
    expect(_tokenize("--no-special", "").stdout, b"\n", "ids of nothing")


def ids_go_back_however_they_are_given():
    text = "The end of it"
    ids = _ids(_tokenize("--json", "--no-special", text))
    for given in (",".join(map(str, ids)), " ".join(map(str, ids)), ", ".join(map(str, ids))):
        for args in (["--ids", given], [given]):
            r = _tokenize("--decode", *args)
            expect((r.returncode, r.stdout.decode()), (0, text + "\n"), f"text of {args}")
    r = _tokenize("--decode", "--json", "--stream", "--ids", ",".join(map(str, ids)))
    expect("".join(lines(r)[0]["pieces"]), text, "streamed pieces")
    part = ",".join(map(str, _ids(_tokenize("--json", "--no-special", "so \U0001f600"))[:-1]))
    pieces = lines(_tokenize("--decode", "--stream", "--ids", part))[0]["pieces"]
    expect("".join(pieces), lines(_tokenize("--decode", "--json", "--ids", part))[0]["text"],
           "streamed pieces of a text that ends inside a character")
    check(pieces[-1].endswith("\ufffd"), f"what was left is in the last piece: {pieces}")
    o = lines(_tokenize("--json", "--pieces", "--no-special", text))[0]
    expect((o["ids"], len(o["pieces"])), (ids, len(ids)), "ids with pieces")
    check(o["pieces"][0].startswith("The"), f"pieces: {o['pieces']}")
    two = _tokenize("--pieces", "--no-special", text).stdout.decode().splitlines()
    expect((len(two), two[0]), (2, ",".join(map(str, ids))), "lines with pieces, without --json")
    expect(two[1], " ".join(json.dumps(x, ensure_ascii=False) for x in o["pieces"]),
           "the line of pieces")


def special_tokens_are_read_shown_and_left_out_as_asked():
    eos = json.load(open(os.path.join(DEMO, "config.json")))["eos_token_id"]
    name = json.load(open(os.path.join(DEMO, "tokenizer_config.json")))["eos_token"]
    name = name["content"] if isinstance(name, dict) else name
    expect(_ids(_tokenize("--json", "--no-special", f"a{name}"))[-1], eos,
           "the last id of a text with a special token")
    plain = _ids(_tokenize("--json", "--no-special", "--plain", f"a{name}"))
    check(eos not in plain and len(plain) > 2, f"--plain reads it as text: {plain}")
    given = ",".join(map(str, [*plain, eos]))
    expect(_tokenize("--decode", "--ids", given).stdout.decode(), f"a{name}{name}\n",
           "the text with what is special")
    expect(_tokenize("--decode", "--skip-special", "--ids", given).stdout.decode(), f"a{name}\n",
           "the text without")
    r = _tokenize("--decode", "--skip-special", "--stream", "--ids", given)
    expect("".join(lines(r)[0]["pieces"]), f"a{name}", "the streamed text without")


def a_batch_is_answered_line_by_line_up_to_what_is_wrong():
    r = _tokenize("--no-special", "--batch", "-",
                  stdin=b'"a"\n\n{"text": "b"}\n{"ids": [1]}\n"c"\n')
    said = r.stderr.decode()
    expect((r.returncode, len(lines(r))), (1, 2),
           f"status and answers of a batch with a wrong line 4 ({said})")
    check("-: line 4: " in said and said.count("\n") == 1, f"the line is named: {said}")
    for line, word in (('{"ids": [1.5]}', "ids[0]"), ('{"ids": 3}', "list"), ('"x"', "list"),
                       ("[1,", "line 1"), ('{"ids": [1, -1]}', "ids[1]: found -1"),
                       ("[99999999999]", "ids[0]")):
        expect_error(_tokenize("--decode", "--batch", "-", stdin=line.encode()), 1, "-: line 1",
                     word)
    expect([x["text"] for x in lines(_tokenize(
        "--decode", "--batch", "-", stdin=b'[]\n{"ids": []}\n{"ids": [2047]}'))],
           ["", "", " owned"], "text of no ids, and of the last one")
    for way in ([], ["--stream"]):
        r = _tokenize("--decode", *way, "--batch", "-", stdin=b"[2047, 2048, 5, 9999]\n[2047]\n")
        text, alone = ("".join(x.get("pieces", x.get("text"))) for x in lines(r))
        expect((r.returncode, alone, r.stderr.decode().count("\n")), (0, " owned", 1), "one warning")
        check(text.startswith(" owned") and "line 1: ids[1] is 2048" in r.stderr.decode() and
              "2 ids are skipped" in r.stderr.decode(), f"{text}: {r.stderr.decode()}")
    for args in (["--ids", "5,99999"], ["--ids", "5,99999", "--json"], ["--ids", "5,99999", "--stream"]):
        expect_error(_tokenize("--decode", *args), 1, "--ids", "ids[1]: found 99999")


def sources_and_ways_of_tokenize_do_not_mix():
    f = _file("x.txt", "x")
    for args, word in (
            ([], "found none"), (["a", "b"], "found 2 arguments"), (["a", "--file", f], "a text --file"),
            (["--file", f, "--batch", f], "--file --batch"), (["--ids", "1"], "--decode"),
            (["--decode"], "found none"), (["--decode", "--file", f], "--file"),
            (["--decode", "--ids", "1", "2"], "--ids"), (["--decode", "--ids", "1,x"], "--ids"),
            (["--decode", "1,,2"], "--ids"), (["--decode", "--ids", "99999999999"], "--ids")):
        expect_error(_tokenize(*args), 2, word)
    for args in (["--stream", "a"], ["--skip-special", "a"], ["--decode", "--pieces", "1"],
                 ["--decode", "--plain", "1"], ["--decode", "--no-special", "1"]):
        r = _tokenize(*args)
        word = next(x for x in args if x.startswith("--") and x != "--decode")
        check(r.returncode == 0 and f"{word} changes nothing" in r.stderr.decode()
              and r.stderr.count(b"\n") == 1, f"{args}: {r.stderr}")
        expect(_tokenize("-q", *args).stderr, b"", f"words of {args} with --quiet")


def a_batch_ends_with_its_reader():
    args = ["tokenize", "-m", DEMO, "--batch",
            _file("many.jsonl", '"a few words to be cut into tokens"\n' * 100000)]
    _, whole = whole_cpu(*args, stdout=subprocess.DEVNULL)
    with subprocess.Popen([GALLOP, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdout.readline()
        p.stdout.close()
        status, took = rest_cpu(p)
        expect((status, p.stderr.read()), (1, b""), "status and words of a batch without a reader")
        check(took < 0.05 + whole / 2,
              f"a batch computes {took:.2f} s after its reader has left, of {whole:.2f} s in all")


# ---- render ----

def a_template_gets_its_messages_and_nothing_else():
    f = _file("m.json", json.dumps(MESSAGES))
    text = _render("--messages", f).stdout.decode()
    check(text.endswith("<|assistant|>") and "caf\u00e9" in text and not text.endswith("\n"),
          f"the demo's template: {text!r}")
    expect(_render("--messages", f, "--no-generation-prompt").stdout.decode(),
           text[:-len("<|assistant|>")], "without the assistant's turn")
    expect(_render("--messages", "-", stdin=json.dumps(
        {"messages": MESSAGES}).encode()).stdout.decode(), text, "an object with messages")
    expect(lines(_render("--messages", f, "--json"))[0]["text"], text, "the text in JSON")
    ids = _ids(_tokenize("--json", "--no-special", text))
    expect(_render("--messages", f, "--ids").stdout.decode(), ",".join(map(str, ids)) + "\n", "ids")
    expect(lines(_render("--messages", f, "--ids", "--json"))[0]["ids"], ids, "ids in JSON")
    t = _file(
        "t.jinja",
        "{{ messages | length }} {{ strftime_now('%Y-%m-%d') }}{{ bos_token }}{{ add_generation_prompt }} caf\u00e9\n")
    bos = json.load(open(os.path.join(DEMO, "tokenizer_config.json")))["bos_token"]
    bos = bos["content"] if isinstance(bos, dict) else bos
    expect(_render("--messages", f, "--template", t, "--now",
                   "2026-07-01T12:00:00").stdout.decode(), f"3 2026-07-01{bos}True caf\u00e9",
           "another template")
    c = _file("c.json", '{"messages": [1, 2]}')
    expect(_render("--context", c, "--template", t, "--now", "2026-07-01T12:00:00",
                   env={"GALLOP_MODEL": DEMO}).stdout.decode(), "2 2026-07-01 caf\u00e9",
           "a template with variables of its own")


def named_templates_and_the_clock_are_chosen():
    model = os.path.join(FOLDER.name, "model")
    shutil.copytree(DEMO, model)
    with open(os.path.join(model, "tokenizer_config.json")) as f:
        config = json.load(f)
    config["chat_template"] = [{"name": x, "template": x + " {{ strftime_now('%Y-%m-%d %H') }}"}
                               for x in ("default", "tool_use", "other")]
    with open(os.path.join(model, "tokenizer_config.json"), "w") as f:
        json.dump(config, f)
    tools = {"messages": MESSAGES,
             "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
    for args, data, want in (([], MESSAGES, "default"), ([], tools, "tool_use"),
                             (["--template-name", "other"], tools, "other"),
                             (["--template-name", "default"], tools, "default")):
        before = time.gmtime(time.time() + 5 * 3600)
        got = call("render", "-m", model, "--messages", "-", *args, stdin=json.dumps(data).encode(),
                   env={"TZ": "HERE-5"}).stdout.decode()
        after = time.gmtime(time.time() + 5 * 3600)
        check(got in [f"{want} {time.strftime('%Y-%m-%d %H', x)}" for x in (before, after)],
              f"{args}: found {got!r}, expected {want} and the local time")
    r = call("render", "-m", model, "--messages", "-", "--template-name", "none",
             stdin=json.dumps(MESSAGES).encode())
    expect_error(r, 1, "none")


def files_and_ways_of_render_do_not_mix():
    f, t = _file("m.json", json.dumps(MESSAGES)), _file("t.jinja", "{{ messages | length }}")
    for args, word in (([], "--messages"), (["--context", f], "--chat-template"), (
            ["--template", t], "--messages"), (["--messages", f, "--context", f], "either"),
                       (["--messages", f, "--context", f, "--template", t], "either"),
                       (["--messages", f, "more"], "more"),
                       (["--messages", "-", "--template", "-"], "standard input"),
                       (["--messages", f, "--now", "noon"], "--now"),
                       (["--messages", f, "--now", "2026-07-01T12:00:00Z"], "--now")):
        expect_error(_render(*args), 2, word)
    c = _file("c.json", '{"messages": []}')
    for args, word in (
            (["--messages", f, "--template", t, "--template-name", "x"], "--template-name"),
            (["--context", c, "--template", t, "--no-generation-prompt"], "--no-generation-prompt"),
            (["--context", c, "--template", t], "--model")):
        said = _render(*args).stderr.decode().splitlines()
        check(any(f"{word} changes nothing" in x for x in said), f"{args}: {said}")
    for data, words in (("{\n\n", ("m.json", "byte 3 (line 3)")), ('{"messages": 3}', (
            "m.json", "messages")), ("3", ("m.json",)), ("[]", ("m.json", "messages"))):
        expect_error(_render("--messages", _file("m.json", data)), 1, *words)
    for data, words in (("{", ("c.json", "byte 1")), ("[]", ("c.json", "JSON object")),
                        ('{"n": %s}' % ("9" * 4301), ("c.json", "4301 digits"))):
        expect_error(call("render", "--context", _file("c.json", data), "--template", t), 1, *words)
    expect_error(_render("--messages", os.path.join(FOLDER.name, "none.json")), 1, "none.json")
    r = _render("--messages", _file("m.json", json.dumps(MESSAGES)), "--template",
                _file("t.jinja", "{{ raise_exception('not today') }}"))
    expect_error(r, 1, "not today")


# ---- invalid text ----

def what_is_not_utf_8_is_said_with_its_place_before_anything_is_computed():
    bad, good = b"first\nsecond caf\xe9 x", _file("m.json", json.dumps(MESSAGES))
    place = ("line 2, byte 11", "0xe9", "UTF-8")
    for args, where in ((["tokenize", bad], "the text"),
                        (["tokenize", "--file", _file("bad.txt", bad)], "bad.txt"),
                        (["tokenize", "--batch", _file("bad.txt", bad)], "bad.txt"),
                        (["logits", "--top", 1, bad], "the prompt"),
                        (["ppl", "--file", _file("bad.txt", bad)], "bad.txt"),
                        (["render", "--messages", _file("bad.txt", bad)], "bad.txt"),
                        (["render", "--messages", good, "--template", _file("bad.txt", bad)],
                         "bad.txt"), (["render", "--context", _file("bad.txt", bad), "--template",
                                       good], "bad.txt")):
        more = [] if "--context" in args else ["-m", DEMO]
        expect_error(call(*args, *more), 1, where, *place)
    for data, place in ((b"\xff", "line 1, byte 1: 0xff"), (b"a\n\n\n\xc3", "line 4, byte 1: 0xc3"),
                        (b"\xed\xa0\x80", "line 1, byte 1: 0xed"),
                        (b"caf\xc3\xa9\xc0\x80", "line 1, byte 6: 0xc0"),
                        (b"x" * 70000 + b"\n" + b"y" * 3 + b"\xf5", "line 2, byte 4: 0xf5")):
        expect_error(_tokenize("--file", "-", stdin=data), 1, "-: " + place)
    # The error comes before a model is looked for.
    for verb in (["tokenize"], ["logits", "--top", 1]):
        expect_error(call(*verb, "-m", "/nowhere", b"\xff"), 1, "0xff")
    expect_error(call("ppl", "-m", "/nowhere", "--file", _file("bad.txt", bad)), 1, "0xe9")


def what_never_ends_is_not_read_for_ever():
    for args in (["tokenize", "-m", DEMO, "--file"], ["tokenize", "-m", DEMO, "--batch"],
                 ["ppl", "-m", DEMO, "--file"], ["render", "-m", DEMO, "--messages"],
                 ["render", "--template", _file("t.jinja", ""), "--context"],
                 ["render", "--context", _file("c.json", "{}"), "--template"]):
        expect_error(call(*args, "/dev/zero"), 1, "/dev/zero", "256 MiB")
    expect_error(_tokenize("--file", FOLDER.name), 1, FOLDER.name)


# ---- files beside a tokenizer.json ----

def _byte_letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in letters):
        letters[b] = chr(256 + n)
    return [letters[b] for b in range(256)]


def _token(content, special=True, **more):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False,
            "normalized": False, "special": special, **more}


def _folder(name, config, added=(), digits=False, **more):
    """Makes a folder of a tokenizer whose ids are bytes, with ADDED from 256 on."""
    path = os.path.join(FOLDER.name, name)
    os.makedirs(path, exist_ok=True)
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
    steps = [{"type": "Digits", "individual_digits": True}, level]
    vocab = {c: i for i, c in enumerate(_byte_letters())}
    tokenizer = {"version": "1.0", "added_tokens": [{"id": 256 + i, **t} for i, t in enumerate(
        added)], "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}
                 if digits else level, "post_processor": None, "decoder": level,
                 "model": {"type": "BPE", "vocab": vocab, "merges": []}, **more}
    with open(os.path.join(path, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f)
    with open(os.path.join(path, "tokenizer_config.json"), "w") as f:
        json.dump(config, f)
    return path


def _ids_of(folder, text, *args):
    return _ids(call("tokenize", "-m", folder, "--json", *args, text))


def _bytes(text):
    return list(text.encode())


def tokens_of_tokenizer_config_are_cut_out_of_texts():
    table = {"256": _token("<a>"), "257": _token("<b>", False), "9": _token("<c>", lstrip=True),
             "300": _token("<d>")}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": table,
              "eos_token": "<eos>", "bos_token": None,
              "pad_token": {"content": "<pad>", "rstrip": True},
              "additional_special_tokens": ["<d>", "<more>"]}
    folder = _folder("table", config, [_token("<a>")])
    # in the order of the table's ids, then the attributes, then the others in the order of the file
    for text, want in (("<a>x", [256, 120]), ("x <c>x", [120, 257, 120]), ("<b>", [258]),
                       ("<d>", [259]), ("<eos>", [260]), ("<pad> x", [261, 120]), ("<more>", [262]),
                       ("<unk>", _bytes("<unk>"))):
        expect(_ids_of(folder, text), want, f"ids of {text}")
    expect(_ids_of(folder, "<b><a>", "--no-special"), [258, 256],
           "--no-special leaves out what stands around a text alone")
    r = call("tokenize", "-m", folder, "--decode", "--ids", "258,257,120,261")
    expect(r.stdout.decode(), "<b><c>x<pad>\n", "all tokens are written")


def new_special_tokens_take_their_ids_in_the_order_of_transformers():
    config = {"extra_special_tokens": {"x_token": "<x>"}, "mask_token": "<mask>",
              "pad_token": "<pad>", "cls_token": "<cls>", "sep_token": "<sep>",
              "unk_token": "<unk>", "eos_token": "<eos>", "bos_token": "<bos>"}
    folder = _folder("ranks", config)
    for i, token in enumerate(("<bos>", "<eos>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>",
                               "<x>")):
        expect(_ids_of(folder, token), [256 + i], f"ids of {token}")


def flags_of_tokenizer_config_replace_those_of_tokenizer_json():
    table = {"256": _token("<a>", lstrip=True), "257": _token("yz", single_word=True)}
    folder = _folder("flags", {"added_tokens_decoder": table}, [_token("<a>"), _token("yz")])
    expect(_ids_of(folder, "x  <a>yzz yz"), [120, 256, *_bytes("yzz "), 257],
           "ids with the table's flags")
    folder = _folder("flags_named_first", {"bos_token": "<a>", "added_tokens_decoder": table},
                     [_token("<a>"), _token("yz")])
    expect(_ids_of(folder, "x  <a>"), [120, 256], "the name comes before the table")
    os.remove(os.path.join(folder, "tokenizer_config.json"))
    expect(_ids_of(folder, "x  <a>yzz"), [120, 32, 32, 256, 257, 122], "ids without the table")


def special_tokens_can_be_split():
    added = [_token("<a>"), _token("<b>", False)]
    folder = _folder("split", {"split_special_tokens": True}, added)
    expect(_ids_of(folder, "<a><b>"), [*_bytes("<a>"), 257],
           "special tokens are split, others are not")
    folder = _folder("whole", {"split_special_tokens": False}, added)
    expect(_ids_of(folder, "<a><b>"), [256, 257], "special tokens are whole")


def a_space_is_put_in_front_where_the_class_obeys():
    for name, want in (("GPT2Tokenizer", " ab 1"), ("GPTNeoXTokenizerFast", " ab 1"),
                       ("Qwen2TokenizerFast", " ab  1"), ("CohereTokenizer", " ab  1"),
                       ("PreTrainedTokenizerFast", "ab 1")):
        folder = _folder("prefix", {"tokenizer_class": name, "add_prefix_space": True},
                         digits=name[0] in "QC")
        expect(_ids_of(folder, "ab 1"), _bytes(want), f"ids of {name}")
    folder = _folder("prefix", {"tokenizer_class": "CohereTokenizer", "add_prefix_space": True},
                     digits=True)
    expect(_ids_of(folder, "a.b1"), _bytes(" a.b 1"), "a space before what Digits cuts, not after")
    level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True,
             "trim_offsets": True}
    for name in ("GPT2Tokenizer", "Qwen2Tokenizer", "CohereTokenizer", "PreTrainedTokenizerFast"):
        for value, want in ((False, "ab"), (True, " ab"), (None, "ab"), (..., "ab")):
            config = {"tokenizer_class": name, **({} if value is ... else
                                                  {"add_prefix_space": value})}
            folder = _folder("prefix", config, pre_tokenizer=level)
            expect(_ids_of(folder, "ab"), _bytes(" ab" if name[0] == "P" else want),
                   f"ids of {name} with add_prefix_space {value}")


QWEN = "[Undefined, '<|endoftext|>', '<|endoftext|>', '<|endoftext|>', Undefined]"
GPT2 = "['<|endoftext|>', '<|endoftext|>', '<|endoftext|>', Undefined, Undefined]"
NEOX = "['<|endoftext|>', '<|endoftext|>', '<|endoftext|>', '<|padding|>', Undefined]"
NONE = "[Undefined, Undefined, Undefined, Undefined, Undefined]"
# tokenizer_class of tokenizer_config.json, model_type and tokenizer_class of config.json, and the
# tokens of the class that transformers 5.24 chooses.
CLASSES = ((None, None, None, NONE), ("GPT2Tokenizer", None, None, GPT2),
           ("GPT2TokenizerFast", "llama", None, GPT2), ("CodeGenTokenizer", None, None, GPT2),
           ("Fast", "qwen3", None, NONE), ("NewTokenizer", "qwen3", None, NONE),
           (None, "qwen2", None, QWEN), (None, "qwen3", None, QWEN), (None, "qwen3_5", None, QWEN),
           (None, "gpt2", None, GPT2), (None, "opt", None, GPT2), (None, "gpt_neox", None, NEOX),
           (None, "llama", None, NONE), (None, "mistral", None, NONE), (None, "new", None, NONE),
           ("GPT2Tokenizer", "mistral", None, NONE), ("GPT2Tokenizer", "phi3", None, NONE),
           ("GPT2Tokenizer", "granite", None, NONE), ("GPT2Tokenizer", "qwen2", None, QWEN),
           ("GPT2Tokenizer", "qwen3", None, GPT2), ("Qwen2Tokenizer", "llama", None, QWEN),
           ("PreTrainedTokenizerFast", "qwen2", None, QWEN),
           ("PreTrainedTokenizerFast", "qwen3", None, NONE),
           ("LlamaTokenizer", "llama", None, NONE), ("LlamaTokenizer", "qwen2", None, QWEN),
           ("LlamaTokenizerFast", None, None, NONE), (None, "llama", "GPT2TokenizerFast", GPT2),
           (None, "phi3", "GPT2Tokenizer", NONE), ("GPT2Tokenizer", "llama", "Qwen2Tokenizer", GPT2),
           (None, "llama", "LlamaTokenizer", NONE))


def _class_folder(name, model_type, of_model, **more):
    folder = _folder("class", {**({"tokenizer_class": name} if name else {}), **more})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({k: v for k, v in (("model_type", model_type), ("tokenizer_class", of_model)) if v},
                  f)
    return folder


def the_class_follows_from_both_configurations():
    template = "{{ [bos_token, eos_token, unk_token, pad_token, mask_token] }}"
    messages = _file("one.json", json.dumps(MESSAGES[:1]))
    for name, model_type, of_model, want in CLASSES:
        folder = _class_folder(name, model_type, of_model, add_prefix_space=True,
                               chat_template=template)
        r = call("render", "-m", folder, "--messages", messages)
        expect((r.returncode, r.stdout.decode()), (0, want),
               f"tokens of {name} with {model_type} and {of_model}: {r.stderr}")
        expect(_ids_of(folder, "ab<|endoftext|>"),
               _bytes("ab<|endoftext|>") if want == NONE else [*_bytes(" ab"), 256],
               f"add_prefix_space, and a token that the vocabulary lacks, of {name} with "
               f"{model_type} and {of_model}")


def templates_know_the_tokens_of_the_class():
    template = "{{ [bos_token, eos_token, unk_token, pad_token, mask_token] }}"
    cases = (
        ("GPT2Tokenizer", {}, GPT2), ("Qwen2TokenizerFast", {}, QWEN),
        ("LlamaTokenizer", {"eos_token": "<e>"}, "['<s>', '<e>', '<unk>', Undefined, Undefined]"),
        ("GemmaTokenizer", {"pad_token": None}, "['<bos>', '<eos>', '<unk>', Undefined, '<mask>']"),
        ("PreTrainedTokenizerFast", {}, NONE))
    messages = _file("one.json", json.dumps(MESSAGES[:1]))
    for name, more, want in cases:
        folder = _folder("class", {"tokenizer_class": name, "chat_template": template, **more})
        if name[0] == "L":  # a ByteLevel makes this class another
            os.remove(os.path.join(folder, "tokenizer.json"))
        r = call("render", "-m", folder, "--messages", messages)
        expect((r.returncode, r.stdout.decode()), (0, want), f"tokens of {name}: {r.stderr}")


def a_class_with_its_own_steps_ignores_flags_and_tokens_of_the_file():
    """What transformers 5.24 does with added tokens; other classes take all of them."""
    known = [_token("<a>"), _token("<b>", lstrip=True, rstrip=True), _token("<c>", False)]
    table = {"257": _token("<b>", lstrip=True, rstrip=True), "256": _token("<a>", lstrip=True)}
    text = "x <a> y <b> z <c>"
    flagged = [120, 256, 32, 121, 257, 122]
    for name, config, want in (
            ("PreTrainedTokenizerFast", {}, [*flagged, 32, 258]),
            ("GPT2Tokenizer", {}, [*flagged, *_bytes(" <c>")]),
            ("Qwen2Tokenizer", {}, [*flagged, *_bytes(" <c>")]),
            ("GPT2Tokenizer", {"eos_token": "<b>"}, [*flagged, *_bytes(" <c>")]),
            ("Qwen2Tokenizer", {"eos_token": "<b>"},
             [120, 256, 32, 121, 32, 257, 32, 122, *_bytes(" <c>")]),
            ("Qwen2Tokenizer", {"extra_special_tokens": ["<a>"]},
             [120, 32, 256, 32, 121, 257, 122, *_bytes(" <c>")])):
        folder = _folder("own", {"tokenizer_class": name, "added_tokens_decoder": table, **config},
                         known)
        expect(_ids_of(folder, text), want, f"ids of {name} with {config}")


def every_attribute_that_names_a_token_makes_a_special_token():
    """The lists and attributes of tokenizer_config.json, with the ids that transformers 5.24 gives."""
    mark = {"content": "<i>", "lstrip": True, "__type": "AddedToken"}
    for config, want in (
            ({"image_token": "<i>"}, {"<i>": 256}), ({"image_token": mark}, {"<i>": 256}),
            ({"image_token": None, "use_token": True}, {"<i>": None}),
            ({"extra_special_tokens": ["<l>"], "image_token": "<i>", "eos_token": "<e>"},
             {"<e>": 256, "<i>": 257, "<l>": 258}),
            ({"extra_special_tokens": {"image_token": "<i>"}, "boi_token": "<b>"},
             {"<b>": 256, "<i>": 257}),
            ({"model_specific_special_tokens": {"image_token": "<i>"}}, {"<i>": 256}),
            ({"model_specific_special_tokens": {"image_token": "<i>"}, "eos_token": "<e>"},
             {"<e>": 256, "<i>": 257}),
            ({"model_specific_special_tokens": {"image_token": "<i>"}, "boi_token": "<b>"},
             {"<b>": 256, "<i>": None}),
            ({"additional_special_tokens": ["<l>"]}, {"<l>": 256}),
            ({"additional_special_tokens": ["<l>"], "extra_special_tokens": ["<m>"]},
             {"<l>": None, "<m>": 256}),
            ({"additional_special_tokens": ["<l>"], "extra_special_tokens": []}, {"<l>": 256}),
            ({"additional_special_tokens": ["<l>", "<i>"], "extra_special_tokens": ["<i>"]},
             {"<l>": None, "<i>": 256}),
            ({"extra_special_tokens": ["<i>"], "additional_special_tokens": ["<l>", "<i>"]},
             {"<l>": None, "<i>": 256}),
            ({"boi_token": "<i>", "model_specific_special_tokens": {"image_token": "<i>"}},
             {"<i>": 256})):
        folder = _folder("named", {"tokenizer_class": "PreTrainedTokenizerFast", **config})
        for text, token in want.items():
            expect(_ids_of(folder, f"a{text}"),
                   [97, token] if token else _bytes(f"a{text}"), f"{text} with {config}")
            expect(_ids_of(folder, f"a {text}") == [97, 256],
                   config.get("image_token") is mark, f"the flag of {text} with {config}")


def a_pattern_of_mistral_is_replaced_where_the_folder_says_so():
    """fix_mistral_regex of transformers 5.24, which counts with more than 100 000 tokens."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False,
             "trim_offsets": True}
    split = {"type": "Split", "pattern": {"Regex": r"\p{L}+"}, "behavior": "Isolated",
             "invert": False}
    sequence = {"type": "Sequence", "pretokenizers": [split, level]}
    letters = [*_byte_letters(), "ab", "Ab", "12", "a\u00cc"]

    def case(folder, want, config, model):
        files = {"config.json": model, "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", **config}}
        for name, content in files.items():
            path = os.path.join(folder, name)
            if os.path.exists(path):
                os.remove(path)
            if content is not None:
                with open(path, "w") as f:
                    json.dump(content, f)
        r = call("tokenize", "-m", folder, "--json", "xAb12ab")
        expect(json.loads(r.stdout)["ids"], [120, 257, 49, 50, 256] if want else
               [120, 257, 258, 256], f"ids with {config} and {model}")
        expect(b"fix_mistral_regex" in r.stderr, want is None, f"a warning: {r.stderr}")

    def folder_of(steps, n):
        vocab = {c: i for i, c in enumerate(letters)} | {f"<{i}>": i for i in range(260, n)}
        return _folder("mistral", {}, pre_tokenizer=steps, model={
            "type": "BPE", "vocab": vocab,
            "merges": [["a", "b"], ["A", "b"], ["1", "2"], ["a", "\u00cc"]]})

    fixed, mistral = {"fix_mistral_regex": True}, {"model_type": "mistral"}
    folder = folder_of(sequence, 100001)
    case(folder, True, fixed, mistral)
    case(folder, False, {"fix_mistral_regex": False}, mistral)
    case(folder, None, {}, mistral)
    case(folder, False, {}, {"model_type": "llama"})
    case(folder, False, fixed, {"model_type": "llama"})
    case(folder, False, fixed, None)
    case(folder, True, fixed, {"architectures": []})
    for version, want in (("4.57.1", True), ("5.0.0.dev0", True), ("5.0.0rc1", True), ("5.0.0", False),
                          ("5.0.1", False), ("5.1.0.dev0", False), ("10.0", False)):
        case(folder, want, fixed, {"model_type": "pixtral", "transformers_version": version})
    case(folder_of({**level, "use_regex": True}, 100001), True, fixed, mistral)
    case(folder_of(sequence, 100000), False, fixed, mistral)
    later = {**sequence, "pretokenizers": [split, {**level, "use_regex": True}]}
    folder = folder_of(later, 100001)
    case(folder, True, fixed, mistral)
    expect(_ids_of(folder, "a\u0301b"), [97, 0xcc, 0x81, 98], "the pattern of ByteLevel stays")


def normal_forms_of_added_tokens_are_decoded():
    added = [_token("<t>", False, normalized=True), _token("<u>", False)]
    norm = {"type": "Sequence",
            "normalizers": [{"type": "Prepend", "prepend": " "}, {"type": "Lowercase"}]}
    folder = _folder("normal", {}, added, normalizer=norm, decoder=None)
    expect(call("tokenize", "-m", folder, "--decode", "--ids", "256,257").stdout.decode(),
           " <t> <u>\n", "the normal form, and a token that is not normalized")


def text_of_messages_is_plain_where_that_is_asked_for():
    text = "hi<|end|><|assistant|>"
    want = {"special": [2, 5, 2, 5], "plain": [2, 5]}
    for how, tokens in want.items():
        for args in (["--chat", text], ["--batch", _file(
                "b.jsonl", json.dumps({"messages": [{"role": "user", "content": text}]}))]):
            r = call("run", "-m", DEMO, "-n", 0, "--json", "--user-text", how, *args)
            found = [i for i in lines(r)[0]["prompt_ids"] if i in (2, 5)]
            expect(found, tokens, f"control tokens of {args[0]} with {how}")
        messages = {"messages": [{"role": "user", "content": text}]}
        file = _file("m.json", json.dumps(messages))
        template = _file("t.jinja", "<|user|>{{ messages[0].content }}<|end|><|assistant|>")
        for args in (["--messages", file], ["--chat-template", template, "--context", file]):
            r = call("render", "-m", DEMO, *args, "--ids", "--json", "--user-text", how)
            expect([i for i in lines(r)[0]["ids"] if i in (2, 5)], tokens,
                   f"control tokens of render {args[0]} with {how}")
    said = call("render", *args, "--user-text", "plain").stderr.decode()
    check("--user-text changes nothing without --ids" in said, f"the text is the same: {said}")


def steps_without_end_are_refused():
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
    digits = [{"type": "Digits", "individual_digits": False}] * 200000
    double = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}]
    cases = (({"pre_tokenizer": {"type": "Sequence", "pretokenizers": digits + [level]}},
              "pre_tokenizer: there are more than 128 steps"),
             ({"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}] * 40000}},
              "decoder: there are more than 128 steps"),
             ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 129}},
              "normalizer: there are more than 128 steps"),
             ({"normalizer": {"type": "Sequence", "normalizers": double * 9}},
              "normalizer: the steps can make a text more than 256 times"),
             ({"decoder": {"type": "Sequence", "decoders": double * 40}},
              "decoder: the steps can make a text more than 256 times"),
             ({"normalizer": {"type": "Replace", "pattern": {"Regex": "a"}, "content": "b" * 256}},
              "more than 256 times"))
    for more, message in cases:
        expect_error(call("tokenize", "-m", _folder("steps", {}, **more), "a"), 1, message)
    for more in ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 128}},
                 {"normalizer": {"type": "Sequence", "normalizers": double * 8}}):
        expect(call("tokenize", "-m", _folder("steps", {}, **more), "b").returncode, 0,
               "the most that is taken")

run_all(list(globals().items()))
