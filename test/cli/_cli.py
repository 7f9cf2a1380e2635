"""_cli.py - the helpers of these scripts: they run the program and count checks. Standard
library only; GALLOP_BIN names the program."""
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys

GALLOP = os.path.abspath(os.environ.get("GALLOP_BIN", "build/gallop"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "models", "demo")
# A program that is started with a signal ignored, as by nohup or in the background of a shell,
# leaves it ignored.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)
faults = []
count = 0


def call(*args, stdin=None, env={}, **more):
    """Runs the program to its end, with stdin as bytes. A server binds a free port, so that a
    server that must refuse something else does not find the default port in use."""
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run([GALLOP, *(x if isinstance(x, bytes) else str(x) for x in args)], **given,
                          timeout=600, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                                          **more}, env={"GALLOP_PORT": "0", **os.environ, **env})


def on_a_terminal(stream, *args, env={}):
    """Runs the program with STREAM, "stdout" or "stderr", on a terminal, and drops the other one.
    Returns the status and what the terminal got."""
    ours, theirs = pty.openpty()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
    with subprocess.Popen([GALLOP, *map(str, args)], stdin=subprocess.DEVNULL,
                          env={**os.environ, **env}, **streams) as p:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # the other side is closed
            pass
        os.close(ours)
        return p.wait(100), shown


def whole_cpu(*args, **more):
    """Runs the program to its end. Returns the result and the seconds of processor time that it
    took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    r = call(*args, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rest_cpu(p):
    """Waits for the end of P. Returns its status and the seconds of processor time that it took
    from here on, which unlike wall-clock time do not grow with the load of the machine."""
    with open(f"/proc/{p.pid}/stat") as f:
        ticks = f.read().rpartition(")")[2].split()[11:13]
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, used.ru_utime + used.ru_stime - sum(map(int, ticks)) / os.sysconf(
        "SC_CLK_TCK")


def in_front(folder, source):
    """Returns the environment of a program in which the functions of SOURCE, in C, replace those
    of the C library. None: there is no compiler, or a sanitizer must be loaded first."""
    cc = shutil.which("cc")
    with open(os.path.realpath(GALLOP), "rb") as f:
        if not cc or b"__asan_init" in (binary := f.read()) or b"__tsan_init" in binary:
            return None
    path = os.path.join(folder, "in_front")
    with open(path + ".c", "w") as f:
        f.write(source)
    subprocess.run([cc, "-shared", "-fPIC", "-o", path + ".so", path + ".c"], check=True)
    return {"LD_PRELOAD": path + ".so"}


# A clock that runs a thousand times as fast, so that a second passes on a machine of any speed.
FAST_CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long long begun;
int clock_gettime(clockid_t c, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, c, t);
    long long ns = t->tv_sec * 1000000000LL + t->tv_nsec;
    if (c != CLOCK_MONOTONIC)
        return rc;
    ns = begun + (ns - begun) * 1000;
    t->tv_sec = ns / 1000000000LL;
    t->tv_nsec = ns % 1000000000LL;
    return rc;
}
__attribute__((constructor)) static void begin(void)
{
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    begun = t.tv_sec * 1000000000LL + t.tv_nsec;
}
"""


def check(good, what):
    global count
    count += 1
    if not good:
        faults.append(what)
        print("  x", what)


def expect(found, wanted, what):
    check(found == wanted, f"{what}: found {found!r}, expected {wanted!r}")


def expect_error(r, status, *words):
    """Expects this exit status, nothing on stdout, and one line on stderr that contains each of
    WORDS."""
    said = r.stderr.decode(errors="backslashreplace")
    what = " ".join(map(str, r.args[1:]))[:120]
    expect(r.returncode, status, f"status of `{what}` ({said.strip()[:200]})")
    check(not r.stdout, f"`{what}` prints {r.stdout!r} although it fails")
    for word in words:
        check(word in said, f"`{what}` says {said!r}, without {word!r}")
    expect(said.count("\n"), 1, f"lines that `{what}` says: {said!r}")


def lines(r):
    return [json.loads(x) for x in r.stdout.decode().splitlines()]


def run_all(names):
    """Runs the tests of a script, or those that the arguments of the script name."""
    tests = {name: test for name, test in names if callable(test) and test.__module__ == "__main__"
             and not name.startswith("_")}
    for name in sys.argv[1:] or tests:
        tests[name]()
    print(f"{count - len(faults)} passed, {len(faults)} failed")
    sys.exit(1 if faults else 0)
