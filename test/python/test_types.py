"""What type checkers say about programs that use the package, and about the package itself."""
import importlib.util
import inspect
import os
import subprocess
import sys

import gallop
import pytest

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed")
HERE = os.path.dirname(os.path.abspath(__file__))

# Lines with a mistake, and what mypy says about each.
WRONG = [
    ("llm.generate('a', temprature=1)", 'did you mean "temperature"?'),
    ("llm.generate('a', temperature='hot')", "No overload variant"),
    ("llm.stream(5)", 'has incompatible type "int"'),
    ("llm.chat().send('a', stop=1)", 'incompatible type "int"'),
    ("gallop.LLM(max_model_length=4)", 'did you mean "max_model_len"?'),
    ("llm.generate('a').texts", 'has no attribute "texts"'),
    ("x: int = llm.json('a', str)", 'expression has type "str"'),
    ("lib.gallop_opne(1)", 'has no attribute "gallop_opne"'),
    ("lib.gallop_cancel(1)", "Too few arguments"),
]


def mypy(tmp_path, *arguments):
    return subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), *arguments],
                          capture_output=True, text=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def test_a_program_that_uses_everything_is_typed_strictly(cache):
    done = mypy(cache, "--strict", os.path.join(HERE, "typed_program.py"))
    assert done.returncode == 0, done.stdout


def test_mistakes_are_found_before_the_program_runs(cache, tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text("import gallop\nfrom gallop._gallop import lib\nllm = gallop.LLM()\n"
                       + "\n".join(line for line, _ in WRONG) + "\n")
    said = [x for x in mypy(cache, "--strict", str(program)).stdout.splitlines() if ": error:" in x]
    for i, (line, words) in enumerate(WRONG, 4):
        assert any(f"wrong.py:{i}:" in x and words in x for x in said), (line, said)
    assert {int(x.split(":")[1]) for x in said} == set(range(4, 4 + len(WRONG)))


def test_the_package_has_no_mistakes_of_types(cache):
    done = mypy(cache, "-p", "gallop", "--exclude", "gallop/(pace|integrations)",
                "--check-untyped-defs")
    assert done.returncode == 0, done.stdout


def functions():
    """Yields the functions and methods of the public names."""
    for name in gallop.__all__:
        thing = getattr(gallop, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif isinstance(thing, type):
            for k, v in vars(thing).items():
                v = v.fget if isinstance(v, property) else v
                if inspect.isfunction(v) and (not k.startswith("_") or k in ("__init__", "__exit__")):
                    yield f"{name}.{k}", v


@pytest.mark.parametrize("name, function", list(functions()), ids=lambda x: x if isinstance(x, str) else "")
def test_every_parameter_of_a_public_function_has_a_type(name, function):
    if not function.__module__.startswith("gallop"):
        pytest.skip("of another package")
    signature = inspect.signature(function)
    missing = [p for p in signature.parameters.values()
               if p.name != "self" and p.annotation is p.empty]
    assert not missing and ("return" in function.__annotations__ or name.endswith("__init__")), missing
