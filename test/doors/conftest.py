"""What the tests of the integrations share."""
import os

import gallop
import pytest

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())


@pytest.fixture(scope="session")
def llm():
    """The bundled model."""
    with gallop.LLM(max_num_seqs=16) as engine:
        yield engine


@pytest.fixture(scope="session")
def template():
    """Variables of a chat template with tools: the bundled model's has none."""
    with open(os.path.join(SOURCE, "test/data/templates/kinds/chatml-tools.jinja")) as f:
        return {"chat_template": f.read(), "tool_call_parser": "hermes",
                "reasoning_parser": "none"}
