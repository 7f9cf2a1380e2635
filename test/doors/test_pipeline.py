"""gallop.integrations.pipeline."""
import subprocess
import sys

import gallop
import pytest
from gallop.integrations import pipeline


def test_importing_the_package_imports_no_integration():
    code = "import gallop, sys; print([m for m in sys.modules if 'integrations' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip() == "[]"


def test_outputs_have_the_shape_of_hugging_face(llm):
    generator = pipeline("text-generation", model=llm, max_new_tokens=8)
    text = llm.generate("The cat sat", max_new_tokens=8).text
    assert generator("The cat sat") == [{"generated_text": "The cat sat" + text}]
    assert generator("The cat sat", return_full_text=False) == [{"generated_text": text}]
    assert generator(["The cat sat"]) == [[{"generated_text": "The cat sat" + text}]]
    assert generator("The cat sat", do_sample=False, temperature=9.0, return_full_text=False) == [
        {"generated_text": text}]
    drawn = [generator("The cat sat", do_sample=True, seed=i)[0]["generated_text"]
             for i in range(8)]
    assert len(set(drawn)) > 1
    tokens = generator("The cat sat", return_tensors=True)[0]["generated_token_ids"]
    assert tokens[:len(llm.tokenize("The cat sat"))] == llm.tokenize("The cat sat")
    rows = generator("One", num_return_sequences=2, do_sample=True, temperature=1.0)
    assert len(rows) == 2 and all(r["generated_text"].startswith("One") for r in rows)
    asks = [{"role": "user", "content": "Hi"}]
    (row,) = generator(asks)
    assert row["generated_text"][:1] == asks
    assert row["generated_text"][1]["role"] == "assistant"
    assert generator([asks]) == [[row]]


def test_answers_of_a_list_are_those_of_its_members(llm):
    generator = pipeline("text-generation", model=llm, max_new_tokens=8)
    texts = ["The cat sat", "One day", "Once upon a time"]
    chats = [[{"role": "user", "content": t}] for t in texts]
    for inputs in (texts, tuple(texts), chats):
        rows = [generator(x) for x in inputs]
        assert generator(inputs, batch_size=2) == rows
        assert list(generator((x for x in inputs), batch_size=2)) == rows
    assert generator([]) == []
    rows = generator(texts, num_return_sequences=2, do_sample=True, seed=1, temperature=1.0)
    assert [len(r) for r in rows] == [2, 2, 2] and rows[0][0] != rows[0][1]


def test_the_last_message_of_the_assistant_is_continued(llm):
    generator = pipeline("text-generation", model=llm, max_new_tokens=8)
    chat = [{"role": "user", "content": "What is 3 plus 4?"},
            {"role": "assistant", "content": "The answer"}]
    prompt = llm.render(chat, add_generation_prompt=False, continue_final_message=True)
    want = llm.generate(llm.tokenize(prompt, special=False), max_new_tokens=8).text
    assert generator(chat)[0]["generated_text"] == [
        chat[0], {"role": "assistant", "content": "The answer" + want}]
    new, = generator(chat, return_full_text=False, continue_final_message=False)
    assert new["generated_text"] == llm.generate(chat, max_new_tokens=8).text


def test_the_text_that_ends_an_answer_is_kept(llm):
    generator = pipeline("text-generation", model=llm, max_new_tokens=12, return_full_text=False)
    whole = generator("The cat sat")[0]["generated_text"]
    end = whole[4:7]
    for name in ("stop_sequence", "stop_strings"):
        said = generator("The cat sat", **{name: end})[0]["generated_text"]
        assert said == whole[:whole.index(end) + 3]
    assert generator("The cat sat", stop=[end])[0]["generated_text"] == whole[:whole.index(end)]


def test_lengths_count_the_prompt_where_they_should(llm):
    generator = pipeline("text-generation", model=llm)
    texts = ["The cat sat", "Once upon a time there was a cat"]
    sizes = [len(llm.tokenize(t)) for t in texts]
    rows = generator(texts, max_length=20, ignore_eos=True, return_tensors=True)
    assert [len(r[0]["generated_token_ids"]) for r in rows] == [20, 20]
    both = generator(texts, max_length=20, max_new_tokens=3, ignore_eos=True, return_tensors=True)
    assert [len(r[0]["generated_token_ids"]) for r in both] == [n + 3 for n in sizes]
    with pytest.raises(gallop.BadInput, match="max_length: found 2, expected more than"):
        generator("The cat sat", max_length=2)
    long = "The cat sat. " * 1000
    kept, = generator(long, max_new_tokens=4, handle_long_generation="hole", ignore_eos=True,
                      return_tensors=True)
    assert len(kept["generated_token_ids"]) == llm.info.max_model_len
    with pytest.raises(ValueError):
        generator("The cat sat", handle_long_generation="cut")


def test_a_prefix_and_an_end_token_apply(llm):
    generator = pipeline("text-generation", model=llm, generate_kwargs={"max_new_tokens": 8})
    want = llm.generate("Once upon a time", max_new_tokens=8)
    said, = generator(" upon a time", prefix="Once")
    assert said["generated_text"] == " upon a time" + want.text
    ended, = generator("Once upon a time", eos_token_id=want.ids[2], return_tensors=True)
    assert ended["generated_token_ids"] == llm.tokenize("Once upon a time") + want.ids[:3]


def test_options_of_the_engine_are_understood():
    class dtype:
        def __str__(self):
            return "torch.float32"

    generator = pipeline(model=gallop.DEMO, torch_dtype=dtype(), device="cpu", revision="main",
                         model_kwargs={"threads": 1}, trust_remote_code=False, max_new_tokens=4)
    assert generator.llm.info.dtype == "fp32" and generator.llm.info.threads == 1
    assert generator("Once", padding=True, use_cache=True)[0]["generated_text"].startswith("Once")
    generator.llm.close()


def test_a_wrong_task_or_parameter_is_refused(llm):
    for wrong in ({"return_text": True, "return_full_text": True},
                  {"return_tensors": True, "return_full_text": False},
                  {"return_tensors": True, "return_text": True}):
        with pytest.raises(ValueError, match="together"):
            pipeline(model=llm)("Hi", **wrong)
    with pytest.raises(gallop.BadInput, match="text_inputs"):
        pipeline(model=llm)([5])
    with pytest.raises(gallop.Unsupported):
        pipeline("fill-mask", model=llm)
    with pytest.raises(TypeError):
        pipeline(model=llm)("Hi", max_new_token=3)
    with pytest.raises(gallop.BadInput):
        pipeline(model=llm, max_num_seqs=2)
