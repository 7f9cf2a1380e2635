"""JSON Schemas of Python types, and values of these types from JSON."""
from __future__ import annotations

import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import inspect
import itertools
import json
import pathlib
import re
import sys
import types
import typing
import uuid
from typing import Any, Callable

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_ANYTHING = (Any, object, inspect.Parameter.empty)
_ARRAYS: dict[Any, Callable[..., Any]] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, collections.deque: collections.deque,
    collections.abc.Sequence: list, collections.abc.MutableSequence: list,
    collections.abc.Iterable: list, collections.abc.Collection: list, collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def _time(kind):
    """Returns a reader of RFC 3339 for Pythons before 3.11, which read neither Z nor all fractions."""

    def read(text):
        text = re.sub(r"[Zz]$", "+00:00", text)
        return kind.fromisoformat(re.sub(r"\.(\d+)", lambda m: "." + (m[1] + "00000")[:6], text))

    return read


# Classes of the standard library: their schema, and how a value is read.
_KNOWN: dict[Any, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    datetime.date: ({"type": "string", "format": "date"}, datetime.date.fromisoformat),
    datetime.datetime: ({"type": "string", "format": "date-time"}, _time(datetime.datetime)),
    datetime.time: ({"type": "string", "format": "time"}, _time(datetime.time)),
    uuid.UUID: ({"type": "string", "format": "uuid"}, uuid.UUID),
    pathlib.Path: ({"type": "string"}, pathlib.Path),
    decimal.Decimal: ({"type": "number"}, lambda x: decimal.Decimal(str(x))),
}


# ---- kinds of annotations ----


def _bare(kind):
    """Returns an annotation without NewType and without the marks of TypedDicts."""
    while True:
        if hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif getattr(typing.get_origin(kind), "_name", "") in ("Required", "NotRequired", "ReadOnly"):
            kind = typing.get_args(kind)[0]
        else:
            return type(None) if kind is None else kind


def _is_alias(kind) -> bool:
    return type(kind).__name__ == "TypeAliasType"


def _is_model(kind) -> bool:
    """Returns whether a class is pydantic's: a model, or a dataclass of pydantic."""
    return isinstance(kind, type) and (hasattr(kind, "model_validate_json")
                                       or hasattr(kind, "__pydantic_validator__"))


def _is_old_model(kind) -> bool:
    """Returns whether a class is a model of pydantic 1."""
    return isinstance(kind, type) and hasattr(kind, "parse_obj") and hasattr(kind, "schema") and \
        not _is_model(kind)


def _has_constraints(metadata) -> bool:
    """Returns whether the metadata of Annotated has constraints of pydantic, such as Field(ge=0)."""
    return "pydantic" in sys.modules and any(
        type(x).__module__.partition(".")[0] in ("pydantic", "annotated_types") for x in metadata)


def _adapter(kind):
    return sys.modules["pydantic"].TypeAdapter(kind)


def _hints(kind) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _fields(kind) -> "dict[str, tuple[Any, bool]] | None":
    """Returns the annotation of each field of a dataclass, TypedDict or named tuple, and whether it is
    required; None for other classes."""
    if dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return {f.name: (hints[f.name], f.default is f.default_factory is dataclasses.MISSING)
                for f in dataclasses.fields(kind) if f.init}
    if hasattr(kind, "__required_keys__"):
        marks = {k: getattr(typing.get_origin(v), "_name", "") for k, v in _hints(kind).items()}
        return {k: (v, marks[k] == "Required" or marks[k] != "NotRequired"
                    and k in kind.__required_keys__) for k, v in _hints(kind).items()}
    if issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
        hints = _hints(kind)
        return {k: (hints.get(k, Any), k not in kind._field_defaults) for k in kind._fields}
    return None


# ---- schemas ----

# Members of a schema that map names to schemas, and members that are values and no schemas.
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("enum", "const", "default", "examples", "example")


def changed(schema, change):
    """Returns a schema of which each part, from the inside, was replaced by CHANGE(part)."""
    if isinstance(schema, list):
        return [changed(x, change) for x in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for name, part in schema.items():
        if name in _VALUES:
            out[name] = part
        elif name in _NAMED and isinstance(part, dict):
            out[name] = {k: changed(v, change) for k, v in part.items()}
        else:
            out[name] = changed(part, change)
    return change(out)


def closed(schema):
    """Returns the schema of a pydantic class without members that the class would ignore."""

    def close(part):
        has_properties = part.get("type") == "object" and isinstance(part.get("properties"), dict)
        return {"additionalProperties": False, **part} if has_properties else part

    return changed(schema, close)


def record(properties, required) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}


class Schemas:
    """Makes JSON Schemas of annotations. Their common definitions belong into "$defs" of the root:
    rooted() puts them there."""

    def __init__(self):
        self.defs: dict[str, Any] = {}
        self._sources: dict[str, Any] = {}  # definitions as pydantic wrote them, by their names here
        self._open: dict[Any, "str | None"] = {}  # kinds that are being described, and their names
        self._names_of: dict[Any, str] = {}  # kinds that are definitions

    def rooted(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "$defs": self.defs} if self.defs else schema

    def of(self, kind: Any) -> dict[str, Any]:
        """Returns the schema of an annotation; {} accepts everything."""
        kind = _bare(kind)
        if any(kind is x for x in _ANYTHING):
            return {}
        if _is_alias(kind):
            return self._named(kind, lambda: self.of(kind.__value__))
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return self._annotated(kind, args)
        if origin is typing.Literal:
            return {"enum": [_json_of(x) for x in args]}
        if origin in _UNIONS:
            return {"anyOf": [self.of(x) for x in args]}
        shape = origin or kind
        if isinstance(shape, type) and shape in _ARRAYS:
            return self._array(shape, args, origin is not None)
        if isinstance(shape, type) and shape in _MAPS:
            return self._map(args)
        if isinstance(kind, type) and origin is None:
            return self._class(kind)
        raise TypeError(f"the annotation {kind!r} has no JSON Schema")

    def _annotated(self, kind, args):
        if _has_constraints(args[1:]):
            return self._hoisted(_adapter(kind).json_schema())
        texts = (x if isinstance(x, str) else getattr(x, "documentation", None) for x in args[1:])
        text = next((x for x in texts if isinstance(x, str)), None)
        return {**self.of(args[0]), **({"description": text} if text else {})}

    def _array(self, shape, args, is_generic):
        if shape is tuple and is_generic and ... not in args:
            items = [self.of(x) for x in args if x != ()]
            return {"type": "array", **({"prefixItems": items} if items else {}),
                    "minItems": len(items), "maxItems": len(items)}
        return {"type": "array", **({"items": self.of(args[0])} if args else {})}

    def _map(self, args):
        if not args:
            return {"type": "object"}
        names, values = self._names(args[0]), self.of(args[1])
        return {"type": "object", **({"propertyNames": names} if names else {}),
                "additionalProperties": values}

    def _names(self, kind):
        """Returns the schema of the names of an object whose keys are of a kind; {}: all names."""
        kind = _bare(kind)
        if kind is str or any(kind is x for x in _ANYTHING):
            return {}
        if kind is int:
            return {"pattern": "^(0|-?[1-9][0-9]*)$"}
        schema = self.of(kind)
        if "enum" in schema:
            return {"enum": [x if isinstance(x, str) else json.dumps(x) for x in schema["enum"]]}
        if schema.get("type") == "string":
            return schema
        raise TypeError(f"keys of the type {kind!r} are no names of JSON objects")

    def _class(self, kind):
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if issubclass(kind, enum.Enum):
            if not len(kind):
                raise TypeError(f"{kind.__name__} has no members")
            return {"enum": [_json_of(x) for x in kind]}
        if kind in _KNOWN:
            return dict(_KNOWN[kind][0])
        if _is_model(kind):
            return self._hoisted(_adapter(kind).json_schema())
        if _is_old_model(kind):
            return self._hoisted(kind.schema())
        fields = _fields(kind)
        if fields is None:
            raise TypeError(f"the annotation {kind!r} has no JSON Schema")
        return self._named(kind, lambda: record({k: self.of(v) for k, (v, _) in fields.items()},
                                                [k for k, (_, needed) in fields.items() if needed]))

    def _named(self, kind, make):
        """Returns make(), or a reference to a definition if the schema of KIND contains KIND."""
        if kind in self._names_of:
            return {"$ref": f"#/$defs/{self._names_of[kind]}"}
        if kind in self._open:
            if self._open[kind] is None:
                self._open[kind] = self._free_name(kind.__name__)
            return {"$ref": f"#/$defs/{self._open[kind]}"}
        self._open[kind] = None
        try:
            schema = make()
        finally:
            name = self._open.pop(kind)
        if name is None:
            return schema
        self.defs[name] = schema
        self._names_of[kind] = name
        return {"$ref": "#/$defs/" + name}

    def _free_name(self, name):
        taken = {*self.defs, *self._open.values()}
        return next(x for i in itertools.count(1)
                    if (x := name if i == 1 else f"{name}_{i}") not in taken)

    def _hoisted(self, schema):
        """Moves the definitions of a schema of pydantic to the root, under other names if
        definitions of these names are there that differ."""
        schema = closed(schema)
        found = {**schema.pop("definitions", {}), **schema.pop("$defs", {})}
        taken = {*self.defs, *self._open.values()} - {*self._sources}
        for i in itertools.count(1):
            names = {k: k if i == 1 else f"{k}_{i}" for k in found}
            if all(names[k] not in taken and self._sources.get(names[k], found[k]) == found[k]
                   for k in found):
                break

        def rename(part):
            m = re.fullmatch(r"#/(?:\$defs|definitions)/(.+)", str(part.get("$ref", "")))
            part.pop("discriminator", None)  # an annotation, which has references
            return {**part, "$ref": "#/$defs/" + names.get(m[1], m[1])} if m else part

        for k, part in found.items():
            self._sources[names[k]] = part
            self.defs[names[k]] = changed(part, rename)
        return changed(schema, rename)


def schema_of(kind: Any) -> dict[str, Any]:
    """Returns the JSON Schema of a type annotation. TypeError: it has none."""
    schemas = Schemas()
    return schemas.rooted(schemas.of(kind))


# ---- values ----


def _json_of(x):
    """Returns the JSON value of a member of a Literal or an enum."""
    if isinstance(x, enum.Enum):
        return x.value if isinstance(x.value, (str, int, float, type(None))) else x.name
    if isinstance(x, (str, int, float, type(None))):
        return x
    raise TypeError(f"{x!r} cannot be written as JSON")


def _same(a, b) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _member(kind, members, value):
    for x in members:
        if _same(_json_of(x), value):
            return x
    raise _wrong(kind, value)


def _wrong(kind, value):
    name = getattr(kind, "__name__", None) or repr(kind)
    return ValueError(f"expected {name}, found {value!r:.100}")


def value_of(kind: Any, value: Any) -> Any:
    """Returns a JSON value as an object of the type of an annotation. ValueError: it is none."""
    kind = _bare(kind)
    if any(kind is x for x in _ANYTHING):
        return value
    if _is_alias(kind):
        return value_of(kind.__value__, value)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _validated(kind, value) if _has_constraints(args[1:]) else value_of(args[0], value)
    if origin is typing.Literal:
        return _member(kind, args, value)
    if origin in _UNIONS:
        return _one_of(kind, args, value)
    shape = origin or kind
    if isinstance(shape, type) and shape in _ARRAYS:
        return _array_of(shape, args, value, origin is not None)
    if isinstance(shape, type) and shape in _MAPS:
        if not isinstance(value, dict):
            raise _wrong(dict, value)
        return {_key_of(args[0], k): value_of(args[1], v) for k, v in value.items()} if args else value
    return _object_of(kind, value) if isinstance(kind, type) else value


def _validated(kind, value):
    return _adapter(kind).validate_json(json.dumps(value))


def _one_of(kind, args, value):
    """Returns VALUE as the first type of a union that it fits. Numbers stay what they are, and
    pydantic chooses among its models."""
    if type(value) in (int, float) and type(value) in args:
        return value
    if any(_is_model(x) for x in args) and value is not None:
        try:
            return _validated(kind, value)
        except sys.modules["pydantic"].ValidationError:
            raise
        except Exception:  # pydantic does not know another type of the union
            pass
    for x in args:
        try:
            return value_of(x, value)
        except (TypeError, ValueError):
            continue
    raise _wrong(kind, value)


def _array_of(shape, args, value, is_generic):
    if not isinstance(value, list):
        raise _wrong(shape, value)
    if shape is tuple and is_generic and ... not in args:
        kinds = [x for x in args if x != ()]
        if len(kinds) != len(value):
            raise ValueError(f"expected {len(kinds)} items, found {len(value)}")
        return tuple(value_of(k, x) for k, x in zip(kinds, value))
    return _ARRAYS[shape](value_of(args[0], x) for x in value) if args else _ARRAYS[shape](value)


def _key_of(kind, key):
    kind = _bare(kind)
    if kind is int or isinstance(kind, type) and issubclass(kind, enum.Enum) or \
            typing.get_origin(kind) is typing.Literal:
        for x in (key, _number(key)):
            try:
                return value_of(kind, x)
            except ValueError:
                continue
        raise _wrong(kind, key)
    return value_of(kind, key)


def _number(key):
    try:
        return json.loads(key)
    except ValueError:
        return key


def _object_of(kind, value):
    if kind in _PLAIN:
        return _plain_of(kind, value)
    if issubclass(kind, enum.Enum):
        return _member(kind, kind, value)
    if kind in _KNOWN:
        schema, read = _KNOWN[kind]
        if not isinstance(value, str if schema["type"] == "string" else (int, float)):
            raise _wrong(kind, value)
        return read(value)
    if _is_model(kind):
        return _validated(kind, value)
    if _is_old_model(kind):
        return kind.parse_obj(value)
    fields = _fields(kind)
    if fields is None:
        return value
    if not isinstance(value, dict) or any(k not in fields for k in value):
        raise _wrong(kind, value)
    if any(needed and k not in value for k, (_, needed) in fields.items()):
        raise _wrong(kind, value)
    return kind(**{k: value_of(fields[k][0], v) for k, v in value.items()})


def _plain_of(kind, value):
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not kind:
        raise _wrong(kind, value)
    return value


def json_of(value: Any, other: Callable[[Any], Any] = str) -> Any:
    """Returns what JSON has for an object: dicts for models and dataclasses, lists for sets and
    arrays, values for members of enums. OTHER gets what JSON has nothing for."""
    if isinstance(value, enum.Enum):
        return _json_of(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, type):
        return other(value)
    if hasattr(value, "model_dump_json"):
        return json.loads(value.model_dump_json())
    if dataclasses.is_dataclass(value):
        return {f.name: json_of(getattr(value, f.name), other) for f in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, collections.abc.Mapping):
        return {k if isinstance(k, str) else str(json_of(k, other)): json_of(v, other)
                for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return [json_of(x, other) for x in value]
    if hasattr(value, "tolist"):
        return json_of(value.tolist(), other)
    return other(value)
