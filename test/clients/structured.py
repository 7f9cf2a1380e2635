#!/usr/bin/env python3
"""structured.py - structured output through the clients of others: what they parse is what their
schema asks for, whatever the model would write by itself. test/clients/run runs it."""
import enum
import json
import os
import subprocess
import sys
import tempfile
from typing import Literal

import pydantic

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# It must come last, because its inspect.py is not that of Python.
sys.path += [os.path.join(ROOT, "test", "net"), os.path.join(ROOT, "test", "cli")]
import scripted  # noqa: E402
from _cli import check, expect, run_all  # noqa: E402
from _server import Server  # noqa: E402

KEY = "a-key"
QUESTION = "Who are you?"
ASK = [{"role": "user", "content": QUESTION}]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Strict(pydantic.BaseModel):
    """Without unknown properties, after which a model without sense may go on."""
    model_config = pydantic.ConfigDict(extra="forbid")


class Place(Strict):
    """Without ranges of numbers, which the client of Anthropic leaves out of a schema."""
    city: Literal["Oslo", "Rome"]
    color: Color


class Address(Strict):
    city: Literal["Oslo", "Rome"]
    zip: int = pydantic.Field(ge=100, le=999)


class Person(Strict):
    """A person."""
    name: Literal["Ann", "Bob", "Eve"]
    age: int = pydantic.Field(ge=0, le=99)
    color: Color
    address: Address | None
    tags: list[Literal["a", "b"]] = pydantic.Field(min_length=1, max_length=3)


# A model that writes a person where it is asked for one, and otherwise nothing of use.
ANN = Person(name="Ann", age=7, color=Color.RED, address=None, tags=["a"])
WRITTEN = ['{"name": "Ann", ', '"age": 7, "color": "red", ', '"address": null, "tags": ["a"]}']
TEMPLATE = ("{# <tool_call> arguments #}{% if tools %}{{ tools | tojson }}{% endif %}"
            "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
            "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content | trim }}"
            "{% endfor %}")
work = tempfile.TemporaryDirectory()
scripted.make(work.name, [["<ask>", *WRITTEN]], TEMPLATE, context=16384)
demo = Server("--api-key", KEY, "--max-num-seqs", 8)
small = Server("--dtype", "fp32", "--served-model-name", "small", "--api-key", KEY,
               model=work.name)
# The demo model as one that calls functions, whose prompts have no room for schemas.
CALLS = os.path.join(work.name, "calls.jinja")
with open(CALLS, "w", encoding="utf-8") as _f:
    _f.write(TEMPLATE.replace("{{ tools | tojson }}",
                              "{% for t in tools %}{{ t.function.name }}{% endfor %}"))
caller = Server("--api-key", KEY, "--chat-template", CALLS, "--tool-call-parser", "hermes")
DEMO, SMALL, CALLER = (f"http://127.0.0.1:{s.port}" for s in (demo, small, caller))


def _person(value, what):
    """VALUE is a person: an object of the class, or a dictionary."""
    check(isinstance(value, (Person, dict)), f"{what}: {value!r}")
    if isinstance(value, dict):
        Person.model_validate(value)


def openai_parses():
    import openai
    client = openai.OpenAI(base_url=DEMO + "/v1", api_key=KEY, max_retries=0)
    got = client.chat.completions.parse(model="demo", messages=ASK, response_format=Person)
    _person(got.choices[0].message.parsed, "chat")
    expect(got.choices[0].finish_reason, "stop", "its end")
    with client.chat.completions.stream(model="demo", messages=ASK,
                                        response_format=Person) as stream:
        for _ in stream:
            pass
        _person(stream.get_final_completion().choices[0].message.parsed, "chat in events")
    got = client.responses.parse(model="demo", input=QUESTION, text_format=Person)
    _person(got.output_parsed, "a response")
    with client.responses.stream(model="demo", input=QUESTION, text_format=Person) as stream:
        for _ in stream:
            pass
        _person(stream.get_final_response().output_parsed, "a response in events")


def ollama_formats():
    import ollama
    client = ollama.Client(host=DEMO, headers={"Authorization": f"Bearer {KEY}"})
    got = client.chat(model="demo", messages=ASK, format=Person.model_json_schema())
    Person.model_validate_json(got.message.content)
    got = client.generate(model="demo", prompt=QUESTION, format=Person.model_json_schema())
    Person.model_validate_json(got.response)
    client = ollama.Client(host=SMALL, headers={"Authorization": f"Bearer {KEY}"})
    got = client.chat(model="small", messages=[{"role": "user", "content": "<ask>"}],
                      format="json")
    expect(Person.model_validate_json(got.message.content), ANN, "any object")


def _instructor(base, mode):
    import instructor
    import openai
    return instructor.from_openai(openai.OpenAI(base_url=base + "/v1", api_key=KEY, max_retries=0),
                                  mode=getattr(instructor.Mode, mode))


def instructor_asks_for_json():
    # 1.0 is an integer, which pydantic knows where it is not strict.
    got = _instructor(DEMO, "JSON_SCHEMA").create(model="demo", messages=ASK, strict=False,
                                                  response_model=Person, max_retries=0)
    _person(got, "a schema")
    got = _instructor(SMALL, "JSON").create(model="small", response_model=Person, max_retries=0,
                                            messages=[{"role": "user", "content": "<ask>"}])
    expect(got.model_dump(), ANN.model_dump(), "any object")


def _agent(model, base, output):
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    provider = OpenAIProvider(base_url=base + "/v1", api_key=KEY)
    return pydantic_ai.Agent(OpenAIChatModel(model, provider=provider), output_type=output,
                             retries=0)


def pydantic_ai_asks_for_json():
    import pydantic_ai
    got = _agent("demo", DEMO, pydantic_ai.NativeOutput(Person)).run_sync(QUESTION)
    _person(got.output, "native")
    got = _agent("small", SMALL, pydantic_ai.PromptedOutput(Person)).run_sync("<ask>")
    expect(got.output, ANN, "prompted")


def clients_force_calls_of_functions():
    import openai
    import pydantic_ai
    client = openai.OpenAI(base_url=CALLER + "/v1", api_key=KEY, max_retries=0)
    got = client.chat.completions.parse(model="demo", messages=ASK, tool_choice="required",
                                        tools=[openai.pydantic_function_tool(Person)],
                                        parallel_tool_calls=False)
    _person(got.choices[0].message.tool_calls[0].function.parsed_arguments, "openai")
    got = _instructor(CALLER, "TOOLS").create(model="demo", messages=ASK, response_model=Person,
                                              strict=False, parallel_tool_calls=False,
                                              max_retries=0)
    _person(got, "instructor")
    got = _agent("demo", CALLER, pydantic_ai.ToolOutput(Person)).run_sync(
        QUESTION, model_settings={"parallel_tool_calls": False})
    _person(got.output, "pydantic-ai")
    got = _chain("demo", CALLER).with_structured_output(Person, method="function_calling")
    _person(got.invoke(QUESTION), "langchain")


def anthropic_parses():
    import anthropic
    client = anthropic.Anthropic(base_url=CALLER, api_key=KEY, max_retries=0)
    got = client.messages.parse(model="demo", max_tokens=400, messages=ASK, output_format=Place)
    expect(got.stop_reason, "end_turn", f"{got}")
    check(got.parsed_output.city in ("Oslo", "Rome"), f"{got}")
    got = client.messages.create(
        model="demo", max_tokens=400, messages=ASK, tools=[{
            "name": "person", "input_schema": Person.model_json_schema()}],
        tool_choice={"type": "tool", "name": "person", "disable_parallel_tool_use": True})
    expect((got.stop_reason, got.content[0].type), ("tool_use", "tool_use"), f"{got}")
    _person(got.content[0].input, "a call")


def _chain(model, base):
    from langchain_openai import ChatOpenAI
    return ChatOpenAI(model=model, base_url=base + "/v1", api_key=KEY, temperature=0,
                      max_retries=0)


def langchain_asks_for_json():
    got = _chain("demo", DEMO).with_structured_output(Person, method="json_schema")
    _person(got.invoke(QUESTION), "a schema")
    got = _chain("demo", DEMO).with_structured_output(Person.model_json_schema(),
                                                      method="json_schema")
    _person(got.invoke(QUESTION), "a schema of JSON")
    got = _chain("small", SMALL).with_structured_output(Person, method="json_mode")
    expect(got.invoke("<ask>"), ANN, "any object")


def openai_parses_calls():
    import openai
    client = openai.OpenAI(base_url=SMALL + "/v1", api_key=KEY, max_retries=0)
    tool = openai.pydantic_function_tool(Person)
    for choice in ("required", {"type": "function", "function": {"name": "Person"}}):
        got = client.chat.completions.parse(model="small", messages=ASK, tools=[tool],
                                            tool_choice=choice, temperature=0)
        calls = got.choices[0].message.tool_calls
        _person(calls[0].function.parsed_arguments, f"a call: {choice}")
        expect(got.choices[0].finish_reason, "tool_calls", "its end")
    got = client.responses.parse(model="small", input=QUESTION, temperature=0,
                                 tools=[openai.pydantic_function_tool(Person)["function"]
                                        | {"type": "function"}], tool_choice="required")
    call = next(x for x in got.output if x.type == "function_call")
    Person.model_validate_json(call.arguments)


def smolagents_calls():
    """Each step of the agent must be a call: of the tool, or of the one that ends."""
    import smolagents

    class Look(smolagents.Tool):
        name = "look"
        description = "Looks out of the window."
        inputs = {"city": {"type": "string", "description": "A city.", "enum": ["Oslo", "Rome"]}}
        output_type = "string"
        cities = []

        def forward(self, city: str) -> str:
            self.cities.append(city)
            return "rain"

    look = Look()
    model = smolagents.OpenAIServerModel("small", api_base=SMALL + "/v1", api_key=KEY,
                                         temperature=0, max_tokens=600)
    agent = smolagents.ToolCallingAgent([look], model, max_steps=2, verbosity_level=0)
    agent.run("Look.")
    steps = [s for s in agent.memory.steps if isinstance(s, smolagents.ActionStep)]
    check(steps and all(s.tool_calls and not s.error for s in steps[:2]),
          f"{[(s.tool_calls, s.error) for s in steps]}")
    check(all(city in ("Oslo", "Rome") for city in look.cities), f"{look.cities}")


def llm_schema():
    """The program `llm`, with a model of its file of OpenAI-compatible ones."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "extra-openai-models.yaml"), "w", encoding="utf-8") as f:
            f.write(f"- model_id: gallop\n  model_name: demo\n  api_base: {DEMO}/v1\n"
                    f"  supports_schema: true\n  api_key_name: gallop\n")
        r = subprocess.run([os.path.join(os.path.dirname(sys.executable), "llm"), "-m", "gallop",
                            "--key", KEY, "--no-stream", "--schema",
                            json.dumps(Person.model_json_schema()), QUESTION],
                           env=os.environ | {"LLM_USER_PATH": folder}, capture_output=True,
                           text=True, timeout=100)
    expect(r.returncode, 0, r.stderr[-2000:])
    Person.model_validate_json(r.stdout)


if __name__ == "__main__":
    try:
        run_all([(n, t) for n, t in globals().items() if not isinstance(t, type)])
    finally:
        expect([s.end() for s in (demo, small, caller)], [0] * 3, "the servers end with 0")
        work.cleanup()
