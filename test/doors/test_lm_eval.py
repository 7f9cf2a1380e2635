"""gallop.integrations.lm_eval."""
import json
import math
import os
import subprocess
import sys

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


@pytest.mark.parametrize("more, n", [({}, 12), ({"max_gen_toks": None}, 12), ({"stop_token": 5}, 12),
                                     ({"logit_bias": {7: 100}}, 3)])
def test_parameters_of_a_task_reach_the_request(lm, llm, more, n):
    own = {k: v for k, v in more.items() if k != "max_gen_toks"}
    want = llm.generate("The cat sat", max_new_tokens=n, temperature=0, **own).text
    task = {"max_new_tokens": n, **more}
    assert lm.generate_until(asked("generate_until", ("The cat sat", task))) == [want]


def test_a_parameter_of_a_task_that_does_not_exist_is_a_type_error(lm):
    with pytest.raises(TypeError, match="temprature"):
        lm.generate_until(asked("generate_until", ("The cat sat", {"temprature": 1})))


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


TASK = """
task: cats
dataset_path: json
dataset_kwargs: {{data_files: {{test: {path}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: q
doc_to_choice: c
doc_to_target: a
target_delimiter: ""
"""


def test_the_command_line_evaluates_a_local_task(tmp_path, llm):
    """The recipe of docs/PYTHON.md; "mat" is likelier than "zebra" or not, as llm.score() says."""
    pytest.importorskip("datasets")
    rows = [{"q": "The cat sat on the", "c": [" mat", " zebra"], "a": 0},
            {"q": "The cat sat on the", "c": [" mat", " zebra"], "a": 1}]
    (tmp_path / "cats.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (tmp_path / "cats.yaml").write_text(TASK.format(path=tmp_path / "cats.jsonl"))
    done = subprocess.run(
        [sys.executable, "-m", "gallop.integrations.lm_eval", "run", "--model", "gallop",
         "--model_args", "max_length=64,threads=1", "--include_path", str(tmp_path), "--tasks",
         "cats", "--output_path", str(tmp_path / "out")], text=True, capture_output=True,
        timeout=300, stdin=subprocess.DEVNULL, cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    results, = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(results.read_text())
    assert found["results"]["cats"]["acc,none"] == 0.5
    assert found["config"]["model"] == "gallop"
