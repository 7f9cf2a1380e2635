"""gallop.integrations.llama_index."""
import asyncio
import typing

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

from gallop.integrations.llama_index import GallopLLM

ASKS = [ChatMessage(role="system", content="You are kind."),
        ChatMessage(role="user", content="What is 3 plus 4?")]


class Person(BaseModel):
    """A person."""

    age: int = Field(ge=0, le=99)


def weather(city: typing.Literal["Paris", "Rome"]) -> str:
    """Forecasts the weather."""
    return f"sunny in {city}"


@pytest.fixture
def caller(llm, template):
    """A model that calls tools."""
    return GallopLLM(llm=llm, max_tokens=120, chat_template_kwargs=template)


def test_a_completion_is_that_of_the_package(llm):
    model = GallopLLM(llm=llm, max_tokens=12)
    want = llm.generate("The cat sat", max_new_tokens=12).text

    async def later():
        chunks = [c async for c in await model.astream_complete("The cat sat")]
        return (await model.acomplete("The cat sat")).text, "".join(c.delta for c in chunks)

    chunks = list(model.stream_complete("The cat sat"))
    assert model.complete("The cat sat").text == chunks[-1].text == want != ""
    assert "".join(c.delta for c in chunks) == want
    assert asyncio.run(later()) == (want, want)
    assert model.complete("The cat sat", max_tokens=1).additional_kwargs["completion_tokens"] == 1


def test_a_chat_uses_the_template(llm):
    model = GallopLLM(llm=llm, max_tokens=12)
    want = llm.chat(system="You are kind.").send("What is 3 plus 4?", max_new_tokens=12).text

    async def later():
        chunks = [c async for c in await model.astream_chat(ASKS)]
        return (await model.achat(ASKS)).message.content, "".join(c.delta for c in chunks)

    chunks = list(model.stream_chat(ASKS))
    assert model.chat(ASKS).message.content == want != ""
    assert chunks[-1].message.content == "".join(c.delta for c in chunks) == want
    assert chunks[-1].raw.text == want
    assert asyncio.run(later()) == (want, want)


def test_an_asynchronous_chat_leaves_the_loop_free(llm):
    """Else no timer could cancel it."""
    model = GallopLLM(llm=llm, max_tokens=900, model_kwargs={"ignore_eos": True})
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(model.achat(ASKS), 0.01))


def test_a_tool_is_called_and_its_result_is_understood(caller):
    tool = FunctionTool.from_defaults(weather)
    said = caller.chat_with_tools([tool], "Paris?", tool_required=True)
    call, = caller.get_tool_calls_from_response(said)
    assert call.tool_name == "weather" and call.tool_kwargs["city"] in ("Paris", "Rome")
    history = [ChatMessage(role="user", content="Paris?"), said.message,
               ChatMessage(role="tool", content="sunny",
                           additional_kwargs={"tool_call_id": call.tool_id, "name": "weather"})]
    again = caller.chat_with_tools([tool], chat_history=history, tool_choice="none", max_tokens=5)
    assert caller.get_tool_calls_from_response(again, error_on_no_tool_call=False) == []
    with pytest.raises(ValueError):
        caller.get_tool_calls_from_response(again)
    done = caller.predict_and_call([tool], "Rome?", tool_required=True)
    assert done.response in ("sunny in Paris", "sunny in Rome")


def test_a_streamed_tool_call_is_that_of_the_answer(caller):
    tool = FunctionTool.from_defaults(weather)
    want = caller.get_tool_calls_from_response(
        caller.chat_with_tools([tool], "Paris?", tool_choice="weather"))[0].tool_kwargs

    async def later():
        stream = await caller.astream_chat_with_tools([tool], "Paris?", tool_choice="weather")
        return [c async for c in stream]

    for chunks in (list(caller.stream_chat_with_tools([tool], "Paris?", tool_choice="weather")),
                   asyncio.run(later())):
        assert caller.get_tool_calls_from_response(chunks[-1])[0].tool_kwargs == want


def test_a_call_that_is_cut_off_has_no_arguments(caller):
    tool = FunctionTool.from_defaults(weather)
    said = caller.chat_with_tools([tool], "Paris?", tool_required=True, max_tokens=16)
    calls = caller.get_tool_calls_from_response(said, error_on_no_tool_call=False)
    assert [c.tool_kwargs for c in calls] in ([], [{}])


def test_an_agent_executes_tools(caller):
    from llama_index.core.agent.workflow import FunctionAgent

    calls = []

    def note(city: typing.Literal["Paris", "Rome"]) -> str:
        """Notes a city."""
        calls.append(city)
        return "noted"

    async def main():
        agent = FunctionAgent(tools=[note], llm=caller, initial_tool_choice="note",
                              streaming=True)
        return await agent.run("Note Paris.", max_iterations=2)

    try:
        asyncio.run(main())
    except Exception as e:  # The bundled model may call the tool again and again.
        assert "iterations" in str(e)
    assert calls and set(calls) <= {"Paris", "Rome"}


def test_structured_output_satisfies_its_schema(llm):
    model = GallopLLM(llm=llm, max_tokens=60)
    prompt = PromptTemplate("A person from {place}:")
    found = model.structured_predict(Person, prompt, place="Rome")
    assert isinstance(found, Person)
    assert asyncio.run(model.astructured_predict(Person, prompt, place="Rome")) == found
    assert list(model.stream_structured_predict(Person, prompt, place="Rome")) == [found]
    raw = model.as_structured_llm(Person).complete("A person from Rome:").raw
    assert isinstance(raw, Person)


def test_the_metadata_is_that_of_the_model(llm, caller):
    metadata = GallopLLM(llm=llm).metadata
    assert metadata.context_window == llm.info.max_model_len and metadata.is_chat_model
    assert not metadata.is_function_calling_model
    assert caller.metadata.is_function_calling_model


@pytest.mark.parametrize("name, hint", [("temprature", "'temperature'"), ("top_k", "model_kwargs"),
                                        ("thread", "")])
def test_an_argument_that_the_model_does_not_have_is_a_type_error(llm, name, hint):
    with pytest.raises(TypeError, match=f"GallopLLM.*'{name}'.*{hint}"):
        GallopLLM(llm=llm, **{name: 1})
    with pytest.raises(TypeError, match="'temprature'"):
        GallopLLM(llm=llm, max_tokens=2).complete("Once", temprature=1)
    with pytest.raises(TypeError, match="'temprature'"):
        GallopLLM(llm=llm, max_tokens=2, model_kwargs={"temprature": 1}).complete("Once")


def test_a_parameter_of_a_call_replaces_that_of_the_model_under_each_of_its_names(llm):
    for own in ({"max_tokens": 9}, {"model_kwargs": {"max_new_tokens": 9}},
                {"max_tokens": 5, "model_kwargs": {"max_new_tokens": 9}}):
        model = GallopLLM(llm=llm, **own)
        for call, n in (({}, 9), ({"max_new_tokens": 2}, 2), ({"max_tokens": 3}, 3)):
            assert n_output(model.complete("Once upon a time", **call)) == n


def n_output(answer):
    return answer.additional_kwargs["completion_tokens"]
