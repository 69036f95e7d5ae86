"""A step computes the same rows whatever stands beside them, before them, or in which type."""

import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from engine.model.load import load_model
from tests.engine.model.paged import PlainAttention, PlainCache, batch_of
from tests.engine.model.reference import TINY, expected_logits, logits_of, saved, tokens_of


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen3")
    reference = saved(folder, "qwen3", head_dim=16, num_hidden_layers=3)
    return reference, folder


@pytest.mark.parametrize("chunks", [(1,), (5,), (16,), (1, 1, 1), (7, 1, 4)])
def test_chunks_are_the_whole(qwen3, chunks):
    reference, folder = qwen3
    tokens = tokens_of(21)
    found = logits_of(load_model(folder), tokens, chunks)
    torch.testing.assert_close(found, expected_logits(reference, tokens), atol=1e-4, rtol=1e-4)


def test_sequences_of_one_step_do_not_touch_each_other(qwen3):
    """Two decodes, a chunk in the middle of its prompt and a whole prompt; slots of nobody are NaN."""
    reference, folder = qwen3
    model = load_model(folder)
    cache, attention = PlainCache(3, 24, 2, 16, torch.float32), PlainAttention()
    plan = [(2, 9, 1), (6, 4, 1), (10, 3, 8), (16, 0, 6)]  # first block, tokens before, tokens of the step
    texts = [tokens_of(before + now, seed=first) for first, before, now in plan]
    for (first, before, _), text in zip(plan, texts, strict=True):
        if before:
            model.forward(text[:before], batch_of((first, 0, before)), cache, attention)
    step = torch.cat([text[before:] for (_, before, _), text in zip(plan, texts, strict=True)])
    found = model.logits(model.forward(step, batch_of(*plan), cache, attention))
    wanted = torch.cat([expected_logits(reference, text)[before:] for (_, before, _), text in zip(plan, texts, strict=True)])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rows", [[], [12], [0, 5, 12], [3, 3]])
def test_asked_rows_are_those_of_the_whole_step(qwen3, rows):
    _, folder = qwen3
    model, tokens = load_model(folder), tokens_of(13)
    hidden = []
    for asked in (None, torch.tensor(rows, dtype=torch.int64)):
        cache = PlainCache(3, 5, 2, 16, torch.float32)
        hidden.append(model.forward(tokens, batch_of((1, 0, 13)), cache, PlainAttention(), asked))
        assert not cache.k(2)[1:4].isnan().any()  # keys of the last layer are written for all rows
    torch.testing.assert_close(hidden[1], hidden[0][rows], atol=1e-5, rtol=1e-5)
    assert model.logits(hidden[1]).shape == (len(rows), TINY["vocab_size"])


@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 0.15), ("fp16", 0.02)])
@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3"))
def test_sixteen_bits_are_near(tmp_path, architecture, dtype, tolerance):
    """Against the fp32 reference: logits have a deviation near 2, bf16 keeps 8 bits, fp16 11."""
    reference = saved(tmp_path, architecture, head_dim=16)
    tokens = tokens_of(17)
    model = load_model(tmp_path, dtype)
    found = logits_of(model, tokens)
    assert found.dtype == torch.float32
    assert model.weights.layers[0].input_norm.dtype == model.dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    error = (found - expected_logits(reference, tokens)).abs()
    assert error.max() < tolerance
    assert error.max() > 1e-5  # it was not computed in fp32 by mistake


class NoAttention:
    """Writes nothing, gives the queries back: what is left is the model's own."""

    name = "none"

    def write(self, k, v, k_cache, v_cache, batch, k_scale, v_scale):
        pass

    def attend(self, q, k_cache, v_cache, batch, scale, k_scale, v_scale):
        return q


class Operations(TorchDispatchMode):
    """The names of all operations of torch that run within."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_nothing_in_a_step_waits_for_a_value(qwen3):
    """No value of a tensor comes to the host and no shape depends on one: a CUDA graph can hold the step."""
    _, folder = qwen3
    model, cache = load_model(folder), PlainCache(3, 5, 2, 16, torch.float32)
    tokens, batch, rows = tokens_of(6), batch_of((1, 0, 6)), torch.tensor([5])
    with Operations() as operations:
        model.logits(model.forward(tokens, batch, cache, NoAttention(), rows))
    assert any("rms_norm" in name or "rsqrt" in name for name in operations.names)
    waiting = ("aten.item", "_local_scalar_dense", "nonzero", "masked_select", "unique", "is_nonzero", "equal.default")
    assert [name for name in operations.names if any(word in name for word in waiting)] == []


def test_a_step_can_be_compiled_whole(qwen3):
    _, folder = qwen3
    model, cache = load_model(folder), PlainCache(3, 5, 2, 16, torch.float32)
    tokens, batch, rows = tokens_of(6), batch_of((1, 0, 6)), torch.tensor([5])
    traced = torch.compile(
        lambda: model.logits(model.forward(tokens, batch, cache, NoAttention(), rows)), backend="eager", fullgraph=True
    )
    wanted = model.logits(model.forward(tokens, batch, cache, NoAttention(), rows))
    torch.testing.assert_close(traced(), wanted)


def test_loading_a_model_does_not_import_transformers(qwen3):
    _, folder = qwen3
    code = (
        "import sys; from engine.model.load import load_model; load_model(sys.argv[1]); "
        "print([name for name in ('transformers', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
