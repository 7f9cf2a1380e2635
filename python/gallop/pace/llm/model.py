"""LLMModel: a model to generate with, as AMD PACE's users write it."""

import json
import os
import sys

from gallop._errors import BadInput, GallopError, Unsupported
from gallop.pace import core
from gallop.pace.llm.attention import KVCacheType
from gallop.pace.llm.configs import PardSpecDecodeConfig, SpecDecodeConfig
from gallop.pace.llm.engine import Engine
from gallop.pace.llm.files import ModelFiles, SpecialTokens, object_of, with_config
from gallop.pace.llm.generator import Generator
from gallop.pace.llm.tokenizer import Tokenizer, transformers_tokenizer
from gallop.pace.utils.logging import PACE_LLM_ASSERT, PACE_LLM_WARNING

#: Gallop's names of the data types that PACE accepts.
DTYPES = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "fp32": "fp32",
}


class UnsupportedModel(ModuleNotFoundError, ValueError):
    """A model whose architecture the engine does not have."""


def _dtype(dtype):
    """Returns Gallop's name of a torch.dtype or of its name."""
    name = str(dtype)
    is_dtype = type(dtype).__module__ == "torch" and name.startswith("torch.")
    if is_dtype or isinstance(dtype, str):
        name = name.rpartition(".")[2]
        if name in DTYPES:
            return DTYPES[name]
        if is_dtype or name in ("float16", "fp16", "half"):
            raise ValueError("Unsupported dtype: torch.%s" % {"fp16": "float16"}.get(name, name))
    raise TypeError("Generator input dtype should be a torch.dtype, got %s" % type(dtype))


def _number(name):
    """Returns a positive number of the environment, or None."""
    text = os.environ.get(name, "")
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        PACE_LLM_WARNING("%s: expected a number above 0, found '%s': ignored" % (name, text))
        return None
    return int(text)


def _environment(cache_type, config):
    """Returns the engine's options that PACE's environment variables mean."""
    options = {}
    threads = core.bound_threads() or _number("OMP_NUM_THREADS")
    if threads:
        options["threads"] = min(threads, 1024)
    if cache_type is KVCacheType.BMC and _number("PACE_BMC_NUM_SPLITS"):
        options["bmc_splits"] = _number("PACE_BMC_NUM_SPLITS")
    if cache_type is KVCacheType.PAGED and _number("PACE_MAX_CACHE_TOKENS"):
        tokens = _number("PACE_MAX_CACHE_TOKENS")
        options["kv_cache_tokens"] = tokens
        context = config.get("max_position_embeddings")
        if context and tokens < context:
            options["max_model_len"] = max(2, tokens)
    if cache_type is KVCacheType.SLAB_POOL:
        block = _number("SLAB_BLOCK_SIZE")
        if block:
            # PACE allows multiples of 16, the engine powers of two.
            options["block_size"] = max(16, min(256, 1 << (block.bit_length() - 1)))
        layout = os.environ.get("SLAB_LAYOUT", "").lower()
        if layout in ("head_major", "block_major"):
            options["kv_cache_layout"] = layout
    if os.environ.get("PACE_PREFIX_CACHE") == "0":
        options["prefix_index"] = "none"
    return options


class LLMModel:
    """A model that is opened at once and generates for batches of prompts.

    model_name_or_path: a checkpoint folder, a .gguf or .gallop file, or the name of a model on the
        Hugging Face hub.
    tokenizer_name_or_path: another tokenizer for texts; transformers must be installed for it.
    dtype: torch.bfloat16 (default), torch.float32, or their names.
    kv_cache_type: a KVCacheType or its value.
    spec_config: a PardSpecDecodeConfig or GallopSpecDecodeConfig; None: no speculative decoding.
    opconfig: an OperatorConfig.
    disable_tqdm: no bar on standard error while the model is opened.
    options: options of gallop.LLM by their names, such as quant="int8" or threads=16.
    """

    def __init__(
        self,
        model_name_or_path,
        tokenizer_name_or_path=None,
        dtype="bfloat16",
        kv_cache_type=KVCacheType.DYNAMIC,
        spec_config=None,
        opconfig=None,
        disable_tqdm=False,
        **options,
    ):
        self._name = str(model_name_or_path)
        cache_type = KVCacheType.get_kv_cache_type(kv_cache_type)
        settings = {"dtype": _dtype(dtype), "kv_cache_type": cache_type.value}
        files = ModelFiles(self._name)
        files.check()
        tokenizer_files = ModelFiles(tokenizer_name_or_path) if tokenizer_name_or_path else files
        tokenizer_files.check_tokenizer()
        settings.update(_environment(cache_type, files.config()))
        draft = None  # a folder that is needed until the draft model is open
        if spec_config is not None:
            settings["speculative_config"], draft = self._speculation(spec_config)
        backends = {}
        if opconfig is not None:
            opconfig.finalize(cache_type)
            backends = opconfig.engine_options()
        settings.update(options)
        bar = _Bar(disable_tqdm)
        try:
            engine = self._open(settings, backends)
        finally:
            if draft:
                draft.cleanup()
        bar.end()
        if files.folder is None:  # a model of the hub, which is in the cache now
            files = ModelFiles(self._name)
            tokenizer_files = tokenizer_files if tokenizer_name_or_path else files
        self._files = files
        self._dtype = settings["dtype"]
        self._cache_type = cache_type
        self._special = SpecialTokens(tokenizer_files, engine)
        self._tokenizer = None
        self._tokenizer_name = tokenizer_name_or_path
        codec = engine
        if tokenizer_name_or_path:
            codec = self.get_tokenizer()
        self.generator = Generator(
            self, engine, files, self._special, codec, cache_type, spec_config
        )

    def _speculation(self, config):
        """Returns speculative_config of the engine, and a folder that it names, or None."""
        if not isinstance(config, SpecDecodeConfig):
            raise ValueError("spec_config: %s is not a SpecDecodeConfig" % type(config))
        members, folder = config.engine_options(), None
        if isinstance(config, PardSpecDecodeConfig):
            draft = ModelFiles(config.model_name_or_path)
            draft.check()
            found = draft.config().get("pard_token")
            PACE_LLM_ASSERT(
                found is not None or config.pard_token is not None or draft.folder is None,
                "pard_token should be in the config.json of the draft model or in "
                "PardSpecDecodeConfig",
            )
            # The engine reads the mask token in config.json only.
            if found is None and draft.path("config.json") and not draft.is_file:
                folder = with_config(draft.folder, {"pard_token": config.pard_token})
                members["model"] = folder.name
        return json.dumps(members), folder

    def _open(self, settings, backends):
        """Opens the engine. Where this build lacks a backend, the engine chooses all of them."""
        try:
            try:
                return Engine(model=self._name, **settings, **backends)
            except (BadInput, Unsupported) as e:
                if not backends:
                    raise
                engine = Engine(model=self._name, **settings)
                PACE_LLM_WARNING("%s; Gallop's own backends are used" % e)
                return engine
        except GallopError as e:
            if "architecture" in str(e) and isinstance(e, (BadInput, Unsupported)):
                raise UnsupportedModel(str(e)) from None
            raise

    @classmethod
    def for_serving(
        cls, model_name_or_path, dtype="bfloat16", kv_cache_type=KVCacheType.DYNAMIC, opconfig=None
    ):
        """Opens a model without a bar."""
        return cls(
            model_name_or_path,
            dtype=dtype,
            kv_cache_type=kv_cache_type,
            opconfig=opconfig,
            disable_tqdm=True,
        )

    def generate(self, prompt, sampling_config=None, text_streamer=None):
        """Generates tokens for a batch of prompts and returns a GeneratorOutput.

        prompt: an int tensor or array [B, S], a BatchEncoding or dict with input_ids and optionally
            attention_mask; padding is on the left. Also lists of token ids, a text, or texts.
        sampling_config: a SamplingConfig; None: the model's own values.
        text_streamer: an object with put() and end(), such as transformers.TextStreamer. put() is
            called with the prompt [B, S], and then with the new tokens [B, n] of each step.
        """
        return self.generator.generate(prompt, sampling_config, text_streamer)

    def step(self, inputs, positions, kv_cache_mgr, paged_attn_metadata=None):
        """AMD PACE's step of its server: not available."""
        raise NotImplementedError(
            "LLMModel.step: AMD PACE's KV cache managers are not part of Gallop; gallop.Executor "
            "computes steps for schedulers outside of the library"
        )

    def get_tokenizer(self):
        """Returns transformers' tokenizer if transformers is installed, else a small one with
        encode(), decode(), __call__() and apply_chat_template()."""
        if self._tokenizer is None:
            name = self._tokenizer_name or self._files.folder
            if name and not self._files.is_file:
                self._tokenizer = transformers_tokenizer(name)
            if self._tokenizer is None and self._tokenizer_name:
                raise ImportError(
                    "tokenizer_name_or_path needs transformers: pip install transformers"
                )
            if self._tokenizer is None:
                self._tokenizer = Tokenizer(self.generator.engine, self._special)
        return self._tokenizer

    def get_config(self):
        """Returns transformers' configuration if transformers is installed, else an object with the
        members of config.json."""
        if self._files.path("config.json"):
            try:
                from transformers import AutoConfig
            except ImportError:
                pass
            else:
                return AutoConfig.from_pretrained(str(self._files.folder))
        return object_of(self._files.json("config.json"))

    def close(self):
        """Frees the memory of the model."""
        self.generator.engine.close()

    def __repr__(self):
        config = self._files.config()
        names = ("architectures", "num_hidden_layers", "hidden_size", "vocab_size")
        shown = ["%s=%r" % (name, config[name]) for name in names if name in config]
        shown += ["dtype=%s" % self._dtype, "kv_cache_type=%s" % self._cache_type.value]
        return "LLMModel(%r, %s)" % (self._name, ", ".join(shown))


class _Bar:
    """The bar "Loading checkpoints" on standard error."""

    def __init__(self, disabled):
        self._disabled = disabled
        self._show(0, "\r")

    def _show(self, percent, end):
        if not self._disabled:
            fill = "#" * (percent // 5)
            sys.stderr.write("Loading checkpoints: %3d%%|%-20s|%s" % (percent, fill, end))
            sys.stderr.flush()

    def end(self):
        self._show(100, "\n")
