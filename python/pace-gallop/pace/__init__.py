"""AMD PACE's package name for gallop.pace: every module here is the module of gallop.pace."""

import importlib
import sys

import gallop.pace

for _name in (
    "core",
    "llm",
    "llm.attention",
    "llm.configs",
    "llm.outputs",
    "ops",
    "ops.enum",
    "utils",
    "utils.logging",
):
    sys.modules[__name__ + "." + _name] = importlib.import_module("gallop.pace." + _name)
sys.modules[__name__] = gallop.pace
