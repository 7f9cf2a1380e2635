"""Writes the files of the package that follow from gallop.h.

    generate.py source GALLOP_H RUNNER_H OUT    the C source of the extension module gallop._gallop
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
# have another form in Python.
STRUCTS = {
    "gallop_options": ("Options", {"progress_ctx", "download_ctx"}),
    "gallop_sampling": ("Sampling", {"has_seed", "bias_id", "bias", "n_bias"}),
    "gallop_structured_outputs": ("Constraint", set()),
    "gallop_request": ("Request", {"text", "text_len", "suffix_len", "ids", "n_ids", "mask",
                                   "sampling", "user", "structured_outputs", "tool_call_open"}),
}
KINDS = [
    (r"const char \*const \*", "list[str]"), (r"const char \*", "str"), (r"double ", "float"),
    (r"const int32_t \*", "list[int]"), (r"struct gallop \*", "LLM"),
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


def write_names(gallop_h, out):
    with open(gallop_h, encoding="utf-8") as f:
        text = f.read()
    lines = ['"""Options of an engine and parameters of requests, from gallop.h. Written by the build."""',
             "from __future__ import annotations", "", "from typing import Any, Callable, TypedDict", ""]
    comments = {}
    for struct, (name, left_out) in STRUCTS.items():
        rows = documented(text, struct, left_out)
        lines += ["", f"class {name}(TypedDict, total=False):", f'    """Members of struct {struct}."""']
        for member, kind, comment in rows:
            if kind == "bool" and not re.search(r"\b1: |use_beam_search", comment):
                kind = "int"  # A number that is small enough for an int.
            elif kind == "str" and "JSON" in comment:
                kind = "str | dict[str, Any]"
            lines += [f"    {member}: {kind}"]
            comments[member] = comment
        lines += [""]
        lines += [f"{name.upper()} = {{"]
        lines += [f"    {member!r}: {comment!r}," for member, _, comment in rows] + ["}", ""]
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))


if __name__ == "__main__":
    {"source": write_source, "names": write_names}[sys.argv[1]](*sys.argv[2:])
