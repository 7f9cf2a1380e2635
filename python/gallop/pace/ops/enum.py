"""Names of backends."""

import enum


class StrEnum(str, enum.Enum):
    """An enum whose members equal their values, which are strings (enum.StrEnum of Python 3.11)."""

    __str__ = str.__str__

    def _generate_next_value_(name, start, count, last_values):  # noqa: N805
        return name.lower()


class BackendType(StrEnum):
    """AMD PACE's backends of operators. docs/KERNELS.md says what Gallop computes with instead."""

    NATIVE = "native"
    JIT = "jit"
    TPP = "tpp"
    IMBPS = "imbps"
    AOCLDLP = "aocldlp"


def _members(names):
    """Returns members of a StrEnum, each with its name in lower case as its value."""
    return [(name, name.lower()) for name in names.split()]


OperatorType = StrEnum(
    "OperatorType",
    _members(
        "LINEAR REPEATEDKVLINEAR SOFTMAX RELU GELU SILU TANH SIGMOID LAYERNORM RMSNORM L2NORM "
        "ROTARYEMBEDDING MOEROUTER_SOFTMAX MOEROUTER_SIGMOID MOEROUTER_GROUPED_SIGMOID"
    ),
    module=__name__,
)
OperatorType.__doc__ = "Names of AMD PACE's operators, which Gallop does not have on tensors."

FusedOperatorType = StrEnum(
    "FusedOperatorType",
    _members(
        "FUSEDMLPLINEAR FUSEDLINEARRELU FUSEDLINEARGELU FUSEDLINEARSILU FUSEDLINEARMUL "
        "FUSED_RMSNORM_RESIDUAL FUSED_LAYERNORM_RESIDUAL FUSEDMOE"
    ),
    module=__name__,
)
FusedOperatorType.__doc__ = "Names of AMD PACE's operators of several steps."


class DataType(StrEnum):
    """Data types of AMD PACE's operators."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
