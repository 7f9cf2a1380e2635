"""The distribution pace-gallop: the package `pace` is gallop.pace."""

import os
import subprocess
import sys

from pace_data import ROOT

SCRIPT = """
import pace
import pace.utils.logging
from pace.llm import LLMModel, SamplingConfig
from pace.llm.attention import AttentionBackendType
from pace.llm.outputs import GeneratorOutput
from pace.utils import Worker
import gallop.pace
assert pace is gallop.pace and pace.utils.logging is gallop.pace.utils.logging
assert LLMModel is gallop.pace.llm.LLMModel
print(pace.__version__, AttentionBackendType.JIT)
"""


def test_pace_is_gallop_pace():
    paths = [str(ROOT / "python" / "pace-gallop"), os.environ.get("PYTHONPATH", "")]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["1.3.0+gallop", "jit"]
