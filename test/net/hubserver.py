#!/usr/bin/env python3
"""hubserver.py - a local hub: the three requests of the Hugging Face hub that a download needs, and
their failures.

Two servers on two ports of this machine: `hub` lists files and serves small ones; for large ones
(*.safetensors, *.bin, *.gguf) it redirects to `cdn`, as the real hub does. Every request is in
`log`. Failures are properties of a repository. Standard library only.
"""
import hashlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    """The files of one commit by name, and the failures of the repository."""

    def __init__(self, files, **faults):
        self.files = dict(files)
        self.commit = hashlib.sha1(json.dumps(sorted(self.files)).encode()).hexdigest()
        self.refs = {"main": self.commit, self.commit: self.commit}
        self.listed = None  # names in the list that differ from those of the files
        self.token = None  # the only token that is accepted
        self.gated = False  # The files require the token, and the list does not.
        # file -> the lengths after which the connection is cut, one for each request
        self.cut = {}
        # file -> the lengths after which no more bytes are sent, one for each request
        self.stall = {}
        self.busy = 0  # the number of requests that are first answered with 503
        self.wrong = set()  # files whose bytes do not have their hash
        self.size = {}  # file -> the length that is announced
        self.etag = {}  # file -> another ETag
        self.claims = None  # another commit that the answers name
        self.ignore_range = False
        self.delay = 0.0  # seconds before the bytes of a large file
        self.cdn = None  # another address to which large files are redirected
        self.moved = set()  # files that are redirected without their hash
        for name, value in faults.items():
            if not hasattr(self, name):
                raise AttributeError(name)
            setattr(self, name, value)

    def is_large(self, name):
        return name.endswith((".safetensors", ".bin", ".gguf"))

    def hash(self, name):
        data = self.files[name]
        return self.etag.get(name) or (hashlib.sha256(data).hexdigest() if self.is_large(name)
                                       else git_sha1(data))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, headers=(), body=b""):
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code=None, message=None):
        headers = [("X-Error-Code", code)] if code else []
        headers += [("X-Error-Message", message)] if message else []
        self.reply(status, headers, b'{"error": "no"}')

    def enter(self, kind):
        with self.server.world.lock:
            self.server.world.log.append((kind, self.command, self.path, dict(self.headers)))

    def do_HEAD(self):
        self.do_GET()

    # Sends the bytes of a file, with Range and with the failures.
    def send_file(self, repo, name, headers):
        data = repo.files[name]
        if name in repo.wrong:
            data = data[:-1] + bytes([data[-1] ^ 1])
        wanted, first = self.headers.get("Range"), 0
        if wanted and not repo.ignore_range:
            first = int(wanted[len("bytes="):].split("-")[0])
            if first >= len(data):
                return self.reply(416, [("Content-Range", "bytes */%d" % len(data))])
        self.send_response(206 if first else 200)
        for key, value in headers:
            self.send_header(key, value)
        if first:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (first, len(data) - 1, len(data)))
        self.send_header("Content-Length", str(repo.size.get(name, len(data)) - first))
        self.end_headers()
        if self.command == "HEAD":
            return None
        with self.server.world.lock:
            cut = repo.cut[name].pop(0) if repo.cut.get(name) else None
            stall = repo.stall[name].pop(0) if repo.stall.get(name) else None
        end = min(x for x in (cut, stall, len(data)) if x is not None)
        time.sleep(repo.delay if repo.is_large(name) else 0)
        self.wfile.write(data[first:max(end, first)])
        if stall is not None:
            self.wfile.flush()
            self.connection.settimeout(20)
            try:
                self.connection.recv(1)  # until the client closes the connection
            except OSError:
                pass
        if cut is not None or stall is not None:
            self.close_connection = True
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        return None


class Hub(Handler):
    def do_GET(self):
        self.enter("hub")
        raw = self.path.split("?")[0].split("/")  # %2F is part of a name.
        path = unquote(self.path.split("?")[0]).split("/")
        world = self.server.world
        if path[1:3] == ["api", "models"] and len(path) >= 7 and path[5] == "revision":
            repo, rest = world.repos.get("/".join(path[3:5])), "/".join(path[6:])
            return self.listing(repo, "/".join(path[3:5]), rest)
        if path[1:3] == ["api", "models"] and len(path) == 7 and path[5] == "tree":
            return self.tree(world.repos.get("/".join(path[3:5])), path[6])
        if len(raw) >= 6 and raw[3] == "resolve":
            file = "/".join(unquote(x).replace("/", "%2F") for x in raw[5:])
            return self.resolve(world.repos.get("/".join(path[1:3])), "/".join(path[1:3]),
                                unquote(raw[4]), file)
        return self.refuse(404)

    def may_not(self, repo, listing=False):
        if repo is None:
            self.refuse(404, "RepoNotFound", "Repository not found")
            return True
        if repo.busy:
            repo.busy -= 1
            self.refuse(503)
            return True
        given = self.headers.get("Authorization")
        if repo.token is None or (repo.gated and listing) or given == "Bearer " + repo.token:
            return False
        if repo.gated:
            self.refuse(403 if given else 401, "GatedRepo", "Access to this model is restricted.")
        else:
            self.refuse(401, None, "Invalid username or password.")
        return True

    def listing(self, repo, name, revision):
        if self.may_not(repo, True):
            return None
        if revision not in repo.refs:
            return self.refuse(404, "RevisionNotFound", "Invalid rev id: " + revision)
        names = repo.listed if repo.listed is not None else sorted(repo.files)
        body = {"_id": "1", "id": name, "private": False, "sha": repo.refs[revision],
                "gated": repo.gated, "siblings": [{"rfilename": x} for x in names]}
        return self.reply(200, [("Content-Type", "application/json")], json.dumps(body).encode())

    # The program does not send this request, but huggingface_hub does.
    def tree(self, repo, revision):
        if self.may_not(repo, True):
            return None
        if revision not in repo.refs:
            return self.refuse(404, "RevisionNotFound")
        body = []
        for name, data in sorted(repo.files.items()):
            body.append({"type": "file", "path": name, "size": len(data), "oid": git_sha1(data)})
            if repo.is_large(name):
                body[-1]["lfs"] = {"oid": repo.hash(name), "size": len(data), "pointerSize": 134}
        return self.reply(200, [("Content-Type", "application/json")], json.dumps(body).encode())

    def resolve(self, repo, name, revision, file):
        if self.may_not(repo):
            return None
        if revision not in repo.refs:
            return self.refuse(404, "RevisionNotFound")
        if file not in repo.files:
            return self.refuse(404, "EntryNotFound")
        headers = [("X-Repo-Commit", repo.claims or repo.refs[revision]),
                   ("ETag", '"%s"' % repo.hash(file))]
        where = "%s/%s/%s?signature=secret" % (repo.cdn or self.server.world.cdn_url, name,
                                                quote(file))
        if file in repo.moved:
            return self.reply(302, [headers[0], ("Location", where)])
        if not repo.is_large(file):
            return self.send_file(repo, file, headers)
        headers[1] = ("ETag", 'W/"of-the-redirect"')
        headers += [("X-Linked-Etag", '"%s"' % repo.hash(file)),
                    ("X-Linked-Size", str(repo.size.get(file, len(repo.files[file])))),
                    ("Location", where)]
        return self.reply(302, headers)


class Cdn(Handler):
    def do_GET(self):
        self.enter("cdn")
        path = unquote(self.path.split("?")[0]).split("/")
        repo = self.server.world.repos["/".join(path[1:3])]
        file = "/".join(path[3:])
        return self.send_file(repo, file, [
            ("ETag", '"%s"' % (repo.hash(file) if file in repo.moved else "cdn-has-its-own"))])


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # A client that disconnects is not reported.


class World:
    """Both servers with their repositories and their log, as a context."""

    def __init__(self, tls=None):
        self.repos, self.log, self.lock = {}, [], threading.Lock()
        self.servers = [Server(("127.0.0.1", 0), kind) for kind in (Hub, Cdn)]
        for server in self.servers:
            server.world = self
        if tls:
            self.servers[0].socket = tls.wrap_socket(self.servers[0].socket, server_side=True)
        self.url = "%s://127.0.0.1:%d" % ("https" if tls else "http",
                                          self.servers[0].server_address[1])
        self.cdn_url = "http://127.0.0.1:%d" % self.servers[1].server_address[1]

    def __enter__(self):
        for server in self.servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05},
                             daemon=True).start()
        return self

    def __exit__(self, *args):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, name, files, **faults):
        self.repos[name] = Repo(files, **faults)
        return self.repos[name]

    def requests(self, name, kind=None, method=None, file=None):
        """Returns the requests for a repository so far, as (kind, method, path, headers)."""
        with self.lock:
            found = [x for x in self.log if ("/" + name + "/") in x[2]]
        return [x for x in found
                if (kind is None or x[0] == kind) and (method is None or x[1] == method)
                and (file is None or x[2].split("?")[0].endswith("/" + file))]
