"""Hugging Face's pipeline("text-generation") on Gallop."""
from __future__ import annotations

import itertools
import os
from types import GeneratorType
from typing import Any, Iterator

import gallop
from gallop._text import Prompt

# Arguments that change nothing here: how texts are batched, padded and joined is not an option.
_IGNORED = ("num_workers", "padding", "truncation", "pad_token_id", "use_cache", "device",
            "device_map", "tokenizer", "framework", "trust_remote_code", "torch_dtype",
            "clean_up_tokenization_spaces")
_DTYPES = {"bfloat16": "bf16", "float32": "fp32", "bf16": "bf16", "fp32": "fp32"}


class TextGeneration:
    """A callable like transformers.TextGenerationPipeline; see pipeline()."""

    task = "text-generation"

    def __init__(self, llm: gallop.LLM, defaults: dict[str, Any]):
        self.llm, self.defaults = llm, defaults

    def __call__(self, text_inputs, **options: Any):
        """Continues a text, a conversation, or each of a list of them.

        text_inputs       a str, a list of messages {"role": ..., "content": ...}, a list of either,
                          or a generator of either
        return_full_text  True: generated_text begins with the prompt, which is the default; a
                          conversation's is its messages with the answer
        return_tensors    rows have generated_token_ids, those of the prompt and of the answer, in
                          place of generated_text
        prefix            text before each text
        stop_sequence     a str or a list: the answer ends with the first that it contains, which is
                          kept (also stop_strings; the parameter `stop` of Gallop cuts it off)
        max_length        maximum number of tokens of prompt and answer together
        handle_long_generation
                          "hole": of a prompt too long for the context, the last tokens are used
        continue_final_message
                          the answer continues the last message of a conversation [if it is the
                          assistant's]
        tools             functions of a conversation, for the chat template
        add_special_tokens
                          False: texts without BOS
        eos_token_id      token ids that end an answer, beside those of the model
        generate_kwargs   a dict of further parameters
        others            max_new_tokens, do_sample, temperature, num_return_sequences, ...: see
                          gallop.parameters()

        Returns a list of {"generated_text": ...}, one for each returned sequence; a list of such
        lists for a list of inputs; an iterator of them for a generator, of which batch_size inputs
        are computed at a time.
        """
        options = {**self.defaults, **options}
        more = options.pop("generate_kwargs", None) or {}
        call = _Call(self.llm, {**options, **more})
        if isinstance(text_inputs, GeneratorType):
            return self._each(text_inputs, call, int(options.get("batch_size") or 1))
        batch = isinstance(text_inputs, (list, tuple)) and not (
            text_inputs and isinstance(text_inputs[0], dict))
        rows = call.run(list(text_inputs) if batch else [text_inputs])
        return rows if batch else rows[0]

    def _each(self, inputs, call, size) -> Iterator[list[dict[str, Any]]]:
        while prompts := list(itertools.islice(inputs, size)):
            yield from call.run(prompts)


class _Call:
    """The parameters of a call."""

    def __init__(self, llm, options: dict[str, Any]):
        take = options.pop
        self.llm = llm
        full, text, tensors = (take(x, None) for x in (
            "return_full_text", "return_text", "return_tensors"))
        for a, b, x, y in (("return_text", "return_full_text", text, full),
                           ("return_full_text", "return_tensors", full, tensors),
                           ("return_text", "return_tensors", text, tensors)):
            if x is not None and y is not None:
                raise gallop.BadInput(f"{a}: cannot be given together with {b}", a)
        self.full, self.tensors = full is not False, bool(tensors)
        self.prefix = take("prefix", None) or ""
        self.special = take("add_special_tokens", None) is not False
        self.tools = take("tools", None)
        self.continues = take("continue_final_message", None)
        self.max_length = take("max_length", None)
        hole = take("handle_long_generation", None)
        if hole not in (None, "hole"):
            raise gallop.BadInput(f"handle_long_generation: found {hole!r}, expected 'hole'",
                                  "handle_long_generation")
        self.hole = hole is not None
        self.variables = take("chat_template_kwargs", None) or {}
        for name in ("batch_size", *_IGNORED):
            take(name, None)
        # Hugging Face keeps the text that ends an answer.
        self.keeps_stop = False
        for name in ("stop_strings", "stop_sequence"):
            if (stop := take(name, None)) is not None:
                options["stop"], self.keeps_stop = stop, True
        if (ends := take("eos_token_id", None)) is not None:
            options["stop_token"] = ends
        self.sampling = options

    def run(self, prompts) -> list[list[dict[str, Any]]]:
        """Returns the rows of each prompt. Prompts with the same limit are computed together."""
        ids = [self._ids(p) for p in prompts]
        found: list = [None] * len(prompts)
        groups: dict = {}
        for i, x in enumerate(ids):
            groups.setdefault(self._limit(len(x)), []).append(i)
        for limit, rows in groups.items():
            sampling = {**self.sampling, **({} if limit is None else {"max_new_tokens": limit})}
            results = self.llm.generate([ids[i] for i in rows], **sampling)
            for i, result in zip(rows, results):
                if result.error is not None:
                    raise gallop.GallopError(result.error)
                found[i] = [self._row(prompts[i], ids[i], choice)
                            for choice in result.choices or [result]]
        return found

    def _limit(self, n_prompt):
        """Returns max_new_tokens for a prompt, or None: that of the call."""
        if self.max_length is None or any(
                self.sampling.get(k) is not None for k in ("max_new_tokens", "max_tokens")):
            return None
        if self.max_length <= n_prompt:
            raise gallop.BadInput(f"max_length: found {self.max_length}, expected more than the "
                                  f"{n_prompt} tokens of the prompt", "max_length")
        return self.max_length - n_prompt

    def _ids(self, prompt) -> list[int]:
        if isinstance(prompt, str):
            ids = self.llm.tokenize(self.prefix + prompt, special=self.special)
        elif isinstance(prompt, (list, tuple)) and prompt and isinstance(prompt[0], dict):
            last = self._continues(prompt)
            ids = Prompt(self.llm, list(prompt), gallop._tools.Tools(self.tools).schemas, {
                "add_generation_prompt": not last, "continue_final_message": last,
                **self.variables}).ids
        else:
            raise gallop.BadInput(f"text_inputs: found {prompt!r:.100}, expected a str or a list of "
                                  "messages", "text_inputs")
        new = self.sampling.get("max_new_tokens") or self.sampling.get("max_tokens") or 1
        return ids[-max(1, self.llm.info.max_model_len - new):] if self.hole else ids

    def _continues(self, messages) -> bool:
        return messages[-1]["role"] == "assistant" if self.continues is None else self.continues

    def _row(self, prompt, ids, result) -> dict[str, Any]:
        if self.tensors:
            return {"generated_token_ids": ids + result.ids}
        kept = self.keeps_stop and isinstance(result.stop_reason, str)
        text = result.text + (result.stop_reason if kept else "")
        if not self.full:
            return {"generated_text": text}
        if isinstance(prompt, str):
            return {"generated_text": prompt + text}
        if self._continues(prompt):
            last = {**prompt[-1], "content": prompt[-1]["content"] + text}
            return {"generated_text": [*prompt[:-1], last]}
        return {"generated_text": [*prompt, {"role": "assistant", "content": text}]}


def pipeline(task: str = "text-generation", model=None, **options: Any) -> TextGeneration:
    """Returns a callable like that of Hugging Face's transformers.pipeline().

        generator = pipeline("text-generation", model="HuggingFaceTB/SmolLM2-135M-Instruct")
        print(generator("Once upon a time", max_new_tokens=40)[0]["generated_text"])

    task     only "text-generation"
    model    as for gallop.LLM, or an open gallop.LLM; None: the small model of the package
    options  revision of a model of the hub; options of gallop.LLM, also in model_kwargs, where
             dtype may be one of torch's; all others are parameters of every call. device,
             device_map, tokenizer, trust_remote_code and others that a CPU has no use for are
             ignored
    """
    if task != "text-generation":
        raise gallop.Unsupported(f"task: found {task!r}, expected 'text-generation'", "task")
    options.update(options.pop("model_kwargs", None) or {})
    dtype = options.pop("torch_dtype", None)
    options.setdefault("dtype", dtype)
    if options["dtype"] is not None:
        options["dtype"] = _DTYPES.get(str(options["dtype"]).removeprefix("torch."))
    revision = options.pop("revision", None)
    own = {k: options.pop(k) for k in list(options) if k in gallop._names.OPTIONS}
    if isinstance(model, gallop.LLM):
        for name, value in own.items():
            if value is not None:
                raise gallop.BadInput(f"{name}: the model is open already", name)
        return TextGeneration(model, options)
    if revision is not None and model is not None and not os.path.exists(model):
        model = f"{model}@{revision}"
    return TextGeneration(gallop.LLM(model, **own), options)
