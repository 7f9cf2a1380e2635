"""pace-server: AMD PACE's server command, which starts `gallop serve`.

PACE runs a router and an engine in two processes; Gallop's server is one process, which listens at
the router's address. Options that only PACE needs are accepted. Options of `gallop serve`, such as
--quant int8 or --api-key KEY, may be added.
"""

import argparse
import json
import os
import re
import shutil
import sys

from gallop import DEMO
from gallop._errors import GallopError
from gallop.pace.llm.attention import AttentionBackendType
from gallop.pace.llm.engine import Engine
from gallop.pace.llm.model import DTYPES
from gallop.pace.ops.enum import BackendType

_OPERATORS = ["%s_backend" % x for x in "norm qkv_projection attention out_projection mlp lm_head".split()]
_SERVE_TYPES = ("iterative", "continuous_prefill_first", "continuous_batch")


class _Unasked(str):
    """A default that the user has not written."""


def parser():
    """Returns the parser of pace-server's options."""
    p = argparse.ArgumentParser(
        prog="pace-server",
        description="Serve a model with the options of AMD PACE's pace-server. Starts gallop serve; "
        "further options are passed on to it.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = p.add_argument
    inner = "accepted for PACE: Gallop has no second process"
    add("--server_host", default="0.0.0.0", help=inner)
    add("--server_port", type=int, default=8000, help=inner)
    add("--server_model", default="facebook/opt-6.7b", help="model: a folder, or a name on the hub")
    add("--dtype", default="bfloat16", help="bfloat16 or float32")
    add("--kv_cache_type", default="BMC", help="DYNAMIC, BMC, SLAB_POOL or PAGED")
    add("--serve_type", default="iterative", help=", ".join(_SERVE_TYPES))
    add("--op_config", default="{}", help="JSON: backends of operators, such as mlp_backend")
    add("--router_host", default=_Unasked("0.0.0.0"), help="address to listen on; if it is not given, "
        "127.0.0.1 without --api-key KEY, --api-key-file FILE or --allow-no-keys")
    add("--router_port", type=int, default=8080, help="port to listen on")
    add("--scheduler_metrics_enabled", nargs="?", const="True", default="False", help="always on")
    add("--fastapi_log_level", default="Default", help="error or critical: no log of requests")
    add("--spec_config", default="{}", help="JSON: model_name, num_speculative_tokens, type pard")
    add("--kv_cache_memory_gb", type=float, default=None, help="memory of the KV cache in GiB")
    add("--token_budget", type=int, default=2048, help="maximum number of tokens of a step")
    add("--max_num_running_reqs", type=int, default=128, help="sequences computed at once")
    add("--max_prefill_chunk", type=int, default=0, help="maximum number of tokens of a step")
    add("--enable_prometheus", nargs="?", const="True", default="False", help="always on: /metrics")
    add("--numa_physcpubind", default=None, help="processors to run on, such as 0-15,32-47")
    add("--numa_membind", default=None, help="memory nodes, such as 0; needs numactl")
    add("--num_engine_instances", type=int, default=1, help="accepted: one engine uses all cores")
    return p


def _cores(text):
    """Returns the numbers of a list such as 0-3,8."""
    cores = set()
    for part in re.split(r"[,;\s]+", text.strip()):
        if not re.fullmatch(r"[0-9]+(-[0-9]+)?", part):
            raise ValueError(
                "--numa_physcpubind: expected numbers as in 0-15,32, found '%s'" % part
            )
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return sorted(cores)


def _object(name, text):
    """Returns the JSON object of option NAME."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError("--%s: expected a JSON object, found '%s'" % (name, text))
    return value


def _speculation(spec):
    """Returns speculative_config of gallop serve for PACE's spec_config."""
    if str(spec.get("type", "pard")).lower() != "pard":
        raise ValueError("--spec_config: type '%s' is unknown; expected pard" % spec["type"])
    if not spec.get("model_name"):
        raise ValueError("--spec_config: model_name is missing")
    config = {"method": "draft_model", "model": spec["model_name"]}
    for name in ("num_speculative_tokens", "draft_kv_cache_memory_gb"):
        if spec.get(name) is not None:
            config[name] = spec[name]
    return config


def _serves(options):
    """Returns whether this build has the backends in OPTIONS: tries them on the model of the package."""
    try:
        Engine(model=DEMO, threads=1, max_num_seqs=1, max_model_len=64, **options).close()
    except GallopError:
        return False
    return True


def _backends(config, dtype, remarks):
    """Returns the options of gallop serve for PACE's op_config. What it does not know, PACE replaces by
    its default without a word; here a remark says so."""
    chosen, options = {}, []
    for name, value in config.items():
        backend = str(value).lower()
        attention = name == "attention_backend"
        known = [x.value for x in (AttentionBackendType if attention else BackendType)]
        if name not in _OPERATORS or backend not in known:
            remarks.append("--op_config: %s=%s is unknown: ignored" % (name, value))
        elif backend == "native":
            pass  # In PACE torch's operators; the choice is Gallop's.
        elif attention:
            options += ["--attention-backend", backend]
        elif _serves({"dtype": dtype, "op_config": json.dumps({name: backend})}):
            chosen[name] = backend
        else:
            remarks.append("--op_config: Gallop chooses for %s, without %s" % (name, value))
    return options + (["--op-config", json.dumps(chosen)] if chosen else [])


def arguments(a, extra=()):
    """Returns the arguments of `gallop` for parsed options A of pace-server, and remarks."""
    remarks = []
    dtype = str(a.dtype).lower().rpartition(".")[2]
    if dtype not in DTYPES:
        raise ValueError("--dtype: '%s' is not supported; expected bfloat16 or float32" % a.dtype)
    cache = a.kv_cache_type.lower()
    if cache not in ("dynamic", "bmc", "slab_pool", "paged"):
        raise ValueError("--kv_cache_type: '%s' is not a KV cache type" % a.kv_cache_type)
    if a.serve_type not in _SERVE_TYPES:
        raise ValueError(
            "--serve_type: expected %s, found '%s'" % (", ".join(_SERVE_TYPES), a.serve_type)
        )
    if a.serve_type == "continuous_batch" and cache != "paged":
        cache = "slab_pool"
    host = "127.0.0.1" if _is_private(a, extra) else a.router_host
    argv = ["serve", "-m", a.server_model, "--host", host, "--port", str(a.router_port)]
    argv += ["--dtype", DTYPES[dtype], "--kv-cache-type", cache, "--scheduler", a.serve_type]
    argv += ["--generation-config", "pace", "--max-num-seqs", str(a.max_num_running_reqs)]
    budget = min(a.token_budget, a.max_prefill_chunk or a.token_budget)
    argv += ["--max-num-batched-tokens", str(max(budget, a.max_num_running_reqs))]
    if a.kv_cache_memory_gb is not None:
        argv += ["--kv-cache-memory", "%g" % a.kv_cache_memory_gb]
    spec = _object("spec_config", a.spec_config)
    if spec:
        argv += ["--speculative-config", json.dumps(_speculation(spec))]
    argv += _backends(_object("op_config", a.op_config), DTYPES[dtype], remarks)
    if str(a.fastapi_log_level).lower() in ("error", "critical", "off"):
        argv += ["--no-access-log"]
    if a.num_engine_instances > 1:
        remarks.append("--num_engine_instances: one engine computes with all cores")
    return argv + list(extra), remarks


def _is_private(a, extra):
    """Returns whether only this machine can use the server. PACE's server lets everybody use it."""
    keys = ("--api-key", "--api-key-file", "--allow-no-keys")
    return isinstance(a.router_host, _Unasked) and not any(x.split("=")[0] in keys for x in extra)


def main(argv=None):
    """Runs pace-server: becomes the program `gallop`."""
    p = parser()
    options, extra = p.parse_known_args(argv)
    try:
        args, remarks = arguments(options, extra)
        cores = _cores(options.numa_physcpubind) if options.numa_physcpubind else []
    except ValueError as e:
        p.error(str(e))
    if _is_private(options, extra):
        remarks.append("only this machine can use the server; --api-key KEY, or --allow-no-keys, lets "
                       "others use it")
    if cores:
        os.sched_setaffinity(0, cores)
        if not any(x.split("=")[0] == "--threads" for x in extra):
            args += ["--threads", str(len(cores))]
    from gallop.__main__ import program

    path, command = program(), ["gallop"] + args
    if options.numa_membind:
        numactl = shutil.which("numactl")
        if numactl:
            command = ["numactl", "--membind=%s" % options.numa_membind, path] + args
            path = numactl
        else:
            remarks.append("--numa_membind needs numactl, which is not installed: ignored")
    for remark in remarks:
        sys.stderr.write("pace-server: %s\n" % remark)
    sys.stderr.flush()
    os.execv(path, command)


if __name__ == "__main__":
    main()
