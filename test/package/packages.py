#!/usr/bin/env python3
"""packages.py - the Debian packages and the image that `make image` has written to build/packages.

In a clean Debian (mmdebstrap) the packages are installed as apt does it, the program and an example
are run from there, and they are removed without leaving a file. Without mmdebstrap or a mirror,
their files are unpacked and used in place. The image is checked against its digests, unpacked, and
its server started in a root of its own. What a machine does not permit is skipped by name.
"""
import glob
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "cli"))
from _cli import check, expect, run_all  # noqa: E402

FOLDER = os.environ.get("GALLOP_PACKAGES", os.path.join(ROOT, "build", "packages"))
DEBS = {os.path.basename(x).split("_")[0]: x for x in glob.glob(os.path.join(FOLDER, "*.deb"))}
INSTALLED = ("gallop", "libgallop0", "libgallop-dev", "python3-gallop")
VERSION = subprocess.run([os.path.join(ROOT, "deploy", "version")],
                         stdout=subprocess.PIPE).stdout.decode().strip()
SITE = "/usr/lib/python3/dist-packages/"
SCRIPT = ("import gallop, gallop.integrations, gallop.pace.llm, sys\nwith gallop.LLM(*sys.argv[1:]) as llm:\n"
          "    print(gallop.__version__, llm.generate('Once upon a time', max_new_tokens=8).text)")
# What a program of the user needs, beside libgallop-dev.
COMPILER = "gcc,libc6-dev,pkg-config,make"


def _run(*command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=1200,
                          **more)


def _must(what, *command, **more):
    """Runs a command that has to succeed. Returns its output."""
    r = _run(*command, **more)
    check(r.returncode == 0, f"{what}: status {r.returncode}: {(r.stderr + r.stdout).decode()[-800:]}")
    return r.stdout.decode()


def _skip(why):
    print(f"  skipped: {why}")


def _enter(root, user=0, env=()):
    """Returns the command that runs a command in ROOT as USER, with the folders that a container
    gets from the kernel. The command becomes the process that is started here."""
    mounts = "for x in dev proc sys; do mkdir -p $0/$x; mount --rbind /$x $0/$x || exit 77; done; "
    return ("env", "-i", *env, "/usr/bin/unshare", "--mount", "/bin/sh", "-c",
            mounts + f'exec /usr/sbin/chroot --userspec={user}:{user} "$0" "$@"', root)


def _can_enter():
    """Whether roots can be entered here."""
    with tempfile.TemporaryDirectory() as root:
        r = _run(*_enter(root), "/no/such/program")
    return os.geteuid() == 0 and r.returncode == 127


def _files(package):
    return [x.split(None, 5)[5].removeprefix(".").split(" -> ")[0]
            for x in _must("dpkg-deb -c", "dpkg-deb", "-c", DEBS[package]).splitlines()]


def packages_have_their_files_and_dependencies():
    expect(sorted(x for x in DEBS if not x.endswith("-dbgsym")), sorted(INSTALLED), "packages")
    field = lambda package, name: _must(name, "dpkg-deb", "-f", DEBS[package], name).strip()
    for package in INSTALLED:
        expect(field(package, "Version"), VERSION + "-1", f"version of {package}")
        docs = f"/usr/share/doc/{package}/"
        check({docs + "copyright", docs + "changelog.Debian.gz"} <= set(_files(package)),
              f"{package} has copyright and changelog")
    multiarch = "/usr/lib/x86_64-linux-gnu/"
    wanted = {
        "gallop": ("/usr/bin/gallop", "/usr/share/man/man1/gallop.1.gz", "/etc/gallop/environment",
                   "/lib/systemd/system/gallop.service", "/lib/systemd/system/gallop.socket",
                   "/usr/share/gallop/models/demo/model.safetensors",
                   "/usr/share/bash-completion/completions/gallop",
                   "/usr/share/zsh/vendor-completions/_gallop",
                   "/usr/share/fish/vendor_completions.d/gallop.fish"),
        "libgallop0": (multiarch + "libgallop.so.0", multiarch + "libgallop.so." + VERSION),
        "libgallop-dev": ("/usr/include/gallop.h", multiarch + "libgallop.so",
                          multiarch + "libgallop.a", multiarch + "pkgconfig/gallop.pc",
                          "/usr/share/gallop/examples/basic.c"),
        "python3-gallop": (SITE + "gallop/_gallop.abi3.so", SITE + "gallop/py.typed",
                           SITE + f"gallop-{VERSION}.dist-info/METADATA", SITE + "gallop/bin/gallop",
                           SITE + "gallop/integrations/langchain.py", SITE + "gallop/pace/llm/model.py",
                           "/usr/share/doc/python3-gallop/examples/basic.py")}
    for name in os.listdir(os.path.join(ROOT, "examples")):
        wanted["libgallop-dev"] += (f"/usr/share/gallop/examples/{name}",) * name.endswith(".c")
    for package, paths in wanted.items():
        expect(sorted(set(paths) - set(_files(package))), [], f"files that {package} lacks")
        stray = [x for x in _files(package) if not x.startswith(("/usr/", "/etc/gallop", "/lib/systemd/"))
                 and x.count("/") > 2]
        expect(stray, [], f"files of {package} in strange places")
        folders = [x for x in _files(package) if x.endswith("/")]
        empty = [x for x in folders if not any(y != x and y.startswith(x) for y in _files(package))]
        expect(empty, [x for x in empty if x.startswith("/var/")], f"empty folders of {package}")
    for library in ("libc6", "libcurl4", "libjansson4", "libevent-core", "libhwloc15", "libpcre2-8-0"):
        for package in ("gallop", "libgallop0"):
            check(library in field(package, "Depends"), f"{package} depends on {library}")
    check(f"libgallop0 (= {VERSION}-1)" in field("libgallop-dev", "Depends"), "the library of the headers")
    with tempfile.TemporaryDirectory() as d:
        _must("dpkg-deb -e", "dpkg-deb", "-e", DEBS["gallop"], d)
        with open(f"{d}/conffiles") as f:
            expect(f.read().split(), ["/etc/gallop/environment"], "configuration files")
        unit = _must("the unit", "sh", "-c",
                     f"dpkg-deb --fsys-tarfile {DEBS['gallop']} | tar xO ./lib/systemd/system/gallop.service")
        check("ExecStart=/usr/bin/gallop serve " in unit and "/usr/local" not in unit, f"the unit: {unit}")


def lintian_finds_nothing():
    if not shutil.which("lintian"):
        return _skip("lintian is not installed")
    user = ["--allow-root"] if os.geteuid() == 0 else []
    debs = [DEBS[x] for x in INSTALLED]
    r = _run("lintian", *user, "--fail-on", "error", "--tag-display-limit", "0", *debs)
    check(r.returncode == 0, f"lintian: {(r.stdout + r.stderr).decode()}")
    # There is no bug report that asks Debian for the package.
    found = [x for x in re.findall(r"^[EW]: .*$", r.stdout.decode(), re.M)
             if "initial-upload-closes-no-bugs" not in x]
    expect(found, [], "errors and warnings of lintian")


def _listing(root):
    """Returns the files of a root below the folders that packages write to."""
    found = {}
    for top in ("etc", "usr", "lib", "var/lib/systemd", "var/cache/gallop"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            for path in (os.path.join(folder, x) for x in names + folders):
                found[os.path.relpath(path, root)] = os.path.islink(path) or not os.path.isdir(path)
    return found


def _clean_root(folder):
    """Makes a small Debian in FOLDER. Returns whether that is possible here."""
    if not shutil.which("mmdebstrap") or not _can_enter():
        return _skip("a clean Debian needs mmdebstrap, root and mounts; the packages are unpacked instead")
    options = [f"--aptopt={x}" for x in sorted(glob.glob("/etc/apt/apt.conf.d/*prox*"))]
    # The lists of packages stay, for apt-get install.
    r = _run("mmdebstrap", "--mode=root", "--variant=apt", "--skip=cleanup",
             "--dpkgopt=force-unsafe-io", f"--include={COMPILER}", *options, "bookworm", folder)
    if r.returncode:
        _skip("mmdebstrap made no Debian; the packages are unpacked instead: "
              + r.stderr.decode()[-200:].replace("\n", " "))
    return r.returncode == 0


def _use(prefix, root):
    """Uses the installed program and library as a user does. PREFIX is the command that enters
    the root."""
    told = _must("gallop run", *prefix, "/usr/bin/gallop", "run", "--greedy", "-n", "8", "Once upon a time")
    check(len(told.split()) > 3, f"gallop run says {told!r}")
    expect(_must("gallop --version", *prefix, "gallop", "--version"), f"gallop {VERSION}\n", "version")
    told = _must("python3 -c", *prefix, "python3", "-c", SCRIPT)
    check(told.startswith(VERSION + " ") and len(told.split()) > 4, f"Python says {told!r}")
    told = _must("an example in Python", *prefix, "python3", "-B",
                 "/usr/share/doc/python3-gallop/examples/basic.py")
    check("legs" in told, f"basic.py says {told!r}")
    told = _must("python3 -m gallop", *prefix, "python3", "-m", "gallop", "--version")
    expect(told, f"gallop {VERSION}\n", "the program of the Python package")
    script = ("set -e; cp -r /usr/share/gallop/examples /tmp/examples; cd /tmp/examples; "
              "gcc -Wall -Wextra -Werror -D_GNU_SOURCE basic.c $(pkg-config --cflags --libs gallop) -o basic; "
              "ldd basic | grep libgallop.so.0; ./basic $(pkg-config --variable=demo gallop); "
              "rm -r /tmp/examples")
    said = _must("an example, compiled and run", *prefix, "sh", "-c", script)
    check("/lib/x86_64-linux-gnu/libgallop.so.0" in said and len(said.split()) > 7,
          f"the library of the example, and its text: {said!r}")


def installed_packages_work_and_leave_nothing():
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "root")
        if not _clean_root(root):
            return
        before = _listing(root)
        enter = _enter(root, env=("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                                  "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"))
        for package in INSTALLED:
            shutil.copy(DEBS[package], os.path.join(root, "tmp", package + ".deb"))
        apt = (*enter, "apt-get", "-q", "-y", "--no-install-recommends")
        needed = [x.split()[1] for x in _must(
            "a plan of apt", *apt, "--simulate", "install", *(f"/tmp/{x}.deb" for x in INSTALLED)
            ).splitlines() if x.startswith("Inst ")]
        check(set(INSTALLED) <= set(needed), f"what apt installs: {needed}")
        if not needed:
            return
        _must("apt-get install", *apt, "install", *(f"/tmp/{x}.deb" for x in INSTALLED))
        _use(enter, root)
        mode = os.stat(os.path.join(root, "etc/gallop/environment")).st_mode & 0o777
        expect(oct(mode), "0o600", "who can read the keys of the server")
        wants = glob.glob(os.path.join(root, "etc/systemd/system/*.wants/gallop*"))
        expect(wants, [], "units that are enabled without being asked for")
        _must("apt-get purge", *apt, "purge", *needed)
        for line in _must("dpkg -l", *enter, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n"
                          ).splitlines():
            check(line.split()[0] not in INSTALLED, f"after the removal dpkg knows {line}")
        left = {x for x in set(_listing(root)) - set(before) if "gallop" in x}
        expect(sorted(left), [], "files that are left")


def unpacked_packages_work():
    with tempfile.TemporaryDirectory() as root:
        for package in INSTALLED:
            _must("dpkg-deb -x", "dpkg-deb", "-x", DEBS[package], root)
        program = os.path.join(root, "usr/bin/gallop")
        check("not found" not in _must("ldd", "ldd", program), "libraries of the program")
        told = _must("gallop run", program, "run", "--greedy", "-n", "8", "Once upon a time", cwd="/")
        check(len(told.split()) > 3, f"gallop run says {told!r}")
        library = os.path.join(root, "usr/lib/x86_64-linux-gnu")
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(library, "pkgconfig"), "LD_LIBRARY_PATH": library}
        flags = _must("pkg-config", "pkg-config", "--cflags", "--libs", "gallop", env=env).split()
        check("rpath" not in " ".join(flags), f"flags for the system's library: {flags}")
        demo = _must("pkg-config", "pkg-config", "--variable=demo", "gallop", env=env).strip()
        _must("cc", "cc", "-D_GNU_SOURCE", os.path.join(root, "usr/share/gallop/examples/basic.c"), *flags,
              "-o", f"{root}/basic", env=env)
        check(_must("basic", f"{root}/basic", demo, env=env).strip(), "the example says something")
        env["PYTHONPATH"] = root + SITE
        told = _must("python3", "/usr/bin/python3", "-B", "-c", SCRIPT, demo, env=env, cwd="/")
        check(told.startswith(VERSION + " ") and len(told.split()) > 4, f"Python says {told!r}")


def _image():
    found = glob.glob(os.path.join(FOLDER, "gallop_*.tar"))
    expect([os.path.basename(x) for x in found], [f"gallop_{VERSION}.tar"], "images")
    with tarfile.open(found[0]) as tar:
        return {x.name: tar.extractfile(x).read() for x in tar if x.isfile()}


def _blob(files, about):
    data = files["blobs/" + about["digest"].replace(":", "/")]
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    expect((len(data), digest), (about["size"], about["digest"]), f"size and digest of {about['mediaType']}")
    return data


def _layers(files):
    index = json.loads(files["index.json"])
    manifest = json.loads(_blob(files, index["manifests"][0]))
    return [gzip.decompress(_blob(files, x)) for x in manifest["layers"]], \
        json.loads(_blob(files, manifest["config"])), manifest


def the_image_is_a_valid_layout():
    files = _image()
    expect(json.loads(files["oci-layout"]), {"imageLayoutVersion": "1.0.0"}, "oci-layout")
    index = json.loads(files["index.json"])
    expect((index["schemaVersion"], len(index["manifests"])), (2, 1), "index")
    layers, config, manifest = _layers(files)
    expect(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json", "manifest")
    expect(manifest["config"]["mediaType"], "application/vnd.oci.image.config.v1+json", "config")
    digests = ["sha256:" + hashlib.sha256(x).hexdigest() for x in layers]
    expect(config["rootfs"], {"type": "layers", "diff_ids": digests}, "layers of the config")
    expect(len(config["history"]), len(layers), "history")
    expect((config["os"], config["architecture"]), ("linux", "amd64"), "platform")
    check(config["config"]["Entrypoint"] == ["gallop"] and config["config"]["User"] == "65532:65532",
          f"entry and user: {config['config']}")
    expect(len(files), 5 + len(layers), "files of the layout")
    old = json.loads(files["manifest.json"])[0]
    check(old["Config"] in files and all(x in files for x in old["Layers"]), "docker's own list")
    for data in layers:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for x in tar:
                check(not x.name.startswith("/") and ".." not in x.name.split("/"), f"path {x.name}")
                check(x.uid in (0, 65532) and not x.mode & 0o6000, f"owner and mode of {x.name}")
    with open(os.path.join(ROOT, "deploy", "Dockerfile")) as f:
        docker = f.read()
    for name in ("Entrypoint", "Cmd"):
        said = json.loads(re.findall(rf"^{name.upper()} (\[.*\])$", docker, re.M)[-1])
        expect(config["config"][name], said, f"{name} of the image and of deploy/Dockerfile")


def the_image_starts():
    if not _can_enter():
        return _skip("starting the image needs root and mounts")
    layers, config, _ = _layers(_image())
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        for data in layers:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                tar.extractall(root, numeric_owner=True)
        about = config["config"]
        enter = lambda *env: _enter(root, about["User"].split(":")[0], (*about["Env"], *env))
        told = _must("gallop run", *enter(), *about["Entrypoint"], "run", "--greedy", "-n", "8", "Once")
        check(len(told.split()) > 2, f"the image says {told!r}")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        server = subprocess.Popen([*enter("GALLOP_API_KEY=key", f"GALLOP_PORT={port}"), *about["Entrypoint"],
                                   *about["Cmd"]], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            _ask(server, port)
            server.send_signal(getattr(signal, about["StopSignal"]))
            said = server.communicate(timeout=120)[1].decode()
            expect(server.returncode, 0, f"status of the server ({said[-500:]})")
            check(all(json.loads(x)["message"] for x in said.splitlines()), "the log is JSON")
        finally:
            server.kill()


def _ask(server, port):
    ask = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions",
                                 json.dumps({"prompt": "Once", "max_tokens": 4}).encode(),
                                 {"Content-Type": "application/json", "Authorization": "Bearer key"})
    for _ in range(600):
        try:
            with urllib.request.urlopen(ask, timeout=120) as r:
                expect(json.loads(r.read())["usage"]["completion_tokens"], 4, "tokens of the server")
            return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.1)
    check(False, f"the server of the image does not answer (status {server.poll()})")


def the_builder_of_containers_gets_all_it_needs():
    with open(os.path.join(ROOT, ".dockerignore")) as f:
        sent = [x[1:] for x in f.read().split() if x.startswith("!")]
    needed = _must("ninja", "ninja", "-C", os.path.join(ROOT, "build", "release"), "-t", "inputs",
                   "gallop_installed").splitlines()
    needed = {os.path.relpath(x, ROOT) for x in needed if x.startswith(ROOT + "/")}
    needed |= {"examples/basic.c", "models/demo/config.json", "CMakeLists.txt", "cmake/install.cmake"}
    lacking = [x for x in needed if not x.startswith("build/")
               and not any(x == y or x.startswith(y + "/") for y in sent)]
    check(len(needed) > 300, f"files that a build reads: {len(needed)}")
    expect(sorted(lacking), [], "files that .dockerignore leaves out and the build needs")


if not DEBS:
    print(f"packages: there are no packages in {FOLDER} (make image)")
    sys.exit(1)
run_all(list(globals().items()))
