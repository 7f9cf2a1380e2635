"""Python functions as tools: schemas from signatures, and calls from JSON."""
from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import re
import types
import typing
from typing import Any, Callable

from ._errors import BadInput

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


def schema_of(kind: Any) -> dict[str, Any]:
    """Returns the JSON Schema of a type annotation; {} accepts everything."""
    if kind in (Any, inspect.Parameter.empty):
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        out = schema_of(args[0])
        text = next((x for x in args[1:] if isinstance(x, str)), None)
        return {**out, "description": text} if text else out
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin in _UNIONS:
        return {"anyOf": [schema_of(x) for x in args]}
    if kind in (list, tuple, set) or origin in (list, tuple, set) or \
            getattr(origin, "__name__", "") in ("Sequence", "Iterable"):
        items = [x for x in args if x is not ...]
        if origin is tuple and ... not in args and items:
            return {"type": "array", "prefixItems": [schema_of(x) for x in items],
                    "minItems": len(items), "maxItems": len(items)}
        return {"type": "array", **({"items": schema_of(items[0])} if items else {})}
    if kind is dict or origin is dict:
        return {"type": "object", **({"additionalProperties": schema_of(args[1])} if args else {})}
    if isinstance(kind, type):
        return _schema_of_class(kind)
    raise TypeError(f"the annotation {kind!r} has no JSON Schema")


def _schema_of_class(kind):
    if issubclass(kind, enum.Enum):
        return {"enum": [x.value for x in kind]}
    if hasattr(kind, "model_json_schema"):
        return kind.model_json_schema()
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return _object({f.name: schema_of(hints[f.name]) for f in dataclasses.fields(kind)},
                       [f.name for f in dataclasses.fields(kind)
                        if f.default is f.default_factory is dataclasses.MISSING])
    if hasattr(kind, "__required_keys__"):  # a TypedDict
        hints = typing.get_type_hints(kind)
        return _object({k: schema_of(v) for k, v in hints.items()}, sorted(kind.__required_keys__))
    raise TypeError(f"the annotation {kind!r} has no JSON Schema")


def _object(properties, required):
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}


def _descriptions(doc: str) -> tuple[str, dict[str, str]]:
    """Returns the description of a function and those of its parameters ("name: text" below
    "Args:", or ":param name: text")."""
    found = dict(re.findall(r":param\s+(?:\w+\s+)?(\w+):\s*(.+)", doc))
    head, _, rest = re.sub(r"\n\s*:\w+.*", "", doc).partition("\nArgs:")
    section = re.split(r"\n(?=\S)", rest)[0]
    for name, text in re.findall(r"\n\s+(\w+)(?:\s*\([^)]*\))?:\s*((?:.|\n(?!\s+\w+(?:\s*\([^)]*\))?:))+)",
                                 section):
        found[name] = " ".join(text.split())
    return " ".join(re.split(r"\n(?:Returns|Raises|Example)", head)[0].split()), found


def tool_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns a Python function as a tool of OpenAI's API, with a strict schema of its parameters.

    The name, the annotations, the defaults and the docstring of the function are used. Arguments
    without an annotation may be anything.
    """
    name = getattr(function, "__name__", type(function).__name__)
    hints = typing.get_type_hints(function, include_extras=True) if hasattr(
        function, "__annotations__") else {}
    text, described = _descriptions(inspect.getdoc(function) or "")
    properties, required = {}, []
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise BadInput(f"tools: the parameter {p.name} of {name}() cannot be given by name", "tools")
        try:
            properties[p.name] = schema_of(hints.get(p.name, p.annotation))
        except TypeError as e:
            raise BadInput(f"tools: {name}(), parameter {p.name}: {e}", "tools") from None
        if p.name in described:
            properties[p.name] = {**properties[p.name], "description": described[p.name]}
        if p.default is p.empty:
            required.append(p.name)
    return {"type": "function", "function": {
        "name": name, "description": text, "strict": True,
        "parameters": _object(properties, required)}}


def _converted(kind, value):
    """Returns a JSON value as what an annotation asks for."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _converted(args[0], value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        return kind(**{k: _converted(hints.get(k), v) for k, v in value.items()})
    if origin in (list, set, tuple) and isinstance(value, list):
        items = args[:1] * len(value) if origin is not tuple or ... in args else args
        return origin(_converted(k, v) for k, v in zip(items, value))
    if kind is float and isinstance(value, int):
        return float(value)
    return value


class Tools:
    """The tools of a conversation: Python functions, and schemas that the caller executes."""

    def __init__(self, tools):
        self.functions: dict[str, Callable[..., Any]] = {}
        self.schemas: list[dict[str, Any]] = []
        for tool in tools or ():
            if isinstance(tool, dict):
                self.schemas.append(tool)
            elif callable(tool):
                schema = tool_of(tool)
                self.functions[schema["function"]["name"]] = tool
                self.schemas.append(schema)
            else:
                raise BadInput(f"tools: {tool!r:.100} is neither a function nor a dict", "tools")

    def can_run(self, calls) -> bool:
        """Returns whether all functions of tool calls are Python functions of this conversation."""
        return all(c["function"]["name"] in self.functions for c in calls)

    def run(self, call: dict[str, Any]) -> Any:
        """Executes a tool call, and returns what the function returned: a coroutine, for a
        coroutine function."""
        function = self.functions[call["function"]["name"]]
        values = json.loads(call["function"]["arguments"] or "{}")
        hints = typing.get_type_hints(function, include_extras=True) if hasattr(
            function, "__annotations__") else {}
        return function(**{k: _converted(hints.get(k), v) for k, v in values.items()})


def text_of(value: Any) -> str:
    """Returns the result of a tool as the content of a message."""
    if isinstance(value, str):
        return value
    if hasattr(value, "model_dump_json"):
        return value.model_dump_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.dumps(value, ensure_ascii=False, default=str)
