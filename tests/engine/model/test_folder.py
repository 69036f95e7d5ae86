"""Hugging Face folders: one file or shards, and every way in which a folder can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import EngineError
from engine.model.load import load_model
from tests.engine.model.reference import expected_logits, logits_of, saved, tokens_of


@pytest.fixture
def folder(tmp_path):
    saved(tmp_path, "llama")
    return tmp_path


def complaint(source: Path | str, **options: Any) -> str:
    with pytest.raises(EngineError) as refusal:
        load_model(source, **options)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def changed_config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def changed_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Tensors replaced, added, or (None) taken away; `__` in a name stands for a dot."""
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in changes.items():
        tensors.pop(name.replace("__", "."), None)
        if tensor is not None:
            tensors[name.replace("__", ".")] = tensor
    save_file(tensors, folder / "model.safetensors")


def test_shards(tmp_path):
    reference = saved(tmp_path / "one", "qwen3", tie_word_embeddings=False)
    reference.save_pretrained(tmp_path / "shards", max_shard_size="40KB")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 2
    tokens = tokens_of(9)
    found = logits_of(load_model(tmp_path / "shards"), tokens)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kept", (torch.bfloat16, torch.float16))
def test_the_checkpoints_type_unless_another_is_asked_for(tmp_path, kept):
    saved(tmp_path, "llama").to(kept).save_pretrained(tmp_path)
    assert load_model(tmp_path).dtype == kept
    model = load_model(tmp_path, "fp32")
    assert model.dtype == torch.float32
    stored = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    assert stored.dtype == kept
    assert torch.equal(model.weights.embedding, stored.float())


def test_tokens_that_end_a_text_come_from_the_generation_configuration_first(folder):
    changed_config(folder, eos_token_id=2)
    assert load_model(folder).config.eos_token_ids == (2,)
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 5]}')
    assert load_model(folder).config.eos_token_ids == (7, 5)


def test_a_second_copy_of_a_tied_head_and_old_tables_are_passed_over(tmp_path):
    reference = saved(tmp_path, "llama", tie_word_embeddings=True)
    changed_weights(
        tmp_path,
        lm_head__weight=reference.lm_head.weight.detach().clone(),
        model__layers__0__self_attn__rotary_emb__inv_freq=torch.ones(6),
    )
    tokens = tokens_of(9)
    torch.testing.assert_close(
        logits_of(load_model(tmp_path), tokens), expected_logits(reference, tokens), atol=1e-4, rtol=1e-4
    )


def test_no_such_folder(tmp_path):
    assert complaint(tmp_path / "absent") == (
        f"model {tmp_path / 'absent'}: no such folder or file; give a model folder, a .gguf file, or smollm2"
    )


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"")
    assert "of single files only .gguf is read; give the folder" in complaint(tmp_path / "model.bin")


def test_no_configuration(folder):
    (folder / "config.json").unlink()
    assert complaint(folder) == f"{folder}: no config.json; give the folder of a Hugging Face model"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{\n  oops", "config.json, line 2: not JSON: Expecting property name"),
        (b"[1]", "config.json: must hold one JSON object"),
        (b"\xff\xfe{}", "config.json: not a text in UTF-8"),
    ],
)
def test_a_broken_configuration(folder, text, reason):
    (folder / "config.json").write_bytes(text)
    assert reason in complaint(folder)


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    assert complaint(folder) == f"{folder}: no weights; model.safetensors or model.safetensors.index.json must be there"


@pytest.mark.parametrize("name", ("pytorch_model.bin", "consolidated.00.pth"))
def test_pickles_are_never_opened(folder, name):
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"\x80\x04.")
    found = complaint(folder)
    assert f"weights are pickled ({name}), which this engine never loads" in found
    assert "give a folder with model.safetensors" in found


@pytest.mark.parametrize("kept", (0, 4, 100, -1, -1000))
def test_a_truncated_file(folder, kept):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    assert complaint(folder).startswith(f"{file}: not a whole safetensors file (")


def test_shapes_that_are_not_those_of_the_configuration(folder):
    changed_config(folder, intermediate_size=88)
    assert complaint(folder) == (
        f"{folder}: model.layers.0.mlp.gate_proj.weight is [80, 48]; the configuration says [88, 48]"
    )


def test_missing_tensors_are_named_and_counted(folder):
    changed_config(folder, num_hidden_layers=3)
    assert complaint(folder) == (
        f"{folder}: tensors are missing: model.layers.2.input_layernorm.weight, model.layers.2.self_attn.q_proj.weight, "
        "model.layers.2.self_attn.k_proj.weight and 6 more"
    )


def test_unexpected_tensors_are_named(folder):
    changed_weights(folder, score__weight=torch.zeros(2, 48))
    assert complaint(folder) == f"{folder}: tensors that the configuration has no place for: score.weight"


def test_quantized_tensors(folder):
    changed_weights(folder, model__norm__weight=torch.zeros(48, dtype=torch.int8))
    assert "model.norm.weight is I8; F32, F16, BF16 are read, not quantized checkpoints" in complaint(folder)


@pytest.fixture
def shards(tmp_path):
    saved(tmp_path / "one", "llama").save_pretrained(tmp_path / "shards", max_shard_size="40KB")
    return tmp_path / "shards"


def index_of(shards: Path) -> tuple[Path, dict]:
    file = shards / "model.safetensors.index.json"
    return file, json.loads(file.read_text())


def test_a_shard_that_is_absent(shards):
    file, index = index_of(shards)
    name = index["weight_map"]["model.norm.weight"]
    (shards / name).unlink()
    assert complaint(shards) == f"{file}: names {name}, which is not in the folder"


def test_an_index_that_leads_out_of_the_folder(shards):
    file, index = index_of(shards)
    index["weight_map"]["model.norm.weight"] = "../one/model.safetensors"
    file.write_text(json.dumps(index))
    assert complaint(shards) == f"{file}: '../one/model.safetensors' is not the name of a file in the same folder"


def test_an_index_without_its_map(shards):
    file, _ = index_of(shards)
    file.write_text("{}")
    assert complaint(shards) == f"{file}: weight_map must name the file of each tensor"


def test_a_tensor_in_two_shards(shards):
    _, index = index_of(shards)
    names = sorted(set(index["weight_map"].values()))
    twice = {**load_file(shards / names[1]), "model.embed_tokens.weight": torch.zeros(97, 48)}
    save_file(twice, shards / names[1])
    assert complaint(shards) == f"{shards / names[1]}: model.embed_tokens.weight is in {names[0]} too"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dtype": "fp8"}, "dtype=fp8: fp32, fp16, bf16 are understood"),
        ({"device": "gpu"}, "engine.device=gpu: must be auto, cpu, cuda or cuda:NUMBER"),
    ],
)
def test_options_that_are_not_understood(folder, options, reason):
    assert complaint(folder, **options) == reason


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there(folder):
    assert complaint(folder, device="cuda") == ("engine.device=cuda: torch finds 0 CUDA devices; take cpu or auto")
