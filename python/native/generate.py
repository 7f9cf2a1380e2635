"""Writes the files of the package that follow from gallop.h.

    generate.py source GALLOP_H RUNNER_H OUT    the C source of the extension module gallop._gallop
    generate.py stub GALLOP_H RUNNER_H OUT      gallop/_gallop.pyi: its functions, for type checkers
    generate.py names GALLOP_H OUT              gallop/_names.py: the options and parameters

No declaration of gallop.h is repeated by hand: cffi reads the header itself, without the lines of
the preprocessor, and the names, types and comments of options become annotations and help texts.
"""
import re
import sys

CALLBACKS = """
extern "Python" void gallop_py_progress(void *, size_t, size_t);
extern "Python" int gallop_py_download(void *, const char *, uint64_t, uint64_t);
"""
# The structs whose members are keyword arguments, the classes that name them, and members that
# have another form in Python or no effect on its results.
STRUCTS = {
    "gallop_options": ("Options", {"has_seed", "progress_ctx", "download_ctx"}),
    "gallop_sampling": ("Sampling", {"has_seed", "bias_id", "bias", "n_bias"}),
    "gallop_structured_outputs": ("Constraint", set()),
    "gallop_request": ("Request", {"text", "text_len", "suffix_len", "ids", "n_ids", "mask",
                                   "sampling", "user", "structured_outputs", "tool_call_open",
                                   "pooling", "return_logits", "return_probs",
                                   "return_prompt_logits"}),
}
KINDS = [
    (r"const char \*const \*", "str | Sequence[str]"), (r"const char \*", "str"), (r"double ", "float"),
    (r"const int32_t \*", "int | Sequence[int]"), (r"struct gallop \*", "LLM | None"),
    (r"int ", "bool"), (r"(int64_t|uint64_t|size_t) ", "int"), (r"enum \w+ ", "str"),
]


def declarations(path):
    """Returns the text of a header without preprocessor, GALLOP_API and extern "C"."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
    return text.replace("GALLOP_API ", "")


def write_source(gallop_h, runner_h, out):
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(declarations(gallop_h) + declarations(runner_h) + CALLBACKS)
    ffi.set_source("gallop._gallop", '#include "gallop.h"\n#include "runner.h"\n')
    ffi.emit_c_code(out)


def kind_of(declaration):
    if "(*" in declaration:
        return "Callable[..., Any]"
    return next((kind for pattern, kind in KINDS if re.match(pattern, declaration)), None)


def members(text, struct):
    """Yields name, type and comment of each member of STRUCT."""
    body = re.search(r"^struct %s \{\n(.*?)^\};" % struct, text, flags=re.S | re.M)[1]
    comment = ""
    for m in re.finditer(r"/\*(.*?)\*/|([^;/]+);", body, flags=re.S):
        if m[1] is not None:
            # A comment behind a member belongs to it.
            line = body[:m.start()].rpartition("\n")[2]
            words = " ".join(re.sub(r"^\s*\*? ?", " ", x) for x in m[1].split("\n"))
            words = " ".join(words.split())
            if line.strip():
                yield None, None, words
            else:
                comment = words
            continue
        declaration = " ".join(m[2].split())
        kind = kind_of(declaration)
        if not kind:
            continue
        if kind.startswith("Callable"):
            yield re.search(r"\(\*(\w+)\)", declaration)[1], kind, comment
            continue
        for name in re.findall(r"(\w+)(?:\[\d*\])?(?=,|$)", declaration):
            yield name, kind, comment


def documented(text, struct, left_out):
    rows = []
    for name, kind, comment in members(text, struct):
        if name is None:
            rows[-1][2] = comment
        else:
            rows.append([name, kind, comment])
    return [r for r in rows if r[0] not in left_out and not (
        r[0].startswith("n_") and r[1] == "int" and any(r[0][2:] == x[0] for x in rows))]


# Members whose keyword arguments have another name, and members that are positional arguments.
PYTHON_NAMES = {"json": "json_schema"}
POSITIONAL = {"model"}


def python_kind(member, kind, comment):
    """Returns the type of a keyword argument. None is the default everywhere."""
    if member == "early_stopping":
        kind = "bool | str"
    elif kind == "bool" and not re.search(r"\b1: |use_beam_search", comment):
        kind = "int"  # A number that is small enough for an int.
    elif kind == "str" and re.search(r"JSON (object|Schema)|as JSON", comment):
        kind = "str | Mapping[str, Any]"
    return kind if "None" in kind else kind + " | None"


def write_names(gallop_h, out):
    with open(gallop_h, encoding="utf-8") as f:
        text = f.read()
    lines = ['"""Options of an engine and parameters of requests, from gallop.h. Written by the build."""',
             "from __future__ import annotations", "",
             "from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypedDict", "",
             "if TYPE_CHECKING:", "    from ._llm import LLM", ""]
    for struct, (name, left_out) in STRUCTS.items():
        rows = documented(text, struct, left_out)
        lines += ["", f"class {name}(TypedDict, total=False):", f'    """Members of struct {struct}."""']
        lines += [f"    {PYTHON_NAMES.get(member, member)}: {python_kind(member, kind, comment)}"
                  for member, kind, comment in rows if member not in POSITIONAL]
        lines += [""]
        lines += [f"{name.upper()} = {{"]
        lines += [f"    {member!r}: {comment!r}," for member, _, comment in rows] + ["}", ""]
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))


def write_stub(gallop_h, runner_h, out):
    from cffi import FFI, model

    def kind_of_value(t):
        if isinstance(t, model.VoidType):
            return "None"
        if isinstance(t, model.EnumType):
            return "int"
        if isinstance(t, model.PrimitiveType):
            return "float" if t.name in ("float", "double") else "int"
        return "Any"

    ffi = FFI()
    ffi.cdef(declarations(gallop_h) + declarations(runner_h) + CALLBACKS)
    lines = ['"""The extension module: every function of gallop.h, by cffi. Written by the build."""',
             "from typing import Any", "", "ffi: Any", '"""The cffi.FFI object: new(), string(), buffer(), ..."""',
             "", "class _Lib:"]
    constants = set()
    for key, (t, _) in sorted(ffi._parser._declarations.items()):
        kind, _, name = key.partition(" ")
        if kind == "function":
            rows = ", ".join(f"a{i}: {kind_of_value(x)}" for i, x in enumerate(t.args))
            lines += [f"    def {name}(self{', ' if rows else ''}{rows}{', /' if rows else ''}) -> "
                      f"{kind_of_value(t.result)}: ..."]
        elif kind == "extern_python":
            lines += [f"    {name}: Any"]
        elif isinstance(t, model.EnumType):
            constants.update(t.enumerators)
    lines += [f"    {name}: int" for name in sorted({*constants, *ffi._parser._int_constants})]
    lines += ["", "lib: _Lib", '"""The functions and constants: lib.gallop_open(), lib.GALLOP_OK, ..."""', ""]
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))


if __name__ == "__main__":
    {"source": write_source, "names": write_names, "stub": write_stub}[sys.argv[1]](*sys.argv[2:])
