"""NAME.yaml, NAME.md and NAME.png: all of them, or none."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from twin.results.atomic import AtomicFile

ORDER = (
    "model", "gpu", "tensor_parallel_size", "source", "licence", "not_known", "coefficients", "host_full_sequences", "knees",
    "tiles", "swap", "spread", "range", "error",
)  # fmt: skip
HEAD = "# Made by twin calibrate; docs/calibrate.md explains the names. Errors of held-out steps, in percent.\n"


def latency_file(content: Mapping[str, Any]) -> str:
    """The text of a latency file."""
    import yaml

    kept = {key: content[key] for key in ORDER if content.get(key) not in (None, {}, [])}
    return HEAD + str(yaml.safe_dump(kept, sort_keys=False, width=110))


def png(figure: Any) -> bytes:
    from twin.results.style import save_png

    buffer = io.BytesIO()
    save_png(figure, buffer)
    return buffer.getvalue()


def save(files: Mapping[Path, bytes]) -> None:
    """Writes all of them under temporary names first. Raises twin.results.atomic.OutputError, and then none has changed."""
    with ExitStack() as stack:
        parts = []
        for path, data in files.items():
            part = AtomicFile(path)
            stack.callback(part.abort)
            part.handle.write(data)
            parts.append(part)
        for part in parts:
            part.close()
        for part in parts:
            part.commit()
