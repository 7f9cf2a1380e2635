"""`vllm serve` with gallop-vllm: chats, completions and streams in processes of their own."""
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


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_NO_USAGE_STATS": "1",
           "VLLM_LOGGING_LEVEL": "INFO"}
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
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)
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
