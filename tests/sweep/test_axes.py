"""From words to the grid: Hydra's lists, ranges and globs, our names and distributions, and what is none of them."""

from pathlib import Path

import pytest

from twin.cli.capacity_axes import axes_of
from twin.cli.errors import UserError
from twin.cli.sweep_axes import axes, grid
from twin.cli.sweep_names import folder_names


def points(*words: str) -> list[tuple[str, ...]]:
    return [point.words for point in grid(*axes(words))]


def values(word: str) -> tuple[str, ...]:
    (axis,), _ = axes([word])
    return axis.values


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("trace.rate=1,2.5", ("1", "2.5")),
        ("trace.rate=range(1,5)", ("1", "2", "3", "4")),
        ("trace.rate=range(0,1,0.5)", ("0.0", "0.5")),
        ("trace.rate=choice(2,4)", ("2", "4")),
        ("policy=fcfs,sjf", ("fcfs", "sjf")),
        ("policy=fcfs,fcfs", ("fcfs",)),
        ("policy=glob([sj*,srp*,vtc],exclude=vtc)", ("sjf", "srpt")),
        ("gpu=glob(a100*)", ("a100-40g", "a100-80g")),
        ("trace.arrivals=poisson(2),gamma(8,cv=2)", ("poisson(2)", "gamma(8,cv=2)")),
        ("trace.output_tokens=choice(10:0.5,20:0.5)", ("choice(10:0.5,20:0.5)",)),
        ("trace.output_tokens=choice(10:0.5,20:0.5),7", ("choice(10:0.5,20:0.5)", "7")),
        ("trace.prompt_tokens=range(1,3)", ("1", "2")),
        ("policy.admission=watermark(share=0.05),null", ("watermark(share=0.05)", "null")),
        ("policy.alpha=0.1,0.2", ("0.1", "0.2")),
        ("trace.day_curve=[1,2]", ("[1,2]",)),
    ],
)
def test_what_a_word_means(word, expected):
    assert values(word) == expected


def test_the_grid_is_the_product_and_the_last_axis_is_the_fastest():
    assert points("seed=1", "policy=fcfs,sjf", "trace.rate=1,2") == [
        ("seed=1", "policy=fcfs", "trace.rate=1"),
        ("seed=1", "policy=fcfs", "trace.rate=2"),
        ("seed=1", "policy=sjf", "trace.rate=1"),
        ("seed=1", "policy=sjf", "trace.rate=2"),
    ]


def test_the_last_word_on_an_option_counts():
    assert points("seed=1,2", "seed=3") == [("seed=3",)]


def test_a_quoted_list_is_one_value():
    assert values("trace.path='a,b.csv'") == ("'a,b.csv'",)


def test_policies_of_the_working_directory_are_matched_too(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "zebra.py").write_text("")
    assert values("policy=glob(z*)") == ("zebra",)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("trace.rate=range(4,1)", "no value"),
        ("trace.rate=interval(1,2)", "interval"),
        ("policy=glob(zz*)", "matches none of andes"),
        ("seed=glob(*)", "take a name"),
        ("trace.arrivals=poisson(1),,poisson(2)", "empty"),
        ("--mulltirun", "unknown flag"),
        ("policy_path=nowhere_at_all policy=glob(s*)", "policy_path"),
    ],
)
def test_what_cannot_be_swept_is_told(word, said):
    with pytest.raises(UserError, match=said):
        axes(word.split())


def test_a_grid_of_millions_is_a_slip():
    with pytest.raises(UserError, match="1,000,000 jobs"):
        grid(*axes(["seed=range(0,1000)", "trace.rate=range(0,1000)"]))


def test_folders_are_named_after_what_is_swept_and_differ():
    settings = [{"trace.rate": "1"}, {"trace.path": "a/b"}, {"trace.path": "a?b"}, {"policy": "x" * 300}, {}]
    plain, slashed, asked, long, nothing = folder_names(settings)
    assert (plain, nothing) == ("trace.rate=1", "all")
    assert slashed.startswith("trace.path=a_b-") and asked.startswith("trace.path=a_b-") and slashed != asked
    assert len(long) < 140


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("range(0,inf)", "finite numbers"),
        ("range(nan,1)", "finite numbers"),
        ("range(0,1,nan)", "finite numbers"),
        ("range(1,2,0)", "a step that is not 0"),
        ("range(1,1e300)", "more than a trillion values"),
        ("range(0,1,1e-300)", "more than a trillion values"),
        ("range(1e308,-1e308,-1)", "so many values"),
        ("range(0,1000000)", "1,000,000 values"),
        ("range(4,4)", "there is no value"),
        ("range(4,1)", "there is no value"),
    ],
)
@pytest.mark.parametrize("read", [axes, lambda words: axes_of(["-m", *words])])
def test_a_range_that_is_none_is_refused_before_it_is_counted_out(value, said, read):
    with pytest.raises(UserError, match=said) as caught:
        read([f"trace.rate={value}"])
    assert str(caught.value).startswith(f"trace.rate={value}: ")


def test_a_search_for_the_best_setting_takes_a_glob_too():
    (axis,), _ = axes_of(["-m", "policy=glob([sj*,srp*])"])
    assert axis.values == ("sjf", "srpt")
