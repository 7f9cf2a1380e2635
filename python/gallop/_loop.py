"""The calls of one asyncio event loop, which watches one file descriptor for all of them."""
from __future__ import annotations

import asyncio
import itertools
import threading

from ._errors import Cancelled, OSFailure
from ._gallop import ffi
from ._handles import Channel, Runner

_BATCH = 256


class Watcher:
    """Calls a function in its event loop whenever a call has news."""

    def __init__(self, runner: Runner, loop: asyncio.AbstractEventLoop):
        self.loop = loop
        self.channel = Channel(runner)
        if not self.channel:
            raise OSFailure("cannot open a file descriptor for the event loop")
        self.handlers: dict = {}
        self.numbers = itertools.count(1)
        self.keys = ffi.new("uint64_t[]", _BATCH)
        try:
            loop.add_reader(self.channel.fd(), self._ready)
        except BaseException:
            self.channel.close()
            raise

    def add(self, handler) -> int:
        """Returns the key of a new call, of which HANDLER is told news."""
        key = next(self.numbers)
        self.handlers[key] = handler
        return key

    def remove(self, key: int) -> None:
        self.handlers.pop(key, None)

    def _ready(self) -> int:
        """Calls the handlers of up to _BATCH calls with news, and returns the number of calls."""
        n = self.channel.take(self.keys, _BATCH)
        for key in ffi.unpack(self.keys, n):
            handler = self.handlers.get(key)
            if handler:
                handler()
        return n

    def close(self) -> None:
        """Stops watching. Called once, in the thread of the loop."""
        self.loop.remove_reader(self.channel.fd())
        self.channel.close()


class Watchers:
    """The watchers of an engine, one for each running event loop. Any thread may use them."""

    def __init__(self, runner: Runner):
        self.runner = runner
        self.rows: list[Watcher] = []
        self.closed = False
        self.lock = threading.Lock()

    def get(self) -> Watcher:
        """Returns the watcher of the running loop."""
        loop = asyncio.get_running_loop()
        with self.lock:
            if self.closed:
                raise Cancelled("the engine is closed")
            self.rows = [row for row in self.rows if not row.loop.is_closed()]
            found = next((row for row in self.rows if row.loop is loop), None)
            if not found:
                found = Watcher(self.runner, loop)
                self.rows.append(found)
            return found

    def close(self) -> None:
        """Ends all watchers after the loops have seen the ends of their calls."""
        with self.lock:
            self.closed = True
            rows, self.rows = self.rows, []
        for row in rows:
            try:
                row.loop.call_soon_threadsafe(self._last, row)
            except RuntimeError:
                pass  # The loop is closed: the channel ends with the last reference to it.

    @staticmethod
    def _last(row: Watcher) -> None:
        while row._ready() == _BATCH:
            pass
        for handler in list(row.handlers.values()):
            handler()
        row.close()
