"""What the tests of the Python package share."""
import os
import subprocess
import sys

import gallop
import pytest
from ending import pytest_terminal_summary  # noqa: F401

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())


@pytest.fixture(scope="session")
def llm():
    """The bundled model, for tests that do not change it. In fp32 its texts are the same on every
    processor: near ties are too rare for the order of sums to matter."""
    with gallop.LLM(max_num_seqs=32, dtype="fp32") as engine:
        yield engine


@pytest.fixture(scope="session")
def tools_template():
    """A template with tools: the bundled model's has none."""
    with open(os.path.join(SOURCE, "test/data/templates/kinds/chatml-tools.jinja")) as f:
        return f.read()


@pytest.fixture(scope="session")
def program():
    """Runs the program gallop of the build with arguments, and returns its standard output."""

    def run(*args):
        binary = os.environ.get("GALLOP_BIN") or os.path.join(SOURCE, "build/release/gallop")
        return subprocess.run([binary, *args], check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture
def python():
    """Runs a program text in a new interpreter, and returns the finished process."""

    def run(text, timeout=60, **options):
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                              timeout=timeout, **options)

    return run
