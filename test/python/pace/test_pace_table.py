"""Facts of AMD PACE 1.3.0's API that are one line each: arguments, defaults, flags, routes, values."""

import inspect
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import gallop.pace as pace
from gallop.pace import llm, server
from gallop.pace.llm import KVCacheType, LLMModel, SamplingConfig
from gallop.pace.llm.outputs import GeneratorOutput

np = pytest.importorskip("numpy")

from pace_data import ONCE, STORY, left_padded  # noqa: E402

EMPTY = inspect.Parameter.empty


def defaults(function):
    return {p.name: p.default for p in inspect.signature(function).parameters.values()}


ARGUMENTS = [
    (
        LLMModel,
        {
            "model_name_or_path": EMPTY,
            "tokenizer_name_or_path": None,
            "dtype": "bfloat16",  # PACE's is torch.bfloat16, which needs torch
            "kv_cache_type": KVCacheType.DYNAMIC,
            "spec_config": None,
            "opconfig": None,
            "disable_tqdm": False,
        },
    ),
    (
        LLMModel.for_serving,
        {
            "model_name_or_path": EMPTY,
            "dtype": "bfloat16",
            "kv_cache_type": KVCacheType.DYNAMIC,
            "opconfig": None,
        },
    ),
    (LLMModel.generate, {"prompt": EMPTY, "sampling_config": None, "text_streamer": None}),
    (LLMModel.step, {"inputs": EMPTY, "positions": EMPTY, "paged_attn_metadata": None}),
    (
        llm.PardSpecDecodeConfig,
        {
            "model_name_or_path": EMPTY,
            "pard_token": None,
            "num_speculative_tokens": 12,
            "draft_kv_cache_memory_gb": None,
        },
    ),
    (llm.OperatorConfig.finalize, {"cache_type": None}),
    (SamplingConfig.merge_from, {"other": None, "tokenizer": None}),
    (SamplingConfig.from_pretrained, {"generation_config_from_model": EMPTY}),
    (
        SamplingConfig.verify_max_new_tokens,
        {"initial_decoder_input_length": 0, "model_max_position_embeddings": 2048},
    ),
]


@pytest.mark.parametrize("function, expected", ARGUMENTS, ids=lambda x: getattr(x, "__name__", ""))
def test_arguments_have_their_defaults(function, expected):
    found = defaults(function)
    assert {name: found[name] for name in expected} == expected


def test_version():
    assert pace.__version_tuple__[:3] == (1, 3, 0) and pace.__version__.startswith("1.3.0")


FLAGS = {
    "server_host": "0.0.0.0",
    "server_port": 8000,
    "server_model": "facebook/opt-6.7b",
    "dtype": "bfloat16",
    "kv_cache_type": "BMC",
    "serve_type": "iterative",
    "op_config": "{}",
    "router_host": "0.0.0.0",
    "router_port": 8080,
    "scheduler_metrics_enabled": "False",
    "fastapi_log_level": "Default",
    "spec_config": "{}",
    "kv_cache_memory_gb": None,
    "token_budget": 2048,
    "max_num_running_reqs": 128,
    "max_prefill_chunk": 0,
    "enable_prometheus": "False",  # PACE's takes no value; this one may have one
    "numa_physcpubind": None,
    "numa_membind": None,
    "num_engine_instances": 1,
}


def test_flags_of_the_server_have_their_defaults():
    assert vars(server.parser().parse_args([])) == FLAGS


@pytest.mark.parametrize("name", [n for n in FLAGS if n != "enable_prometheus"])
def test_flags_of_the_server_take_a_value(name):
    text = {int: "7", float: "7", type(None): "7"}.get(type(FLAGS[name]), "x")
    found = getattr(server.parser().parse_args(["--" + name, text]), name)
    assert str(found) in (text, text + ".0")


def test_result_has_no_items():
    with pytest.raises(TypeError):
        GeneratorOutput([[1]])[0]


def test_results_of_whole_numbers_of_any_size_are_int64(model):
    for kind in (np.int32, np.int64):
        out = model.generate(np.array([ONCE], kind), SamplingConfig(max_new_tokens=2))
        assert str(out.output_token_ids.dtype).endswith("int64")  # of numpy or of torch
        assert out.output_token_ids.tolist() == [ONCE + STORY[:2]]


def test_config_of_another_kind_has_the_text_of_a_prompt_of_another_kind(model):
    with pytest.raises(NotImplementedError) as e:
        model.generate(np.array([ONCE]), {"top_k": 3})
    assert str(e.value).endswith("got <class 'dict'>")


def test_streamer_gets_int64_of_two_dimensions(model):
    calls = []

    class Streamer:
        def put(self, value):
            calls.append((str(value.dtype).rpartition(".")[2], tuple(value.shape)))

        def end(self):
            calls.append("end")

    batch = left_padded(ONCE, ONCE[:2])
    model.generate(batch, SamplingConfig(max_new_tokens=2), Streamer())
    assert calls == [("int64", (2, 5)), ("int64", (2, 1)), ("int64", (2, 1)), "end"]


def test_text_iterator_streamers_take_one_row(model):
    class TextStreamer:
        def put(self, value):
            raise AssertionError("put() of a refused streamer")

    class TextIteratorStreamer(TextStreamer):
        pass

    with pytest.raises(AssertionError, match="only supported for batch size of 1"):
        model.generate(np.array([ONCE, ONCE]), SamplingConfig(), TextIteratorStreamer())


@pytest.mark.parametrize("level, said", [("info", True), ("warning", False)])
def test_merged_config_is_logged_at_each_call(demo, level, said):
    script = (
        "from gallop.pace.llm import LLMModel, SamplingConfig;"
        "m = LLMModel(%r, disable_tqdm=True);"
        "[m.generate([[1, 435]], SamplingConfig(max_new_tokens=1)) for _ in range(2)]" % demo
    )
    env = dict(os.environ, PACE_LOG_LEVEL=level)
    run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert (run.stdout.count("SamplingConfig(") == 2) == said, run.stdout


@pytest.fixture(scope="module")
def router(demo):
    """The address of pace-server."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "gallop.pace.server", "--server_model", demo, "--dtype"]
    command += ["float32", "--router_host", "127.0.0.1", "--router_port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if "served at" in line:
                    break
            yield "http://127.0.0.1:%d" % port
        finally:
            process.terminate()
            process.stderr.read()


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            return r.status, json.loads(r.read() or b"{}")
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read() or b"{}")


@pytest.mark.parametrize(
    "path",
    ["/v1/health", "/v1/queue/status", "/v1/server_metrics", "/v1/config", "/v1/models"],
)
def test_router_answers(router, path):
    assert ask(router + path)[0] == 200


def test_router_knows_the_state_of_a_request(router):
    answer = ask(router + "/v1/completions", {"prompt": "Once", "max_tokens": 2})[1]
    assert ask(router + "/v1/status/" + answer["id"])[0] in (200, 404)


FIELDS = [
    # (members of a completion, the status, the number of tokens or None)
    ({}, 200, 16),
    ({"max_tokens": 3}, 200, 3),
    ({"max_tokens": 3, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1}, 200, 3),
    ({"max_tokens": 3, "min_tokens": 2, "ignore_eos": True, "do_sample": False}, 200, 3),
    ({"max_tokens": 3, "mlperf_mode": False, "skip_special_tokens": True}, 200, 3),
    ({"max_tokens": 3, "mlperf_mode": True}, 400, None),
    ({"max_tokens": 3, "do_sample": 1}, 400, None),
    ({"max_tokens": 3, "presence_penalty": 0.5, "logit_bias": {}}, 200, 3),
    ({"max_tokens": 3, "logprobs": 5}, 200, 3),
    ({"max_tokens": 3, "temperature": -1}, 400, None),
]


@pytest.mark.parametrize("fields, status, n", FIELDS, ids=lambda x: str(x)[:40])
def test_fields_of_completions(router, fields, status, n):
    found, answer = ask(router + "/v1/completions", {"prompt": "Once upon a time", **fields})
    assert found == status, answer
    assert n is None or answer["usage"]["completion_tokens"] == n


@pytest.mark.parametrize(
    "fields, greedy",
    [
        ({}, True),
        ({"temperature": 0}, True),
        ({"temperature": 1.5}, False),
        ({"do_sample": True}, True),
        ({"do_sample": True, "temperature": 1.5}, False),
        ({"do_sample": False, "temperature": 1.5}, True),
    ],
    ids=str,
)
def test_only_a_temperature_makes_the_router_sample(router, fields, greedy):
    """For completions and for chats."""
    for path, prompt in (
        ("/v1/completions", {"prompt": "Once upon a time"}),
        (
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": "Tell me a story."}],
                "chat_template_kwargs": {},
            },
        ),
    ):
        said = set()
        for seed in range(3):
            body = {**prompt, **fields, "seed": seed, "max_tokens": 12}
            status, answer = ask(router + path, body)
            assert status == 200, answer
            said.add(str(answer["choices"][0].get("text", answer["choices"][0].get("message"))))
        assert (len(said) == 1) == greedy
