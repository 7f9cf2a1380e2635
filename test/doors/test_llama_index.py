"""gallop.integrations.llama_index."""
import asyncio

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.llms import ChatMessage

from gallop.integrations.llama_index import GallopLLM


def test_a_completion_is_that_of_the_package(llm):
    model = GallopLLM(llm=llm, max_tokens=12)
    want = llm.generate("The cat sat", max_new_tokens=12).text
    chunks = list(model.stream_complete("The cat sat"))
    assert model.complete("The cat sat").text == chunks[-1].text == want != ""
    assert "".join(c.delta for c in chunks) == want
    assert asyncio.run(model.acomplete("The cat sat")).text == want
    assert model.complete("The cat sat", max_tokens=1).additional_kwargs["completion_tokens"] == 1


def test_a_chat_uses_the_template(llm):
    model = GallopLLM(llm=llm, max_tokens=12)
    asks = [ChatMessage(role="system", content="You are kind."),
            ChatMessage(role="user", content="What is 3 plus 4?")]
    want = llm.chat(system="You are kind.").send("What is 3 plus 4?", max_new_tokens=12).text
    assert model.chat(asks).message.content == want != ""
    assert list(model.stream_chat(asks))[-1].message.content == want


def test_the_metadata_is_that_of_the_model(llm):
    metadata = GallopLLM(llm=llm).metadata
    assert metadata.context_window == llm.info.max_model_len and metadata.is_chat_model
