"""Native objects, which live as long as a thread, a loop or a copy may use them, and not longer."""
import asyncio
import copy
import gc
import os
import pickle
import signal
import threading

import gallop
import pytest
from gallop import _fields, _llm, _text
from gallop._handles import Call, Channel, Guest, Handle, Runner
from lengths import ENDLESS, LONG, ROOMY
from test_lifetime import busy, waits_until


def test_an_object_is_freed_once_after_its_last_reference():
    freed = []
    handle = Handle("runner_request", freed.append)
    handle.box[0] = gallop._ffi.cast("struct runner_request *", 8)
    also = handle
    del handle
    assert freed == []
    pid = os.fork()
    if pid == 0:
        del also
        gc.collect()
        os._exit(len(freed))
    assert os.waitpid(pid, 0)[1] == 0
    del also
    assert [int(gallop._ffi.cast("uintptr_t", p)) for p in freed] == [8]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_owns_a_native_object_cannot_be_copied(llm, way):
    stream = llm.stream("Once", **LONG)
    with gallop.Executor(gallop.DEMO) as executor:
        for owner in (llm, stream, executor, stream._call, llm._runner):
            with pytest.raises(TypeError, match=f"cannot copy or pickle an? {type(owner).__name__}"):
                way(owner)
    stream.close()


def test_a_stream_may_be_closed_by_another_thread_while_it_is_read():
    with gallop.LLM(**ROOMY) as engine:
        for _ in range(5):
            stream, ends, begun = engine.stream("Once", **ENDLESS), [], threading.Event()

            def read():
                for chunk in stream:
                    begun.set()
                    assert chunk.finish_reason is None
                ends.append(stream.result)

            reader = threading.Thread(target=read)
            reader.start()
            assert begun.wait(20)
            stream.close()
            reader.join(20)
            assert ends == [None] and list(stream) == []
            waits_until(lambda: busy(engine) == 0)


def test_a_reader_that_waits_for_its_first_chunk_finds_a_closed_stream():
    with gallop.LLM(max_num_seqs=1, max_model_len=1 << 14) as engine:
        first = engine.stream("Once", **ENDLESS)
        next(first)
        stream, ends = engine.stream("Once", **ENDLESS), []
        reader = threading.Thread(target=lambda: ends.append(list(stream)))
        reader.start()
        waits_until(lambda: stream._reading is not None)
        stream.close()
        reader.join(20)
        assert ends == [[]]
        first.close()
        waits_until(lambda: busy(engine) == 0)


def test_a_signal_handler_may_close_the_stream_that_is_read():
    with gallop.LLM(**ROOMY) as engine:
        stream, n = engine.stream("Once", **ENDLESS), 0
        before = signal.signal(signal.SIGUSR1, lambda *args: stream.close())
        try:
            for _ in stream:
                n += 1
                if n == 3:
                    signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert 3 <= n < 1000 and stream.result is None
        waits_until(lambda: busy(engine) == 0)


def test_a_signal_handler_that_reads_the_stream_it_interrupts_is_refused(llm):
    stream, said = llm.stream("Once", **LONG), []
    call, wait = stream._call, stream._call.wait

    class Interrupted:
        def wait(self, seconds):
            try:
                next(stream)
            except ValueError as e:
                said.append(str(e))
            return wait(seconds)

        def __getattr__(self, name):
            return getattr(call, name)

    stream._call = Interrupted()
    assert next(stream).token is not None
    stream.close()
    assert said and set(said) == {"the stream is already being read"}


def test_threads_that_read_one_stream_share_its_chunks(llm):
    expected = llm.generate("Once upon a time", max_new_tokens=150, ignore_eos=True, logprobs=2)
    stream = llm.stream("Once upon a time", max_new_tokens=150, ignore_eos=True, logprobs=2)
    got = []
    threads = [threading.Thread(target=lambda: got.extend(list(stream))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert sorted(c.token for c in got if c.token is not None) == sorted(expected.ids)
    assert stream.result.text == expected.text and stream.result.logprobs == expected.logprobs


def test_a_request_may_be_submitted_after_its_loop_was_closed(monkeypatch):
    """A prompt is rendered in a thread, and its event loop is closed meanwhile; the watcher of that
    loop ends as soon as another loop uses the engine."""
    rendering, go, done = threading.Event(), threading.Event(), threading.Event()

    class Prompt(_text.Prompt):
        def __init__(self, *args):
            super().__init__(*args)
            rendering.set()
            assert go.wait(20)

    with gallop.LLM(**ROOMY) as engine:
        submit, calls = engine._submit, []

        def submitted(call, *args):
            try:
                if args[-1]:
                    calls.append(call)
                submit(call, *args)
            finally:
                done.set()

        monkeypatch.setattr(_text, "Prompt", Prompt)
        monkeypatch.setattr(engine, "_submit", submitted)
        loop = asyncio.new_event_loop()
        task = loop.create_task(engine.agenerate([{"role": "user", "content": "Hi"}], **ENDLESS))
        loop.run_until_complete(loop.run_in_executor(None, rendering.wait, 20))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        first = engine._watchers.rows[0]
        loop.close()
        done.clear()
        assert asyncio.run(engine.agenerate("Once", max_new_tokens=2)).n_output == 2
        assert first not in engine._watchers.rows
        done.clear()
        go.set()
        assert done.wait(20)
        assert not calls[0].box[0]  # A request that nobody waits for is not submitted.
        assert busy(engine) == 0


def test_a_request_that_is_cancelled_while_it_is_submitted_ends():
    with gallop.LLM(**ROOMY) as engine:
        request, call = _fields.Request("generate", dict(ENDLESS)), Call()
        request.set_prompt("Once")

        class Struct:
            """A request during whose submission the call is cancelled."""

            @property
            def struct(self):
                call.cancel()
                return request.struct

        call.submit(engine._runner, Struct(), False)
        assert call.box[0] and call.wait(20)
        end = call.take(0, gallop._ffi.new("struct runner_output *"))
        assert end.finish == gallop._lib.GALLOP_FINISH_CANCELLED and busy(engine) == 0
        with pytest.raises(gallop.Cancelled, match="before it was submitted"):
            call.submit(engine._runner, request, False)


def test_a_channel_outlives_its_file_descriptor_and_a_call_its_channel():
    with gallop.LLM(**ROOMY) as engine:
        channel, request = Channel(engine._runner), _fields.Request("generate", {"max_new_tokens": 2})
        request.set_prompt("Once")
        fd = channel.fd()
        channel.close()
        channel.close()
        with pytest.raises(OSError):
            os.fstat(fd)
        # The number of the closed descriptor is given to another file, which must stay as it is.
        other, into = os.pipe()
        os.write(into, b"12345678")
        os.dup2(other, fd)
        call = Call()
        call.submit(engine._runner, request, False, channel, 7)
        waits_until(lambda: call.wait(0))
        keys = gallop._ffi.new("uint64_t[]", 4)
        assert channel.take(keys, 4) == 0
        assert os.read(fd, 8) == b"12345678"
        del channel
        os.fstat(fd)
        for number in {other, into, fd}:
            os.close(number)
        assert call.take(0, gallop._ffi.new("struct runner_output *")).n_output == 2


def test_a_guest_that_left_twice_is_counted_once():
    with gallop.LLM() as engine:
        guests = [engine._runner.entered() for _ in range(2)]
        for guest in guests:
            assert guest.__enter__()
        guests[0].leave()
        guests[0].leave()
        closer = threading.Thread(target=engine.close)
        closer.start()
        closer.join(0.2)
        assert closer.is_alive()  # It waits for the second guest,
        del guests[:], guest  # who was forgotten.
        closer.join(20)
        assert not closer.is_alive()
        with pytest.raises(gallop.Cancelled):
            Guest(engine._runner).__enter__()


def test_a_dropped_runner_closes_its_engine():
    before = set(os.listdir("/proc/self/task"))
    runner = _llm._Opening(None, {"threads": 1}).run()
    own = set(os.listdir("/proc/self/task")) - before
    assert isinstance(runner, Runner) and own
    del runner
    waits_until(lambda: not own & set(os.listdir("/proc/self/task")))


# What is interrupted in which function of the library.
INTERRUPTED = {
    "runner_submit": "llm.generate('Once', **LONG)",
    "runner_submit of a list": "llm.generate(['Once'] * 4, **LONG)",
    "runner_submit of a stream": "llm.stream('Once', **LONG)",
    "runner_submit of a chat": "llm.chat().send('Hi', **LONG)",
    "runner_submit in a loop": "asyncio.new_event_loop().run_until_complete(llm.agenerate('Once', **LONG))",
    "runner_channel_new": "asyncio.new_event_loop().run_until_complete(llm.agenerate('Once', **LONG))",
    "runner_wait": "llm.generate('Once', **LONG)",
    "runner_enter": "llm.tokenize('Once')",
    "gallop_tokenize": "llm.tokenize('Once')",
    "gallop_detokenize": "llm.detokenize([5])",
    "gallop_render": "llm.render([{'role': 'user', 'content': 'Hi'}])",
    "gallop_parser_open": "list(llm.chat().stream('Hi', max_new_tokens=2))",
    "runner_new": "gallop.LLM(threads=1)",
    "runner_opened": "gallop.LLM(threads=1)",
    "runner_opened with shared threads": "gallop.LLM(share_pool=llm)",
    "gallop_executor_open": "gallop.Executor(gallop.DEMO, threads=1)",
}


@pytest.mark.parametrize("function", INTERRUPTED)
def test_ctrl_c_at_the_return_of_a_function_leaves_nothing_behind(python, function):
    """A profile function raises where a signal handler would: between the return of the function of
    the library and the next step of Python."""
    in_no_loop = "loop" not in function and "channel" not in function  # which keeps its own files
    done = python(f"""if True:
        import asyncio, gallop, gc, os, sys, time
        LONG = dict(max_new_tokens=1 << 30, ignore_eos=True)
        llm = gallop.LLM(max_model_len=1 << 14, threads=1)
        before = None
        def state():
            gc.collect()
            s = llm.stats()
            return (s["n_running"] + s["n_waiting"], len(os.listdir("/proc/self/task")),
                    len(os.listdir("/proc/self/fd")) if {in_no_loop} else 0)
        def interrupt(frame, event, arg):
            if event == "c_return" and getattr(arg, "__name__", "") == {function.split()[0]!r}:
                sys.setprofile(None)
                raise KeyboardInterrupt
        before, kept = state(), None
        try:
            sys.setprofile(interrupt)
            {INTERRUPTED[function]}
        except KeyboardInterrupt as e:
            end = time.monotonic() + 20  # The exception refers to every frame meanwhile.
            while state()[0] and time.monotonic() < end:
                time.sleep(0.01)
            print("running", state()[0])
            kept = e if {function == "runner_enter"} else None
        while state() != before and time.monotonic() < end:
            time.sleep(0.01)
        print(state() == before or (state(), before), llm.generate("a", max_new_tokens=1).n_output)
        llm.close()
        end = time.monotonic() + 20  # The kernel lists a thread for a moment after it was joined.
        while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < end:
            time.sleep(0.01)
        print(len(os.listdir("/proc/self/task")))
        """)
    assert done.stdout == "running 0\nTrue 1\n1\n", done.stdout + done.stderr


def test_an_executor_is_closed_after_the_runs_of_other_threads():
    begun, ends = threading.Event(), []
    executor = gallop.Executor(gallop.DEMO, threads=1)
    expected = executor.run([gallop.Rows([1, 435])]).logits.tolist()
    executor.truncate(0)

    def work():
        try:
            while True:
                out = executor.run([gallop.Rows(list(range(1, 100)))])
                begun.set()
                assert len(out.picks) == 1
                executor.truncate(0)
        except gallop.Cancelled as e:
            ends.append(str(e))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    assert begun.wait(20)
    executor.close()
    for t in threads:
        t.join(20)
    assert ends == ["the executor is closed"] * 3
    executor = gallop.Executor(gallop.DEMO, threads=1)
    logits = executor.run([gallop.Rows([1, 435])]).logits
    executor.close()
    del executor
    assert logits.tolist() == expected  # They are memory of the executor, which stays.
