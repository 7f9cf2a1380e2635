"""The log of gallop.pace, in AMD PACE's format.

A line goes to standard output::

    22-Nov-26 11:33:58.525 W configs.py:403 pace-llm : text

The environment variable PACE_LOG_LEVEL has the lowest level that is written: debug, profile, info,
warning, error or none, in lower case. Any other value means info, the default.
"""

import contextlib
import enum
import functools
import os
import sys
import time


class logLevel(enum.Enum):  # noqa: N801 (PACE's name)
    """The levels of the log. A line is written if its level is at least that of PACE_LOG_LEVEL."""

    DEBUG = 0
    PROFILE = 1
    INFO = 2
    WARNING = 3
    ERROR = 4


_LETTERS = "DPIWE"
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_NAMES = ("debug", "profile", "info", "warning", "error", "none")
_NONE = len(_LETTERS)


def _least_level():
    name = os.environ.get("PACE_LOG_LEVEL", "")
    return _NAMES.index(name) if name in _NAMES else logLevel.INFO.value


_least = _least_level()


def emit(level, text, depth=None):
    """Writes TEXT at LEVEL, a logLevel or its number.

    DEPTH: the line has the file and line of the caller so many frames above; None: neither."""
    level = level.value if isinstance(level, logLevel) else int(level)
    if not 0 <= level < _NONE:
        raise ValueError("level: expected 0 to %d, found %d" % (_NONE - 1, level))
    if level < _least:
        return
    now = time.time()
    t = time.localtime(now)
    stamp = "%02d-%s-%02d %02d:%02d:%02d.%03d" % (
        t.tm_mday,
        _MONTHS[t.tm_mon - 1],
        t.tm_year % 100,
        t.tm_hour,
        t.tm_min,
        t.tm_sec,
        int(now * 1000) % 1000,
    )
    where = ""
    if depth is not None:
        frame = sys._getframe(depth)
        where = "%s:%d " % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)
    # One call, so that lines of several threads do not mix.
    sys.stdout.write("%s %s %s%s\n" % (stamp, _LETTERS[level], where, text))
    sys.stdout.flush()


def pacelogger(loglevel, message, caller_stack_depth=0):
    """Writes MESSAGE at LOGLEVEL with the file and line of the caller."""
    emit(loglevel, message, 2 + (caller_stack_depth or 0))


def PACE_DEBUG(message, extra_info="", caller_stack_depth=1):  # noqa: N802
    """Writes a line of the level debug."""
    emit(logLevel.DEBUG, "pace%s: %s" % (extra_info or "", message), caller_stack_depth + 1)


def PACE_INFO(message, extra_info="", caller_stack_depth=1):  # noqa: N802
    """Writes a line of the level info."""
    emit(logLevel.INFO, "pace%s: %s" % (extra_info or "", message), caller_stack_depth + 1)


def PACE_WARNING(message, extra_info="", caller_stack_depth=1):  # noqa: N802
    """Writes a line of the level warning."""
    emit(logLevel.WARNING, "pace%s: %s" % (extra_info or "", message), caller_stack_depth + 1)


def PACE_ERROR(message, extra_info="", caller_stack_depth=1):  # noqa: N802
    """Writes a line of the level error."""
    emit(logLevel.ERROR, "pace%s: %s" % (extra_info or "", message), caller_stack_depth + 1)


def PACE_ASSERT(condition, message, extra_info="", caller_stack_depth=1):  # noqa: N802
    """Logs MESSAGE as an error and raises AssertionError with it, unless CONDITION holds."""
    if not condition:
        PACE_ERROR(message, extra_info, caller_stack_depth + 1)
        raise AssertionError(message)


def PACE_LLM_DEBUG(message, caller_stack_depth=2):  # noqa: N802
    """Writes a line of the level debug for language models."""
    PACE_DEBUG(message, "-llm ", caller_stack_depth)


def PACE_LLM_INFO(message, caller_stack_depth=2):  # noqa: N802
    """Writes a line of the level info for language models."""
    PACE_INFO(message, "-llm ", caller_stack_depth)


def PACE_LLM_WARNING(message, caller_stack_depth=2):  # noqa: N802
    """Writes a line of the level warning for language models."""
    PACE_WARNING(message, "-llm ", caller_stack_depth)


def PACE_LLM_ERROR(message, caller_stack_depth=2):  # noqa: N802
    """Writes a line of the level error for language models."""
    PACE_ERROR(message, "-llm ", caller_stack_depth)


def PACE_LLM_ASSERT(condition, message, caller_stack_depth=2):  # noqa: N802
    """Logs MESSAGE as an error and raises AssertionError with it, unless CONDITION holds."""
    PACE_ASSERT(condition, message, "-llm ", caller_stack_depth)


@contextlib.contextmanager
def suppress_logging():
    """Context in which nothing is logged."""
    global _least
    before, _least = _least, _NONE
    try:
        yield
    finally:
        _least = before


def suppress_logging_fn(function):
    """Decorator: nothing is logged while FUNCTION runs."""

    @functools.wraps(function)
    def quiet(*args, **kwargs):
        with suppress_logging():
            return function(*args, **kwargs)

    return quiet
