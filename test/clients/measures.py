#!/usr/bin/env python3
"""measures.py - other measuring programs and the server: lm-eval scores multiple choice, texts
and answers as `gallop` does, and guidellm counts the tokens and requests that /metrics counts.
test/clients/run runs it."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# It must come last, because its inspect.py is not that of Python.
sys.path.append(os.path.join(ROOT, "test", "cli"))
from _cli import DEMO, call, check, expect, lines, run_all  # noqa: E402
from _server import Server  # noqa: E402

KEY = "a-key"
N = 12
BOS = "1"
HEAD = {"Authorization": f"Bearer {KEY}"}
WORK = tempfile.TemporaryDirectory()
# Neither program uses a hub of models. Their files are removed with the folder.
os.environ |= {"HF_HOME": WORK.name, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
               "HF_HUB_DISABLE_TELEMETRY": "1", "OPENAI_API_KEY": KEY,
               "TOKENIZERS_PARALLELISM": "false"}
server = Server("--api-key", KEY, "--max-num-seqs", 8, "--enable-tokenizer-info-endpoint")
BASE = f"http://127.0.0.1:{server.port}"

# These are wrong on purpose.
CHOICES = [{"text": "Once upon a", "choices": ["time", "table", "green"], "gold": 0},
           {"text": "The sun is in the", "choices": ["shoe", "sky", "because of it"], "gold": 1},
           {"text": "The little girl was very", "choices": ["table", "walked", "happy"], "gold": 2},
           {"text": "Tom and his mom went to the", "choices": ["park", "said", "very"], "gold": 1}]
TEXTS = ["Once upon a time there was a little dog.", "The dog liked to play with a red ball.",
         "Who are you?"]


def _write(name, text):
    path = os.path.join(WORK.name, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def _task(name, docs, **fields):
    """Makes a task file of lm-eval and its documents. JSON is YAML."""
    data = _write(name + ".jsonl", "".join(json.dumps(d) + "\n" for d in docs))
    _write(name + ".yaml", json.dumps({"task": name, "dataset_path": "json", "dataset_kwargs": {
        "data_files": {"test": data}}, "test_split": "test", **fields}))


def _evaluate(task, path="/v1/completions", chat=False, **args):
    """Returns the scores of the task, and lm-eval's result for each document, in their order."""
    import lm_eval
    from lm_eval.tasks import TaskManager
    tokenizer = {"tokenizer_backend": "none"} if chat else {"tokenizer": DEMO}
    got = lm_eval.simple_evaluate(
        model="local-chat-completions" if chat else "local-completions", tasks=[task],
        apply_chat_template=chat, bootstrap_iters=0,
        model_args={"model": "demo", "base_url": BASE + path, "max_length": 512, "max_retries": 1,
                    **tokenizer, **args},
        task_manager=TaskManager(include_path=WORK.name, include_defaults=False))
    samples = sorted(got["samples"][task], key=lambda s: s["doc_id"])
    return got["results"][task], [s["resps"] for s in samples]


def _ids(text):
    return call("tokenize", "-m", DEMO, "--no-special", text).stdout.decode().strip().split(",")


def _own_score(before, after, first):
    """Returns the log-likelihood of the text AFTER, given the ids FIRST and the text BEFORE,
    from the logits of the program, and whether it is the greedy result."""
    import numpy
    ids, n = first + _ids(before + after), len(first) + len(_ids(before))
    file = os.path.join(WORK.name, "logits.npy")
    expect(call("logits", "-m", DEMO, "--ids", ",".join(ids), "--npy", file).returncode, 0,
           "logits")
    x = numpy.load(file).astype(numpy.float64)
    os.remove(file)
    log = x - numpy.log(numpy.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(
        -1, keepdims=True)
    wanted = [(log[i - 1], int(ids[i])) for i in range(n, len(ids))]
    return sum(row[t] for row, t in wanted), all(row.argmax() == t for row, t in wanted)


def _near(a, b, what):
    check(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-4), f"{what}: found {a}, expected {b}")


def multiple_choice_is_scored_as_the_logits_say():
    _task("choices", CHOICES, output_type="multiple_choice", doc_to_text="{{text}}",
          doc_to_target="gold", doc_to_choice="choices", metric_list=[{"metric": "acc"}])
    for args in ({}, {"batch_size": 4}, {"num_concurrent": 8}, {"add_bos_token": True}):
        own = [[_own_score(d["text"], " " + c, [BOS] if args.get("add_bos_token") else [])
                for c in d["choices"]] for d in CHOICES]
        right = [max(range(len(s)), key=lambda i: s[i][0]) == d["gold"] for d,
                 s in zip(CHOICES, own)]
        check(0 < sum(right) < len(right), f"one is answered as wished, another is not: {right}")
        scores, got = _evaluate("choices", **args)
        expect(scores["acc,none"], sum(right) / len(right), f"accuracy, {args}")
        for d, theirs, ours in zip(CHOICES, got, own):
            for choice, (t,), (score, greedy) in zip(d["choices"], theirs, ours):
                _near(float(t[0]), score, f"log-likelihood of {d['text']!r} {choice!r}, {args}")
                expect(str(t[1]), str(greedy),
                       f"whether {choice!r} is the greedy answer to {d['text']!r}, {args}")


def the_tokenizer_of_the_server_is_that_of_the_model():
    from lm_eval.utils import RemoteTokenizer
    remote = RemoteTokenizer(BASE, auth_token=KEY)
    for text in TEXTS:
        ids = remote.encode(text)
        expect(list(map(str, ids)), _ids(text), "ids")
        expect(remote.decode(ids), text, "their text")
    expect((remote.bos_token_id, remote.eos_token), (int(BOS), "<|end|>"), "tokens by name")
    rendered = call("render", "-m", DEMO, "--messages",
                    _write("chat.json", json.dumps([{"role": "user", "content": TEXTS[2]}])))
    # lm-eval itself gives this to no template.
    named = {"bos_token": remote.bos_token, "eos_token": remote.eos_token}
    got = remote.apply_chat_template([{"role": "user", "content": TEXTS[2]}], **named)
    expect(got.rstrip("\n"), rendered.stdout.decode(),
           "its chat template, behind which lm-eval keeps the end of the line")


def perplexity_is_that_of_ppl():
    """A text in one window, after BOS."""
    text = " ".join(TEXTS[:2])
    _task("text", [{"text": text}], output_type="loglikelihood_rolling", doc_to_text="",
          doc_to_target="{{text}}",
          metric_list=[{"metric": "byte_perplexity"}, {"metric": "word_perplexity"}])
    own = lines(call("ppl", "-m", DEMO, "--json", "--file", _write("text.txt", text)))[0]
    scores, _ = _evaluate("text")
    _near(scores["byte_perplexity,none"], math.exp(own["nll"] * own["tokens"] / len(text.encode())),
          "perplexity a byte")
    _near(math.log(scores["word_perplexity,none"]), own["nll"] * own["tokens"] / len(text.split()),
          "perplexity a word")


def _answers(name, docs, own, **args):
    """Each second document expects what the program answers, and the others expect something
    else."""
    _task(name, [{"text": t, "answer": o if i % 2 == 0 else "else"} for i,
                 (t, o) in enumerate(zip(docs, own))],
          output_type="generate_until", doc_to_text="{{text}}", doc_to_target="{{answer}}",
          generation_kwargs={"until": ["\n"], "do_sample": False, "temperature": 0,
                             "max_gen_toks": N},
          metric_list=[{"metric": "exact_match"}])
    scores, got = _evaluate(name, **args)
    expect([r[0][0] if isinstance(r[0], list) else r[0] for r in got], own, f"answers, {args}")
    expect(scores["exact_match,none"], (len(docs) + 1) // 2 / len(docs), f"exact matches, {args}")


def answers_are_those_of_run():
    fields = ("run", "-m", DEMO, "--json", "-n", N, "--stop", "\n")
    own = [lines(call(*fields, "--no-special", t))[0]["text"] for t in TEXTS]
    for args in ({}, {"batch_size": 3}, {"tokenized_requests": False, "add_bos_token": True}):
        if "add_bos_token" in args:  # The server tokenizes texts, with BOS.
            own = [lines(call(*fields, t))[0]["text"] for t in TEXTS]
        _answers("answers", TEXTS, own, **args)


def chats_are_those_of_run():
    own = [lines(call("run", "-m", DEMO, "--json", "--chat", "-n", N, "--stop", "\n", t))[0]["text"]
           for t in TEXTS]
    for args in ({}, {"num_concurrent": 3}):
        _answers("chats", TEXTS, own, path="/v1/chat/completions", chat=True, eos_string="<|end|>",
                 **args)


def _counted():
    """Returns the requests that ended, and the tokens of prompts and of answers, as the server
    counts them."""
    text = server.request("GET", "/metrics", headers=HEAD)[2].decode()
    return [sum(float(x) for x in re.findall(rf"^vllm:{name}_total\{{[^}}]*\}} (\S+)$", text, re.M))
            for name in ("request_success", "prompt_tokens", "generation_tokens")]


def a_load_has_as_many_tokens_as_the_metrics():
    n, tokens = 20, 16
    data = _write("prompts.jsonl", "".join(json.dumps(
        {"prompt": f"{i} {TEXTS[i % 3]}", "output_tokens_count": tokens}) + "\n" for i in range(n)))
    report = os.path.join(WORK.name, "report.json")
    before = _counted()
    r = subprocess.run([sys.executable, "-m", "guidellm", "benchmark", "run", "--target", BASE,
                        "--model", "demo", "--processor", DEMO, "--backend-args",
                        json.dumps({"api_key": KEY}), "--data", data, "--rate-type", "concurrent",
                        "--rate", "4", "--max-requests", str(n), "--output-path", report,
                        "--disable-progress", "--disable-console-outputs"], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=100)
    check(r.returncode == 0, f"guidellm ends well:\n{r.stdout[-2000:]}")
    after = _counted()
    with open(report, encoding="utf-8") as f:
        b = json.load(f)["benchmarks"][0]
    made, prompt, answer = (y - x for x, y in zip(before, after))
    expect((b["request_totals"]["successful"], b["request_totals"]["total"]), (n, n),
           "requests, as guidellm counts")
    probes = made - n  # Each of its processes requests a token before it begins.
    check(probes >= 1, f"it asks before it begins: {made} requests of {n}")
    theirs = [b["metrics"][k]["successful"]["total_sum"]
              for k in ("prompt_token_count", "output_token_count")]
    expect(theirs[1], n * tokens, "tokens of answers, as guidellm counts")
    expect(answer, theirs[1] + probes, "tokens of answers, as the server counts")
    size = len(call("tokenize", "-m", DEMO, "Test connection").stdout.split(b","))
    expect(prompt, theirs[0] + probes * size, "tokens of prompts, as the server counts")


if __name__ == "__main__":
    chosen = sys.argv[1:]
    try:
        run_all([(n, t) for n, t in globals().items() if not chosen or n in chosen])
    finally:
        expect(server.end(), 0, "the server ends with 0")
        WORK.cleanup()
