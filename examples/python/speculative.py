"""Speculative decoding: the same tokens in fewer steps. usage: speculative.py [MODEL [DRAFT]]

Without DRAFT, a model of the same vocabulary, tokens are guessed from the text so far.
"""
import sys

import gallop

model = sys.argv[1] if len(sys.argv) > 1 else None
config = {"method": "ngram"} if len(sys.argv) < 3 else {"model": sys.argv[2]}
prompt = [{"role": "user", "content": "Tell me a story about a fox."}]

with gallop.LLM(model) as plain, gallop.LLM(model, speculative_config=config) as guessing:
    one = plain.generate(prompt, max_new_tokens=200)
    two = guessing.generate(prompt, max_new_tokens=200)
    assert one.ids == two.ids, "speculative decoding never changes an answer"
    s = two.speculation
    print(f"{one.n_output} tokens; without guesses {one.decode_s:.3f} s, with guesses "
          f"{two.decode_s:.3f} s and {s.n_steps} steps")
    print(f"{s.n_accepted_tokens} of {s.n_draft_tokens} guesses were right: {s.accepted_per_pos}")
