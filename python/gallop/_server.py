"""The HTTP server as a child process: gallop.serve()."""
from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import threading
import weakref
from typing import Any

from ._errors import BadInput, GallopError, OSFailure

_servers: "weakref.WeakSet[Server]" = weakref.WeakSet()
_ADDRESS = re.compile(r"served at (\S+)")
# Flags that are on by default: False becomes --no-FLAG.
_ON = {"enable_prefix_caching", "access_log"}
# Secret options. Every user of the machine can read the arguments of a process.
_SECRETS = ("api_key", "admin_api_key")


class _Secrets:
    """The files that the server reads keys from: memory without a name, which the child inherits."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.files: list[int] = []
        self.arguments: list[str] = []
        self.environment = dict(os.environ)
        try:
            for name in _SECRETS:
                keys = options.pop(name, None)
                if keys is not None:
                    self._add(name, keys, options)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str, keys: Any, options: dict[str, Any]) -> None:
        if options.get(name + "_file") is not None:
            raise BadInput(f"{name}: give all keys here, or all of them in {name}_file", name)
        keys = [str(x) for x in (keys if isinstance(keys, (list, tuple)) else [keys])]
        for key in keys:
            if not key or not all("!" <= c <= "~" for c in key) or key[0] == "#":
                raise BadInput(f"{name}: expected printable ASCII characters without blanks, and no # "
                               "in front", name)
        fd = os.memfd_create(name)
        self.files.append(fd)
        with open(os.dup(fd), "w", encoding="ascii") as f:
            f.writelines(key + "\n" for key in keys)
        self.arguments.append(f"--{name.replace('_', '-')}-file=/proc/self/fd/{fd}")
        self.environment.pop("GALLOP_" + name.upper(), None)  # The option would replace it.

    def close(self) -> None:
        for fd in self.files:
            os.close(fd)


def _arguments(options: dict[str, Any]) -> list[str]:
    """Returns keyword arguments as options of the command line: max_num_seqs=8 is --max-num-seqs 8."""
    out = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False and name.startswith("no_"):
            continue
        if value is False:
            if name not in _ON:
                raise BadInput(f"{name}: found False, but there is no option --no-{flag[2:]}", name)
            out.append("--no-" + flag[2:])
            continue
        if value is True and name in _ON:
            continue
        for x in value if isinstance(value, (list, tuple)) else [value]:
            if x is True:
                out.append(flag)
            else:
                text = json.dumps(x) if isinstance(x, dict) else os.fspath(x) if isinstance(
                    x, os.PathLike) else str(x)
                out.append(f"{flag}={text}")
    return out


class Server:
    """A running server. `url` is its address without "/v1"; use it in a `with` block, or close()."""

    def __init__(self, arguments: list[str], timeout_s: float, log: Any,
                 secrets: "_Secrets | None" = None) -> None:
        from .__main__ import program

        secrets = secrets or _Secrets({})
        self._log, self._pid = log, os.getpid()
        self._lines: list[str] = []
        self._ready = threading.Event()
        self.url = ""
        try:
            self._process = subprocess.Popen(
                [program(), "serve", *arguments, *secrets.arguments], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0, start_new_session=True,
                pass_fds=secrets.files, env=secrets.environment)
        finally:
            secrets.close()
        _servers.add(self)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            if not self._ready.wait(timeout_s):
                raise OSFailure(f"the server is not ready after {timeout_s:g} s")
        except BaseException:
            self.close()
            raise
        if not self.url:
            self.close()
            said = self._lines[-1] if self._lines else f"it ended with status {self.returncode}"
            raise GallopError(re.sub(r"^gallop( serve)?: ", "", said))

    def _read(self) -> None:
        """Reads the log in a thread. The file has no buffer, whose lock a fork could leave locked."""
        data = rest = b""
        while True:
            data = self._process.stderr.read(1 << 16) if self._process.stderr else b""
            *lines, rest = (rest + data).split(b"\n")
            for line in [*lines, rest] if not data and rest else lines:
                self._take(line.decode("utf-8", "replace"))
            if not data:
                break
        self._ready.set()

    def _take(self, line: str) -> None:
        found = _ADDRESS.search(line) if not self.url else None
        if found:
            self.url = found[1].rstrip("/.")
            self._ready.set()
        elif not self.url:
            self._lines.append(line)
        self._write(line + "\n")

    def _write(self, line: str) -> None:
        """Writes a line to the log; a log that fails gets no more lines."""
        if not self._log:
            return
        try:
            print(line, end="", file=self._log, flush=True)
        except Exception:
            self._log = None

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status of the server, or None while it runs."""
        return self._process.poll()

    def close(self, timeout_s: float = 35.0) -> None:
        """Ends the server: running requests have up to 30 s to finish. A forked process leaves the
        server of its parent alone."""
        if os.getpid() != self._pid:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(5)
        if self._process.stderr:
            self._process.stderr.close()

    def wait(self) -> int:
        """Waits until the server ends, and returns its exit status."""
        return self._process.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gallop.Server {self.url} pid={self.pid}>"


def serve(model: "str | os.PathLike[str] | None" = None, *, host: str = "127.0.0.1", port: int = 0,
          timeout_s: float = 600.0, log: Any = None, **options: Any) -> Server:
    """Starts the server with OpenAI's, Anthropic's and Ollama's API, and waits until it is ready.

    model      as in LLM(); None: the small model that comes with the package
    port       0: any free port; the attribute `url` of the result tells which
    timeout_s  seconds to wait for the model to be loaded
    log        a text file that gets the server's log lines, such as sys.stderr; None: none; one
               that raises an exception gets no more lines
    options    the options of `gallop serve` with underscores: max_num_seqs=8, api_key="...".
               False is for flags that are on by default: access_log=False is --no-access-log.
               Keys are neither in the arguments nor in the environment of the server's process

    The server is a process of its own, so that neither Python's lock nor a crash of the program
    touches it. It ends when this process ends by itself, by an exception or by Ctrl-C. It goes on
    after os._exit() and after a signal that ends Python at once (SIGTERM, SIGHUP, SIGKILL): a
    program that expects these has to close() it in a handler.
    """
    first = [] if model is None else ["-m", os.fspath(model)]
    secrets = _Secrets(options)
    return Server([*first, *_arguments({"host": host, "port": port, **options})], timeout_s, log,
                  secrets)


@atexit.register
def _close_servers() -> None:
    for server in list(_servers):
        server.close(5)

