"""Tokens, chat templates and facts about the model."""
import asyncio
import dataclasses
import json
import typing

import gallop
import pytest

MESSAGES = [{"role": "user", "content": "What is 3 plus 4?"}]


def test_tokens_are_those_of_the_program(llm, program):
    text = "Once upon a time, Zoë"
    out = json.loads(program("tokenize", "-m", gallop.DEMO, "--json", "--", text))
    ids = out["ids"] if isinstance(out, dict) else [t["id"] for t in out]
    assert llm.tokenize(text) == ids
    assert llm.detokenize(llm.tokenize(text)) == text
    assert llm.tokenize(text, special=False) == ids[len(ids) - len(llm.tokenize(text, False)):]


def test_the_limits_of_tokens(llm):
    assert llm.tokenize("", special=False) == [] and llm.detokenize([]) == ""
    assert llm.detokenize(llm.tokenize("a\0b", special=False)) == "a\0b"
    with pytest.raises(gallop.BadInput):
        llm.detokenize([-1])
    with pytest.raises(gallop.BadInput):
        llm.detokenize([llm.info.vocab_size])


def test_special_tokens_are_text_if_asked(llm):
    mark, number = next(iter(llm.info.special_tokens.items()))
    assert llm.tokenize(mark, special=False) == [number]
    assert len(llm.tokenize(mark, special=False, plain=True)) > 1
    assert llm.detokenize([number], special=True) == mark and llm.detokenize([number]) == ""


def test_facts_about_the_model(llm):
    info = llm.info
    assert (info.name, info.model_type, info.hidden_size) == ("demo", "llama", 192)
    assert info.context_length >= info.max_model_len > 0 and info.weight_bytes > 1 << 20
    assert info.end_ids and "{%" in info.chat_template and info.no_chat_template is None
    assert llm.stats()["operators"]["mlp"]["seconds"] >= 0


def test_messages_are_rendered_and_answered(llm, program):
    text = llm.render(MESSAGES)
    assert text.endswith("<|assistant|>") and "What is 3 plus 4?" in text
    assert not llm.render(MESSAGES, add_generation_prompt=False).endswith("<|assistant|>")
    answer = llm.generate(MESSAGES, max_new_tokens=20, do_sample=False)
    said = program("run", "-m", gallop.DEMO, "--chat", "--greedy", "-n", "20", "-q", MESSAGES[0]["content"])
    assert answer.text.strip() == said.strip()
    assert llm.generate([MESSAGES, MESSAGES], max_new_tokens=20)[1].text == answer.text
    assert "".join(c.text for c in llm.stream(MESSAGES, max_new_tokens=20)) == answer.text


def test_a_template_of_ones_own(llm):
    template = "{% for m in messages %}[{{ m.content }}]{% endfor %}{{ mood }}"
    assert llm.render(MESSAGES, chat_template=template, mood="!") == "[What is 3 plus 4?]!"
    with pytest.raises(gallop.BadInput):
        llm.render(MESSAGES, chat_template="{% for")
    with pytest.raises(gallop.BadInput, match="messages"):
        llm.render([{"role": "user", "content": {1, 2}}])
    with pytest.raises(gallop.BadInput, match="messages: .*JSON"):
        llm.render([{"role": "user", "content": float("nan")}])
    with pytest.raises(gallop.BadInput, match="roles"):
        llm.render([{"role": "wizard", "content": "x"}])


def test_scores_sum_up_the_log_probabilities(llm):
    score = llm.score("Once upon a time", top=2)
    ids = llm.tokenize("Once upon a time")
    assert score.tokens == ids and score.logprobs[0] is None and len(score.logprobs) == len(ids)
    assert score.total == pytest.approx(sum(score.logprobs[1:])) and score.perplexity > 1
    again = llm.generate(ids[:-1], max_new_tokens=1, logprobs=20).logprobs[0]
    assert dict(again.top)[ids[-1]] == pytest.approx(score.logprobs[-1], abs=1e-5)
    assert [s.total for s in llm.score(["Once upon a time", ids])] == [score.total] * 2
    assert llm.score("A more likely story.").ranks[1] >= 1


def test_embeddings_have_the_hidden_size(llm):
    one = llm.embed("The cat")
    assert len(one) == 192 and memoryview(one).format == "f"
    assert llm.embed(["The cat", "A dog"])[0] == one
    assert llm.embed("The cat", pooling="last") == one != llm.embed("The cat", pooling="mean")
    assert sum(x * x for x in one) == pytest.approx(1)
    assert sum(x * x for x in llm.embed("The cat", normalize=False)) > 2


def test_json_is_returned_as_python(llm):
    schema = {"type": "object", "additionalProperties": False, "required": ["age", "ok"], "properties": {
        "age": {"type": "integer", "minimum": 0, "maximum": 99}, "ok": {"type": "boolean"}}}
    value = llm.json("A person:", schema, max_new_tokens=200)
    assert set(value) == {"age", "ok"} and isinstance(value["ok"], bool)
    with pytest.raises(gallop.GallopError, match="incomplete"):
        llm.json("A person:", schema, max_new_tokens=2)
    with pytest.raises(gallop.BadInput, match="schema"):
        llm.json("A person:", 5)


def test_json_that_a_stop_string_cuts_is_an_error(llm):
    schema = {"enum": ["a;b"]}
    assert llm.json("x", schema, max_new_tokens=20, stop=["#"]) == "a;b"
    with pytest.raises(gallop.GallopError, match="incomplete.* at the stop string ';'"):
        llm.json("x", schema, max_new_tokens=20, stop=[";"])
    stop = llm.generate("x", json_schema=schema, max_new_tokens=20).ids[1]
    with pytest.raises(gallop.GallopError, match=f"incomplete.* at the stop token {stop}"):
        llm.json("x", schema, max_new_tokens=20, stop_token=stop)


def test_json_of_lists_and_of_several_answers(llm):
    assert llm.json(["x", "y"], {"enum": [5]}, max_new_tokens=9) == [5, 5]
    assert llm.json("x", {"enum": [5]}, n=3, max_new_tokens=9) == [5, 5, 5]
    assert asyncio.run(llm.ajson(["x", "y"], {"enum": [5]}, max_new_tokens=9)) == [5, 5]


def test_json_is_returned_as_an_object_of_a_type(llm):
    @dataclasses.dataclass
    class Person:
        age: typing.Literal[1, 2]

    assert isinstance(llm.json("A person:", Person, max_new_tokens=200), Person)
    found = llm.json("Numbers:", typing.Tuple[typing.Literal["a", "b"], bool], max_new_tokens=200)
    assert isinstance(found, tuple) and found[0] in ("a", "b") and isinstance(found[1], bool)


def test_json_is_returned_as_a_pydantic_model(llm):
    pydantic = pytest.importorskip("pydantic")

    class Person(pydantic.BaseModel):
        age: int = pydantic.Field(ge=0, le=99)
        likes: bool

    person = llm.json(MESSAGES, Person, max_new_tokens=200)
    assert isinstance(person, Person) and 0 <= person.age <= 99
