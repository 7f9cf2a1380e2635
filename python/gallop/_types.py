"""Types of arguments and results, for type checkers and readers."""
from __future__ import annotations

import os
from typing import Any, Callable, List, Mapping, Protocol, Sequence, Tuple, TypedDict, Union

from ._names import Constraint, Request, Sampling


class FunctionCall(TypedDict):
    """The function of a tool call, and its arguments as JSON."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """A tool call of the model, as in OpenAI's API."""

    id: str
    type: str
    function: FunctionCall


class Message(TypedDict, total=False):
    """A message of a conversation, as in OpenAI's API."""

    role: str
    content: "str | list[dict[str, Any]] | None"
    name: str
    reasoning: "str | None"
    tool_calls: "list[ToolCall]"
    tool_call_id: str


class Array(Protocol):
    """An array of token ids, such as numpy's or torch's."""

    def tolist(self) -> Any: ...


class Parameters(Sampling, Constraint, Request, total=False):
    """The keyword arguments of generate() and its siblings: gallop.parameters() explains them."""

    logit_bias: "Mapping[int, float]"
    tools: "Sequence[Tool]"
    chat_template_kwargs: "Mapping[str, Any]"
    max_tokens: int
    min_tokens: int
    num_return_sequences: int
    stop_token_ids: "int | Sequence[int] | Array"
    typical: float


Path = Union[str, "os.PathLike[str]"]
Tool = Union[Callable[..., Any], Mapping[str, Any]]
Ids = Union[Sequence[int], Array]
Messages = Sequence[Mapping[str, Any]]

#: One prompt: a text, token ids, or the messages of a conversation.
Prompt = Union[str, Sequence[int], Array, Messages]

#: Several prompts. A str is no sequence of texts here.
Prompts = Union[List[str], Tuple[str, ...], Sequence[Sequence[int]], Sequence[Array],
                Sequence[Messages]]
