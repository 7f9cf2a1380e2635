"""gallop.pace: the Python API of AMD PACE 1.3 on Gallop's engine.

Programs for PACE run with another import::

    import gallop.pace as pace
    from gallop.pace.llm import LLMModel, SamplingConfig

or unchanged with the distribution pace-gallop, which provides the package `pace`. Neither torch nor
transformers is needed; results are torch tensors if torch was imported, else numpy arrays.
docs/MIGRATING.md says what differs.
"""

import sys

from gallop.pace import core, llm, ops, utils
from gallop.pace.llm.engine_parts import Finder
from gallop.pace.version import __version__, __version_tuple__

sys.meta_path.append(Finder)

__all__ = ["__version__", "__version_tuple__", "core", "llm", "ops", "utils"]
