"""_server.py - the helpers of the tests of the server: the real program on a free port, plain
sockets, events of a stream."""
import atexit
import fcntl
import functools
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from _cli import DEMO, GALLOP


def passing(sockets, command, env={}):
    """Returns the command as systemd starts it with these sockets, and the arguments of Popen
    for it."""
    high = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 50) for s in sockets]
    to = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(high))
    return (["bash", "-c", f'export LISTEN_PID=$$; exec "$@" {to}', "bash", *command],
            {"pass_fds": high, "env": {**os.environ, "LISTEN_FDS": str(len(high)), **env}})


# A request that lasts until its client leaves, with patient_model(): on two cores its first 10 000
# tokens take seconds, and all of them minutes, as each step reads all rows before it.
HELD = {"prompt": "Once upon a time", "max_tokens": 100000, "min_tokens": 100000,
        "ignore_eos": True}


@functools.cache
def patient_model():
    """Returns a copy of the bundled model that takes HELD. Answers of the bundled model itself end
    within a tenth of a second, so that a test which needs one to last would depend on the speed of
    the machine. The copy is removed when the script ends."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = shutil.copytree(DEMO, os.path.join(folder, "demo"))
    with open(os.path.join(path, "config.json"), "r+") as f:
        config = json.load(f)
        f.seek(0)
        json.dump({**config, "max_position_embeddings": 1 << 17}, f)
        f.truncate()
    return path


class Server:
    """`gallop serve` with options. Its log is in .log. Clients use TLS if .context is an SSL
    context."""

    def __init__(self, *options, model=DEMO, before=None, port=0, sockets=(), env={}, context=None):
        self.context = context
        command, more = [GALLOP, "serve", "-m", model, "--port", str(port),
                         *map(str, options)], {"env": {**os.environ, **env}}
        if sockets:
            command, more = passing(sockets, command, more["env"])
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        preexec_fn=before, **more)
        self.log, self.port, ready = [], None, threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line.decode(errors="backslashreplace").rstrip("\n"))
                found = re.search(r"is served at .*?https?://[^ ,]*:(\d+)(, unix:.*)?(\"})?$",
                                  self.log[-1])
                if found:
                    self.port = int(found[1])
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        ready.wait(600)
        if not self.port:
            self.process.kill()
        assert self.port, f"no server: {self.log}"

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.end()

    def end(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(600)
        self.reader.join(600)
        return status

    def request(self, method, path, body=None, headers={}):
        """Returns status, headers in lower case, and body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        c.sock = self.socket()
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        c.request(method, path, data,
                  {"Content-Type": "application/json", **headers} if data is not None else headers)
        r = c.getresponse()
        out = r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()
        c.close()
        return out

    def post(self, path, headers={}, **fields):
        """Returns the status and the JSON of the answer."""
        status, _, body = self.request("POST", path, fields, headers)
        return status, json.loads(body)

    def events(self, path, headers={}, **fields):
        """Returns the data of each event of a stream."""
        status, head, body = self.request("POST", path, {**fields, "stream": True}, headers)
        assert status == 200 and head["content-type"].startswith("text/event-stream"), (status,
                                                                                        head, body)
        return [x[6:] for x in body.decode().split("\n\n") if x.startswith("data: ")]

    def socket(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=600)
        return self.context.wrap_socket(s, server_hostname="localhost") if self.context else s

    def raw(self, data):
        """Returns what arrives for these bytes until the server closes the connection."""
        with self.socket() as s:
            s.sendall(data)
            return read_all(s)

    def send(self, path, headers={}, **fields):
        """Returns a socket on which a request was sent."""
        s, body = self.socket(), json.dumps(fields).encode()
        more = "".join(f"{k}: {v}\r\n" for k, v in headers.items()).encode()
        s.sendall(
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
            % (path.encode(), more, len(body)) + body)
        return s

    def gauges(self, headers={}):
        text = self.request("GET", "/metrics", headers=headers)[2].decode()
        return {m[1]: float(m[3]) for m in re.finditer(r"^vllm:(\w+)(\{[^}]*\}) (\S+)$", text, re.M)
                if "finished_reason" not in m[2] and "le=" not in m[2]}

    def wait(self, condition, seconds=300, headers={}):
        """Returns True as soon as the gauges fulfil the condition."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition(self.gauges(headers)):
                return True
            time.sleep(.02)
        return False

    def state(self, name, headers={}):
        """Returns what the server says of the request of this id."""
        return json.loads(self.request("GET", f"/v1/status/{name}", headers=headers)[2])

    def is_queued(self, name, headers={}):
        """Returns True as soon as the prompt of a request is tokenized. Before, its place in the
        queue, and whose it is, are open."""
        return self.wait(lambda g: self.state(name, headers).get("prompt_tokens"), headers=headers)

    def is_free(self):
        """Returns True when nothing is computed any more and no row is held."""
        return self.wait(lambda g: g["num_requests_running"] + g["num_requests_waiting"] == 0
                         and g["kv_cache_usage_perc"] == 0)


def read_all(s):
    out = b""
    try:
        while piece := s.recv(65536):
            out += piece
    except OSError:
        pass
    return out
