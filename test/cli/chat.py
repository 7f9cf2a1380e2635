#!/usr/bin/env python3
"""chat.py - conversations through a pipe and on a terminal, with a template that requires
alternating turns and can report its input: the message SHOW makes it raise the conversation as
JSON, LEN the length of the message, and FAIL an error."""
import errno
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time

from _cli import (DEMO, FAST_CLOCK, GALLOP, call, check, expect, expect_error, in_front,
                  on_a_terminal, run_all)
from _server import patient_model

TEMPLATE = """{%- set last = messages[-1]['content'] %}
{%- if last.startswith('SHOW') %}{{- raise_exception('history ' + messages | tojson) }}{%- endif %}
{%- if last.startswith('LEN') %}{{- raise_exception('length ' ~ last | length) }}{%- endif %}
{%- if last.startswith('FAIL') %}{{- raise_exception('refused') }}{%- endif %}
{{- bos_token }}
{%- set state = namespace(turn=0) %}
{%- for message in messages %}
    {%- if message['role'] != 'system' %}
        {%- if (message['role'] == 'user') != (state.turn % 2 == 0) %}{{- raise_exception('roles have to alternate') }}{%- endif %}
        {%- set state.turn = state.turn + 1 %}
    {%- endif %}
    {{- '<|' + message['role'] + '|>' + message['content'] | trim + eos_token }}
{%- endfor %}
{{- '<|assistant|>' }}"""
FOLDER = tempfile.TemporaryDirectory()
MODEL = os.path.join(FOLDER.name, "model")
PATIENT = os.path.join(FOLDER.name, "patient")
NAN = os.path.join(FOLDER.name, "nan")


def _make_models():
    """Makes MODEL, the demo model with the template; PATIENT, whose answers last; and NAN, whose
    logits are NaN."""
    for source, folder in ((DEMO, MODEL), (patient_model(), PATIENT), (DEMO, NAN)):
        shutil.copytree(source, folder)
        with open(os.path.join(folder, "tokenizer_config.json")) as f:
            config = json.load(f)
        config["chat_template"] = TEMPLATE
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump(config, f)
    with open(os.path.join(NAN, "model.safetensors"), "r+b") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        f.seek(8 + n + head["model.norm.weight"]["data_offsets"][0])
        # 3.4e38 in bf16 is finite, but results computed from it are not.
        f.write(b"\x7f\x7f" * head["model.norm.weight"]["shape"][0])


def _talk(text, *more, model=MODEL, n=3):
    return call("chat", "-m", model, "--greedy", "-n", n, *more,
                stdin=text if isinstance(text, bytes) else text.encode())


def _said(r):
    return r.stderr.decode(errors="backslashreplace").splitlines()


def _history(line):
    """Returns the (role, content) pairs that SHOW made the template raise, without SHOW itself."""
    at = line.find("history ")
    if at < 0:
        return line
    return [(m["role"][0], m["content"]) for m in json.loads(line[at + 8:])[:-1]]


def _answers(r):
    return r.stdout.decode().splitlines()


def a_turn_that_the_template_refuses_leaves_the_conversation_as_it_was():
    r = _talk("one\nFAIL\nSHOW\ntwo\nSHOW\n")
    first, second = _answers(r)
    said = _said(r)
    check(len(said) == 3 and "refused" in said[0],
          f"one sentence for each message that is not answered: {said}")
    expect(_history(said[1]), [("u", "one"), ("a", first)],
           "the conversation after a refused message")
    expect(_history(said[2]), [("u", "one"), ("a", first), ("u", "two"), ("a", second)],
           "the conversation after the next answer")
    expect(r.returncode, 1, "status of a conversation with a message that was not answered")
    expect(_talk("one\n").returncode, 0, "status of a conversation without")


def a_message_that_is_too_long_leaves_the_conversation_as_it_was():
    r = _talk("one\n" + "word " * 1100 + "\nSHOW\ntwo")
    said, answers = _said(r), _answers(r)
    expect((r.returncode, len(said), len(answers)), (1, 2, 2),
           f"status, sentences, answers: {said}")
    check("1024" in said[0], f"the context is named: {said[0]}")
    expect(_history(said[1]), [("u", "one"), ("a", answers[0])],
           "the conversation after a message longer than the context")


def an_answer_that_fails_leaves_the_conversation_as_it_was():
    r = _talk("one\nSHOW\ntwo\nSHOW\n", model=NAN)
    said = _said(r)
    expect((r.returncode, len(said)), (1, 4), f"status and sentences: {said}")
    check("NaN" in said[0] and "NaN" in said[2],
          f"the answers fail, and not for two turns of the user: {said}")
    expect([_history(said[1]), _history(said[3])], [[], []],
           "the conversation after an answer that failed")


def two_slashes_send_one_and_unknown_commands_are_not_sent():
    r = _talk("//etc/passwd is a file\n/etc/passwd is a file\nSHOW\n///\nSHOW\n")
    said, answers = _said(r), _answers(r)
    expect(len(said), 3, f"sentences: {said}")
    check("/etc/passwd, and nothing was sent" in said[0], f"an unknown command is named: {said[0]}")
    expect(_history(said[1]), [("u", "/etc/passwd is a file"), ("a", answers[0])],
           "the conversation after two slashes and an unknown command")
    expect(_history(said[2])[2:], [("u", "//"), ("a", answers[1])], "three slashes send two")
    for word in ("/newer", "/quitx", "/systemx y", "/", "/ new"):
        r = _talk(word + "\nSHOW\n")
        expect((r.returncode, len(_said(r)), _history(_said(r)[-1])), (1, 2, []),
               f"status, sentences, conversation after {word}")


def commands_do_what_the_list_says():
    r = _talk("/help\n")
    check(all(x in r.stdout for x in (b"/new", b"/system", b"/stats", b"/quit", b"//text",
                                      b"Ctrl-C")), f"/help: {r.stdout}")
    expect((r.returncode, r.stderr), (0, b""), "status and words of /help")
    r = _talk("one\n/new\nSHOW\n/system Be brief.\nSHOW\n/new\nSHOW\n/system\nSHOW\n/quit\nFAIL\n",
              "--system", "Be kind.")
    want = [[("s", "Be kind.")], [("s", "Be brief.")], [("s", "Be brief.")], []]
    expect([_history(x) for x in _said(r)], want,
           "the conversation after /new, /system T, /new, /system, and nothing behind /quit")
    r = _talk("one\n/stats\n/exit\nFAIL\n")
    check(b" 3 answer tokens in " in r.stdout and r.returncode == 0,
          f"/stats and /exit: {r.stdout} {r.stderr}")


def a_turn_is_the_template_s_text_and_nothing_in_front_of_it():
    messages = json.dumps([{"role": "user", "content": "Hello there"}]).encode()
    ids = call("render", "-m", MODEL, "--messages", "-", "--ids",
               stdin=messages).stdout.decode().split(",")
    stats = _answers(_talk("Hello there\n/stats\n"))[-1]
    check(stats.startswith(f"{len(ids)} prompt tokens and 3 "),
          f"tokens of the first turn: found {stats!r}, expected {len(ids)}")


def lines_end_in_any_way_and_empty_ones_are_nothing():
    r = _talk(b"\n\r\none\r\n\n  two  words\nSHOW")
    answers = _answers(r)
    expect(_history(_said(r)[0]), [("u", "one"), ("a", answers[0]), ("u", "  two  words"),
                                   ("a", answers[1])], "line ends are no part of a message")
    r = _talk(b"a\0b\nSHOW")
    expect(_history(_said(r)[0])[0], ("u", "a\0b"), "a zero byte is part of a message")


def what_is_not_utf_8_is_said_and_not_sent():
    r = _talk(b"one\n\ncaf\xe9\nSHOW\n/system \xff\n/caf\xe9\n")
    said = _said(r)
    expect((r.returncode, len(said)), (1, 4), f"status and sentences: {said}")
    check("line 3, byte 4: 0xe9" in said[0] and "UTF-8" in said[0],
          f"the place is named: {said[0]}")
    expect(len(_history(said[1])), 2, "messages after a line that was not sent")
    check("line 5, byte 9: 0xff" in said[2] and "line 6, byte 5" in said[3],
          f"in commands too: {said[2:]}")
    expect_error(call("chat", "-m", MODEL, "--system", b"caf\xe9"), 1, "--system", "byte 4",
                 "UTF-8")


def a_line_without_end_is_not_kept_for_ever():
    most = 16 << 20
    r = _talk(b"LEN" + b"x" * (most - 3) + b"\n" + b"LEN" + b"x" * (most - 2) + b"\nLEN\n")
    said = _said(r)
    expect(len(said), 3, f"sentences: {[x[:200] for x in said]}")
    check(f"length {most}" in said[0] and "line 2 is longer than 16 MiB" in said[1]
          and "length 3" in said[2], f"lengths: {said}")


def wrong_usage_is_2():
    expect_error(call("chat", "-m", MODEL, "hello"), 2, "hello")
    expect_error(call("chat", "-m", MODEL, "--system"), 2, "--system")


def an_output_that_is_lost_ends_the_conversation():
    with open("/dev/full", "wb") as full:
        r = call("chat", "-m", MODEL, "-n", 3, stdin=b"one\nFAIL\n" * 100, stdout=full)
    expect((r.returncode, r.stderr), (1, b"gallop: standard output: No space left on device\n"),
           "a conversation to a full disk")
    ours, theirs = os.pipe()
    os.close(ours)
    r = call("chat", "-m", MODEL, "-n", 3, stdin=b"one\nFAIL\n" * 100, stdout=theirs)
    os.close(theirs)
    expect((r.returncode, r.stderr), (1, b""), "a conversation into a pipe that nobody reads")


def several_lines_are_one_message_in_a_block_or_behind_a_backslash():
    for text, want in (('"""\n/two\n lines\n"""\n', "/two\n lines"),
                       ('"""one line"""\n', "one line"), ('"""first\nlast"""\n', "first\nlast"),
                       ("back\\\nslash\n", "back\nslash"), ("a\\\nb\\\nc\n", "a\nb\nc"),
                       ("two\\\\\n", "two\\\\"), ('"""\na\\\nb\n"""\n', "a\\\nb"),
                       ('say """ here\n', 'say """ here')):
        r = _talk(text + "SHOW\n")
        expect(_history(_said(r)[-1])[:1], [("u", want)], f"the message of {text!r}")
    expect(_history(_said(_talk('"""\n\n"""\nSHOW\n'))[-1]), [], "an empty block is no message")


def regen_answers_the_last_message_again():
    drawn = ["chat", "-m", MODEL, "-n", 12, "--temperature", 2]
    r = call(*drawn, stdin=b"one\n/regen\nSHOW\n")
    first, second = _answers(r)
    check(first != second, f"two draws of an answer: {first!r}")
    expect(_history(_said(r)[-1]), [("u", "one"), ("a", second)], "the conversation after /regen")
    seeds = [x.split()[-1] for x in _said(r) if "the seed is" in x]
    expect(len(set(seeds)), 2, f"seeds that are said: {seeds}")
    again = call(*drawn, "--seed", seeds[0], stdin=b"one\n")
    expect((_answers(again), again.stderr), ([first], b""),
           "the seed gives the answer again, and is not said")
    first, second, third = _answers(call(*drawn, "--seed", 5, stdin=b"one\n/regen\n/set seed 5\n/regen\n"))
    check(first != second, f"two draws with one --seed: {first!r}")
    expect(third, first, "a seed that is set begins again")
    expect(_answers(call(*drawn, "--seed", 6, stdin=b"one\n")), [second], "turn 1 has the next seed")
    big = _answers(call(*drawn, "--seed", 2**64 - 1, stdin=b"one\n/set seed 18446744073709551615\n/regen\n"))
    expect(big[1], big[0], "a seed that no signed integer holds")
    r = _talk("/regen\none\n/regen\nSHOW\n")
    check("there is no answer yet" in _said(r)[0], f"/regen in front of all: {_said(r)}")
    expect(_history(_said(r)[1]), [("u", "one"), ("a", _answers(r)[0])],
           "a greedy answer is the same again")


def set_changes_how_answers_are_drawn():
    r = call(
        "chat", "-m", MODEL, "--greedy",
        stdin=b"/set max_tokens 2\none\n/set max-new-tokens 5\n/new\none\n/stats\n/set\n/set parameter stop [\"x\", \"y\"]\n/set\n")
    out = _answers(r)
    check(out[1].startswith(out[0]) and len(out[1]) > len(out[0]) and " 7 answer tokens" in out[2],
          f"answers of 2 and of 5 tokens: {out}")
    expect([json.loads(x) for x in out[3:]],
           [{"max_new_tokens": 5}, {"max_new_tokens": 5, "stop": ["x", "y"]}], "what was set")
    r = _talk("/set colour 1\n/set top_p 7\n/set top_p\n/set\n")
    check(["colour" in _said(r)[0], "top_p" in _said(r)[1], "expected a value" in _said(r)[2]]
          == [True] * 3 and _answers(r) == ["{}"], f"what cannot be set: {_said(r)}")


def a_conversation_is_saved_and_goes_on():
    path = os.path.join(FOLDER.name, "talk.json")
    r = _talk(f"one\n/save {path}\ntwo\n/save {path}\n", "--system", "Be kind.")
    expect((r.returncode, r.stderr), (0, b""),
           "status and words of /save, which replaces its own file")
    first, second = _answers(r)
    with open(path) as f:
        saved = json.load(f)["messages"]
    expect([(m["role"][0], m["content"]) for m in saved],
           [("s", "Be kind."), ("u", "one"), ("a", first), ("u", "two"), ("a", second)], "the file")
    r = _talk(f"other\n/save {path}\n/load {path}\nSHOW\n/new\nSHOW\n")
    check("the file exists" in _said(r)[0], f"another conversation's file stays: {_said(r)}")
    expect((_history(_said(r)[1]), _history(_said(r)[2])),
           ([(m["role"][0], m["content"]) for m in saved], [("s", "Be kind.")]),
           "after /load, and after /new")
    with open(path, "w") as f:
        json.dump([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}], f)
    r = _talk(f"/load {path}\nSHOW\n/new\nSHOW\n", "--system", "Be kind.")
    expect([_history(x) for x in _said(r)], [[("u", "one"), ("a", "two")], []],
           "a conversation without a system message, and a new one after it")
    for text in ("{", "5", '[{"role": "user"}]', '[{"role": "user", "content": 5}]'):
        with open(path, "w") as f:
            f.write(text)
        r = _talk(f"one\n/load {path}\nSHOW\n")
        expect((len(_said(r)), len(_history(_said(r)[1]))), (2, 2),
               f"the conversation after a file that holds {text}")
    check("no such file" in _said(_talk("/load /no/such/file\n"))[0].lower(),
          "a file that is not there")


def a_full_context_says_what_to_do():
    r = _talk("one\n" + "word " * 1100 + "\n")
    check("holds 1024" in _said(r)[0] and "/new" in _said(r)[0]
          and "--max-model-len" in _said(r)[0], f"a message that is too long: {_said(r)}")


def text_that_is_typed_is_plain_or_may_hold_special_tokens():
    for how, n in (((), 44), (("--user-text", "special"), 44),
                   (("--user-text", "plain"), 4 + 40 * 5)):
        r = _talk("<|end|>" * 40 + "\n", "--max-model-len", 40, *how, model=DEMO)
        check(f" has {n} tokens".encode() in r.stderr, f"40 control tokens with {how}: {r.stderr}")


# ---- on a terminal ----

# An answer of PATIENT that lasts until it is stopped.
LASTING = ["--ignore-eos", "-n", "100000", "--min-new-tokens", "100000"]


def _become_a_job():
    """Goes on in a child, as a shell starts a program: in the foreground, in a group whose parent
    is of the same session. Other groups cannot be stopped by a terminal. The parent ends with the
    status of the child."""
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


class _Terminal:
    def __init__(self, *more, model=MODEL, env={}, job=False):
        self.shown = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if job:
                _become_a_job()
            os.environ.update(TERM="xterm", EDITRC="/dev/null", **env)
            os.execv(GALLOP, [GALLOP, "chat", "-m", model, "--greedy", *more])
        self.wait(b"> ")

    def read(self, n, what=b""):
        """Reads until N new bytes are shown and WHAT is among them."""
        end = time.monotonic() + 300
        while (len(self.shown) < n or what not in self.shown) and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError as e:
                    if e.errno != errno.EIO:
                        raise
                    piece = b""
                if not piece:
                    break
                self.shown += piece

    def wait(self, what):
        """Reads until WHAT is shown. Returns what precedes it, and forgets both."""
        self.read(0, what)
        check(what in self.shown, f"{what!r} does not come, but {self.shown[-300:]!r}")
        before, _, self.shown = self.shown.partition(what)
        return before

    def type(self, text):
        text = text.encode() if isinstance(text, str) else text
        while text:
            reads, writes, _ = select.select([self.fd], [self.fd], [], 10)
            if reads:
                self.shown += os.read(self.fd, 65536)
            elif writes:
                text = text[os.write(self.fd, text[:512]):]
            else:
                check(False, f"the terminal takes no more, {len(text)} bytes before the end")
                break

    def history(self):
        self.type("SHOW\r")
        self.wait(b"history ")
        text = self.wait(b"\r\n").decode()
        self.wait(b"> ")
        return _history("history " + text)

    def end(self):
        self.type(b"\x04")
        self.wait(b"\r\n")
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        local = termios.tcgetattr(self.fd)[3]
        expect(local & (termios.ECHO | termios.ICANON), termios.ECHO | termios.ICANON,
               "echo and lines of the terminal it leaves")
        os.close(self.fd)
        return status


def words_of_all_languages_can_be_typed():
    t = _Terminal("-n", "3")
    t.type("Caf\u00e9 \u4f60\u597d \U0001f600\r")
    answer = t.wait(b"> ").decode().split("\r\n")[-3]
    expect(t.history(), [("u", "Caf\u00e9 \u4f60\u597d \U0001f600"), ("a", answer)],
           "the conversation after words in other letters")
    t.end()
    t = _Terminal("-n", "3")
    t.type("one\r")
    t.wait(b"> ")
    expect(t.end(), 0, "status of a conversation that Ctrl-D ends")


def what_cannot_be_sent_comes_back_with_the_arrow_up():
    t = _Terminal("-n", "3")
    for line, word in (("/path is odd", b"there is no command /path"), ("FAIL here", b"refused"),
                       (b"caf\xe9 au lait", b"not UTF-8")):
        t.type(line)
        t.type("\r")
        t.wait(word)
        t.wait(b"> ")
        t.type("\x1b[A")
        t.wait(b"caf\xef\xbf\xbd au lait" if isinstance(line, bytes) else line.encode())
        t.type("\x15")  # Ctrl-U deletes the line.
    t.type("half a li")
    t.wait(b"half a li")
    t.type("\x03")
    t.wait(b"> ")
    t.type("\x1b[A")
    t.wait(b"half a li")
    t.type("\x15")
    expect(t.history(), [], "the conversation when nothing could be sent")
    expect(t.end(), 1, "status after messages that were not answered")


def a_mended_line_is_sent():
    t = _Terminal("-n", "3")
    t.type(b"caf\xe9\r")
    t.wait(b"not UTF-8")
    t.wait(b"> ")
    t.type("\x1b[A\x7f\u00e9\r")  # up, one character back, the right letter
    t.wait(b"> ")
    expect(t.history()[:1], [("u", "caf\u00e9")], "the message after the odd byte was replaced")
    t.type("\ufffd\r")  # typed literally
    t.wait(b"> ")
    expect(t.history()[2:3], [("u", "\ufffd")], "a message that is U+FFFD itself")
    t.type("/path\r")
    t.wait(b"no command")
    t.wait(b"> ")
    t.type("\x1b[A\x01/\r")  # up, to the beginning, a second slash
    t.wait(b"> ")
    expect(t.history()[4:5], [("u", "/path")], "the message after a slash was put in front")
    t.end()


def ctrl_c_is_not_missed_right_after_a_key():
    t = _Terminal("-n", "3")
    # It arrives between the echo and the wait for the next key, sooner or later.
    for _ in range(2000):
        t.type("abc")
        t.wait(b"abc")
        t.type("\x03")
        t.wait(b"> ")
    t.end()


def ctrl_c_keeps_what_was_shown_of_an_answer():
    t = _Terminal(*LASTING, model=PATIENT)
    t.type("one\r")
    t.wait(b"one\r\n")
    t.read(12)
    t.type("\x03")
    rest = t.wait(b" [stopped]")
    t.wait(b"> ")
    turns = t.history()
    expect([x[0] for x in turns], ["u", "a"], "who spoke after an answer was stopped")
    check(turns[1][1] and turns[1][1].encode().endswith(rest.replace(b"\r\n", b"\n")),
          f"what was shown is kept: {turns} and {rest}")
    expect(t.end(), 1, "status (SHOW is refused)")


def ctrl_c_before_the_first_word_takes_the_message_back():
    eos = json.load(open(os.path.join(DEMO, "config.json")))["eos_token_id"]
    # There are only end tokens, which show nothing.
    t = _Terminal(*LASTING[:3], "--logit-bias", f"{eos}=1000", model=PATIENT)
    t.type("one\r")
    t.wait(b"one\r\n")
    time.sleep(0.3)
    t.type("\x03")
    t.wait(b"taken back]")
    t.wait(b"> ")
    expect(t.history(), [],
           "the conversation after an answer that was stopped before its first word")
    t.type("\x1b[A\x1b[A")
    t.wait(b"one")
    t.type("\x15")
    t.end()


def what_is_typed_during_an_answer_is_not_lost():
    t = _Terminal(*LASTING, model=PATIENT)
    t.type("one\r")
    t.wait(b"one\r\n")
    t.read(12)
    t.type("LEN" + "y" * 6000)  # Lines of a terminal end at 4095 bytes.
    t.type("\x03")
    t.wait(b" [stopped]")
    t.type("\r")
    t.wait(b"length 6003")
    t.wait(b"> ")
    t.end()


def a_paste_of_several_lines_is_one_message():
    t = _Terminal("-n", "3")
    t.type(b"see: \x1b[200~/a\rb\tc\nd\x1b[201~ end")
    t.wait(b" end")
    t.type("\r")
    t.wait(b"context ")
    t.wait(b"> ")
    expect(t.history()[:1], [("u", "see: /a\nb\tc\nd end")], "a message that was pasted")
    t.type(b"\x1b[200~/new\rx\r\x1b[201~")
    t.type("\r")
    t.wait(b"context ")
    t.wait(b"> ")
    expect(t.history()[2:3], [("u", "/new\nx")],
           "a pasted text that begins with a slash is a message")
    t.end()


def the_end_of_an_answer_says_how_fast_it_was_and_how_full_the_context_is():
    messages = json.dumps([{"role": "user", "content": "one"}]).encode()
    n = len(call("render", "-m", MODEL, "--messages", "-", "--ids",
                 stdin=messages).stdout.decode().split(","))
    t = _Terminal("-n", "3")
    t.type("one\r")
    t.wait(b"[3 tokens, ")
    shown = t.wait(b"]").decode()
    check(shown.split(" tokens/s; context ")[0].replace(".", "").isdigit()
          and shown.endswith(f" context {n + 3} of 1024"), f"the end of an answer: {shown}")
    t.end()


def a_long_prompt_shows_its_progress_on_a_terminal_and_nowhere_else():
    if not (front := in_front(FOLDER.name, FAST_CLOCK)):
        return
    small_steps = ["-n", "3", "--max-num-batched-tokens", "16"]
    text = "word " * 500
    t = _Terminal(*small_steps, env=front)
    t.type(text + "\r")
    t.wait(b"processing the prompt, tokens [")
    done, _, n = t.wait(b"\r\x1b[K").rpartition(b"] ")[2].partition(b"/")
    check(0 < int(done.split()[-1]) < int(n) and int(n) > 500,
          f"tokens of the prompt that are processed: {done} of {n}")
    t.wait(b"[3 tokens, ")
    t.wait(b"> ")
    t.end()
    t = _Terminal(*small_steps, "--quiet", env=front)
    t.type(text + "\r")
    check(b"processing" not in t.wait(b"\n> "), "progress with --quiet")
    t.end()
    r = call("chat", "-m", MODEL, "--greedy", *small_steps, stdin=text.encode(), env=front)
    expect((r.returncode, len(_answers(r))), (0, 1), f"status and answers: {r.stderr}")
    check(b"processing" not in r.stderr, f"progress where there is no terminal: {r.stderr}")


# A model that writes escapes: an ESC, a CSI of one character, and a bell.
CONTROLS = ["<ask>", "\x1b]0;title\x07", "\u009b2J", "\x7f \x0d", "fine\n\tand \u00e9\u200d"]
SHOWN = rb"\x1b]0;title\x07\x9b2J\x7f \x0dfine" + "\r\n\tand \u00e9\u200d".encode()


def controls_in_answers_do_not_reach_the_terminal():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "net"))
    import scripted

    with tempfile.TemporaryDirectory() as folder:
        scripted.make(folder, [CONTROLS], "{% for m in messages %}{{ m.content }}{% endfor %}<ask>")
        t = _Terminal("--dtype", "fp32", model=folder)
        t.type("Hi\r")
        t.wait(SHOWN)
        t.end()
        ids = call("tokenize", "-m", folder, "--no-special", "".join(CONTROLS[1:])).stdout
        for args in (["run", "-m", folder, "--dtype", "fp32", "--quiet", "<ask>"],
                     ["tokenize", "-m", folder, "--decode", "--ids",
                      ids.decode().strip()]):
            plain = call(*args).stdout
            check("".join(CONTROLS[1:]).encode() in plain, f"a pipe gets the text as it is: {plain}")
            status, shown = on_a_terminal("stdout", *args)
            expect(status, 0, "status")
            check(SHOWN in shown, f"{args[0]} on a terminal: {shown}")


def save_asks_before_it_replaces_a_file():
    with tempfile.TemporaryDirectory() as folder:
        path, mine = os.path.join(folder, "talk.json"), os.path.join(folder, "mine.json")
        with open(path, "w") as f:
            f.write("old")
        t = _Terminal()
        t.type("one\r")
        t.wait(b"context")
        t.wait(b"> ")
        for reply in ("n", ""):
            t.type(f"/save {path}\r")
            t.wait(b"replace it? [y/N] ")
            t.type(reply + "\r")
            t.wait(b"expected another name")
            t.wait(b"> ")
            with open(path) as f:
                expect(f.read(), "old", f"after {reply!r}")
        t.type(f"/save {path}\r")
        t.wait(b"replace it? [y/N] ")
        t.type("y\r")
        t.wait(b"> ")
        for name in (path, mine, mine):  # what this conversation wrote before is replaced at once
            t.type(f"/save {name}\r")
            t.wait(b"\r\n")
            t.wait(b"> ")
            with open(name) as f:
                expect(len(json.load(f)["messages"]), 2, f"messages in {name}")
        t.end()
    r = _talk(f"one\n/save {__file__}\n")
    check("expected another name" in _said(r)[0], f"without a terminal nobody is asked: {_said(r)}")


def a_model_without_template_names_what_helps():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(DEMO, folder, dirs_exist_ok=True)
        with open(os.path.join(folder, "tokenizer_config.json")) as f:
            config = json.load(f)
        config.pop("chat_template")
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump(config, f)
        r = call("chat", "-m", folder, stdin=b"Hi\n")
        check(r.returncode == 1 and b"--chat-template" in r.stderr and b"`gallop run`" in r.stderr,
              f"a base model: {r.stderr}")


def _state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def a_terminal_of_another_size_and_ctrl_z_keep_the_line():
    t = _Terminal("-n", "3", job=True)
    program = os.tcgetpgrp(t.fd)
    t.type("half a li")
    t.wait(b"half a li")
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 30, 0, 0))
    os.kill(program, signal.SIGWINCH)
    t.wait(b"half a li")
    t.type("ne of more than thirty columns, which wraps")
    t.wait(b"wraps")
    os.kill(program, signal.SIGTSTP)
    end = time.monotonic() + 300
    while not (stopped := _state(program) == "T") and time.monotonic() < end:
        time.sleep(.01)
    check(stopped, "the program stops")
    check(termios.tcgetattr(t.fd)[3] & termios.ECHO,
          "the terminal echoes while the program is stopped")
    os.kill(program, signal.SIGCONT)
    t.type("\r")
    t.wait(b"context ")
    t.wait(b"> ")
    expect(t.history()[:1], [("u", "half a line of more than thirty columns, which wraps")],
           "the message")
    t.end()


def a_terminal_is_given_back_when_the_program_is_ended():
    for sig in (signal.SIGTERM, signal.SIGHUP):
        t = _Terminal()
        os.kill(t.pid, sig)
        status = os.waitstatus_to_exitcode(os.waitpid(t.pid, 0)[1])
        local = termios.tcgetattr(t.fd)[3]
        expect((status, local & (termios.ECHO | termios.ICANON)),
               (-sig, termios.ECHO | termios.ICANON), f"status, echo and lines after signal {sig}")
        os.close(t.fd)


_make_models()
run_all(list(globals().items()))
