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


def test_a_wrong_task_or_parameter_is_refused(llm):
    with pytest.raises(gallop.Unsupported):
        pipeline("fill-mask", model=llm)
    with pytest.raises(TypeError):
        pipeline(model=llm)("Hi", max_new_token=3)
    with pytest.raises(gallop.BadInput):
        pipeline(model=llm, max_num_seqs=2)
