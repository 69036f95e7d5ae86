"""What samples and beams share, by hand."""

import pytest

from twin.cli.errors import UserError
from twin.reproduce.experiment import load
from twin.reproduce.sharing import blocks_of, figures_of, lengths_of, saving


@pytest.mark.parametrize(("samples", "held", "entries"), [(2, 3, 4), (4, 5, 8)])
def test_samples_share_the_full_blocks_of_their_prompt(samples: int, held: int, entries: int):
    """cow-01: a prompt of 6 in blocks of 4: one block is shared, of the half-filled one each has its own, in both steps."""
    assert list(blocks_of(6, 3, samples, 4)) == [(held, entries)] * 2


@pytest.mark.parametrize("samples", [2, 4, 6])
def test_blocks_of_one_token_save_the_prompts_share(samples: int):
    """12 prompt tokens of 12 + t, t = 1 ... 88: (1 - 1/n) x 12 / 56.5 (ord-02)."""
    assert saving([(12, 89)], samples, 1) == pytest.approx((1 - 1 / samples) * 12 / 56.5, rel=1e-12)


def test_beams_that_all_go_on_from_one_differ_in_their_newest_token_alone():
    """Blocks of one token, prompt 1, 3 beams. In step t of 4, of tables of 1 + t the last block is each beam's own."""
    steps = list(blocks_of(1, 5, 3, 1, lambda count: [0] * count))
    assert steps == [(4, 6), (5, 9), (6, 12), (7, 15)]  # t shared ones and 3; 3 x (1 + t)


def test_beams_that_go_on_from_themselves_share_what_samples_do():
    assert list(blocks_of(6, 9, 3, 4, lambda count: list(range(count)))) == list(blocks_of(6, 9, 3, 4))


def test_lengths_have_the_means_that_were_asked_for():
    lengths = lengths_of(19.31, 58.45, 1000, seed=0)
    prompts, outputs = zip(*lengths, strict=True)
    assert sum(prompts) / 1000 == pytest.approx(19.31, rel=0.01)
    assert sum(outputs) / 1000 == pytest.approx(58.45, rel=0.01)


def test_it_goes_the_way_that_was_published():
    figures = figures_of(load("sharing", ["requests={Alpaca: 40, ShareGPT: 1}"]), "Alpaca")
    assert len(figures) == 9
    assert all(figure.direction is not False for figure in figures)
    assert all(figure.size for figure in figures if "any search" in figure.what)


@pytest.mark.parametrize(
    "change",
    ["mean_tokens={Alpaca: [1, 50], ShareGPT: [2, 3]}", "mean_tokens={Alpaca: [5], ShareGPT: [2]}", "block_size=4096"],
)
def test_what_cannot_be_played_is_refused(change: str):
    with pytest.raises(UserError, match=change.partition("=")[0]):
        figures_of(load("sharing", [change]), "Alpaca")
