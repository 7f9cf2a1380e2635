"""Workers: processes that are bound to cores, prepare themselves, and work when started."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os
from gallop.pace.utils import MultipleProcesses, Worker

def prepare(name):
    globals()["prepared"] = name

def work(number):
    print(prepared, number, sorted(os.sched_getaffinity(0)), flush=True)

if __name__ == "__main__":
    core = min(os.sched_getaffinity(0))
    team = MultipleProcesses([Worker(i, [core], prepare, ("p%d" % i,), work, (i,)) for i in (0, 1)])
    team.run()
    team.join()
    print(len(os.sched_getaffinity(0)))
"""


def test_workers_run_on_their_cores():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    core = min(os.sched_getaffinity(0))
    lines = run.stdout.splitlines()
    assert sorted(lines[:2]) == ["p0 0 [%d]" % core, "p1 1 [%d]" % core]
    assert lines[2] == str(len(os.sched_getaffinity(0)))


def test_binding_to_no_core_is_refused():
    from gallop.pace.core import thread_bind

    with pytest.raises(ValueError, match="empty"):
        thread_bind([])
