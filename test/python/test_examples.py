"""The programs of examples/python, and the Python of README.md and docs/PYTHON.md."""
import glob
import os
import re
import subprocess
import sys

import pytest

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())
SAYS = {
    "basic": r"legs", "streamer": r"\[(length|stop)\]", "chat": r"> .+", "tools": r"\[weather\(",
    "embed": r"192 numbers", "async_many": r"1000 answers", "multi_instance": r"cores \[\d",
    "server_client": r"listening at http", "speculative": r"guesses were right",
}


# ray_serve.py needs Ray, and serves until it is ended: test/clients runs it.
EXAMPLES = sorted(path for path in glob.glob(os.path.join(SOURCE, "examples/python/*.py"))
                  if os.path.basename(path) != "ray_serve.py")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: os.path.basename(p)[:-3])
def test_an_example_runs(path, tmp_path):
    done = subprocess.run([sys.executable, path], input="What is 3 plus 4?\n\n", text=True,
                          capture_output=True, timeout=120, cwd=tmp_path)
    name = os.path.basename(path)[:-3]
    assert done.returncode == 0, done.stderr
    assert re.search(SAYS[name], done.stdout), done.stdout


def blocks(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        return re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)


@pytest.mark.parametrize("document", ["README.md", "docs/PYTHON.md"])
def test_the_python_of_a_document_runs(document, tmp_path):
    """All blocks of a document run one after the other, as one program."""
    program = "\n".join(blocks(document))
    assert "import gallop" in program
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
