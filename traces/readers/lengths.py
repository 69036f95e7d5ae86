"""Lengths in tokens of texts: by a tokenizer, or by a stated approximation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

CHARACTERS_PER_TOKEN = 4  # a usual figure for English text and the vocabularies of today
TEXT_TYPES = ("text", "input_text")


def counter(tokenizer: object) -> tuple[Callable[[str], int], str]:
    """How to count tokens, and a note of it. `tokenizer` is the path of a Hugging Face tokenizer.json; None: a quarter of
    the characters, rounded up. Special tokens and chat templates are not counted."""
    if tokenizer is None:
        note = f"lengths are approximate: a token for each {CHARACTERS_PER_TOKEN} characters (trace.tokenizer counts them)"
        return lambda text: -(-len(text) // CHARACTERS_PER_TOKEN), note
    if not isinstance(tokenizer, str) or not Path(tokenizer).is_file():
        raise ValueError(f"trace.tokenizer={tokenizer}: must be the path of a tokenizer.json file")
    try:
        import tokenizers
    except ImportError:
        raise ValueError("trace.tokenizer needs the package tokenizers: pip install tokenizers") from None
    try:
        encoder = tokenizers.Tokenizer.from_str(Path(tokenizer).read_text(encoding="utf-8"))
    except Exception as problem:  # the package raises no other
        raise ValueError(f"trace.tokenizer={tokenizer}: {str(problem).splitlines()[0]}") from None
    return lambda text: len(encoder.encode(text, add_special_tokens=False).ids), f"lengths counted by {tokenizer}"


def text_of(content: object) -> str:
    """The text of a message: itself, or that of its parts; what is no text has none. Raises ValueError for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        parts = [part.get("text") for part in content if part.get("type", "text") in TEXT_TYPES]
        if all(isinstance(part, str) for part in parts):
            return "".join(parts)
    raise ValueError("the content of a message must be text or a list of parts")
