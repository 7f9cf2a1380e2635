"""Several engines, each in a process with cores of its own. usage: multi_instance.py [MODEL] [N]

One engine uses all cores well, and shares the weights and the prefix cache among all requests.
Several engines pay where cores have memory of their own (NUMA nodes), or where a request must not
slow down another.
"""
import multiprocessing
import os
import sys

import gallop

PROMPTS = ["Once upon a time", "The cat sat", "One day", "The sun", "A dog", "In the park"]


def begin(model, cores):
    """Binds this process to cores, and opens its engine there."""
    global llm
    os.sched_setaffinity(0, cores)
    llm = gallop.LLM(model)


def answer(prompt):
    return llm.generate(prompt, max_new_tokens=12).text


if __name__ == "__main__":
    model = sys.argv[1] if len(sys.argv) > 1 else None
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    cores = sorted(os.sched_getaffinity(0))
    # Neighbours: the cores of a NUMA node have consecutive numbers.
    parts = [cores[i * len(cores) // n:(i + 1) * len(cores) // n] or cores for i in range(n)]
    context = multiprocessing.get_context("spawn")  # An engine does not survive a fork.
    pools = [context.Pool(1, begin, (model, part)) for part in parts]
    answers = [pools[i % n].apply_async(answer, (prompt,)) for i, prompt in enumerate(PROMPTS)]
    for i, (prompt, text) in enumerate(zip(PROMPTS, answers)):
        print(f"cores {parts[i % n]}: {prompt}|{text.get()}")
    for pool in pools:
        pool.close()
        pool.join()
