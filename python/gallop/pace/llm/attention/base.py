"""Types of KV caches and backends of attention."""

import enum

from gallop.pace.llm.engine_parts import (
    AttentionBackend,
    Cache,
    CacheContext,
    KVCacheBase,
    KVCacheManager,
)
from gallop.pace.ops.enum import StrEnum


class AttentionBackendType(StrEnum):
    """AMD PACE's backends of attention."""

    JIT = "jit"
    NATIVE = "native"
    SLAB = "slab"
    PAGED = "paged"


class AttentionType(enum.Enum):
    """Whether query heads share heads of keys and values. Gallop reads it from the model."""

    MHA = "mha"
    GQA = "gqa"


class KVCacheType(enum.Enum):
    """How memory of the KV cache is allocated."""

    DYNAMIC = "dynamic"
    BMC = "bmc"
    SLAB_POOL = "slab_pool"
    PAGED = "paged"

    @staticmethod
    def get_kv_cache_type(value):
        """Returns the member that VALUE is or names."""
        if isinstance(value, KVCacheType):
            return value
        if isinstance(value, str):
            for member in KVCacheType:
                if value.lower() == member.value:
                    return member
        raise ValueError("%r is not a valid KVCacheType" % (value,))


__all__ = [
    "AttentionBackend",
    "AttentionBackendType",
    "AttentionType",
    "Cache",
    "CacheContext",
    "KVCacheBase",
    "KVCacheManager",
    "KVCacheType",
]
