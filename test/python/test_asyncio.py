"""Coroutines: lists and full queues, several event loops, what must not hold a loop up."""
import asyncio
import collections
import threading

import gallop
import pytest
from gallop import _chat, _llm
from lengths import ENDLESS, LONG, ROOMY


def test_a_list_waits_for_room_in_the_queue():
    prompts = [f"Number {i % 4}" for i in range(40)]
    with gallop.LLM(max_num_seqs=2, max_num_queued_reqs=3) as engine:
        alone = [engine.generate(p, max_new_tokens=3).text for p in prompts[:4]]

        async def lists(n):
            return await asyncio.gather(*[engine.agenerate(prompts, max_new_tokens=3)
                                          for _ in range(n)])

        for n in (1, 2):
            texts = [r.text for rows in asyncio.run(lists(n)) for r in rows]
            assert texts == [alone[i % 4] for i in range(40)] * n
        assert asyncio.run(engine.agenerate([])) == []


def test_a_list_waits_for_requests_of_others():
    with gallop.LLM(max_num_seqs=1, max_num_queued_reqs=1, max_model_len=512) as engine:
        streams = [engine.stream("Once", **LONG)]
        next(streams[0])
        with pytest.raises(gallop.NoSpace):
            while True:
                streams.append(engine.stream("Once", **LONG))

        async def refused():
            """The queue is full, unless its requests ended meanwhile."""
            try:
                streams.append(engine.stream("Once", **LONG))
                await engine.agenerate("Once", max_new_tokens=1)
            except gallop.NoSpace:
                return True
            return False

        async def full():
            while not await refused():
                pass
            timer = threading.Timer(0.1, lambda: [s.close() for s in streams])
            timer.start()
            return await engine.agenerate(["Once", "Twice"], max_new_tokens=2)

        assert [r.n_output for r in asyncio.run(full())] == [2, 2]
        streams = [engine.stream("Once", **LONG) for _ in range(1)]
        next(streams[0])
        streams.append(engine.stream("Once", **LONG))
        threading.Timer(0.1, lambda: [s.close() for s in streams]).start()
        assert [r.n_output for r in engine.generate(["Once", "Twice"], max_new_tokens=2)] == [2, 2]


def test_a_cancelled_list_cancels_its_requests():
    async def main(engine):
        task = asyncio.ensure_future(engine.agenerate(["Once"] * 50, **ENDLESS))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while True:
            s = engine.stats()
            if s["n_running"] + s["n_waiting"] == 0:
                return
            await asyncio.sleep(0.01)

    with gallop.LLM(**ROOMY) as engine:
        asyncio.run(asyncio.wait_for(main(engine), 30))


def test_closing_an_engine_ends_a_list():
    async def main():
        engine = gallop.LLM(**ROOMY)
        task = asyncio.ensure_future(engine.agenerate(["Once"] * 20, **ENDLESS))
        await asyncio.sleep(0.05)
        await asyncio.get_running_loop().run_in_executor(None, engine.close)
        return {r.finish_reason for r in await task}

    assert asyncio.run(main()) == {"cancelled"}


WRONG = [[0, 1 << 30], "a\ud800", [{"role": "wizard", "content": "x"}], [1] * 5000, None]


@pytest.mark.parametrize("way", ["generate", "agenerate"])
def test_a_refused_prompt_of_a_list_leaves_the_others(llm, way):
    def run(prompts, **sampling):
        if way == "generate":
            return llm.generate(prompts, **sampling)
        return asyncio.run(llm.agenerate(prompts, **sampling))

    expected = llm.generate("Once", max_new_tokens=4).text
    mixed = ["Once", *WRONG, "Once"]
    results = run(mixed, max_new_tokens=4)
    assert [r.finish_reason for r in results] == ["length", *["error"] * len(WRONG), "length"]
    assert results[0].text == results[-1].text == expected
    for r, word in zip(results[1:-1], ("vocabulary", "surrogate", "role", "5000 tokens", "None")):
        assert word in r.error and r.ids == []
    with pytest.raises(gallop.BadInput, match="vocabulary"):
        run(WRONG, max_new_tokens=4)
    with pytest.raises(gallop.BadInput, match="temperature") as e:
        run(["Once", "Twice"], temperature=-1)
    assert e.value.field == "temperature"


def test_the_first_refusal_of_texts_is_raised(llm):
    for function in (llm.embed, llm.score):
        with pytest.raises(gallop.BadInput, match="vocabulary"):
            function(["Once", WRONG[0], "Twice"])
    assert llm.embed(["Once"])[0] == llm.embed("Once")


def test_event_loops_of_many_threads_come_and_go(llm):
    wrong = []

    async def ask():
        return await llm.agenerate("Once", max_new_tokens=1)

    def work():
        try:
            for _ in range(30):
                assert asyncio.run(ask()).n_output == 1
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    asyncio.run(ask())
    assert len(llm._watchers.rows) <= 2


def test_a_loop_is_not_watched_after_the_end():
    async def ask(engine):
        engine._open_runner = lambda: engine._runner  # as if close() came right after it
        with pytest.raises(gallop.Cancelled):
            await engine.agenerate("Once")

    engine = gallop.LLM()
    engine.close()
    asyncio.run(ask(engine))
    assert engine._watchers.rows == []


def test_conversations_are_rendered_beside_the_event_loop(llm, monkeypatch):
    seen = []

    class Prompt(_chat.Prompt):
        def __init__(self, *args):
            seen.append(threading.current_thread())
            super().__init__(*args)

    monkeypatch.setattr(_chat, "Prompt", Prompt)

    async def main():
        await llm.chat().asend("Hi", max_new_tokens=2)
        async for _ in llm.chat().astream("Hi", max_new_tokens=2):
            pass

    asyncio.run(main())
    assert len(seen) == 2 and threading.main_thread() not in seen


@pytest.mark.parametrize("prompt, more", [
    ("x" * _llm._LONG, {}), ("A digit:", {"regex": "[0-9]"}), ([{"role": "user", "content": "a"}], {}),
    ([5] * _llm._LONG, {})], ids=["long", "constraint", "messages", "ids"])
def test_what_takes_long_is_submitted_beside_the_event_loop(llm, monkeypatch, prompt, more):
    seen, submit = [], llm._submit

    def watched(*args):
        seen.append(threading.current_thread())
        return submit(*args)

    monkeypatch.setattr(llm, "_submit", watched)

    async def main():
        await llm.agenerate("short", max_new_tokens=1)
        try:
            await llm.agenerate(prompt, max_new_tokens=1, **more)
        except gallop.GallopError:  # the context is too short for it
            pass

    asyncio.run(main())
    assert seen[0] is threading.main_thread() and seen[1] is not threading.main_thread()


def test_a_conversation_in_asynchronous_chunks(llm):
    whole = llm.chat(system="You are kind.")
    answer = whole.send("What is 3 plus 4?", max_new_tokens=20)
    chat = llm.chat(system="You are kind.")

    async def read(chat, most=1 << 30):
        rows = []
        stream = chat.astream("What is 3 plus 4?", max_new_tokens=20)
        async for chunk in stream:
            rows.append(chunk)
            if len(rows) == most:
                break
        await stream.aclose()
        return rows

    chunks = asyncio.run(read(chat))
    assert "".join(c.text for c in chunks) == answer.text
    assert chunks[-1].finish_reason == answer.finish_reason
    assert chat.messages == whole.messages and chat.result.text == answer.text
    left = llm.chat()
    assert len(asyncio.run(read(left, 1))) == 1 and left.messages == []


def test_coroutines_are_tools_of_asynchronous_chunks(llm, tools_template):
    called = collections.Counter()

    async def later() -> str:
        await asyncio.sleep(0)
        called["later"] += 1
        return "done"

    async def read():
        chat = llm.chat(tools=[later], chat_template=tools_template, tool_call_parser="hermes",
                        reasoning_parser="none", tool_choice="required")
        chunks = [c async for c in chat.astream("Go", max_new_tokens=60)]
        assert chunks[-1].finish_reason
        return chat.messages

    messages = asyncio.run(read())
    assert called["later"] >= 1 and messages[2]["content"] == "done"


def test_a_conversation_has_one_answer_at_a_time(llm):
    with pytest.raises(gallop.BadInput, match="n: "):
        llm.chat().send("Hi", n=2)
    with pytest.raises(gallop.BadInput, match="n: "):
        asyncio.run(llm.chat().asend("Hi", n=2))
