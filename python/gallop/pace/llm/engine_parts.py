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


def function(name):
    """Returns a function NAME that cannot be called."""

    def refuse(*args, **kwargs):
        _refuse(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "AMD PACE's %s(): not available." % name
    return refuse


Attention = part("Attention")
AttentionBackend = part("AttentionBackend")
BMCKVCache = part("BMCKVCache")
Cache = part("Cache")
CacheContext = part("CacheContext")
ContiguousAttentionBackend = part("ContiguousAttentionBackend")
ContiguousCache = part("ContiguousCache")
DynamicKVCache = part("DynamicKVCache")
KVCacheBase = part("KVCacheBase")
KVCacheManager = part("KVCacheManager")
PagedAttentionBackend = part("PagedAttentionBackend")
SlabAttentionBackend = part("SlabAttentionBackend")
SlabCache = part("SlabCache")
SlabPoolContext = part("SlabPoolContext")
SlabPoolLayerView = part("SlabPoolLayerView")
SlabPoolManager = part("SlabPoolManager")
SpeculativeDecoder = part("SpeculativeDecoder")
create_cache = function("create_cache")
create_slab_pool = function("create_slab_pool")
get_kv_cache_class = function("get_kv_cache_class")

#: Modules of AMD PACE's engine, which work on torch tensors.
MODULES = (
    "llm.attention.contiguous",
    "llm.attention.paged",
    "llm.attention.prefix_cache",
    "llm.attention.slab",
    "llm.attention.specs",
    "llm.models",
    "llm.sampler",
    "llm.speculative",
    "llm.stopping_criteria",
    "ops.activations",
    "ops.backends",
    "ops.base",
    "ops.fused_linear",
    "ops.linear",
    "ops.mlp",
    "ops.moe",
    "ops.moe_routing",
    "ops.normalization",
    "ops.registry",
    "ops.rotary_embedding",
    "utils.mxfp4",
)


class MissingModule(ModuleNotFoundError, NotImplementedError):
    """An import of a module of AMD PACE's engine."""


class Finder:
    """Refuses the modules of AMD PACE's engine by name, after no other finder has found them."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, _, name = fullname.partition("gallop.pace.")
        if package == "" and any(name == x or name.startswith(x + ".") for x in MODULES):
            raise MissingModule(
                "%s is a part of AMD PACE's engine that Gallop does not have: gallop.pace.llm has "
                "LLMModel, and gallop.Executor computes steps" % fullname,
                name=fullname,
            )
        return None
