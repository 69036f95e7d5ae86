"""Text to tokens and back, by transformers; nothing is downloaded and no code of a model's runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import EngineError


class Tokenizer:
    """The tokenizer of a model folder or of a GGUF file."""

    def __init__(self, source: Path) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the import: the library reads it once
        from transformers import AutoTokenizer

        folder, options = (source.parent, {"gguf_file": source.name}) if source.is_file() else (source, {})
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, **options
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise EngineError(f"{source}: no tokenizer that can be read ({reason})") from None

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, with the tokens that the model expects at the start, if any."""
        return self._tokenizer.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens, without the special ones."""
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Tokens of a conversation of {"role", "content"}, up to where the assistant's answer starts."""
        if not self._tokenizer.chat_template:
            raise EngineError("the model has no chat template; give it a plain prompt")
        text = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        return self._tokenizer.encode(text, add_special_tokens=False)
