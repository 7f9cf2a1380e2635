"""The extension module: every function and type of gallop.h, by cffi."""
from typing import Any

ffi: Any
"""The cffi.FFI object: new(), string(), buffer(), unpack(), ..."""

lib: Any
"""The functions and constants: lib.gallop_open, lib.GALLOP_OK, ..."""
