"""Conversations that keep their messages and execute tool calls: gallop.Chat."""
from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, AsyncGenerator, Generator, Sequence, cast

from ._errors import BadInput, GallopError
from ._fields import KEPT, Request, is_messages, resolved
from ._results import Chunk, Result
from ._text import Parser, Prompt, parser_end
from ._tools import Tools, text_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._llm import LLM
    from ._types import Message, Messages, Parameters, Tool


class Chat:
    """A conversation. LLM.chat() makes one.

    messages   the messages so far, in OpenAI's format; they may be changed between two answers
    tools      the schemas of the tools
    result     the last answer, a Result; None before the first
    max_calls  maximum number of answers with tool calls before an answer without [8]
    """

    max_calls: int = 8

    def __init__(self, llm: "LLM", system: str | None, tools: "Sequence[Tool] | None",
                 variables: dict[str, Any], sampling: dict[str, Any],
                 messages: "Messages | None" = None) -> None:
        self.llm = llm
        self.messages = cast("list[Message]", list(messages or ()))
        self.result: Result | None = None
        self._tools = Tools(tools)
        self._variables, self._sampling = variables, resolved(sampling)
        Request("chat", sampling)  # refuses wrong values
        if system is not None and (messages or is_messages(system)):
            raise BadInput("system: expected a str, and no messages beside it; messages=[...] begins "
                           "a conversation with messages, and generate() answers them", "system")
        if system is not None:
            self.messages.append({"role": "system", "content": system})

    @property
    def tools(self) -> list[dict[str, Any]]:
        return self._tools.schemas

    def send(self, text: str | list[dict[str, Any]] | None = None,
             **sampling: Unpack[Parameters]) -> Result:
        """Sends a message of the user, and returns the answer of the model.

        If the model calls tools that are Python functions, they are executed, their results are
        sent, and the answer after them is returned. Calls of other tools are left to the caller:
        they are in result.tool_calls; append their results to `messages` and call send() without a
        text. An exception of a function is told to the model as text.

        If the turn fails or is interrupted, its messages are taken back, except for executed calls
        and what came before them: send() without a text goes on from there.

        text      a str, or a list of parts as in OpenAI's API; None: only the messages so far

        result.text is the content without reasoning and tool calls, result.reasoning the reasoning.
        """
        with self._turn(text) as turn:
            for i in range(self.max_calls + 1):
                prompt = self._prompt(self.messages, i)
                request = self._request("send", prompt, sampling)
                result = self.llm._run(KEPT, request)
                self._keep(prompt, result)
                if not self._runs(result):
                    return result
                self._answer_calls_now(turn, result)
        raise self._endless()

    async def asend(self, text: str | list[dict[str, Any]] | None = None,
                    **sampling: Unpack[Parameters]) -> Result:
        """send() as a coroutine. Tools may be coroutine functions; others run in the event loop."""
        with self._turn(text) as turn:
            for i in range(self.max_calls + 1):
                prompt, request = await self._prepare("asend", i, sampling)
                result = await self.llm._answer(KEPT, request)
                self._keep(prompt, result)
                if not self._runs(result):
                    return result
                await self._answer_calls(turn, result)
        raise self._endless()

    def stream(self, text: str | list[dict[str, Any]] | None = None,
               **sampling: Unpack[Parameters]) -> Generator[Chunk, None, None]:
        """send(), with the answer in chunks: chunk.text is content, chunk.reasoning reasoning.

        Closing the iterator cancels the answer, and takes messages back as a failure of send() does.
        """
        with self._turn(text) as turn:
            for i in range(self.max_calls + 1):
                prompt = self._prompt(self.messages, i)
                request = self._request("stream", prompt, sampling)
                parser = Parser(prompt)
                with self.llm._stream(KEPT, request) as stream:
                    for chunk in stream:
                        yield from _pieces(parser.feed(chunk), chunk)
                result = stream._reader.result()
                yield from _pieces(parser.finish(parser_end(result)), None)
                self._keep(prompt, result)
                if not self._runs(result):
                    yield Chunk("", finish_reason=result.finish_reason)
                    return
                self._answer_calls_now(turn, result)
        raise self._endless()

    async def astream(self, text: str | list[dict[str, Any]] | None = None,
                      **sampling: Unpack[Parameters]) -> AsyncGenerator[Chunk, None]:
        """stream() as an asynchronous iterator. Tools may be coroutine functions."""
        with self._turn(text) as turn:
            for i in range(self.max_calls + 1):
                prompt, request = await self._prepare("astream", i, sampling)
                parser = Parser(prompt)
                results: "list[Result]" = []
                chunks = self.llm._chunks(KEPT, request, results)
                try:
                    async for chunk in chunks:
                        for piece in _pieces(parser.feed(chunk), chunk):
                            yield piece
                finally:
                    await chunks.aclose()
                result = results[0]
                for piece in _pieces(parser.finish(parser_end(result)), None):
                    yield piece
                self._keep(prompt, result)
                if not self._runs(result):
                    yield Chunk("", finish_reason=result.finish_reason)
                    return
                await self._answer_calls(turn, result)
        raise self._endless()

    # ---- inside ----

    def _turn(self, text):
        return _Turn(self.messages, text)

    def _prompt(self, messages, i: int) -> Prompt:
        """Renders messages for answer I of a turn; only the first has to call tools."""
        variables = {k: v for k, v in self._variables.items() if i == 0 or k != "tool_choice"}
        return Prompt(self.llm, messages, self._tools.schemas, variables)

    async def _prepare(self, function, i, sampling) -> "tuple[Prompt, Request]":
        """Renders the messages and makes the request in a thread, so that the event loop goes on."""
        self.llm._open_runner()
        messages = list(self.messages)

        def work():
            prompt = self._prompt(messages, i)
            return prompt, self._request(function, prompt, sampling)

        return await asyncio.get_running_loop().run_in_executor(None, work)

    def _request(self, function, prompt, sampling) -> Request:
        request = Request(function, {**self._sampling, **resolved(sampling)})
        if request.n > 1:
            raise BadInput("n: a conversation has one answer at a time", "n")
        prompt.ask(request)
        return request

    def _keep(self, prompt, result: Result) -> None:
        """Parses an answer, and appends it to the messages."""
        if result.error is not None:
            raise GallopError(result.error)
        message = prompt.parse(result, parser_end(result))
        result.text = message.get("content") or ""
        result.reasoning = message.get("reasoning")
        result.tool_calls = message.get("tool_calls") or []
        self.messages.append(message)
        self.result = result

    def _runs(self, result: Result) -> bool:
        return bool(result.tool_calls) and self._tools.can_run(result.tool_calls)

    def _answer_calls_now(self, turn: "_Turn", result: Result) -> None:
        """Executes the tool calls of an answer for callers that cannot wait for a coroutine."""
        for call in turn.calls(result):
            kept = turn.keeps
            value = self._call(turn, call)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):  # Nothing of the function was executed.
                    value.close()
                    turn.keeps = kept
                raise BadInput(f"tools: {call['function']['name']}() is a coroutine function, which "
                               "only asend() can call", "tools")
            turn.answer(call, value)

    async def _answer_calls(self, turn: "_Turn", result: Result) -> None:
        for call in turn.calls(result):
            value = self._call(turn, call)
            if inspect.isawaitable(value):
                try:
                    value = await value
                except Exception as e:
                    value = _told(e)
            turn.answer(call, value)

    def _call(self, turn: "_Turn", call) -> Any:
        turn.keeps = True
        try:
            return self._tools.run(call)
        except Exception as e:
            return _told(e)

    def _endless(self) -> GallopError:
        return GallopError(f"the model has called tools in {self.max_calls + 1} answers one after "
                           "another; see Chat.max_calls")


def _told(e: BaseException) -> str:
    """Returns what the model is told of an exception."""
    try:
        text = str(e)
    except Exception:
        text = ""
    return f"error: {type(e).__name__}" + (f": {text}" if text else "")


def _pieces(pieces, chunk: Chunk | None) -> Generator[Chunk, None, None]:
    """Yields pieces as chunks, the first with the token of CHUNK."""
    for kind, text in pieces:
        token, logprob = (chunk.token, chunk.logprob) if chunk else (None, None)
        chunk = None
        yield Chunk(text if kind == "content" else "", token, logprob,
                    reasoning=text if kind == "reasoning" else "")


class _Turn:
    """A turn of a conversation. An exception takes its messages back, unless a tool call was
    executed: then every call of the last answer gets a result, and the messages stay."""

    def __init__(self, messages, text):
        self.messages, self.text, self.before = messages, text, len(messages)
        self.open: "list[Any]" = []  # calls of the last answer without a result
        self.keeps = False

    def calls(self, result: Result) -> "list[Any]":
        """Returns the tool calls of an answer, of which answer() is then told."""
        self.open = list(result.tool_calls)
        return list(self.open)

    def answer(self, call, value) -> None:
        """Appends the result of a call. The model is told that a value cannot be written as text."""
        try:
            text = text_of(value)
        except Exception as e:
            text = text_of(_told(e))
        self.open.remove(call)
        self.messages.append({"role": "tool", "tool_call_id": call["id"],
                              "name": call["function"]["name"], "content": text})

    def __enter__(self) -> "_Turn":
        if self.text is not None:
            self.messages.append({"role": "user", "content": self.text})
        return self

    def __exit__(self, kind, e, trace):
        if kind is None:
            return
        if not self.keeps:
            del self.messages[self.before:]
        elif self.open:
            self.answer(self.open[0], _told(e))
            for call in list(self.open):
                self.answer(call, "error: the call was not executed")
