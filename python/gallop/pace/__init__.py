"""gallop.pace: the Python API of AMD PACE 1.3 on Gallop's engine.

Programs for PACE run with another import::

    import gallop.pace as pace
    from gallop.pace.llm import LLMModel, SamplingConfig

or unchanged with the distribution pace-gallop, which provides the package `pace`. Neither torch nor
transformers is needed; results are torch tensors if torch was imported, else numpy arrays.
docs/FROM.md says what differs.
"""

from gallop.pace import core, llm, ops, utils

#: The version of AMD PACE whose API this is.
__version__ = "1.3.0+gallop"
__version_tuple__ = (1, 3, 0)

__all__ = ["core", "llm", "ops", "utils"]
