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


def test_a_call_that_is_cut_off_is_invalid(llm, template):
    chat = ChatGallop(llm=llm, max_tokens=16, chat_template_kwargs=template)
    answer = chat.bind_tools([weather], tool_choice="weather").invoke("Paris?")
    assert answer.tool_calls == []


def test_structured_output_satisfies_its_schema(llm):
    chat = ChatGallop(llm=llm, max_tokens=200)
    assert 0 <= chat.with_structured_output(Person).invoke("A person:").age <= 99
    schema = {"title": "Person", **Person.model_json_schema(), "additionalProperties": False}
    assert 0 <= chat.with_structured_output(schema).invoke("A person:")["age"] <= 99
    short = ChatGallop(llm=llm, max_tokens=1)
    cut = short.with_structured_output(Person, include_raw=True).invoke("A person:")
    assert cut["parsed"] is None and cut["parsing_error"] and isinstance(cut["raw"], AIMessage)
