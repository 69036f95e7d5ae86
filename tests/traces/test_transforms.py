"""What transforms keep, what they change, and that their reports say so."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from traces import Prefix, Trace, open_trace
from traces.distributions import distribution
from traces.streams import Stream
from traces.transforms import OPTIONS, DayCurve, Transforms, along_day, clipped, sampled, sliced
from traces.transforms.day import CURVES, DAY_S
from traces.transforms.seconds import seconds

COUNTS = st.lists(st.integers(1, 5000), min_size=1, max_size=40)


def trace_of(lengths: list[int], sessions: int = 0, gap_s: float = 1.5) -> Trace:
    """One request every `gap_s` with these prompt lengths, in so many sessions in turn."""
    count = len(lengths)
    return Trace(
        name="t",
        arrival_s=np.arange(count) * gap_s,
        prompt_tokens=np.array(lengths),
        output_tokens=np.array(lengths[::-1]),
        session=[f"s{row % sessions}" for row in range(count)] if sessions else None,
        deadline_s=np.arange(count) * gap_s + 7,
        prefix=Prefix.of([range(-(-length // 16)) for length in lengths], lengths, 16),
    )


def test_a_slice_by_hand():
    trace = sliced(trace_of([10, 20, 30, 40, 50]), 1.5, 6.0)  # arrivals 0, 1.5, 3, 4.5, 6
    assert trace.prompt_tokens.tolist() == [20, 30, 40]
    assert trace.arrival_s.tolist() == [0, 1.5, 3]
    assert trace.deadline_s.tolist() == [7, 8.5, 10]  # as far from the arrivals as before
    assert trace.report.notes == ["time slice from 1.5 to 6 s: 3 of 5 requests"]


def test_a_slice_says_how_many_sessions_it_cuts():
    trace = sliced(trace_of([10] * 6, sessions=4), 0, 7)  # s0 s1 s2 s3 s0 | s1
    assert "1 sessions are cut by the slice" in trace.report.notes


@settings(max_examples=50, deadline=None)
@given(COUNTS, st.floats(0, 60), st.floats(0, 60))
def test_slices_put_together_are_the_trace(lengths, one, other):
    trace, (first, second) = trace_of(lengths), sorted((one, other))
    found = []
    for begin, end in ((None, first), (first, second), (second, None)):
        try:
            found += sliced(trace, begin, end).prompt_tokens.tolist()
        except ValueError as error:
            assert "leaves no request" in str(error)
    assert found == lengths


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 5), st.floats(0.05, 1))
def test_a_sample_keeps_whole_sessions_and_a_larger_share_keeps_them_too(count, sessions, seed, share):
    trace = replace(trace_of([7] * count, sessions), request_id=[f"r{row}" for row in range(count)])
    ids = []
    for larger in (share, min(1.0, 1.5 * share)):
        try:
            ids.append(sampled(trace, larger, seed).ids())
        except ValueError as error:
            assert "leaves no request" in str(error)
            ids.append([])
    kept = {name for row, name in zip(trace.ids(), trace.session, strict=True) if row in ids[0]}
    assert ids[0] == [row for row, name in zip(trace.ids(), trace.session, strict=True) if name in kept]
    assert set(ids[0]) <= set(ids[1])


def test_a_sample_takes_users_where_there_are_no_sessions_and_requests_where_there_are_none():
    trace = replace(trace_of([5] * 4000), user=[f"u{row % 400}" for row in range(4000)])
    kept = sampled(trace, 0.25, 3)
    assert len(kept) == 10 * len(set(kept.user)) and 60 < len(set(kept.user)) < 140
    assert "users" in kept.report.notes[-1]
    alone = sampled(trace_of([5] * 4000), 0.25, 3)
    assert 900 < len(alone) < 1100 and alone.arrival_s[0] == 0
    assert sampled(trace, 1.0, 3).user == trace.user


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(1, 5000), st.integers(1, 5000))
def test_clipping_keeps_every_request_and_dropping_keeps_every_length(lengths, most_prompt, most_output):
    trace = trace_of(lengths)
    cut = clipped(trace, most_prompt, most_output)
    assert cut.prompt_tokens.tolist() == [min(length, most_prompt) for length in lengths]
    assert cut.output_tokens.tolist() == [min(length, most_output) for length in lengths[::-1]]
    assert cut.arrival_s.tolist() == trace.arrival_s.tolist()
    assert all(len(cut.prefix.sequence(row)) == -(-tokens // 16) for row, tokens in enumerate(cut.prompt_tokens.tolist()))
    fitting = [
        pair for pair in zip(lengths, lengths[::-1], strict=True) if pair[0] <= most_prompt and pair[1] <= most_output
    ]
    try:
        left = clipped(trace, most_prompt, most_output, "drop")
    except ValueError as error:
        assert not fitting and "leaves no request" in str(error)
        return
    assert list(zip(left.prompt_tokens.tolist(), left.output_tokens.tolist(), strict=True)) == fitting
    assert sum(left.report.dropped.values()) == len(lengths) - len(fitting)


def test_counts_of_what_is_clipped_and_dropped():
    trace = trace_of([100, 2000, 3000])  # outputs 3000, 2000, 100
    assert clipped(trace, 2000, 1000).report.notes == [
        "clipped to 2,000 prompt tokens: 1 requests",
        "clipped to 1,000 output tokens: 2 requests",
    ]
    assert clipped(trace, 2000, 2500, "drop").report.dropped == {
        "prompt of more than 2,000 tokens": 1,
        "output of more than 2,500 tokens": 1,
    }


def test_a_clipped_prompt_shares_less():
    trace = trace_of([64, 64])
    assert trace.prefix.shareable_tokens().tolist() == [64, 64]
    assert clipped(trace, 40, None).prefix.shareable_tokens().tolist() == [32, 32]  # whole blocks of 16


def test_a_day_curve_by_hand():
    curve = DayCurve.of([3] * 12 + [1] * 12)  # one and a half times the mean, then half of it
    assert curve.factors[0] == 1.5 and curve.factors[23] == 0.5
    assert float(curve.load(12 * 3600)) == 18 * 3600
    assert curve.warp(np.array([0.0, 18 * 3600, 21 * 3600, DAY_S + 1800])).tolist() == [
        0,
        12 * 3600,
        18 * 3600,
        DAY_S + 1200,
    ]


def test_hours_without_load_get_no_arrival():
    times = DayCurve.of([0] + [1] * 22 + [0]).warp(np.linspace(0, 3 * DAY_S, 5000, endpoint=False))
    hours = times % DAY_S // 3600
    assert set(hours) == set(range(1, 23)) and np.all(np.diff(times) >= 0)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0.01, 20), min_size=24, max_size=24),
    st.lists(st.floats(0, 5 * DAY_S), min_size=1, max_size=50),
)
def test_warping_keeps_count_order_whole_days_and_has_an_inverse(factors, times):
    curve, even = DayCurve.of(factors), np.sort(times)
    warped = curve.warp(even)
    assert len(warped) == len(even) and np.all(np.diff(warped) >= 0)
    assert curve.warp(np.arange(6) * DAY_S).tolist() == (np.arange(6) * DAY_S).tolist()
    assert curve.load(warped) == pytest.approx(even, rel=1e-9, abs=1e-4)


@pytest.mark.parametrize("name", CURVES)
def test_the_hours_of_a_poisson_day_have_their_shares(name):
    trace = open_trace("synthetic", arrivals="poisson(2)", day_curve=name, duration_s=DAY_S)
    shares = np.bincount((trace.arrival_s // 3600).astype(int), minlength=24) / len(trace) * 24
    assert shares == pytest.approx(np.array(DayCurve.of(name).factors), rel=0.06)
    assert len(trace) == pytest.approx(2 * DAY_S, rel=0.02)


def test_arrivals_along_a_day_move_deadlines_with_them():
    trace = along_day(trace_of([5] * 10, gap_s=9000), DayCurve.of("servegen_small"))
    assert (trace.deadline_s - trace.arrival_s).tolist() == pytest.approx([7] * 10)


def test_zipf_against_scipy_and_the_users_it_gives():
    draws = distribution("zipf(1.1,n=27)", "x").sample(Stream(0, "z"), np.arange(50_000))
    expected = stats.zipfian(1.1, 27).pmf(np.arange(1, 28)) * 50_000
    assert stats.chisquare(np.bincount(draws, minlength=28)[1:], expected).pvalue > 0.001
    trace = open_trace("chat", num_requests=2000, users="zipf(1.1,n=27)")
    assert set(trace.user) <= {f"user{number}" for number in range(1, 28)}
    assert max(trace.user.count(name) for name in set(trace.user)) == trace.user.count("user1")


def test_a_session_has_one_user():
    trace = Transforms(users="uniform(1,5)").assign(trace_of([5] * 300, sessions=30), seed=0)
    assert len(set(zip(trace.session, trace.user, strict=True))) == 30 and len(set(trace.user)) == 5


def test_priorities_and_deadlines_follow_their_distributions():
    trace = open_trace("chat", num_requests=4000, priority="choice(0:0.25,7:0.75)", deadline_s="uniform(2,4)", rate=3)
    assert np.count_nonzero(trace.priority == 7) == pytest.approx(3000, rel=0.04)
    after = trace.deadline_s - trace.arrival_s
    assert after.min() >= 2 and after.max() <= 4 + 1e-9 and after.mean() == pytest.approx(3, rel=0.01)
    assert open_trace("chat", num_requests=5, deadline_s=2.5).deadline_s[0] == 2.5


@pytest.mark.parametrize(
    ("text", "frozen"),
    [
        ("uniform(1,10)", stats.uniform(1, 9)),
        ("exponential(5)", stats.expon(scale=5)),
        ("lognormal(median=5,sigma=0.7)", stats.lognorm(0.7, scale=5)),
    ],
)
def test_times_follow_scipys_distributions(text, frozen):
    drawn = seconds(text, "trace.deadline_s").sample(Stream(1, "d"), np.arange(5000))
    assert stats.kstest(drawn, frozen.cdf).pvalue > 0.001


def test_draws_depend_on_the_seed_and_the_request_alone():
    options = {"users": "zipf(1,n=9)", "priority": "uniform(0,9)", "deadline_s": "exponential(5)", "sample": 0.5}
    short, long = (open_trace("chat", num_requests=count, seed=4, **options) for count in (50, 500))
    assert short.user == long.user[:50] and short.priority.tolist() == long.priority[:50].tolist()
    assert short.deadline_s.tolist() == long.deadline_s[:50].tolist()
    assert open_trace("chat", num_requests=50, seed=5, **options).user != short.user


def test_the_order_is_slice_sample_clip_count_rate_day_duration_deadline():
    options = {"from_s": 60, "sample": 0.5, "max_prompt_tokens": 2000, "clip": "drop", "rate": 2, "duration_s": 100}
    trace = open_trace("chat", deadline_s=3, **options)
    assert len(trace) == 200 and trace.arrival_s[0] == 0
    assert trace.prompt_tokens.max() <= 2000 and (trace.deadline_s - trace.arrival_s) == pytest.approx(3)
    assert list(trace.report.dropped) == ["prompt of more than 2,000 tokens"]
    said = " | ".join(trace.report.notes)
    places = [said.index(words) for words in ("time slice", "sample of", "rescaled", "deadlines drawn")]
    assert places == sorted(places)


def test_generators_make_as_many_as_are_left_over_and_a_slice_may_end_before():
    assert len(open_trace("chat", num_requests=300, sample=0.05)) == 300
    assert open_trace("chat", to_s=60).arrival_s[-1] < 60
    whole = open_trace("chat", num_requests=2000)
    part = open_trace("chat", from_s=60, num_requests=100)
    first = int(np.searchsorted(whole.arrival_s, 60))
    assert part.prompt_tokens.tolist() == whole.prompt_tokens[first : first + 100].tolist()


def test_a_file_is_selected_before_it_is_counted(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{row},{row + 1},2\n" for row in range(20)))
    trace = open_trace("file", path=str(file), from_s=5, num_requests=3)
    assert trace.prompt_tokens.tolist() == [6, 7, 8] and trace.arrival_s.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"from_s": -1}, "trace.from_s is -1"),
        ({"from_s": 5, "to_s": 5}, "trace.to_s is 5, must be more than trace.from_s, 5"),
        ({"to_s": 0}, "trace.to_s is 0"),
        ({"to_s": "late"}, "trace.to_s is late"),
        ({"sample": 1.5}, "trace.sample is 1.5, must be a share"),
        ({"sample": 0}, "trace.sample is 0"),
        ({"max_prompt_tokens": 0}, "trace.max_prompt_tokens is 0"),
        ({"max_output_tokens": 2.5}, "trace.max_output_tokens is 2.5"),
        ({"clip": "cut"}, "trace.clip=cut: allowed are clip, drop"),
        ({"users": "zipf(1.1)"}, "trace.users=zipf(1.1): zipf needs n"),
        ({"priority": "choice(0:0.5)"}, "trace.priority=choice(0:0.5): the probabilities sum to 0.5"),
        ({"deadline_s": "geometric(3)"}, "trace.deadline_s=geometric(3): there is no geometric"),
        ({"deadline_s": -1}, "must be at least 0 s"),
        ({"day_curve": [1] * 23}, "must be 24 hourly factors or one of servegen_small"),
        ({"day_curve": [1] * 23 + [-1]}, "has the factor -1"),
        ({"day_curve": [0] * 24}, "is 0 at every hour"),
        ({"day_curve": "weekend"}, "trace.day_curve=weekend"),
        ({"from_s": 1e9}, "leaves no request"),
        ({"max_prompt_tokens": 1, "clip": "drop"}, "leaves no request"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(options, problem):
    with pytest.raises(ValueError) as caught:
        open_trace("chat", num_requests=100, **options)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"from_s": 1}, {"sample": 0.5}, {"day_curve": [1] * 24}, {"deadline_s": 2}])
def test_a_closed_loop_has_no_arrivals_to_transform(options):
    with pytest.raises(ValueError, match="does not go with closed"):
        open_trace("synthetic", arrivals="closed(4)", **options)


def test_every_option_leaves_the_trace_alone_when_it_is_not_given():
    plain = open_trace("chat", num_requests=50)
    nothing = open_trace("chat", num_requests=50, **dict.fromkeys(OPTIONS))
    assert all(np.array_equal(getattr(nothing, name), values) for name, values in plain.columns().items())
    assert nothing.report.notes == plain.report.notes
