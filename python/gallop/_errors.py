"""Exceptions: each has the sentence of the engine, its code and the field at fault."""
from __future__ import annotations

import re

from ._gallop import ffi


class GallopError(Exception):
    """An error of the engine.

    str(error) is one sentence that names the file, option or parameter at fault, what was found
    and what was expected. `code` is the name of the error ("BAD_INPUT", "UNSUPPORTED",
    "OS_ERROR", "NO_MEMORY", "NO_SPACE", "CANCELLED"), and `field` is the option or parameter at
    fault as it is spelled in Python ("temperature"), or None.
    An error of this class itself, such as an answer that ended with an error, has the code "ERROR".
    """

    code: str = "ERROR"

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def __str__(self) -> str:
        return self.message


class BadInput(GallopError, ValueError):
    """A file, a request or an argument is wrong."""

    code = "BAD_INPUT"


class Unsupported(GallopError, NotImplementedError):
    """The input is well-formed, but this version of Gallop cannot serve it."""

    code = "UNSUPPORTED"


class OSFailure(GallopError, OSError):
    """A system call failed, for instance because a file does not exist."""

    code = "OS_ERROR"

    def __init__(self, message: str, field: str | None = None) -> None:
        GallopError.__init__(self, message, field)


class NoMemory(GallopError, MemoryError):
    """An allocation failed."""

    code = "NO_MEMORY"


class NoSpace(GallopError, RuntimeError):
    """The KV cache, the context or the queue is full."""

    code = "NO_SPACE"


class Cancelled(GallopError):
    """The engine was closed, or a callback asked to stop."""

    code = "CANCELLED"


_CLASSES = {1: BadInput, 2: Unsupported, 3: OSFailure, 4: NoMemory, 5: NoSpace, 6: Cancelled}
_FIELD = re.compile(r"([a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*)(?:\[\d+\])?: ")


def _error(code: int, err) -> GallopError:
    """Returns the exception for a gallop_code and its sentence, a buffer or text."""
    sentence = err if isinstance(err, str) else ffi.string(err).decode("utf-8", "replace")
    m = _FIELD.match(sentence)
    field = m[1].rsplit(".", 1)[-1] if m and _is_field(m[1].rsplit(".", 1)[-1]) else None
    return _CLASSES.get(code, GallopError)(sentence, field)


def _is_field(name: str) -> bool:
    from . import _fields, _names

    return any(name in fields for fields in (
        _names.OPTIONS, _names.SAMPLING, _names.CONSTRAINT, _names.REQUEST, _fields.ELSEWHERE,
        ("messages", "tools", "ids", "structured_outputs")))
