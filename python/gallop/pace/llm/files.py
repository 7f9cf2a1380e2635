"""What the Python side reads of a model's folder: configuration and special tokens."""

import json
import os
import pathlib
import shutil
import tempfile

from gallop.pace.llm.configs import loads_tolerant

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".gallop")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "spiece.model")


def hub_folder(name):
    """Returns the folder of the model org/name[@revision] in Hugging Face's cache, or None."""
    name, _, revision = name.partition("@")
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    cache = pathlib.Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"))
    model = cache / ("models--" + name.replace("/", "--"))
    ref = model / "refs" / (revision or "main")
    commit = ref.read_text().strip() if ref.is_file() else revision
    folder = model / "snapshots" / commit if commit else None
    return folder if folder and folder.is_dir() else None


class ModelFiles:
    """The files of a model: a folder, a file (.gguf, .gallop), or a name on a hub."""

    def __init__(self, name):
        self.name = str(name)
        path = pathlib.Path(self.name)
        self.is_file = path.is_file()
        self.folder = (
            path if path.is_dir() else path.parent if self.is_file else hub_folder(self.name)
        )

    def check(self):
        """Raises FileNotFoundError, as PACE does, if a folder lacks a file of a model."""
        if not os.path.isdir(self.name):
            return
        names = os.listdir(self.name)
        if "config.json" not in names:
            raise FileNotFoundError("%s: the folder has no config.json" % self.name)
        if not any(name.endswith(_WEIGHTS) for name in names):
            raise FileNotFoundError("%s: the folder has no weights (model.safetensors)" % self.name)

    def check_tokenizer(self):
        """Raises FileNotFoundError if a folder has no tokenizer."""
        if os.path.isdir(self.name):
            names = os.listdir(self.name)
            if not any(name in names for name in _TOKENIZERS):
                raise FileNotFoundError("%s: the folder has no tokenizer.json" % self.name)

    def path(self, name):
        """Returns the path of file NAME of the folder, or None if there is none."""
        path = self.folder / name if self.folder else None
        return path if path and path.is_file() else None

    def json(self, name):
        """Returns the object in file NAME; {} if there is no such file."""
        path = self.path(name)
        if path is None:
            return {}
        values = loads_tolerant(path.read_text(encoding="utf-8"))
        return values if isinstance(values, dict) else {}

    def config(self):
        """Returns config.json with the members of a nested text_config in front."""
        values = self.json("config.json")
        text = values.get("text_config")
        return {**values, **text} if isinstance(text, dict) else values


def with_config(folder, values):
    """Makes a folder with the files of FOLDER, and VALUES as further members of config.json. The
    caller removes it with cleanup().

    It is made beside FOLDER, where files can be linked; elsewhere they are copied."""
    folder = pathlib.Path(folder).resolve()
    try:
        out = tempfile.TemporaryDirectory(prefix=".gallop", dir=folder.parent)
    except OSError:
        out = tempfile.TemporaryDirectory(prefix="gallop")
    for path in folder.iterdir():
        source, target = path.resolve(), os.path.join(out.name, path.name)
        if path.name == "config.json" or not source.is_file():
            continue
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
    config = loads_tolerant((folder / "config.json").read_text(encoding="utf-8"))
    text = json.dumps({**config, **values})
    pathlib.Path(out.name, "config.json").write_text(text, encoding="utf-8")
    return out


class SpecialTokens:
    """pad_token_id, eos_token_id and vocab_size of a tokenizer, as transformers counts them.

    Where there is no tokenizer.json, ENGINE says them."""

    def __init__(self, files, engine):
        config = files.json("tokenizer_config.json")
        mapped = files.json("special_tokens_map.json")
        tokenizer = files.json("tokenizer.json")
        vocab = tokenizer.get("model", {}).get("vocab", {})
        if isinstance(vocab, list):  # Unigram: [[token, score], ...]
            vocab = {entry[0]: i for i, entry in enumerate(vocab)}
        ids = dict(vocab)
        ids.update({t["content"]: t["id"] for t in tokenizer.get("added_tokens", [])})
        for number, token in (config.get("added_tokens_decoder") or {}).items():
            ids[token["content"]] = int(number)

        def find(role):
            token = config.get(role, mapped.get(role))
            return ids.get(token["content"] if isinstance(token, dict) else token)

        self.pad_token_id = find("pad_token")
        self.eos_token_id = find("eos_token")
        self.bos_token_id = find("bos_token")
        self.vocab_size = len(vocab)
        if not vocab:
            *known, self.vocab_size = engine.special_ids()
            known = [None if token < 0 else token for token in known]
            self.pad_token_id, self.eos_token_id, self.bos_token_id = known


def object_of(values):
    """Returns a dict as an object with attributes, nested ones included."""
    return json.loads(json.dumps(values), object_hook=_Namespace)


class _Namespace:
    """config.json as attributes, where transformers is not installed."""

    def __init__(self, values):
        self.__dict__.update(values)

    def to_dict(self):
        return {k: v.to_dict() if isinstance(v, _Namespace) else v for k, v in vars(self).items()}

    def __repr__(self):
        return "config(%s)" % json.dumps(self.to_dict())
