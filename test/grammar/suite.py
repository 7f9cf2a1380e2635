#!/usr/bin/env python3
"""suite.py - the official JSON Schema test suite against `gallop grammar`.

usage: suite.py FOLDER|ARCHIVE [--draft draft2020-12] [--show]

FOLDER holds tests/DRAFT/*.json as https://github.com/json-schema-org/JSON-Schema-Test-Suite has them, ARCHIVE is a
tar file of it. Instances are written without white space. A case is right where the program accepts what is
valid and refuses what is not. Cases of a schema that is not compiled count as refused at compile time. The exit
status is 1 if an invalid instance is accepted: that must never be.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tarfile
import tempfile

GALLOP = os.path.abspath(os.environ.get("GALLOP_BIN", "build/gallop"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def groups(folder, draft):
    """Yields (file, group) of the files of a draft that are not optional."""
    where = os.path.join(folder, "tests", draft)
    for name in sorted(os.listdir(where)):
        if name.endswith(".json"):
            with open(os.path.join(where, name), encoding="utf-8") as f:
                for group in json.load(f):
                    yield name, group


def run_group(folder, group):
    """Returns what the program says of the schema and the instances of a group."""
    schema, check = os.path.join(folder, "schema.json"), os.path.join(folder, "check.jsonl")
    with open(schema, "w", encoding="utf-8") as f:
        json.dump(group["schema"], f)
    with open(check, "w", encoding="utf-8") as f:
        for test in group["tests"]:
            f.write(json.dumps(test["data"], separators=(",", ":")) + "\n")
    r = subprocess.run([GALLOP, "grammar", "-m", os.path.join(ROOT, "models", "demo"), "--json-schema", schema,
                        "--check", check, "--json"], capture_output=True, timeout=120, check=False)
    if r.returncode or not r.stdout:
        return {"compiled": False, "error": f"exit status {r.returncode}: {r.stderr.decode()[-200:]}"}
    return json.loads(r.stdout)


def judge(test, accepted):
    if accepted is None:
        return "refused at compile"
    if accepted == test["valid"]:
        return "right"
    return "wrongly accepted" if accepted else "wrongly refused"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("suite")
    parser.add_argument("--draft", default="draft2020-12")
    parser.add_argument("--show", action="store_true", help="print the cases that are not right")
    args = parser.parse_args()
    counts, reasons = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as work:
        folder = args.suite
        if not os.path.isdir(folder):
            with tarfile.open(folder) as archive:
                archive.extractall(work)
            folder = work
        for name, group in groups(folder, args.draft):
            said = run_group(work, group)
            if not said["compiled"]:
                reasons[said["error"][:100]] += len(group["tests"])
            for test, accepted in zip(group["tests"], said.get("accepts") or [None] * len(group["tests"])):
                result = judge(test, accepted if said["compiled"] else None)
                counts[result] += 1
                if args.show and result.startswith("wrongly"):
                    print(f"{result}: {name}: {group['description']}: {test['description']}: "
                          f"{json.dumps(group['schema'])[:200]} {json.dumps(test['data'])[:80]}")
    if args.show:
        for reason, n in reasons.most_common():
            print(f"{n} cases: {reason}")
    print(f"{args.draft}: {sum(counts.values())} cases, " + ", ".join(
        f"{counts[k]} {k}" for k in ("right", "wrongly accepted", "wrongly refused", "refused at compile")))
    return 1 if counts["wrongly accepted"] else 0


if __name__ == "__main__":
    sys.exit(main())
