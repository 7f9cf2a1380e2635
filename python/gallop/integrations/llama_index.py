"""A model of LlamaIndex: GallopLLM. Needs llama-index-core 0.14 or later."""
from __future__ import annotations

import json
from typing import Any, Optional

from llama_index.core.base.llms.types import (ChatMessage, ChatResponse, CompletionResponse,
                                              LLMMetadata, MessageRole, TextBlock, ThinkingBlock,
                                              ToolCallBlock)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

import gallop
from gallop._llm import _constrain, _parse_json

from ._shared import begin_chat, check_fields, sampling_of, strict_tool

# Keyword arguments of chat() that are not sampling parameters.
_CHAT = ("tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs")


class GallopLLM(FunctionCallingLLM):
    """A model of Gallop for LlamaIndex.

        llm = GallopLLM(model="HuggingFaceTB/SmolLM2-135M-Instruct", max_tokens=100)
        print(llm.complete("Once upon a time").text)

    model          as for gallop.LLM; None: the small model that comes with the package
    llm            an open gallop.LLM in place of model
    engine         options of gallop.LLM
    chat_template_kwargs
                   variables of the chat template, such as {"enable_thinking": False}
    model_kwargs   further parameters of requests, see gallop.parameters()

    complete() continues a text as it stands, chat() uses the model's chat template. Agents and
    chat_with_tools() need a chat template with tools. structured_predict() and
    as_structured_llm() constrain the answer by the schema of the class, and need no tools.
    """

    model: Optional[str] = None
    engine: dict = Field(default_factory=dict)
    temperature: Optional[float] = None
    top_p: Optional[float] = None
    max_tokens: Optional[int] = None
    seed: Optional[int] = None
    chat_template_kwargs: dict = Field(default_factory=dict)
    model_kwargs: dict = Field(default_factory=dict)
    _llm: Any = PrivateAttr()

    def __init__(self, model: Optional[str] = None, *, llm: Optional[gallop.LLM] = None,
                 **values: Any):
        check_fields(type(self), values, ("class_name",))
        super().__init__(model=model, **values)
        self._llm = llm or gallop.LLM(model, **self.engine)

    @classmethod
    def class_name(cls) -> str:
        return "GallopLLM"

    @property
    def metadata(self) -> LLMMetadata:
        info = self._llm.info
        has_tools = info.has_tools or "chat_template" in self.chat_template_kwargs
        return LLMMetadata(context_window=info.max_model_len, num_output=self.max_tokens or 256,
                           is_chat_model=info.no_chat_template is None, model_name=info.name,
                           is_function_calling_model=has_tools)

    # ---- texts ----

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return _completion(self._llm.generate(prompt, **self._sampling(kwargs)))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False,
                        **kwargs: Any) -> CompletionResponse:
        return _completion(await self._llm.agenerate(prompt, **self._sampling(kwargs)))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        def chunks():
            text = ""
            with self._llm.stream(prompt, **self._sampling(kwargs)) as stream:
                for chunk in stream:
                    text += chunk.text
                    yield CompletionResponse(text=text, delta=chunk.text)

        return chunks()

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        async def chunks():
            text = ""
            async for chunk in self._llm.astream(prompt, **self._sampling(kwargs)):
                text += chunk.text
                yield CompletionResponse(text=text, delta=chunk.text)

        return chunks()

    # ---- conversations ----

    @llm_chat_callback()
    def chat(self, messages, **kwargs: Any) -> ChatResponse:
        chat = self._begin(messages, kwargs)
        return _response(chat.send(**self._sampling(kwargs)))

    @llm_chat_callback()
    async def achat(self, messages, **kwargs: Any) -> ChatResponse:
        chat = self._begin(messages, kwargs)
        return _response(await chat.asend(**self._sampling(kwargs)))

    @llm_chat_callback()
    def stream_chat(self, messages, **kwargs: Any):
        def responses():
            chat, answer = self._begin(messages, kwargs), _Answer()
            for chunk in chat.stream(**self._sampling(kwargs)):
                if chunk.text or chunk.reasoning:
                    yield answer.add(chunk)
            yield _response(chat.result, delta="")

        return responses()

    @llm_chat_callback()
    async def astream_chat(self, messages, **kwargs: Any):
        async def responses():
            chat, answer = self._begin(messages, kwargs), _Answer()
            chunks = chat.astream(**self._sampling(kwargs))
            try:
                async for chunk in chunks:
                    if chunk.text or chunk.reasoning:
                        yield answer.add(chunk)
            finally:
                await chunks.aclose()  # Cancels the answer.
            yield _response(chat.result, delta="")

        return responses()

    def _begin(self, messages, kwargs):
        """Returns a conversation that awaits an answer."""
        chat = begin_chat(self._llm, self.chat_template_kwargs, kwargs)
        chat.messages = [_openai(m) for m in messages]
        return chat

    def _sampling(self, kwargs) -> dict[str, Any]:
        own = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed,
               "max_tokens": self.max_tokens}
        return sampling_of(own, self.model_kwargs, kwargs, _CHAT)

    # ---- tools ----

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, verbose=False,
                                 allow_parallel_tool_calls=False, tool_required=False,
                                 tool_choice=None, **kwargs: Any) -> dict[str, Any]:
        """Returns the arguments of chat() for tools of LlamaIndex.

        tool_required   the answer calls tools
        tool_choice     "auto", "none", "required", or the name of a tool
        """
        messages = list(chat_history or [])
        if user_msg is not None:
            messages.append(ChatMessage(role=MessageRole.USER, content=user_msg)
                            if isinstance(user_msg, str) else user_msg)
        if tool_choice is None:
            tool_choice = "required" if tool_required else "auto"
        elif tool_choice not in ("auto", "none", "required"):
            tool_choice = {"type": "function", "function": {"name": tool_choice}}
        schemas = [strict_tool(t.metadata.to_openai_tool(skip_length_check=True))
                   for t in tools or ()]
        return {"messages": messages, "tools": schemas or None,
                "tool_choice": tool_choice if tools else None,
                "parallel_tool_calls": allow_parallel_tool_calls, **kwargs}

    def get_tool_calls_from_response(self, response, error_on_no_tool_call: bool = True,
                                     **kwargs: Any) -> list[ToolSelection]:
        """Returns the tool calls of a response. A call that was cut off has no arguments."""
        calls = [b for b in response.message.blocks if isinstance(b, ToolCallBlock)]
        if not calls and error_on_no_tool_call:
            raise ValueError("expected at least one tool call, but the answer has none")
        return [ToolSelection(tool_id=c.tool_call_id or "", tool_name=c.tool_name,
                              tool_kwargs=_object(c.tool_kwargs)) for c in calls]

    # ---- answers with a schema ----

    def structured_predict(self, output_cls, prompt, llm_kwargs=None, **prompt_args: Any):
        """Returns an instance of a pydantic class, whose schema constrains the answer."""
        messages, sampling = self._asked(output_cls, prompt, llm_kwargs, prompt_args)
        return _parse_json(self._begin(messages, {}).send(**sampling), output_cls)

    async def astructured_predict(self, output_cls, prompt, llm_kwargs=None, **prompt_args: Any):
        messages, sampling = self._asked(output_cls, prompt, llm_kwargs, prompt_args)
        return _parse_json(await self._begin(messages, {}).asend(**sampling), output_cls)

    def stream_structured_predict(self, output_cls, prompt, llm_kwargs=None, **prompt_args: Any):
        """Yields the object; its text is generated whole before."""
        yield self.structured_predict(output_cls, prompt, llm_kwargs, **prompt_args)

    async def astream_structured_predict(self, output_cls, prompt, llm_kwargs=None,
                                         **prompt_args: Any):
        async def objects():
            yield await self.astructured_predict(output_cls, prompt, llm_kwargs, **prompt_args)

        return objects()

    def _asked(self, output_cls, prompt, llm_kwargs, prompt_args):
        messages = self._extend_messages(prompt.format_messages(llm=self, **prompt_args))
        return messages, _constrain(output_cls, self._sampling(llm_kwargs or {}))


def _object(arguments) -> dict[str, Any]:
    if isinstance(arguments, dict):
        return arguments
    try:
        value = json.loads(arguments or "{}")
    except ValueError:  # The answer was cut off.
        return {}
    return value if isinstance(value, dict) else {}


def _openai(message: ChatMessage) -> dict[str, Any]:
    """Returns a message of LlamaIndex in OpenAI's format."""
    role = MessageRole(message.role).value
    more = message.additional_kwargs
    if role in ("tool", "function"):
        return {"role": "tool", "content": message.content or "",
                "tool_call_id": more.get("tool_call_id", ""),
                **({"name": more["name"]} if more.get("name") else {})}
    row: dict[str, Any] = {"role": {"chatbot": "assistant", "model": "assistant"}.get(role, role),
                           "content": message.content or ""}
    calls = [{"id": b.tool_call_id or f"call_{i}", "type": "function",
              "function": {"name": b.tool_name, "arguments": b.tool_kwargs if isinstance(
                  b.tool_kwargs, str) else json.dumps(b.tool_kwargs)}}
             for i, b in enumerate(message.blocks) if isinstance(b, ToolCallBlock)]
    thinking = "".join(b.content or "" for b in message.blocks if isinstance(b, ThinkingBlock))
    if calls:
        row["tool_calls"] = calls
    if thinking:
        row["reasoning"] = thinking
    return row


def _message(text: str, thinking: Optional[str] = None, calls=()) -> ChatMessage:
    blocks: list[Any] = [ThinkingBlock(content=thinking)] if thinking else []
    if text or not calls:
        blocks.append(TextBlock(text=text))
    blocks += [ToolCallBlock(tool_call_id=c["id"], tool_name=c["function"]["name"],
                             tool_kwargs=c["function"]["arguments"] or "{}") for c in calls]
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)


def _response(result, delta: Optional[str] = None) -> ChatResponse:
    return ChatResponse(message=_message(result.text, result.reasoning, result.tool_calls),
                        raw=result, delta=delta, additional_kwargs=_usage(result))


class _Answer:
    """The answer so far."""

    def __init__(self):
        self.text = self.thinking = ""

    def add(self, chunk) -> ChatResponse:
        self.text, self.thinking = self.text + chunk.text, self.thinking + chunk.reasoning
        more = {"thinking_delta": chunk.reasoning} if chunk.reasoning else {}
        return ChatResponse(message=_message(self.text, self.thinking), delta=chunk.text,
                            additional_kwargs=more)


def _completion(result) -> CompletionResponse:
    return CompletionResponse(text=result.text, additional_kwargs=_usage(result), raw=result)


def _usage(result) -> dict[str, Any]:
    return {"prompt_tokens": result.n_prompt, "completion_tokens": result.n_output,
            "total_tokens": result.n_prompt + result.n_output}
