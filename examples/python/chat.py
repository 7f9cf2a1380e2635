"""A chat in the terminal; an empty line ends it, Ctrl-C ends an answer. usage: chat.py [MODEL]"""
import sys

import gallop

with gallop.LLM(sys.argv[1] if len(sys.argv) > 1 else None) as llm:
    chat = llm.chat()
    while True:
        try:
            text = input("> ")
        except EOFError:
            break
        if not text:
            break
        try:
            for chunk in chat.stream(text, max_new_tokens=400):
                print(chunk.reasoning or chunk.text, end="", flush=True)
        except KeyboardInterrupt:
            print(" [ended]", end="")
        print()
