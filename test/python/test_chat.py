"""Conversations, and Python functions as tools."""
import asyncio
import dataclasses
import enum
import json
import os
import sys
import typing

import gallop
import pytest
from gallop import _chat
from gallop._tools import tool_of

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())


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


def test_sampling_parameters_of_a_conversation_are_those_of_its_answers(llm):
    chat = llm.chat("You are kind.", max_tokens=3, temperature=0.7, seed=1, logprobs=1)
    expected = llm.generate([{"role": "system", "content": "You are kind."},
                             {"role": "user", "content": "Once"}],
                            max_new_tokens=3, temperature=0.7, seed=1)
    result = chat.send("Once")
    assert result.ids == expected.ids and len(result.ids) == 3 and len(result.logprobs) == 3
    assert chat.send("More", max_new_tokens=5).n_output == 5
    assert chat.send("More", max_tokens=2, logprobs=None).n_output == 2
    assert len([c for c in chat.stream("More") if c.logprob]) == 3


def test_a_conversation_begins_with_messages(llm):
    begun = [{"role": "user", "content": "What is 3 plus 4?"}]
    chat = llm.chat(messages=begun, max_new_tokens=20)
    answer = chat.send()
    assert answer.text == llm.chat().send("What is 3 plus 4?", max_new_tokens=20).text
    assert len(begun) == 1 and len(chat.messages) == 2
    for wrong in ({"system": begun}, {"system": "Be kind.", "messages": begun}):
        with pytest.raises(gallop.BadInput, match="messages=") as e:
            llm.chat(**wrong)
        assert e.value.field == "system"


PLAIN = "{# other #}{% for m in messages %}{{ m.content }}other {{ 'mood' }}{{ x.mode }}{% endfor %}"


@pytest.mark.parametrize("name, names", [
    ("systm", "'system'"), ("max_new_token", "'max_new_tokens'"), ("chat_templat", "'chat_template'"),
    ("enable_thinking", ""), ("return_logits", ""), ("text_only", ""), ("variables", "")])
def test_a_keyword_that_a_conversation_cannot_use_is_a_type_error(llm, name, names):
    with pytest.raises(TypeError, match=f"'{name}'.*{names}.*chat_template_kwargs"):
        llm.chat(**{name: 1})
    if name != "max_new_token":
        with pytest.raises(TypeError, match=f"render.*'{name}'"):
            llm.render([{"role": "user", "content": "Hi"}], **{name: 1})
    with pytest.raises(TypeError, match="send.*'max_new_token'"):
        llm.chat().send("Hi", max_new_token=1)


@pytest.mark.parametrize("name", ["other", "mood", "mode", "content"])
def test_comments_texts_and_members_are_no_variables_of_a_template(llm, name):
    hi = [{"role": "user", "content": "Hi"}]
    with pytest.raises(TypeError, match=name):
        llm.render(hi, chat_template=PLAIN, **{name: 1})


def test_variables_of_a_template_are_taken_by_name_or_in_a_dict(llm):
    hi, template = [{"role": "user", "content": "Hi"}], "{{ mood }}-{%- if kind %}{{ kind }}{% endif %}"
    assert llm.render(hi, chat_template=template, mood="a", kind="b") == "a-b"
    assert llm.render(hi, chat_template=template, chat_template_kwargs={"mood": "a", "no": 1}) == "a-"
    assert llm.render(hi, chat_template=template, mood="a", chat_template_kwargs={"mood": "b"}) == "b-"
    for variables in ({"mood": "A digit: "}, {"chat_template_kwargs": {"mood": "A digit: "}}):
        chat = llm.chat(chat_template=template, max_new_tokens=3, **variables)
        assert chat.send("Hi").ids == llm.generate(
            llm.tokenize("A digit: -", special=False), max_new_tokens=3).ids
    with pytest.raises(gallop.BadInput, match="chat_template_kwargs"):
        llm.chat(chat_template_kwargs="mood")


def test_wrong_sampling_parameters_of_a_conversation_are_refused_at_once(llm):
    with pytest.raises(gallop.BadInput, match="temperature: 'hot'"):
        llm.chat(temperature="hot")
    with pytest.raises(gallop.BadInput, match="max_tokens: is the same parameter as max_new_tokens"):
        llm.chat(max_new_tokens=3, max_tokens=3)


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


@pytest.fixture
def quoting(tmp_path):
    """A model that quotes a tool call in ordinary letters, and then makes one."""
    sys.path.insert(0, os.path.join(SOURCE, "test", "net"))
    import scripted

    script = ["<ask>", "See ", '<tool_call>{"name": "f", "arguments": {}}</tool_call> ', "<tool_call>",
              '{"name": "f", "arguments": {"x": 1}}', "</tool_call>"]
    scripted.make(str(tmp_path / "quoting"), [script, ["<none>"]],
                  "{# <tool_call> arguments #}{{ tools }}{% for m in messages %}{{ m.content }}"
                  "{% endfor %}<ask>", special=["<tool_call>", "</tool_call>"])
    with gallop.LLM(str(tmp_path / "quoting"), dtype="fp32") as engine:
        yield engine


def test_marks_in_ordinary_letters_are_no_calls(quoting):
    tools = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}]
    text = 'See <tool_call>{"name": "f", "arguments": {}}</tool_call>'
    chat = quoting.chat(tools=tools)
    result = chat.send("Hi", temperature=0, max_new_tokens=40)
    assert result.text.rstrip() == text
    assert [c["function"]["arguments"] for c in result.tool_calls] == ['{"x": 1}']
    chat = quoting.chat(tools=tools)
    streamed = "".join(c.text for c in chat.stream("Hi", temperature=0, max_new_tokens=40))
    assert streamed.rstrip() == text
    assert [c["function"]["arguments"] for c in chat.result.tool_calls] == ['{"x": 1}']


def test_an_exception_of_a_tool_is_told_to_the_model(llm, template):
    def fails() -> str:
        raise KeyError("gone")

    chat = llm.chat(tools=[fails], chat_template=template,
                    tool_call_parser="hermes", reasoning_parser="none",
                    tool_choice="required")
    chat.send("Go", max_new_tokens=60)
    assert chat.messages[2]["content"] == "error: KeyError: 'gone'"


class Silent(Exception):
    def __str__(self):
        raise ValueError("this exception has no text")


class Odd:
    def __repr__(self):
        raise RuntimeError("no text")


def circle():
    rows: list = []
    rows.append(rows)
    return rows


@pytest.mark.parametrize("how", ["send", "stream", "asend", "astream"])
@pytest.mark.parametrize("value, said", [
    (Odd(), "error: RuntimeError: no text"), (circle(), "error: RecursionError"),
    (Silent, "error: Silent"), ("\ud800 a", "? a"), ({"x": {1}}, '{"x": [1]}')],
    ids=["no text", "circle", "silent exception", "surrogate", "set"])
def test_a_result_that_cannot_be_written_is_told_to_the_model(llm, template, how, value, said):
    def act():
        if value is Silent:  # a new one, since a raised exception keeps the frames it went through
            raise Silent
        return value

    chat = tooled(llm, template, [act])
    run(chat, how)
    assert [m["role"] for m in chat.messages] == ["user", "assistant", "tool", "assistant"]
    assert chat.messages[2]["content"].startswith(said)


def tooled(llm, template, tools):
    return llm.chat(tools=tools, chat_template=template, tool_call_parser="hermes",
                    reasoning_parser="none", tool_choice="required")


def run(chat, how):
    if how == "send":
        return chat.send("Go", max_new_tokens=60)
    if how == "stream":
        return list(chat.stream("Go", max_new_tokens=60))
    if how == "asend":
        return asyncio.run(chat.asend("Go", max_new_tokens=60))

    async def read():
        return [c async for c in chat.astream("Go", max_new_tokens=60)]

    return asyncio.run(read())


class Interrupt(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


@pytest.mark.parametrize("how", ["send", "stream", "asend", "astream"])
def test_an_executed_call_stays_in_the_conversation(llm, template, how, monkeypatch):
    """Three calls: the first is executed, the second interrupted, the third never begins."""
    done = []

    def act():
        done.append(len(done))
        if len(done) == 2:
            raise Interrupt("stop")
        return "done"

    def calls(prompt, text, end):
        call = {"type": "function", "function": {"name": "act", "arguments": "{}"}}
        return {"role": "assistant", "content": None,
                "tool_calls": [{**call, "id": f"call_{i}"} for i in range(3)]}

    chat = tooled(llm, template, [act])
    chat.messages.append({"role": "system", "content": "Be kind."})
    with monkeypatch.context() as m, pytest.raises(Interrupt):
        m.setattr(_chat.Prompt, "parse", calls)
        run(chat, how)
    assert done == [0, 1]
    assert [m["role"] for m in chat.messages] == ["system", "user", "assistant"] + ["tool"] * 3
    assert [(m["tool_call_id"], m["name"], m["content"]) for m in chat.messages[3:]] == [
        ("call_0", "act", "done"), ("call_1", "act", "error: Interrupt: stop"),
        ("call_2", "act", "error: the call was not executed")]
    # The conversation goes on from there, and a turn without calls is taken back alone.
    with pytest.raises(gallop.BadInput):
        chat.send("Hi", temperature=-1)
    assert len(chat.messages) == 6
    with pytest.raises(gallop.BadInput):
        chat.send(temperature=-1)
    assert len(chat.messages) == 6
    assert chat.send(max_new_tokens=60) and chat.messages[-1]["role"] == "assistant"


def test_an_answer_that_fails_after_a_call_leaves_the_call(llm, template):
    def act() -> str:
        return "word " * 2000

    chat = tooled(llm, template, [act])
    with pytest.raises(gallop.BadInput, match="context"):
        chat.send("Go", max_new_tokens=60)
    assert [m["role"] for m in chat.messages] == ["user", "assistant", "tool"]
    assert chat.messages[2]["content"] == "word " * 2000


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
