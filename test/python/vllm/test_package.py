"""The package without an engine: its versions, its lookup of drafts, and how runs are divided."""
import importlib.metadata
import os
import re
import types

import gallop_vllm
import numpy as np
import pytest
from gallop_vllm import options, rules
from gallop_vllm.drafts import lookup
from gallop_vllm.sequences import Part, divide, pack
from reference import ROOT


def test_the_version_is_that_of_the_library():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
        version = re.search(r"project\(gallop VERSION ([0-9.]+)", f.read())[1]
    assert gallop_vllm.__version__ == version
    assert importlib.metadata.version("gallop-vllm") == version


def test_other_versions_of_vllm_are_left_alone(monkeypatch, caplog):
    assert gallop_vllm.register() == "gallop_vllm.platform.GallopPlatform"
    for version in ((0, 31, 2), (0, 33, 0), (1, 0, 0)):
        monkeypatch.setattr("vllm.version.__version_tuple__", version)
        assert gallop_vllm.register() is None


@pytest.mark.parametrize("tokens, n, longest, shortest, want", [
    ([1, 2, 3, 4, 1, 2], 3, 3, 1, [3, 4, 1]),
    ([1, 2, 3, 9, 2, 4, 5, 6, 1, 2], 2, 3, 1, [3, 9]),  # a longer match wins
    ([7, 2, 4, 5, 6, 2, 8, 5, 6, 2], 2, 1, 1, [8, 5]),  # the latest of those
    ([5, 5, 5, 5], 4, 3, 1, [5]),
    ([1, 2, 3], 3, 3, 1, []),
    ([1, 2, 3, 2], 3, 3, 2, []),  # the match is too short
    ([4], 3, 3, 1, []),
    ([], 3, 3, 1, []),
    ([1, 1], 0, 3, 1, []),
])
def test_drafts_follow_the_longest_latest_match(tokens, n, longest, shortest, want):
    assert lookup(np.array(tokens, np.int32), n, longest, shortest) == want


@pytest.mark.parametrize("sizes, room, want", [
    ([(5, 1), (1, 1)], 2, [[(0, 0, 5, 1), (1, 0, 1, 1)]]),
    ([(5, 5), (1, 1)], 4, [[(0, 0, 4, 4)], [(0, 4, 1, 1), (1, 0, 1, 1)]]),
    ([(9, 9), (7, 0)], 3, [[(0, 0, 3, 3)], [(0, 3, 3, 3)], [(0, 6, 3, 3), (1, 0, 7, 0)]]),
    ([(3, 3), (3, 3), (4, 2)], 4, [[(0, 0, 3, 3), (1, 0, 1, 1)], [(1, 1, 2, 2), (2, 0, 4, 2)]]),
    ([(1, 1)] * 3, 1, [[(0, 0, 1, 1)], [(1, 0, 1, 1)], [(2, 0, 1, 1)]]),
])
def test_runs_have_at_most_as_many_wanted_rows_as_fit(sizes, room, want):
    parts = []
    for n, n_wanted in sizes:
        part = Part(None, 0, n, (), False)
        part.n_wanted = n_wanted
        parts.append(part)
    got = [[(parts.index(p), *rest) for p, *rest in run] for run in pack(parts, room)]
    assert got == want


def test_an_executor_that_does_not_mix_gets_prompts_one_by_one():
    parts = []
    for n, n_wanted in ((1, 1), (5, 1), (1, 1), (4, 4), (1, 0)):
        part = Part(None, 0, n, (), False)
        part.n_wanted = n_wanted
        parts.append(part)

    def runs(mixes):
        return [[(parts.index(p), begin, n) for p, begin, n, _ in run]
                for run in divide(parts, 3, mixes)]
    assert runs(False) == [[(1, 0, 5)], [(3, 0, 3)], [(3, 3, 1)], [(0, 0, 1), (2, 0, 1), (4, 0, 1)]]
    assert runs(True) == [[(0, 0, 1), (1, 0, 5), (2, 0, 1)], [(3, 0, 3)], [(3, 3, 1), (4, 0, 1)]]
    assert list(divide([], 3, False)) == []


@pytest.mark.parametrize("own, says", [
    ({"executor": "pjrt", "kv_cache_type": "paged"}, None),
    ({"executor": "pjrt"}, None),
    ({"executor": "pjrt", "mode": "blocks"}, "slots, not blocks"),
    ({"executor": "eager", "pjrt_device": 0}, "pjrt_device needs the executor pjrt"),
    ({"executor": 3}, "executor is 3, expected a string"),
    ({"kv_cache_type": "paged"}, "needs the mode slots"),
    ({"kv_cache_dtype": "fp8"}, "expected one of fp32, bf16, int8, int4"),
    ([], "expected an object"),
])
def test_options_are_checked(own, says):
    if says:
        with pytest.raises(ValueError, match=says):
            options.given({"gallop": own})
    else:
        assert options.has_slots(options.given({"gallop": own}))


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e5m2", "float16", "nvfp4", "turboquant_k8v4"])
def test_formats_of_kv_rows_are_refused_by_name(dtype):
    with pytest.raises(ValueError, match=f"found {dtype}"):
        options.kv_dtype({}, dtype)
    assert options.kv_dtype({}, "int4_per_token_head") == "int4"
    with pytest.raises(ValueError, match="differ"):
        options.kv_dtype({"kv_cache_dtype": "int8"}, "bfloat16")


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
@pytest.mark.parametrize("value, says", [
    (None, None), (0, None), (1024, None), (1025, "is 1025, but gallop-vllm supports at most 1024"),
    (-1, "is -1 .all tokens., but gallop-vllm supports at most 1024")])
def test_more_log_probabilities_than_are_computed_are_refused(name, value, says):
    params = types.SimpleNamespace(**{"logprobs": None, "prompt_logprobs": None, name: value})
    found = rules.unsupported(params)
    assert found is None if says is None else re.fullmatch(f"{name} {says}", found)


@pytest.mark.parametrize("value, n_vocab, want", [(None, 9, -1), (0, 9, 0), (9, 9, 9), (20, 9, 9)])
def test_log_probabilities_are_counted(value, n_vocab, want):
    assert rules.Rules._count(value, n_vocab) == want


def test_weights_of_another_model_are_refused():
    options.check_weights({}, (4, 2048), (5, 2048))
    options.check_weights({"model": "F"}, (5, 2048), (5, 2048))
    for found in ((4, 2048), (5, 2047)):
        with pytest.raises(ValueError, match="model F has %d layers and a vocabulary of %d" % found):
            options.check_weights({"model": "F"}, found, (5, 2048))
