"""Owners of native objects."""
from __future__ import annotations

import os
from typing import Any

from ._errors import Cancelled, _error
from ._gallop import ffi, lib


class Handle:
    """Owns a native object, which is freed when nothing refers to the handle any more.

    A native function writes the pointer to `box`, so that an exception of a signal handler, such as
    KeyboardInterrupt, cannot come between the function and its owner. A thread inside a method of a
    handle refers to it: whatever other threads close, no object is freed under the thread. A forked
    process leaves the objects of its parent alone.
    """

    __slots__ = ("box", "_free", "_pid")

    def __init__(self, kind: str, free: Any) -> None:
        self._free, self._pid = free, os.getpid()
        self.box = ffi.new(f"struct {kind} **")

    def __del__(self, getpid=os.getpid) -> None:
        box = getattr(self, "box", None)
        if box is not None and getpid() == self._pid:
            self._free(box[0])

    def __reduce__(self):
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}")


class Runner(Handle):
    """An engine with its thread."""

    def __init__(self) -> None:
        super().__init__("runner", lib.runner_free)

    def close(self) -> None:
        lib.runner_close(self.box[0])

    def entered(self) -> "Guest":
        """Returns a context in which functions that any thread may call can use the engine."""
        return Guest(self)


class Guest:
    """A context in which the engine stays open: closing it waits for the end of the context."""

    __slots__ = ("runner", "engine")

    def __init__(self, runner: Runner) -> None:
        self.runner, self.engine = runner, ffi.new("struct gallop **")

    def __enter__(self):
        try:
            lib.runner_enter(self.runner.box[0], self.engine)
        except BaseException:  # Ctrl-C, after the function has returned
            self.leave()
            raise
        if not self.engine[0]:
            raise Cancelled("the engine is closed")
        return self.engine[0]

    def leave(self) -> None:
        lib.runner_leave(self.runner.box[0], self.engine)

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def __del__(self) -> None:
        if self.engine[0]:  # Ctrl-C at the beginning of __exit__()
            self.leave()


class Call(Handle):
    """A request. cancel() may be called by any thread and at any time, also before submit()."""

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        self._cancelled = False
        super().__init__("runner_request", lib.runner_release)

    def submit(self, runner: Runner, request: Any, streams: bool, channel: "Channel | None" = None,
               key: int = 0) -> None:
        if self._cancelled:
            raise Cancelled("the request was cancelled before it was submitted")
        err = ffi.new("char[]", lib.GALLOP_ERR_SIZE)
        code = lib.runner_submit(runner.box[0], request.struct, streams,
                                 channel.box[0] if channel else ffi.NULL, key, self.box, err)
        if code:
            raise _error(code, err)
        if self._cancelled:
            self.cancel()

    def wait(self, seconds: float) -> bool:
        """Waits up to SECONDS for news since the last call, and returns whether there are any."""
        return bool(lib.runner_wait(self.box[0], seconds))

    def take(self, index: int, out: Any) -> Any:
        """Moves new output of answer INDEX to OUT, whose memory is valid until the next call."""
        return lib.runner_take(self.box[0], index, out)

    def prompt(self, out: Any) -> None:
        lib.runner_prompt(self.box[0], out)

    def pooled(self) -> Any:
        """Returns the pooled hidden state of a request for an embedding, a float * of the call."""
        return lib.runner_pooled(self.box[0])

    def cancel(self, getpid=os.getpid) -> None:
        """Cancels the request if it is not finished."""
        self._cancelled = True
        if self.box[0] and getpid() == self._pid:
            lib.runner_cancel(self.box[0])


class Channel(Handle):
    """The requests of one event loop, with a file descriptor that is readable if there are news."""

    def __init__(self, runner: Runner) -> None:
        super().__init__("runner_channel", lib.runner_channel_free)
        lib.runner_channel_new(runner.box[0], self.box)

    def __bool__(self) -> bool:
        return bool(self.box[0])

    def fd(self) -> int:
        return lib.runner_channel_fd(self.box[0])

    def take(self, keys: Any, n: int) -> int:
        """Writes the keys of up to N calls with news to KEYS, and returns their number."""
        return lib.runner_channel_take(self.box[0], keys, n)

    def close(self) -> None:
        """Closes the file descriptor. Requests may still be submitted; nobody is told their news."""
        lib.runner_channel_close(self.box[0])
