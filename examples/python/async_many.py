"""A thousand requests in one event loop. usage: async_many.py [MODEL] [N]"""
import asyncio
import sys
import time

import gallop


async def main(model, n):
    with gallop.LLM(model) as llm:
        begin = time.perf_counter()
        answers = await asyncio.gather(*[
            llm.agenerate(f"Question: what is {i % 10} plus {i // 10 % 10}?", max_new_tokens=12)
            for i in range(n)])
        seconds = time.perf_counter() - begin
        tokens = sum(a.n_output for a in answers)
        print(f"{n} answers, {tokens} tokens, {tokens / seconds:.0f} tokens/s; the first:",
              answers[0].text.strip())

        # An answer that comes too late: its request is cancelled, too.
        try:
            await asyncio.wait_for(llm.agenerate("Once upon a time", max_new_tokens=100000), 0.05)
        except (asyncio.TimeoutError, gallop.GallopError) as e:
            print(type(e).__name__)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None,
                 int(sys.argv[2]) if len(sys.argv) > 2 else 1000))
