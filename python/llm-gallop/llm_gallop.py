"""Models of Gallop for the command-line tool llm."""
from __future__ import annotations

import asyncio
import json
import os
import threading

import click
import gallop
import llm
from gallop.integrations._shared import strict_tool
from llm.parts import StreamEvent
from pydantic import Field

_engines: dict = {}
_opening = threading.Lock()


def _config():
    return llm.user_dir() / "gallop.json"


def _added() -> dict:
    """Returns the models of the configuration file: paths by their names."""
    try:
        models = json.loads(_config().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as e:
        raise click.ClickException(f"{_config()}: {e}") from None
    if not isinstance(models, dict) or not all(isinstance(x, str) for x in models.values()):
        raise click.ClickException(f"{_config()}: expected an object of names and paths")
    return models


def _models() -> dict:
    """Returns all models: the bundled one, those of the file, and those of the environment."""
    models = {"demo": None, **_added()}
    for row in os.environ.get("LLM_GALLOP_MODELS", "").split(";"):
        if row.strip():
            name, equals, path = row.strip().partition("=")
            if not (name and equals and path):
                raise click.ClickException(f"LLM_GALLOP_MODELS: found {row!r}, expected NAME=PATH")
            models[name] = path
    return models


def _engine(path):
    """Returns the engine of a model, which is opened once in a process."""
    with _opening:
        if path not in _engines:
            _engines[path] = gallop.LLM(path)
        return _engines[path]


def _messages(prompt) -> list:
    """Returns the messages of a prompt of llm in OpenAI's format."""
    out = []
    for message in prompt.messages:
        texts, reasoning, calls = [], [], []
        for part in message.parts:
            kind = type(part).__name__
            if kind == "TextPart":
                texts.append(part.text)
            elif kind == "ReasoningPart":
                reasoning.append(part.text or "")
            elif kind == "ToolCallPart":
                arguments = json.dumps(part.arguments)
                calls.append({"id": part.tool_call_id or f"call_{len(calls)}", "type": "function",
                              "function": {"name": part.name, "arguments": arguments}})
            elif kind == "ToolResultPart":
                out.append({"role": "tool", "tool_call_id": part.tool_call_id,
                            "name": part.name, "content": part.output})
        if texts or calls:
            out.append({"role": message.role, "content": "".join(texts),
                        **({"reasoning": "".join(reasoning)} if any(reasoning) else {}),
                        **({"tool_calls": calls} if calls else {})})
    return out


def _tool(tool) -> dict:
    return strict_tool({"type": "function", "function": {
        "name": tool.name, "description": tool.description or "",
        "parameters": tool.input_schema}})


def _parts(chunk):
    """Yields what llm shows of a chunk or of a whole answer: reasoning apart from the text."""
    if chunk.reasoning:
        yield StreamEvent(type="reasoning", chunk=chunk.reasoning)
    if chunk.text:
        yield chunk.text


class _Gallop:
    """What the model and its asynchronous form share."""

    can_stream = True
    supports_schema = True
    supports_tools = True

    class Options(llm.Options):
        temperature: float | None = Field(default=None, ge=0, description="0: the likeliest token")
        top_p: float | None = Field(default=None, gt=0, le=1, description=(
            "draw among the likeliest tokens that have this probability together"))
        top_k: int | None = Field(default=None, ge=0, description=(
            "draw among this many of the likeliest tokens; 0: among all"))
        min_p: float | None = Field(default=None, ge=0, le=1, description=(
            "draw among tokens that are at least this fraction as likely as the likeliest"))
        max_tokens: int | None = Field(default=None, ge=1, description="tokens of an answer")
        stop: str | None = Field(default=None, description="text before which an answer ends")
        seed: int | None = Field(default=None, ge=0, description="the same seed, the same text")
        thinking: bool | None = Field(default=None, description=(
            "whether the model reasons before it answers, if its chat template has a switch"))

    def __init__(self, name, path):
        self.model_id, self.path = f"gallop/{name}", path

    def _begin(self, prompt):
        """Returns a conversation that awaits an answer, and the sampling parameters."""
        sampling = prompt.options.model_dump()
        thinking = sampling.pop("thinking")
        variables = {} if thinking is None else {"enable_thinking": thinking}
        chat = _engine(self.path).chat(tools=[_tool(t) for t in prompt.tools or ()],
                                       chat_template_kwargs=variables)
        chat.messages = _messages(prompt)
        if prompt.schema:
            sampling["json_schema"] = prompt.schema
        return chat, sampling

    def _end(self, prompt, chat, response):
        """Tells llm the tool calls and the usage of an answer."""
        result = chat.result
        details = {"prompt_tokens_details": {"cached_tokens": result.n_cached}}
        response.set_usage(input=result.n_prompt, output=result.n_output,
                           details=details if result.n_cached else None)
        if prompt.schema and result.finish_reason != "stop":
            raise _cut_off("the JSON", result)
        for call in result.tool_calls:
            name = call["function"]["name"]
            try:
                arguments = json.loads(call["function"]["arguments"] or "{}")
            except ValueError:
                raise _cut_off(f"the call of {name}()", result) from None
            response.add_tool_call(llm.ToolCall(name=name, tool_call_id=call["id"],
                                                arguments=arguments))


def _cut_off(what, result):
    return llm.ModelError(f"{what} is incomplete after {result.n_output} tokens (finish_reason "
                          f"{result.finish_reason!r}): give a larger -o max_tokens")


class Gallop(_Gallop, llm.Model):
    def execute(self, prompt, stream, response, conversation):
        chat, sampling = self._begin(prompt)
        if stream:
            for chunk in chat.stream(**sampling):
                yield from _parts(chunk)
        else:
            yield from _parts(chat.send(**sampling))
        self._end(prompt, chat, response)


class AsyncGallop(_Gallop, llm.AsyncModel):
    async def execute(self, prompt, stream, response, conversation):
        chat, sampling = await asyncio.to_thread(self._begin, prompt)
        if stream:
            chunks = chat.astream(**sampling)
            try:
                async for chunk in chunks:
                    for part in _parts(chunk):
                        yield part
            finally:
                await chunks.aclose()  # Cancels the answer.
        else:
            for part in _parts(await chat.asend(**sampling)):
                yield part
        self._end(prompt, chat, response)


class Embeddings(llm.EmbeddingModel):
    """Embeddings, as the model's files say."""

    supports_text = True

    def __init__(self, name, path):
        self.model_id, self.path = f"gallop/{name}", path

    def embed_batch(self, items):
        for row in _engine(self.path).embed(list(items)):
            yield list(row)


@llm.hookimpl
def register_models(register):
    for name, path in _models().items():
        register(Gallop(name, path), AsyncGallop(name, path),
                 aliases=() if path is None else (name,))


@llm.hookimpl
def register_embedding_models(register):
    for name, path in _models().items():
        register(Embeddings(name, path), aliases=() if path is None else (name,))


@llm.hookimpl
def register_commands(cli):
    @cli.group(name="gallop")
    def group():
        """Models on this machine's CPU cores"""

    def write(models):
        _config().write_text(json.dumps(models, indent=4) + "\n", encoding="utf-8")

    @group.command()
    @click.argument("name")
    @click.argument("path")
    def add(name, path):
        """Register the folder, the GGUF file or the hub's model PATH as gallop/NAME"""
        absolute = os.path.abspath(os.path.expanduser(path))
        write({**_added(), name: absolute if os.path.exists(absolute) else path})

    @group.command()
    @click.argument("name")
    def remove(name):
        """Forget the model gallop/NAME; its files are left alone"""
        models = _added()
        if name not in models:
            raise click.ClickException(f"no model {name} in {_config()}")
        del models[name]
        write(models)

    @group.command(name="list")
    def list_models():
        """List the models"""
        for name, path in _models().items():
            click.echo(f"gallop/{name}\t{path or gallop.DEMO}")
