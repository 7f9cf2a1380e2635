"""Text for one prompt, for several prompts at once, and as JSON. usage: basic.py [MODEL]"""
import sys

import gallop

with gallop.LLM(sys.argv[1] if len(sys.argv) > 1 else None) as llm:
    print(llm.info.name, "with", llm.info.n_params, "parameters")

    answer = llm.generate("Once upon a time", max_new_tokens=40)
    print(answer.text)
    print(f"[{answer.finish_reason}; {answer.n_output} tokens, first after {answer.prefill_s:.3f} s]")

    # The prompts of a list are computed together; each gets the answer that it would get alone.
    for answer in llm.generate(["The cat sat", "One day, a little rabbit"], max_new_tokens=20):
        print("-", answer.text)

    schema = {"type": "object", "required": ["colour", "legs"], "additionalProperties": False,
              "properties": {"colour": {"enum": ["red", "green"]},
                             "legs": {"type": "integer", "minimum": 0, "maximum": 9}}}
    print(llm.json("An animal as JSON:", schema, max_new_tokens=200))
