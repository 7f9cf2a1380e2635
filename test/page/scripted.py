"""scripted.py - a server with scripted answers: chat completions piece by piece, models, metrics.

The page itself comes from a real `gallop serve`, byte for byte and with its headers.
"""
import http.client
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAIT_S = 30


class Refuse:
    """A step: an answer with this status in place of a stream."""

    def __init__(self, status, message, **headers):
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Fail:
    """A step: an error within the stream, which ends there."""

    def __init__(self, message):
        self.message = message


class End:
    """A step: the answer ends for this reason."""

    def __init__(self, reason="stop"):
        self.reason = reason


CUT = object()  # a step: the connection ends here


class Scripted(ThreadingHTTPServer):
    """`answers` maps the last message of a request to its steps: texts, events that are waited
    for, seconds of a pause, and the classes above. `asked` has the bodies of the requests.
    `gone` is set when a client disconnected while it was answered."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, origin):
        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = origin
        self.reset()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def reset(self):
        self.answers, self.asked, self.key, self.replaced = {}, [], None, {}
        self.gone = threading.Event()
        self.metrics = lambda: ""
        self.context_length = None  # the context length of the models, if they have one
        self.n_metrics = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        pass  # Clients may disconnect at any time.

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="application/json", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message, headers=()):
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None,
                          "code": status}}
        self.answer(status, json.dumps(body).encode(), headers=headers)

    def allowed(self):
        if self.server.key is None or self.headers.get(
                "Authorization") == f"Bearer {self.server.key}":
            return True
        self.refuse(401, "The request has no key that this server knows.")
        return False

    def do_GET(self):
        if self.path == "/v1/models":
            if self.allowed():
                more = {} if self.server.context_length is None else {
                    "max_model_len": self.server.context_length}
                models = [{"id": name, **more} for name in ("scripted", "other")]
                self.answer(200, json.dumps({"object": "list", "data": models}).encode())
        elif self.path == "/metrics":
            if self.allowed():
                self.server.n_metrics += 1
                self.answer(200, self.server.metrics().encode(), "text/plain")
        elif self.path in self.server.replaced:
            self.answer(200, self.server.replaced[self.path],
                        "text/css" if self.path.endswith(".css") else "text/javascript")
        else:
            self.pass_on()

    def pass_on(self):
        connection = http.client.HTTPConnection(self.server.origin, timeout=WAIT_S)
        connection.request("GET", self.path)
        response = connection.getresponse()
        headers = [(k, v) for k, v in response.getheaders() if k.lower() not in (
            "content-length", "content-type", "connection", "date", "server")]
        self.answer(response.status, response.read(),
                    response.getheader("Content-Type", "text/plain"), headers)
        connection.close()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        self.server.asked.append(body)
        steps = self.server.answers[body["messages"][-1]["content"]]
        if isinstance(steps[0], Refuse):
            self.refuse(steps[0].status, steps[0].message, steps[0].headers.items())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.stream(steps)
        except OSError:
            self.server.gone.set()

    def event(self, choices, **rest):
        data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "scripted",
                "choices": choices, **rest}
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())

    def wait_for(self, event):
        """Waits for the event, or until the client disconnects."""
        self.connection.settimeout(0.02)
        for _ in range(int(WAIT_S / 0.02)):
            if event.is_set():
                self.connection.settimeout(WAIT_S)
                return
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    raise BrokenPipeError
            except TimeoutError:
                pass

    def stream(self, steps):
        n = 0
        self.wfile.write(b": ping\n\n")
        self.event([{"index": 0, "delta": {"role": "assistant", "content": ""},
                     "finish_reason": None}])
        for step in steps:
            if step is CUT:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if isinstance(step, threading.Event):
                self.wait_for(step)
            elif isinstance(step, float):
                time.sleep(step)
            elif isinstance(step, Fail):
                self.wfile.write(
                    f"data: {json.dumps({'error': {'message': step.message, 'code': 500}})}\n\n".encode())
                return
            elif isinstance(step, End):
                self.event([{"index": 0, "delta": {}, "finish_reason": step.reason}])
            else:
                n += 1
                self.event([{"index": 0, "delta": {"content": step}, "finish_reason": None}])
        self.event([], usage={"prompt_tokens": 5, "completion_tokens": n, "total_tokens": n + 5})
        self.wfile.write(b"data: [DONE]\n\n")
