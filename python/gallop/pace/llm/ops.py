"""AMD PACE's module of kinds of operators and of backends; its operators on tensors are refused."""

from gallop.pace.llm.operators import LLMBackendType, LLMOperatorType
from gallop.pace.ops import __getattr__  # noqa: F401 - refuses operators by name
from gallop.pace.ops.enum import BackendType, DataType, OperatorType

__all__ = ["BackendType", "DataType", "LLMBackendType", "LLMOperatorType", "OperatorType"]
