"""What ends early: cancelled requests, closed engines, forked processes, ended interpreters."""
import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import gallop
import pytest
from lengths import ENDLESS, LONG, ROOMY


def waits_until(what, seconds=20):
    """Threads are waited for as well: the kernel lists one in /proc/self/task for a moment after it
    was joined."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def busy(llm):
    s = llm.stats()
    return s["n_running"] + s["n_waiting"]


@pytest.mark.parametrize("way", ["close", "with", "drop"])
def test_an_unread_stream_that_is_closed_cancels_its_request(llm, way):
    stream = llm.stream("Once upon a time", **LONG)
    next(stream)
    if way == "close":
        stream.close()
    elif way == "with":
        with stream:
            pass
    del stream
    waits_until(lambda: busy(llm) == 0)


def test_a_closed_stream_has_no_more_chunks(llm):
    stream = llm.stream("Once", **LONG)
    stream.close()
    stream.close()
    assert list(stream) == [] and stream.result is None


def test_a_cancelled_task_cancels_its_request():
    async def main(engine):
        tasks = [asyncio.ensure_future(engine.agenerate("Once", **ENDLESS)) for _ in range(40)]

        async def read():
            async for _ in engine.astream("Once", **ENDLESS):
                pass

        tasks.append(asyncio.ensure_future(read()))
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(e, asyncio.CancelledError) for e in ends)

    with gallop.LLM(**ROOMY) as engine:
        asyncio.run(main(engine))
        waits_until(lambda: busy(engine) == 0)


def test_an_asynchronous_stream_that_is_left_cancels_its_request(llm):
    async def main():
        stream = llm.astream("Once", **LONG)
        async for chunk in stream:
            if chunk.token is not None:
                break
        await stream.aclose()

    asyncio.run(main())
    waits_until(lambda: busy(llm) == 0)


def test_closing_an_engine_ends_what_waits_for_it():
    engine = gallop.LLM(**ROOMY)
    ends = []
    threads = [threading.Thread(target=lambda: ends.append(
        engine.generate("Once", **ENDLESS).finish_reason)) for _ in range(6)]
    for t in threads:
        t.start()
    waits_until(lambda: busy(engine) == 6)
    stream = engine.stream("Once", **ENDLESS)
    engine.close()
    for t in threads:
        t.join(20)
    assert ends == ["cancelled"] * 6
    assert [c.finish_reason for c in stream][-1] == "cancelled"
    with pytest.raises(gallop.Cancelled, match="closed"):
        engine.generate("Once")
    engine.close()


def test_closing_an_engine_ends_coroutines_that_wait_for_it():
    async def main():
        engine = gallop.LLM(**ROOMY)
        tasks = [asyncio.ensure_future(engine.agenerate("Once", **ENDLESS)) for _ in range(6)]
        await asyncio.sleep(0.02)
        await asyncio.get_running_loop().run_in_executor(None, engine.close)
        return [r.finish_reason for r in await asyncio.gather(*tasks)]

    assert asyncio.run(main()) == ["cancelled"] * 6


def test_a_dropped_engine_is_closed():
    gc.collect()
    before = threading_count()
    for _ in range(3):
        engine = gallop.LLM()
        engine.generate("Once", max_new_tokens=2)
        engine = None
    gc.collect()
    waits_until(lambda: threading_count() <= before)


def threading_count():
    return len(os.listdir("/proc/self/task"))


def test_a_stream_outlives_the_name_of_its_engine():
    stream = gallop.LLM().stream("Once", max_new_tokens=5)
    gc.collect()
    assert [c.finish_reason for c in stream][-1] == "length"


def test_a_thousand_requests_at_once(llm):
    async def main():
        return await asyncio.gather(*[
            llm.agenerate(f"Number {i % 10}", max_new_tokens=4) for i in range(1000)])

    results = asyncio.run(main())
    alone = [llm.generate(f"Number {i}", max_new_tokens=4).text for i in range(10)]
    assert [r.text for r in results] == [alone[i % 10] for i in range(1000)]


def test_many_threads_share_an_engine(llm):
    expected = llm.generate("The cat", max_new_tokens=12).text
    wrong = []

    def work():
        for _ in range(4):
            text = "".join(c.text for c in llm.stream("The cat", max_new_tokens=12))
            if text != expected or llm.generate("The cat", max_new_tokens=12).text != expected:
                wrong.append(text)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_full_queue_is_waited_for_by_a_list_and_refused_to_a_single_prompt():
    with gallop.LLM(max_num_seqs=1, max_num_queued_reqs=2, max_model_len=1 << 16) as engine:
        results = engine.generate(["Once"] * 20, max_new_tokens=3)
        assert {r.finish_reason for r in results} == {"length"}
        streams = [engine.stream("Once", **ENDLESS) for _ in range(2)]
        with pytest.raises(gallop.NoSpace):
            streams += [engine.stream("Once", **ENDLESS) for _ in range(3)]


def test_engines_that_share_threads_take_turns():
    with gallop.LLM() as a, gallop.LLM(share_pool=a) as b:
        expected = a.generate("Once upon", max_new_tokens=20).text
        texts = []
        threads = [threading.Thread(target=lambda e=e: texts.append(
            e.generate("Once upon", max_new_tokens=20).text)) for e in (a, b) * 4]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert texts == [expected] * 8


def test_an_engine_of_the_parent_is_refused_in_a_fork(llm):
    out, into = os.pipe()
    stream = llm.stream("Once", **LONG)
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        try:
            llm.generate("Once")
        except gallop.GallopError as e:
            said = str(e)
        stream.close()
        llm.close()
        os.write(into, said.encode())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert b"parent process" in os.read(out, 1000)
    os.close(out), os.close(into)
    assert next(stream).finish_reason is None
    stream.close()
    assert llm.generate("Once", max_new_tokens=2).n_output == 2


def test_a_fork_that_ends_normally_leaves_the_engine_of_the_parent(python):
    done = python("""if True:
        import gallop, os, sys
        llm = gallop.LLM()
        stream = llm.stream("Once", max_new_tokens=300, ignore_eos=True)
        pid = os.fork()
        if pid == 0:
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        print(sum(c.token is not None for c in stream))
        """)
    assert done.stdout == "300\n", done.stderr


def test_a_child_opens_an_engine_of_its_own(python):
    done = python("""if True:
        import gallop, multiprocessing
        def work(n):
            with gallop.LLM() as mine:
                return mine.generate("Once", max_new_tokens=n).n_output
        llm = gallop.LLM()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, [2, 3]), llm.generate("Once", max_new_tokens=4).n_output)
        """)
    assert done.stdout == "[2, 3] 4\n", done.stderr


SHUTDOWNS = {
    "stream": "s = llm.stream('Once', **LONG); next(s)",
    "many": "s = [llm.stream('Once', **LONG) for _ in range(50)]",
    "daemon": "threading.Thread(target=lambda: llm.generate('Once', **LONG), daemon=True).start()",
    "daemons": """
def chat():
    while True:
        for c in llm.stream('Once', **LONG): pass
for _ in range(8): threading.Thread(target=chat, daemon=True).start()
time.sleep(0.1)""",
    "thread": "threading.Thread(target=lambda: llm.generate('Once', max_new_tokens=30)).start()",
    "task": """
async def main():
    asyncio.ensure_future(llm.agenerate('Once', **LONG))
    await asyncio.sleep(0.01)
asyncio.run(main())""",
    "loop": """
loop = asyncio.new_event_loop()
t = loop.create_task(llm.agenerate('Once', **LONG))
loop.run_until_complete(asyncio.sleep(0.01))""",
    "exit": "s = llm.stream('Once', **LONG); os._exit(0)",
    "exception": "s = llm.stream('Once', **LONG); sys.exit(0)",
    "module": "sys.modules['keep'] = llm; s = llm.stream('Once', **LONG)",
    "closed": "llm.close()",
}


@pytest.mark.parametrize("state", SHUTDOWNS)
def test_the_interpreter_ends_with_requests_running(python, state):
    done = python("import asyncio, gallop, os, sys, threading, time\nllm = gallop.LLM()\n"
                  "LONG = dict(max_new_tokens=400, ignore_eos=True)\n" + SHUTDOWNS[state])
    assert done.returncode == 0, done.stderr
    said = done.stderr
    assert "Fatal" not in said, said
    # A daemon may be told that the engine is closed; asyncio complains of tasks that were left.
    assert "Traceback" not in said or state in ("task", "loop", "daemon", "daemons"), said


@pytest.mark.parametrize("what", ["generate('Once', **LONG)", "generate(['Once'] * 50, **LONG)",
                                  "json('Once', **LONG)"])
def test_an_interrupt_ends_a_request_within_a_step(what):
    child = subprocess.Popen(
        [sys.executable, "-uc", f"""if True:
        import gallop, time
        LONG = dict(max_new_tokens=1 << 30, ignore_eos=True)
        llm = gallop.LLM(max_model_len=2048)
        try:
            print("ready")
            while True:
                try:
                    llm.{what}
                except gallop.GallopError as e: # JSON that fills the context before the interrupt
                    assert "finish_reason 'length'" in str(e), e
        except KeyboardInterrupt:
            s = llm.stats()
            for _ in range(500):
                if s["n_running"] + s["n_waiting"] == 0:
                    break
                time.sleep(0.01)
                s = llm.stats()
            print("left", s["n_running"] + s["n_waiting"], llm.generate("a", max_new_tokens=1).n_output)
        """], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=30)[0] == "left 0 1\n"
    finally:
        child.kill()


def test_opening_and_closing_leaks_neither_memory_nor_threads_nor_files():
    def state():
        gc.collect()
        with open("/proc/self/statm") as f:
            pages = int(f.read().split()[1])
        return pages, len(os.listdir("/proc/self/fd")), threading_count()

    async def ask(engine):
        await engine.agenerate("Once", max_new_tokens=1)

    def work(n):
        for i in range(n):
            with gallop.LLM(max_num_seqs=2, max_model_len=64) as engine:
                if i % 4 == 0:
                    asyncio.run(ask(engine))
                engine.stream("Once")

    work(20)
    pages, files, threads = state()
    work(10000 if os.environ.get("GALLOP_SLOW_TESTS") else 60)
    waits_until(lambda: state()[1:] == (files, threads))
    assert (state()[0] - pages) * os.sysconf("SC_PAGE_SIZE") < 4 << 20


def test_every_allocation_of_a_request_fails_once(llm):
    """A request whose memory cannot be had raises NoMemory or ends with an error, and no other
    request is affected."""
    from gallop._gallop import lib

    expected = llm.generate("The cat", max_new_tokens=6, logprobs=2).ids
    n = failures = quiet = 0
    while quiet < 3:
        n += 1
        lib.runner_fail_at(n)
        try:
            ids = llm.generate("The cat", max_new_tokens=6, logprobs=2).ids
            assert ids == expected
            quiet += 1
        except (gallop.NoMemory, gallop.GallopError) as e:
            assert "memory" in str(e), e
            failures, quiet = failures + 1, 0
        finally:
            lib.runner_fail_at(0)
        assert n < 2000
    assert failures > 10
    assert llm.generate("The cat", max_new_tokens=6, logprobs=2).ids == expected


def test_closing_an_engine_in_a_coroutine_ends_more_calls_than_a_batch():
    async def main():
        engine = gallop.LLM(**ROOMY)
        tasks = [asyncio.ensure_future(engine.agenerate("Once", **ENDLESS)) for _ in range(600)]
        await asyncio.sleep(0)
        engine.close()
        return [r.finish_reason for r in await asyncio.wait_for(asyncio.gather(*tasks), 30)]

    assert asyncio.run(main()) == ["cancelled"] * 600


def test_an_interrupt_while_a_model_is_opened_leaves_no_thread(python):
    done = python("""if True:
        import _thread, gallop, os, threading, time
        interrupted = threading.Event()
        def progress(done, total):
            if not interrupted.is_set():
                _thread.interrupt_main()
                interrupted.wait(10)
        n = len(os.listdir("/proc/self/task"))
        try:
            gallop.LLM(progress=progress)
        except KeyboardInterrupt:
            interrupted.set()
        assert interrupted.is_set()
        end = time.monotonic() + 20
        while len(os.listdir("/proc/self/task")) > n and time.monotonic() < end:
            time.sleep(0.01)
        print(len(os.listdir("/proc/self/task")) - n)
        """)
    assert done.stdout == "0\n", done.stderr


def test_an_engine_whose_thread_cannot_start_lets_the_shared_engine_close(python):
    done = python("""if True:
        import gallop
        from gallop._gallop import lib
        share = gallop.LLM()
        share.generate("Once", max_new_tokens=1)
        lib.runner_fail_at(1)
        try:
            gallop.LLM(share_pool=share)
        except gallop.GallopError as e:
            print(e.code, e)
        lib.runner_fail_at(0)
        share.close()
        """, timeout=30)
    assert done.stdout == "ERROR the engine's thread cannot be started\n", done.stderr


def test_a_coroutine_in_a_fork_is_refused_before_it_takes_a_lock(llm):
    async def read():
        async for _ in llm.astream("Once"):
            pass

    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        llm._watchers = None
        for work in (read, lambda: llm.agenerate("Once")):
            try:
                asyncio.new_event_loop().run_until_complete(work())
            except gallop.GallopError as e:
                os.write(into, str(e).encode())
            except BaseException as e:
                os.write(into, repr(e).encode())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(out, 1000).count(b"parent process") == 2
    os.close(out), os.close(into)


# What the parent has when it forks, and how the parent goes on.
FORKS = {
    "nothing": ("", "print(gallop.LLM().generate('Once', max_new_tokens=2).n_output)"),
    "idle": ("llm = gallop.LLM()", "print(llm.generate('Once', max_new_tokens=2).n_output)"),
    "streaming": ("llm = gallop.LLM(); s = llm.stream('Once', **LONG); next(s)",
                  "print(1 + sum(c.token is not None for c in s) - 398)"),
    "queue": ("llm = gallop.LLM(max_num_seqs=1); s = [llm.stream('Once', **LONG) for _ in range(9)]",
              "print(len([x.close() for x in s]) - 7)"),
    "closing": ("llm = gallop.LLM(); s = llm.stream('Once', **LONG)\n"
                "t = threading.Thread(target=llm.close); t.start()", "t.join(); print(2)"),
    "closed": ("llm = gallop.LLM(); llm.close()", "print(2)"),
    "dropped": ("s = gallop.LLM().stream('Once', **LONG)", "print(len([next(s), next(s)]))"),
    "threads": ("llm = gallop.LLM()\n"
                "ts = [threading.Thread(target=lambda: llm.generate('Once', max_new_tokens=40)) "
                "for _ in range(8)]\nfor t in ts: t.start()", "for t in ts: t.join()\nprint(2)"),
    "shared": ("a = gallop.LLM(); llm = gallop.LLM(share_pool=a)",
               "a.close(); print(llm.generate('Once', max_new_tokens=2).n_output)"),
    "executor": ("x = gallop.Executor(gallop.DEMO); rows = x.run([gallop.Rows([1, 2])])",
                 "print(len(x.run([gallop.Rows([3], pos=2)]).picks) + 1)"),
    "server": ("server = gallop.serve()", "print(2 if server.returncode is None else 'ended')"),
    "chat": ("llm = gallop.LLM(); chat = llm.chat(); s = chat.stream('Hi', **LONG); next(s)",
             "s.close(); print(2 + len(chat.messages))"),
    "conversation": ("llm = gallop.LLM(); from gallop._text import Prompt\n"
                     "p = Prompt(llm, [{'role': 'user', 'content': 'a'}])", "print(2)"),
}
ENDS = {"exit": "sys.exit(0)", "_exit": "os._exit(0)", "exception": "raise SystemExit(0)",
        "collected": "globals().clear(); import gc; gc.collect()"}


@pytest.mark.parametrize("state", FORKS)
def test_a_fork_ends_in_every_way_and_leaves_its_parent(python, state):
    before, after = FORKS[state]
    ends = "\n".join(f"if os.fork() == 0:\n    {text}\n    import sys; sys.exit(0)\n"
                     "assert os.wait()[1] == 0" for text in ENDS.values())
    done = python("import gallop, os, sys, threading\nLONG = dict(max_new_tokens=400, ignore_eos=True)\n"
                  f"{before}\n{ends}\n{after}\n")
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr + done.stdout


def test_a_fork_while_a_model_is_opened(python):
    done = python("""if True:
        import gallop, os, sys
        ends = []
        def progress(done, total):
            if not ends:
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                ends.append(os.waitpid(pid, 0)[1])
        with gallop.LLM(progress=progress) as llm:
            print(ends, llm.generate("Once", max_new_tokens=2).n_output)
        """)
    assert done.stdout == "[0] 2\n", done.stderr


def test_a_fork_in_an_event_loop(python):
    done = python("""if True:
        import asyncio, gallop, os, sys
        async def main():
            llm = gallop.LLM()
            stream = llm.astream("Once", max_new_tokens=20, ignore_eos=True)
            await stream.__anext__()
            pid = os.fork()
            if pid == 0:
                try:
                    await llm.agenerate("Once")
                except gallop.GallopError as e:
                    os._exit(7 if "parent" in str(e) else 1)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            print(code, 1 + len([c async for c in stream if c.token is not None]))
        asyncio.run(main())
        """)
    assert done.stdout == "7 20\n", done.stderr
