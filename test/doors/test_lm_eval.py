"""gallop.integrations.lm_eval."""
import math

import pytest

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model

from gallop.integrations.lm_eval import GallopLM


def asked(kind, *rows):
    return [Instance(request_type=kind, doc={}, arguments=row, idx=0) for row in rows]


@pytest.fixture(scope="module")
def lm(llm):
    return GallopLM(llm=llm)


def test_the_model_is_registered():
    assert get_model("gallop") is GallopLM


def test_the_likelihood_of_a_continuation_is_that_of_its_tokens(lm, llm):
    best = llm.generate("Once upon a time", max_new_tokens=1, temperature=0)
    rows = asked("loglikelihood", ("Once upon a time", best.text),
                 ("Once upon a time", " zebra"), ("", "Once upon"))
    (one, greedy), (other, unlikely), (first, _) = lm.loglikelihood(rows, disable_tqdm=True)
    whole, before = llm.tokenize("Once upon a time zebra"), llm.tokenize("Once upon a time")
    assert math.isclose(other, sum(llm.score(whole).logprobs[len(before):]), abs_tol=1e-3)
    assert greedy and not unlikely and one > other and first < 0


def test_a_long_text_is_scored_in_windows(llm):
    """Windows of at most 9 tokens, of which the first is only context."""
    text = "Once upon a time there was a cat. " * 4
    lm = GallopLM(llm=llm, max_length=9)
    found, = lm.loglikelihood_rolling(asked("loglikelihood_rolling", (text,)))
    ids = [lm.prefix_token_id, *llm.tokenize(text, special=False)]
    want = 0.0
    for first in range(1, len(ids), 8):
        end = min(first + 8, len(ids))
        scores = llm.score(ids[end - 9:end]).logprobs
        want += sum(scores[first - end:])
    assert len(ids) > 18 and math.isclose(found, want, abs_tol=1e-3)


def test_generation_ends_before_the_stop_string(lm, llm):
    whole = llm.generate("The cat sat", max_new_tokens=12, temperature=0).text
    task = {"until": [whole[4:7]], "max_gen_toks": 12, "do_sample": False}
    rows = asked("generate_until", ("The cat sat", task), ("The cat sat", {"max_gen_toks": 12}))
    assert lm.generate_until(rows) == [whole[:whole.index(whole[4:7])], whole]


def test_the_harness_evaluates_a_task(lm):
    datasets = pytest.importorskip("datasets")
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask

    rows = [{"q": "The cat sat on the", "c": [" mat", " zebra"], "a": 0}] * 3
    task = ConfigurableTask(config={
        "task": "cats", "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list(rows)},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "q",
        "doc_to_choice": "c", "doc_to_target": "a", "target_delimiter": ""})
    found = simple_evaluate(model=lm, tasks=[task], bootstrap_iters=0)
    assert found["results"]["cats"]["acc,none"] in (0.0, 1.0)
