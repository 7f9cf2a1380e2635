"""Which sentence is most like another, by embeddings. usage: embed.py [MODEL]"""
import sys

import gallop

SENTENCES = ["The dog ran in the park.", "A cat sat on the mat.", "3 plus 4 is 7."]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b))  # Their length is 1.


with gallop.LLM(sys.argv[1] if len(sys.argv) > 1 else None) as llm:
    rows = llm.embed(SENTENCES)  # With numpy: numpy.asarray(rows[0]) copies nothing.
    query = llm.embed("A dog played in a garden.")
    print(f"{len(query)} numbers")
    for row, sentence in sorted(zip(rows, SENTENCES), key=lambda x: -cosine(x[0], query)):
        print(f"{cosine(row, query):6.3f}  {sentence}")
