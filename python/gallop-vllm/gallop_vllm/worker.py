"""worker.py - the worker that vLLM's executor calls: it opens Gallop's executor with the memory that
vLLM has planned, and computes the steps of vLLM's scheduler."""
import logging
import multiprocessing
import os
import queue
import signal
import threading

import psutil
import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import (EMPTY_MODEL_RUNNER_OUTPUT, AsyncModelRunnerOutput, DraftTokenIds,
                             LogprobsLists, LogprobsTensors, ModelRunnerOutput)
from vllm.v1.worker.worker_base import CompilationTimes, WorkerBase

from gallop_vllm import options
from gallop_vllm.executor import Executor, int32_pointer
from gallop_vllm.rules import Rules
from gallop_vllm.sequences import Sequences
from gallop_vllm.step import Stepper

log = logging.getLogger("vllm.gallop")

GIB = 1 << 30
DEFAULT_CACHE = 4 * GIB  # the largest size of a KV cache whose size nobody has given


class GallopWorker(WorkerBase):
    """The only worker of an engine."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.own = options.given(self.vllm_config.additional_config)
        self.kv_dtype = options.kv_dtype(self.own, self.cache_config.cache_dtype)
        self.dtype = "fp32" if self.model_config.dtype == torch.float32 else "bf16"
        self.executor = self.stepper = self.thread = None
        self.n_drafts = (self.speculative_config.num_speculative_tokens
                         if self.speculative_config else 0)

    # ---- start ----

    def init_device(self):
        self.device = torch.device("cpu")
        if multiprocessing.parent_process() is not None:
            # torch computes nothing here, and the threads of a forked parent are not there. Signals
            # of this process are not to wake the event loop of a forked server.
            torch.set_num_threads(1)
            if threading.current_thread() is threading.main_thread():
                signal.set_wakeup_fd(-1)

    def load_model(self, *, load_dummy_weights=False):
        """The library reads the weights when the size of the KV cache is known."""

    def update_max_model_len(self, max_model_len):
        self.model_config.max_model_len = max_model_len

    def get_kv_cache_spec(self):
        """Describes the blocks of all layers together as those of one layer."""
        heads, size = self._heads(), self._head_size()
        bytes_of = options.block_bytes(self.kv_dtype, self.dtype, 1, 1, 1, size)
        return {"gallop": FullAttentionSpec(block_size=self.cache_config.block_size,
                                            num_kv_heads=heads, head_size=bytes_of // 2,
                                            dtype=torch.int8)}

    def _heads(self):
        """Returns the number of KV heads of all layers."""
        config = self.model_config
        return (config.get_num_layers(self.parallel_config)
                * config.get_num_kv_heads(self.parallel_config))

    def _head_size(self):
        return self.model_config.get_head_size()

    def get_supported_kv_cache_layouts(self):
        return ["LBHNC"]

    def determine_available_memory(self):
        """Returns the bytes of the KV cache: what an option gives, or enough for max_num_seqs
        sequences, but at most 4 GiB and half of the free memory."""
        spec = self.get_kv_cache_spec()["gallop"]
        block, page = spec.block_size, spec.page_size_bytes
        per_sequence = -(-self.model_config.max_model_len // block)
        most = 1 + per_sequence * self.scheduler_config.max_num_seqs
        if options.has_slots(self.own):
            return most * page
        size = self.cache_config.kv_cache_memory_bytes or GIB * int(
            os.environ.get("VLLM_CPU_KVCACHE_SPACE") or 0)
        if size:
            return size
        free = psutil.virtual_memory().available - self._weight_bytes()
        size = min(most * page, DEFAULT_CACHE, max(free // 2, 0))
        return max(size, (1 + per_sequence) * page)

    def _weight_bytes(self):
        """Returns an estimate of the memory of the weights: the size of the files."""
        path = self.own.get("model", self.model_config.model)
        if os.path.isdir(path):
            return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)
                       if name.endswith((".safetensors", ".bin", ".gguf", ".gallop")))
        return os.path.getsize(path) if os.path.isfile(path) else 0

    def initialize_from_config(self, kv_cache_config):
        """Opens the model with the number of blocks that vLLM has computed."""
        if len(kv_cache_config.kv_cache_groups) != 1:
            raise ValueError(f"found {len(kv_cache_config.kv_cache_groups)} groups of KV blocks, "
                             "expected 1")
        self.executor = self.open_executor(kv_cache_config.num_blocks)
        block = self.cache_config.block_size
        self.stepper = Stepper(
            self.executor, Sequences(self.model_config.max_model_len, block, int32_pointer),
            self._rules, self.n_drafts,
            *((self.speculative_config.prompt_lookup_max, self.speculative_config.prompt_lookup_min)
              if self.n_drafts else (0, 0)))
        if self.scheduler_config.async_scheduling:
            self.thread = StepThread(self.stepper, self._output)

    def open_executor(self, num_blocks):
        """Returns the executor; tests replace it."""
        seqs = self.scheduler_config.max_num_seqs
        slots = options.has_slots(self.own)
        own = {k: options.as_text(v) for k, v in self.own.items()
               if k not in ("mode", "kv_cache_dtype")}
        settings = {
            "model": self.model_config.model,
            "revision": self.model_config.revision,
            "dtype": self.dtype,
            "kv_cache_dtype": self.kv_dtype,
            "max_model_len": self.model_config.max_model_len,
            "max_num_seqs": seqs,
            "max_batched_tokens": max(self.scheduler_config.max_num_batched_tokens, seqs),
            "max_logits": min(max(seqs * (1 + self.n_drafts), 64), 65536),
        }
        if slots:
            settings["kv_cache_tokens"] = seqs * self.model_config.max_model_len
        else:
            settings["kv_cache_type"] = "extern"
            settings["block_size"] = self.cache_config.block_size
            settings["kv_cache_tokens"] = num_blocks * self.cache_config.block_size
        executor = Executor(**(settings | own))
        config = self.model_config
        options.check_weights(self.own, (executor.n_layers, executor.vocab_size), (
            config.get_num_layers(self.parallel_config), config.get_vocab_size()))
        log.info("Gallop: %s weights of %.2f GiB, %s KV cache of %.2f GiB, %d threads, %s",
                 self.own.get("quant", executor.dtype), executor.weight_bytes / GIB,
                 executor.kv_cache_dtype, executor.kv_bytes / GIB, executor.threads, executor.isa)
        return executor

    def _rules(self, sequence):
        seed = (self.model_config.seed or 0) * 0x9E3779B97F4A7C15 + sequence.serial
        return Rules(sequence.params, self.executor.vocab_size, seed)

    def compile_or_warm_up_model(self):
        return CompilationTimes(0.0, 0.0)

    def get_supported_tasks(self):
        return ("generate",)

    def get_model(self):
        raise NotImplementedError("gallop-vllm has no torch model")

    # ---- steps ----

    def execute_model(self, scheduler_output):
        if self.thread:
            for new in scheduler_output.scheduled_new_reqs:
                if getattr(new, "prefill_token_ids", None):  # a list that the scheduler extends
                    new.prefill_token_ids = list(new.prefill_token_ids)
            self.thread.execute(scheduler_output)
        else:
            self.stepper.execute(scheduler_output)
        return None if scheduler_output.total_num_scheduled_tokens else EMPTY_MODEL_RUNNER_OUTPUT

    def sample_tokens(self, grammar_output):
        grammar = _grammar(grammar_output, self.stepper)
        if self.thread:
            return self.thread.sample(grammar)
        return self._output(self.stepper.sample(grammar()))

    def _output(self, result):
        prompts = {}
        for id, scores in result.prompts.items():
            prompts[id] = LogprobsTensors(torch.from_numpy(scores.ids),
                                          torch.from_numpy(scores.logprobs),
                                          torch.from_numpy(scores.ranks))
        logprobs = None
        if result.logprobs is not None:
            ids, values, ranks, first = result.logprobs
            logprobs = LogprobsLists(ids, values, ranks, first if self.n_drafts else None)
        return ModelRunnerOutput(req_ids=result.ids,
                                 req_id_to_index={id: i for i, id in enumerate(result.ids)},
                                 sampled_token_ids=result.tokens, logprobs=logprobs,
                                 prompt_logprobs_dict=prompts)

    def take_draft_token_ids(self):
        ids, drafts = self.stepper.drafts
        self.stepper.drafts = [], []
        return DraftTokenIds(ids, drafts) if self.n_drafts else None

    # ---- what vLLM calls and the library does not need ----

    def reset_encoder_cache(self):
        pass

    def profile(self, is_start=True, profile_prefix=None):
        pass

    def execute_dummy_batch(self):
        pass

    def list_loras(self):
        return set()

    def add_lora(self, lora_request):
        raise ValueError("gallop-vllm does not support LoRA adapters")

    def remove_lora(self, lora_id):
        return False

    def pin_lora(self, lora_id):
        return False

    def sleep(self, level=1):
        raise ValueError("gallop-vllm does not support the sleep mode")

    def wake_up(self, tags=None):
        pass

    def shutdown(self):
        if self.thread:
            self.thread.close()
            self.thread = None
        if self.executor:
            self.executor.close()
            self.executor = None


def _grammar(output, stepper):
    """Returns a function that returns the bit masks of requests, which needs the parts of the step,
    so it is called after the step is computed."""
    if output is None:
        return lambda: {}
    bits = output.grammar_bitmask.copy()  # memory that the next step overwrites

    def rows():
        drafts = {part.sequence.id: len(part.drafts) for part in stepper.parts}
        masks, at = {}, 0
        for id in output.structured_output_request_ids:
            n = 1 + drafts.get(id, 0)
            masks[id] = bits[at:at + n]
            at += n
        return masks
    return rows


class StepThread:
    """Computes steps on a thread of its own while vLLM's scheduler plans the next step
    (--async-scheduling)."""

    def __init__(self, stepper, output):
        self.stepper, self.output = stepper, output
        self.jobs = queue.SimpleQueue()
        self.error = None
        self.thread = threading.Thread(target=self._work, name="gallop-step", daemon=True)
        self.thread.start()

    def execute(self, scheduler_output):
        self.jobs.put(lambda: self.stepper.execute(scheduler_output))

    def sample(self, grammar):
        pending = PendingOutput()

        def job():
            pending.set(self.output(self.stepper.sample(grammar())))
        job.pending = pending
        self.jobs.put(job)
        return pending

    def _work(self):
        while (job := self.jobs.get()) is not None:
            try:
                if self.error is None:
                    job()
            except BaseException as e:  # It is raised where the output is awaited.
                self.error = e
            if self.error is not None and hasattr(job, "pending"):
                job.pending.fail(self.error)

    def close(self):
        self.jobs.put(None)
        self.thread.join()


class PendingOutput(AsyncModelRunnerOutput):
    """The output of a step that is being computed."""

    def __init__(self):
        self.done = threading.Event()
        self.value = self.error = None

    def set(self, value):
        self.value = value
        self.done.set()

    def fail(self, error):
        self.error = error
        self.done.set()

    def get_output(self):
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.value
