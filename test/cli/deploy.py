#!/usr/bin/env python3
"""deploy.py - the files of deploy/ fit the program that they are for. Standard library only; what checks more is used where it is."""
import os
import re
import shutil
import subprocess
import tempfile

from _cli import ROOT, call, check, expect, run_all

DEPLOY = os.path.join(ROOT, "deploy")
OPTIONS = set(re.findall(r"--[a-z][a-z-]*", call("serve", "--help").stdout.decode()))


def _text(name):
    with open(os.path.join(DEPLOY, name)) as f:
        return f.read()


def _takes_options(where, text):
    given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    check(given <= OPTIONS, f"{where}: options that `gallop serve` has not: {given - OPTIONS}")


def _unit(text):
    return {(m[1], m[2]) for m in re.finditer(r"^(\w+)=(.*)$", text, re.M)}


def units_of_systemd():
    service, sock = _text("gallop.service"), _text("gallop.socket")
    _takes_options("gallop.service", "\n".join(v for k, v in _unit(service) if k == "ExecStart"))
    said = dict(_unit(service))
    expect(said["Type"], "notify", "the program tells when it is ready")
    check(int(said["TimeoutStopSec"]) > int(re.search(r"--shutdown-timeout (\d+)", service)[1]), "a drain has its time")
    check(int(said["WatchdogSec"]) > 0 and ("FileDescriptorName", "http") in _unit(sock), "watchdog and socket")
    analyze = shutil.which("systemd-analyze")
    if analyze:
        with tempfile.TemporaryDirectory() as d:
            for name, text in (("gallop.service", service), ("gallop.socket", sock)):
                with open(f"{d}/{name}", "w") as f:
                    f.write(text.replace("/usr/local/bin/gallop", "/bin/true"))
            r = subprocess.run([analyze, "verify", "--man=no", f"{d}/gallop.service", f"{d}/gallop.socket"], capture_output=True, timeout=100)
            found = [x for x in r.stderr.decode().splitlines() if "gallop." in x]
            check(not found, f"systemd-analyze: {found}")


run_all(list(globals().items()))
