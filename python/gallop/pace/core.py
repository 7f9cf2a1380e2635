"""Functions of AMD PACE's native module."""

import os

from gallop.pace.utils.logging import emit

_bound_cores = None


def thread_bind(cores):
    """Binds this process to CORES, a list of numbers of processors, and lets models that are opened
    from now on compute with one thread for each of them."""
    global _bound_cores
    cores = [int(core) for core in cores]
    if not cores:
        raise ValueError("thread_bind: the list of cores is empty")
    os.sched_setaffinity(0, set(cores))
    _bound_cores = cores


def bound_threads():
    """Returns the number of cores that thread_bind() was given; 0 if it was not called."""
    return len(set(_bound_cores)) if _bound_cores else 0


def pace_logger(level, message):
    """Writes MESSAGE to the log at LEVEL, 0 (debug) to 4 (error)."""
    emit(level, message)
