"""The engine: gallop.LLM."""
from __future__ import annotations

import array
import asyncio
import json
import os
import threading
import weakref
from typing import Any, AsyncIterator, Iterator, Sequence

from . import _fields, _names, _text
from ._chat import Chat
from ._errors import BadInput, Cancelled, GallopError, NoSpace, _error
from ._fields import Request
from ._gallop import ffi, lib
from ._info import ModelInfo, info_of
from ._loop import Watchers
from ._results import Chunk, Reader, Result, Score, read_result
from ._tools import Tools

# Seconds after which a waiting thread looks for signals, such as Ctrl-C.
_SLICE = 0.02
# Longer prompts are tokenized in a thread beside the event loop.
_LONG = 1 << 16

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
        code, err = ffi.new("int *"), ffi.new("char[]", lib.GALLOP_ERR_SIZE)
        share = self.share._open_runner() if self.share is not None else ffi.NULL
        if share and not lib.runner_enter(share):
            raise Cancelled("share_pool: the engine is closed", "share_pool")
        runner = None
        try:
            runner = lib.runner_new(self.struct, share)
            if not runner:
                raise GallopError("the engine's thread cannot be started")
            state = 0
            while state == 0:
                state = lib.runner_opened(runner, _SLICE, code, err)
        except BaseException:
            self._abandon(runner, share)
            raise
        if share:
            lib.runner_leave(share)
        if state < 0:
            lib.runner_free(runner)
            raise _error(code[0], err)
        return runner

    def _abandon(self, runner, share):
        """Lets a thread close the engine after its opening, during which SHARE has to stay open."""

        def work(opening):
            if runner:
                lib.runner_free(runner)
            if share:
                lib.runner_leave(share)

        if runner:
            threading.Thread(target=work, args=(self,), daemon=True).start()
        else:
            work(self)


class Stream(Iterator[Chunk]):
    """The chunks of an answer while it is generated.

    Closing the stream (`close()`, the end of a `with` block, or dropping it) cancels the request
    within a step. `result` is the whole answer after the last chunk, and None before.
    """

    def __init__(self, llm: "LLM", call, request: Request):
        self._llm, self._call = llm, call
        self._reader = Reader(call, request)
        self._chunks: list[Chunk] = []
        self._at = 0
        self.result: Result | None = None

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Chunk:
        while self._at == len(self._chunks):
            if self._call is None:
                raise StopIteration
            if self._reader.finished:
                self._end()
                raise StopIteration
            self._llm._check_process()
            while not lib.runner_wait(self._call, _SLICE):
                pass
            self._chunks, self._at = self._reader.chunks(), 0
        chunk = self._chunks[self._at]
        self._at += 1
        if self._at == len(self._chunks) and self._reader.finished:
            self.result = self._reader.result()
        return chunk

    def _end(self):
        self.close()
        self.result = self._reader.result()
        _raise_error(self.result)

    def close(self) -> None:
        """Cancels the request if it is not finished."""
        call, self._call = self._call, None
        if call is not None and not self._llm._forked():
            lib.runner_release(call)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def __del__(self):
        self.close()


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

    def __init__(self, model: "str | os.PathLike[str] | None" = None, **options: Any):
        self._pid = os.getpid()
        self._runner = None
        for name in options:
            if name not in _names.OPTIONS:
                raise _fields.unknown("LLM", name, _names.OPTIONS)
        opening = _Opening(model, options)
        self._runner = opening.run()
        self._closed = False
        self._watchers = Watchers(self._runner)
        self._finalizer = weakref.finalize(self, _free, self._runner, self._watchers, self._pid)
        self._finalizer.atexit = False
        self._lock = threading.Lock()
        _engines.add(self)

    # ---- requests ----

    def generate(self, prompt, *, stream: bool = False, **sampling: Any):
        """Generates the answer to a prompt, or to each of a list of prompts.

        prompt    a str; a list of token ids; a list of messages {"role": ..., "content": ...}, which
                  the model's chat template renders; or a list of any of these, which are computed
                  together
        stream    True: returns stream(prompt, **sampling)
        sampling  max_new_tokens, temperature, top_p, stop, logprobs, seed, n, json_schema, regex,
                  ...: gallop.parameters() explains all of them. With messages also tools (functions
                  or schemas) and chat_template_kwargs (a dict of variables; see render())

        Returns a Result, or a list of Results in the order of the prompts. If an answer of a list
        ends with an error, its Result has finish_reason "error"; a single one raises GallopError.
        """
        if stream:
            return self.stream(prompt, **sampling)
        batch = _fields.is_batch(prompt)
        request = Request("generate", sampling)
        results = self._run_all(list(prompt) if batch else [prompt], request)
        return results if batch else _raise_error(results[0])

    def stream(self, prompt, **sampling: Any) -> Stream:
        """Generates an answer and returns its chunks while they are generated.

        for chunk in llm.stream("Once upon a time", max_new_tokens=40):
            print(chunk.text, end="", flush=True)
        """
        return self._stream(prompt, Request("stream", sampling))

    def embed(self, text, pooling: str = "mean", **parameters: Any):
        """Returns the embedding of a text: an array.array("f") of the model's hidden size.

        text      a str, a list of token ids, or a list of these; then a list is returned
        pooling   "mean" (of the last hidden states of all tokens) or "last" (of the last token)

        The arrays support the buffer protocol: numpy.asarray(embedding) copies nothing. An error
        of one text of a list is raised.
        """
        batch = _fields.is_batch(text)
        request = Request("embed", {"pooling": pooling, "max_new_tokens": 0, **parameters})
        found: list = []
        for result in self._run_all(list(text) if batch else [text], request,
                                    lambda call: found.append(_embedding(call))):
            _raise_unless_complete(result)
        return found if batch else found[0]

    def score(self, text, top: int = 0, **parameters: Any):
        """Returns how likely a text is, token by token: a Score, or a list for a list of texts.

        top       number of the likeliest tokens in place of each token that are returned, too
        """
        batch = _fields.is_batch(text)
        request = Request("score", {"prompt_logprobs": top, "max_new_tokens": 0, **parameters})
        texts = list(text) if batch else [text]
        prompts = [self.tokenize(x) if isinstance(x, str) else x for x in texts]
        rows = [_score(p, r) for p, r in zip(prompts, self._run_all(prompts, request))]
        return rows if batch else rows[0]

    def json(self, prompt, schema: Any = None, **sampling: Any) -> Any:
        """Generates JSON that satisfies a schema, and returns it.

        schema    a JSON Schema as a dict, or a pydantic model class; None: any JSON object

        Returns what json.loads() returns, or an instance of the pydantic class. GallopError is
        raised if the answer was cut off (max_new_tokens, the context or a deadline).
        """
        return _parse_json(self.generate(prompt, **_constrain(schema, sampling)), schema)

    async def ajson(self, prompt, schema: Any = None, **sampling: Any) -> Any:
        """json() as a coroutine."""
        return _parse_json(await self.agenerate(prompt, **_constrain(schema, sampling)), schema)

    def chat(self, system: str | None = None, tools: Sequence[Any] | None = None,
             **options: Any) -> "Chat":
        """Begins a conversation that keeps its messages.

        system    the system message
        tools     Python functions that the model may call: their names, annotations and docstrings
                  become schemas, and calls of the model are executed; or schemas as in OpenAI's API
        options   variables of the chat template, such as enable_thinking=False
        """
        return Chat(self, system, tools, options)

    async def agenerate(self, prompt, **sampling: Any):
        """generate() as a coroutine. Cancelling its task cancels the request.

        Thousands of calls may run at once: await asyncio.gather(*[llm.agenerate(p) for p in ...]).
        """
        if _fields.is_batch(prompt):
            return await asyncio.gather(*[self._answer(p, sampling) for p in prompt])
        return _raise_error(await self._answer(prompt, sampling))

    async def astream(self, prompt, **sampling: Any) -> AsyncIterator[Chunk]:
        """stream() as an asynchronous iterator. Closing it, or cancelling its task, cancels the
        request."""
        self._open_runner()
        request = Request("astream", sampling)
        watcher = self._watchers.get()
        news = asyncio.Event()
        key = watcher.add(news.set)
        call = None
        try:
            call = await self._submit_beside(prompt, request, True, watcher, key)
            reader = Reader(call, request)
            while not reader.finished:
                await news.wait()
                news.clear()
                for chunk in reader.chunks():
                    yield chunk
            _raise_error(reader.result())
        finally:
            watcher.remove(key)
            if call is not None and not self._forked():
                lib.runner_release(call)

    # ---- the tokenizer and the model ----

    @property
    def info(self) -> "ModelInfo":
        """Facts about the model: name, architecture, context length, special tokens, chat template,
        data types, bytes."""
        with self._entered() as engine:
            return info_of(engine)

    def tokenize(self, text: str, special: bool = True, plain: bool = False) -> list[int]:
        """Returns the token ids of a text.

        special   with BOS and other tokens that the tokenizer puts around a text, as prompts have
        plain     special tokens that are written in the text are ordinary text
        """
        return _text.tokenize(self, text, special, plain)

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        """Returns the text of token ids; special: with special tokens."""
        return _text.detokenize(self, ids, special)

    def render(self, messages, tools=None, **variables: Any) -> str:
        """Returns the prompt that the model's chat template makes of messages.

        messages   a list of dicts as in OpenAI's API
        tools      a list of Python functions or of schemas as in OpenAI's API
        variables  variables of the template, such as enable_thinking=False; or one of
                   add_generation_prompt, continue_final_message, chat_template, template_name,
                   verbatim, plain_user_text, tool_choice (struct gallop_chat in gallop.h)
        """
        schemas = Tools(tools).schemas
        return _text.Prompt(self, messages, schemas, {"text_only": 1, **variables}).text

    def stats(self) -> dict[str, Any]:
        """Returns the state and the counters of the engine (struct gallop_stats in gallop.h).

        Sizes are in bytes, times in seconds. "operators" maps each kind of operator to its seconds,
        bytes and floating-point operations since the engine was opened.
        """
        s = ffi.new("struct gallop_stats *")
        if not lib.runner_stats(self._open_runner(), s):
            raise Cancelled("the engine is closed")
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
        lib.runner_close(self._runner)
        self._watchers.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *exc) -> None:
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

    def _open_runner(self):
        self._check_process()
        if self._closed:
            raise Cancelled("the engine is closed")
        return self._runner

    def _entered(self) -> "_Guest":
        """Returns a context in which functions that any thread may call can use the engine."""
        return _Guest(self._open_runner())

    def _stream(self, prompt, request) -> Stream:
        return Stream(self, self._submit(prompt, request, True), request)

    def _submit(self, prompt, request, streams, channel=ffi.NULL, key=0):
        """Submits a prompt (None: the one that REQUEST has) and returns the call."""
        runner = self._open_runner()
        if _fields.is_messages(prompt):
            request.set_rendered(_text.Prompt(self, prompt, Tools(request.tools).schemas,
                                              request.template))
        elif request.tools or request.template:
            name = "tools" if request.tools else "chat_template_kwargs"
            raise BadInput(f"{name}: needs a prompt that is a list of messages; LLM.chat() takes "
                           "tools and variables for a conversation", name)
        elif prompt is not None:
            request.set_prompt(prompt)
        code, err = ffi.new("int *"), ffi.new("char[]", lib.GALLOP_ERR_SIZE)
        call = lib.runner_submit(runner, request.struct, streams, channel, key, code, err)
        if not call:
            raise _error(code[0], err)
        return call

    def _run_all(self, prompts, request, read=None):
        """Runs prompts together. If the queue is full, waits for the oldest to end."""
        calls: list = []
        results: list = []

        def take():
            call = calls[len(results)]
            while not lib.runner_wait(call, _SLICE):
                self._check_process()
            result = read_result(call, request)
            if read:
                read(call)
            results.append(result)
            calls[len(results) - 1] = None
            lib.runner_release(call)

        try:
            for prompt in prompts:
                while True:
                    try:
                        calls.append(self._submit(prompt, request, False))
                        break
                    except NoSpace:
                        if len(results) == len(calls):
                            raise
                    take()
            while len(results) < len(calls):
                take()
        finally:
            for call in calls:
                if call is not None and not self._forked():
                    lib.runner_release(call)
        return results

    async def _submit_beside(self, prompt, request, streams, watcher, key):
        """_submit(), in another thread if it takes longer than an event loop should wait."""
        args = (prompt, request, streams, watcher.channel, key)
        if prompt is None or len(prompt) < _LONG and not _fields.is_messages(prompt):
            return self._submit(*args)
        task = asyncio.get_running_loop().run_in_executor(None, lambda: self._submit(*args))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(
                lambda t: t.exception() or lib.runner_release(t.result()))
            raise

    async def _answer(self, prompt, sampling, request=None) -> Result:
        self._open_runner()
        request = request or Request("agenerate", sampling)
        watcher = self._watchers.get()
        done = asyncio.get_running_loop().create_future()
        key = watcher.add(lambda: done.done() or done.set_result(None))
        call = None
        try:
            call = await self._submit_beside(prompt, request, False, watcher, key)
            await done
            return read_result(call, request)
        finally:
            watcher.remove(key)
            if call is not None and not self._forked():
                lib.runner_release(call)


class _Guest:
    """A context in which the engine stays open: closing it waits for the end of the context."""

    __slots__ = ("runner",)

    def __init__(self, runner):
        self.runner = runner

    def __enter__(self):
        engine = lib.runner_enter(self.runner)
        if not engine:
            raise Cancelled("the engine is closed")
        return engine

    def __exit__(self, *exc):
        lib.runner_leave(self.runner)


def _free(runner, watchers: Watchers, pid: int) -> None:
    """Closes an engine that is not referenced any more."""
    if os.getpid() == pid:
        lib.runner_close(runner)
        watchers.close()
        lib.runner_free(runner)


def _close_all() -> None:
    """Closes the engines at the end of the interpreter, before its modules are taken apart."""
    for llm in list(_engines):
        llm.close()


def _embedding(call) -> "array.array[float]":
    n = ffi.new("size_t *")
    data = lib.runner_embedding(call, n)
    out = array.array("f")
    if data:
        out.frombytes(ffi.buffer(data, n[0] * 4)[:])
    return out


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
    elif isinstance(schema, type) and hasattr(schema, "schema"):
        schema = _closed(schema.schema())
    elif not isinstance(schema, (dict, str)):
        raise BadInput(f"schema: {schema!r:.100} is neither a dict nor a pydantic model class",
                       "schema")
    return {"json_schema": schema, **sampling}


def _closed(schema):
    """Returns the schema of a pydantic class without members that the class would ignore."""
    if isinstance(schema, list):
        return [_closed(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: _closed(v) for k, v in schema.items()}
    return {"additionalProperties": False, **out} if isinstance(out.get("properties"), dict) and \
        out.get("type") == "object" else out


def _parse_json(result, schema):
    if isinstance(result, list):
        return [_parse_json(r, schema) for r in result]
    _raise_error(result)
    if result.finish_reason != "stop":
        raise GallopError(f"the JSON is incomplete after {result.n_output} tokens: the answer ended "
                          f"with finish_reason {result.finish_reason!r}; give more max_new_tokens")
    if hasattr(schema, "model_validate_json"):
        return schema.model_validate_json(result.text)
    if isinstance(schema, type) and hasattr(schema, "parse_raw"):
        return schema.parse_raw(result.text)
    return json.loads(result.text)


__all__ = ["LLM", "Stream", "logprobs_of"]
