#!/usr/bin/env python3
"""completion.py - Tab completes verbs, options, their values and file names in bash, zsh and fish,
by scripts that ask the program. zsh and fish are used where they are installed."""
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time

from _cli import GALLOP, call, check, expect, expect_error, run_all

VERBS = re.findall(r"^  (\w+) ", call("--help").stdout.decode(), re.M)
HELP = {verb: call(verb, "--help", "all").stdout.decode() for verb in VERBS}
SCRIPT = {shell: call("help", "--completion", shell).stdout.decode()
          for shell in ("bash", "zsh", "fish")}
# The scripts find the program as the user's shell does.
os.environ["PATH"] = os.path.dirname(GALLOP) + os.pathsep + os.environ["PATH"]
# The function of the script is called as readline calls it. COMPREPLY, and what it asks readline
# to complete, are printed on a line for each case.
DRIVER = """
eval "$GALLOP_SCRIPT"
compopt() { asked="$*"; }
while read -r line; do
    read -ra COMP_WORDS <<<"$line"
    [[ $line != *' ' ]] || COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) asked=
    _gallop
    echo "$asked|${COMPREPLY[*]}"
done
"""


def _bash(*cases):
    """Completes command lines, of which `gallop` is the first word. Returns for each what readline
    is asked to complete itself, and the list of completions."""
    text = "".join(f"gallop {x}\n" for x in cases)
    r = subprocess.run(["bash", "--norc", "-c", DRIVER.replace("while read", "while IFS= read")],
                       env={**os.environ, "GALLOP_SCRIPT": SCRIPT["bash"]}, input=text.encode(),
                       capture_output=True, timeout=600)
    expect((r.returncode, r.stderr.decode()), (0, ""), "what bash says to the script")
    rows = [x.split("|") for x in r.stdout.decode().splitlines()]
    expect(len(rows), len(cases), "completed command lines")
    return [(asked, sorted(words.split())) for asked, words in rows]


def _press(shell, folder, prepare, line):
    """Types LINE, which has Tab characters, into an interactive shell in FOLDER. Returns the
    command line that the shell then holds. PREPARE are commands that bind Ctrl-X Ctrl-P to writing
    the command line to the file `line`."""
    child, master = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(shell[0], shell, {**os.environ, "TERM": "dumb", "PS1": "$ ", "HOME": folder})
    end, seen, out = time.monotonic() + 60, b"", os.path.join(folder, "line")

    def wait(ready):
        nonlocal seen
        while not ready() and time.monotonic() < end:
            if select.select([master], [], [], 0.05)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:
                    break
    try:
        os.write(master, prepare.encode() + b"\necho rea''dy\n")
        wait(lambda: b"\nready" in seen.replace(b"\r", b"\n"))
        os.write(master, line.encode() + b"\x18\x10")
        wait(lambda: os.path.exists(out) and os.path.getsize(out))
    finally:
        os.close(master)
        os.waitpid(child, 0)
    if not os.path.exists(out):
        check(False, f"{shell[0]} shows no completed line: {seen[-500:]!r}")
        return None
    with open(out) as f:
        return f.read().rstrip("\n")


def _names(page):
    return re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", page, re.M)


def a_verb_is_completed():
    found = _bash("ru", "", "s", "help ru", "help --completion ", "frobnicate --", "run -- --")
    expect(found[0], ("", ["run"]), "completions of ru")
    expect(found[1][1], sorted(VERBS + ["help", "--help", "--version"]), "what can come first")
    expect(found[2][1], sorted(x for x in VERBS if x[0] == "s"), "completions of s")
    expect(found[3][1], ["run"], "completions of help ru")
    expect(found[4][1], ["bash", "fish", "zsh"], "shells")
    expect(found[5:], [("", []), ("", [])], "after an unknown verb, and after --")


def every_option_of_every_verb_is_completed():
    for verb, (_, found) in zip(VERBS, _bash(*(verb + " --" for verb in VERBS))):
        expect(found, sorted("--" + x for x in _names(HELP[verb])), f"options of {verb}")
    found = _bash("run --qua", "run --max-tok", "bench ", "run ")
    expect(found[0][1], ["--quant"], "completions of run --qua")
    expect(found[1][1], ["--max-tokens"], "an alias, which no other name begins like")
    check(len(found[2][1]) > 20, "a verb that takes options only shows them at once")
    expect(found[3][1], [], "before the prompt of run")


def values_of_choices_are_completed():
    cases = [(verb, name, words) for verb in VERBS
             for name, words in re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+) ([a-z0-9_]+(?:\|\S+)+)$",
                                           HELP[verb], re.M)]
    check(len(cases) > 30, f"options that have choices: {cases}")
    for case, (_, found) in zip(cases, _bash(*(f"{v} --{name} " for v, name, _ in cases))):
        expect(found, sorted(case[2].split("|")), f"values of {case[0]} --{case[1]}")
    found = _bash("run --dtype = fp", "run --dtype =", "serve -m x --dtype b", "run --max-new-tokens ",
                  "run -n ", "run --help ")
    expect([x for _, x in found], [["fp32"], ["auto", "bf16", "fp32"], ["bf16"], [], [], ["all"]],
           "values of --dtype=, and of numbers, of which nothing is known")


def values_of_names_are_those_that_the_program_takes():
    options = {"run": ("quant", "isa", "attention-backend"),
               "serve": ("tool-call-parser", "reasoning-parser")}
    for verb, names in options.items():
        for name, (_, found) in zip(names, _bash(*(f"{verb} --{x} " for x in names))):
            check(len(found) > 2, f"values of {verb} --{name}: {found}")
            page = " ".join(HELP[verb].split(f"--{name} ", 1)[1].split())
            said = set(re.findall(r"[\w-]+", re.split(r" --[a-z]", page)[0]))
            expect(sorted(set(found) - said), [], f"values of --{name} that --help does not name")
            for value in found if verb == "run" else []:
                r = call("inspect", f"--{name}", value)
                check(b"expected one of" not in r.stderr and b"found" not in r.stderr,
                      f"inspect --{name} {value} says {r.stderr!r}")


def values_that_are_files_are_left_to_the_shell():
    cases = [(verb, name, arg) for verb in VERBS
             for name, arg in re.findall(
                 r"^  (?:-\w, |    )--([a-z0-9-]+) (F\.\w+|F|MODEL|PATH|DIR|SCALES)(?:\s|$)", HELP[verb],
                 re.M) if name not in ("frequency-penalty", "presence-penalty", "dry-multiplier",
                                       "dry-base")]
    check(len(cases) > 30, f"options that take files: {cases}")
    for (verb, name, arg), found in zip(cases, _bash(*(f"{v} --{n} x" for v, n, _ in cases))):
        expect(found, ("-o dirnames" if arg == "DIR" else "-o default", []), f"{verb} --{name} {arg}")


def a_tab_completes_in_an_interactive_bash():
    prepare = ("eval \"$(cat script)\"; bind 'set bell-style none' 'set completion-query-items 0'\n"
               "bind -x '\"\\C-x\\C-p\": printf \"%s\\n\" \"$READLINE_LINE\" >line.part; mv line.part line'")
    cases = {"gallop ru\t": "gallop run ", "gallop run --qua\t": "gallop run --quant ",
             "gallop run --dtype=f\t": "gallop run --dtype=fp32 ",
             "gallop run -m mod\t": "gallop run -m model\\ one.gguf ",
             "gallop run --file=pro\t": "gallop run --file=prompts/",
             "gallop run --kv-store mo\t": "gallop run --kv-store mo"}
    _type(["bash", "--norc", "--noprofile", "-i"], prepare, "bash", cases)


def _type(shell, prepare, name, cases):
    for line, wanted in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            for path in ("model one.gguf", "script"):
                with open(os.path.join(folder, path), "w") as f:
                    f.write(SCRIPT[name])
            os.mkdir(os.path.join(folder, "prompts"))
            expect(_press(shell, folder, prepare, line), wanted, f"{line!r} in {name}")


def zsh_completes_with_its_script():
    if not shutil.which("zsh"):
        print("  skipped: zsh is not installed")
        return
    prepare = ("autoload -Uz compinit; compinit -u -D; . ./script; unsetopt beep\n"
               "show() { print -r -- \"$BUFFER\" >line.part; mv line.part line }; zle -N show\n"
               "bindkey -e; bindkey '^X^P' show; zstyle ':completion:*' menu no")
    cases = {"gallop ru\t": "gallop run ", "gallop run --qua\t": "gallop run --quant ",
             "gallop run --dtype=fp\t": "gallop run --dtype=fp32 ",
             "gallop run --dtype fp\t": "gallop run --dtype fp32 ",
             "gallop help ru\t": "gallop help run ",
             "gallop run -m mod\t": "gallop run -m model\\ one.gguf "}
    _type(["zsh", "-f", "-i"], prepare, "zsh", cases)


def fish_completes_with_its_script():
    if not shutil.which("fish"):
        print("  skipped: fish is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        for path in ("script", "model-one.gguf"):
            with open(os.path.join(folder, path), "w") as f:
                f.write(SCRIPT["fish"])

        def ask(line):
            r = subprocess.run(["fish", "--no-config", "-c", f"source script; complete -C '{line}'"],
                               cwd=folder, env={**os.environ, "HOME": folder}, capture_output=True,
                               timeout=600)
            expect((r.returncode, r.stderr.decode()), (0, ""), "what fish says to the script")
            return [x.split("\t")[0] for x in r.stdout.decode().splitlines()]
        expect(ask("gallop ru"), ["run"], "ru in fish")
        expect(ask("gallop run --qua"), ["--quant"], "--qua in fish")
        expect(sorted(ask("gallop run --dtype ")), ["auto", "bf16", "fp32"], "values in fish")
        expect(ask("gallop run -m mod"), ["model-one.gguf"], "files in fish")
        expect(ask("gallop help ru"), ["run"], "help ru in fish")
        found = set(ask("gallop serve --"))
        lacking = {"--" + x for x in _names(HELP["serve"])} - {x.rstrip("=") for x in found}
        expect(sorted(lacking), [], "options of serve that fish does not complete")


def an_unknown_shell_is_refused():
    expect_error(call("help", "--completion", "tcsh"), 2, "'tcsh'", "bash|zsh|fish")
    expect_error(call("help", "--completion"), 2, "found nothing", "bash|zsh|fish")


run_all(list(globals().items()))
