"""platform.py - the platform that vLLM runs on: a CPU whose worker is Gallop's. It reads vLLM's
configuration and refuses what the worker cannot do. vLLM imports this module while it imports its
own, so that most of vLLM can only be imported inside functions."""
import atexit
import gc
import os

import torch
from vllm.platforms.cpu import CpuPlatform

from gallop_vllm import options

# What is imported so far stays; the garbage collector need not look through it while the rest of vLLM
# is imported.
gc.freeze()
atexit.register(gc.unfreeze)

BLOCK = 128  # rows of a KV block
# vLLM's names of the formats of quantized folders that the library may be able to read.
FORMATS = ("gptq", "auto_gptq", "gptq_marlin", "awq", "auto_awq", "awq_marlin", "moe_wna16",
           "compressed-tensors", "mxfp4", "gpt_oss_mxfp4")


def unsupported(c):
    """Returns a sentence that names what the VllmConfig C asks for and the worker cannot do, or
    None."""
    p, m, s = c.parallel_config, c.model_config, c.speculative_config
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
                 "prefill_context_parallel_size", "decode_context_parallel_size"):
        if getattr(p, name, 1) > 1:
            return f"{name} is {getattr(p, name)}, expected 1"
    if p.distributed_executor_backend not in (None, "uni"):
        return f"distributed_executor_backend is {p.distributed_executor_backend}, expected uni"
    if c.lora_config is not None:
        return "LoRA adapters (enable_lora) are not supported"
    if c.kv_transfer_config is not None:
        return "kv_transfer_config is not supported"
    if c.ec_transfer_config is not None:
        return "ec_transfer_config is not supported"
    if getattr(c, "watermark_config", None) is not None:
        return "watermark_config is not supported"
    if s is not None and s.method != "ngram":
        return f"the method of speculative_config is {s.method}, expected ngram"
    if s is not None and s.num_speculative_tokens > options.MAX_DRAFTS:
        return (f"num_speculative_tokens is {s.num_speculative_tokens}, expected at most "
                f"{options.MAX_DRAFTS}")
    if m is None:
        return None
    if m.runner_type != "generate":
        return f"the runner {m.runner_type} is not supported, only generate"
    if m.is_encoder_decoder:
        return "encoder-decoder models are not supported"
    if m.is_multimodal_model and not m.multimodal_config.language_model_only:
        return "multimodal input is not supported; --language-model-only runs the text model"
    for name in ("hf_overrides", "enable_prompt_embeds", "logits_processors", "enable_sleep_mode"):
        if getattr(m, name, None):
            return f"{name} is not supported"
    if m.dtype not in (torch.bfloat16, torch.float32):
        return f"dtype is {str(m.dtype).removeprefix('torch.')}, expected bfloat16 or float32"
    if m.quantization is not None and m.model_arch_config.quantization_config is None:
        return (f"quantization is {m.quantization}, which the checkpoint does not have; Gallop's own "
                "is the member quant of additional_config[\"gallop\"]")
    if m.logprobs_mode != "raw_logprobs":
        return f"logprobs_mode is {m.logprobs_mode}, expected raw_logprobs"
    if c.load_config.load_format == "dummy":
        return "load_format dummy is not supported; `gallop synth` writes checkpoints of any shape"
    return None


class GallopPlatform(CpuPlatform):
    """vLLM reads and calls this class; docs/VLLM.md describes what it decides."""

    device_name = "gallop"
    simple_compile_backend = "eager"  # Nothing is compiled.

    @property
    def supported_dtypes(self):
        """A model in fp16 is computed in bf16."""
        return [torch.bfloat16, torch.float32]

    @classmethod
    def import_kernels(cls):
        """vLLM's kernels are not called, so that its library is not loaded."""

    @classmethod
    def import_ir_kernels(cls):
        pass

    @classmethod
    def register_triton_kernel_overrides(cls):
        pass

    @classmethod
    def get_device_name(cls, device_id=0):
        return "gallop"

    @classmethod
    def verify_quantization(cls, quant):
        if quant not in FORMATS:
            raise ValueError(f"gallop-vllm: quantization {quant} is not supported; folders of GPTQ, "
                             "AWQ and compressed-tensors are, and Gallop's own formats, the member "
                             "quant of additional_config[\"gallop\"]")

    @classmethod
    def support_hybrid_kv_cache(cls):
        """Layers with windows have the same blocks as the others."""
        return False

    @classmethod
    def check_and_update_config(cls, vllm_config):
        from vllm.config import CompilationMode

        c = vllm_config
        reason = unsupported(c)
        if reason:
            raise ValueError(f"gallop-vllm: {reason}")
        own = options.given(c.additional_config)
        options.kv_dtype(own, c.cache_config.cache_dtype)
        if options.has_frames(own) and c.speculative_config is not None:
            raise ValueError("gallop-vllm: the executor pjrt verifies no drafts of "
                             "speculative_config")
        is_async = c.scheduler_config.async_scheduling
        p = c.parallel_config
        if p.worker_cls == "auto":
            p.worker_cls = "gallop_vllm.worker.GallopWorker"
        method = os.environ.get("VLLM_WORKER_MULTIPROC_METHOD")
        super().check_and_update_config(c)
        # The parent chooses a process of its own for the worker, no async scheduling, and that the
        # engine's process imports vLLM again (spawn). Without it, vLLM forks as with accelerators,
        # unless its server or the user has chosen.
        p.distributed_executor_backend = "uni"
        if method is None:
            os.environ.pop("VLLM_WORKER_MULTIPROC_METHOD", None)
        else:
            os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = method
        gc.freeze()  # Pages of the objects of imports stay shared with the engine's process.
        c.scheduler_config.async_scheduling = is_async
        c.compilation_config.mode = CompilationMode.NONE
        if c.model_config is not None:
            cls._set_blocks(c, own)

    @classmethod
    def _set_blocks(cls, c, own):
        cache = c.cache_config
        if options.has_slots(own):
            windows = getattr(c.model_config.hf_text_config, "sliding_window", None)
            if c.speculative_config is not None and windows:
                raise ValueError("gallop-vllm: speculative_config needs the mode blocks if layers "
                                 "of the model have windows")
            cache.block_size = c.model_config.max_model_len
            cache.num_gpu_blocks_override = c.scheduler_config.max_num_seqs + 1
            cache.enable_prefix_caching = False
            return
        if not cache.user_specified_block_size:
            cache.block_size = BLOCK
        size = cache.block_size
        if size < 16 or size > 256 or size & (size - 1):
            raise ValueError(f"gallop-vllm: block_size is {size}, expected a power of two from 16 "
                             "to 256")

    @classmethod
    def validate_request(cls, processed_inputs, params):
        from vllm.exceptions import VLLMValidationError
        from vllm.sampling_params import SamplingParams

        from gallop_vllm import rules

        super().validate_request(processed_inputs, params)
        if not isinstance(params, SamplingParams):
            raise VLLMValidationError("gallop-vllm computes no pooling requests")
        reason = rules.unsupported(params)
        if reason:
            raise VLLMValidationError(reason)
