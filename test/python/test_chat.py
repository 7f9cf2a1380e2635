"""Conversations, and Python functions as tools."""
import asyncio
import dataclasses
import enum
import json
import typing

import gallop
import pytest
from gallop._tools import tool_of


@pytest.fixture
def template(tools_template):
    return tools_template


def test_a_conversation_keeps_its_messages(llm):
    chat = llm.chat(system="You are kind.")
    answer = chat.send("What is 3 plus 4?", max_new_tokens=20)
    assert [m["role"] for m in chat.messages] == ["system", "user", "assistant"]
    assert chat.messages[-1]["content"] == answer.text != ""
    streamed = llm.chat(system="You are kind.")
    chunks = list(streamed.stream("What is 3 plus 4?", max_new_tokens=20))
    assert "".join(c.text for c in chunks) == answer.text and chunks[-1].finish_reason
    assert streamed.messages == chat.messages
    assert asyncio.run(llm.chat(system="You are kind.").asend(
        "What is 3 plus 4?", max_new_tokens=20)).text == answer.text


def test_a_failed_turn_leaves_the_messages_of_before(llm):
    chat = llm.chat()
    with pytest.raises(gallop.BadInput):
        chat.send("Hi", temperature=-1)
    chunks = chat.stream("Hi", max_new_tokens=50)
    next(chunks)
    chunks.close()
    assert chat.messages == []


def test_tools_need_a_template_with_tools(llm):
    def f():
        """Does nothing."""

    with pytest.raises(gallop.Unsupported):
        llm.chat(tools=[f]).send("Hi")


def test_functions_are_called_with_valid_arguments(llm, template):
    seen = []

    def weather(city: typing.Literal["Paris", "Rome"], days: typing.Literal[1, 2] = 1) -> dict:
        """Forecasts the weather.

        Args:
            city: the name of the city
        """
        seen.append((city, days))
        return {"sky": "blue"}

    chat = llm.chat(tools=[weather], chat_template=template,
                    tool_call_parser="hermes", reasoning_parser="none",
                    tool_choice="required")
    chat.send("How is the weather in Paris?", max_new_tokens=120)
    assert seen and seen[0][0] in ("Paris", "Rome")
    call, result = chat.messages[1], chat.messages[2]
    assert call["tool_calls"][0]["function"]["name"] == "weather"
    assert result["role"] == "tool" and json.loads(result["content"]) == {"sky": "blue"}
    assert chat.messages[-1]["role"] == "assistant"


def test_an_exception_of_a_tool_is_told_to_the_model(llm, template):
    def fails() -> str:
        raise KeyError("gone")

    chat = llm.chat(tools=[fails], chat_template=template,
                    tool_call_parser="hermes", reasoning_parser="none",
                    tool_choice="required")
    chat.send("Go", max_new_tokens=60)
    assert chat.messages[2]["content"] == "error: KeyError: 'gone'"


def test_a_coroutine_is_a_tool(llm, template):
    async def later() -> str:
        await asyncio.sleep(0)
        return "done"

    chat = llm.chat(tools=[later], chat_template=template,
                    tool_call_parser="hermes", reasoning_parser="none",
                    tool_choice="required")
    asyncio.run(chat.asend("Go", max_new_tokens=60))
    assert chat.messages[2]["content"] == "done"


def test_a_coroutine_that_cannot_be_waited_for_is_refused(llm, template):
    async def later() -> str:
        return "done"

    chat = llm.chat(tools=[later], chat_template=template,
                    tool_call_parser="hermes", reasoning_parser="none",
                    tool_choice="required")
    with pytest.raises(gallop.BadInput, match="asend"):
        chat.send("Go", max_new_tokens=60)
    with pytest.raises(gallop.BadInput, match="asend"):
        list(chat.stream("Go", max_new_tokens=60))
    assert chat.messages == []


def test_too_many_calls_of_tools_end_a_stream_with_an_error(llm, template):
    def f() -> str:
        return "done"

    chat = llm.chat(tools=[f], chat_template=template,
                    tool_call_parser="hermes", reasoning_parser="none",
                    tool_choice="required")
    chat.max_calls = 0
    with pytest.raises(gallop.GallopError, match="max_calls"):
        list(chat.stream("Go", max_new_tokens=60))


def test_calls_of_tools_that_are_schemas_are_returned(llm, template):
    tool = {"type": "function", "function": {
        "name": "f", "strict": True,
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
    chat = llm.chat(tools=[tool], chat_template=template,
                    tool_call_parser="hermes", reasoning_parser="none",
                    tool_choice="required")
    result = chat.send("Go", max_new_tokens=60)
    assert [c["function"]["name"] for c in result.tool_calls] == ["f"]
    assert len(chat.messages) == 2


def test_signatures_become_schemas():
    class Unit(enum.Enum):
        C = "celsius"
        F = "fahrenheit"

    @dataclasses.dataclass
    class Place:
        name: str
        height: float = 0.0

    def f(a: int, b: typing.List[str], c: typing.Optional[bool] = None, d: Unit = Unit.C,
          e: typing.Dict[str, float] = {}, g: Place = None, h=5,
          i: typing.Tuple[int, str] = (1, "")):
        """Does this
        and that.

        Args:
            a (int): the first
                of all
            b: the second

        Returns:
            nothing
        """

    tool = tool_of(f)["function"]
    p = tool["parameters"]
    assert (tool["name"], tool["description"]) == ("f", "Does this and that.")
    assert p["required"] == ["a", "b"] and p["additionalProperties"] is False
    assert p["properties"] == {
        "a": {"type": "integer", "description": "the first of all"},
        "b": {"type": "array", "items": {"type": "string"}, "description": "the second"},
        "c": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "d": {"enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "e": {"type": "object", "additionalProperties": {"type": "number"}, "default": {}},
        "g": {"anyOf": [{"type": "object", "required": ["name"], "additionalProperties": False,
                         "properties": {"name": {"type": "string"}, "height": {"type": "number"}}},
                        {"type": "null"}]},
        "h": {"default": 5},
        "i": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
              "minItems": 2, "maxItems": 2, "default": [1, ""]},
    }


def test_arguments_become_what_annotations_ask_for():
    class Unit(enum.Enum):
        C = "celsius"

    @dataclasses.dataclass
    class Place:
        name: str
        unit: Unit

    from gallop._tools import Tools

    def f(place: Place, many: typing.List[Unit], x: float):
        return place, many, x

    tools = Tools([f])
    value = tools.run({"function": {"name": "f", "arguments": json.dumps({
        "place": {"name": "here", "unit": "celsius"}, "many": ["celsius"], "x": 1})}})
    assert value == (Place("here", Unit.C), [Unit.C], 1.0) and isinstance(value[2], float)


@pytest.mark.parametrize("wrong", [lambda *args: 1, lambda **kwargs: 1, 5])
def test_what_cannot_be_a_tool_is_refused(llm, wrong):
    with pytest.raises(gallop.BadInput, match="tools"):
        llm.chat(tools=[wrong])
