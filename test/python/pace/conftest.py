"""The bundled models, opened once."""

import pytest
from pace_data import ROOT


@pytest.fixture(scope="session")
def demo():
    """The folder of the demo model."""
    return str(ROOT / "models" / "demo")


@pytest.fixture(scope="session")
def draft():
    """The folder of the demo model's parallel draft."""
    return str(ROOT / "models" / "demo-pard")


@pytest.fixture(scope="session")
def model(demo):
    """The demo model in float32, whose choices do not depend on the machine."""
    from gallop.pace.llm import LLMModel

    return LLMModel(demo, dtype="float32", disable_tqdm=True)


@pytest.fixture(scope="session")
def encode(model):
    """Turns a text into token ids."""
    return model.get_tokenizer().encode
