#!/usr/bin/env python3
"""sample.py - the input of `gallop sample`: arrays of logits, their headers, rows, parameters."""
import json
import math
import os
import struct
import tempfile

from _cli import call, check, expect, expect_error, lines, run_all

FOLDER = tempfile.TemporaryDirectory()
FILE = os.path.join(FOLDER.name, "x.npy")
GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
LOGITS = [0.0, 2.0, 1.0, -1.0]


def _npy(header=GOOD, values=LOGITS, magic=b"\x93NUMPY\x01\x00", length=None, end="\n", more=b""):
    """Returns the bytes of a file. LENGTH replaces the length of the header."""
    head = header.encode() + end.encode()
    return magic + struct.pack("<H", len(head) if length is None
                               else length) + head + struct.pack(f"<{len(values)}f", *values) + more


def _sample(data, *more):
    with open(FILE, "wb") as f:
        f.write(data)
    return call("sample", "--logits", FILE, "--json", *more)


def _shaped(*shape, values=None):
    text = "(" + "".join(f"{n}, " for n in shape) + ")"
    return _npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {text}, }}",
               [float(i) for i in range(math.prod(shape))] if values is None else values)


def _probabilities(r):
    return {i: p for i, p in lines(r)[0]["probs"]}


def _softmax(x):
    total = sum(math.exp(v) for v in x)
    return [math.exp(v) / total for v in x]


def one_position_is_a_vector_or_one_row():
    want = _softmax(LOGITS)
    for data in (_npy(), _shaped(1, 4, values=LOGITS)):
        got = _probabilities(_sample(data))
        check(all(abs(got[i] - want[i]) < 1e-6 for i in range(4)),
              f"softmax of {LOGITS}: found {got}, expected {want}")


def prompt_and_output_count_as_their_names_say():
    """The expected LOGITS after each parameter are computed here."""
    for params, want in (
            ({"temperature": 0.5}, [0, 4, 2, -2]),
            ({"repetition_penalty": 2.0, "prompt_ids": [1], "output_ids": [3]}, [0, 1, 1, -2]),
            ({"frequency_penalty": 1.0, "prompt_ids": [2], "output_ids": [1, 1]}, [0, 0, 1, -1]),
            ({"presence_penalty": 1.0, "prompt_ids": [2], "output_ids": [1, 1]}, [0, 1, 1, -1]),
            ({"logit_bias": {"0": 3.5}}, [3.5, 2, 1, -1]),
            ({"top_k": 2}, [None, 2, 1, None]),
            ({"stop_token": [1], "min_new_tokens": 2, "output_ids": [0]}, [0, None, 1, -1]),
            ({"stop_token": [1], "min_new_tokens": 2, "output_ids": [0, 0]}, [0, 2, 1, -1]),
            ({"allowed_token_ids": [3, 0]}, [0, None, None, -1]),
            ({"do_sample": False}, [None, 2, None, None])):
        kept = [i for i in range(4) if want[i] is not None]
        p = dict(zip(kept, _softmax([want[i] for i in kept])))
        got = _probabilities(_sample(_npy(), "--params", json.dumps(params)))
        check(got.keys() == p.keys() and all(abs(got[i] - p[i]) < 1e-6 for i in p),
              f"{params}: found {got}, expected {p}")


def people_read_stages_and_probabilities():
    with open(FILE, "wb") as f:
        f.write(_npy())
    text = call("sample", "--logits", FILE, "--params", '{"top_k": 2}').stdout.decode().splitlines()
    o = lines(_sample(_npy(), "--params", '{"top_k": 2}'))[0]
    want = [f"{x['name']:<20} {x['survivors']}" for x in o["stages"]] + [f"{i:8d}  {p:.6f}" for i,
                                                                         p in o["probs"]]
    expect(text, want, "the lines without --json")
    check([x["survivors"] for x in o["stages"] if x["name"] in ("temperature", "top_k")] == [4, 2],
          f"survivors: {o['stages']}")


def several_positions_need_a_choice():
    three = _shaped(3, 4, values=[5.0, 0, 0, 0, *LOGITS, 0, 0, 0, 5.0])
    expect_error(_sample(three), 1, "x.npy", "[3, 4]", "--row")
    for row, best in ((0, 0), (1, 1), (2, 3)):
        got = _probabilities(_sample(three, "--row", row))
        expect((len(got), max(got, key=got.get)), (4, best), f"ids and likeliest of row {row}")
    expect_error(_sample(three, "--row", 3), 1, "--row: found 3", "[3, 4]")
    expect_error(_sample(_npy(), "--row", 1), 1, "--row: found 1", "[4]")
    expect(_sample(_npy(), "--row", 0).returncode, 0, "status of row 0 of a vector")
    expect_error(_sample(three, "--row", -1), 2, "--row")
    for data, shape in ((_shaped(2, 2, 4), "[2, 2, 4]"), (_shaped(1, 1, 4), "[1, 1, 4]"),
                        (_shaped(0), "[0]"), (_shaped(0, 4), "[0, 4]"), (_shaped(4, 0), "[4, 0]"),
                        (_shaped(), "[]")):
        expect_error(_sample(data), 1, "x.npy", f"shape {shape},")


def a_malformed_array_is_refused_with_the_file_and_the_fault():
    def changed(old, new):
        assert old in GOOD
        return _npy(GOOD.replace(old, new))

    wrong = {
        "version 1.0": [b"", b"\x93NUMPY", _npy()[:9], _npy(magic=b"\x93NUMPY\x02\x00"),
                        _npy(magic=b"\x93NUMPY\x01\x01"), _npy(magic=b"\x92NUMPY\x01\x00"),
                        b"PK\x03\x04" + bytes(100)],
        "the header announces": [_npy(length=60000), _npy(length=len(_npy()))],
        "the header has": [changed("'descr': '<f4', ", ""),
                           changed("'fortran_order': False, ", ""),
                           changed("'shape': (4,), ", ""), _npy("{}"),
                           changed("'shape'", "'shapes'"), changed("}", "'shape': (4,), }"),
                           changed("}", "'descr': '<f4', }"), changed("}", "'note': 1, }")],
        "does not begin with {": [_npy(""), _npy("'descr': '<f4'"), _npy("[]"),
                                  _npy("(" + GOOD[1:])],
        "not a Python dictionary": [changed("'descr':", "descr:"), changed("'descr':", "'descr'"),
                             changed("'<f4', ", "'<f4' "), changed("{", "{, "),
                             changed("(4,), ", "(4,),, "), _npy(GOOD[:-1]), _npy("{'descr"),
                             _npy("{"), _npy("{'" + "k" * 500 + "': 1}"),
                             changed("'descr'", "'descr\"")],
        "descr is not": [changed("'<f4'", x) for x in ("'>f4'", "'<f8'", "'<f2'", "'|f4'", "'f4'",
                                                       "'<f4x'", "''", "'<i4'", "<f4", "None",
                                                       "[('a', '<f4')]", "'<f4")],
        "fortran_order is not": [changed("False", x)
                                 for x in ("True", "false", "0", "None", "'False'", "")],
        "not a tuple of integers": [changed("(4,)", x)
                                 for x in ("(4)", "4", "[4]", "(-4,)", "(4.0,)", "(,)", "(4,,)",
                                           "(4L,)", "(0x4,)", "(4 4)", "('4',)", "(4,", "",
                                                             "(2, -2)", "(2 2,)", "(+4,)",
                                                             "(99999999999999999999,)")],
        "of elements in the shape overflows": [changed("(4,)", x) for x in (
            "(4611686018427387904,)", "(4294967296, 4294967296)", "(3, 6148914691236517206)",
                                                                  "(18446744073709551615, 2)")],
        "more than 8 dimensions": [changed("(4,)", "(1, 1, 1, 1, 1, 1, 1, 1, 4)")],
        "bytes of data": [_npy(values=LOGITS[:3]), _npy(values=LOGITS + [1.0]), _npy(more=b"x"),
                          _npy()[:-1], changed("(4,)", "(5,)"), changed("(4,)", "(2, 1)"),
                          changed("(4,)", "(4611686018427387903,)"), _npy(values=[])],
        "does not end with": [_npy(end=""), _npy(GOOD + "x"), _npy(GOOD + GOOD), _npy(GOOD + "\0"),
                              _npy(GOOD + "\n ", end="")],
    }
    for words, files in wrong.items():
        for data in files:
            r = _sample(data)
            expect_error(r, 1, "x.npy: ", words)
            if r.returncode != 1:
                print("    of", data[:120])
    good = [_npy(GOOD + " " * 70), _npy(GOOD.replace("'", '"')),
            _npy("{'shape':(4,),'fortran_order':False,'descr':'<f4'}"),
            _npy(GOOD.replace(", }", "}")), _npy(GOOD.replace("(4,)", "( 4 , )")),
            _npy(GOOD.replace("(4,)", "(1, 4)")), _npy(GOOD.replace("(4,)", "(1, 4,)"))]
    for data in good:
        r = _sample(data)
        expect((r.returncode, r.stderr), (0, b""), f"status and words for {data[:100]}")


def wrong_parameters_are_wrong_usage():
    for text, word in (
            ("", "--params"), ("[]", "object"), ("{", "--params"),
            ("{\"top_k\": 1, \"top_k\": 2}", "duplicate"), ('{"colour": 1}', "colour"),
            ('{"temperature": "hot"}', "temperature"), ('{"top_p": 0}', "top_p"),
            ('{"prompt_ids": 3}', "prompt_ids"), ('{"output_ids": [1.5]}', "output_ids[0]"),
            ('{"output_ids": [1, -1]}', "output_ids[1]"),
            ('{"prompt_ids": [2147483648]}', "prompt_ids[0]"), (b'{"stop": ["\xff"]}', "byte 11")):
        expect_error(_sample(_npy(), "--params", text), 2, word)
    expect_error(_sample(_npy(), "--params", '{"prompt_ids": [4]}'), 1, "prompt_ids[0]", "number of logits, 4")
    expect_error(_sample(_npy(), "--params", '{"logit_bias": {"4": 1}}'), 1, "logit_bias")
    expect_error(_sample(_npy(), "--params", '{"bad_words": ["a"]}'), 2, "bad_words")
    expect(_sample(_npy(), "--params", '{"prompt_ids": [3], "output_ids": [0]}').returncode, 0,
           "status with ids inside the logits")
    expect_error(call("sample"), 2, "--logits")
    expect_error(call("sample", "--logits", FILE, "more"), 2, "more")


def numbers_that_are_none_are_said():
    expect_error(_sample(_npy(values=[0.0, math.nan, 0.0, 0.0])), 1, "a logit is NaN")
    got = _probabilities(_sample(_npy(values=[0.0, -math.inf, 0.0, 0.0])))
    expect(sorted(got), [0, 2, 3], "survivors beside a logit of minus infinity")


def results_that_cannot_be_written_are_said():
    with open(FILE, "wb") as f:
        f.write(_npy())
    for more in ([], ["--json"]):
        with open("/dev/full", "wb") as full:
            r = call("sample", "--logits", FILE, *more, stdout=full)
        expect((r.returncode, r.stderr), (1, b"gallop: standard output: No space left on device\n"),
               f"sample {more} to a full disk")


def a_file_that_never_ends_is_not_read_for_ever():
    expect_error(call("sample", "--logits", "/dev/zero"), 1, "/dev/zero", "256 MiB")


run_all(list(globals().items()))
