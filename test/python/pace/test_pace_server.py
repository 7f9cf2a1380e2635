"""pace-server: its options as arguments of gallop serve."""

import json
import os
import socket
import subprocess
import sys
import urllib.request

import pytest

from gallop.pace import server


def serve(*argv):
    options, extra = server.parser().parse_known_args(list(argv))
    return server.arguments(options, extra)


def value(argv, name):
    return argv[argv.index(name) + 1]


def test_defaults():
    argv, remarks = serve()
    assert (
        argv
        == (
            "serve -m facebook/opt-6.7b --host 127.0.0.1 --port 8080 --dtype bf16 --kv-cache-type bmc "
            "--scheduler iterative --generation-config pace --max-num-seqs 128 "
            "--max-num-batched-tokens 2048"
        ).split()
    )
    assert remarks == []


TABLE = [
    (["--server_model", "models/demo"], "-m", "models/demo"),
    (["--router_port", "9000"], "--port", "9000"),
    (["--router_host", "127.0.0.1"], "--host", "127.0.0.1"),
    (["--dtype", "torch.float32"], "--dtype", "fp32"),
    (["--dtype", "BF16"], "--dtype", "bf16"),
    (["--kv_cache_type", "PAGED"], "--kv-cache-type", "paged"),
    (["--kv_cache_type", "dynamic"], "--kv-cache-type", "dynamic"),
    (["--serve_type", "continuous_prefill_first"], "--scheduler", "continuous_prefill_first"),
    (["--serve_type", "continuous_batch"], "--kv-cache-type", "slab_pool"),
    (["--serve_type", "continuous_batch", "--kv_cache_type", "PAGED"], "--kv-cache-type", "paged"),
    (["--kv_cache_memory_gb", "2.5"], "--kv-cache-memory", "2.5"),
    (["--token_budget", "512"], "--max-num-batched-tokens", "512"),
    (["--token_budget", "64"], "--max-num-batched-tokens", "128"),
    (["--max_prefill_chunk", "256"], "--max-num-batched-tokens", "256"),
    (["--max_num_running_reqs", "16"], "--max-num-seqs", "16"),
    (["--quant", "int8"], "--quant", "int8"),
]


@pytest.mark.parametrize("argv, name, expected", TABLE)
def test_option(argv, name, expected):
    assert value(serve(*argv)[0], name) == expected


def test_speculation():
    spec = '{"model_name": "draft", "num_speculative_tokens": 8, "type": "pard"}'
    config = json.loads(value(serve("--spec_config", spec)[0], "--speculative-config"))
    assert config == {"method": "draft_model", "model": "draft", "num_speculative_tokens": 8}


@pytest.mark.parametrize(
    "more", [["--api-key", "k"], ["--api-key=k"], ["--api-key-file", "F"], ["--allow-no-keys"]]
)
def test_other_machines_may_use_a_server_with_keys(more):
    argv, remarks = serve(*more)
    assert value(argv, "--host") == "0.0.0.0" and argv[-len(more) :] == more and remarks == []
    assert ("--allow-no-keys" in argv) == ("--allow-no-keys" in more)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_an_address_that_is_asked_for_is_that_of_the_server(host):
    """The program refuses one that other machines can reach, without keys."""
    argv, remarks = serve("--router_host", host)
    assert value(argv, "--host") == host and remarks == [] and "--allow-no-keys" not in argv


def test_server_for_other_machines_without_keys_does_not_start(demo):
    command = [sys.executable, "-m", "gallop.pace.server", "--server_model", demo]
    done = subprocess.run(
        command + ["--router_host", "0.0.0.0", "--router_port", "0"],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 2 and "needs --api-key" in done.stderr


def test_server_says_that_only_this_machine_can_use_it(demo, monkeypatch, capsys):
    hosts = []
    monkeypatch.setattr(server.os, "execv", lambda path, argv: hosts.append(value(argv, "--host")))
    for more, n in (([], 1), (["--api-key", "k"], 0), (["--router_host", "127.0.0.1"], 0)):
        server.main(["--server_model", demo, *more])
        assert capsys.readouterr().err.count("only this machine") == n
    assert hosts == ["127.0.0.1", "0.0.0.0", "127.0.0.1"]


def test_options_without_counterpart_are_accepted():
    argv, remarks = serve(
        *"--server_host 1.2.3.4 --server_port 1 --scheduler_metrics_enabled True "
        "--enable_prometheus --num_engine_instances 2 --fastapi_log_level error".split(),
        "--op_config",
        '{"mlp_backend": "native", "x": "y"}',
    )
    assert "--no-access-log" in argv and "1.2.3.4" not in argv
    assert len(remarks) == 2 and "--op-config" not in argv


def test_backends_of_operators_are_asked_for_where_the_build_has_them():
    config = {
        "mlp_backend": "IMBPS",
        "norm_backend": "JIT",
        "attention_backend": "SLAB",
        "lm_head_backend": "NATIVE",
        "out_projection_backend": "fast",
        "rope_backend": "NATIVE",
    }
    argv, remarks = serve("--op_config", json.dumps(config), "--serve_type", "continuous_batch")
    assert json.loads(value(argv, "--op-config")) == {"mlp_backend": "imbps"}
    assert value(argv, "--attention-backend") == "slab"
    assert len(remarks) == 3 and "norm_backend" in remarks[0] and "fast" in remarks[1]


@pytest.mark.parametrize(
    "argv",
    [
        ["--dtype", "fp16"],
        ["--kv_cache_type", "pool"],
        ["--serve_type", "eager"],
        ["--spec_config", "[1]"],
        ["--spec_config", '{"type": "pard"}'],
        ["--spec_config", '{"type": "eagle", "model_name": "x"}'],
        ["--op_config", "{"],
    ],
)
def test_wrong_values_are_named(argv):
    with pytest.raises(ValueError, match=argv[0]):
        serve(*argv)


@pytest.mark.parametrize("text, cores", [("3", [3]), ("0-2,5", [0, 1, 2, 5]), ("1;0", [0, 1])])
def test_lists_of_cores(text, cores):
    assert server._cores(text) == cores


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1-b"])
def test_wrong_lists_of_cores(text):
    with pytest.raises(ValueError, match="numa_physcpubind"):
        server._cores(text)


def test_server_answers(demo):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "gallop.pace.server", "--server_model", demo]
    command += ["--router_host", "127.0.0.1", "--router_port", str(port), "--dtype", "float32"]
    command += ["--serve_type", "continuous_batch", "--numa_physcpubind"]
    command += [str(min(os.sched_getaffinity(0)))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if "served at" in line:
                    break
            assert not any("only this machine" in line for line in said)
            body = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 4}
            url = "http://127.0.0.1:%d/v1/completions" % port
            request = urllib.request.Request(
                url, json.dumps(body).encode(), {"Content-Type": "application/json"}
            )
            answer = json.load(urllib.request.urlopen(request, timeout=30))
            assert answer["choices"][0]["text"] == " there was a cheerful"
            health = urllib.request.urlopen("http://127.0.0.1:%d/v1/health" % port, timeout=30)
            assert health.status == 200
        finally:
            process.terminate()
            process.stderr.read()
