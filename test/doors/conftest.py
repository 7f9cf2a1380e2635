"""What the tests of the integrations share."""
import os
import signal

import gallop
import pytest

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())
# A shell that starts a program in the background lets it ignore interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)


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


def pytest_terminal_summary(terminalreporter):
    """Ends with the line that .ci/run counts, and names what was skipped."""
    stats = terminalreporter.stats
    for report in stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.write_line(f"skipped: {report.nodeid}: {reason}")
    n_failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    terminalreporter.write_line(f"{len(stats.get('passed', []))} passed, {n_failed} failed")
