"""Names of AMD PACE's engine, which works on torch tensors. Gallop's engine is not made of them."""


def _refuse(name):
    raise NotImplementedError(
        "%s is a part of AMD PACE's engine that Gallop does not have: choose a KV cache with "
        "LLMModel(kv_cache_type=...), or use gallop.Executor to compute steps yourself" % name
    )


def part(name):
    """Returns a class NAME that cannot be constructed."""

    def refuse(cls, *args, **kwargs):
        _refuse(name)

    return type(name, (), {"__new__": refuse, "__doc__": "AMD PACE's %s: not available." % name})


SpeculativeDecoder = part("SpeculativeDecoder")
Cache = part("Cache")
CacheContext = part("CacheContext")
SlabPoolManager = part("SlabPoolManager")
SlabPoolContext = part("SlabPoolContext")
SlabCache = part("SlabCache")
ContiguousCache = part("ContiguousCache")
KVCacheManager = part("KVCacheManager")


def create_cache(*args, **kwargs):
    """AMD PACE's create_cache(): not available."""
    _refuse("create_cache")
