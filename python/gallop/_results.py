"""What requests return: results, chunks of streams, log-probabilities, scores."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ._gallop import ffi, lib

if TYPE_CHECKING:
    from ._types import ToolCall

FINISH = {
    lib.GALLOP_FINISH_STOP: "stop", lib.GALLOP_FINISH_LENGTH: "length",
    lib.GALLOP_FINISH_CANCELLED: "cancelled", lib.GALLOP_FINISH_ERROR: "error",
    lib.GALLOP_FINISH_DEADLINE: "deadline",
}


@dataclass
class TokenLogprob:
    """A token with its log-probability (natural logarithm), and the likeliest tokens in its place."""

    token: int
    logprob: float
    top: list[tuple[int, float]]  # (token id, log-probability), the likeliest first
    rank: int | None = None       # of a token of the prompt: 1 is the likeliest token


@dataclass
class Speculation:
    """What speculative decoding did for an answer; see docs/SAMPLING.md."""

    n_steps: int
    n_drafts: int
    n_draft_tokens: int
    n_accepted_tokens: int
    accepted_per_pos: list[int]


@dataclass
class Result:
    """An answer.

    text            the answer without special tokens and without the stop string
    ids             the generated token ids
    finish_reason   "stop", "length", "cancelled", "deadline" or "error"
    stop_reason     the stop string (str) or stop token (int) that ended the answer, else None
    error           the sentence of finish_reason "error", else None
    logprobs        with logprobs=K: a TokenLogprob for each token of ids, else None
    prompt_logprobs with prompt_logprobs=K: a TokenLogprob for each token of the prompt but the first
    n_prompt, n_output, n_cached
                    number of tokens of the prompt, of the answer, and of the prompt's tokens that
                    were found in the prefix cache
    prefill_s       seconds from the start of computation to the first token
    decode_s        seconds from the first token to the last
    speculation     counts of speculative decoding, or None
    index           number of the answer, from 0
    choices         with n > 1: all answers, of which this one is the first
    score           with beam search: the score of the answer, else None
    warnings        sentences about ignored parts of a JSON Schema
    reasoning       of Chat.send(): the reasoning of the model, or None
    tool_calls      of Chat.send(): the tool calls that were not executed, in OpenAI's format
    """

    text: str
    ids: list[int]
    finish_reason: str
    stop_reason: str | int | None = None
    error: str | None = None
    logprobs: list[TokenLogprob] | None = None
    prompt_logprobs: list[TokenLogprob] | None = None
    n_prompt: int = 0
    n_output: int = 0
    n_cached: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    speculation: Speculation | None = None
    index: int = 0
    choices: list["Result"] = field(default_factory=list, repr=False)
    score: float | None = None
    warnings: list[str] = field(default_factory=list)
    reasoning: str | None = None
    tool_calls: "list[ToolCall]" = field(default_factory=list)
    _special: bytes = field(default=b"", repr=False, compare=False)  # gallop_event.special of text

    def __str__(self) -> str:
        return self.text


class Chunk:
    """A part of a streamed answer: a token and the text that became complete with it.

    text            text without special tokens; "" if the token completes no character, or if its
                    text might be the beginning of a stop string
    token           the token id; None in the last chunk of an answer
    logprob         with logprobs=K: the token's TokenLogprob, else None
    index           number of the answer, from 0
    finish_reason   None, except in the last chunk of an answer (see Result)
    reasoning       of Chat.stream(): reasoning of the model, which `text` does not have
    """

    __slots__ = ("text", "token", "logprob", "index", "finish_reason", "reasoning", "_special")

    def __init__(self, text: str, token: int | None = None, logprob: TokenLogprob | None = None,
                 index: int = 0, finish_reason: str | None = None, reasoning: str = "") -> None:
        self.text = text
        self.token = token
        self.logprob = logprob
        self.index = index
        self.finish_reason = finish_reason
        self.reasoning = reasoning
        self._special = b""  # gallop_event.special of text

    def __repr__(self) -> str:
        return (f"Chunk(text={self.text!r}, token={self.token!r}, logprob={self.logprob!r}, "
                f"index={self.index!r}, finish_reason={self.finish_reason!r})")

    def __str__(self) -> str:
        return self.text


@dataclass
class Score:
    """How likely a text is.

    tokens      the token ids of the text
    logprobs    log-probability of each token after the tokens before it; None for the first
    ranks       rank of each token (1: the likeliest); None for the first
    top         with top=K: the K likeliest tokens in place of each token; None for the first
    """

    tokens: list[int]
    logprobs: list[float | None]
    ranks: list[int | None]
    top: list[list[tuple[int, float]] | None]

    @property
    def total(self) -> float:
        """Sum of the log-probabilities: the natural logarithm of the text's probability."""
        return math.fsum(x for x in self.logprobs if x is not None)

    @property
    def perplexity(self) -> float:
        """exp of the negative mean of the log-probabilities."""
        n = sum(x is not None for x in self.logprobs)
        return math.exp(-self.total / n) if n else math.nan


def ids_of(out) -> list[int]:
    return ffi.unpack(out.ids, out.n_tokens) if out.n_tokens else []


def logprobs_of(out, ranks: bool = False) -> list[TokenLogprob]:
    """Returns the log-probabilities of a struct runner_output."""
    rows, at = [], 0
    for i, token in enumerate(ids_of(out)):
        t = out.tokens[i]
        top = [(out.top[k].id, out.top[k].logprob) for k in range(at, t.top_end)]
        at = t.top_end
        rows.append(TokenLogprob(token, t.logprob, top, t.rank if ranks else None))
    return rows


def _text_of(out) -> tuple[bytes, bytes]:
    """Returns text and special of a struct runner_output."""
    n = out.text_len
    return (ffi.buffer(out.text, n)[:], ffi.buffer(out.special, n)[:]) if n else (b"", b"")


def _stop_reason(end):
    if end.stop_string:
        return ffi.string(end.stop_string).decode("utf-8", "replace")
    return end.stop_token if end.stop_token >= 0 else None


def _speculation(s):
    return Speculation(s.n_steps, s.n_drafts, s.n_draft_tokens, s.n_accepted_tokens,
                       list(s.accepted_per_pos[0:s.n_positions])) if s.n_positions else None


def result_of(end, text: str, ids: list[int], logprobs=None) -> Result:
    """Returns the Result of a FINISHED event."""
    error = None
    if end.finish == lib.GALLOP_FINISH_ERROR:
        error = ffi.string(end.error).decode("utf-8", "replace") if end.error else "out of memory"
    return Result(
        text, ids, FINISH[end.finish], _stop_reason(end), error, logprobs, None, end.n_prompt,
        end.n_output, end.n_cached, end.prefill_s, end.decode_s, _speculation(end.speculation),
        end.choice, score=end.score if end.has_score else None,
        warnings=[ffi.string(end.warnings[i]).decode() for i in range(end.n_warnings)])


def read_choice(call, index: int, with_logprobs: bool) -> Result:
    """Returns answer INDEX of a finished call, none of whose output was taken before."""
    out = ffi.new("struct runner_output *")
    end = call.take(index, out)
    text, special = _text_of(out)
    result = result_of(end, text.decode("utf-8", "replace"), ids_of(out),
                       logprobs_of(out) if with_logprobs else None)
    result._special = special
    return result


def read_prompt(call) -> list[TokenLogprob]:
    """Returns the log-probabilities of the prompt of a finished call."""
    out = ffi.new("struct runner_output *")
    call.prompt(out)
    return logprobs_of(out, ranks=True)


def read_result(call, request) -> Result:
    """Returns the answers of a finished call as a Result, with `choices` if there are several."""
    choices = [read_choice(call, i, request.logprobs) for i in range(request.n)]
    if request.prompt_logprobs:
        choices[0].prompt_logprobs = read_prompt(call)
    if len(choices) > 1:
        choices[0].choices = choices
    return choices[0]


class Reader:
    """Reads the answers of a streaming call in chunks, and keeps what was read."""

    def __init__(self, request):
        self.request = request
        self.out = ffi.new("struct runner_output *")
        self.texts: list[list[str]] = [[] for _ in range(request.n)]
        self.special = [bytearray() for _ in range(request.n)]
        self.ids: list[list[int]] = [[] for _ in range(request.n)]
        self.logprobs: list[list[TokenLogprob]] = [[] for _ in range(request.n)]
        self.results: list[Result | None] = [None] * request.n
        self.prompt: list[TokenLogprob] | None = None

    @property
    def finished(self) -> bool:
        return None not in self.results

    def chunks(self, call) -> list[Chunk]:
        """Returns the chunks of CALL that became complete since the last time."""
        rows: list[Chunk] = []
        for index in range(self.request.n):
            if self.results[index] is None:
                self._read(call, index, rows)
        if self.finished and self.request.prompt_logprobs:
            self.prompt = read_prompt(call)
        return rows

    def _read(self, call, index, rows):
        out = self.out
        end = call.take(index, out)
        data, special = _text_of(out)
        self.special[index] += special
        logprobs = logprobs_of(out) if self.request.logprobs else None
        ids, at = ids_of(out), 0
        self.ids[index] += ids
        self.logprobs[index] += logprobs or []
        for i, token in enumerate(ids):
            begin, at = at, out.tokens[i].text_end
            text = data[begin:at].decode("utf-8", "replace")
            self.texts[index].append(text)
            rows.append(Chunk(text, token, logprobs[i] if logprobs else None, index))
            rows[-1]._special = special[begin:at]
        if at < len(data) or end:
            rest = data[at:].decode("utf-8", "replace")
            self.texts[index].append(rest)
            reason = FINISH[end.finish] if end else None
            rows.append(Chunk(rest, None, None, index, reason))
            rows[-1]._special = special[at:]
        if end:
            self.results[index] = result_of(end, "".join(self.texts[index]), self.ids[index],
                                            self.logprobs[index] if self.request.logprobs else None)
            self.results[index]._special = bytes(self.special[index])

    def result(self) -> Result:
        """Returns the Result of a finished stream."""
        rows = [r for r in self.results if r is not None]
        rows[0].prompt_logprobs = self.prompt
        if len(rows) > 1:
            rows[0].choices = rows
        return rows[0]
