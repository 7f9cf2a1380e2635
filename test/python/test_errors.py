"""Errors of the Python package: classes, sentences, fields, similar names."""
import os

import gallop
import pytest

WRONG = [
    ({"temperature": -1}, gallop.BadInput, "temperature"),
    ({"top_p": 2}, gallop.BadInput, "top_p"),
    ({"temperature": "hot"}, gallop.BadInput, "temperature"),
    ({"max_new_tokens": 1.5}, gallop.BadInput, "max_new_tokens"),
    ({"max_new_tokens": 1 << 80}, gallop.BadInput, "max_new_tokens"),
    ({"stop": [1]}, gallop.BadInput, "stop"),
    ({"stop": "a\0b"}, gallop.BadInput, "stop"),
    ({"stop_token": ["x"]}, gallop.BadInput, "stop_token"),
    ({"logit_bias": [1]}, gallop.BadInput, "logit_bias"),
    ({"pooling": "median"}, gallop.BadInput, "pooling"),
    ({"regex": "("}, gallop.BadInput, "structured_outputs"),
    ({"n": 1000}, gallop.BadInput, "n"),
    ({"json_schema": {"type": "strange"}}, gallop.BadInput, "structured_outputs"),
]


@pytest.mark.parametrize("sampling, kind, field", WRONG)
def test_a_wrong_parameter_is_named(llm, sampling, kind, field):
    with pytest.raises(kind) as e:
        llm.generate("Once", **sampling)
    assert e.value.field == field and e.value.code == "BAD_INPUT", str(e.value)
    assert isinstance(e.value, ValueError) and field in str(e.value)


@pytest.mark.parametrize("prompt", [None, 5, {"role": "user"}, object()])
def test_a_prompt_that_is_none_is_refused(llm, prompt):
    with pytest.raises(gallop.BadInput, match="prompt"):
        llm.generate(prompt)


def test_a_surrogate_is_refused(llm):
    with pytest.raises(gallop.BadInput, match="surrogate"):
        llm.generate("a\ud800")


@pytest.mark.parametrize("name, near", [("temprature", "temperature"), ("max_token", "max_tokens"),
                                        ("zzz", None)])
def test_an_unknown_parameter_is_answered_with_similar_names(llm, name, near):
    for function in (llm.generate, llm.stream):
        with pytest.raises(TypeError, match=name) as e:
            function("Once", **{name: 1})
        assert near in str(e.value) if near else "did you mean" not in str(e.value)


def test_an_unknown_option_is_answered_with_similar_names():
    with pytest.raises(TypeError, match="did you mean 'max_model_len'"):
        gallop.LLM(max_model_length=5)


@pytest.mark.parametrize("options, field", [({"max_model_len": 1}, "max_model_len"),
                                            ({"dtype": "fp8"}, "dtype"),
                                            ({"quant": {"mlp": "int9"}}, "quant"),
                                            ({"threads": 5000}, "threads")])
def test_a_wrong_option_is_named(options, field):
    with pytest.raises(gallop.BadInput) as e:
        gallop.LLM(**options)
    assert e.value.field == field, str(e.value)


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(gallop.GallopError, match="no such folder or file"):
        gallop.LLM(tmp_path / "none")
    os.mkdir(tmp_path / "empty")
    with pytest.raises(gallop.GallopError, match="empty"):
        gallop.LLM(str(tmp_path / "empty"))


def test_progress_and_download_are_called():
    seen = []
    with gallop.LLM(progress=lambda done, total: seen.append((done, total)), threads=1):
        assert seen and seen[-1][0] == seen[-1][1]


def test_exceptions_are_those_of_python():
    assert issubclass(gallop.OSFailure, OSError) and issubclass(gallop.NoMemory, MemoryError)
    for kind in (gallop.BadInput, gallop.OSFailure, gallop.NoMemory, gallop.Unsupported):
        error = kind("a sentence", "a_field")
        assert (str(error), error.field) == ("a sentence", "a_field")


def test_an_answer_with_an_error_raises_alone_and_is_returned_in_a_list(llm):
    wrong = {"stop": ["x"], "choice": ["a"], "bad_words": ["a"], "max_new_tokens": 4}
    with pytest.raises(gallop.GallopError):
        llm.generate("Once", **wrong)
    assert [r.finish_reason for r in llm.generate(["Once"], **wrong)] == ["error"]


def test_embeddings_and_scores_of_a_request_with_an_error_raise(llm):
    for function in (llm.embed, llm.score):
        for text in ("Once", ["Once", "Twice"]):
            with pytest.raises(gallop.GallopError, match="deadline"):
                function(text, deadline_s=1e-9)


def test_an_answer_with_an_error_has_a_code_of_its_own(llm):
    with pytest.raises(gallop.GallopError) as e:
        llm.generate("Once", stop=["x"], choice=["a"], bad_words=["a"], max_new_tokens=4)
    assert e.value.code == "ERROR"


def test_an_empty_name_is_not_the_small_model():
    with pytest.raises(gallop.GallopError):
        gallop.LLM("")


@pytest.mark.parametrize("name, value", [("tools", [{"type": "function"}]),
                                         ("chat_template_kwargs", {"enable_thinking": False})])
def test_tools_with_a_prompt_that_is_a_text_are_refused(llm, name, value):
    for call in (llm.generate, llm.stream, llm.chat().send):
        with pytest.raises(gallop.BadInput, match="list of messages") as e:
            call("Once", **{name: value})
        assert e.value.field == name


@pytest.mark.parametrize("name", ["pooling", "return_logits", "return_probs", "return_prompt_logits"])
def test_what_a_result_cannot_have_is_refused(llm, name):
    for call in (llm.generate, llm.stream, llm.chat().send, llm.json, llm.embed, llm.score):
        with pytest.raises((gallop.BadInput, TypeError), match=name):
            call("Once", **{name: 1})
    with pytest.raises(gallop.BadInput, match=r"generate\(\) cannot return it") as e:
        llm.generate("Once", **{name: 1})
    assert e.value.field == name
    for text in (gallop.parameters, lambda: str(gallop.Parameters.__annotations__)):
        assert name not in text()


def test_what_embeddings_scores_and_picks_do_not_use_is_a_type_error(llm):
    for call, names in ((llm.embed, ("temperature", "n", "regex", "max_new_tokens", "logprobs")),
                        (llm.score, ("temperature", "n", "regex", "max_new_tokens", "no_special"))):
        for name in names:
            with pytest.raises(TypeError, match=name):
                call("Once", **{name: 1})
        assert call("Once", priority=1, cache_salt="a", key="b", deadline_s=60)
    assert llm.embed("Once", no_special=1) == llm.embed(llm.tokenize("Once", special=False))
    with gallop.Executor(gallop.DEMO) as x:
        for name in ("regex", "priority", "tools", "n"):
            with pytest.raises(TypeError, match=name):
                x.run([gallop.Rows([1], pick={"do_sample": False, name: 1})])


def test_one_parameter_with_two_names_is_refused(llm):
    for call in (llm.generate, llm.chat().send):
        with pytest.raises(gallop.BadInput, match="max_tokens.* max_new_tokens") as e:
            call("Once", max_new_tokens=3, max_tokens=3)
        assert e.value.field == "max_tokens"
    assert llm.generate("Once", max_new_tokens=None, max_tokens=3).n_output == 3
    assert llm.generate("Once", max_new_tokens=3, max_tokens=None).n_output == 3


def test_a_number_that_is_none_is_refused(llm):
    for name in ("temperature", "deadline_s"):
        with pytest.raises(gallop.BadInput, match=f"{name}: nan is not a number"):
            llm.generate("Once", max_new_tokens=1, **{name: float("nan")})


def test_a_stream_has_the_log_probabilities_of_its_prompt(llm):
    whole = llm.generate("Once upon a time", max_new_tokens=3, prompt_logprobs=2, n=2)
    stream = llm.stream("Once upon a time", max_new_tokens=3, prompt_logprobs=2, n=2)
    for _ in stream:
        pass
    assert stream.result.prompt_logprobs == whole.prompt_logprobs != []
    assert [r.prompt_logprobs for r in stream.result.choices[1:]] == [None]
