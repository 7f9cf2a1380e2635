#!/usr/bin/env python3
"""deploy.py - the files of deploy/ fit the program. Standard library only; other checkers are
used where they are installed."""
import json
import os
import re
import shutil
import subprocess
import tempfile

from _cli import GALLOP, ROOT, call, check, expect, run_all
from _server import Server

DEPLOY = os.path.join(ROOT, "deploy")
OPTIONS = set(re.findall(r"--[a-z][a-z-]*", call("serve", "--help", "all").stdout.decode()))


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
    check(int(said["TimeoutStopSec"]) > int(re.search(r"--shutdown-timeout (\d+)", service)[1]),
          "a drain has its time")
    check(said["ExecReload"].endswith("kill -HUP $MAINPID"),
          "a reload is the signal that reads files again")
    check(int(said["WatchdogSec"]) > 0 and ("FileDescriptorName", "http") in _unit(sock),
          "watchdog and socket")
    analyze = shutil.which("systemd-analyze")
    if analyze:
        with tempfile.TemporaryDirectory() as d:
            for name, text in (("gallop.service", service), ("gallop.socket", sock)):
                with open(f"{d}/{name}", "w") as f:
                    f.write(text.replace("/usr/local/bin/gallop", "/bin/true"))
            r = subprocess.run([analyze, "verify", "--man=no", f"{d}/gallop.service",
                                f"{d}/gallop.socket"], capture_output=True, timeout=600)
            found = [x for x in r.stderr.decode().splitlines() if "gallop." in x]
            check(not found, f"systemd-analyze: {found}")


def _metrics():
    with Server() as s:
        s.post("/v1/completions", prompt="x", max_tokens=1)
        return set(re.findall(r"^# TYPE (\S+)", s.request("GET", "/metrics")[2].decode(), re.M))


def _knows(where, expressions, there):
    named = {re.sub("_(bucket|sum|count)$", "", x) if x not in there else x
             for e in expressions for x in re.findall(r"(?:vllm|gallop):\w+|\bhttp_\w+_total", e)}
    check(named and named <= there, f"{where}: metrics that the server has not: {named - there}")
    for e in expressions:
        check(all(e.count(a) == e.count(b) for a, b in ("()", "{}", "[]")) and e.count('"') % 2
              == 0, f"{where}: {e}")


def dashboard_and_alerts_know_the_metrics():
    there = _metrics()
    board = json.loads(_text("grafana.json"))
    expressions = [t["expr"] for p in board["panels"] for t in p["targets"]]
    variables = [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    _knows("grafana.json", expressions + variables, there)
    expect(len({p["id"] for p in board["panels"]}), len(board["panels"]),
           "panels have numbers of their own")
    cells = [(x, y) for g in (p["gridPos"] for p in board["panels"])
             for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    check(len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24, "panels do not overlap")
    check(all(p["targets"] and p["title"] and p["fieldConfig"]["defaults"]["unit"]
              for p in board["panels"]), "each shows something")
    names = {v["name"] for v in board["templating"]["list"]} | {"__rate_interval", "__all"}
    used = set(re.findall(r"\$\{?(\w+)", _text("grafana.json")))
    check(used <= names, f"variables that are not there: {used - names}")
    alerts = _text("alerts.yml")
    expressions = re.findall(r"^ +expr: (.*)$", alerts, re.M)
    expect(len(expressions), alerts.count("- alert:"), "each alert has an expression")
    _knows("alerts.yml", [e for e in expressions if "vllm:" in e or "http_" in e], there)
    check('up{job="gallop"}' in alerts and "job_name: gallop" in _text("prometheus.yml")
          and "- alerts.yml" in _text("prometheus.yml"), "the job is called alike")
    expect(json.loads(json.dumps(sorted(there))) and _differ(there), {"vllm:no_such_metric"},
           "a name that is not there would be seen")


def _differ(there):
    return {x for x in re.findall(
        r"vllm:\w+", "rate(vllm:no_such_metric[5m]) + vllm:num_requests_running") if x not in there}


def containers():
    docker, pods, units = _text("Dockerfile"), _text("kubernetes.yaml"), _text("gallop.service")
    _takes_options("kubernetes.yaml", "\n".join(re.findall(r"^ +- (--\S+)$", pods, re.M)))
    _takes_options("Dockerfile", re.search(r"^CMD (.*)$", docker, re.M)[1])
    expect(len(re.findall(r"^ +- --\S+$", pods, re.M)), 5, "options of the pod were read")
    for path in set(re.findall(r"path: (/\S+?),", pods)):
        with Server() as s:
            expect(s.request("GET", path)[0], 200, f"the probe {path}")
    expect(set(re.findall(r"path: (/\S+?),", pods)), {"/ready", "/health"}, "probes")
    grace, drain = (int(re.search(x, pods)[1])
                    for x in (r"terminationGracePeriodSeconds: (\d+)", r"--shutdown-timeout=(\d+)"))
    check(grace > drain, "a drain has its time")
    check("GALLOP_API_KEY" in pods and "GALLOP_API_KEY" in docker and "GALLOP_API_KEY" in units,
          "where keys come from")
    check(all("GALLOP_ADMIN_API_KEY" in x for x in (pods, units, _text("prometheus.yml"))),
          "and that of who watches")
    # The file that Prometheus reads.
    with Server("--api-key", "a", env={"GALLOP_ADMIN_API_KEY": "b"}) as s:
        got = [s.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})[0]
               for key in "ab"]
        expect(got, [401, 200], "the metrics by each key")
    secret = set(re.findall(r"from-literal=([a-z-]+)=", pods))
    expect(secret, set(re.findall(r"secretKeyRef: .*?key: ([a-z-]+)", pods)),
           "what the Secret has and what is read of it")
    with open(os.path.join(ROOT, "tools", "setup")) as f:
        setup = f.read()
    build, final = docker.split("\nFROM ")[1:]
    words = lambda name: re.search(rf"^{name}=\((.*?)\)", setup, re.M | re.S)[1].split()
    # The target is built without it.
    needed = set(words("build") + words("libraries") + words("page")) - {"make"}
    check(needed <= set(build.split()),
          f"packages that the build needs: {needed - set(build.split())}")
    if shutil.which("ldd") and shutil.which("dpkg-query"):
        direct = subprocess.run(["objdump", "-p", os.path.realpath(GALLOP)],
                                capture_output=True).stdout.decode()
        there = subprocess.run(["ldd", os.path.realpath(GALLOP)],
                               capture_output=True).stdout.decode()
        for name in re.findall(r"NEEDED +(\S+)", direct):
            path = re.search(rf"{re.escape(name)} => (\S+)", there)
            owner = subprocess.run(["dpkg-query", "-S", "*/" + os.path.basename(
                os.path.realpath(path[1]))], capture_output=True) if path else None
            owners = {x.split(":")[0]
                      for x in owner.stdout.decode().splitlines()} if owner else set()
            if owners and not owners & {"libc6", "libasan8", "libubsan1", "libtsan2", "libgcc-s1"}:
                check(owners & set(final.replace("\\", " ").split()),
                      f"the image lacks {owners}, which has {name}")
    try:
        import yaml
    except ImportError:
        return
    documents = list(yaml.safe_load_all(pods))
    expect([d["kind"] for d in documents], ["Deployment", "Service"], "what is made")
    container = documents[0]["spec"]["template"]["spec"]["containers"][0]
    expect(sorted(k for k in container if k.endswith("Probe")),
           ["livenessProbe", "readinessProbe", "startupProbe"], "probes")
    check(yaml.safe_load(_text("alerts.yml"))["groups"]
          and yaml.safe_load(_text("prometheus.yml"))["scrape_configs"], "YAML")


run_all(list(globals().items()))
