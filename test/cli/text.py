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
                       ("[1,", "line 1")):
        expect_error(_tokenize("--decode", "--batch", "-", stdin=line.encode()), 1, "-: line 1",
                     word)
    expect([x["text"] for x in lines(_tokenize(
        "--decode", "--batch", "-", stdin=b'[]\n{"ids": []}\n{"ids": [-1, 99999999999]}'))],
           ["", "", ""], "text of no ids, and of ids that are none")


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
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    steps = [{"type": "Digits", "individual_digits": True}, level]
    vocab = {c: i for i, c in enumerate(_byte_letters())}
    tokenizer = {"version": "1.0", "added_tokens": [{"id": 256 + i, **t} for i, t in enumerate(
        added)], "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}
                 if digits else level, "post_processor": None, "decoder": {"type": "ByteLevel"},
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
    for name, want in (("GPT2Tokenizer", " ab 1"), ("Qwen2TokenizerFast", " ab  1"),
                       ("PreTrainedTokenizerFast", "ab 1")):
        folder = _folder("prefix", {"tokenizer_class": name, "add_prefix_space": True},
                         digits=name[0] == "Q")
        expect(_ids_of(folder, "ab 1"), _bytes(want), f"ids of {name}")
    level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}
    for value, want in ((False, "ab"), (True, " ab"), (None, " ab")):
        folder = _folder("prefix", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": value},
                         pre_tokenizer=level)
        expect(_ids_of(folder, "ab"), _bytes(want), f"ids with add_prefix_space {value}")


def templates_know_the_tokens_of_the_class():
    template = "{{ [bos_token, eos_token, unk_token, pad_token, mask_token] }}"
    cases = (
        ("GPT2Tokenizer", {},
         "['<|endoftext|>', '<|endoftext|>', '<|endoftext|>', Undefined, Undefined]"),
        ("Qwen2TokenizerFast", {},
         "[Undefined, '<|endoftext|>', '<|endoftext|>', '<|endoftext|>', Undefined]"),
        ("LlamaTokenizer", {"eos_token": "<e>"}, "['<s>', '<e>', '<unk>', Undefined, Undefined]"),
        ("GemmaTokenizer", {"pad_token": None}, "['<bos>', '<eos>', '<unk>', Undefined, '<mask>']"),
        ("PreTrainedTokenizerFast", {}, "[Undefined, Undefined, Undefined, Undefined, Undefined]"))
    messages = _file("one.json", json.dumps(MESSAGES[:1]))
    for name, more, want in cases:
        folder = _folder("class", {"tokenizer_class": name, "chat_template": template, **more})
        r = call("render", "-m", folder, "--messages", messages)
        expect((r.returncode, r.stdout.decode()), (0, want), f"tokens of {name}: {r.stderr}")
        expect(_ids_of(folder, "<s>"), _bytes("<s>"),
               "a token of the class that the model does not have is text")


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
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
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
