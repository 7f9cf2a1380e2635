"""A model that calls Python functions. usage: tools.py MODEL [QUESTION]

The model needs a chat template with tools, such as Qwen3's: tools.py Qwen/Qwen3-0.6B. Without
MODEL the bundled model is used with a template of this program; it is too small to know when to
call a function, so it has to.
"""
import sys
from typing import Literal

import gallop

TEMPLATE = """{%- for t in tools %}{{ t | tojson }}{% endfor %}
{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}
{%- for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endfor %}<|assistant|>"""


def weather(city: Literal["Paris", "Rome", "Oslo"], unit: Literal["C", "F"] = "C") -> str:
    """Returns the weather of today.

    Args:
        city: the name of the city
        unit: the unit of the temperature
    """
    print(f"[weather({city!r}, {unit!r})]")
    return f"sunny, {21 if unit == 'C' else 70} {unit}"


model = sys.argv[1] if len(sys.argv) > 1 else None
forced = {} if model else {"chat_template": TEMPLATE, "tool_call_parser": "hermes",
                           "tool_choice": "required"}
with gallop.LLM(model) as llm:
    chat = llm.chat(tools=[weather], **forced)
    answer = chat.send(sys.argv[2] if len(sys.argv) > 2 else "What is the weather in Rome?",
                       max_new_tokens=300)
    print(answer.text)
