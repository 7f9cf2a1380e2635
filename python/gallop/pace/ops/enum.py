"""Names of backends."""

import enum


class StrEnum(str, enum.Enum):
    """An enum whose members equal their values, which are strings (enum.StrEnum of Python 3.11)."""

    __str__ = str.__str__

    def _generate_next_value_(name, start, count, last_values):  # noqa: N805
        return name.lower()


class BackendType(StrEnum):
    """AMD PACE's backends of operators. docs/BACKENDS.md says what Gallop computes with instead."""

    NATIVE = "native"
    JIT = "jit"
    TPP = "tpp"
    IMBPS = "imbps"
    AOCLDLP = "aocldlp"
