"""Sampled tokens, against values by hand and transformers' logits processors. On a GPU the same tests run there."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine.sampling import draws, sampler

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NAN, INF = float("nan"), float("inf")
LARGEST_UNIFORM = float(np.nextafter(1, 0))


def sample(
    logits: torch.Tensor, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0, uniforms: object = 0.5
) -> list[int]:
    """The same parameters for every row; `uniforms` one or one a row."""
    rows = len(logits)
    drawn = sampler.sample(
        logits.to(DEVICE), [temperature] * rows, [top_p] * rows, [top_k] * rows, np.broadcast_to(uniforms, rows)
    )
    assert drawn.dtype == torch.int64 and drawn.device.type == DEVICE.type
    return drawn.tolist()


def drawn_at(probabilities: list[float], uniforms: list[float], **limits: float) -> list[int]:
    """The token of each uniform, where the model gives `probabilities`."""
    logits = torch.tensor(probabilities).log().repeat(len(uniforms), 1)
    return sample(logits, uniforms=uniforms, **limits)  # type: ignore[arg-type]


def random_logits(rows: int, vocab: int, seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))


# greedy


@pytest.mark.parametrize("vocab", [1, 8, 1009, 1024, 3200])
def test_greedy_is_the_first_of_the_largest(vocab: int) -> None:
    """Few different values, so that most rows have ties."""
    logits = torch.randint(0, 4, (64, vocab), generator=torch.Generator().manual_seed(vocab)).float()
    first = [row.index(max(row)) for row in logits.tolist()]
    assert sample(logits, temperature=0) == first == logits.argmax(1).tolist()


def test_greedy_and_sampled_rows_share_a_batch() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().repeat(4, 1).to(DEVICE)
    drawn = sampler.sample(logits, [0, 1, 0, 1], [1] * 4, [0, 0, 3, 3], [0.05, 0.05, 0.05, 0.05])
    assert drawn.tolist() == [3, 0, 3, 1]


def test_an_empty_batch_has_no_tokens() -> None:
    assert sampler.sample(torch.zeros(0, 8, device=DEVICE), [], [], [], []).tolist() == []


# the inverse CDF


def test_the_token_is_where_the_cdf_passes_the_number() -> None:
    """0.1, 0.2, 0.3, 0.4 in the order of ids: the CDF is 0.1, 0.3, 0.6, 1."""
    numbers = [0.0, 0.0999, 0.1001, 0.2999, 0.3001, 0.5999, 0.6001, LARGEST_UNIFORM]
    assert drawn_at([0.1, 0.2, 0.3, 0.4], numbers) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_an_edge_of_the_cdf_belongs_to_the_next_token() -> None:
    """Four equal tokens: the edges are exact."""
    assert drawn_at([0.25] * 4, [0.0, 0.25, 0.5, 0.75, 0.25 - 2**-50]) == [0, 1, 2, 3, 0]


def test_temperature_2_takes_the_root_of_the_odds() -> None:
    """Roots of 0.64, 0.16, 0.16, 0.04 are 0.8, 0.4, 0.4, 0.2: the CDF is 0.444, 0.667, 0.889, 1."""
    numbers = [0.4443, 0.4446, 0.6665, 0.6668, 0.8887, 0.8890]
    assert drawn_at([0.64, 0.16, 0.16, 0.04], numbers, temperature=2) == [0, 1, 1, 2, 2, 3]


def test_an_impossible_token_is_never_drawn() -> None:
    logits = torch.tensor([[-INF, 0.0, -INF, 0.0, -INF]]).repeat(4, 1)
    assert sample(logits, uniforms=[0.0, 0.4999, 0.5, LARGEST_UNIFORM]) == [1, 1, 3, 3]


@pytest.mark.parametrize("temperature", [1e-30, 1e-3, 100])
def test_extreme_temperatures_stay_finite(temperature: float) -> None:
    """At 1e-30 all lies on the likeliest; at 100 the odds of +-1000 are exp(-20)."""
    logits = torch.tensor([[-1000.0, 1000.0, -INF, 999.0]])
    assert sample(logits, temperature=temperature, uniforms=0.4) == [1]


def test_frequencies_are_the_probabilities() -> None:
    probabilities = torch.tensor([0.02, 0.3, 0.08, 0.25, 0.05, 0.2, 0.07, 0.03])
    rows = 20_000
    numbers = draws.uniforms([draws.stream(0, f"r{i}") for i in range(rows)], [11] * rows)
    drawn = sample(probabilities.log().repeat(rows, 1), uniforms=numbers)
    observed = np.bincount(drawn, minlength=8)
    assert stats.chisquare(observed, probabilities.numpy().astype(np.float64) * rows, sum_check=False).pvalue > 0.001


# top-k and top-p: sets by hand

P = [0.05, 0.4, 0.15, 0.3, 0.1]  # in descending order the tokens 1, 3, 2, 4, 0 with sums 0.4, 0.7, 0.85, 0.95, 1
TIED = [0.2, 0.1, 0.3, 0.2, 0.2]


def tokens_left(probabilities: list[float], **limits: float) -> set[int]:
    """All that a fine grid of numbers draws."""
    return set(drawn_at(probabilities, [(i + 0.5) / 400 for i in range(400)], **limits))


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"top_k": 0, "top_p": 1.0}, {0, 1, 2, 3, 4}),
        ({"top_k": 1}, {1}),
        ({"top_k": 3}, {1, 2, 3}),
        ({"top_k": 5}, {0, 1, 2, 3, 4}),
        ({"top_k": 99}, {0, 1, 2, 3, 4}),
        ({"top_p": 1e-9}, {1}),
        ({"top_p": 0.39}, {1}),
        ({"top_p": 0.41}, {1, 3}),
        ({"top_p": 0.69}, {1, 3}),
        ({"top_p": 0.71}, {1, 2, 3}),
        ({"top_p": 0.96}, {0, 1, 2, 3, 4}),
        # of the first two 0.4 / 0.7 = 0.571: top-p works on what top-k has left
        ({"top_k": 2, "top_p": 0.57}, {1}),
        ({"top_k": 2, "top_p": 0.58}, {1, 3}),
        ({"top_k": 4, "top_p": 0.5}, {1, 3}),
    ],
)
def test_what_top_k_and_top_p_leave(limits: dict, left: set[int]) -> None:
    assert tokens_left(P, **limits) == left


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"top_k": 1}, {2}),
        ({"top_k": 2}, {0, 2, 3, 4}),  # 0, 3 and 4 are equally likely: all or none
        ({"top_k": 4}, {0, 2, 3, 4}),
        ({"top_p": 0.29}, {2}),
        ({"top_p": 0.35}, {0, 2, 3, 4}),
        ({"top_p": 0.89}, {0, 2, 3, 4}),
        ({"top_p": 0.91}, {0, 1, 2, 3, 4}),
    ],
)
def test_equals_stay_together(limits: dict, left: set[int]) -> None:
    assert tokens_left(TIED, **limits) == left


def test_what_is_left_is_renormalised() -> None:
    """0.4 and 0.3 become 4/7 and 3/7."""
    assert drawn_at(P, [0.0, 4 / 7 - 1e-4, 4 / 7 + 1e-4, LARGEST_UNIFORM], top_k=2) == [1, 1, 3, 3]


def test_equals_of_the_kth_token_count_in_the_sum_of_top_p() -> None:
    """One token of odds 1 and 999 of odds 1/999: with k = 2 all stay, and the first has half of the sum, not 999 / 1000."""
    logits = torch.zeros(1, 1000).sub_(np.log(999))
    logits[0, 600] = 0
    drawn = [sample(logits, top_k=2, top_p=p, uniforms=u)[0] for p in (0.49, 0.51) for u in (0.0, LARGEST_UNIFORM)]
    assert drawn == [600, 600, 0, 999]


def test_top_p_that_is_reached_exactly_needs_no_further_token() -> None:
    """Odds 1, 1/2, 1/4, 1/4 sum to 2: one half is reached by the first, the next larger number is not."""
    odds = torch.tensor([[0.25, 1, 0.5, 0.25]], device=DEVICE)
    weights = (odds * sampler.UNIT).long()
    for p, left in ((0.5, [1]), (np.nextafter(0.5, 1), [1, 2]), (0.75, [1, 2]), (np.nextafter(0.75, 1), [0, 1, 2, 3])):
        top_p, top_k = torch.tensor([p], dtype=torch.float64, device=DEVICE), torch.tensor([4], device=DEVICE)
        kept = sampler.kept(weights, odds, top_p, top_k, sampler.Limits(any_k=False, any_p=True, most_k=4))
        assert kept[0].nonzero().flatten().tolist() == left
        assert torch.equal(kept[0, left], weights[0, left])


# against transformers


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(0, 1.0), (1, 1.0), (7, 1.0), (0, 0.1), (0, 0.9), (0, 0.999), (40, 0.8), (280, 1.0), (280, 0.99)]
)
def test_the_distribution_is_that_of_transformers(temperature: float, top_k: int, top_p: float) -> None:
    """The length of each token's interval of numbers, by bisection over the draws, is its probability there."""
    vocab, logits = 300, random_logits(1, 300)  # more than the short list of top-k
    theirs = TemperatureLogitsWarper(temperature)(None, logits)
    theirs = TopKLogitsWarper(top_k)(None, theirs) if top_k else theirs
    theirs = TopPLogitsWarper(top_p)(None, theirs) if top_p < 1 else theirs
    # edge[t] is the least number that draws token t or a later one
    low, high = np.zeros(vocab), np.ones(vocab)
    for _ in range(24):
        middle = (low + high) / 2
        drawn = np.array(sample(logits.repeat(vocab, 1), temperature, top_p, top_k, middle))
        past = drawn >= np.arange(vocab)
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    lengths = np.array([b - a for a, b in pairwise([*high, 1.0])])
    assert np.allclose(lengths, theirs.softmax(1).numpy()[0], atol=1e-6)


# rows by themselves


@pytest.mark.parametrize(
    "limits", [{}, {"top_k": 20}, {"top_k": 400}, {"top_p": 0.9}, {"top_k": 50, "top_p": 0.7}, {"temperature": 0}]
)
def test_a_row_draws_the_same_whatever_lies_beside_it(limits: dict) -> None:
    logits = random_logits(33, 1000)
    numbers = draws.uniforms([draws.stream(5, f"r{i}") for i in range(33)], range(33))
    alone = [sample(logits[i : i + 1], uniforms=numbers[i], **limits)[0] for i in range(33)]
    assert sample(logits, uniforms=numbers, **limits) == alone
    order = np.random.default_rng(0).permutation(33)
    assert sample(logits[order], uniforms=numbers[order], **limits) == [alone[i] for i in order]


@pytest.mark.parametrize("rows", [range(0, 8), range(0, 5), range(5, 8)])
def test_each_row_has_its_own_parameters(rows: range) -> None:
    """Greedy ones, a failed one, and such as have no limit, one, or both, of tokens few and many."""
    logits = random_logits(8, 1000) * torch.linspace(0.2, 1, 8)[:, None]
    logits[3, 7] = NAN
    temperatures = [1, 0, 0.5, 1, 0, 2, 1.5, 0.9]
    top_ps, top_ks = [1, 0.5, 0.8, 0.9, 1, 0.95, 1, 0.7], [0, 9, 40, 0, 0, 0, 500, 3]
    numbers = [0.3, 0.9, 0.7, 0.5, 0.1, 0.95, 0.05, 0.6]
    alone = [sample(logits[i : i + 1], temperatures[i], top_ps[i], top_ks[i], numbers[i])[0] for i in rows]
    part = [[values[i] for i in rows] for values in (temperatures, top_ps, top_ks, numbers)]
    assert sampler.sample(logits[list(rows)].to(DEVICE), *part).tolist() == alone
    assert len(set(alone)) == len(rows)  # rows mistaken for one another would show


@pytest.mark.parametrize("limits", [{"temperature": 0}, {}, {"top_k": 3}, {"top_p": 0.5}, {"top_k": 3, "top_p": 0.5}])
@pytest.mark.parametrize("vocab", [8, 256])
def test_a_row_that_is_not_numbers_fails_alone(limits: dict, vocab: int) -> None:
    good = random_logits(2, vocab)
    bad = random_logits(5, vocab)
    bad[0, 5], bad[1], bad[2, 7], bad[3], bad[4, 0], bad[4, 1] = NAN, NAN, INF, -INF, NAN, INF
    drawn = sample(torch.cat([good[:1], bad, good[1:]]), **limits)
    assert drawn == [*sample(good[:1], **limits), -1, -1, -1, -1, -1, *sample(good[1:], **limits)]


def test_the_logits_are_left_as_they_were() -> None:
    logits = random_logits(4, 64)
    before = logits.clone()
    sample(logits, 0.7, 0.9, 20)
    assert torch.equal(logits, before)


# beam candidates and suppressed tokens


def test_candidates_are_the_likeliest_tokens_with_their_log_probabilities() -> None:
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.4, 0.1, 0.3, 0.2]], device=DEVICE).log() + 5
    log_probs, tokens = sampler.top_candidates(logits, 2)
    assert tokens.tolist() == [[1, 3], [0, 2]]
    assert torch.allclose(log_probs.exp().cpu(), torch.tensor([[0.4, 0.3], [0.4, 0.3]]))


def test_a_suppressed_candidate_leaves_the_others_log_probabilities_alone() -> None:
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]], device=DEVICE).log()
    log_probs, tokens = sampler.top_candidates(logits, 9, suppressed=([0, 0], [1, 2]))
    assert tokens.tolist()[0][:2] == [3, 0] and log_probs.tolist()[0][2:] == [-INF, -INF]
    assert torch.allclose(log_probs[0, :2].exp().cpu(), torch.tensor([0.3, 0.1]))


def test_candidates_of_a_failed_row_say_so() -> None:
    logits = torch.tensor([[0.0, NAN, 1.0], [0.0, 2.0, 1.0], [-INF, -INF, -INF]], device=DEVICE)
    assert sampler.top_candidates(logits, 2)[1].tolist() == [[-1, -1], [1, 2], [-1, -1]]


def test_a_suppressed_token_is_not_drawn() -> None:
    logits = torch.tensor([[0.0, 9.0, 1.0], [0.0, 9.0, 1.0]], device=DEVICE)
    sampler.suppress(logits, [1], [1])
    assert sampler.greedy(logits)[0].tolist() == [1, 2]


# the host waits for nothing


@pytest.mark.parametrize("temperatures", [[0, 0, 0], [1, 1, 1], [0, 1, 0.5]])
def test_no_value_of_the_device_is_needed_on_the_host(temperatures: list[float]) -> None:
    """Tensors of the meta device have shapes and no values: asking for one raises."""
    logits = torch.empty(3, 256, device="meta")
    assert sampler.sample(logits, temperatures, [0.9] * 3, [5] * 3, [0.5] * 3).shape == (3,)
    assert sampler.top_candidates(logits, 8, ([0], [1]))[1].shape == (3, 8)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="waiting for a GPU can be seen on a GPU only")
def test_the_host_does_not_wait_for_the_gpu() -> None:
    logits = random_logits(3, 256).to(DEVICE)
    torch.cuda.set_sync_debug_mode("error")
    try:
        sampler.sample(logits, [0, 1, 0.5], [0.9] * 3, [5] * 3, [0.5] * 3)
    finally:
        torch.cuda.set_sync_debug_mode("default")
