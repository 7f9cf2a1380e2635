"""Python functions as tools: schemas from signatures, and calls from JSON."""
from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from typing import Any, Callable

from ._errors import BadInput
from ._schema import Schemas, json_of, record, value_of


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


def _plain_function(function):
    """Returns the function that a partial or a callable object calls."""
    while isinstance(function, functools.partial):
        function = function.func
    is_plain = inspect.isroutine(function) or isinstance(function, type)
    return function if is_plain else type(function).__call__


def _name_of(function) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    name = str(getattr(inner, "__name__", type(inner).__name__))
    if not name.isidentifier():
        raise BadInput(f"tools: a tool needs the name of a function, found {name!r}", "tools")
    return name


def _kinds_of(function, name: str) -> dict[str, Any]:
    """Returns the annotation of each parameter of a function. None as the default allows null."""
    plain = _plain_function(function)
    try:
        hints = typing.get_type_hints(plain, include_extras=True)
        if isinstance(plain, type):
            init = getattr(plain, "__init__")
            hints.update(typing.get_type_hints(init, include_extras=True))
    except NameError as e:
        raise BadInput(f"tools: {name}(): {e}; annotations have to be names of its module",
                       "tools") from None
    except (TypeError, AttributeError):  # a built-in function
        hints = {}
    kinds = {}
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise BadInput(f"tools: the parameter {p.name} of {name}() cannot be given by name", "tools")
        kind = hints.get(p.name, p.annotation)
        kinds[p.name] = typing.Optional[kind] if p.default is None and \
            kind not in (Any, p.empty) else kind
    return kinds


class _NoJSON(Exception):
    pass


def _refuse(value):
    raise _NoJSON


def _default(p) -> dict[str, Any]:
    """Returns the member "default" of the schema of a parameter: {} without a default, for None, and
    for objects that JSON has nothing for."""
    if p.default is p.empty or p.default is None:
        return {}
    try:
        value = json_of(p.default, _refuse)
        json.dumps(value, allow_nan=False)
        return {"default": value}
    except (_NoJSON, TypeError, ValueError):
        return {}


def tool_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns a Python function as a tool of OpenAI's API, with a strict schema of its parameters.

    The name, the annotations, the defaults and the docstring of the function are used. Arguments
    without an annotation may be anything.
    """
    name = _name_of(function)
    text, described = _descriptions(inspect.getdoc(function) or "")
    schemas, properties, required = Schemas(), {}, []
    for p, kind in zip(inspect.signature(function).parameters.values(),
                       _kinds_of(function, name).values()):
        try:
            properties[p.name] = schemas.of(kind)
        except (TypeError, NameError) as e:
            raise BadInput(f"tools: {name}(), parameter {p.name}: {e}", "tools") from None
        properties[p.name] = {**properties[p.name], **_default(p)}
        if p.name in described:
            properties[p.name]["description"] = described[p.name]
        if p.default is p.empty:
            required.append(p.name)
    return {"type": "function", "function": {
        "name": name, "description": text, "strict": True,
        "parameters": schemas.rooted(record(properties, required))}}


class Tools:
    """The tools of a conversation: Python functions, and schemas that the caller executes."""

    def __init__(self, tools):
        self.functions: dict[str, Callable[..., Any]] = {}
        self.schemas: list[dict[str, Any]] = []
        self._kinds: dict[str, dict[str, Any]] = {}
        if callable(tools) or isinstance(tools, (str, dict)):
            raise BadInput(f"tools: {tools!r:.100} is not a list", "tools")
        for tool in tools or ():
            if isinstance(tool, dict):
                self.schemas.append(tool)
            elif callable(tool):
                schema = tool_of(tool)
                name = schema["function"]["name"]
                if name in self.functions:
                    raise BadInput(f"tools: two functions have the name {name!r}", "tools")
                self.functions[name], self._kinds[name] = tool, _kinds_of(tool, name)
                self.schemas.append(schema)
            else:
                raise BadInput(f"tools: {tool!r:.100} is neither a function nor a dict", "tools")

    def can_run(self, calls) -> bool:
        """Returns whether all functions of tool calls are Python functions of this conversation."""
        return all(c["function"]["name"] in self.functions for c in calls)

    def run(self, call: dict[str, Any]) -> Any:
        """Executes a tool call, and returns what the function returned: a coroutine, for a
        coroutine function. ValueError: an argument is not of the type of its annotation."""
        name = call["function"]["name"]
        values = json.loads(call["function"]["arguments"] or "{}")
        if not isinstance(values, dict):
            raise ValueError(f"expected an object of arguments, found {values!r:.100}")
        kinds, given = self._kinds[name], {}
        for k, v in values.items():
            try:
                given[k] = value_of(kinds.get(k, Any), v)
            except ValueError as e:
                raise ValueError(f"{k}: {e}") from None
        return self.functions[name](**given)


def text_of(value: Any) -> str:
    """Returns the result of a tool as the content of a message."""
    if not isinstance(value, str):
        value = json.dumps(json_of(value), ensure_ascii=False)
    return value.encode("utf-8", "replace").decode("utf-8")
