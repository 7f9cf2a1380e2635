"""`vllm serve` and LLM with gallop-vllm, in processes of their own."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from reference import DEMO, answers


PROGRAM = """
import multiprocessing, os, sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    llm = LLM(sys.argv[1], max_model_len=256, max_num_seqs=4)
    params = SamplingParams(max_tokens=12, temperature=0)
    output = llm.generate([{"prompt_token_ids": [1, 435, 499, 262, 409]}], params, use_tqdm=False)
    print("ids", list(output[0].outputs[0].token_ids))
    print("method", os.environ.get("VLLM_WORKER_MULTIPROC_METHOD"))
"""


@pytest.mark.parametrize("method", [None, "spawn"])
def test_the_process_of_an_engine_is_forked_unless_the_user_wants_another(method, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_NO_USAGE_STATS": "1"}
    env.pop("VLLM_WORKER_MULTIPROC_METHOD", None)
    if method:
        env["VLLM_WORKER_MULTIPROC_METHOD"] = method
    done = subprocess.run([sys.executable, str(program), DEMO], env=env, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines()
                 if line.startswith(("ids", "method")))
    want = answers([[1, 435, 499, 262, 409]], max_new_tokens=12)[0]["ids"]
    assert lines == {"ids": str(want), "method": str(method)}


@pytest.fixture(scope="module", params=[None, "fork"])
def url(request, tmp_path_factory):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_NO_USAGE_STATS": "1",
           "VLLM_LOGGING_LEVEL": "INFO"}
    env.pop("VLLM_WORKER_MULTIPROC_METHOD", None)
    if request.param:
        env["VLLM_WORKER_MULTIPROC_METHOD"] = request.param
    log = open(tmp_path_factory.mktemp("server") / "log", "w+")
    server = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", DEMO, "--host",
         "127.0.0.1", "--port", str(port), "--served-model-name", "demo", "--max-num-seqs", "8",
         "--additional-config", '{"gallop": {"threads": 2}}'],
        env=env, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(6000):
            if server.poll() is not None:
                log.seek(0)
                pytest.fail(log.read()[-8000:])
            try:
                urllib.request.urlopen(address + "/health", timeout=5)
                break
            except OSError:
                time.sleep(.1)
        yield address
    finally:
        if server.poll() is None:
            server.terminate()
            try:
                assert server.wait(60) in (0, -signal.SIGTERM)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)
        log.close()


def post(url, path, **body):
    request = urllib.request.Request(url + path, json.dumps({"model": "demo", **body}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def test_completions_are_those_of_the_engine(url):
    ids = [1, 435, 499, 262, 409]
    status, answer = post(url, "/v1/completions", prompt=ids, max_tokens=12, temperature=0,
                          logprobs=2, return_token_ids=True)
    assert status == 200, answer
    choice = answer["choices"][0]
    assert choice["token_ids"] == answers([ids], max_new_tokens=12)[0]["ids"]
    assert len(choice["logprobs"]["token_logprobs"]) == 12


def test_a_chat_and_a_choice_are_answered(url):
    chat = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 16}
    status, answer = post(url, "/v1/chat/completions", **chat)
    assert status == 200 and answer["choices"][0]["message"]["content"]
    status, answer = post(url, "/v1/chat/completions", **chat,
                          structured_outputs={"choice": ["red", "blue"]})
    assert answer["choices"][0]["message"]["content"] in ("red", "blue")


def test_what_cannot_be_served_is_an_error_of_the_request(url):
    status, answer = post(url, "/v1/completions", prompt="Once", max_tokens=2,
                          prompt_logprobs=2000)
    assert status == 400, answer
    assert post(url, "/v1/completions", prompt="Once", max_tokens=2)[0] == 200
