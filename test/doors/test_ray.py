"""The example of Ray Serve."""
import ast
import os

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())


def test_the_example_is_python():
    """Only its syntax: Ray is large, and starts servers of its own."""
    with open(os.path.join(SOURCE, "examples/python/ray_serve.py"), encoding="utf-8") as f:
        names = {x.name for x in ast.parse(f.read()).body if isinstance(x, ast.ClassDef)}
    assert names == {"Gallop"}
