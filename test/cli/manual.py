#!/usr/bin/env python3
"""manual.py - --help, the manual page and README.md agree on options, environment variables and
verbs."""
import glob
import os
import re

from _cli import ROOT, call, check, expect, run_all

VERBS = re.findall(r"^  (\w+) ", call("--help").stdout.decode(), re.M)
HELP = {verb: call(verb, "--help", "all").stdout.decode() for verb in VERBS}
BRIEF = {verb: call(verb, "--help").stdout.decode() for verb in VERBS}
MANUAL = call("help", "--man").stdout.decode().replace("\\-", "-")
with open(os.path.join(ROOT, "README.md")) as f:
    README = f.read()
OPTION = re.compile(r"--[a-z][a-z0-9-]*")
# Documents name these options of pkg-config and Codex.
OTHERS = {"--cflags", "--libs", "--static", "--oss", "--local-provider"}


def _options(page):
    """Returns the names and aliases of all options that the page explains."""
    names = re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", page, re.M)
    for more in re.findall(r"also\s+((?:--[a-z0-9-]+(?:,\s+)?)+)", page):
        names += re.findall(r"--([a-z0-9-]+)", more)
    return {"--" + x for x in names}


def every_option_of_every_verb_stands_in_the_manual():
    check(len(VERBS) >= 10 and all(len(_options(HELP[v])) > 5 for v in VERBS),
          f"verbs and their options: {VERBS}")
    there = set(OPTION.findall(MANUAL))
    for verb in VERBS:
        expect(sorted(_options(HELP[verb]) - there), [],
               f"options of {verb} that the manual page does not have")
        check(re.search(rf"^\.(B|BI) {verb}\b", MANUAL, re.M),
              f"the manual page has no paragraph about {verb}")


def the_manual_and_the_readme_name_no_option_that_is_not_there():
    known = set().union(*map(_options, HELP.values())) | {"--version", "--help", "--man", "--api",
                                                          "--completion"} | OTHERS
    expect(sorted(set(OPTION.findall(MANUAL)) - known), [],
           "options of the manual page that no verb has")
    expect(sorted(set(OPTION.findall(README)) - known), [], "options of README.md that no verb has")


def the_documents_of_the_server_name_no_option_that_is_not_there():
    known = set().union(*map(_options, HELP.values())) | {"--version", "--help", "--man", "--api",
                                                          "--completion"} | OTHERS
    with open(os.path.join(ROOT, "bench", "load")) as f:
        known |= set(re.findall(r'p\.add_argument\("(--[a-z-]+)"', f.read()))
    for name in ("SERVING.md", "SCHEDULING.md"):
        with open(os.path.join(ROOT, "docs", name)) as f:
            named = set(OPTION.findall(f.read()))
        check(len(named) > 20, f"{name} names options: {named}")
        expect(sorted(named - known), [], f"options of docs/{name} that no verb has")
        if name == "SERVING.md":
            own = _options("Server:" + HELP["serve"].split("Server:")[1].split("\nModel:")[0])
            expect(sorted(own - named - {"--enable-auto-tool-choice"}), [],
                   f"options of the server that docs/{name} does not sort")


def every_variable_of_the_environment_stands_in_the_manual():
    for verb in VERBS:
        for name in re.findall(r"\$(\w+)", HELP[verb]):
            check(re.search(rf"\b{name}\b", MANUAL),
                  f"the manual page does not name {name} of {verb}")


def examples_of_the_manual_are_read_by_the_program():
    examples = re.findall(r"^gallop .*", MANUAL.split(".SH EXAMPLES")[1], re.M)
    check(len(examples) >= 4, f"examples: {examples}")
    for line in examples:
        for command in line.replace("\\(dq", '"').split("&&"):
            verb = command.split()[1]
            check(verb in VERBS and set(OPTION.findall(command)) <= _options(HELP[verb]),
                  f"an example of the manual: {command}")


def the_manual_is_a_page_that_man_reads_and_says_each_option_in_its_words():
    page = " ".join(MANUAL.replace("\\fB", "").replace("\\fR", "").split()).lower()
    check(MANUAL.startswith('.\\" gallop.1') and "\n.TH GALLOP 1 " in MANUAL,
          f"the page begins with {MANUAL[:80]!r}")
    for verb in VERBS:
        for text in re.findall(r"^ {6,26}(\S[^\n]*(?:\n {26}[^\n]*)*)", HELP[verb], re.M):
            words = " ".join(re.sub(r"^--\S+( \S+)?(  |\n)", "", text).split()).lower()
            check(words in page, f"{verb} --help says {words!r}, the manual page does not")


def every_option_the_program_asks_for_by_name_is_one():
    known = set().union(*map(_options, HELP.values()))
    names = sorted(glob.glob(os.path.join(ROOT, "src", "app", "**", "*.[ch]"), recursive=True))
    check(len(names) > 20, f"sources of the command line: {names}")
    for name in names:
        with open(name) as f:
            asked = re.findall(
                r'opt_(?:source|given|flag|u?int|float|string|choice|count|at)\((?:&|j->)?v, "([^"]*)"',
                f.read())
        expect([x for x in asked if "--" + x not in known], [],
               f"options that {name} asks for and no verb has")


def help_and_version_answer_to_their_usual_names():
    pages = {call(x).stdout for x in ("--help", "-h", "help")}
    expect(len(pages), 1, "pages of --help, -h and help")
    versions = {call(x).stdout for x in ("--version", "-V", "version")}
    check(len(versions) == 1 and re.fullmatch(rb"gallop \d+\.\d+\.\d+\n", versions.pop()),
          "what --version, -V and version print")
    for verb in VERBS:
        expect(call("help", verb).stdout.decode(), BRIEF[verb], f"help {verb}")
        expect(call("help", verb, "all").stdout.decode(), HELP[verb], f"help {verb} all")
        expect(call(verb, "--help=all").stdout.decode(), HELP[verb], f"{verb} --help=all")
    expect(call("help", "frobnicate").returncode, 2, "status of help for a verb that is not there")


def help_fits_80_columns_and_begins_with_the_options_of_every_day():
    check(max(map(len, call("--help").stdout.decode().splitlines())) <= 80,
          "gallop --help is wider than 80 columns")
    for verb in VERBS:
        for page in (HELP[verb], BRIEF[verb]):
            wide = [x for x in page.splitlines() if len(x) > 80]
            expect(wide, [], f"lines of {verb} --help that are wider than 80 columns")
            check(page.split("\n\n")[1].startswith("Everyday:\n"),
                  f"{verb} --help begins with {page[:200]!r}")
        named = set(OPTION.findall(BRIEF[verb]))
        every = {"--" + x for x in re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", HELP[verb], re.M)}
        expect(sorted(every - named), [], f"options of {verb} that the short page does not name")
        bare = re.findall(r"^ +(?:-\w, )?--\S+(?: \S+)?$(?!\n {26})", BRIEF[verb], re.M)
        expect(bare, [], f"options of {verb} that the short page does not explain")
        check(len(BRIEF[verb].splitlines()) <= max(60, len(every) + 80),
              f"the short page of {verb} has {len(BRIEF[verb].splitlines())} lines")
    for verb in ("run", "chat", "serve"):
        check(BRIEF[verb].endswith(
            f"`gallop {verb} --help all` explains all {len(re.findall(r'^  (?:-. , |-., |    )--', HELP[verb], re.M))} options.\n"),
              f"the end of {verb} --help: {BRIEF[verb][-100:]!r}")
        check("--min-p" in BRIEF[verb] or verb == "serve", f"{verb} --help names --min-p")
        check("0 keeps all" not in BRIEF[verb],
              f"{verb} --help explains --top-k in full although it is not for every day")


run_all(list(globals().items()))
