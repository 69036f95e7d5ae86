"""The C entry points of the CPU library, as Python calls them.

A call through ctypes costs a few microseconds, mostly for its arguments; a step makes some ten of them a layer.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch

from engine.attention.cpu.build import cpu_library
from engine.attention.fp8 import FP8
from engine.errors import EngineError

# The numbers of `enum Type` in vectors.h.
TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, FP8: 3}

# Kinds of the arguments, in order: p pointer, l int64, i int, f float.
SIGNATURES = {
    "twin_write": "ppppppp" "lllll" "iiii",
    "twin_attend": "ppppppppp" "lll" "iiiiiii" "f" "i",
    "twin_rms_norm": "ppp" "lllll" "f" "ii",
    "twin_add_rms_norm": "pppp" "llll" "f" "ii",
    "twin_rope": "ppppp" "llllllll" "ii",
    "twin_silu_mul": "pp" "lll" "ii",
    "twin_pack": "pp" "ll" "i",
    "twin_linear_f32": "pppp" "llll" "i",
    "twin_linear_bf16": "pppp" "llll" "i",
}  # fmt: skip
KINDS = {"p": ctypes.c_void_p, "l": ctypes.c_int64, "i": ctypes.c_int, "f": ctypes.c_float}


@cache
def library() -> ctypes.CDLL:
    """The library, built if need be, its functions declared. EngineError where it cannot be built or loaded."""
    path = cpu_library()
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise EngineError(f"cannot load {path}: {error}; remove it to have it built anew") from error
    for name, kinds in SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes = [KINDS[kind] for kind in kinds]
        function.restype = None
    return loaded


@cache
def why_not() -> str | None:
    """Why this machine cannot have the library, in one line; None where it has it."""
    try:
        library()
    except EngineError as error:
        return str(error)
    return None
