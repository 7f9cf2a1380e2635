"""OperatorConfig: accepted values, defaults by cache type, freezing, and Gallop's options."""

import json

import pytest

from gallop.pace.llm import KVCacheType, LLMBackendType, LLMOperatorType, OperatorConfig
from gallop.pace.llm.attention import AttentionBackendType

PROJECTIONS = ("qkv_projection", "out_projection", "mlp", "lm_head")


def test_defaults():
    config = OperatorConfig()
    config.finalize(KVCacheType.DYNAMIC)
    assert all(getattr(config, name) is LLMBackendType.TPP for name in PROJECTIONS)
    assert config.rope is LLMBackendType.NATIVE and config.norm is LLMBackendType.JIT


ATTENTION = [
    # (cache, wish, what runs, warns)
    ("DYNAMIC", None, "JIT", False),
    ("BMC", None, "JIT", False),
    ("SLAB_POOL", None, "SLAB", False),
    ("PAGED", None, "PAGED", False),
    ("DYNAMIC", "NATIVE", "NATIVE", False),
    ("BMC", "SLAB", "JIT", True),
    ("SLAB_POOL", "NATIVE", "SLAB", True),
    ("PAGED", "JIT", "PAGED", True),
]


@pytest.mark.parametrize("cache, wish, runs, warns", ATTENTION)
def test_attention_follows_the_cache(cache, wish, runs, warns, capsys):
    wishes = {LLMOperatorType.Attention: AttentionBackendType[wish]} if wish else {}
    config = OperatorConfig(**wishes)
    config.finalize(KVCacheType[cache])
    assert config.attention is AttentionBackendType[runs]
    out = capsys.readouterr().out
    assert (" W " in out) == warns
    if warns:
        assert (
            "Attention backend '%s' is incompatible with cache type '%s'. Overriding to '%s'."
            % (wish.lower(), cache.lower(), runs.lower())
        ) in out


def test_keys_by_member_and_by_value():
    config = OperatorConfig(
        **{LLMOperatorType.Norm: LLMBackendType.NATIVE, "mlp": LLMBackendType.JIT}
    )
    assert config["norm"] is LLMBackendType.NATIVE and config[LLMOperatorType.MLP] == "jit"
    config.finalize(KVCacheType.BMC)
    assert config.norm is LLMBackendType.NATIVE and config.mlp is LLMBackendType.JIT
    assert not config.data


def test_unknown_keys_stay_in_the_dict():
    config = OperatorConfig(out_projection=LLMBackendType.JIT)
    config.finalize(KVCacheType.BMC)
    assert config.out_projection is LLMBackendType.TPP
    assert config.data == {"out_projection": LLMBackendType.JIT}


@pytest.mark.parametrize("value", ["fast", 3, None, AttentionBackendType.SLAB])
def test_value_of_another_kind_is_refused_when_it_is_used(value):
    for config in (OperatorConfig(mlp=value), OperatorConfig(), OperatorConfig(extra=value)):
        if not config.data:
            config["norm"] = value
        with pytest.raises(AssertionError) as e:
            config.finalize(KVCacheType.BMC)
        assert str(e.value) == (
            "%s is not a valid BackendType. Valid values are: [<BackendType.NATIVE: 'native'>, "
            "<BackendType.JIT: 'jit'>, <BackendType.TPP: 'tpp'>, <BackendType.IMBPS: 'imbps'>, "
            "<BackendType.AOCLDLP: 'aocldlp'>]" % value
        )


def test_attention_has_backends_of_its_own():
    with pytest.raises(AssertionError) as e:
        OperatorConfig(attention=LLMBackendType.IMBPS).finalize(KVCacheType.BMC)
    assert str(e.value) == (
        "imbps is not a valid AttentionBackendType. Valid values are: [<AttentionBackendType.JIT: "
        "'jit'>, <AttentionBackendType.NATIVE: 'native'>, <AttentionBackendType.SLAB: 'slab'>, "
        "<AttentionBackendType.PAGED: 'paged'>]"
    )


@pytest.mark.parametrize("wish, runs", [(None, "SLAB"), ("NATIVE", "NATIVE"), ("PAGED", "PAGED")])
def test_without_a_cache_type_attention_is_what_was_asked_for(wish, runs):
    config = OperatorConfig(**({"attention": AttentionBackendType[wish]} if wish else {}))
    assert config.finalize() is config
    assert config.attention is AttentionBackendType[runs]


def test_names_of_backends_are_accepted():
    assert OperatorConfig(mlp="TPP")["mlp"] is LLMBackendType.TPP


def test_finalized_config_is_frozen():
    config = OperatorConfig()
    config.finalize(KVCacheType.BMC)
    for change in (
        lambda: config.finalize(KVCacheType.BMC),
        lambda: setattr(config, "mlp", LLMBackendType.JIT),
        lambda: config.__setitem__("mlp", LLMBackendType.JIT),
    ):
        with pytest.raises(AssertionError, match="finalized"):
            change()


@pytest.mark.parametrize(
    "given, options",
    [
        ({}, {}),
        ({"mlp": "native", "rope": "native"}, {}),
        ({"mlp": "tpp", "norm": "jit"}, {"mlp": "tpp", "norm": "jit"}),
        (
            {"qkvprojection": "imbps", "lmhead": "jit"},
            {"qkv_projection": "imbps", "lm_head": "jit"},
        ),
    ],
)
def test_engine_gets_what_was_given(given, options):
    config = OperatorConfig(**given)
    config.finalize(KVCacheType.BMC)
    assert json.loads(config.engine_options().get("op_config", "{}")) == options


def test_engine_gets_the_attention_that_runs():
    config = OperatorConfig(attention=AttentionBackendType.PAGED)
    config.finalize(KVCacheType.SLAB_POOL)
    assert config.engine_options() == {"attention_backend": "slab"}
