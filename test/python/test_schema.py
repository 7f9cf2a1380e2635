"""Types as JSON Schemas, and the values that functions get from JSON."""
import contextlib
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import pathlib
import typing
import uuid

import gallop
import pytest
from gallop._schema import schema_of, value_of
from gallop._tools import Tools, text_of, tool_of

Any, Dict, List, Literal = typing.Any, typing.Dict, typing.List, typing.Literal
Optional, Set, Tuple, Union = typing.Optional, typing.Set, typing.Tuple, typing.Union


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Corner(enum.Enum):  # values that JSON has not: the names are used
    LEFT = (0, 1)
    RIGHT = (1, 1)


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    unit: Optional[Unit] = None
    secret: int = dataclasses.field(default=7, init=False)


@dataclasses.dataclass
class Tree:
    value: int
    children: "List[Tree]" = dataclasses.field(default_factory=list)


class Point(typing.NamedTuple):
    x: int
    y: float = 0.5


class Options(typing.TypedDict, total=False):
    unit: Unit
    many: List[Level]


UserId = typing.NewType("UserId", int)
PLACE = {"type": "object", "additionalProperties": False, "required": ["name"], "properties": {
    "name": {"type": "string"}, "unit": {"anyOf": [{"enum": ["celsius", "fahrenheit"]},
                                                   {"type": "null"}]}}}
TREE = {"type": "object", "additionalProperties": False, "required": ["value"], "properties": {
    "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
UNITS = {"enum": ["celsius", "fahrenheit"]}
DAY = datetime.date(2026, 11, 28)
UTC = datetime.timezone.utc

# An annotation, its schema, and values as JSON and as Python objects.
TABLE = [
    (int, {"type": "integer"}, [(3, 3), (3.0, 3)]),
    (float, {"type": "number"}, [(3, 3.0), (0.5, 0.5)]),
    (bool, {"type": "boolean"}, [(True, True)]),
    (None, {"type": "null"}, [(None, None)]),
    (Any, {}, [([1, "a"], [1, "a"])]),
    (Unit, UNITS, [("celsius", Unit.C)]),
    (Level, {"enum": [1, 2]}, [(2, Level.HIGH)]),
    (Corner, {"enum": ["LEFT", "RIGHT"]}, [("RIGHT", Corner.RIGHT)]),
    (Optional[Unit], {"anyOf": [UNITS, {"type": "null"}]}, [("celsius", Unit.C), (None, None)]),
    (Union[Unit, str], {"anyOf": [UNITS, {"type": "string"}]}, [("celsius", Unit.C), ("x", "x")]),
    (Union[float, int], {"anyOf": [{"type": "number"}, {"type": "integer"}]}, [(1, 1), (1.5, 1.5)]),
    (Union[bool, int], {"anyOf": [{"type": "boolean"}, {"type": "integer"}]},
     [(1, 1), (True, True)]),
    (Union[Place, Point], None, [({"name": "a"}, Place("a")), ({"x": 1}, Point(1))]),
    (List[Unit], {"type": "array", "items": UNITS}, [(["celsius"], [Unit.C]), ([], [])]),
    (Set[Unit], {"type": "array", "items": UNITS}, [(["celsius", "celsius"], {Unit.C})]),
    (typing.FrozenSet[int], {"type": "array", "items": {"type": "integer"}},
     [([1], frozenset([1]))]),
    (typing.Sequence[Level], {"type": "array", "items": {"enum": [1, 2]}}, [([1], [Level.LOW])]),
    (list, {"type": "array"}, [([1, "a"], [1, "a"])]),
    (tuple, {"type": "array"}, [([1, "a"], (1, "a"))]),
    (Tuple[Unit, ...], {"type": "array", "items": UNITS}, [(["celsius"], (Unit.C,))]),
    (Tuple[Unit, int], {"type": "array", "prefixItems": [UNITS, {"type": "integer"}],
                        "minItems": 2, "maxItems": 2}, [(["celsius", 1], (Unit.C, 1))]),
    (dict, {"type": "object"}, [({"a": 1}, {"a": 1})]),
    (Dict[str, Unit], {"type": "object", "additionalProperties": UNITS},
     [({"a": "celsius"}, {"a": Unit.C})]),
    (typing.Mapping[str, List[Unit]], {"type": "object", "additionalProperties": {
        "type": "array", "items": UNITS}}, [({"a": ["celsius"]}, {"a": [Unit.C]})]),
    (Dict[Unit, float], {"type": "object", "propertyNames": UNITS,
                         "additionalProperties": {"type": "number"}},
     [({"celsius": 1}, {Unit.C: 1.0})]),
    (Dict[Level, int], {"type": "object", "propertyNames": {"enum": ["1", "2"]},
                        "additionalProperties": {"type": "integer"}},
     [({"2": 5}, {Level.HIGH: 5})]),
    (Dict[int, str], {"type": "object", "propertyNames": {"pattern": "^(0|-?[1-9][0-9]*)$"},
                      "additionalProperties": {"type": "string"}}, [({"-3": "a"}, {-3: "a"})]),
    (Literal["a", 1], {"enum": ["a", 1]}, [("a", "a"), (1, 1)]),
    (Literal[Unit.C, None], {"enum": ["celsius", None]}, [("celsius", Unit.C), (None, None)]),
    (UserId, {"type": "integer"}, [(5, 5)]),
    (typing.Annotated[Unit, "of heat"], {**UNITS, "description": "of heat"}, [("celsius", Unit.C)]),
    (Place, PLACE, [({"name": "a", "unit": "celsius"}, Place("a", Unit.C)),
                    ({"name": "a"}, Place("a"))]),
    (Tree, {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
     [({"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)]))]),
    (Point, {"type": "object", "additionalProperties": False, "required": ["x"], "properties": {
        "x": {"type": "integer"}, "y": {"type": "number"}}}, [({"x": 1, "y": 2}, Point(1, 2.0))]),
    (Options, {"type": "object", "additionalProperties": False, "required": [], "properties": {
        "unit": UNITS, "many": {"type": "array", "items": {"enum": [1, 2]}}}},
     [({"unit": "celsius", "many": [1]}, {"unit": Unit.C, "many": [Level.LOW]}), ({}, {})]),
    (datetime.date, {"type": "string", "format": "date"}, [("2026-11-28", DAY)]),
    (datetime.datetime, {"type": "string", "format": "date-time"},
     [("2026-11-28T01:02:03.5Z", datetime.datetime(2026, 11, 28, 1, 2, 3, 500000, UTC))]),
    (datetime.time, {"type": "string", "format": "time"},
     [("01:02:03Z", datetime.time(1, 2, 3, tzinfo=UTC))]),
    (uuid.UUID, {"type": "string", "format": "uuid"}, [(str(uuid.UUID(int=5)), uuid.UUID(int=5))]),
    (pathlib.Path, {"type": "string"}, [("/a", pathlib.Path("/a"))]),
    (decimal.Decimal, {"type": "number"}, [(0.1, decimal.Decimal("0.1"))]),
]
TABLE_IDS = [str(row[0])[:40] for row in TABLE]


@pytest.mark.parametrize("kind, schema, values", TABLE, ids=TABLE_IDS)
def test_a_type_has_a_schema_and_its_values(kind, schema, values):
    assert schema is None or schema_of(kind) == schema
    for given, expected in values:
        found = value_of(kind, json.loads(json.dumps(given)))
        assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("kind", [row[0] for row in TABLE], ids=TABLE_IDS)
def test_what_a_schema_lets_a_model_write_has_the_type(llm, kind):
    for seed in range(2):
        r = llm.generate("JSON:", json_schema=schema_of(kind), temperature=1.2, seed=seed,
                         max_new_tokens=250)
        if r.finish_reason == "stop":
            value_of(kind, json.loads(r.text))


WRONG = [
    (int, "3"), (int, True), (int, 1.5), (str, 1), (bool, 1), (float, "a"), (None, 0), (Unit, "kelvin"),
    (Unit, None), (Level, True), (Optional[Unit], "kelvin"), (List[int], 5), (List[Unit], ["kelvin"]),
    (Tuple[int, int], [1]), (Dict[str, int], []), (Dict[str, int], {"a": "b"}), (Dict[int, int], {"a": 1}),
    (Literal["a"], "b"), (Place, {}), (Place, {"name": "a", "other": 1}), (Place, "a"), (Place, 5),
    (Place, True), (Point, {"y": 1}), (datetime.date, 5), (datetime.date, "today"), (uuid.UUID, "x"),
    (Union[int, Unit], "kelvin"),
]


@pytest.mark.parametrize("kind, value", WRONG)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises(ValueError):
        value_of(kind, value)


class Nothing(enum.Enum):
    pass


@pytest.mark.parametrize("kind", [bytes, complex, Nothing, Dict[float, int], typing.TypeVar("T"),
                                  typing.Callable[[], int], object()])
def test_a_type_without_a_schema_is_refused(kind):
    with pytest.raises(TypeError):
        schema_of(kind)


def ran(function, **arguments):
    """Returns what a function as a tool makes of arguments, which are written as JSON."""
    return Tools([function]).run({"function": {"name": function.__name__,
                                               "arguments": json.dumps(arguments)}})


def test_a_function_gets_values_of_the_types_that_it_declares():
    def f(a: Optional[Unit], b: Dict[str, Unit], c: List[Place], d: Union[int, List[Unit]],
          e: Literal[Unit.F] = Unit.F, g: Place = None, h=None):
        return a, b, c, d, e, g, h

    assert ran(f, a="celsius", b={"x": "fahrenheit"}, c=[{"name": "p"}], d=["celsius"]) == (
        Unit.C, {"x": Unit.F}, [Place("p")], [Unit.C], Unit.F, None, None)
    assert ran(f, a=None, b={}, c=[], d=3, e="fahrenheit", g={"name": "q"}, h=[1]) == (
        None, {}, [], 3, Unit.F, Place("q"), [1])
    assert ran(f, a=None, b={}, c=[], d=3, g=None)[5] is None
    with pytest.raises(ValueError, match="b: expected Unit, found 'kelvin'"):
        ran(f, a=None, b={"x": "kelvin"}, c=[], d=3)
    with pytest.raises(ValueError, match="object of arguments"):
        Tools([f]).run({"function": {"name": "f", "arguments": "[1]"}})


def test_defaults_are_in_the_schema_where_json_has_them():
    def f(a=Unit.F, b=Place("x"), c=None, d=object(), e: float = 1.5, g=(Unit.C,)):
        pass

    def g(x: float = float("nan"), y=[float("inf")]):
        pass

    assert "default" not in str(tool_of(g))
    p = tool_of(f)["function"]["parameters"]["properties"]
    assert {k: v.get("default") for k, v in p.items()} == {
        "a": "fahrenheit", "b": {"name": "x", "unit": None, "secret": 7}, "c": None, "d": None, "e": 1.5,
        "g": ["celsius"]}
    assert "default" not in p["c"] and "default" not in p["d"]


def test_a_recursive_class_is_described_once():
    def f(a: Tree, b: List[Tree], c: Optional[Tree] = None):
        pass

    parameters = tool_of(f)["function"]["parameters"]
    assert parameters["$defs"] == {"Tree": TREE}
    assert parameters["properties"]["b"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert ran(f, a={"value": 1}, b=[{"value": 2}], c={"value": 3}) is None


def test_methods_partials_and_objects_are_tools():
    class Finder:
        """Finds."""
        city: str

        def find(self, unit: Unit) -> Unit:
            """Finds it."""
            return unit

        def __call__(self, unit: Unit):
            return unit

    tools = [Finder().find, functools.partial(Finder().find), Finder()]
    for tool, name in zip(tools, ("find", "find", "Finder")):
        assert tool_of(tool)["function"]["name"] == name
        assert tool_of(tool)["function"]["parameters"]["properties"] == {"unit": UNITS}
        call = {"function": {"name": name, "arguments": '{"unit": "celsius"}'}}
        assert Tools([tool]).run(call) is Unit.C


def test_tools_that_cannot_be_told_apart_are_refused():
    def f():
        pass

    def unknown(x: "Nowhere"):  # noqa: F821
        pass

    for wrong, why in (([f, f], "two functions"), ([lambda: 1], "name"), (f, "list"), ([unknown], "Nowhere")):
        with pytest.raises(gallop.BadInput, match=why) as e:
            Tools(wrong)
        assert e.value.field == "tools"


@pytest.mark.parametrize("value, text", [
    ("a", "a"), (None, "null"), ([Place("x")], '[{"name": "x", "unit": null, "secret": 7}]'),
    ({Unit.C: {1}}, '{"celsius": [1]}'), (DAY, '"2026-11-28"'), (Point(1, 2.0), '{"x": 1, "y": 2.0}'),
    ({"a": Unit.F}, '{"a": "fahrenheit"}'), ("\ud800", "?"), (Place, None)])
def test_results_become_text(value, text):
    assert text_of(value) == text or text is None


def test_arrays_become_text():
    numpy = pytest.importorskip("numpy")
    assert text_of({"a": numpy.arange(3), "b": numpy.float32(0.5)}) == '{"a": [0, 1, 2], "b": 0.5}'


# ---- pydantic ----

pydantic = pytest.importorskip("pydantic")


class Item(pydantic.BaseModel):
    name: Literal["pen", "cup"]
    level: Level = Level.LOW


class Order(pydantic.BaseModel):
    items: List[Item] = pydantic.Field(max_length=2)
    unit: Optional[Unit] = None


class Node(pydantic.BaseModel):
    value: int = pydantic.Field(ge=0, le=9)
    left: "Optional[Node]" = None


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    bark: bool = False


class Home(pydantic.BaseModel):
    pet: Union[Cat, Dog] = pydantic.Field(discriminator="kind")


def other_item():
    class Item(pydantic.BaseModel):
        weight: int = pydantic.Field(ge=0, le=9)

    class Parcel(pydantic.BaseModel):
        items: List[Item] = pydantic.Field(max_length=2)

    return Item, Parcel


OtherItem, Parcel = other_item()


def references(schema):
    """Yields all references of a schema."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for x in schema.values():
            yield from references(x)
    elif isinstance(schema, list):
        for x in schema:
            yield from references(x)


def test_definitions_of_models_are_at_the_root():
    def f(order: Order, orders: List[Order], node: Node, parcel: Parcel, homes: Dict[str, Home],
          either: Union[Order, Parcel], maybe: Optional[Node] = None):
        pass

    parameters = tool_of(f)["function"]["parameters"]
    assert set(parameters["$defs"]) == {"Item", "Item_2", "Level", "Unit", "Node", "Cat", "Dog"}
    assert {"weight"} == set(parameters["$defs"]["Item_2"]["properties"])
    found = set(references(parameters))
    assert found == {"#/$defs/" + name for name in parameters["$defs"]}
    assert "$defs" not in json.dumps(parameters["properties"]).replace("#/$defs/", "")
    assert parameters["$defs"]["Item"]["additionalProperties"] is False


def test_a_function_gets_models():
    def f(order: Order, nodes: Dict[str, Node], either: Union[Cat, Dog, int, None] = None,
          count: typing.Annotated[int, pydantic.Field(ge=2)] = 2):
        return order, nodes, either, count

    order = {"items": [{"name": "pen", "level": 2}], "unit": "celsius"}
    found = ran(f, order=order, nodes={"a": {"value": 1, "left": {"value": 2}}},
                either={"kind": "dog", "bark": True})
    assert found == (Order(items=[Item(name="pen", level=Level.HIGH)], unit=Unit.C),
                     {"a": Node(value=1, left=Node(value=2))}, Dog(kind="dog", bark=True), 2)
    assert ran(f, order=order, nodes={}, either=None)[2] is None
    assert ran(f, order=order, nodes={}, either=5)[2] == 5
    for wrong in ({"either": {"kind": "cow"}}, {"order": {}}, {"count": 1}):
        with pytest.raises(ValueError):
            ran(f, **{"order": order, "nodes": {}, **wrong})


@pytest.mark.parametrize("kind", [Order, Node, Home, Union[Order, Parcel], List[Item],
                                  Dict[str, Node],
                                  typing.Annotated[int, pydantic.Field(ge=3, le=4)]],
                         ids=str)
def test_what_a_model_writes_is_a_model(llm, kind):
    adapter = pydantic.TypeAdapter(kind)
    value = llm.json("JSON:", kind, max_new_tokens=200, temperature=0, logit_bias=ends(llm))
    assert adapter.validate_python(value) == value
    for seed in range(5):
        try:
            value = llm.json("JSON:", kind, max_new_tokens=200, temperature=1.0, seed=seed)
        except gallop.GallopError as e:
            assert "incomplete" in str(e)
            continue
        assert adapter.validate_python(value) == value


def ends(llm):
    """Returns a bias that ends JSON as soon as its schema allows, whatever a model would write."""
    return {id: bias for text, bias in (("}", 100), ("]", 100), ('"', 50), (",", -50))
            for id in llm.tokenize(text, special=False)}


def test_dataclasses_of_pydantic_keep_their_constraints():
    @pydantic.dataclasses.dataclass
    class Small:
        x: int = pydantic.Field(ge=0, le=3)

    assert schema_of(Small)["properties"]["x"]["maximum"] == 3
    assert value_of(Small, {"x": 2}) == Small(2)
    with pytest.raises(ValueError):
        value_of(Small, {"x": 4})


def test_calls_of_functions_with_models_are_constrained(llm, tools_template):
    seen = []

    def pack(order: Order, where: Optional[Unit]) -> Order:
        seen.append((order, where))
        return order

    def grow(node: Node):
        seen.append(node)

    for seed in range(3):
        for tools in ([pack], [grow]):
            chat = llm.chat(tools=tools, chat_template=tools_template, tool_call_parser="hermes",
                            reasoning_parser="none", tool_choice="required")
            chat.max_calls = 0
            with contextlib.suppress(gallop.GallopError):  # there is no answer after the calls
                chat.send("Go", max_new_tokens=200, temperature=1.0, seed=seed,
                          logit_bias=ends(llm))
    assert len(seen) == 6
    for row in seen:
        if isinstance(row, Node):
            assert 0 <= row.value <= 9
        else:
            assert isinstance(row[0], Order) and (row[1] is None or isinstance(row[1], Unit))
