"""The plugin llm-gallop, in the command-line tool llm."""
import asyncio
import json
import os
import subprocess
import sys

import gallop
import pytest

pytest.importorskip("llm")
SCHEMA = {"type": "object", "required": ["age"], "additionalProperties": False,
          "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}}


@pytest.fixture
def tool(tmp_path):
    """Runs llm with a folder of its own."""

    def run(*args, ok=True, **env):
        done = subprocess.run([sys.executable, "-m", "llm", *args], text=True, timeout=120,
                              capture_output=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LLM_USER_PATH": str(tmp_path), **env})
        assert (done.returncode == 0) == ok, done.stderr
        return done

    return run


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
