"""What a time budget buys, by hand."""

from engine.profile.composition import Composition
from engine.profile.plan import Costs, costs, probes, select
from twin.core.limits import Limits

LIMITS = Limits(64, 16, num_host_blocks=8, max_num_seqs=32, max_num_batched_tokens=256, max_model_len=512)


def test_probes_fit_the_limits_and_differ_in_one_respect():
    base, chunk, context, pairs, swap = probes(LIMITS)
    assert (base.decodes, base.decode_context) == (1, 16)
    assert chunk == Composition("prefill", prompts=1, chunk=128)
    assert context == Composition("decode", 8, 128)  # 64 blocks for 8
    assert pairs == Composition("prefill", prompts=1, chunk=128, chunk_before=384)
    assert swap == Composition("swap", 1, 16, blocks_out=8, scattered=True)
    assert all(point is not None and point.fits(LIMITS) for point in probes(LIMITS))


def test_probes_that_the_limits_do_not_allow_are_left_out():
    least = probes(Limits(1, 4, max_num_seqs=1, max_num_batched_tokens=1, max_model_len=3))
    assert least == (
        Composition("decode", 1, 3),
        None,
        None,
        Composition("prefill", prompts=1, chunk=1, chunk_before=2),
        None,
    )


def test_costs_of_probes_are_found_again():
    """Times made of known terms. The pairs within the probe's own chunk count to its tokens: 128 * 64 for 128 of them."""
    truth = Costs(0.01, 1e-4, 2e-6, 1e-8, 3e-4)
    chosen = probes(LIMITS)
    found = costs(chosen, {point: truth.of(point) for point in chosen if point is not None})
    base_s = 0.01 + 1e-4 + 16 * 2e-6
    assert abs(found.base_s - base_s) < 1e-12
    chunk_s = 0.01 + 128 * 1e-4 + 128 * 64 * 1e-8
    assert abs(found.per_token_s - (chunk_s - base_s) / 128) < 1e-12
    assert abs(found.per_block_s - 3e-4) < 1e-9
    for point in (Composition("decode", 8, 128), Composition("prefill", prompts=1, chunk=128, chunk_before=384)):
        assert abs(found.of(point) - truth.of(point)) < 1e-9


def test_costs_are_never_negative():
    chosen = probes(LIMITS)
    seconds = {point: 0.01 / (1 + number) for number, point in enumerate(chosen) if point is not None}
    assert costs(chosen, seconds) == Costs(0.01)


def decode(batch: int) -> Composition:
    return Composition("decode", batch, 16)


def test_all_points_where_there_is_time():
    chosen = select({"a": [decode(1), decode(2)], "b": [decode(3)]}, Costs(1.0), rounds=6, budget_s=1000)
    assert chosen.points == [decode(1), decode(3), decode(2)]  # the groups in turn
    assert (chosen.planned, chosen.too_long, chosen.over_budget, chosen.seconds) == (3, 0, 0, 18.0)


def test_groups_that_most_steps_are_of_get_two_points_a_turn():
    groups = {"decode": [decode(batch) for batch in range(1, 20)], "swap": [decode(batch) for batch in range(101, 120)]}
    chosen = select(groups, Costs(1.0), rounds=1, budget_s=10.5)
    assert [point.decodes for point in chosen.points] == [1, 2, 101, 3, 4, 102, 5, 6, 103, 7]


def test_a_point_in_two_groups_is_measured_once():
    chosen = select({"a": [decode(1), decode(2)], "b": [decode(1), decode(3)]}, Costs(1.0), rounds=1, budget_s=100)
    assert chosen.points == [decode(1), decode(3), decode(2)] and chosen.planned == 3


def test_as_many_points_as_the_budget_allows_spread_over_the_groups():
    groups = {"a": [decode(batch) for batch in range(1, 51)], "b": [decode(batch) for batch in range(101, 151)]}
    chosen = select(groups, Costs(0.1), rounds=5, budget_s=10.2)
    assert len(chosen.points) == 20  # half a second each
    assert {point.decodes for point in chosen.points} == {*range(1, 11), *range(101, 111)}
    assert chosen.over_budget == 80 and chosen.seconds <= 10.2


def test_long_points_are_left_out_and_counted():
    """A token costs 0.1 s: with six rounds more than a tenth of 60 s from 11 tokens on."""
    chosen = select({"a": [decode(batch) for batch in (1, 10, 11, 100)]}, Costs(0.0, 0.1), rounds=6, budget_s=60)
    assert chosen.points == [decode(1), decode(10)] and chosen.too_long == 2
