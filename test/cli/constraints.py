#!/usr/bin/env python3
"""constraints.py - `gallop grammar`, and the constraints of `gallop run` and of lines of a
batch."""
import json
import os
import random
import re
import tempfile

from _cli import DEMO, call, check, expect, expect_error, lines, run_all

FOLDER = tempfile.TemporaryDirectory()


def _file(name, text):
    path = os.path.join(FOLDER.name, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def _grammar(*args, texts=()):
    check_file = _file("check.jsonl", "".join(json.dumps(t) + "\n" for t in texts))
    r = call("grammar", *args, "--check", check_file, "--json")
    expect(r.returncode, 0, f"exit status of grammar {args}")
    return lines(r)[0]


def a_text_is_accepted_where_the_whole_of_it_matches():
    """Python's re, of another implementation, says what matches."""
    texts = ["", "a", "2026-11-27", "2026-11-27 ", "abc", "aab", "caf\u00e9", "\u65e5\u672c",
             "x\ny", "a" * 300, "\"q\"", "0.5e3", "-0", "True"]
    for pattern in (r"\d{4}-\d\d-\d\d", r"a*b?c?", r"(?:a|ab)+", r"[^\d\s]+", r".{2}",
                    r"(?i:TRUE|false)", r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", r"a{2,299}",
                    r"[\u0080-\uffff]+"):
        got = _grammar("--regex", pattern, texts=texts)
        want = [re.fullmatch(pattern, t, re.ASCII) is not None for t in texts]
        expect(got["compiled"], True, f"{pattern} is compiled")
        expect(got["accepts"], want, f"texts that {pattern} accepts")
        expect(sorted(got["mask_us"]), ["max", "mean", "p99"], f"times of masks of {pattern}")


def masks_have_the_tokens_that_may_come():
    """Hexadecimal words of 32 tokens, before each token of an answer and behind the last."""
    ids = {t: lines(call("tokenize", "-m", DEMO, "--json", t))[0]["ids"][-1] for t in "abc"}
    tokens = _file("tokens.jsonl", f"[{ids['a']},{ids['b']}]\n[{ids['b']}]\n")
    r = call("grammar", "-m", DEMO, "--regex", "ab?|c", "--masks", tokens, "--json")
    got = lines(r)[0]["masks"]

    def names(words):
        bits = sum(int(words[i:i + 8], 16) << 4 * i for i in range(0, len(words), 8))
        return {t for t, i in ids.items() if bits >> i & 1}
    expect([names(words) for words in got[0]["allowed"]], [{"a", "c"}, {"b"}, set()], "tokens")
    expect(got[0]["may_end"], [False, True, True], "ends")
    expect([names(words) for words in got[1]["allowed"]], [{"a", "c"}], "a token that is not allowed")
    r = call("grammar", "-m", DEMO, "--regex", "a", "--masks", _file("bad.jsonl", "{}\n"), "--json")
    expect_error(r, 1, "line 1", "array of token ids")


def a_limit_is_not_an_answer_of_the_constraint():
    """Each letter of the text adds a state with thousands of alternatives, up to the limit of memory."""
    letters = random.Random(1).choices("ab", k=9000)
    args = ("grammar", "-m", DEMO, "--regex", "c|[ab]*a[ab]{8000}", "--json")
    got = lines(call(*args, "--check", _file("t.jsonl", "\n".join(json.dumps(t) for t in (
        "ab", "".join(letters), "c")))))[0]
    expect(got["accepts"], [False, False, True], "texts beside one that reaches the limit")
    expect("line 2: the grammar needs more than the limit of 64 MiB" in got["error"], True, got["error"])
    ids = {t: lines(call("tokenize", "-m", DEMO, "--json", t))[0]["ids"][-1] for t in "abc"}
    answers = [json.dumps([ids[t] for t in x]) for x in ("c", letters, "a")]
    got = lines(call(*args, "--masks", _file("m.jsonl", "\n".join(answers))))[0]
    expect([x["error"] and x["error"][-16:] for x in got["masks"]], [None, "64 MiB of memory", None], "limits")
    expect([len(x["allowed"]) for x in got["masks"][::2]], [2, 2], "masks of the other lines")
    expect("line 2: " in got["error"], True, got["error"])


def what_cannot_be_served_is_said_and_not_compiled():
    for args, sentence in ((("--regex", r"(a)\1"), "back reference"), (("--regex", "(a"), "")):
        got = _grammar(*args)
        expect(got["compiled"], False, f"{args} is compiled")
        check(sentence in got["error"], f"{args}: found {got['error']}, expected {sentence}")
        r = call("grammar", *args)
        expect_error(r, 1, got["error"])


SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "kind", "sizes"],
          "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12},
                         "kind": {"enum": ["caf\u00e9", "tea"]}, "note": {"type": "null"},
                         "sizes": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 99},
                                   "minItems": 1, "maxItems": 3}}}


def _is_valid(value):
    """SCHEMA, said in Python."""
    return (isinstance(value, dict) and set(value) <= set(SCHEMA["properties"])
            and isinstance(value.get("name"), str) and 1 <= len(value["name"]) <= 12
            and value.get("kind") in ("caf\u00e9", "tea") and value.get("note") is None
            and isinstance(value.get("sizes"), list) and 1 <= len(value["sizes"]) <= 3
            and all(1 <= n <= 99 and n == int(n) for n in value["sizes"]))


def a_schema_accepts_values_in_any_spelling():
    values = [{"name": "a", "kind": "tea", "sizes": [1]}, {"name": "a", "kind": "milk", "sizes": [1]},
              {"name": "\u00e9\n", "kind": "caf\u00e9", "note": None, "sizes": [99, 2]},
              {"name": "a", "kind": "tea", "sizes": [100]}, {"name": "", "kind": "tea", "sizes": [1]},
              {"name": "a", "kind": "tea", "sizes": []}, {"kind": "tea", "sizes": [1]}, [], 7]
    got = _grammar("--json-schema", _file("schema.json", json.dumps(SCHEMA)), texts=values)
    expect(got["accepts"], [_is_valid(v) for v in values], "values that the schema accepts")


def a_keyword_that_cannot_be_served_is_named():
    path = _file("unserved.json", '{"properties": {"a/b": {"items": {"uniqueItems": true}}}}')
    got = _grammar("--json-schema", path)
    expect(got["compiled"], False, "the schema is compiled")
    expect(got["pointer"], "/properties/a~1b/items", "the pointer")
    check("uniqueItems" in got["error"], f"found {got['error']}")
    expect(_grammar("--json-schema", path, "--lax")["compiled"], True, "the schema is compiled without it")


def answers_are_valid_under_a_schema():
    path = _file("schema.json", json.dumps(SCHEMA))
    for seed in range(4):
        r = call("run", "--json-schema", path, "--temperature", "1", "--seed", str(seed), "-n", "900", "--json",
                 "Once")
        got = lines(r)[0]
        expect(got["finish_reason"], "stop", f"end with seed {seed}")
        check(_is_valid(json.loads(got["text"])), f"seed {seed}: found {got['text']}")


def one_constraint_is_expected():
    expect_error(call("grammar", "--json"), 2, "found 0 of --json-schema")
    expect_error(call("grammar", "--regex", "a", "--grammar", "x"), 2, "found 2 of")
    expect_error(call("run", "--regex", "a", "--choice", "a,b", "x"), 2, "found 2 of")


def options_without_effect_are_named():
    tokens = _file("none.jsonl", "")
    for args, said in (((), b""), (("--masks", tokens), b"--masks"), (("--lax",), b"--lax"),
                       (("--compact",), b"--compact")):
        r = call("grammar", "--regex", "a", *args)
        expect((r.returncode, r.stderr.count(b"changes nothing")), (0, 1 if args else 0), str(args))
        check(said in r.stderr, f"{args}: {r.stderr}")


def a_limit_has_a_pointer():
    """A schema that is too large is refused with a place in it, also where no keyword is at fault."""
    for schema in ({"type": "string", "allOf": [{"pattern": f"^(a|b)*{c}(a|b){{20}}$"} for c in "ab"]},
                   {"x": "y" * 1200000}):
        got = _grammar("--json-schema", _file("large.json", json.dumps(schema)))
        expect((got["compiled"], type(got["pointer"])), (False, str), f"a refusal with a pointer: {got['error']}")


def answers_match_greedily_and_at_random():
    pattern = r'\{"n": [1-9][0-9]{0,3}, "s": "[a-z ]{3,12}"\}'
    for args in (("--greedy",), ("--temperature", "1.5", "--seed", "7"),
                 ("--top-p", "0.8", "--seed", "9")):
        r = call("run", "--regex", pattern, *args, "-n", "200", "--json", "Once")
        got = lines(r)[0]
        check(re.fullmatch(pattern, got["text"]), f"{args}: found {got['text']!r}")
        expect(got["finish_reason"], "stop", f"end with {args}")


def a_choice_is_one_of_the_texts():
    for seed in range(8):
        r = call("run", "--choice", "yes,no,maybe so", "--temperature", "2", "--seed", str(seed),
                 "Once")
        check(r.stdout.rstrip() in (b"yes", b"no", b"maybe so"), f"seed {seed}: found {r.stdout!r}")


def lines_of_a_batch_have_constraints_of_their_own():
    fields = [{"structured_outputs": {"regex": "[0-9]{3}"}}, {"guided_choice": ["left", "right"]}, {
        "response_format": {"type": "text"}}, {"structured_outputs": {"choice": ["x"]}, "n": 3}]
    path = _file("batch.jsonl", "".join(json.dumps({"prompt": "Once", "max_new_tokens": 20, **f})
                                        + "\n" for f in fields))
    got = lines(call("run", "--batch", path, "--json"))
    check(re.fullmatch("[0-9]{3}", got[0]["text"]), f"line 0: found {got[0]['text']!r}")
    check(got[1]["text"] in ("left", "right"), f"line 1: found {got[1]['text']!r}")
    check(len(got[2]["text"]) > 5, f"line 2: found {got[2]['text']!r}")
    expect([c["text"] for c in got[3]["choices"]], ["x"] * 3, "answers to line 3")


def keywords_that_a_line_leaves_out_are_its_warnings():
    named = {"name": "x", "schema": {"$ref": "http://x/y", "const": 1}, "strict": False}
    line = {"max_new_tokens": 20, "n": 2, "response_format": {"type": "json_schema", "json_schema": named}}
    path = _file("left.jsonl", json.dumps({"prompt": "Once", **line}) + "\n" + json.dumps(
        {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once", **line}}) + "\n")
    got = lines(call("run", "--batch", path, "--json"))
    want = ["JSON schema: the keyword $ref at the root is not supported and is ignored"]
    expect(got[0].get("warnings"), want, "warnings of the line")
    expect(got[1]["response"]["body"].get("warnings"), want, "warnings of OpenAI's line")


def a_budget_for_reasoning_ends_it():
    template = _file("reasons.jinja", "{{ messages[0].content }}<think>{# ends with </think> #}")
    plain = lines(call("run", "--chat-template", template, "-n", "20", "--ignore-eos", "--json", "Once"))[0]
    got = lines(call("run", "--chat-template", template, "-n", "20", "--ignore-eos", "--json",
                     "--thinking-token-budget", "4",
                     "Once"))[0]
    check("</think>" not in plain["text"], f"without a budget: {plain}")
    expect(got["output_ids"][:4], plain["output_ids"][:4], "tokens of reasoning")
    check(got["output_ids"][4] != plain["output_ids"][4] and "</think>" in got["text"], f"with one: {got}")
    path = _file("reasons.jsonl", "".join(json.dumps({"max_new_tokens": 20, "ignore_eos": True, "messages": [
        {"role": "user", "content": "Once"}], **f}) + "\n" for f in ({}, {"thinking_token_budget": 4})))
    batch = lines(call("run", "--chat-template", template, "--batch", path, "--json"))
    expect([b["output_ids"] for b in batch], [plain["output_ids"], got["output_ids"]], "the same in a batch")
    expect_error(call("run", "--thinking-token-budget", "4", "Once"), 1, "--thinking-token-budget: no marks")


def wrong_fields_of_a_line_are_named():
    for fields, sentence in (
            ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex: expected a string"),
            ({"structured_outputs": {"regexp": "a"}}, "structured_outputs.regexp: unknown field"),
            ({"structured_outputs": {"regex": "a", "choice": ["b"]}},
             "a second constraint on the answer"),
            ({"structured_outputs": {"choice": []}}, "expected a list of one or more strings"),
            ({"guided_regex": "a", "structured_outputs": {"choice": ["b"]}}, "a second constraint"),
            ({"response_format": {"type": "yaml"}}, "found yaml, expected text, json_object"),
            ({"response_format": "json"}, "response_format: found a string, expected an object")):
        path = _file("wrong.jsonl", json.dumps({"prompt": "Once", **fields}) + "\n")
        r = call("run", "--batch", path, "--json")
        check(sentence in lines(r)[0]["error"],
              f"{fields}: found {lines(r)[0]['error']}, expected {sentence}")


SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2, "maxLength": 9},
                                           "age": {"type": "integer", "minimum": 1, "maximum": 99},
                                           "kind": {"enum": ["cat", "dog"]}},
          "required": ["name", "age", "kind"], "additionalProperties": False}


def _is_pet(text):
    """Checks an instance of SCHEMA without a validator."""
    v = json.loads(text)
    return (list(v) == ["name", "age", "kind"] and 2 <= len(v["name"]) <= 9 and
            v["age"] == int(v["age"]) and 1 <= v["age"] <= 99 and v["kind"] in ("cat", "dog"))


def answers_are_valid_under_a_schema():
    path = _file("schema.json", json.dumps(SCHEMA))
    for args in (("--greedy",), ("--temperature", "1.5", "--seed", "3"), ("--temperature", "1", "--seed", "4")):
        got = lines(call("run", "--json-schema", path, *args, "-n", "400", "--json", "Once"))[0]
        expect(got["finish_reason"], "stop", f"end with {args}")
        check(_is_pet(got["text"]), f"{args}: found {got['text']!r}")


def a_schema_accepts_what_is_valid_and_names_what_it_does_not_serve():
    path = _file("schema.json", json.dumps(SCHEMA))
    check_file = _file("check.jsonl", '{"name":"Tom","age":7,"kind":"cat"}\n{"name":"T","age":7,"kind":"cat"}\n'
                       '{"name": "\\u00e9\\u00e9", "age": 7, "kind": "dog"}\n{"age":7}\n')
    got = lines(call("grammar", "--json-schema", path, "--check", check_file, "--json"))[0]
    expect(got["accepts"], [True, False, True, False], "instances that are accepted")
    path = _file("schema.json", '{"properties":{"a":{"$ref":"https://example.org/x"}}}')
    got = lines(call("grammar", "--json-schema", path, "--json"))[0]
    expect(got["compiled"], False, "a schema elsewhere")
    expect(got["pointer"], "/properties/a", "where it is named")
    check("$ref" in got["error"], f"found {got['error']}")


def valid_values_are_accepted_where_answers_have_one_spelling():
    """--check takes the values that are valid, and --masks has the tokens of answers."""
    schema = {"type": "object", "required": ["price"], "properties": {
        "price": {"type": "integer"}, "size": {"enum": [1, "caf\u00e9"]}}}
    path = _file("open.json", json.dumps(schema))
    values = ['{"price": 3.50000000000000111e+080}', '{"price": 3}', '{"price":-3.0}', '{"price" :3}',
              '{"price":3,"size":1.0}', '{"price":3,"size":"caf\\u00e9"}', '{"price":3,"other":[]}',
              '{"price":3,"size":2}']
    check_file = _file("check.jsonl", "\n".join(values))
    args = ("grammar", "--json-schema", path, "--compact", "--json")
    got = lines(call(*args, "--check", check_file))[0]
    expect(got["accepts"], [False, False, False, False, True, True, True, False], "values that are accepted")
    got = lines(call("grammar", "--json-schema", path, "--check", check_file, "--json"))[0]
    expect(got["accepts"], [False, True, False, False, True, True, True, False], "with white space")
    ids = [lines(call("tokenize", "-m", DEMO, "--no-special", "--json", t))[0]["ids"] for t in (
        '{"price":3', '{"price":3,"size":1', ",", "}")]
    got = lines(call(*args, "--masks", _file("masks.jsonl", f"{ids[0]}\n{ids[1]}")))[0]["masks"]
    last = [m["allowed"][-1] for m in got]
    bits = [sum(int(w[i:i + 8], 16) << 4 * i for i in range(0, len(w), 8)) for w in last]
    expect([len(m["allowed"]) for m in got], [len(x) + 1 for x in ids[:2]], "masks of the answers")
    expect([[b >> ids[k][-1] & 1 for k in (2, 3)] for b in bits], [[1, 1], [0, 1]], "comma and brace")


def objects_are_closed_unless_a_request_opens_them():
    """A bias for the comma shows where one is allowed. All lines have one schema."""
    comma = lines(call("tokenize", "-m", DEMO, "--no-special", "--json", ","))[0]["ids"][-1]
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    said = ({}, {"disable_additional_properties": True}, {"disable_additional_properties": None},
            {"disable_additional_properties": False}, {"disable_additional_properties": "no"})
    path = _file("open.jsonl", "".join(json.dumps({
        "prompt": "Once", "max_new_tokens": 14, "temperature": 0, "logit_bias": {str(comma): 100},
        "structured_outputs": {"json": schema, "disable_any_whitespace": True, **f}}) + "\n" for f in said))
    got = lines(call("run", "--batch", path, "--json"))
    expect([g["text"] for g in got[:3]], ['{"a":1}'] * 3, "closed objects")
    expect(got[3]["text"][:7], '{"a":1,', "an open object")
    check("disable_additional_properties: expected true or false" in got[4]["error"], f"found {got[4]}")


def grammars_and_tags_are_served():
    path = _file("g.gbnf", 'root ::= item ("," item)*\nitem ::= [a-c]{2} | "(" root ")"\n')
    got = _grammar("--grammar", path, texts=["ab", "ab,(cc,bb)", "ab,", "(ab", "abc"])
    expect(got["accepts"], [True, True, False, False, False], "texts of the grammar")
    tag = _file("tag.json", json.dumps({"type": "structural_tag", "structures": [
        {"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f>"]}))
    check_file = _file("check.jsonl", "")
    got = lines(call("grammar", "--structural-tag", tag, "--check", check_file, "--json"))[0]
    expect(got["compiled"], True, f"the structural tag: {got['error']}")


run_all(list(globals().items()))
