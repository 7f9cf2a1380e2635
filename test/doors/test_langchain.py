"""gallop.integrations.langchain."""
import asyncio
import typing

import pytest

pytest.importorskip("langchain_core")

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel, Field

from gallop.integrations.langchain import ChatGallop

ASKS = [SystemMessage("You are kind."), HumanMessage("What is 3 plus 4?")]


class Person(BaseModel):
    """A person."""

    age: int = Field(ge=0, le=99)


def weather(city: typing.Literal["Paris", "Rome"]) -> str:
    """Forecasts the weather."""


def test_all_four_ways_give_the_same_answer(llm):
    chat = ChatGallop(llm=llm, max_tokens=12)
    want = llm.chat(system="You are kind.").send("What is 3 plus 4?", max_new_tokens=12)

    async def later():
        chunks = [c async for c in chat.astream(ASKS)]
        return await chat.ainvoke(ASKS), sum(chunks[1:], chunks[0])

    chunks = list(chat.stream(ASKS))
    for answer in (chat.invoke(ASKS), sum(chunks[1:], chunks[0]), *asyncio.run(later())):
        assert answer.content == want.text != ""
        assert answer.usage_metadata["input_tokens"] == want.n_prompt
        assert answer.usage_metadata["output_tokens"] == want.n_output
        assert answer.response_metadata["finish_reason"] == want.finish_reason
    assert len(chunks) > 3


def test_a_stop_string_and_parameters_of_a_call_apply(llm):
    chat = ChatGallop(llm=llm, max_tokens=12)
    whole = chat.invoke(ASKS).content
    assert chat.invoke(ASKS, stop=[whole[3:6]]).content == whole[:whole.index(whole[3:6])]
    assert chat.invoke(ASKS, max_tokens=1).usage_metadata["output_tokens"] == 1


@pytest.mark.parametrize("streams", [False, True])
def test_a_bound_tool_is_called_with_valid_arguments(llm, template, streams):
    chat = ChatGallop(llm=llm, max_tokens=120, chat_template_kwargs=template)
    bound = chat.bind_tools([weather], tool_choice="any")
    if streams:
        chunks = list(bound.stream("How is the weather in Paris?"))
        answer = sum(chunks[1:], chunks[0])
    else:
        answer = bound.invoke("How is the weather in Paris?")
    call, = answer.tool_calls
    assert call["name"] == "weather" and call["args"]["city"] in ("Paris", "Rome")
    answers = [HumanMessage("Weather?"), AIMessage("", tool_calls=[call]),
               ToolMessage("sunny", tool_call_id=call["id"])]
    assert isinstance(chat.bind_tools([weather]).invoke(answers, max_tokens=5), AIMessage)


@pytest.mark.parametrize("streams", [False, True])
def test_a_call_that_is_cut_off_is_invalid(llm, template, streams):
    chat = ChatGallop(llm=llm, max_tokens=16, chat_template_kwargs=template)
    bound = chat.bind_tools([weather], tool_choice="weather")
    if streams:
        chunks = list(bound.stream("Paris?"))
        answer = sum(chunks[1:], chunks[0])
    else:
        answer = bound.invoke("Paris?")
    assert answer.tool_calls == []


def test_one_call_at_most_and_strict_are_accepted(llm, template):
    """What agents of LangChain bind, too."""
    chat = ChatGallop(llm=llm, max_tokens=120, chat_template_kwargs=template)
    bound = chat.bind_tools([weather], tool_choice="any", parallel_tool_calls=False, strict=True)
    assert len(bound.invoke("How is the weather in Paris and in Rome?").tool_calls) == 1


def test_asynchronous_tool_calls_are_the_same(llm, template):
    chat = ChatGallop(llm=llm, max_tokens=120, chat_template_kwargs=template)
    bound = chat.bind_tools([weather], tool_choice="any")

    async def later():
        chunks = [c async for c in bound.astream("Paris?")]
        return (await bound.ainvoke("Paris?")).tool_calls, sum(chunks[1:], chunks[0]).tool_calls

    want = [(c["name"], c["args"]) for c in bound.invoke("Paris?").tool_calls]
    for calls in asyncio.run(later()):
        assert [(c["name"], c["args"]) for c in calls] == want != []


def test_leaving_an_asynchronous_stream_cancels_the_answer(llm):
    chat = ChatGallop(llm=llm, max_tokens=900, model_kwargs={"ignore_eos": True})

    async def runs_until_it_is_left():
        stream = chat.astream(ASKS)
        await anext(stream)
        running = llm.stats()["n_running"]
        await stream.aclose()
        for _ in range(100):
            if llm.stats()["n_running"] == 0:
                return running == 1
            await asyncio.sleep(0.05)
        raise AssertionError("the answer goes on")

    async def main():
        # An answer may end before its first chunk has come here.
        while not await runs_until_it_is_left():
            pass

    asyncio.run(asyncio.wait_for(main(), 60))


def test_tokens_are_counted_by_the_model(llm):
    chat = ChatGallop(llm=llm, max_tokens=1)
    assert chat.get_num_tokens("The cat sat") == len(llm.tokenize("The cat sat", special=False))
    asked = chat.invoke(ASKS).usage_metadata["input_tokens"]
    assert chat.get_num_tokens_from_messages(ASKS) == asked


def test_a_batch_is_computed_together_and_in_order(llm):
    chat = ChatGallop(llm=llm, max_tokens=8)
    asks = ["One?", "Two?", "Three?"]
    assert [a.content for a in chat.batch(asks)] == [chat.invoke(a).content for a in asks]


def test_structured_output_satisfies_its_schema(llm):
    chat = ChatGallop(llm=llm, max_tokens=200)
    assert 0 <= chat.with_structured_output(Person).invoke("A person:").age <= 99
    schema = {"title": "Person", **Person.model_json_schema(), "additionalProperties": False}
    assert 0 <= chat.with_structured_output(schema).invoke("A person:")["age"] <= 99
    later = chat.with_structured_output(Person).ainvoke("A person:")
    assert isinstance(asyncio.run(later), Person)
    short = ChatGallop(llm=llm, max_tokens=1)
    cut = short.with_structured_output(Person, include_raw=True).invoke("A person:")
    assert cut["parsed"] is None and cut["parsing_error"] and isinstance(cut["raw"], AIMessage)


@pytest.mark.parametrize("name, hint", [("temprature", "'temperature'"), ("top_k", "model_kwargs"),
                                        ("thread", "")])
def test_an_argument_that_the_model_does_not_have_is_a_type_error(llm, name, hint):
    with pytest.raises(TypeError, match=f"ChatGallop.*'{name}'.*{hint}"):
        ChatGallop(llm=llm, **{name: 1})
    with pytest.raises(TypeError, match="'temprature'"):
        ChatGallop(llm=llm, max_tokens=2).invoke("Once", temprature=1)
    with pytest.raises(TypeError, match="'temprature'"):
        ChatGallop(llm=llm, max_tokens=2, model_kwargs={"temprature": 1}).invoke("Once")


def test_a_parameter_of_a_call_replaces_that_of_the_model_under_each_of_its_names(llm):
    for own in ({"max_tokens": 9}, {"model_kwargs": {"max_new_tokens": 9}},
                {"max_tokens": 5, "model_kwargs": {"max_new_tokens": 9}}):
        model = ChatGallop(llm=llm, **own)
        for call, n in (({}, 9), ({"max_new_tokens": 2}, 2), ({"max_tokens": 3}, 3)):
            assert n_output(model.invoke("Once upon a time", **call)) == n


def n_output(answer):
    return answer.usage_metadata["output_tokens"]
