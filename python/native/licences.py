#!/usr/bin/env python3
"""Puts the licences of bundled libraries into a wheel that auditwheel repaired.

    licences.py WHEEL FOLDER

The copyright files of the Debian packages whose libraries auditwheel has copied, those of FOLDER, and
the texts of the licences that they refer to become files of *.dist-info/licenses.
"""
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

DOC, COMMON = "/usr/share/doc", "/usr/share/common-licenses"


def packages(wheel):
    """Returns the Debian packages whose libraries are in the wheel. auditwheel has put a hash into the
    name of each: libevent_core-2-62ef2b91.1.so.7.0.1 is libevent_core-2.1.so.7.0.1."""
    names = [n.partition("/")[2] for n in wheel.namelist() if re.match(r"[^/]+\.libs/.", n)]
    names = [re.sub(r"-[0-9a-f]{8}(?=\.)", "", n, count=1) for n in names]
    if not names:
        return []
    said = subprocess.run(["dpkg", "-S", *[f"*/{n}" for n in names]], capture_output=True, text=True)
    owners = {line.rpartition("/")[2]: line.partition(":")[0] for line in said.stdout.splitlines()}
    if set(names) - set(owners):
        sys.exit(f"licences.py: no Debian package has {sorted(set(names) - set(owners))}")
    return sorted({owners[n] for n in names})


def read(path):
    with open(path, "rb") as f:
        return f.read()


def texts(wheel, folder):
    """Returns the files of the folder licenses: contents by name."""
    files = {p + ".txt": read(os.path.join(DOC, p, "copyright")) for p in packages(wheel)}
    files.update({p + ".txt": read(os.path.join(folder, p)) for p in os.listdir(folder)})
    said = b"\n".join(files.values()).decode("utf-8", "replace")
    for name in os.listdir(COMMON):
        if re.search(rf"{COMMON}/{re.escape(name)}(?![-\w])(?!\.[0-9])", said):
            files[f"common-licenses/{name}.txt"] = read(os.path.join(COMMON, name))
    return files


def row(name, data):
    """Returns a line of RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def main(path, folder):
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(path + ".new", "w",
                                                       zipfile.ZIP_DEFLATED) as new:
        record = next(n for n in old.namelist() if n.endswith(".dist-info/RECORD"))
        info = os.path.dirname(record)
        added = {f"{info}/licenses/bundled/{k}": v for k, v in texts(old, folder).items()}
        metadata = old.read(f"{info}/METADATA").decode()
        lines = "".join(f"License-File: {n[len(info) + len('/licenses/'):]}\n" for n in sorted(added))
        assert "License-File: LICENSE" in metadata
        metadata = re.sub(r"(^License-File: .*\n)", lambda m: m[1] + lines, metadata, 1, re.M)
        changed = {f"{info}/METADATA": metadata.encode()}
        rows = [x for x in old.read(record).decode().splitlines(True)
                if x.partition(",")[0] not in changed]
        for item in old.infolist():
            if item.filename != record:
                new.writestr(item, changed.get(item.filename, old.read(item)), item.compress_type)
        for name, data in added.items():
            new.writestr(name, data)
        rows[-1:-1] = [row(k, v) for k, v in {**changed, **added}.items()]
        new.writestr(old.getinfo(record), "".join(rows), zipfile.ZIP_DEFLATED)
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
