"""Text as it is generated, with sampling, a stop text and log-probabilities. usage: streamer.py [MODEL]"""
import sys

import gallop

with gallop.LLM(sys.argv[1] if len(sys.argv) > 1 else None) as llm:
    messages = [{"role": "user", "content": "Tell me a story about a fox."}]
    for chunk in llm.stream(messages, max_new_tokens=60, temperature=0.7, top_p=0.95, seed=7,
                            stop=["The end"]):
        print(chunk.text, end="", flush=True)
    print(f"\n[{chunk.finish_reason}]")

    # Leaving the `with` block of a stream cancels the request within a step.
    with llm.stream("Once upon a time", max_new_tokens=1000, logprobs=3) as stream:
        for chunk in stream:
            if chunk.logprob:  # None in a chunk without a token, such as the last
                print(repr(chunk.text),
                      [(llm.detokenize([t]), round(p, 2)) for t, p in chunk.logprob.top])
            if chunk.text.endswith("."):
                break
