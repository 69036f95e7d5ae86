"""A Hugging Face folder: its configuration, and its tensors out of safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import EngineError
from engine.model.config import ModelConfig, from_huggingface

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
FLOATING = ("F32", "F16", "BF16")


def read_config(folder: Path) -> ModelConfig:
    """The configuration of a folder; the tokens that end a text come from generation_config.json where it names them."""
    file = folder / "config.json"
    if not file.is_file():
        raise EngineError(f"{folder}: no config.json; give the folder of a Hugging Face model")
    config = read_json(file)
    generation = folder / "generation_config.json"
    if generation.is_file():
        ending = read_json(generation).get("eos_token_id")
        if ending is not None:
            config = {**config, "eos_token_id": ending}
    return from_huggingface(config, folder.resolve().name, str(file))


def read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise EngineError(f"{file}, line {error.lineno}: not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise EngineError(f"{file}: not a text in UTF-8") from None
    if not isinstance(content, dict):
        raise EngineError(f"{file}: must hold one JSON object")
    return content


class SafetensorsFolder:
    """The tensors of a folder, in one file or in the shards that an index names."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self._files = {file: _opened(file) for file in _weight_files(folder)}
        self._file_of: dict[str, Path] = {}
        self.shapes: Mapping[str, tuple[int, ...]] = self._all_shapes()

    def read(self, name: str) -> Tensor:
        return self._files[self._file_of[name]].get_tensor(name)

    def _all_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for file, opened in self._files.items():
            for name in opened.keys():  # noqa: SIM118 (not a dict)
                if name in shapes:
                    raise EngineError(f"{file}: {name} is in {self._file_of[name].name} too")
                piece = opened.get_slice(name)
                if piece.get_dtype() not in FLOATING:
                    raise EngineError(
                        f"{file}: {name} is {piece.get_dtype()}; {', '.join(FLOATING)} are read, not quantized checkpoints"
                    )
                shapes[name] = tuple(piece.get_shape())
                self._file_of[name] = file
        return shapes


def _weight_files(folder: Path) -> list[Path]:
    if (folder / INDEX).is_file():
        names = read_json(folder / INDEX).get("weight_map")
        if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
            raise EngineError(f"{folder / INDEX}: weight_map must name the file of each tensor")
        shards = sorted(set(names.values()))
        for shard in shards:
            if Path(shard).name != shard:
                raise EngineError(f"{folder / INDEX}: {shard!r} is not the name of a file in the same folder")
            if not (folder / shard).is_file():
                raise EngineError(f"{folder / INDEX}: names {shard}, which is not in the folder")
        return [folder / shard for shard in shards]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    pickles = sorted(file.name for pattern in PICKLES for file in folder.glob(pattern))
    if pickles:
        raise EngineError(
            f"{folder}: weights are pickled ({pickles[0]}), which this engine never loads, as a pickle can run any code; "
            f"give a folder with {SINGLE}"
        )
    raise EngineError(f"{folder}: no weights; {SINGLE} or {INDEX} must be there")


def _opened(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except SafetensorError as error:
        reason = str(error).splitlines()[0]
        raise EngineError(f"{file}: not a whole safetensors file ({reason})") from None
