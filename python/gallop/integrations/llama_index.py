"""A model of LlamaIndex: GallopLLM. Needs llama-index-core."""
from __future__ import annotations

from typing import Any, Optional

from llama_index.core.base.llms.types import (ChatMessage, ChatResponse, CompletionResponse,
                                              LLMMetadata, MessageRole)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM

import gallop


class GallopLLM(CustomLLM):
    """A model of Gallop for LlamaIndex.

        llm = GallopLLM(model="HuggingFaceTB/SmolLM2-135M-Instruct", max_tokens=100)
        print(llm.complete("Once upon a time").text)

    model          as for gallop.LLM; None: the small model that comes with the package
    llm            an open gallop.LLM in place of model
    engine         options of gallop.LLM
    model_kwargs   further parameters of requests, see gallop.parameters()

    complete() continues a text as it stands. chat() uses the model's chat template.
    """

    model: Optional[str] = None
    engine: dict = Field(default_factory=dict)
    temperature: Optional[float] = None
    top_p: Optional[float] = None
    max_tokens: Optional[int] = None
    seed: Optional[int] = None
    model_kwargs: dict = Field(default_factory=dict)
    _llm: Any = PrivateAttr()

    def __init__(self, model: Optional[str] = None, *, llm: Optional[gallop.LLM] = None,
                 **values: Any):
        super().__init__(model=model, **values)
        self._llm = llm or gallop.LLM(model, **self.engine)

    @classmethod
    def class_name(cls) -> str:
        return "GallopLLM"

    @property
    def metadata(self) -> LLMMetadata:
        info = self._llm.info
        return LLMMetadata(context_window=info.max_model_len, num_output=self.max_tokens or 256,
                           is_chat_model=info.no_chat_template is None, model_name=info.name)

    def _sampling(self, kwargs) -> dict[str, Any]:
        return {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed,
                "max_tokens": self.max_tokens, **self.model_kwargs, **kwargs}

    def _begin(self, messages):
        """Returns a conversation that awaits an answer."""
        chat = self._llm.chat()
        chat.messages = [{"role": MessageRole(m.role).value, "content": m.content or ""}
                         for m in messages]
        return chat

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        result = self._llm.generate(prompt, **self._sampling(kwargs))
        return CompletionResponse(text=result.text, additional_kwargs=_usage(result), raw=result)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any):
        def chunks():
            text = ""
            with self._llm.stream(prompt, **self._sampling(kwargs)) as stream:
                for chunk in stream:
                    text += chunk.text
                    yield CompletionResponse(text=text, delta=chunk.text)

        return chunks()

    @llm_chat_callback()
    def chat(self, messages, **kwargs: Any) -> ChatResponse:
        result = self._begin(messages).send(**self._sampling(kwargs))
        return ChatResponse(message=_message(result.text), additional_kwargs=_usage(result),
                            raw=result)

    @llm_chat_callback()
    def stream_chat(self, messages, **kwargs: Any):
        def chunks():
            text = ""
            for chunk in self._begin(messages).stream(**self._sampling(kwargs)):
                text += chunk.text
                yield ChatResponse(message=_message(text), delta=chunk.text)

        return chunks()


def _message(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def _usage(result) -> dict[str, Any]:
    return {"prompt_tokens": result.n_prompt, "completion_tokens": result.n_output,
            "total_tokens": result.n_prompt + result.n_output}
