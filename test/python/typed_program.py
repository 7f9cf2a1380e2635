"""A program that uses everything of the package, for type checkers: test_types.py."""
import array
import asyncio
import dataclasses
import enum
from typing import Any, AsyncGenerator, Dict, Generator, List, Optional, Tuple

import gallop
from typing_extensions import assert_type


class Unit(enum.Enum):
    C = "celsius"


@dataclasses.dataclass
class Place:
    name: str
    unit: Unit


def weather(place: str, unit: Unit = Unit.C) -> str:
    return f"sunny in {place}"


def answers(llm: gallop.LLM, ids: List[int], messages: List[Dict[str, str]]) -> None:
    assert_type(llm.generate("Once", max_new_tokens=4, temperature=0.5, stop=["."]), gallop.Result)
    assert_type(llm.generate(ids, stop=".", seed=1, logit_bias={5: 1.0}), gallop.Result)
    assert_type(llm.generate(messages, tools=[weather], n=2), gallop.Result)
    assert_type(llm.generate(["Once", "Twice"]), List[gallop.Result])
    assert_type(llm.generate([ids, ids]), List[gallop.Result])
    assert_type(llm.generate([messages]), List[gallop.Result])
    assert_type(llm.generate("Once", stream=True), gallop.Stream)
    with llm.stream("Once", max_tokens=3, ignore_eos=True) as stream:
        for chunk in stream:
            assert_type(chunk, gallop.Chunk)
            assert_type(chunk.text, str)
            assert_type(chunk.logprob, Optional[gallop.TokenLogprob])
    assert_type(stream.result, Optional[gallop.Result])
    assert_type(llm.embed("Once"), "array.array[float]")
    assert_type(llm.embed(["Once"], pooling="last"), "List[array.array[float]]")
    assert_type(llm.score("Once", top=1).perplexity, float)
    assert_type(llm.score(["Once"])[0].top, List[Optional[List[Tuple[int, float]]]])
    assert_type(llm.json("Where?", Place), Place)
    assert_type(llm.json(["Where?"], Place, max_new_tokens=90), List[Place])
    assert_type(llm.json("Where?", {"type": "object"}), Any)
    assert_type(llm.tokenize("Once", special=False), List[int])
    assert_type(llm.detokenize(ids), str)
    assert_type(llm.render(messages, add_generation_prompt=False), str)
    assert_type(llm.info.special_tokens, Dict[str, int])
    assert_type(llm.stats(), Dict[str, Any])


def fields(result: gallop.Result) -> None:
    assert_type(result.text, str)
    assert_type(result.ids, List[int])
    assert_type(result.logprobs, Optional[List[gallop.TokenLogprob]])
    assert_type(result.choices, List[gallop.Result])
    assert_type(result.prefill_s, float)
    if result.speculation is not None:
        assert_type(result.speculation.n_steps, int)


def conversation(llm: gallop.LLM) -> None:
    schema: Dict[str, Any] = {"type": "function", "function": {"name": "f"}}
    chat = llm.chat(system="Be kind.", tools=[weather, schema], enable_thinking=False)
    result = chat.send("Hi", max_new_tokens=20)
    for call in result.tool_calls:
        assert_type(call["function"]["arguments"], str)
        chat.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "done"})
    assert_type(chat.messages[-1]["role"], str)
    assert_type(chat.stream(), Generator[gallop.Chunk, None, None])


async def coroutines(llm: gallop.LLM) -> None:
    assert_type(await llm.agenerate("Once", max_new_tokens=3), gallop.Result)
    assert_type(await llm.agenerate(["Once"]), List[gallop.Result])
    assert_type(llm.astream("Once"), AsyncGenerator[gallop.Chunk, None])
    assert_type(await llm.ajson("Where?", Place), Place)
    chat = llm.chat()
    assert_type(await chat.asend("Hi"), gallop.Result)
    async for chunk in chat.astream("Hi"):
        assert_type(chunk.reasoning, str)
    parameters: gallop.Parameters = {"max_new_tokens": 3, "top_p": 0.5}
    await asyncio.gather(*[llm.agenerate(f"{i}", **parameters) for i in range(3)])


def rest() -> None:
    try:
        gallop.LLM("nowhere", max_model_len=64, quant={"mlp": "int8"}, threads=2)
    except gallop.OSFailure as e:
        assert_type(e.field, Optional[str])
    with gallop.serve(max_num_seqs=2) as server:
        assert_type(server.url, str)
    with gallop.Executor(gallop.DEMO) as x:
        outcome = x.run([gallop.Rows([1, 2])])
        assert_type(outcome.picks, List[Tuple[int, float]])
    assert_type(gallop.parameters("top_p"), str)
    assert_type(gallop.__version__, str)


def main() -> None:
    with gallop.LLM() as llm:
        answers(llm, [1, 2], [{"role": "user", "content": "Hi"}])
        conversation(llm)
        asyncio.run(coroutines(llm))


if __name__ == "__main__":
    main()
