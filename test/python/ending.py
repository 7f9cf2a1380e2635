"""What all tests that pytest runs share: test/python and test/doors take it into their conftest.py."""
import signal

# A shell that starts a program in the background lets it ignore interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter):
    """Ends with the line that .ci/run counts, and names what was skipped."""
    stats = terminalreporter.stats
    for report in stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.write_line(f"skipped: {report.nodeid}: {reason}")
    n_failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    terminalreporter.write_line(f"{len(stats.get('passed', []))} passed, {n_failed} failed")
