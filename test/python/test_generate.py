"""Answers of the Python package: the same as those of the program, whole and in chunks."""
import array
import asyncio
import json

import gallop
import pytest

PROMPTS = ["Once upon a time", "The cat sat on", "Question: what is 3 plus 4?", "Ü"]


def of_program(program, prompt, n):
    line = program("run", "-m", gallop.DEMO, "--json", "-n", str(n), "--greedy", "--", prompt)
    return json.loads(line)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_an_answer_is_that_of_the_program(llm, program, prompt):
    expected = of_program(program, prompt, 24)
    assert llm.generate(prompt, max_new_tokens=24, do_sample=False).text == expected["text"]


def test_prompts_of_a_list_get_the_answers_that_they_get_alone(llm):
    together = llm.generate(PROMPTS, max_new_tokens=16)
    assert [r.text for r in together] == [llm.generate(p, max_new_tokens=16).text for p in PROMPTS]
    assert llm.generate([]) == []


def test_chunks_of_a_stream_make_the_answer(llm):
    whole = llm.generate("Once upon a time", max_new_tokens=30)
    stream = llm.stream("Once upon a time", max_new_tokens=30)
    chunks = list(stream)
    assert "".join(c.text for c in chunks) == whole.text
    assert [c.token for c in chunks if c.token is not None] == whole.ids
    assert [c.finish_reason for c in chunks] == [None] * 30 + ["length"]
    assert stream.result.ids == whole.ids and stream.result.n_output == 30
    assert list(stream) == []


def test_token_ids_are_a_prompt(llm):
    text = llm.generate("The cat sat on", max_new_tokens=5, prompt_logprobs=0)
    ids = [r.token for r in text.prompt_logprobs]
    first = llm.generate("", max_new_tokens=1).n_prompt  # BOS, or nothing
    assert text.n_prompt == len(ids) + 1 and first <= 1
    with pytest.raises(gallop.BadInput, match="outside the vocabulary"):
        llm.generate([999999])


def test_numbers_and_arrays_of_numpy_are_token_ids(llm):
    numpy = pytest.importorskip("numpy")
    ids = llm.tokenize("The cat sat on")
    expected = llm.generate(ids, max_new_tokens=5).text
    rows = numpy.array([ids, ids])
    for one in ([numpy.int64(i) for i in ids], numpy.array(ids), numpy.array(ids, "uint16"),
                tuple(numpy.array(ids, "int32")), array.array("i", ids)):
        assert llm.generate(one, max_new_tokens=5).text == expected
        assert llm.score(one).tokens == list(ids) and len(llm.embed(one)) == 192
    for many in (rows, list(rows), [list(r) for r in rows]):
        assert [r.text for r in llm.generate(many, max_new_tokens=5)] == [expected] * 2
    assert llm.detokenize(numpy.array(ids)) == llm.detokenize(ids)
    stop = numpy.int64(llm.generate(ids, max_new_tokens=1).ids[0])
    for stops in (stop, [stop], numpy.array([stop])):
        r = llm.generate(ids, max_new_tokens=5, stop_token=stops)
        assert (r.finish_reason, r.stop_reason) == ("stop", stop)
    for wrong in (numpy.array(ids, "float32"), [numpy.float32(1)], numpy.array(5),
                  numpy.zeros((1, 1, 1))):
        with pytest.raises(gallop.BadInput, match="token ids"):
            llm.generate(wrong)


def test_log_probabilities_of_tokens_and_prompts(llm):
    r = llm.generate("The cat sat on", max_new_tokens=4, logprobs=2, prompt_logprobs=1)
    assert [x.token for x in r.logprobs] == r.ids
    assert all(len(x.top) == 2 and x.top[0] == (x.token, x.logprob) for x in r.logprobs)
    assert all(x.rank >= 1 and len(x.top) == 1 for x in r.prompt_logprobs)
    assert llm.generate("The", max_new_tokens=1).logprobs is None


def test_several_answers_draw_with_seeds_that_follow(llm):
    r = llm.generate("Once", n=3, max_new_tokens=8, temperature=1.0, seed=5)
    alone = [llm.generate("Once", max_new_tokens=8, temperature=1.0, seed=5 + i) for i in range(3)]
    assert [c.text for c in r.choices] == [a.text for a in alone]
    assert [c.index for c in r.choices] == [0, 1, 2]


DRAWS = {"max_new_tokens": 16, "temperature": 1.5, "ignore_eos": True}


def drawn(llm, **more):
    """Returns the ids of three requests, of a list of three, of three streams and of three turns."""
    async def coroutines():
        return [await llm.agenerate("Once", **DRAWS, **more) for _ in range(3)] + \
            await llm.agenerate(["Once"] * 3, **DRAWS, **more)

    alone = [llm.generate("Once", **DRAWS, **more).ids for _ in range(3)]
    rows = [r.ids for r in llm.generate(["Once"] * 3, **DRAWS, **more)]
    streams = [[c.token for c in llm.stream("Once", **DRAWS, **more) if c.token is not None]
               for _ in range(3)]
    later = [r.ids for r in asyncio.run(coroutines())]
    return [[tuple(x) for x in group] for group in (alone, rows, streams, later[:3], later[3:])]


def test_requests_without_a_seed_differ(llm):
    everything = [x for group in drawn(llm) for x in group]
    assert len(set(everything)) == len(everything) == 15
    chat = llm.chat(**DRAWS)
    assert len({tuple(chat.send("Once").ids) for _ in range(3)}) == 3


def test_a_seed_repeats_a_request_and_each_prompt_of_a_list_has_its_own(llm):
    alone, rows, streams, later, many = drawn(llm, seed=7)
    own = [tuple(llm.generate("Once", seed=7 + i, **DRAWS).ids) for i in range(3)]
    assert len(set(own)) == 3
    assert alone == streams == later == own[:1] * 3 and rows == many == own
    both = llm.generate(["Once"] * 2, n=2, seed=7, **DRAWS)
    assert [tuple(c.ids) for r in both for c in r.choices] == \
        own + [tuple(llm.generate("Once", seed=10, **DRAWS).ids)]
    last = 2 ** 64 - 1
    assert [r.ids for r in llm.generate(["Once"] * 2, seed=last, **DRAWS)] == [
        llm.generate("Once", seed=s, **DRAWS).ids for s in (last, 0)]


def test_the_seed_of_an_engine_is_that_of_requests_without_one(llm):
    with gallop.LLM(dtype="fp32", seed=7) as engine:
        assert engine.generate("Once", **DRAWS).ids == llm.generate("Once", seed=7, **DRAWS).ids
        ids = llm.generate("Once", seed=8, **DRAWS).ids
        assert engine.generate("Once", seed=8, **DRAWS).ids == ids


def test_a_stop_text_ends_an_answer_and_is_named(llm):
    r = llm.generate("Once upon a time", max_new_tokens=60, stop=["."])
    assert (r.finish_reason, r.stop_reason) == ("stop", ".") and "." not in r.text


def test_constraints(llm):
    assert llm.generate("A digit:", regex="[0-9]{3}", max_new_tokens=9).text.isdigit()
    assert llm.generate("Colour:", choice=["red", "blue"], max_new_tokens=9).text in ("red", "blue")
    assert llm.generate("x", grammar='root ::= "yes" | "no"', max_new_tokens=9).text in ("yes", "no")
