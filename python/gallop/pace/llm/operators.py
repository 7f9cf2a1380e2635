"""Kinds of operators, and the choice of a backend for each."""

import collections
import json

from gallop.pace.llm.attention import AttentionBackendType, KVCacheType
from gallop.pace.ops.enum import BackendType, StrEnum
from gallop.pace.utils.logging import PACE_LLM_ASSERT, PACE_LLM_WARNING


class LLMOperatorType(StrEnum):
    """The kinds of operators of a language model. Members are keys of OperatorConfig."""

    QKVProjection = "qkvprojection"
    RoPE = "rope"
    Attention = "attention"
    OutProjection = "outprojection"
    MLP = "mlp"
    Norm = "norm"
    LMHead = "lmhead"


LLMBackendType = BackendType

#: The attribute of a finalized OperatorConfig, and Gallop's name, of each kind.
_ATTRIBUTES = {
    LLMOperatorType.QKVProjection: "qkv_projection",
    LLMOperatorType.RoPE: "rope",
    LLMOperatorType.Attention: "attention",
    LLMOperatorType.OutProjection: "out_projection",
    LLMOperatorType.MLP: "mlp",
    LLMOperatorType.Norm: "norm",
    LLMOperatorType.LMHead: "lm_head",
}

_DEFAULTS = {
    LLMOperatorType.QKVProjection: BackendType.TPP,
    LLMOperatorType.RoPE: BackendType.NATIVE,
    LLMOperatorType.OutProjection: BackendType.TPP,
    LLMOperatorType.MLP: BackendType.TPP,
    LLMOperatorType.Norm: BackendType.JIT,
    LLMOperatorType.LMHead: BackendType.TPP,
}

#: The backends of attention of each KV cache; the first is the default.
_ATTENTION = {
    KVCacheType.DYNAMIC: (AttentionBackendType.JIT, AttentionBackendType.NATIVE),
    KVCacheType.BMC: (AttentionBackendType.JIT, AttentionBackendType.NATIVE),
    KVCacheType.SLAB_POOL: (AttentionBackendType.SLAB,),
    KVCacheType.PAGED: (AttentionBackendType.PAGED,),
}

_FROZEN = "This OperatorConfig instance is finalized and cannot be modified."


def _backend(value, kind):
    """Returns the member of the enum KIND that VALUE names, or VALUE."""
    if type(value) is str and value.lower() in [member.value for member in kind]:
        return kind(value.lower())
    return value


def _kind(name):
    """Returns the enum of the backends of an operator."""
    return AttentionBackendType if name == LLMOperatorType.Attention else BackendType


class OperatorConfig(collections.UserDict):
    """Backends by the kind of operator, as in AMD PACE::

        OperatorConfig(**{LLMOperatorType.MLP: LLMBackendType.TPP})

    Gallop's own kernels serve every kind and are the default. A backend that is given here is asked
    for where the library was built with it; docs/KERNELS.md says what each name means. NATIVE,
    which in PACE means torch's own operators, leaves the choice to Gallop.
    """

    def __init__(self, **backends):
        super().__init__()
        for name, value in backends.items():
            self.data[str(name)] = _backend(value, _kind(name))
        self._asked = {}
        self._finalized = False

    def __setattr__(self, name, value):
        PACE_LLM_ASSERT(not self.__dict__.get("_finalized", False), _FROZEN)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        PACE_LLM_ASSERT(not self.__dict__.get("_finalized", False), _FROZEN)
        self.data[str(key)] = _backend(value, _kind(key))

    def finalize(self, cache_type=None):
        """Checks the backends, moves those of known kinds into attributes, sets the others to
        PACE's defaults for CACHE_TYPE, and freezes the object, which it returns. LLMModel calls
        it."""
        PACE_LLM_ASSERT(not self._finalized, _FROZEN)
        for name, value in self.data.items():
            kind = _kind(name)
            PACE_LLM_ASSERT(
                isinstance(value, kind),
                "%s is not a valid %s. Valid values are: %s" % (value, kind.__name__, list(kind)),
            )
        self._asked = dict(self.data)
        for kind, attribute in _ATTRIBUTES.items():
            if kind is not LLMOperatorType.Attention:
                setattr(self, attribute, self.data.pop(kind, _DEFAULTS[kind]))
        allowed = (AttentionBackendType.SLAB, *AttentionBackendType)  # without a cache type
        if cache_type is not None:
            allowed = _ATTENTION[KVCacheType.get_kv_cache_type(cache_type)]
        wish = self.data.pop(LLMOperatorType.Attention, allowed[0])
        if wish not in allowed:
            PACE_LLM_WARNING(
                "Attention backend '%s' is incompatible with cache type '%s'. Overriding to '%s'."
                % (wish, KVCacheType.get_kv_cache_type(cache_type).value, allowed[0])
            )
            wish = allowed[0]
        self.attention = wish
        self._finalized = True
        return self

    def engine_options(self):
        """Returns op_config and attention_backend, as gallop.LLM takes them, of what was given."""
        linears = {
            _ATTRIBUTES[kind]: self._asked[kind].value
            for kind in _DEFAULTS
            if self._asked.get(kind, BackendType.NATIVE) is not BackendType.NATIVE
        }
        options = {}
        if linears:
            options["op_config"] = json.dumps(linears)
        if LLMOperatorType.Attention in self._asked:
            options["attention_backend"] = self.attention.value
            if self.attention is AttentionBackendType.NATIVE:
                options["attention_backend"] = "auto"
        return options
