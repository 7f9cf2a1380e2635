"""What the tests of the integrations share."""
import os
import sys

import gallop
import pytest

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())
sys.path.append(os.path.join(SOURCE, "test", "python"))
from ending import pytest_terminal_summary  # noqa: E402, F401


@pytest.fixture(scope="session")
def llm():
    """The bundled model, whose texts in fp32 are the same on every processor."""
    with gallop.LLM(max_num_seqs=16, dtype="fp32") as engine:
        yield engine


@pytest.fixture(scope="session")
def template():
    """Variables of a chat template with tools: the bundled model's has none."""
    with open(os.path.join(SOURCE, "test/data/templates/kinds/chatml-tools.jinja")) as f:
        return {"chat_template": f.read(), "tool_call_parser": "hermes",
                "reasoning_parser": "none"}
