#!/usr/bin/env python3
"""clients.py - other clients understand the server: OpenAI's, Anthropic's and frameworks on top
of them get what `gallop run` gives; schemathesis finds no answer that /openapi.json does not
describe. test/clients/run runs it."""
import asyncio
import functools
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# It must come last, because its inspect.py is not that of Python.
sys.path += [os.path.join(ROOT, "test", "net"), os.path.join(ROOT, "test", "cli")]
import scripted  # noqa: E402
from _cli import DEMO, call, check, expect, lines, run_all  # noqa: E402
from _server import Server  # noqa: E402

KEY = "a-key"
QUESTION = "Who are you?"
ASK = [{"role": "user", "content": QUESTION}]
N = 20
server = Server("--api-key", KEY, "--max-num-seqs", 8)
own = lines(call("run", "-m", DEMO, "--json", "--chat", "-n", N, QUESTION))[0]
BASE = f"http://127.0.0.1:{server.port}"


def openai_sync():
    import openai
    client = openai.OpenAI(base_url=BASE + "/v1", api_key=KEY, max_retries=0)
    check("demo" in [m.id for m in client.models.list()], "models")
    got = client.chat.completions.create(model="demo", messages=ASK, max_tokens=N, temperature=0,
                                         logprobs=True, top_logprobs=2)
    expect(got.choices[0].message.content, own["text"], "chat")
    expect(len(got.choices[0].logprobs.content), len(own["output_ids"]), "log-probabilities")
    stream = client.chat.completions.create(model="demo", messages=ASK, max_tokens=N, temperature=0,
                                            stream=True, stream_options={"include_usage": True})
    parts = list(stream)
    expect((parts[0].choices[0].delta.role, parts[0].choices[0].delta.content or ""),
           ("assistant", ""), "the role comes first")
    expect("".join(p.choices[0].delta.content or "" for p in parts if p.choices), own["text"],
           "chat in events")
    expect(parts[-1].usage.completion_tokens, len(own["output_ids"]), "usage")
    texts = [lines(call("run", "-m", DEMO, "--json", "-n", 8, p))[0]["text"]
             for p in ("Once", "A dog")]
    got = client.completions.create(model="demo", prompt=["Once", "A dog"], max_tokens=8,
                                    temperature=0)
    expect([c.text for c in got.choices], texts, "completions")
    for wrong, kind in (({"model": "nobody"}, openai.NotFoundError),
                        ({"temperature": -1}, openai.BadRequestError)):
        try:
            client.chat.completions.create(**{"model": "demo", "messages": ASK, **wrong})
            check(False, f"{wrong} is refused")
        except kind:
            pass
    try:
        openai.OpenAI(base_url=BASE + "/v1", api_key="wrong", max_retries=0).models.list()
        check(False, "a wrong key is refused")
    except openai.AuthenticationError:
        pass


def openai_async():
    import openai

    async def ask(client):
        got = await client.chat.completions.create(model="demo", messages=ASK, max_tokens=N,
                                                   temperature=0)
        return got.choices[0].message.content

    async def all():
        async with openai.AsyncOpenAI(base_url=BASE + "/v1", api_key=KEY) as client:
            return await asyncio.gather(*(ask(client) for _ in range(20)))

    expect(asyncio.run(all()), [own["text"]] * 20, "twenty at once")


def openai_responses_and_embeddings():
    import openai
    client = openai.OpenAI(base_url=BASE + "/v1", api_key=KEY)
    got = client.responses.create(model="demo", input=QUESTION, max_output_tokens=N, temperature=0)
    expect(got.output_text, own["text"], "a response")
    with client.responses.stream(model="demo", input=QUESTION, max_output_tokens=N,
                                 temperature=0) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        expect((text, stream.get_final_response().output_text), (own["text"], own["text"]),
               "a response in events")
    one = client.embeddings.create(model="demo", input=["Once", "A dog"])
    two = client.embeddings.create(model="demo", input=["Once", "A dog"], encoding_format="float")
    for a, b in zip(one.data, two.data):
        check(all(abs(x - y) < 1e-7 for x, y in zip(a.embedding, b.embedding)),
              "base64 and numbers are the same")
        check(abs(sum(x * x for x in a.embedding) - 1) < 1e-5, "their length is 1")


def anthropic_messages():
    import anthropic
    client = anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0)
    fields = {"model": "demo", "max_tokens": N, "messages": ASK, "extra_body": {"temperature": 0}}
    got = client.messages.create(**fields)
    expect(got.content[0].text, own["text"], "a message")
    with client.messages.stream(**fields) as stream:
        expect("".join(stream.text_stream), own["text"], "a message in events")
        expect(stream.get_final_message().usage.output_tokens, len(own["output_ids"]), "usage")
    expect(client.messages.count_tokens(model="demo", messages=ASK).input_tokens,
           got.usage.input_tokens + got.usage.cache_read_input_tokens, "tokens are counted")
    try:
        client.messages.create(**fields | {"model": "nobody"})
        check(False, "an unknown model is refused")
    except anthropic.NotFoundError as e:
        expect(e.body["error"]["type"], "not_found_error", "type of an error")


def calls_of_tools():
    """A scripted model writes tool calls, whole and in events, as each client assembles them."""
    import anthropic
    import openai
    script = ["<call>", "<tool_call>{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ",
              "\"Paris\"}}", "</tool_call>"]
    template = "{# <tool_call> arguments #}{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}"
    wanted, schema = ("get_weather", {"city": "Paris"}), {
        "type": "object", "properties": {"city": {"type": "string"}}}
    with tempfile.TemporaryDirectory() as folder:
        scripted.make(folder, [script], template)
        with Server("--dtype", "fp32", "--served-model-name", "small", "--api-key", KEY,
                    model=folder) as talker:
            base = f"http://127.0.0.1:{talker.port}"
            fields = {"model": "small", "max_tokens": 9,
                      "messages": [{"role": "user", "content": "<call>"}]}
            client = openai.OpenAI(base_url=base + "/v1", api_key=KEY, max_retries=0)
            tools = [{"type": "function",
                      "function": {"name": "get_weather", "parameters": schema}}]
            got = client.chat.completions.create(**fields, tools=tools, temperature=0).choices[0]
            call = got.message.tool_calls[0].function
            expect((call.name, json.loads(call.arguments), got.finish_reason),
                   (*wanted, "tool_calls"), "a call")
            events = client.chat.completions.create(**fields, tools=tools, temperature=0,
                                                    stream=True)
            pieces = [c.function for e in events for c in e.choices[0].delta.tool_calls or []]
            expect((pieces[0].name, json.loads("".join(p.arguments or "" for p in pieces))), wanted,
                   "a call in events")
            fields |= {"tools": [{"name": "get_weather", "input_schema": schema}],
                       "extra_body": {"temperature": 0}}
            client = anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=0)
            messages = [client.messages.create(**fields)]
            with client.messages.stream(**fields) as stream:
                messages.append(stream.get_final_message())
            for m in messages:
                use = [(c.name, c.input) for c in m.content if c.type == "tool_use"]
                expect((use, m.stop_reason), ([wanted], "tool_use"), "a call in a message")


@functools.cache
def _checker(kind):
    import pydantic
    return pydantic.TypeAdapter(kind)


def _fits(kind, value, what):
    """VALUE has each member that KIND, a type of a client, requires, with the right type.
    Clients themselves do not check this."""
    import pydantic
    try:
        _checker(kind).validate_python(value)
    except pydantic.ValidationError as e:
        check(False, f"{what}: {[(x['loc'], x['type']) for x in e.errors()][:5]}")
    else:
        check(True, what)


def answers_have_what_types_of_clients_need():
    """Whole answers and events, of text, of reasoning and of tool calls, with different ends."""
    import anthropic.types as anthropic
    import anthropic.types.beta as beta
    import openai.types as openai
    import openai.types.chat as chat
    import openai.types.responses as responses
    scripts = [["<call>", "<think>\nHm.", "\n</think>\n\nLet ",
                "<tool_call>{\"name\": \"f\", \"arguments\": ", "{}}", "</tool_call>"],
               ["<say>", "It rains."]]
    template = "{# <tool_call> arguments </think> #}{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}"
    schema = {"type": "object"}
    with tempfile.TemporaryDirectory() as folder:
        scripted.make(folder, scripts, template)
        with Server("--dtype", "fp32", "--served-model-name", "small", model=folder) as talker:
            def ask(path, whole, events, tools, **fields):
                for n in (100, 2):
                    for more in ({}, {"tools": tools}):
                        body = {"temperature": 0, **fields, **{k: n for k in (
                            "max_tokens", "max_output_tokens") if k in fields}, **more}
                        status, got = talker.post(path, **body)
                        expect(status, 200, f"{path}: {got}")
                        for kind in whole:
                            _fits(kind, got, f"{path}: {kind}")
                        _, _, text = talker.request("POST", path, {**body, "stream": True})
                        for event in text.decode().split("\n\n"):
                            event = event.split("data: ", 1)[-1]
                            for kind in events if event.startswith(
                                    "{") and event != '{"type":"ping"}' else ():
                                _fits(kind, json.loads(event), f"{path}: {event}")
            for prompt in ("<call>", "<say>"):
                messages = [{"role": "user", "content": prompt}]
                ask("/v1/responses", [responses.Response], [responses.ResponseStreamEvent],
                    input=prompt, max_output_tokens=0,
                    tools=[{"type": "function", "name": "f", "parameters": schema}])
                ask("/v1/messages", [anthropic.Message, beta.BetaMessage],
                    [anthropic.RawMessageStreamEvent, beta.BetaRawMessageStreamEvent],
                    messages=messages, max_tokens=0, context_management={"edits": []},
                    tools=[{"name": "f", "input_schema": schema}])
                ask("/v1/chat/completions", [chat.ChatCompletion], [chat.ChatCompletionChunk],
                    messages=messages, max_tokens=0, logprobs=True, top_logprobs=1,
                    tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
                _fits(openai.Completion, talker.post("/v1/completions", prompt=prompt, max_tokens=2,
                                                     logprobs=1)[1], "a completion")
            _fits(openai.CreateEmbeddingResponse,
                  talker.post("/v1/embeddings", input=["a", "b"])[1], "embeddings")
            count = talker.post("/v1/messages/count_tokens", messages=messages,
                                context_management={"edits": []})[1]
            _fits(anthropic.MessageTokensCount, count,
                  "tokens"), _fits(beta.BetaMessageTokensCount, count, "tokens")
            for model in json.loads(talker.request("GET", "/v1/models")[2])["data"]:
                _fits(openai.Model, model, "a model of OpenAI's"), _fits(anthropic.ModelInfo, model,
                                                                         "a model of Anthropic's")


def ollama_client():
    import ollama
    client = ollama.Client(host=BASE, headers={"Authorization": f"Bearer {KEY}"})
    options = {"temperature": 0, "num_predict": N}
    expect(client.chat(model="demo", messages=ASK, options=options).message.content, own["text"],
           "a chat")
    parts = client.chat(model="demo", messages=ASK, options=options, stream=True)
    expect("".join(p.message.content for p in parts), own["text"], "a chat in lines")
    expect(client.generate(model="demo", prompt=QUESTION, options=options).response, own["text"],
           "generate")
    check("demo" in [m.model for m in client.list().models], "models")
    check("demo" in [m.model for m in client.ps().models], "models in memory")
    expect(client.show("demo").modelinfo["general.architecture"], "llama", "what a model is")
    expect(len(client.embed(model="demo", input=["Once", "A dog"]).embeddings), 2, "embeddings")
    check("demo" in [m.model for m in client.ps().models], "models that run")
    expect((client.generate(model="demo").done_reason, client.chat(model="demo").done_reason),
           ("load", "load"), "loading")
    shown = client.show("demo")
    expect((shown.modelinfo["llama.context_length"], shown.capabilities), (1024, ["completion"]),
           "what it is")
    vectors = client.embed(model="demo", input=[QUESTION, "x"]).embeddings
    expect((len(vectors), len(vectors[0])),
           (2, len(client.embeddings(model="demo", prompt="x").embedding)), "vectors")
    for refused in (lambda: client.pull("demo"), lambda: next(
            client.pull("demo", stream=True)), lambda: client.delete("demo"), lambda: client.copy(
                "demo", "other")):
        try:
            refused()
            check(False, "models are not changed")
        except ollama.ResponseError as e:
            check(e.status_code == 501 and "/api/tags" in e.error, f"{e}")


def frameworks():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # Its prices are not fetched.
    import litellm
    from langchain_openai import ChatOpenAI
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike
    chain = ChatOpenAI(model="demo", base_url=BASE + "/v1", api_key=KEY, temperature=0,
                       max_tokens=N)
    expect(chain.invoke(QUESTION).content, own["text"], "LangChain")
    expect("".join(p.content for p in chain.stream(QUESTION)), own["text"], "LangChain in events")
    index = OpenAILike(model="demo", api_base=BASE + "/v1", api_key=KEY, is_chat_model=True,
                       temperature=0, max_tokens=N)
    expect(index.chat([ChatMessage(role="user", content=QUESTION)]).message.content, own["text"],
           "LlamaIndex")
    got = litellm.completion(model="openai/demo", api_base=BASE + "/v1", api_key=KEY, messages=ASK,
                             temperature=0, max_tokens=N)
    expect(got.choices[0].message.content, own["text"], "LiteLLM")


def schemathesis():
    examples = os.environ.get("SCHEMATHESIS_EXAMPLES", "10")
    with tempfile.TemporaryDirectory() as folder:
        r = subprocess.run([os.environ["SCHEMATHESIS"], "run", BASE + "/openapi.json", "-H",
                            f"Authorization: Bearer {KEY}", "--checks",
                            "not_a_server_error,status_code_conformance,content_type_conformance,"
                            "response_schema_conformance,unsupported_method", "--max-examples",
                            examples, "--request-timeout", "60", "--continue-on-failure"],
                           cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(r.returncode == 0, f"schemathesis finds nothing:\n{r.stdout}")


if __name__ == "__main__":
    chosen = sys.argv[1:]
    try:
        run_all([(n, t) for n, t in globals().items() if not chosen or n in chosen])
    finally:
        expect(server.end(), 0, "the server ends with 0")
