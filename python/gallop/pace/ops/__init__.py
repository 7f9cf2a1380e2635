"""AMD PACE's operators on tensors, which Gallop does not have: only the names of backends."""

from gallop.pace.ops.enum import BackendType, DataType, FusedOperatorType, OperatorType

__all__ = ["BackendType", "DataType", "FusedOperatorType", "OperatorType"]


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    raise NotImplementedError(
        "gallop.pace.ops.%s: AMD PACE's operators on torch tensors are not part of Gallop, whose "
        "engine computes without torch" % name
    )
