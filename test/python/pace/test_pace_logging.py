"""The log: levels of PACE_LOG_LEVEL, format of lines, suppression."""

import os
import re
import subprocess
import sys

import pytest

SCRIPT = """
import gallop.pace as pace
from gallop.pace.utils import logging
logging.PACE_DEBUG("d"); pace.core.pace_logger(1, "p"); logging.PACE_INFO("i")
logging.PACE_WARNING("w"); logging.PACE_ERROR("e")
with logging.suppress_logging():
    logging.PACE_ERROR("hidden")
"""

LEVELS = [
    ("debug", "DPIWE"),
    ("profile", "PIWE"),
    ("info", "IWE"),
    ("warning", "WE"),
    ("error", "E"),
    ("none", ""),
    ("", "IWE"),
    ("DEBUG", "IWE"),
    ("verbose", "IWE"),
]


def log(level):
    env = dict(os.environ, PACE_LOG_LEVEL=level)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    return run.stdout.splitlines()


@pytest.mark.parametrize("level, letters", LEVELS)
def test_level(level, letters):
    assert "".join(line.split()[2] for line in log(level)) == letters


def test_format():
    (line,) = log("error")
    assert re.fullmatch(
        r"\d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d\.\d{3} E <string>:\d+ pace: e", line
    )


def test_assertion_is_logged_and_raised(capsys):
    from gallop.pace.llm import SamplingConfig

    with pytest.raises(AssertionError):
        SamplingConfig().finalize()
    line = capsys.readouterr().out.splitlines()[-1]
    assert re.search(r" E configs.py:\d+ pace-llm : eos_token_id cannot be None$", line)
