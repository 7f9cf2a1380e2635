"""The plugin llm-gallop, in the command-line tool llm."""
import asyncio
import json
import os
import signal
import subprocess
import sys

import gallop
import pytest

from conftest import SOURCE

pytest.importorskip("llm")
sys.path.append(os.path.join(SOURCE, "test", "net"))
import scripted
SCHEMA = {"type": "object", "required": ["age"], "additionalProperties": False,
          "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}}


@pytest.fixture
def tool(tmp_path):
    """Runs the command line of llm in this process, with a folder of its own."""
    from click.testing import CliRunner
    from llm.cli import cli

    def run(*args, ok=True, says="", **env):
        done = CliRunner().invoke(cli, args, input=says,
                                  env={"LLM_USER_PATH": str(tmp_path), **env})
        assert (done.exit_code == 0) == ok, done.output
        return done

    return run


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    """A model that calls weather(), reasons, and goes on forever, by its prompt."""
    folder = str(tmp_path_factory.mktemp("caller"))
    scripts = [["Paris?", "<think>\nHm.", "\n</think>\n\n", "<tool_call>\n",
                '{"name": "weather", ', '"arguments": {"city": ', '"Paris"}}', "\n</tool_call>"],
               ["clear", "The sky is ", "blue."], ["forever", "la "]]
    template = ("{# <tool_call> arguments </think> #}{{ tools }}"
                "{% for m in messages %}{{ m.content }}{% endfor %}")
    scripted.make(folder, scripts, template, context=1 << 17, loops=["la "])
    return {"LLM_GALLOP_MODELS": f"caller={folder}"}


WEATHER = """
def weather(city: str) -> str:
    "Forecasts the weather."
    return {"Paris": "clear"}[city]
"""


def test_an_added_model_is_there_until_it_is_removed(tool):
    tool("gallop", "add", "small", gallop.DEMO)
    assert f"gallop/small\t{gallop.DEMO}" in tool("gallop", "list").stdout
    assert "gallop/small" in tool("models").stdout
    tool("gallop", "remove", "small")
    assert "gallop/small" not in tool("models").stdout
    assert "no model small" in tool("gallop", "remove", "small", ok=False).stderr


def test_the_environment_names_models(tool):
    assert "gallop/x" in tool("models", LLM_GALLOP_MODELS=f"x={gallop.DEMO}").stdout
    assert "expected NAME=PATH" in tool("models", ok=False, LLM_GALLOP_MODELS="x").stderr


def test_the_tool_finds_the_plugin(tmp_path):
    done = subprocess.run([sys.executable, "-m", "llm", "-m", "gallop/demo", "The cat sat", "-o",
                           "max_tokens", "8"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "LLM_USER_PATH": str(tmp_path)})
    with gallop.LLM() as engine:
        want = engine.chat().send("The cat sat", max_new_tokens=8).text
    assert done.stdout.strip() == want.strip() != "", done.stderr


def test_an_answer_is_that_of_the_package(tool):
    tool("gallop", "add", "small", gallop.DEMO)
    args = ["-m", "small", "What is 3 plus 4?", "-s", "You are kind.", "-u", "-o", "max_tokens",
            "12", "-o", "temperature", "0.8", "-o", "top_p", "0.9", "-o", "seed", "7"]
    said, plain = tool(*args), tool(*args, "--no-stream")
    with gallop.LLM() as engine:
        want = engine.chat(system="You are kind.").send(
            "What is 3 plus 4?", max_new_tokens=12, temperature=0.8, top_p=0.9, seed=7)
    assert said.stdout.strip() == plain.stdout.strip() == want.text.strip() != ""
    for done in (said, plain):
        assert f"{want.n_prompt} input, {want.n_output} output" in done.stderr


def test_an_answer_satisfies_a_schema(tool):
    said = tool("-m", "gallop/demo", "A person:", "--schema", json.dumps(SCHEMA), "-o",
                "max_tokens", "200")
    assert 0 <= json.loads(said.stdout)["age"] <= 99


def test_a_wrong_option_is_named(tool):
    assert "top_p" in tool("-m", "gallop/demo", "Hi", "-o", "top_p", "2", ok=False).stderr


def test_the_asynchronous_model_answers_alike(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    import llm

    async def both():
        model = llm.get_async_model("gallop/demo")
        return [await (await model.prompt("One", stream=s, max_tokens=8)).text()
                for s in (True, False)]

    streamed, whole = asyncio.run(both())
    assert streamed == whole == llm.get_model("gallop/demo").prompt("One", max_tokens=8).text()


def test_a_chat_knows_its_earlier_messages(tool):
    said = tool("chat", "-m", "gallop/demo", "-s", "You are kind.", "-o", "max_tokens", "12",
                says="What is 3 plus 4?\nAnd 5?\nquit\n").stdout
    with gallop.LLM() as engine:
        chat = engine.chat(system="You are kind.")
        for text in ("What is 3 plus 4?", "And 5?"):
            want = chat.send(text, max_new_tokens=12).text
            assert want.strip() in said, said
            said = said[said.index(want.strip()):]


def test_a_tool_is_called_and_its_result_is_understood(tool, caller):
    for more in ([], ["--no-stream"]):
        done = tool("-m", "caller", "Paris?", "--functions", WEATHER, "--td", *more, **caller)
        assert done.stdout.strip().endswith("The sky is blue."), done.stdout
        assert "weather" in done.stderr and "clear" in done.stderr and "Hm." not in done.stdout
    logged = json.loads(tool("logs", "--json", "-n", "2", **caller).stdout)
    assert any(r["tool_calls"] for r in logged), logged


def test_an_asynchronous_tool_is_called(tmp_path, monkeypatch, caller):
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    monkeypatch.setenv("LLM_GALLOP_MODELS", caller["LLM_GALLOP_MODELS"])
    import llm

    async def weather(city: str) -> str:
        return "clear"

    async def main():
        return await llm.get_async_model("caller").chain("Paris?", tools=[weather]).text()

    assert asyncio.run(main()).strip() == "The sky is blue."


def test_an_answer_that_is_cut_off_is_an_error(tool, caller):
    """A tool call and JSON that lack their end are not handed on as if they were whole."""
    done = tool("-m", "caller", "Paris?", "--functions", WEATHER, "-o", "max_tokens", "5", ok=False,
                **caller)
    assert "the call of weather() is incomplete after 5 tokens" in done.stderr
    done = tool("-m", "gallop/demo", "A person:", "--schema", json.dumps(SCHEMA), "-o",
                "max_tokens", "3", ok=False)
    assert "the JSON is incomplete after 3 tokens (finish_reason 'length')" in done.stderr


def test_an_interrupt_ends_the_answer(tmp_path, caller):
    answer = subprocess.Popen([sys.executable, "-m", "llm", "-m", "caller", "forever"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "LLM_USER_PATH": str(tmp_path), **caller})
    try:
        assert answer.stdout.read(9) == "la la la "
        answer.send_signal(signal.SIGINT)
        answer.communicate(timeout=30)
        assert answer.returncode != 0
    finally:
        answer.kill()


def test_options_apply(tool, caller):
    said = tool("-m", "caller", "forever", "-o", "max_tokens", "9", "-o", "stop", "la la la la",
                "-o", "top_k", "3", "-o", "min_p", "0.1", "-o", "thinking", "0", **caller)
    assert said.stdout.strip() == ""


def test_embeddings_are_those_of_the_package(tool):
    found = json.loads(tool("embed", "-m", "gallop/demo", "-c", "The cat sat").stdout)
    with gallop.LLM() as engine:
        assert found == pytest.approx(list(engine.embed("The cat sat")), abs=1e-5)
