#!/usr/bin/env python3
"""test_hub.py - models named on a hub, with a hub on this machine (hubserver.py): the cache that
a download leaves, resumed and broken downloads, refusals, hostile lists, two processes, offline
mode. Standard library only; GALLOP_BIN names the program."""
import concurrent.futures
import hashlib
import json
import os
import pty
import resource
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hubserver import World, git_sha1  # noqa: E402

GALLOP = os.path.abspath(os.environ.get("GALLOP_BIN", "build/gallop"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "models", "demo")
PROMPT = "Once upon a time"
faults, count = [], 0
lock = threading.Lock()
world = World()


def check(good, what, *details):
    global count
    with lock:
        count += 1
        if not good:
            faults.append(what)
            print("  x", what, *details)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def demo():
    return {x: read(os.path.join(DEMO, x)) for x in os.listdir(DEMO)}


class Home:
    """A user's machine: a folder for HF_HOME, in which the program runs."""

    def __init__(self, folder, **env):
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()
                    and not k.startswith(("HF_", "GALLOP_", "HUGGING", "TRANSFORMERS_", "XDG_",
                                          "SSL_CERT", "CURL_CA"))}
        self.env.update(HF_HOME=folder, HF_ENDPOINT=world.url, HOME=folder, **env)

    def start(self, *args, **env):
        return subprocess.Popen([GALLOP, *args], env={**self.env, **env}, cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def call(self, *args, **env):
        p = self.start(*args, **env)
        out, err = p.communicate(timeout=600)
        return p.returncode, out, err

    def run(self, model, *args, **env):
        return self.call("run", "-m", model, "-n", "4", "--threads", "1", *args, PROMPT, **env)

    def repo(self, name):
        return os.path.join(self.folder, "hub", "models--" + name.replace("/", "--"))

    def files(self):
        return sorted(os.path.relpath(os.path.join(d, x), self.folder) for d, _,
                      fs in os.walk(self.folder) for x in fs)


def expected(*args):
    return subprocess.run([GALLOP, "run", "-m", DEMO, "-n", "4", "--threads", "1", *args, PROMPT],
                          capture_output=True, text=True, timeout=600).stdout


TEXT = expected()


def good(result, what):
    check(result[0] == 0 and result[1] == TEXT and TEXT, what, result)


def bad(result, what, *words):
    check(result[0] == 1 and not result[1], what + ": exit 1 and nothing on stdout", result)
    check(result[2].count("\n") == 1, what + ": one sentence", result[2])
    for word in words:
        check(word in result[2], "%s: the sentence says %r" % (what, word), result[2])


# ---- the cases, each with an empty machine ----

def the_text_is_that_of_the_folder_and_the_cache_is_hugging_faces(home):
    repo = world.add("org/demo", demo(), token="hf_secret")
    repo.refs["v1/old"] = repo.commit
    home.env["HF_TOKEN"] = "hf_secret"
    good(home.run("org/demo@v1/old"), "a tag with a slash")
    folder = home.repo("org/demo")
    check(read(folder + "/refs/v1/old").decode() == repo.commit, "the ref holds the commit")
    snapshot = os.path.join(folder, "snapshots", repo.commit)
    names = {"config.json", "generation_config.json", "special_tokens_map.json", "tokenizer.json",
             "tokenizer_config.json", "model.safetensors"}
    check(set(os.listdir(snapshot)) == names, "the files of a model, no README",
          os.listdir(snapshot))
    for name in names:
        data = read(os.path.join(DEMO, name))
        etag = hashlib.sha256(data).hexdigest() if name == "model.safetensors" else git_sha1(data)
        check(os.readlink(os.path.join(snapshot, name)) == "../../blobs/" + etag,
              "a relative link to the blob: " + name)
        check(read(os.path.join(snapshot, name)) == data, "the bytes of " + name)
        check(os.path.exists(os.path.join(home.folder, "hub", ".locks", "models--org--demo",
                                          etag + ".lock")), "a lock file")
    check(len(os.listdir(folder + "/blobs")) == len(names), "nothing unfinished is left",
          os.listdir(folder + "/blobs"))

    hub, cdn = world.requests("org/demo", "hub"), world.requests("org/demo", "cdn")
    check(hub and all(x[3].get("Authorization") == "Bearer hf_secret" for x in hub),
          "the hub sees the token")
    check(cdn and not any("Authorization" in x[3] for x in cdn), "another port does not", cdn)
    check(len(world.requests("org/demo", method="HEAD", file="model.safetensors")) == 1,
          "one HEAD of the weights")

    before = len(world.requests("org/demo"))
    good(home.run("org/demo", "--revision", "v1/old"), "the second time, with --revision")
    check(len(world.requests("org/demo")) == before + 1, "asks for the list and nothing else")
    good(home.run("org/demo@" + repo.commit), "by commit")
    check(len(world.requests("org/demo")) == before + 1, "a commit that is there needs no hub")
    good(home.run("org/demo@v1/old", HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:1"),
         "offline, the same text")
    bad(home.run("org/demo", HF_HUB_OFFLINE="yes"), "offline, a revision that was never fetched",
        "HF_HUB_OFFLINE", "main")
    bad(home.run("org/demo@a", "--revision", "b"), "two revisions", "one of them")
    result = home.run("org/demo@v1/old", HF_ENDPOINT="http://127.0.0.1:1")
    good(result, "a hub that cannot be reached: the cache serves")
    check("copy in the cache" in result[2], "and says so", result[2])
    os.unlink(os.path.join(snapshot, "model.safetensors"))
    bad(home.run("org/demo@v1/old", HF_HUB_OFFLINE="1"), "offline with a part of it",
        "HF_HUB_OFFLINE", "lacks", "weights")
    good(home.run("org/demo@v1/old"), "a lost link comes back")
    check(len(world.requests("org/demo", "cdn")) == len(cdn), "from the blob that is there")


def a_cut_connection_goes_on_where_it_ended(home):
    world.add("org/cut", demo(), cut={"model.safetensors": [1500000, 2500000, 4000000]})
    good(home.run("org/cut"), "three cuts")
    asked = [x[3].get("Range") for x in world.requests("org/cut", "cdn", "GET")]
    check(asked == [None, "bytes=1500000-", "bytes=2500000-", "bytes=4000000-"], "resumed by Range",
          asked)


def a_killed_download_is_resumed_by_the_next_run(home):
    repo = world.add("org/kill", demo(), stall={"model.safetensors": [2000000]})
    p = home.start("run", "-m", "org/kill", "-n", "4", PROMPT)
    blobs = home.repo("org/kill") + "/blobs"
    # A small file gets its final name between the check of the folder and the check of its size.
    part = os.path.join(blobs, repo.hash("model.safetensors") + ".incomplete")
    end = time.monotonic() + 300
    while time.monotonic() < end and not (os.path.isfile(part)
                                          and os.path.getsize(part) == 2000000):
        time.sleep(0.02)
    p.send_signal(signal.SIGKILL)
    p.communicate()
    good(home.run("org/kill"), "after a kill")
    asked = [x[3].get("Range") for x in world.requests("org/kill", "cdn", "GET")]
    check(asked == [None, "bytes=2000000-"], "what was there is kept", asked)


def a_part_of_another_file_is_thrown_away(home):
    repo = world.add("org/other", demo())
    blobs = home.repo("org/other") + "/blobs"
    os.makedirs(blobs)
    with open(os.path.join(blobs, repo.hash("model.safetensors") + ".incomplete"), "wb") as f:
        f.write(b"x" * 1000)
    good(home.run("org/other"), "a wrong beginning")
    repo.ignore_range = True
    home2 = Home(os.path.join(home.folder, "two"))
    blobs = home2.repo("org/other") + "/blobs"
    os.makedirs(blobs)
    with open(os.path.join(blobs, repo.hash("model.safetensors") + ".incomplete"), "wb") as f:
        f.write(repo.files["model.safetensors"][:1000])
    good(home2.run("org/other"), "a server that knows no Range")


def wrong_bytes_are_refused(home):
    world.add("org/wrong", demo(), wrong={"model.safetensors"})
    bad(home.run("org/wrong"), "a wrong hash", "org/wrong", "hash", "model.safetensors"[:0])
    check(not [x for x in home.files() if "incomplete" in x], "nothing unfinished is left")
    check(not os.path.lexists(os.path.join(home.repo("org/wrong"), "refs", "main")),
          "no ref to half a model")
    world.add("org/wrongtext", demo(), wrong={"config.json"})
    bad(home.run("org/wrongtext"), "a wrong hash of a small file", "org/wrongtext", "hash")
    world.add("org/stray", demo(), claims="f" * 40)
    bad(home.run("org/stray"), "a file of another commit", "config.json", "f" * 40)
    repo = world.add("org/odd", demo(), etag={"config.json": "not-a-hash"})
    result = home.run("org/odd")
    check(result[0] == 0 and "not verified" in result[2],
          "an ETag that is no hash is used with a warning", result)
    repo = world.add("org/evil", demo(), etag={"config.json": "../../../evil"})
    bad(home.run("org/evil"), "an ETag that is a path", "config.json", "hash")
    check(repo and not [x for x in home.files() if "evil" in os.path.basename(x)],
          "and leads nowhere")


def refusals_are_explained(home):
    repo = world.add("org/private", demo(), token="hf_right")
    bad(home.run("org/private"), "401", "org/private", "401", "HF_TOKEN")
    bad(home.run("org/private", HF_TOKEN="hf_false"), "a false token", "401", "HF_TOKEN is wrong")
    with open(os.path.join(home.folder, "token"), "w") as f:
        f.write("hf_right\n")
    good(home.run("org/private"), "the token in HF_HOME/token")
    os.unlink(os.path.join(home.folder, "token"))
    repo.gated = True
    home2 = Home(os.path.join(home.folder, "two"))
    os.makedirs(home2.folder)
    bad(home2.run("org/private"), "gated", "gated", "accept its terms", "HF_TOKEN")
    bad(home2.run("org/private", HF_TOKEN="hf_false"), "gated with a token", "gated", "403",
        "no access")
    bad(home2.run("org/private", HF_TOKEN="a b"), "a token that is none", "HF_TOKEN", "token")
    check("hf_false" not in home2.run("org/private", HF_TOKEN="hf_false")[2],
          "a token is never printed")
    bad(home.run("org/nothing"), "no such repository", "org/nothing", "404", "no such repository")
    bad(home.run("org/private@v9", HF_TOKEN="hf_right"), "no such revision", "revision v9", "404")
    bad(home.run("org/demo", HF_ENDPOINT="http://127.0.0.1:1"), "no network", "org/demo",
        "127.0.0.1")
    for name in ("org/nothing", "models/dmeo"):
        bad(home.run(name), "a name that is neither", "404", f"(and there is no folder {name} here)\n")
    bad(home.run("modles/demo", HF_ENDPOINT="http://127.0.0.1:1"), "neither, and no network",
        "(and there is no folder modles/demo here)\n")
    check("no folder" not in home.run("hf.co/org/nothing")[2], "an address is no path")
    bad(home.run("org/demo", HF_ENDPOINT="ftp://x"), "an endpoint that is none", "HF_ENDPOINT")
    world.add("org/missing", demo(), listed=sorted(demo()) + ["vocab.json"])
    bad(home.run("org/missing"), "a file that is listed and not there", "vocab.json", "404")
    os.makedirs(os.path.join(home.folder, "models"))
    bad(home.run("models/typo"), "a mistyped path", "models/typo: the folder models exists",
        "use hf.co/models/typo")
    check(not world.requests("models/typo"), "a mistyped path asks no hub")
    bad(home.run("hf.co/models/typo"), "what hf.co/ names is asked of the hub", "models/typo",
        "404")
    os.makedirs(os.path.join(home.folder, "org"), exist_ok=True)
    world.add("org/address", demo())
    for name in ("hf.co/org/address", "https://huggingface.co/org/address",
                 "http://hf.co/org/address/", "huggingface.co/org/address/tree/main",
                 "org/address"):
        good(home.run(name), f"{name} beside a folder of the name org")
    os.rmdir(os.path.join(home.folder, "org"))


def a_slow_server_is_given_up_and_asked_again(home):
    world.add("org/slow", demo(), stall={"model.safetensors": [3000000]})
    good(home.run("org/slow", HF_HUB_DOWNLOAD_TIMEOUT="1"), "one stall")
    asked = [x[3].get("Range") for x in world.requests("org/slow", "cdn", "GET")]
    check(asked == [None, "bytes=3000000-"], "the rest is asked for", asked)


def a_server_that_never_sends_is_an_error(home):
    world.add("org/dead", demo(), stall={"model.safetensors": [10] * 9})
    bad(home.run("org/dead", HF_HUB_DOWNLOAD_TIMEOUT="1"), "a dead server",
        "less than 1024 bytes a second")
    check(len(world.requests("org/dead", "cdn", "GET")) == 4, "four tries")


def a_busy_hub_is_asked_again(home):
    world.add("org/busy", demo(), busy=2)
    good(home.run("org/busy"), "503 twice")
    world.add("org/busier", demo(), busy=99)
    bad(home.run("org/busier"), "503 for ever", "503")


def two_processes_download_once(home):
    world.add("org/two", demo(), delay=1.0)
    both = [home.start("run", "-m", "org/two", "-n", "4", "--threads", "1", PROMPT)
            for _ in range(2)]
    for p in both:
        out, err = p.communicate(timeout=600)
        check(p.returncode == 0 and out == TEXT, "each of two processes", err)
    check(len(world.requests("org/two", "cdn", "GET")) == 1, "one download of the weights")


def an_unknown_architecture_costs_no_weights(home):
    files = demo()
    config = json.loads(files["config.json"])
    config["architectures"] = ["MambaForCausalLM"]
    files["config.json"] = json.dumps(config).encode()
    world.add("org/mamba", files)
    bad(home.run("org/mamba"), "an unknown architecture", "org/mamba", "MambaForCausalLM",
        "not supported")
    check(not world.requests("org/mamba", file="model.safetensors"),
          "its weights are not asked for")
    check(not world.requests("org/mamba", file="tokenizer.json"), "nor its tokenizer")


def hostile_names_stay_outside(home):
    evil = ["../x", "../../../../evil.json", "/etc/evil", "a\\..\\evil", "..", ".", "", "C:evil",
            "x/../../evil.tiktoken", "evil\n.tiktoken", "evil\0.tiktoken", "..\\evil.tiktoken",
            "~/evil.tiktoken", ".tiktoken", "a" * 300 + ".tiktoken"]
    world.add("org/hostile", demo(),
              listed=sorted(demo()) + evil + ["sub/tokenizer.json", ".gitattributes"])
    before = set(os.listdir(os.path.dirname(home.folder)))
    result = home.run("org/hostile")
    good(result, "hostile names beside good ones")
    check("ignored 13 file names" in result[2], "they are reported", result[2])
    check(set(os.listdir(os.path.dirname(home.folder))) == before, "nothing outside")
    check(not [x for x in home.files() if "evil" in x or "tiktoken" in x], "nothing inside either",
          home.files())
    check(not [x for x in world.requests("org/hostile") if "evil" in x[2] or "sub" in x[2]],
          "nothing was asked for")


def split_safetensors(data, n_parts):
    """Distributes the tensors of a file over several files, and writes their index."""
    (n,) = struct.unpack("<Q", data[:8])
    head, body = json.loads(data[8:8 + n]), data[8 + n:]
    head.pop("__metadata__", None)
    files, where = {}, {}
    for part in range(n_parts):
        name, at, mine, blob = "model-%05d-of-%05d.safetensors" % (part + 1, n_parts), 0, {}, b""
        for key in sorted(head)[part::n_parts]:
            begin, end = head[key]["data_offsets"]
            mine[key] = dict(head[key], data_offsets=[at, at + end - begin])
            blob, at, where[key] = blob + body[begin:end], at + end - begin, name
        text = json.dumps(mine).encode()
        text += b" " * (-len(text) % 8)
        files[name] = struct.pack("<Q", len(text)) + text + blob
    files["model.safetensors.index.json"] = json.dumps({"metadata": {},
                                                        "weight_map": where}).encode()
    return files


def shards_are_fetched_by_their_index(home):
    files = demo()
    files.update(split_safetensors(files.pop("model.safetensors"), 3))
    files["pytorch_model.bin"] = b"never"
    files["model-00009-of-00009.safetensors"] = b"no part of the index"
    world.add("org/shards", files)
    good(home.run("org/shards"), "three shards")
    check(not world.requests("org/shards", file="pytorch_model.bin"), "no .bin beside safetensors")
    check(not world.requests("org/shards", file="model-00009-of-00009.safetensors"),
          "no file that no tensor is in")
    good(home.run("org/shards", HF_HUB_OFFLINE="1"), "three shards offline")
    snapshot = os.path.join(home.repo("org/shards"), "snapshots", world.repos["org/shards"].commit)
    os.unlink(snapshot + "/model-00002-of-00003.safetensors")
    bad(home.run("org/shards", HF_HUB_OFFLINE="1"), "two shards offline",
        "model-00002-of-00003.safetensors")
    files["model.safetensors.index.json"] = b'{"weight_map": {"a": "../../../x"}}'
    world.add("org/badindex", files)
    bad(home.run("org/badindex"), "an index that leads out", "model.safetensors.index.json",
        "../../../x")
    del files["model.safetensors.index.json"], files["pytorch_model.bin"]
    world.add("org/noweights", files)
    bad(home.run("org/noweights"), "no weights", "org/noweights", "model.safetensors")


def a_full_disk_is_seen_before_the_first_byte(home):
    world.add("org/huge", demo(), size={"model.safetensors": 1 << 60})
    bad(home.run("org/huge"), "a file of 2^60 bytes", "too little space", str(1 << 60))
    check(not world.requests("org/huge", "cdn"), "its bytes are not asked for")

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000000, 3000000))

    world.add("org/full", demo())
    p = subprocess.run([GALLOP, "run", "-m", "org/full", PROMPT], env=home.env, cwd=home.folder,
                       capture_output=True, text=True, timeout=600, preexec_fn=small_files,
                       restore_signals=False)
    bad((p.returncode, p.stdout, p.stderr), "a write that fails", "org/full",
        ".incomplete: cannot write")
    good(home.run("org/full"), "with room again")
    check(world.requests("org/full", "cdn", "GET")[1][3].get("Range") == "bytes=3000000-",
          "what was written is kept")


def a_text_needs_no_weights(home):
    world.add("org/text", demo())
    ids = subprocess.run([GALLOP, "tokenize", "-m", DEMO, PROMPT], capture_output=True, text=True,
                         timeout=600).stdout
    result = home.call("tokenize", "-m", "org/text", PROMPT)
    check(result[0] == 0 and result[1] == ids and ids, "tokenize by name", result)
    check(not world.requests("org/text", file="model.safetensors"), "fetches no weights")
    bad(home.run("org/text", HF_HUB_OFFLINE="1"), "offline, the weights are missing", "weights")


def a_token_does_not_follow_a_redirect_that_names_no_hash(home):
    files = demo()
    world.add("org/moved", files, token="hf_secret", moved={"config.json", "model.safetensors"})
    good(home.run("org/moved", HF_TOKEN="hf_secret"), "redirects without a hash")
    for file in ("config.json", "model.safetensors"):
        for method in ("HEAD", "GET"):
            asked = world.requests("org/moved", "hub", method, file)
            check([x[3].get("Authorization") for x in asked] == ["Bearer hf_secret"],
                  "%s %s of the hub" % (method, file), asked)
            asked = world.requests("org/moved", "cdn", method, file)
            check([x[3].get("Authorization") for x in asked] == [None],
                  "%s %s of another port: no token" % (method, file), asked)


def additional_chat_templates_are_fetched_and_linked_as_hugging_face_does(home):
    files = demo()
    files["additional_chat_templates/rag.jinja"] = b"rag:{{ messages[0].content }}"
    files["additional_chat_templates/tool_use.jinja"] = b"tool:{{ messages[0].content }}"
    evil = ["additional_chat_templates/../evil.jinja", "additional_chat_templates/a/evil.jinja",
            "evil/additional_chat_templates/x.jinja", "additional_chat_templates/.evil.jinja",
            "additional_chat_templates/evil.json", "additional_chat_templates//evil.jinja",
            "additional_chat_templates/", "additional_chat_templates/a\\evil.jinja",
            "additional_chat_templates/.jinja"]
    repo = world.add("org/extra", files, listed=sorted(files) + evil)
    with open(os.path.join(home.folder, "m.json"), "w") as f:
        json.dump({"messages": [{"role": "user", "content": "hi"}],
                   "tools": [{"type": "function", "function": {"name": "f"}}]}, f)
    for offline in ("0", "1"):
        result = home.call("render", "-m", "org/extra", "--messages", "m.json",
                           HF_HUB_OFFLINE=offline)
        check(result[0] == 0 and result[1] == "tool:hi",
              "the template for tools, offline: " + offline, result)
    snapshot = os.path.join(home.repo("org/extra"), "snapshots", repo.commit)
    check(sorted(os.listdir(snapshot + "/additional_chat_templates"))
          == ["rag.jinja", "tool_use.jinja"], "its files",
          os.listdir(snapshot + "/additional_chat_templates"))
    for name in ("rag", "tool_use"):
        path = "additional_chat_templates/%s.jinja" % name
        check(os.readlink(os.path.join(snapshot, path)) == "../../../blobs/"
              + git_sha1(files[path]), "the link " + path)
    check(not [x for x in home.files() if "evil" in x], "nothing else", home.files())
    check(not [x for x in world.requests("org/extra") if "evil" in x[2]], "nor was it asked for")
    before = len(world.requests("org/extra"))
    home.call("render", "-m", "org/extra", "--messages", "m.json")
    check(len(world.requests("org/extra")) == before + 1,
          "the second time only the list is asked for", world.requests("org/extra")[before:])


def gguf(name):
    return read(os.path.join(ROOT, "test", "data", "gguf", name + ".gguf"))


def a_gguf_file_is_named_behind_a_colon(home):
    files = {"README.md": b"x", "Tiny-Q8_0.gguf": gguf("qwen3"),
             "Tiny-Q4_K_M.gguf": gguf("llama3-rope"), "mmproj-F16.gguf": b"x",
             "Tiny-UD-Q4_K_M.gguf": b"x", "sub/Tiny-BF16.gguf": b"x", "imatrix.gguf": b"x"}
    repo = world.add("org/gguf", files)
    repo.refs["v1"] = repo.commit
    all_files = "Tiny-Q4_K_M.gguf, Tiny-Q8_0.gguf, Tiny-UD-Q4_K_M.gguf, sub/Tiny-BF16.gguf"
    bad(home.run("org/gguf"), "no file named",
        "org/gguf: the repository holds no config.json; it holds GGUF files, of which one is "
        "requested by a name like org/gguf:Tiny-Q4_K_M.gguf: " + all_files + "\n")
    bad(home.call("tokenize", "-m", "org/gguf", "x"), "a text without a file named",
        "org/gguf:Tiny-Q4_K_M.gguf")
    bad(home.run("org/gguf:Tiny-Q3.gguf"), "a file that is not there",
        "there is no GGUF file Tiny-Q3.gguf; there are " + all_files)
    bad(home.run("org/gguf:Q4_K_M"), "two of that kind",
        '"Q4_K_M" matches Tiny-Q4_K_M.gguf and Tiny-UD-Q4_K_M.gguf')
    check(not [x for x in world.requests("org/gguf") if "resolve" in x[2]],
          "no file was asked for so far")

    ids = ("-n", "4", "--ids", "5,6,7")
    want = subprocess.run([GALLOP, "run", "-m", os.path.join(ROOT, "test/data/gguf/qwen3.gguf"),
                           "--json", *ids], capture_output=True, text=True)
    want = json.loads(want.stdout)["output_ids"]
    for model in ("org/gguf:Tiny-Q8_0.gguf", "org/gguf@v1:Tiny-Q8_0.gguf", "org/gguf:q8_0",
                  "org/gguf:Q8_0"):
        for offline in ("0", "1"):
            result = home.call("run", "-m", model, "--json", *ids, HF_HUB_OFFLINE=offline)
            check(result[0] == 0 and json.loads(result[1])["output_ids"] == want,
                  model + ", offline: " + offline, result)
    check(len(world.requests("org/gguf", "cdn", "GET")) == 1, "one download")
    link = os.path.join(home.repo("org/gguf"), "snapshots", repo.commit, "Tiny-Q8_0.gguf")
    check(os.readlink(link) == "../../blobs/" + hashlib.sha256(files["Tiny-Q8_0.gguf"]).hexdigest(),
          "its link")
    bad(home.run("org/gguf:Tiny-Q4_K_M.gguf", HF_HUB_OFFLINE="1"), "another, offline",
        "HF_HUB_OFFLINE", "no GGUF file Tiny-Q4_K_M.gguf", "there are Tiny-Q8_0.gguf")
    bad(home.run("org/demo:x/../y.gguf"), "a file that is a path", "org/demo:x/../y.gguf")

    world.add("org/both", {"config.json": demo()["config.json"], "a.gguf": b"x"})
    bad(home.run("org/both"), "a config and GGUF files",
        "org/both: the repository holds neither model.safetensors", "org/both:a.gguf")
    world.add("org/plain", {"config.json": demo()["config.json"]})
    bad(home.run("org/plain:Q4_0"), "no GGUF files at all",
        "org/plain: there is no file Q4_0, nor any GGUF file")


def a_gguf_file_in_a_folder_is_named(home):
    parts = {"BF 16/y-BF16-%05d-of-00002.gguf" % i: b"part %d" % i for i in (1, 2)}
    repo = world.add("org/folders", {"Q8_0/tiny.gguf": gguf("qwen3"), "a-Q4_0.gguf": b"x",
                                     "a/b/c-Q2_K.gguf": b"x", **parts})
    ids = ("-n", "4", "--ids", "5,6,7")
    want = subprocess.run([GALLOP, "run", "-m", os.path.join(ROOT, "test/data/gguf/qwen3.gguf"),
                           "--json", *ids], capture_output=True, text=True)
    want = json.loads(want.stdout)["output_ids"]
    for model in ("org/folders:Q8_0", "org/folders:Q8_0/tiny.gguf", "org/folders:tiny.gguf",
                  "hf.co/org/folders/blob/main/Q8_0/tiny.gguf"):
        for offline in ("0", "1"):
            result = home.call("run", "-m", model, "--json", *ids, HF_HUB_OFFLINE=offline)
            check(result[0] == 0 and json.loads(result[1])["output_ids"] == want,
                  model + ", offline: " + offline, result)
    link = os.path.join(home.repo("org/folders"), "snapshots", repo.commit, "Q8_0", "tiny.gguf")
    check(os.readlink(link) == "../../../blobs/" + hashlib.sha256(gguf("qwen3")).hexdigest(),
          "its link")
    bad(home.run("org/folders:BF16"), "two files in a folder are fetched, and opened",
        "BF 16/y-BF16-00001-of-00002.gguf")
    got = sorted(x[2].split("?")[0].split("/")[-1]
                 for x in world.requests("org/folders", "cdn", "GET"))
    check(got == ["tiny.gguf", "y-BF16-00001-of-00002.gguf", "y-BF16-00002-of-00002.gguf"],
          "each once", got)
    bad(home.run("org/folders:Q2_K"), "two folders deep", "there is no GGUF file Q2_K; there are "
        "BF 16/y-BF16-00001-of-00002.gguf, Q8_0/tiny.gguf, a-Q4_0.gguf")
    bad(home.run("org/folders/Q8_0/tiny.gguf"), "a path", "org/name:FILE.gguf")


def addresses_of_the_hub_s_pages_are_names(home):
    repo = world.add("org/pages", {"Tiny-Q8_0.gguf": gguf("qwen3"), "Other-Q8_0.gguf": gguf(
        "llama3-rope"), "sub/z.gguf": b"x", "x.gguf": b"x"})
    repo.refs["v1"] = repo.commit
    texts = world.add("org/texts", demo())
    texts.refs["v1"] = texts.commit
    ids = ("-n", "4", "--json", "--ids", "5,6,7")
    want = {x: json.loads(subprocess.run(
        [GALLOP, "run", "-m", os.path.join(ROOT, "test/data/gguf", x + ".gguf"), *ids],
        capture_output=True).stdout)["output_ids"] for x in ("qwen3", "llama3-rope")}
    for address, is_what in (
            ("https://huggingface.co/org/pages/blob/main/Tiny-Q8_0.gguf", "qwen3"),
            ("https://huggingface.co/org/pages/resolve/v1/Tiny-Q8_0.gguf?download=true", "qwen3"),
            ("https://huggingface.co/org/pages/resolve/main/Other-Q8_0.gguf#L1", "llama3-rope"),
            ("http://HuggingFace.co/org/pages/blob/" + repo.commit + "/Tiny-Q8_0.gguf", "qwen3"),
            ("hf.co/org/pages/blob/main/Tiny-Q8_0.gguf", "qwen3"),
            ("https://hf.co/org/pages:Tiny-Q8_0.gguf", "qwen3")):
        result = home.call("run", "-m", address, *ids)
        check(result[0] == 0 and json.loads(result[1])["output_ids"] == want[is_what], address,
              result)
    asked = {x[2].split("?")[0].split("/resolve/")[1] for x in world.requests("org/pages", "hub")
             if "/resolve/" in x[2]}
    check(not any(x.endswith("/x.gguf") for x in asked),
          "only the file of the address is asked for", asked)
    check({x[2].split("/revision/")[1].split("?")[0] for x in world.requests("org/pages")
           if "/revision/" in x[2]} >= {"main", "v1"}, "the revision of the address")
    for address in ("https://huggingface.co/org/texts", "huggingface.co/org/texts/",
                    "https://huggingface.co/org/texts/tree/v1", "hf.co/org/texts@v1"):
        good(home.run(address), address)
    for address, sentence in (("https://huggingface.co/org/pages/blob/main/None.gguf",
                               "there is no GGUF file None.gguf"),
                              ("https://huggingface.co/org/pages/blob/no/Tiny-Q8_0.gguf", "no"),
                              ("https://huggingface.co/org/pages/blob/main/sub/y/z.gguf",
                               "blob/main/sub/y/z.gguf"),
                              ("https://example.com/org/pages", "there is no such folder")):
        bad(home.run(address), address, sentence)


def a_gguf_of_several_files_is_fetched_whole(home):
    parts = {"x-Q8_0-%05d-of-00003.gguf" % i: b"part %d" % i for i in (1, 2, 3)}
    world.add("org/split", {**parts, "y-Q4_0-00001-of-00002.gguf": b"x"})
    bad(home.run("org/split"), "the first files alone are named",
        "split:x-Q8_0-00001-of-00003.gguf: x-Q8_0-00001-of-00003.gguf, y-Q4_0-00001-of-00002.gguf\n")
    for name in ("Q8_0", "x-Q8_0-00001-of-00003.gguf"):
        result = home.run("org/split:" + name)
        check(result[0] == 1 and "x-Q8_0-00001-of-00003.gguf" in result[2], "what came is opened",
              result)
    got = sorted(x[2].split("?")[0].split("/")[-1]
                 for x in world.requests("org/split", "cdn", "GET"))
    check(got == sorted(parts), "three files, each once", got)
    bad(home.run("org/split:Q4_0"), "a file is missing", "y-Q4_0-00001-of-00002.gguf has 2 files",
        "does not hold y-Q4_0-00002-of-00002.gguf")
    for folder in os.listdir(home.repo("org/split") + "/snapshots"):
        os.unlink(os.path.join(home.repo("org/split"), "snapshots", folder,
                               "x-Q8_0-00002-of-00003.gguf"))
    bad(home.run("org/split:Q8_0", HF_HUB_OFFLINE="1"), "a file is missing offline",
        "lacks x-Q8_0-00002-of-00003.gguf")


def a_folder_of_that_name_wins(home):
    world.add("org/local", demo())
    shutil.copytree(DEMO, os.path.join(home.folder, "org", "local"))
    good(home.run("org/local"), "a local folder")
    check(not world.requests("org/local"), "asks nobody")
    bad(home.run("org/local", "--revision", "main"), "a revision of a folder", "org/local",
        "revision main")


def a_lock_that_is_held_is_waited_for(home):
    repo = world.add("org/held", demo())
    folder = os.path.join(home.folder, "hub", ".locks", "models--org--held")
    os.makedirs(folder)
    import fcntl
    with open(os.path.join(folder, repo.hash("config.json") + ".lock"), "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        p = home.start("run", "-m", "org/held", "-n", "4", "--threads", "1", PROMPT)
        said = os.read(p.stderr.fileno(), 4096)  # It comes after two seconds of waiting.
        check(b"waiting for another process" in said, "says that it waits", said)
        check(p.poll() is None and not world.requests("org/held", "hub", "GET", "config.json"),
              "waits")
    out, err = p.communicate(timeout=600)
    check(p.returncode == 0 and out == TEXT, "and goes on", err)


def a_bar_is_shown_on_a_terminal_only(home):
    world.add("org/bar", demo(), delay=1.6)
    ours, theirs = pty.openpty()
    p = subprocess.Popen([GALLOP, "run", "-m", "org/bar", "-n", "4", PROMPT], env=home.env,
                         stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    out, seen = p.communicate(timeout=600)[0], b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:
        pass  # the terminal's end
    check(p.returncode == 0 and out.decode() == TEXT, "stdout is the text alone")
    check(b"fetching model.safetensors, MB [" in seen and seen.endswith(b"\r\x1b[K"),
          "a bar, wiped at the end", seen)
    shutil.rmtree(os.path.join(home.folder, "hub"))
    result = home.run("org/bar")
    check(result[0] == 0 and result[2] == "", "no bar into a pipe", result)


def the_library_fetches_too_and_prints_nothing(home):
    example = os.path.join(os.path.dirname(GALLOP), "examples", "example_basic")
    if not os.path.exists(example):
        return
    world.add("org/library", demo())
    said = subprocess.run([example, DEMO], capture_output=True, text=True, timeout=600,
                          env=home.env)
    p = subprocess.run([example, "org/library"], capture_output=True, text=True, timeout=600,
                       env=home.env)
    check(p.returncode == 0 and p.stdout == said.stdout and p.stdout and not p.stderr,
          "gallop_open() by name", p)
    p = subprocess.run([example, "org/library@v7"], capture_output=True, text=True, timeout=600,
                       env=home.env)
    check(p.returncode == 1 and "revision v7" in p.stderr, "and its sentence", p)


def https_is_proved_and_never_left(home):
    key, cert = os.path.join(home.folder, "key.pem"), os.path.join(home.folder, "cert.pem")
    if not shutil.which("openssl"):
        return
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with World(context) as other:
        other.add("org/tls", demo())
        bad(home.run("org/tls", HF_ENDPOINT=other.url), "a certificate nobody vouches for",
            "org/tls", "certificate")
        bad(home.run("org/tls", HF_ENDPOINT=other.url, SSL_CERT_FILE=cert),
            "a redirect from https to http", "redirects from https")
        check(not other.requests("org/tls", "cdn"), "which is not followed")
        check(other.requests("org/tls", "hub", "GET", "config.json"), "what came before did come")


CASES = [x for x in list(globals().values()) if callable(x)
         and getattr(x, "__module__", "") == "__main__" and getattr(x, "__code__", None)
         and x.__code__.co_varnames[:x.__code__.co_argcount] == ("home",)]


def run_case(case, folder):
    start = time.time()
    try:
        os.makedirs(folder)
        case(Home(folder))
    except Exception as e:  # A case that raises is a fault, and the others continue.
        check(False, "%s: %r" % (case.__name__, e))
    return "%5.1f s  %s" % (time.time() - start, case.__name__)


def main():
    chosen = [x for x in CASES if not sys.argv[1:] or x.__name__ in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as top, world, concurrent.futures.ThreadPoolExecutor(
            6) as pool:
        for line in pool.map(lambda x: run_case(x, os.path.join(top, x.__name__[:20], "home")),
                             chosen):
            print(line)
    print("%d checks of %d cases, %d failed" % (count, len(chosen), len(faults)))
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
