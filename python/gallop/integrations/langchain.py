"""A chat model of LangChain: ChatGallop. Needs langchain-core."""
from __future__ import annotations

import json
from operator import itemgetter
from typing import Any, AsyncIterator, Iterator, Optional, Union

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, convert_to_openai_messages
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import ConfigDict, Field, PrivateAttr, model_validator

import gallop
from gallop._llm import _constrain

from ._shared import begin_chat, check_fields, sampling_of, strict_tool

# Parameters of bind() and invoke() that are not sampling parameters of Gallop.
_CHAT = ("tools", "tool_choice", "parallel_tool_calls", "strict", "chat_template_kwargs",
         "ls_structured_output_format")


class ChatGallop(BaseChatModel):
    """A model of Gallop as a chat model of LangChain.

        chat = ChatGallop(model="HuggingFaceTB/SmolLM2-135M-Instruct", max_tokens=100)
        print(chat.invoke("What is 3 plus 4?").content)

    model          as for gallop.LLM; None: the small model that comes with the package
    llm            an open gallop.LLM in place of model
    engine         options of gallop.LLM
    chat_template_kwargs
                   variables of the chat template, such as {"enable_thinking": False}
    model_kwargs   further parameters of requests, see gallop.parameters()

    bind_tools() needs a model whose chat template has tools. with_structured_output() constrains
    the answer by a JSON Schema, and needs no tools.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: Optional[str] = None
    llm: Optional[gallop.LLM] = Field(default=None, exclude=True, repr=False)
    engine: dict = Field(default_factory=dict)
    temperature: Optional[float] = None
    top_p: Optional[float] = None
    max_tokens: Optional[int] = None
    seed: Optional[int] = None
    chat_template_kwargs: dict = Field(default_factory=dict)
    model_kwargs: dict = Field(default_factory=dict)
    _llm: Any = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values: Any) -> Any:
        check_fields(cls, values)
        return values

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._llm = self.llm or gallop.LLM(self.model, **self.engine)

    @property
    def _llm_type(self) -> str:
        return "gallop"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self._llm.info.name, "temperature": self.temperature,
                "top_p": self.top_p, "max_tokens": self.max_tokens, "seed": self.seed,
                **self.model_kwargs}

    def _begin(self, messages, stop, kwargs):
        """Returns a conversation that awaits an answer, and the sampling parameters."""
        chat = begin_chat(self._llm, self.chat_template_kwargs, kwargs)
        chat.messages = _messages(messages)
        own = {"temperature": self.temperature, "top_p": self.top_p,
               "max_tokens": self.max_tokens, "seed": self.seed, "stop": stop}
        return chat, sampling_of(own, self.model_kwargs, kwargs, _CHAT)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        chat, sampling = self._begin(messages, stop, kwargs)
        return _chat_result(chat.send(**sampling))

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        chat, sampling = self._begin(messages, stop, kwargs)
        return _chat_result(await chat.asend(**sampling))

    def _stream(self, messages, stop=None, run_manager=None,
                **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        chat, sampling = self._begin(messages, stop, kwargs)
        for chunk in chat.stream(**sampling):
            if chunk.text or chunk.reasoning:
                out = _generation_chunk(chunk)
                if run_manager and chunk.text:
                    run_manager.on_llm_new_token(chunk.text, chunk=out)
                yield out
        yield _last_chunk(chat.result)

    async def _astream(self, messages, stop=None, run_manager=None,
                       **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        chat, sampling = self._begin(messages, stop, kwargs)
        chunks = chat.astream(**sampling)
        try:
            async for chunk in chunks:
                if chunk.text or chunk.reasoning:
                    out = _generation_chunk(chunk)
                    if run_manager and chunk.text:
                        await run_manager.on_llm_new_token(chunk.text, chunk=out)
                    yield out
        finally:
            await chunks.aclose()  # Cancels the answer.
        yield _last_chunk(chat.result)

    def get_token_ids(self, text: str) -> list[int]:
        return self._llm.tokenize(text, special=False)

    def get_num_tokens_from_messages(self, messages, tools=None) -> int:
        """Returns the number of tokens of the prompt that the chat template makes of messages."""
        schemas = [strict_tool(convert_to_openai_tool(t)) for t in tools or ()] or None
        text = self._llm.render(_messages(messages), schemas,
                                chat_template_kwargs=self.chat_template_kwargs)
        return len(self._llm.tokenize(text, special=False))

    def bind_tools(self, tools, *, tool_choice: Union[str, bool, dict, None] = None,
                   **kwargs: Any):
        """Binds functions, pydantic classes or tools of LangChain.

        tool_choice   "auto", "none", "required" (also "any" and True), or the name of a tool
        kwargs        parallel_tool_calls=False: one call at most; strict is ignored, since
                      arguments are always constrained by their schema
        """
        schemas = [strict_tool(convert_to_openai_tool(t)) for t in tools]
        if tool_choice in ("any", True):
            tool_choice = "required"
        elif isinstance(tool_choice, str) and tool_choice not in ("auto", "none", "required"):
            tool_choice = {"type": "function", "function": {"name": tool_choice}}
        return self.bind(tools=schemas, **({"tool_choice": tool_choice} if tool_choice else {}),
                         **kwargs)

    def with_structured_output(self, schema, *, include_raw: bool = False, **kwargs: Any):
        """Returns a runnable whose answers satisfy a pydantic class, a TypedDict or a JSON Schema.

        include_raw   answers are dicts with "raw", "parsed" and "parsing_error"
        """
        kwargs.pop("method", None)
        kwargs.pop("strict", None)
        is_class = isinstance(schema, type) and hasattr(schema, "model_json_schema")
        wanted = schema if is_class else convert_to_json_schema(schema)
        model = self.bind(**_constrain(wanted, kwargs))
        parser = PydanticOutputParser(pydantic_object=schema) if is_class else JsonOutputParser()
        if not include_raw:
            return model | parser
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=model) | parsed.with_fallbacks(
            [failed], exception_key="parsing_error")


def _messages(messages) -> list[dict[str, Any]]:
    """Returns messages of LangChain in OpenAI's format."""
    rows = convert_to_openai_messages(messages)
    for row in rows:
        if row["role"] == "assistant" and row.get("content") is None:
            row["content"] = ""
    return rows


def _reason(result) -> str:
    return "tool_calls" if result.tool_calls else result.finish_reason


def _usage(result) -> dict[str, Any]:
    return {"input_tokens": result.n_prompt, "output_tokens": result.n_output,
            "total_tokens": result.n_prompt + result.n_output,
            "input_token_details": {"cache_read": result.n_cached}}


def _generation_chunk(chunk) -> ChatGenerationChunk:
    more = {"reasoning_content": chunk.reasoning} if chunk.reasoning else {}
    return ChatGenerationChunk(message=AIMessageChunk(content=chunk.text, additional_kwargs=more))


def _last_chunk(result) -> ChatGenerationChunk:
    """Returns the chunk with the tool calls and the usage of an answer."""
    calls = [{"type": "tool_call_chunk", "name": c["function"]["name"], "id": c["id"],
              "args": c["function"]["arguments"], "index": i}
             for i, c in enumerate(result.tool_calls)]
    return ChatGenerationChunk(message=AIMessageChunk(
        content="", tool_call_chunks=calls, usage_metadata=_usage(result),
        response_metadata={"finish_reason": _reason(result)}, chunk_position="last"))


def _chat_result(result) -> ChatResult:
    calls, invalid = [], []
    for call in result.tool_calls:
        row = {"name": call["function"]["name"], "id": call["id"]}
        text = call["function"]["arguments"] or "{}"
        try:
            calls.append({"type": "tool_call", "args": json.loads(text), **row})
        except ValueError as e:  # The answer was cut off.
            invalid.append({"type": "invalid_tool_call", "args": text, "error": str(e), **row})
    more = {"reasoning_content": result.reasoning} if result.reasoning else {}
    message = AIMessage(content=result.text, tool_calls=calls, invalid_tool_calls=invalid,
                        additional_kwargs=more, usage_metadata=_usage(result),
                        response_metadata={"finish_reason": _reason(result)})
    return ChatResult(generations=[ChatGeneration(message=message)])
