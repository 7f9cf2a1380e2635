"""What an engine says about its model: gallop.ModelInfo."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ModelInfo:
    """Facts about the model of an engine. Sizes are in bytes."""

    dtype: str
    quant: str
    isa: str
    threads: int
    context_length: int
    vocab_size: int
    weight_bytes: int
    kv_bytes: int
    scratch_bytes: int
