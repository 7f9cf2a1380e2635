"""Generation with AMD PACE's names."""

from gallop.pace.llm.attention import KVCacheType
from gallop.pace.llm.configs import (
    GallopSpecDecodeConfig,
    PardSpecDecodeConfig,
    SamplingConfig,
    SpecDecodeConfig,
)
from gallop.pace.llm.engine_parts import (
    Cache,
    CacheContext,
    SlabCache,
    SlabPoolContext,
    SlabPoolManager,
    SpeculativeDecoder,
    create_cache,
)
from gallop.pace.llm.model import LLMModel
from gallop.pace.llm.operators import LLMBackendType, LLMOperatorType, OperatorConfig

__all__ = [
    "Cache",
    "CacheContext",
    "GallopSpecDecodeConfig",
    "KVCacheType",
    "LLMBackendType",
    "LLMModel",
    "LLMOperatorType",
    "OperatorConfig",
    "PardSpecDecodeConfig",
    "SamplingConfig",
    "SlabCache",
    "SlabPoolContext",
    "SlabPoolManager",
    "SpecDecodeConfig",
    "SpeculativeDecoder",
    "create_cache",
]
