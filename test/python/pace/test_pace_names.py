"""Names, enums, defaults and signatures of AMD PACE's Python API."""

import dataclasses
import importlib
import inspect
import subprocess
import sys

import pytest

import gallop.pace as pace
from gallop.pace import llm
from gallop.pace.llm import attention, configs, operators, outputs
from gallop.pace.utils import logging

NAMES = {
    pace: ["__version__", "__version_tuple__", "core", "utils", "llm", "ops"],
    pace.core: ["thread_bind", "pace_logger"],
    llm: [
        "LLMModel",
        "SamplingConfig",
        "OperatorConfig",
        "SpecDecodeConfig",
        "PardSpecDecodeConfig",
        "SpeculativeDecoder",
        "LLMOperatorType",
        "LLMBackendType",
        "KVCacheType",
        "Cache",
        "CacheContext",
        "SlabPoolManager",
        "SlabPoolContext",
        "SlabCache",
        "create_cache",
    ],
    attention: ["AttentionBackendType", "AttentionType", "ContiguousCache", "KVCacheManager"],
    outputs: ["GeneratorOutput", "SamplerOutput", "ModelOutput", "SpeculativeStats"],
    logging: [
        "PACE_ASSERT",
        "PACE_DEBUG",
        "PACE_ERROR",
        "PACE_INFO",
        "PACE_LLM_ASSERT",
        "PACE_LLM_DEBUG",
        "PACE_LLM_ERROR",
        "PACE_LLM_INFO",
        "PACE_LLM_WARNING",
        "PACE_WARNING",
        "logLevel",
        "pacelogger",
        "suppress_logging",
        "suppress_logging_fn",
    ],
    pace.utils: ["Worker", "MultipleProcesses", "pacelogger", "logLevel"],
}


@pytest.mark.parametrize("module", NAMES, ids=lambda m: m.__name__)
def test_module_has_every_name(module):
    assert [name for name in NAMES[module] if not hasattr(module, name)] == []


ENUMS = [
    (
        llm.KVCacheType,
        {"DYNAMIC": "dynamic", "BMC": "bmc", "SLAB_POOL": "slab_pool", "PAGED": "paged"},
    ),
    (
        llm.LLMOperatorType,
        {
            "QKVProjection": "qkvprojection",
            "RoPE": "rope",
            "Attention": "attention",
            "OutProjection": "outprojection",
            "MLP": "mlp",
            "Norm": "norm",
            "LMHead": "lmhead",
        },
    ),
    (
        llm.LLMBackendType,
        {
            "NATIVE": "native",
            "JIT": "jit",
            "TPP": "tpp",
            "IMBPS": "imbps",
            "AOCLDLP": "aocldlp",
        },
    ),
    (
        attention.AttentionBackendType,
        {"JIT": "jit", "NATIVE": "native", "SLAB": "slab", "PAGED": "paged"},
    ),
    (attention.AttentionType, {"MHA": "mha", "GQA": "gqa"}),
    (configs.SamplingMode, {"GREEDY_SEARCH": 1, "RANDOM_SAMPLING": 2}),
]


@pytest.mark.parametrize("enum, members", ENUMS, ids=lambda x: getattr(x, "__name__", ""))
def test_enum_members_and_values(enum, members):
    assert {member.name: member.value for member in enum} == members


def test_string_enums_equal_and_hash_as_their_values():
    assert llm.LLMOperatorType.MLP == "mlp"
    assert {"mlp": 1}[llm.LLMOperatorType.MLP] == 1
    assert str(llm.LLMBackendType.TPP) == "tpp"
    assert llm.KVCacheType.BMC != "bmc"


def test_cache_type_by_member_and_by_name():
    get = llm.KVCacheType.get_kv_cache_type
    assert get(llm.KVCacheType.PAGED) is llm.KVCacheType.PAGED
    assert get("slab_pool") is llm.KVCacheType.SLAB_POOL
    assert get("SLAB_POOL") is llm.KVCacheType.SLAB_POOL
    with pytest.raises(ValueError) as e:
        get("pool")
    assert str(e.value) == "'pool' is not a valid KVCacheType"


def test_sampling_config_has_paces_order_and_defaults():
    assert [
        (p.name, p.default) for p in inspect.signature(llm.SamplingConfig).parameters.values()
    ] == [
        ("max_new_tokens", None),
        ("min_new_tokens", 0),
        ("ignore_eos", False),
        ("repetition_penalty", 1.0),
        ("frequency_penalty", 0.0),
        ("do_sample", False),
        ("temperature", 1.0),
        ("top_k", 0),
        ("top_p", 1.0),
        ("min_p", 0.0),
        ("seed", None),
        ("pad_token_id", None),
        ("eos_token_id", None),
        ("stop_strings", None),
        ("return_probs", False),
        ("return_logprobs", False),
        ("return_input_logprobs", False),
        ("return_text", False),
        ("kwargs", inspect.Parameter.empty),
    ]


def test_model_arguments_have_paces_order():
    names = list(inspect.signature(llm.LLMModel).parameters)
    assert names[:7] == [
        "model_name_or_path",
        "tokenizer_name_or_path",
        "dtype",
        "kv_cache_type",
        "spec_config",
        "opconfig",
        "disable_tqdm",
    ]
    names = list(inspect.signature(llm.LLMModel.for_serving).parameters)
    assert names == ["model_name_or_path", "dtype", "kv_cache_type", "opconfig"]
    names = list(inspect.signature(llm.LLMModel.generate).parameters)
    assert names == ["self", "prompt", "sampling_config", "text_streamer"]


@pytest.mark.parametrize(
    "name",
    [
        "SpeculativeDecoder",
        "Cache",
        "CacheContext",
        "SlabPoolManager",
        "SlabPoolContext",
        "SlabCache",
        "create_cache",
    ],
)
def test_parts_of_paces_engine_say_what_to_use_instead(name):
    with pytest.raises(NotImplementedError, match=name):
        getattr(llm, name)()


#: Modules that AMD's programs import, with the names that they take from them.
IMPORTS = [
    ("llm.llm", "LLMModel"),
    ("llm.ops", "LLMOperatorType LLMBackendType BackendType OperatorType DataType"),
    ("llm.configs", "SamplingConfig OperatorConfig PardSpecDecodeConfig SamplingMode"),
    ("llm.attention", "AttentionBackendType KVCacheType Attention KVCacheBase BMCKVCache"),
    ("llm.attention", "DynamicKVCache ContiguousAttentionBackend PagedAttentionBackend"),
    ("llm.attention", "SlabAttentionBackend SlabPoolLayerView create_slab_pool get_kv_cache_class"),
    ("llm.attention.base", "AttentionType AttentionBackendType KVCacheType KVCacheBase"),
    ("llm.attention.base", "CacheContext Cache KVCacheManager AttentionBackend"),
    ("ops.enum", "BackendType OperatorType FusedOperatorType DataType"),
    ("utils.worker", "Worker MultipleProcesses"),
    ("utils.inference_dataset", "LLMInferenceDataset"),
    ("version", "__version__ __version_tuple__"),
]


@pytest.mark.parametrize("module, names", IMPORTS)
def test_modules_that_programs_import(module, names):
    found = importlib.import_module("gallop.pace." + module)
    assert [n for n in names.split() if not hasattr(found, n)] == []
    for package in (llm, attention, pace):
        for n in names.split():
            assert getattr(found, n) is getattr(package, n, getattr(found, n)), n


@pytest.mark.parametrize("module", ["llm.attention.slab", "llm.attention.slab.cache", "llm.models.llama",
                                    "ops.mlp", "utils.mxfp4", "llm.sampler"])
def test_modules_of_paces_engine_are_refused_by_name(module):
    for kind in (NotImplementedError, ModuleNotFoundError):
        with pytest.raises(kind, match="gallop.pace.%s.*is a part of AMD PACE's engine" % module[:7]):
            importlib.import_module("gallop.pace." + module)
    for other in ("gallop.pace.llm.nothing", "gallop.pace.ops.mlps", "gallop.mlp"):
        with pytest.raises(ModuleNotFoundError, match="No module named '%s'" % other):
            importlib.import_module(other)


def test_finder_refuses_only_whole_names():
    from gallop.pace.llm.engine_parts import Finder

    for name in ("gallop.pace.ops.mlp", "gallop.pace.llm.models.llama"):
        with pytest.raises(NotImplementedError, match=name):
            Finder.find_spec(name)
    for name in ("gallop.pace.ops.mlps", "ops.mlp", "x.gallop.pace.ops.mlp", "gallop.pace.ops"):
        assert Finder.find_spec(name) is None


def test_values_of_enums_of_operators():
    enums = importlib.import_module("gallop.pace.ops.enum")
    assert enums.OperatorType.LINEAR == "linear" and len(enums.OperatorType) == 15
    assert enums.FusedOperatorType.FUSEDMOE == "fusedmoe" and len(enums.FusedOperatorType) == 8
    assert [x.value for x in enums.DataType] == ["float32", "bfloat16"]


def test_operators_on_tensors_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="rmsnorm"):
        pace.ops.rmsnorm


def test_import_needs_neither_torch_nor_transformers():
    script = (
        "import sys, gallop.pace, gallop.pace.llm, gallop.pace.server;"
        "print([m for m in ('torch', 'transformers', 'numpy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_backend_enum_is_shared():
    assert llm.LLMBackendType is operators.BackendType


def test_fields_of_results():
    names = [f.name for f in dataclasses.fields(outputs.GeneratorOutput)]
    assert names[:6] == [
        "output_token_ids",
        "decoded_text",
        "input_logprobs",
        "probs",
        "logprobs",
        "speculative_stats",
    ]
    assert outputs.GeneratorOutput([[1]]).finish_reason is None
    assert [f.name for f in dataclasses.fields(outputs.SamplerOutput)] == [
        "next_tokens",
        "probs",
        "logprobs",
    ]
    assert [f.name for f in dataclasses.fields(outputs.ModelOutput)] == ["logits"]
    assert [f.name for f in dataclasses.fields(outputs.SpeculativeStats)] == [
        "total_speculated_tokens",
        "mean_accepted_tokens",
    ]
