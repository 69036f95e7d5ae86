"""Tokenizers of model folders: read from the disk, and nothing of them is executed."""

import json

import pytest

from engine.errors import EngineError
from engine.model.tokenizer import Tokenizer


@pytest.fixture
def folder(tmp_path):
    """Words as tokens, written with the libraries that read them."""
    from tokenizers import Tokenizer as Words
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = Words(WordLevel({"<unk>": 0, "<s>": 1, "to": 2, "be": 3, "or": 4, "not": 5}, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", bos_token="<s>").save_pretrained(tmp_path)
    return tmp_path


def test_words(folder):
    tokenizer = Tokenizer(folder)
    assert tokenizer.encode("to be or not to fly") == [2, 3, 4, 5, 2, 0]
    assert tokenizer.decode([1, 2, 3, 4]) == "to be or"  # special tokens are left out


def test_a_chat_needs_a_template(folder):
    message = [{"role": "user", "content": "be"}]
    with pytest.raises(EngineError, match="^the model has no chat template; give it a plain prompt$"):
        Tokenizer(folder).encode_chat(message)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}to {{ m.content }} {% endfor %}or")
    assert Tokenizer(folder).encode_chat(message) == [2, 3, 4]


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(EngineError) as refusal:
        Tokenizer(tmp_path)
    assert str(refusal.value).startswith(f"{tmp_path}: no tokenizer that can be read (")
    assert "\n" not in str(refusal.value)


def test_code_in_the_folder_is_not_run(folder):
    """A tokenizer that names a class of its own is refused, or read without that class; its file is never imported."""
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nclass Evil: pass\n")
    file = folder / "tokenizer_config.json"
    given = json.loads(file.read_text())
    file.write_text(json.dumps({**given, "tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}}))
    try:
        Tokenizer(folder)
    except EngineError as refusal:
        assert "no tokenizer that can be read" in str(refusal)
    assert not (folder / "ran").exists()
