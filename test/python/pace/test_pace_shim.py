"""The distribution pace-gallop: the package `pace` is gallop.pace."""

import os
import subprocess
import sys

import pytest
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


#: Imports each module by both names, first by the one that sys.argv says.
EVERY = """
import importlib, pkgutil, pickle, sys
import gallop.pace, pace
names = ["gallop.pace"] + [m.name for m in pkgutil.walk_packages(gallop.pace.__path__, "gallop.pace.")]
for ours in names:
    theirs = ours[len("gallop."):]
    both = [theirs, ours] if sys.argv[1] == "theirs" else [ours, theirs]
    first, second = [importlib.import_module(name) for name in both]
    assert first is second and first.__name__ == first.__spec__.name == ours, theirs
    parent, _, name = theirs.rpartition(".")
    assert not parent or getattr(sys.modules[parent], name) is first
import pace.llm.model, pace.utils.workers as workers
from pace.llm import engine, operators
assert pace.llm.model.LLMModel is gallop.pace.llm.LLMModel
assert pickle.loads(pickle.dumps(pace.llm.KVCacheType.BMC)) is gallop.pace.llm.KVCacheType.BMC
assert pace.llm.model.__spec__.loader.get_filename().endswith("model.py")
try:
    import pace.llm.nothing
except ModuleNotFoundError as e:
    assert e.name == "pace.llm.nothing"
    print(len(names))
"""


def run(*arguments):
    paths = [str(ROOT / "python" / "pace-gallop"), os.environ.get("PYTHONPATH", "")]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    return subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=True
    )


def test_pace_is_gallop_pace():
    assert run("-c", SCRIPT).stdout.split() == ["1.3.0+gallop", "jit"]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_no_module_exists_twice(first):
    assert int(run("-c", EVERY, first).stdout) >= 21


def test_server_is_a_program_of_the_package():
    done = run("-m", "pace.server", "--help")
    assert "--server_model" in done.stdout and done.stderr == ""
