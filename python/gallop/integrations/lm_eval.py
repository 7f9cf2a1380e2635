"""A model of EleutherAI's evaluation harness: GallopLM. Needs lm_eval.

    import lm_eval
    from gallop.integrations.lm_eval import GallopLM
    lm_eval.simple_evaluate(model=GallopLM("org/name"), tasks=["arc_easy"])

Importing the module registers the class as "gallop":
model="gallop", model_args="pretrained=org/name". The module is also lm_eval's own command line
with this model, for versions of lm_eval that do not look for models of other packages:

    python -m gallop.integrations.lm_eval run --model gallop --model_args pretrained=org/name \\
        --tasks arc_easy
"""
from __future__ import annotations

from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

import gallop


@register_model("gallop")
class GallopLM(TemplateLM):
    """A model of Gallop for lm_eval.

    pretrained     as for gallop.LLM; None: the small model that comes with the package
    llm            an open gallop.LLM in place of pretrained
    max_length     tokens of a context and its continuation [the engine's]
    max_gen_toks   tokens of an answer, where a task does not say [256]
    options        options of gallop.LLM
    """

    def __init__(self, pretrained: str | None = None, *, llm: gallop.LLM | None = None,
                 max_length: int | None = None, max_gen_toks: int = 256,
                 batch_size: Any = None, max_batch_size: Any = None, device: Any = None,
                 **options: Any):
        super().__init__()
        self.llm = llm or gallop.LLM(pretrained, **options)
        self.info = self.llm.info
        self.max_length = int(max_length or self.info.max_model_len)
        self.max_gen_toks = int(max_gen_toks)

    @property
    def eot_token_id(self) -> int:
        if self.info.eos_id is not None:
            return self.info.eos_id
        return self.info.end_ids[0]

    @property
    def prefix_token_id(self) -> int:
        return self.info.bos_id if self.info.bos_id is not None else self.eot_token_id

    @property
    def tokenizer_name(self) -> str:
        return self.info.name

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return self.info.chat_template if chat_template else None

    def apply_chat_template(self, chat_history, add_generation_prompt: bool = True) -> str:
        return self.llm.render(chat_history, add_generation_prompt=add_generation_prompt,
                               continue_final_message=not add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None,
                   **kwargs: Any) -> list[int]:
        ids = self.llm.tokenize(string, special=add_special_tokens is not False)
        bos = self.info.bos_id
        if add_special_tokens is None and bos is not None and ids[:2] == [bos, bos]:
            del ids[0]  # The text has the token already: a chat template wrote it.
        return ids

    def _loglikelihood_tokens(self, requests, disable_tqdm: bool = False,
                              **kwargs: Any) -> list[tuple[float, bool]]:
        texts, counts = [], []
        for _, context, continuation in requests:
            ids = (list(context) + list(continuation))[-self.max_length:]
            texts.append(ids)
            counts.append(min(len(continuation), len(ids) - 1))
        out = []
        for (pair, _, _), n, score in zip(requests, counts, self.llm.score(texts)):
            logprobs = score.logprobs[len(score.logprobs) - n:]
            ranks = score.ranks[len(score.ranks) - n:]
            out.append((float(sum(logprobs)), all(rank == 1 for rank in ranks)))
            if pair is not None:
                self.cache_hook.add_partial("loglikelihood", pair, out[-1])
        return out

    def loglikelihood_rolling(self, requests, disable_tqdm: bool = False) -> list[float]:
        windows, owners = [], []
        for i, request in enumerate(requests):
            ids = self.tok_encode(request.args[0], add_special_tokens=False)
            for window in get_rolling_token_windows(
                    token_list=ids, prefix_token=self.prefix_token_id,
                    max_seq_len=self.max_length - 1, context_len=1):
                windows.append((None, *make_disjoint_window(window)))
                owners.append(i)
        sums = [0.0] * len(requests)
        for i, (logprob, _) in zip(owners, self._loglikelihood_tokens(windows)):
            sums[i] += logprob
        for request, logprob in zip(requests, sums):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, logprob)
        return sums

    def generate_until(self, requests, disable_tqdm: bool = False) -> list[str]:
        out: list = [None] * len(requests)
        groups: dict = {}
        for i, request in enumerate(requests):
            groups.setdefault(repr(request.args[1]), []).append(i)
        for rows in groups.values():  # Requests with the same parameters are computed together.
            sampling = self._sampling(requests[rows[0]].args[1])
            room = max(1, self.max_length - sampling["max_new_tokens"])
            prompts = [self.tok_encode(requests[i].args[0])[-room:] for i in rows]
            for i, result in zip(rows, self.llm.generate(prompts, **sampling)):
                if result.error is not None:
                    raise gallop.GallopError(result.error)
                out[i] = result.text
                self.cache_hook.add_partial("generate_until", requests[i].args, result.text)
        return out

    def _sampling(self, task: dict) -> dict[str, Any]:
        """Returns the sampling parameters of generation_kwargs of a task."""
        task = dict(task)
        until = task.pop("until", None) or []
        until = [until] if isinstance(until, str) else list(until)
        n = next((task.pop(k) for k in ("max_gen_toks", "max_new_tokens", "max_tokens")
                  if task.get(k) is not None), self.max_gen_toks)
        sampled = task.pop("do_sample", None)
        temperature = float(task.pop("temperature", None) or 0)
        others = {k: v for k, v in task.items() if v is not None}
        return {"max_new_tokens": min(int(n), self.max_length - 1), "stop": until or None,
                "temperature": 0.0 if sampled is False else temperature, **others}


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
