"""Hugging Face's pipeline("text-generation") on Gallop."""
from __future__ import annotations

from typing import Any

import gallop


class TextGeneration:
    """A callable like transformers.TextGenerationPipeline; see pipeline()."""

    task = "text-generation"

    def __init__(self, llm: gallop.LLM, defaults: dict[str, Any]):
        self.llm, self.defaults = llm, defaults

    def __call__(self, text_inputs, *, return_full_text: bool | None = None,
                 return_text: bool | None = None, return_tensors: bool = False,
                 batch_size: int | None = None, **sampling: Any):
        """Continues a text, a conversation, or each of a list of them.

        text_inputs       a str, a list of messages {"role": ..., "content": ...}, or a list of
                          either
        return_full_text  True: generated_text begins with the prompt, which is the default; a
                          conversation's is its messages with the answer
        return_tensors    rows have generated_token_ids in place of generated_text
        sampling          max_new_tokens, do_sample, temperature, num_return_sequences, ...: see
                          gallop.parameters()

        Returns a list of {"generated_text": ...}, one for each returned sequence, or a list of such
        lists for a list of inputs.
        """
        sampling = {**self.defaults, **sampling}
        stop = sampling.pop("stop_strings", None)
        if stop is not None:
            sampling["stop"] = stop
        batch = isinstance(text_inputs, (list, tuple)) and not (
            text_inputs and isinstance(text_inputs[0], dict))
        prompts = list(text_inputs) if batch else [text_inputs]
        full = return_full_text is not False and return_text is not False
        rows = []
        for prompt, result in zip(prompts, self.llm.generate(prompts, **sampling)):
            if result.error is not None:
                raise gallop.GallopError(result.error)
            rows.append([self._row(prompt, choice, full, return_tensors)
                         for choice in result.choices or [result]])
        return rows if batch else rows[0]

    def _row(self, prompt, result, full, tensors):
        if tensors:
            before = self.llm.tokenize(prompt) if full and isinstance(prompt, str) else []
            return {"generated_token_ids": before + result.ids}
        if not full:
            return {"generated_text": result.text}
        if isinstance(prompt, str):
            return {"generated_text": prompt + result.text}
        return {"generated_text": [*prompt, {"role": "assistant", "content": result.text}]}


def pipeline(task: str = "text-generation", model=None, **options: Any) -> TextGeneration:
    """Returns a callable like that of Hugging Face's transformers.pipeline().

        generator = pipeline("text-generation", model="HuggingFaceTB/SmolLM2-135M-Instruct")
        print(generator("Once upon a time", max_new_tokens=40)[0]["generated_text"])

    task     only "text-generation"
    model    as for gallop.LLM, or an open gallop.LLM; None: the small model of the package
    options  options of gallop.LLM; all others are sampling parameters of every call. device,
             device_map, torch_dtype, tokenizer and trust_remote_code are ignored
    """
    if task != "text-generation":
        raise gallop.Unsupported(f"task: found {task!r}, expected 'text-generation'", "task")
    for name in ("device", "device_map", "torch_dtype", "tokenizer", "trust_remote_code"):
        options.pop(name, None)
    own = {k: options.pop(k) for k in list(options) if k in gallop._names.OPTIONS}
    if own and isinstance(model, gallop.LLM):
        raise gallop.BadInput(f"{next(iter(own))}: the model is open already", next(iter(own)))
    llm = model if isinstance(model, gallop.LLM) else gallop.LLM(model, **own)
    return TextGeneration(llm, options)
