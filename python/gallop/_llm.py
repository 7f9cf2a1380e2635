"""The engine: gallop.LLM."""
from __future__ import annotations

import array
import asyncio
import collections
import json
import os
import threading
import time
import weakref
from typing import (TYPE_CHECKING, Any, AsyncGenerator, Iterator, Literal, Mapping, Sequence,
                    TypeVar, overload)

from . import _fields, _names, _text
from ._chat import Chat
from ._errors import BadInput, Cancelled, GallopError, NoMemory, NoSpace, Unsupported, _error
from ._fields import Request
from ._gallop import ffi, lib
from ._handles import Call, Guest, Runner
from ._info import ModelInfo, info_of
from ._loop import Watchers
from ._results import Chunk, Reader, Result, Score, read_result
from ._schema import closed as _closed
from ._schema import schema_of, value_of
from ._tools import Tools

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._names import Options
    from ._types import Ids, Messages, Parameters, Path, Prompt, Prompts, Tool

T = TypeVar("T")

# Seconds after which a waiting thread looks for signals, such as Ctrl-C.
_SLICE = 0.02
# Prompts of more characters or ids are submitted in a thread beside the event loop.
_LONG = 1 << 13
# A list lets the event loop do something else after so many prompts.
_TURN = 16
# What the engine refuses a prompt with, where the next one may be accepted.
_REFUSALS = (BadInput, Unsupported, NoSpace, NoMemory)

_engines: "weakref.WeakSet[LLM]" = weakref.WeakSet()


def _demo() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "demo")


@ffi.def_extern(name="gallop_py_progress")
def _progress(ctx, done, total):
    ffi.from_handle(ctx).progress(done, total)


@ffi.def_extern(name="gallop_py_download", error=1)
def _download(ctx, file, done, total):
    return int(bool(ffi.from_handle(ctx).download(ffi.string(file).decode(), done, total)))


class _Callbacks:
    def __init__(self, progress, download):
        self.progress, self.download = progress, download


class _Opening:
    """The options of an engine that is being opened; they must outlive a Ctrl-C."""

    def __init__(self, model, options: dict):
        self.keep: list = []
        self.struct = ffi.new("struct gallop_options *")
        lib.gallop_options_init(self.struct)
        values = dict(options)
        self.share = values.pop("share_pool", None)
        self.callbacks = _Callbacks(values.pop("progress", None), values.pop("download", None))
        self.handle = ffi.new_handle(self.callbacks)
        if self.callbacks.progress:
            self.struct.progress = lib.gallop_py_progress
            self.struct.progress_ctx = self.handle
        if self.callbacks.download:
            self.struct.download = lib.gallop_py_download
            self.struct.download_ctx = self.handle
        values["model"] = _demo() if model is None else model
        _fields.fill_options(self.struct, values, self.keep)

    def run(self):
        """Opens the engine in its thread, and returns the runner."""
        runner, guest = Runner(), None
        try:
            if self.share is not None:
                guest = self.share._open_runner().entered()
                guest.__enter__()
            self._wait(runner)
        except BaseException:
            self._abandon(runner, guest)
            raise
        if guest:
            guest.leave()
        return runner

    def _wait(self, runner: Runner) -> None:
        code, err = ffi.new("int *"), ffi.new("char[]", lib.GALLOP_ERR_SIZE)
        share = self.share._runner.box[0] if self.share is not None else ffi.NULL
        lib.runner_new(self.struct, share, runner.box)
        if not runner.box[0]:
            raise GallopError("the engine's thread cannot be started")
        state = 0
        while state == 0:
            state = lib.runner_opened(runner.box[0], _SLICE, code, err)
        if state < 0:
            raise _error(code[0], err)

    def _abandon(self, runner: Runner, guest: Guest | None) -> None:
        """Lets a thread close the engine after its opening, during which the engine that shares its
        compute threads has to stay open."""

        def work(opening):
            if runner.box[0]:
                runner.close()
            if guest:
                guest.leave()

        if runner.box[0]:
            threading.Thread(target=work, args=(self,), daemon=True).start()
        else:
            work(self)


class Stream(Iterator[Chunk]):
    """The chunks of an answer while it is generated.

    Closing the stream (`close()`, the end of a `with` block, or dropping it) cancels the request
    within a step. Any thread may close it, as may a signal handler: the thread that waits for the
    next chunk then finds no more. Threads that read one stream share its chunks. `result` is the
    whole answer after the last chunk, and None before.
    """

    def __init__(self, llm: "LLM", call: Call, request: Request) -> None:
        self._llm, self._reader = llm, Reader(request)
        self._call: Call | None = call
        self._chunks: "collections.deque[Chunk]" = collections.deque()
        self._lock = threading.Lock()
        self._reading: int | None = None  # the thread that holds the lock
        self.result: Result | None = None

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Chunk:
        while not self._chunks:
            self._read()
        try:
            chunk = self._chunks.popleft()
        except IndexError:  # Another thread was faster.
            return next(self)
        if not self._chunks and self._reader.finished:
            self.result = self._reader.result()
        return chunk

    def _read(self) -> None:
        """Waits for chunks, or raises StopIteration."""
        self._llm._check_process()
        if self._reading == threading.get_ident():
            raise ValueError("the stream is already being read")
        with self._lock:
            self._reading = threading.get_ident()
            try:
                if not self._chunks:
                    self._chunks.extend(self._next_chunks())
            finally:
                self._reading = None

    def _next_chunks(self) -> "list[Chunk]":
        call = self._call
        if call is None:
            raise StopIteration
        if self._reader.finished:
            self.close()
            self.result = self._reader.result()
            _raise_error(self.result)
            raise StopIteration
        while not call.wait(_SLICE):
            if self._call is None:
                raise StopIteration
        if self._call is None:
            raise StopIteration
        return self._reader.chunks(call)

    def close(self) -> None:
        """Cancels the request if it is not finished."""
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self):
        raise TypeError("cannot copy or pickle a Stream: its chunks are read once")


def _raise_error(result: Result) -> Result:
    if result.error is not None:
        raise GallopError(result.error)
    return result


def _raise_unless_complete(result: Result) -> None:
    _raise_error(result)
    if result.finish_reason == "cancelled":
        raise Cancelled("the engine was closed before the answer was complete")
    if result.finish_reason not in ("stop", "length"):
        raise GallopError(f"the answer is incomplete: finish_reason {result.finish_reason!r}")


def _is_full(e: GallopError) -> bool:
    """Returns whether a request was refused because of the other ones that wait."""
    return isinstance(e, NoSpace) and e.message.startswith("the queue is full")


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


def _refused(e: GallopError) -> Result:
    """Returns the Result of a prompt of a list that was refused."""
    return Result("", [], "error", error=e.message)


def _raise_if_all(refusals: list, results: list) -> None:
    if refusals and len(refusals) == len(results):
        raise refusals[0]


class LLM:
    """A model on this machine's CPU cores.

    model    a folder of a checkpoint (as on Hugging Face), a .gguf or packed .gallop file, or the
             name of a model on a Hugging Face hub, "org/name[@revision][:FILE.gguf]".
             None: the small model that comes with the package.
    options  see gallop.options(); None means the default.

    The engine has a thread of its own, which computes all requests of all threads and event loops
    together, without Python's lock. Close it with close(), or use it in a `with` block:

        with gallop.LLM("HuggingFaceTB/SmolLM2-135M-Instruct") as llm:
            print(llm.generate("Once upon a time", max_new_tokens=40).text)
    """

    def __init__(self, model: Path | None = None, **options: Unpack[Options]) -> None:
        self._pid = os.getpid()
        self._runner: "Runner | None" = None
        for name in options:
            if name not in _names.OPTIONS:
                raise _fields.unknown("LLM", name, _names.OPTIONS)
        opening = _Opening(model, dict(options))
        self._runner = opening.run()
        self._closed = False
        self._watchers = Watchers(self._runner)
        self._finalizer = weakref.finalize(self, _free, self._runner, self._watchers, self._pid)
        self._finalizer.atexit = False
        _engines.add(self)

    # ---- requests ----

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False,
                 **sampling: Unpack[Parameters]) -> Result: ...
    @overload
    def generate(self, prompt: Prompts, *, stream: Literal[False] = False,
                 **sampling: Unpack[Parameters]) -> list[Result]: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True],
                 **sampling: Unpack[Parameters]) -> Stream: ...

    def generate(self, prompt: Any, *, stream: bool = False, **sampling: Any) -> Any:
        """Generates the answer to a prompt, or to each of a list of prompts.

        prompt    a str; a list of token ids; a list of messages {"role": ..., "content": ...}, which
                  the model's chat template renders; or a list of any of these, which are computed
                  together
        stream    True: returns stream(prompt, **sampling)
        sampling  max_new_tokens, temperature, top_p, stop, logprobs, seed, n, json_schema, regex,
                  ...: gallop.parameters() explains all of them. With messages also tools (functions
                  or schemas) and chat_template_kwargs (a dict of variables; see render())

        Returns a Result, or a list of Results in the order of the prompts. A prompt of a list that
        is refused, and an answer that ends with an error, have a Result with finish_reason "error"
        and the sentence as `error`; the others are computed. If all prompts are refused, as by a
        wrong parameter, the exception of the first is raised, as it is for a single prompt.
        """
        if stream:
            return self.stream(prompt, **sampling)
        request = Request("generate", sampling)
        if _fields.is_batch(prompt):
            return self._run_all(list(prompt), request, refused=_refused)
        return _raise_error(self._run(prompt, request))

    def stream(self, prompt: Prompt, **sampling: Unpack[Parameters]) -> Stream:
        """Generates an answer and returns its chunks while they are generated.

        for chunk in llm.stream("Once upon a time", max_new_tokens=40):
            print(chunk.text, end="", flush=True)
        """
        return self._stream(prompt, Request("stream", dict(sampling)))

    @overload
    def embed(self, text: str | Ids, pooling: str = "auto", normalize: bool = True,
              **parameters: Any) -> array.array[float]: ...
    @overload
    def embed(self, text: Prompts, pooling: str = "auto", normalize: bool = True,
              **parameters: Any) -> list[array.array[float]]: ...

    def embed(self, text: Any, pooling: str = "auto", normalize: bool = True,
              **parameters: Any) -> Any:
        """Returns the embedding of a text, which the server has at /v1/embeddings: an
        array.array("f").

        text        a str, a list of token ids, or a list of these; then a list is returned
        pooling     "auto": as the model's files say, with the prompt, template, length, modules and
                    size of a folder of sentence-transformers, or else "last"; "last": the last
                    hidden state of the last token; "mean": the mean of those of all tokens
        normalize   scale the embedding to length 1
        parameters  priority, key, cache_salt, deadline_s and no_special of gallop.parameters()

        The arrays support the buffer protocol: numpy.asarray(embedding) copies nothing. An error
        of one text of a list is raised.
        """
        request = Request("embed", parameters, {*_fields.QUEUED, "no_special"}).without_output(
            "pooling", pooling, _fields.set_enum)

        def read(call, request):
            _raise_unless_complete(read_result(call, request))
            return _text.embedding(self, request.struct.pooling, call.pooled(), normalize)

        if _fields.is_batch(text):
            return self._run_all(list(text), request, read)
        return self._run(text, request, read)

    @overload
    def score(self, text: str | Ids, top: int = 0, **parameters: Any) -> Score: ...
    @overload
    def score(self, text: Prompts, top: int = 0, **parameters: Any) -> list[Score]: ...

    def score(self, text: Any, top: int = 0, **parameters: Any) -> Any:
        """Returns how likely a text is, token by token: a Score, or a list for a list of texts.

        top         number of the likeliest tokens in place of each token that are returned, too
        parameters  priority, key, cache_salt and deadline_s of gallop.parameters()
        """
        batch = _fields.is_batch(text)
        request = Request("score", parameters, _fields.QUEUED).without_output(
            "prompt_logprobs", top)
        texts = list(text) if batch else [text]
        prompts = [self.tokenize(x) if isinstance(x, str) else x for x in texts]
        results = self._run_all(prompts, request) if batch else [self._run(prompts[0], request)]
        rows = [_score(p, r) for p, r in zip(prompts, results)]
        return rows if batch else rows[0]

    @overload
    def json(self, prompt: Prompt, schema: type[T], **sampling: Unpack[Parameters]) -> T: ...
    @overload
    def json(self, prompt: Prompts, schema: type[T], **sampling: Unpack[Parameters]) -> list[T]: ...
    @overload
    def json(self, prompt: Prompt | Prompts, schema: Any = None,
             **sampling: Unpack[Parameters]) -> Any: ...

    def json(self, prompt: Any, schema: Any = None, **sampling: Any) -> Any:
        """Generates JSON that satisfies a schema, and returns it.

        schema    a JSON Schema as a dict; a type, such as a pydantic model class, a dataclass or
                  list[int]; None: any JSON object

        Returns what json.loads() returns, or an object of the type. GallopError is raised if the
        answer was cut off (max_new_tokens, a stop string, the context or a deadline). A list of
        prompts gives a list of values, and raises the first error; n=N gives a list of N values.
        """
        return _parse_json(self.generate(prompt, **_constrain(schema, sampling)), schema)

    @overload
    async def ajson(self, prompt: Prompt, schema: type[T], **sampling: Unpack[Parameters]) -> T: ...
    @overload
    async def ajson(self, prompt: Prompts, schema: type[T],
                    **sampling: Unpack[Parameters]) -> list[T]: ...
    @overload
    async def ajson(self, prompt: Prompt | Prompts, schema: Any = None,
                    **sampling: Unpack[Parameters]) -> Any: ...

    async def ajson(self, prompt: Any, schema: Any = None, **sampling: Any) -> Any:
        """json() as a coroutine."""
        return _parse_json(await self.agenerate(prompt, **_constrain(schema, sampling)), schema)

    def chat(self, system: str | None = None, tools: Sequence[Tool] | None = None, *,
             messages: Messages | None = None,
             chat_template_kwargs: Mapping[str, Any] | None = None, **options: Any) -> "Chat":
        """Begins a conversation that keeps its messages.

        system    the system message
        tools     Python functions that the model may call: their names, annotations and docstrings
                  become schemas, and calls of the model are executed; or schemas as in OpenAI's API
        messages  messages that the conversation begins with, in place of system
        chat_template_kwargs
                  a dict of variables of the chat template, of any name
        options   sampling parameters of every answer, unless send() has others; variables that the
                  chat template mentions, such as enable_thinking=False; or one of chat_template,
                  tool_call_parser, tool_choice, ... (struct gallop_chat in gallop.h)
        """
        variables = {k: v for k, v in options.items() if k not in _fields.PARAMETERS}
        sampling = {k: v for k, v in options.items() if k not in variables}
        return Chat(self, system, tools, _text.variables_of(
            self, "chat", variables, chat_template_kwargs,
            {"system", "messages", *_fields.PARAMETERS}), sampling, messages)

    @overload
    async def agenerate(self, prompt: Prompt, **sampling: Unpack[Parameters]) -> Result: ...
    @overload
    async def agenerate(self, prompt: Prompts, **sampling: Unpack[Parameters]) -> list[Result]: ...

    async def agenerate(self, prompt: Any, **sampling: Any) -> Any:
        """generate() as a coroutine. Cancelling its task cancels the request.

        Thousands of calls may run at once: await asyncio.gather(*[llm.agenerate(p) for p in ...]).
        A list of prompts waits for room in the queue; a single one raises NoSpace if it is full.
        """
        self._open_runner()
        request = Request("agenerate", sampling)
        if _fields.is_batch(prompt):
            return await self._answer_all(list(prompt), request)
        return _raise_error(await self._answer(prompt, request))

    async def astream(self, prompt: Prompt,
                      **sampling: Unpack[Parameters]) -> AsyncGenerator[Chunk, None]:
        """stream() as an asynchronous iterator. Closing it, or cancelling its task, cancels the
        request."""
        self._open_runner()
        chunks = self._chunks(prompt, Request("astream", dict(sampling)), [])
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()

    async def _chunks(self, prompt, request, results: list) -> AsyncGenerator[Chunk, None]:
        """Yields the chunks of an answer, whose Result is appended to RESULTS."""
        watcher = self._watchers.get()
        news = asyncio.Event()
        key = watcher.add(news.set)
        call = Call()
        try:
            await self._submit_beside(call, prompt, request, True, watcher, key)
            reader = Reader(request)
            while not reader.finished:
                await news.wait()
                news.clear()
                for chunk in reader.chunks(call):
                    yield chunk
            results.append(_raise_error(reader.result()))
        finally:
            watcher.remove(key)
            call.cancel()

    # ---- the tokenizer and the model ----

    @property
    def info(self) -> "ModelInfo":
        """Facts about the model: name, architecture, context length, special tokens, chat template,
        data types, bytes."""
        with self._open_runner().entered() as engine:
            return info_of(engine)

    def tokenize(self, text: str, special: bool = True, plain: bool = False) -> list[int]:
        """Returns the token ids of a text.

        special   with BOS and other tokens that the tokenizer puts around a text, as prompts have
        plain     special tokens that are written in the text are ordinary text
        """
        return _text.tokenize(self, text, special, plain)

    def detokenize(self, ids: Ids, special: bool = False) -> str:
        """Returns the text of token ids; special: with special tokens."""
        return _text.detokenize(self, ids, special)

    def render(self, messages: Messages, tools: Sequence[Tool] | None = None, *,
               chat_template_kwargs: Mapping[str, Any] | None = None, **variables: Any) -> str:
        """Returns the prompt that the model's chat template makes of messages.

        messages   a list of dicts as in OpenAI's API
        tools      a list of Python functions or of schemas as in OpenAI's API
        chat_template_kwargs
                   a dict of variables of the template, of any name
        variables  variables that the template mentions, such as enable_thinking=False; or one of
                   add_generation_prompt, continue_final_message, chat_template, template_name,
                   verbatim, plain_user_text, tool_choice (struct gallop_chat in gallop.h)
        """
        variables = _text.variables_of(self, "render", variables, chat_template_kwargs)
        return _text.Prompt(self, messages, Tools(tools).schemas,
                            {**variables, "text_only": 1}).text

    def stats(self) -> dict[str, Any]:
        """Returns the state and the counters of the engine (struct gallop_stats in gallop.h).

        Sizes are in bytes, times in seconds. "operators" maps each kind of operator to its seconds,
        bytes and floating-point operations since the engine was opened.
        """
        s = ffi.new("struct gallop_stats *")
        with self._open_runner().entered() as engine:
            lib.gallop_stats(engine, s)
        out = _fields.dict_of(s)
        out["n_accepted_per_pos"] = out["n_accepted_per_pos"][:out["n_draft_positions"]]
        out["operators"] = {}
        for o in s.operators:
            row = _fields.dict_of(o)
            out["operators"][row.pop("name")] = row
        return out

    # ---- lifetime ----

    def close(self) -> None:
        """Cancels all requests and frees the model, after the current step. May be called twice."""
        if self._runner is None or self._forked() or self._closed:
            return
        self._closed = True
        self._runner.close()
        self._watchers.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gallop.LLM {'closed' if self._closed else 'open'} at {id(self):#x}>"

    # ---- inside ----

    def _forked(self) -> bool:
        return os.getpid() != self._pid

    def _check_process(self) -> None:
        if self._forked():
            raise GallopError("this engine belongs to the parent process: threads do not survive "
                              "a fork; open an engine in each process")

    def __reduce__(self):
        raise TypeError("cannot copy or pickle an LLM: open another one")

    def _open_runner(self) -> Runner:
        self._check_process()
        if self._closed:
            raise Cancelled("the engine is closed")
        assert self._runner is not None
        return self._runner

    def _stream(self, prompt, request) -> Stream:
        call = Call()
        try:
            self._submit(call, prompt, request, True)
            return Stream(self, call, request)
        except BaseException:
            call.cancel()
            raise

    def _submit(self, call: Call, prompt, request, streams, watcher=None, key=0) -> None:
        """Submits a prompt as CALL, whose news the WATCHER is told with KEY."""
        runner = self._open_runner()
        if _fields.is_messages(prompt):
            request.set_rendered(_text.Prompt(self, prompt, Tools(request.tools).schemas,
                                              request.template))
        elif request.tools or request.template:
            name = "tools" if request.tools else "chat_template_kwargs"
            raise BadInput(f"{name}: needs a prompt that is a list of messages; LLM.chat() takes "
                           "tools and variables for a conversation", name)
        elif prompt is not _fields.KEPT:
            request.set_prompt(prompt)
        call.submit(runner, request, streams, watcher.channel if watcher else None, key)

    def _take(self, call, request, read):
        """Waits for the end of a call, and returns what READ makes of it."""
        while not call.wait(_SLICE):
            self._check_process()
        return read(call, request)

    def _run(self, prompt, request, read=read_result):
        """Returns what READ makes of the answer to a prompt."""
        call = Call()
        try:
            self._submit(call, prompt, request, False)
            return self._take(call, request, read)
        finally:
            call.cancel()

    def _run_all(self, prompts, request, read=read_result, refused=None):
        """_run() for prompts that are computed together; waits if the queue is full.

        REFUSED makes a result of the exception for a prompt; None: the first exception is raised."""
        results: list = [None] * len(prompts)
        calls: "collections.deque[tuple[int, Call]]" = collections.deque()
        refusals: list = []

        def take():
            i, call = calls[0]
            results[i] = self._take(call, request, read)
            calls.popleft()

        try:
            for i, prompt in enumerate(prompts):
                request.draw_as(i)
                while results[i] is None:
                    call = Call()
                    calls.append((i, call))
                    try:
                        self._submit(call, prompt, request, False)
                        break
                    except _REFUSALS as e:
                        calls.pop()
                        if _is_full(e):
                            take() if calls else time.sleep(_SLICE)
                        elif refused is None:
                            raise
                        else:
                            refusals.append(e)
                            results[i] = refused(e)
            while calls:
                take()
        finally:
            for _, call in calls:
                call.cancel()
        _raise_if_all(refusals, results)
        return results

    async def _answer_all(self, prompts, request) -> "list[Result]":
        """_run_all() as a coroutine."""
        watcher, loop = self._watchers.get(), asyncio.get_running_loop()
        results: list = [None] * len(prompts)
        calls: "collections.deque[tuple[int, int, asyncio.Future[None], Call]]" = collections.deque()
        refusals: list = []

        async def take():
            i, key, done, call = calls[0]
            await done
            results[i] = read_result(call, request)
            calls.popleft()
            watcher.remove(key)

        async def submit(i, prompt):
            done, call = loop.create_future(), Call()
            key = watcher.add(lambda: _finish(done))
            calls.append((i, key, done, call))
            try:
                await self._submit_beside(call, prompt, request, False, watcher, key)
            except _REFUSALS:
                calls.pop()
                watcher.remove(key)
                raise

        try:
            for i, prompt in enumerate(prompts):
                request.draw_as(i)
                while results[i] is None:
                    try:
                        await submit(i, prompt)
                        break
                    except _REFUSALS as e:
                        if _is_full(e):
                            await (take() if calls else asyncio.sleep(_SLICE))
                        else:
                            refusals.append(e)
                            results[i] = _refused(e)
                if i % _TURN == _TURN - 1:
                    await asyncio.sleep(0)
            while calls:
                await take()
        finally:
            for _, key, _, call in calls:
                watcher.remove(key)
                call.cancel()
        _raise_if_all(refusals, results)
        return results

    async def _submit_beside(self, call, prompt, request, streams, watcher, key) -> None:
        """_submit(), in another thread if it takes longer than an event loop should wait: for long
        prompts, conversations and constraints. The thread may go on after the coroutine and its
        loop have ended; the call is then cancelled."""
        args = (call, prompt, request, streams, watcher, key)
        if not _fields.is_messages(prompt) and not request.is_constrained() and \
                _fields.length_of(prompt) < _LONG:
            return self._submit(*args)
        task = asyncio.get_running_loop().run_in_executor(None, lambda: self._submit(*args))
        task.add_done_callback(lambda t: t.cancelled() or t.exception())  # has been retrieved
        await asyncio.shield(task)

    async def _answer(self, prompt, request) -> Result:
        watcher = self._watchers.get()
        done, call = asyncio.get_running_loop().create_future(), Call()
        key = watcher.add(lambda: _finish(done))
        try:
            await self._submit_beside(call, prompt, request, False, watcher, key)
            await done
            return read_result(call, request)
        finally:
            watcher.remove(key)
            call.cancel()


def _free(runner: Runner, watchers: Watchers, pid: int) -> None:
    """Closes an engine that is not referenced any more."""
    if os.getpid() == pid:
        runner.close()
        watchers.close()


def _close_all() -> None:
    """Closes the engines at the end of the interpreter, before its modules are taken apart."""
    for llm in list(_engines):
        llm.close()


def _score(ids: Sequence[int], result: Result) -> Score:
    _raise_unless_complete(result)
    rows = result.prompt_logprobs or []
    return Score(list(ids), [None, *(r.logprob for r in rows)], [None, *(r.rank for r in rows)],
                 [None, *(r.top for r in rows)])


def _constrain(schema, sampling: dict) -> dict:
    if schema is None:
        return {"json_object": True, **sampling}
    if hasattr(schema, "model_json_schema"):
        schema = _closed(schema.model_json_schema())
    elif not isinstance(schema, (dict, str)):
        try:
            schema = schema_of(schema)
        except (TypeError, NameError):
            raise BadInput(f"schema: {schema!r:.100} is neither a dict nor a type with a JSON Schema",
                           "schema") from None
    return {"json_schema": schema, **sampling}


def _parse_json(result, schema):
    if isinstance(result, list):
        return [_parse_json(r, schema) for r in result]
    if result.choices:
        return [_value(r, schema) for r in result.choices]
    return _value(result, schema)


def _value(result: Result, schema):
    """Returns the JSON of an answer, as an object of the type SCHEMA."""
    _raise_error(result)
    why = f"with finish_reason {result.finish_reason!r}; give more max_new_tokens"
    if result.stop_reason is not None:
        why = f"at the stop {'string' if isinstance(result.stop_reason, str) else 'token'} " \
            f"{result.stop_reason!r}"
    try:
        if result.finish_reason != "stop":
            raise ValueError
        value = json.loads(result.text)
    except ValueError:
        raise GallopError(f"the JSON is incomplete after {result.n_output} tokens: the answer ended "
                          + why) from None
    if hasattr(schema, "model_validate_json"):
        return schema.model_validate_json(result.text)
    return value if schema is None or isinstance(schema, (dict, str)) else value_of(schema, value)


__all__ = ["LLM", "Stream", "logprobs_of"]
