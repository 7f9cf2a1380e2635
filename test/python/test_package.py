"""The package itself: names, help, stubs, the program, the server, other Pythons."""
import base64
import email
import gc
import glob
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import weakref
import zipfile

import gallop
import pytest
from gallop import _names
from gallop._gallop import ffi
from test_lifetime import waits_until

SOURCE = os.environ.get("GALLOP_SOURCE_DIR", os.getcwd())


def test_the_version_is_that_of_the_build():
    with open(os.path.join(SOURCE, "CMakeLists.txt")) as f:
        version = re.search(r"project\(gallop VERSION ([0-9.]+)", f.read())[1]
    assert gallop.__version__ == version
    from importlib.metadata import version as installed
    assert installed("gallop") == version
    others = glob.glob(os.path.join(SOURCE, "python/*-*/pyproject.toml"))
    assert len(others) == 3
    for path in others:
        with open(path) as f:
            assert re.search(r'^version = "(.*)"', f.read(), re.M)[1] == version, path


def test_every_option_and_parameter_has_a_setter_and_a_help_text():
    from gallop import _fields

    callbacks = {"share_pool", "progress", "download"}
    assert set(_names.OPTIONS) == set(_fields.OPTIONS) | callbacks
    assert set(_names.SAMPLING) == set(_fields.SAMPLING)
    named = {"json_schema" if k == "json" else k for k in _names.CONSTRAINT}
    assert named == set(_fields.CONSTRAINT)
    assert set(_fields.REQUEST) <= set(_names.REQUEST)
    for table in (_names.OPTIONS, _names.SAMPLING, _names.REQUEST, _names.CONSTRAINT):
        assert all(text for text in table.values())
    assert "Nucleus" in gallop.parameters("top_p") and "[32]" in gallop.options("max_num_seqs")
    with pytest.raises(KeyError, match="max_num_seqs"):
        gallop.options("max_num_seq")
    for name in (*_fields.SAMPLING, *_fields.CONSTRAINT, *_fields.REQUEST, *_fields.ALIASES,
                 "logit_bias", "tools", "chat_template_kwargs"):
        assert gallop.parameters(name).startswith(name + "\n    ") and name in gallop.parameters()
    for name in _names.OPTIONS:
        assert gallop.options(name)


def test_help_reads_well(python):
    text = python("import gallop; help(gallop); help(gallop.LLM.generate)").stdout
    assert "Large language models on CPUs" in text and "max_new_tokens" in text
    for name in gallop.__all__:
        assert getattr(gallop, name).__doc__ or name in ("DEMO", "Prompt", "Prompts"), name


def test_importing_takes_neither_numpy_nor_much_time(python):
    done = python("import sys, time; t = time.perf_counter(); import gallop\n"
                  "print([m for m in ('numpy', 'torch', 'pydantic') if m in sys.modules])")
    assert done.stdout == "[]\n"


def test_the_package_is_typed():
    folder = os.path.dirname(gallop.__file__)
    assert os.path.exists(os.path.join(folder, "py.typed"))
    assert os.path.exists(os.path.join(folder, "_gallop.pyi"))


@pytest.mark.parametrize("command", [[sys.executable, "-m", "gallop"],
                                     [os.path.join(os.path.dirname(sys.executable), "gallop")]])
def test_the_program_is_in_the_package(command):
    out = subprocess.run([*command, "run", "--greedy", "-n", "8", "-q", "Once upon a time"],
                         capture_output=True, text=True)
    with gallop.LLM() as llm:
        assert llm.generate("Once upon a time", max_new_tokens=8).text.strip() in out.stdout, out
    wrong = subprocess.run([*command, "run", "--wrong"], capture_output=True, text=True)
    assert wrong.returncode == 2


def test_a_server_answers_until_it_is_closed():
    with gallop.serve(max_num_seqs=4, served_model_name="small") as server:
        body = json.dumps({"model": "small", "prompt": "Once upon a time", "max_tokens": 5})
        request = urllib.request.Request(server.url + "/v1/completions", body.encode(),
                                         {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request))
        assert answer["usage"]["completion_tokens"] == 5
        assert server.returncode is None
    assert server.returncode == 0


@pytest.mark.parametrize("name, path", [("api_key", "/v1/models"), ("admin_api_key", "/metrics")])
@pytest.mark.parametrize("keys", ["sk-secret", ["sk-secret", "sk-other"], ("sk-secret",)],
                         ids=["one", "two", "tuple"])
def test_keys_of_a_server_are_in_no_list_of_processes(monkeypatch, name, path, keys):
    def status(server, key):
        headers = {"X-Api-Key": key} if key else {}
        request = urllib.request.Request(server.url + path, headers=headers)
        try:
            return urllib.request.urlopen(request).status
        except urllib.error.HTTPError as e:
            return e.code

    monkeypatch.setenv("GALLOP_" + name.upper(), "sk-env")
    files, log = len(os.listdir("/proc/self/fd")), io.StringIO()
    with gallop.serve(threads=1, log=log, **{name: keys}) as server:
        for file in ("cmdline", "environ"):
            with open(f"/proc/{server.pid}/{file}", "rb") as f:
                assert b"sk-" not in f.read(), file
        for key in [keys] if isinstance(keys, str) else keys:
            assert status(server, key) == 200
        assert [status(server, key) for key in (None, "sk-env", "sk-secre")] == [401] * 3
        os.kill(server.pid, signal.SIGHUP)  # The server reads its keys again.
        waits_until(lambda: "read again" in log.getvalue())
        assert status(server, "sk-secret") == 200 and status(server, None) == 401
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize("options", [{"api_key": "a b"}, {"api_key": ""}, {"api_key": ["good", "a\nb"]},
                                     {"api_key": "#a"}, {"admin_api_key": "\xe4"},
                                     {"api_key": "a", "api_key_file": "/nowhere"}])
def test_wrong_keys_of_a_server_are_refused(options):
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(gallop.BadInput, match="api_key: ") as e:
        gallop.serve(**options)
    assert e.value.field in options and "a b" not in str(e.value)
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(gallop.GallopError, match="no such folder or file"):
        gallop.serve("/nowhere")
    with pytest.raises(gallop.GallopError, match="max-num-sequences"):
        gallop.serve(max_num_sequences=4)


def test_a_server_ends_with_its_process(python):
    done = python("import gallop; s = gallop.serve(); print(s.pid)")
    assert done.returncode == 0 and not os.path.exists(f"/proc/{int(done.stdout)}"), done


def test_an_interrupt_ends_a_server_by_way_of_its_program():
    text = "import gallop; s = gallop.serve(); print(s.pid); s.wait()"
    child = subprocess.Popen([sys.executable, "-uc", text],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
    try:
        pid = int(child.stdout.readline())
        assert os.getsid(pid) == pid
        os.killpg(child.pid, signal.SIGINT)
        assert "KeyboardInterrupt" in child.communicate(timeout=30)[1]
        assert not os.path.exists(f"/proc/{pid}")
    finally:
        child.kill()


def test_rows_of_an_executor(llm):
    ids = [1, 2, 3, 4]
    with gallop.Executor(gallop.DEMO, max_num_seqs=2) as x:
        vocab = x.caps["vocab_size"]
        out = x.run([gallop.Rows(ids, n_wanted=2, pick={"do_sample": False}, n_prompt=4),
                     gallop.Rows(ids[:2], slot=1, n_wanted=0)])
        assert out.logits.shape == (2, vocab) and len(out.picks) == 2
        assert out.picks[0][0] == max(range(vocab), key=lambda i: out.logits[1, i])
        assert out.picks[0][0] == llm.generate(ids, max_new_tokens=1, ignore_eos=True).ids[0]
        x.truncate(1)
        with pytest.raises(gallop.BadInput):
            x.run([gallop.Rows(ids, slot=7)])
    with pytest.raises(gallop.Cancelled):
        x.run([])


def test_arrays_of_an_executor_are_read_by_their_type():
    numpy = pytest.importorskip("numpy")
    ids = [1, 2, 3, 4]
    with gallop.Executor(gallop.DEMO, max_num_seqs=2) as x:
        expected = x.run([gallop.Rows(ids)]).logits.tolist()
        for array in (numpy.array(ids, "int32"), numpy.array(ids, "int64"),
                      numpy.array(ids * 2, "int32")[:4], numpy.repeat(ids, 2).astype("int32")[::2]):
            x.truncate(0)
            assert x.run([gallop.Rows(array)]).logits.tolist() == expected
        with pytest.raises(gallop.BadInput, match="ids"):
            x.run([gallop.Rows(numpy.array(ids, "float32"))])


def test_tokens_of_an_executor_that_are_too_few_are_refused():
    with gallop.Executor(gallop.DEMO, max_num_seqs=2) as x:
        pick = {"do_sample": False, "repetition_penalty": 1.5}
        for tokens in ([1, 2], [], [1, 2, 3, 4]):
            with pytest.raises(gallop.BadInput, match="tokens"):
                x.run([gallop.Rows([1, 2, 3], pick=pick, n_prompt=3, tokens=tokens)])
        x.run([gallop.Rows([1, 2, 3], pick=pick, n_prompt=3, tokens=[1, 2, 3])])


def test_logits_outlive_the_name_of_their_executor():
    x = gallop.Executor(gallop.DEMO, max_num_seqs=2)
    logits = x.run([gallop.Rows([1, 2, 3])]).logits
    alive, before = weakref.ref(x), logits.tolist()
    del x
    gc.collect()
    assert alive() is not None and logits.tolist() == before
    del logits
    gc.collect()
    assert alive() is None


def test_an_executor_without_a_model_raises_once(python):
    done = python("import gallop\ntry: gallop.Executor()\nexcept TypeError: pass")
    assert (done.returncode, done.stderr) == (0, "")


def test_options_of_a_server_that_are_false():
    from gallop._server import _arguments

    assert _arguments({"access_log": False, "enable_prefix_caching": False, "no_access_log": False,
                       "api_key": None}) == ["--no-access-log", "--no-enable-prefix-caching"]
    with pytest.raises(gallop.BadInput, match="quant"):
        gallop.serve(quant=False)


def test_a_log_that_fails_leaves_the_server_readable():
    class Log:
        def write(self, text):
            raise ValueError("full")

    with gallop.serve(log=Log()) as server:
        assert server._reader.is_alive() and os.getsid(server.pid) == server.pid
    assert server.returncode == 0


def pythons():
    """Yields other interpreters of this machine that the wheel is for."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for minor in range(9, 20):
        names = [*glob.glob(f"{root}/versions/3.{minor}.*/bin/python"), f"/usr/bin/python3.{minor}"]
        found = next((n for n in names if os.access(n, os.X_OK)), None)
        if found and minor != sys.version_info[1]:
            yield pytest.param(found, id=f"3.{minor}")


@pytest.mark.parametrize("interpreter", list(pythons()) or [pytest.param(None, id="none")])
def test_the_wheel_runs_on_another_python(interpreter, tmp_path):
    if not interpreter:
        pytest.skip("there is no other Python")
    wheel = glob.glob(os.path.join(SOURCE, "build/wheel/gallop-*.whl"))[0]
    subprocess.run([interpreter, "-m", "venv", "--without-pip", tmp_path], check=True)
    python = str(tmp_path / "bin/python")
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile",
                    "--disable-pip-version-check", wheel], check=True)
    out = subprocess.run([python, "-c", """if True:
        import asyncio, gallop
        with gallop.LLM() as llm:
            print(llm.generate("Once", max_new_tokens=3).n_output,
                  asyncio.run(llm.agenerate("Once", max_new_tokens=4)).n_output,
                  len(list(llm.stream("Once", max_new_tokens=5))))
            def f(a: int): "F."
            llm.chat(tools=[f]).tools
        """], capture_output=True, text=True)
    assert out.stdout == "3 4 6\n", out.stderr


def wheel_file():
    return zipfile.ZipFile(glob.glob(os.path.join(SOURCE, "build/wheel/gallop-*.whl"))[0])


def test_the_wheel_has_the_licences_of_what_it_contains():
    with wheel_file() as wheel:
        names = wheel.namelist()
        info = next(n for n in names if n.endswith(".dist-info/METADATA")).rpartition("/")[0]
        metadata = email.message_from_bytes(wheel.read(info + "/METADATA"))
        assert metadata["License-Expression"] == "Apache-2.0"
        files = [n[len(info + "/licenses/"):] for n in names if n.startswith(info + "/licenses/")
                 and not n.endswith("/")]
        assert set(metadata.get_all("License-File")) == set(files) and "LICENSE" in files
        libraries = [n for n in names if ".libs/" in n and not n.endswith("/")]
        packages = {re.match(r"bundled/([^/]+)\.txt", x)[1] for x in files
                    if x.startswith("bundled/lib")}
        assert libraries and packages >= {"libcurl4", "libssl3", "libevent-core-2.1-7", "libtinfo6"}
        for package in packages:
            text = wheel.read(f"{info}/licenses/bundled/{package}.txt").decode()
            assert "opyright" in text
            for name in re.findall(r"/usr/share/common-licenses/([A-Z]+-[0-9.]*[0-9])", text):
                assert f"bundled/common-licenses/{name}.txt" in files, (package, name)
        # Libraries of the page, if the build has them.
        for package in os.listdir(os.path.join(SOURCE, "build/licences")):
            assert f"bundled/{package}.txt" in files
        for line in wheel.read(info + "/RECORD").decode().splitlines():
            name, digest, size = line.rsplit(",", 2)
            if digest:
                data = wheel.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                assert (digest, size) == ("sha256=" + found.decode(), str(len(data)))


def test_the_archive_of_sources_has_what_building_needs_and_no_more():
    path = glob.glob(os.path.join(SOURCE, "build/wheel/gallop-*.tar.gz"))[0]
    with tarfile.open(path) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    assert {n.partition("/")[0] for n in names} == {
        "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE",
        "Makefile", "PKG-INFO", "README.md", "SECURITY.md", "cmake", "include", "models",
        "pyproject.toml", "python", "src", ".gitignore"}
    assert {"include/gallop.h", "models/demo/model.safetensors", "python/native/runner.c",
            "python/gallop/py.typed", "src/engine/gallop.c"} <= names
    assert os.path.getsize(path) < 8 << 20


def test_every_distribution_has_the_licence():
    with open(os.path.join(SOURCE, "LICENSE"), "rb") as f:
        text = f.read()
    folders = glob.glob(os.path.join(SOURCE, "python/*/pyproject.toml"))
    assert len(folders) == 3
    for path in folders:
        with open(os.path.join(os.path.dirname(path), "LICENSE"), "rb") as f:
            assert f.read() == text
        with open(path) as f:
            settings = f.read()
        assert 'license = "Apache-2.0"' in settings and 'license-files = ["LICENSE"]' in settings


def test_structs_of_the_header_are_known_to_the_last_member():
    assert {"speculation", "n_warnings"} <= {n for n, _ in ffi.typeof("struct gallop_event").fields}
