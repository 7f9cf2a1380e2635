"""Generation for a static batch on Gallop's engine, which computes rows of any length together."""

import random
import sys
import threading

from gallop.pace.llm import distributions, inputs
from gallop.pace.llm.attention import KVCacheType
from gallop.pace.llm.configs import (
    GallopSpecDecodeConfig,
    SamplingConfig,
    SamplingMode,
)
from gallop.pace.llm.outputs import GeneratorOutput, SpeculativeStats
from gallop.pace.utils.logging import PACE_LLM_ASSERT, PACE_LLM_INFO

#: The longest list of stop tokens that the engine takes.
_MOST_STOP_TOKENS = 4096


class _Row:
    """One row of a batch while it is generated."""

    def __init__(self, number, matcher):
        self.number = number
        self.request = None
        self.tokens = []
        #: float32 arrays [vocab_size]: logits behind each token of the prompt, and the distribution
        #: of each token of the output, where they were asked for.
        self.prompt_logits = []
        self.probs = []
        self.matcher = matcher
        self.done = False
        self.finish = None
        self.reason = None


class StopMatcher:
    """Finds stop strings in the text of a row, prompt included.

    A stop string counts at the token that completes it, wherever it begins, as with
    transformers.StopStringCriteria."""

    def __init__(self, stops, prompt_text):
        self._stops = stops
        self._longest = max(map(len, stops))
        self._tail = prompt_text[1 - self._longest :] if self._longest > 1 else ""

    def add(self, piece):
        """Adds a piece of text. Returns True if it completes a stop string."""
        text = self._tail + piece
        first = len(self._tail)
        # A match must end inside the piece: it begins behind first - len(stop).
        found = any(text.find(s, max(0, first - len(s) + 1)) >= 0 for s in self._stops)
        self._tail = text[1 - self._longest :] if self._longest > 1 else ""
        return found


def _random_seed():
    """Returns a seed from torch's generator if torch is used, else from Python's, so that
    torch.manual_seed() or random.seed() before generate() makes its output reproducible."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "randint"):
        return int(torch.randint(0, 2**62, (1,)))
    return random.getrandbits(62)


def _is_text_streamer(streamer):
    """Returns True if STREAMER is a transformers.TextStreamer, without importing transformers."""
    return any(c.__name__ == "TextStreamer" for c in type(streamer).__mro__)


class Generator:
    """The engine of an LLMModel. Attributes: model, tokenizer, and sampling_config, the merged
    configuration of the last call of generate()."""

    def __init__(self, model, engine, files, special, codec, cache_type, spec_config):
        self.model = model
        self.engine = engine
        self.sampling_config = None
        self._codec = codec
        self._cache_type = cache_type
        self._files = files
        self._special = special
        self._spec = spec_config
        self._lock = threading.Lock()
        stats = engine.stats()
        self.vocab_size = stats.vocab_size
        positions = files.config().get("max_position_embeddings") or stats.max_model_len
        self.max_positions = min(positions, stats.max_model_len)

    @property
    def tokenizer(self):
        """What LLMModel.get_tokenizer() returns."""
        return self.model.get_tokenizer()

    def merged(self, config):
        """Returns the model's generation config with CONFIG's explicit fields, not finalized."""
        path = self._files.path("generation_config.json")
        merged = SamplingConfig.from_pretrained(path) if path else SamplingConfig()
        if merged.eos_token_id is None:
            merged.eos_token_id = self._files.config().get("eos_token_id")
        merged.merge_from(config, self._special)
        return merged

    def generate(self, prompt, config, streamer):
        """See LLMModel.generate()."""
        if config is None:
            config = SamplingConfig()
        if not isinstance(config, SamplingConfig):
            raise NotImplementedError(
                "Only input types of SamplingConfig is allowed for now, got %s" % type(config)
            )
        merged = self.merged(config)
        probe = merged.pad_token_id or merged.eos_token_id or [0]
        batch = inputs.read(prompt, probe[0], self._codec.encode)
        merged.verify_max_new_tokens(batch.width, self.max_positions)
        merged.finalize()
        self._check(batch, merged, streamer)
        PACE_LLM_INFO(str(merged))
        PACE_LLM_INFO(
            "StoppingCriteria(max_length: %d, eos_token_id: %s, stop_strings: %s)"
            % (
                batch.width + merged.max_new_tokens,
                None if merged.ignore_eos else merged._eos,
                merged.stop_strings,
            )
        )
        with self._lock:
            self.sampling_config = merged
            return self._run(batch, merged, streamer)

    def _check(self, batch, config, streamer):
        """Raises for what this batch and configuration cannot be served with."""
        if streamer is not None:
            PACE_LLM_ASSERT(
                len(batch.padded) == 1 or not _is_text_streamer(streamer),
                "Text streamer is only supported for batch size of 1",
            )
        if self._spec is not None and not isinstance(self._spec, GallopSpecDecodeConfig):
            PACE_LLM_ASSERT(
                len(batch.padded) == 1,
                "Offline speculative decoding is only supported for batch size 1",
            )
            PACE_LLM_ASSERT(
                config.sampling_mode is SamplingMode.GREEDY_SEARCH,
                "Speculative Decoding using PARD is only supported for greedy search sampling mode "
                "but got %s" % config.sampling_mode,
            )
        if config.stop_strings and not all(config.stop_strings):
            raise ValueError("stop_strings: a string is empty")
        for n, row in zip(batch.lengths, batch.rows()):
            for token in (min(row), max(row)):
                if not 0 <= token < self.vocab_size:
                    raise inputs.PromptError(
                        "prompt: token %d is outside the vocabulary of %d tokens"
                        % (token, self.vocab_size)
                    )
            if n >= self.max_positions:
                raise inputs.PromptError(
                    "prompt: %d tokens fill the context of %d tokens" % (n, self.max_positions)
                )

    def _sampling(self, config, row, seed):
        """Returns the members of struct gallop_sampling for a row."""
        values = {
            "max_new_tokens": config.max_new_tokens,
            "min_new_tokens": min(config.min_new_tokens, config.max_new_tokens),
            "do_sample": int(bool(config.do_sample)),
            "ignore_eos": int(bool(config.ignore_eos)),
            "temperature": config.temperature,
            "repetition_penalty": config.repetition_penalty,
            "frequency_penalty": config.frequency_penalty,
            # What PACE does not have is off, whatever the model's generation_config.json says.
            "presence_penalty": 0.0,
            "num_beams": 1,
            "typical_p": 1.0,
            "top_n_sigma": 0.0,
            "xtc_probability": 0.0,
            "dry_multiplier": 0.0,
        }
        if config.return_probs or config.return_logprobs:
            values["return_probs"] = 1
        if config.return_input_logprobs:
            # The logits behind the last token of the prompt are those of the first token.
            values["return_logits"] = values["return_prompt_logits"] = 1
        if config.do_sample:
            # All tokens of the tokenizer remain candidates: no cut.
            cut = config.top_k if config.top_k < self._special.vocab_size else 0
            values.update(
                top_k=cut if cut < self.vocab_size else 0,
                # The engine's top_p is above 0; the likeliest token always remains.
                top_p=max(config.top_p, 1e-9),
                min_p=config.min_p,
                has_seed=1,
                seed=(seed + row) % 2**64,
            )
        if not config.ignore_eos:
            inside = [token for token in config._eos if 0 <= token < self.vocab_size]
            values["stop_token"] = inside[:_MOST_STOP_TOKENS]
        return values

    def _run(self, batch, config, streamer):
        prompts = batch.rows()
        seed = 0
        if config.do_sample:
            seed = _random_seed() if config.sampling_seed is None else int(config.sampling_seed)
        rows = []
        for number, ids in enumerate(prompts):
            matcher = None
            if config.stop_strings:
                text = self._codec.decode(ids, skip_special_tokens=False)
                matcher = StopMatcher(config.stop_strings, text)
            rows.append(_Row(number, matcher))
        columns = _Columns(rows, config._pad, streamer)
        self.engine.begin()
        try:
            if streamer is not None:
                streamer.put(inputs.array(batch.padded, "int64"))
            for row, ids in zip(rows, prompts):
                row.request = self.engine.submit(
                    row.number, ids, **self._sampling(config, row.number, seed)
                )
            while any(row.finish is None for row in rows):
                for event in self.engine.step(1.0) or ():
                    self._take(rows[event.row], event, config)
                columns.put()
            self.engine.end()
        except BaseException:
            self.engine.drain()
            raise
        self._raise_failure(rows)
        if streamer is not None:
            streamer.end()
        return self._output(batch, rows, config)

    def _take(self, row, event, config):
        """Adds an event to its row."""
        if event.kind == "token":
            if not row.done:
                if event.logits is not None and not row.tokens:
                    row.prompt_logits.append(event.logits)
                if event.probs is not None:
                    row.probs.append(event.probs)
                row.tokens.append(event.value)
        elif event.kind == "prompt":
            row.prompt_logits.append(event.logits)
        elif event.kind == "text":
            if (
                row.matcher is not None
                and not row.done
                and row.matcher.add(event.value)
                and len(row.tokens) >= config.min_new_tokens
            ):
                row.done, row.reason = True, "stop"
                self.engine.cancel(row.request)
        else:
            if not row.done:
                row.done, row.reason = True, "stop" if event.value.stopped else "length"
            row.finish = event.value

    @staticmethod
    def _raise_failure(rows):
        """Raises for a row that ended with an error, which GeneratorOutput has no place for."""
        for row in rows:
            if row.finish is not None and row.finish.failed:
                raise RuntimeError(
                    "row %d: %s" % (row.number, row.finish.error or "the engine ended the request")
                )

    def _output(self, batch, rows, config):
        width = max(len(row.tokens) for row in rows)
        ids = [
            prompt + row.tokens + [config._pad] * (width - len(row.tokens))
            for prompt, row in zip(batch.padded, rows)
        ]
        output = GeneratorOutput(output_token_ids=inputs.array(ids, "int64"))
        if config.return_text:
            output.decoded_text = [self._codec.decode(row, skip_special_tokens=True) for row in ids]
        self._add_distributions(output, batch, rows, config, width)
        output.finish_reason = [row.reason for row in rows]
        output.n_output = [len(row.tokens) for row in rows]
        output.prefill_s = [row.finish.prefill_s for row in rows]
        output.decode_s = [row.finish.decode_s for row in rows]
        if self._spec is not None:
            total = sum(output.n_output)
            steps = sum(row.finish.n_steps for row in rows)
            output.speculative_stats = SpeculativeStats(total, total / steps if steps else 0.0)
        return output

    def _add_distributions(self, output, batch, rows, config, width):
        """Sets the members that return_probs, return_logprobs and return_input_logprobs ask for."""
        if config.return_probs or config.return_logprobs:
            kept = [row.probs for row in rows]
            cuts = (config.temperature, config.top_k, config.top_p, config.min_p)
            if not config.do_sample and cuts != (1.0, 0, 1.0, 0.0):
                kept = [[distributions.cut(p, *cuts) for p in row] for row in kept]
            probs = distributions.probs(kept, width, config._pad)
            if config.return_probs:
                output.probs = inputs.array(probs, "float32")
            if config.return_logprobs:
                output.logprobs = inputs.array(distributions.logs(probs), "float32")
        if config.return_input_logprobs:
            packed = self._cache_type is KVCacheType.PAGED
            logits = [row.prompt_logits for row in rows]
            array = distributions.input_logprobs(logits, batch.width, packed)
            output.input_logprobs = inputs.array(array, "float32")


class _Columns:
    """Gives a streamer the tokens of all rows side by side, as PACE's static batch makes them."""

    def __init__(self, rows, pad, streamer):
        self._rows, self._pad, self._streamer = rows, pad, streamer
        self._n_put = 0

    def put(self):
        """Puts the columns that all unfinished rows have reached. Ended rows give pads."""
        if self._streamer is None:
            return
        running = [len(row.tokens) for row in self._rows if not row.done]
        ready = min(running) if running else max(len(row.tokens) for row in self._rows)
        if ready <= self._n_put:
            return
        # One row gets the tokens of a step together; several rows get one column at a time.
        stride = ready - self._n_put if len(self._rows) == 1 else 1
        while self._n_put < ready:
            begin, end = self._n_put, self._n_put + stride
            block = [(row.tokens[begin:end] + [self._pad] * stride)[:stride] for row in self._rows]
            self._n_put = end
            self._streamer.put(inputs.array(block, "int64"))
