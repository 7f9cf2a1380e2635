"""These tests need vLLM: `make test-vllm` runs them in an environment of their own."""
import importlib.util
import os

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
os.environ["HF_HUB_OFFLINE"] = "1"
if importlib.util.find_spec("gallop_vllm") is None:
    collect_ignore_glob = ["*"]
