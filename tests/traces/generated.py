"""What the tests of several generators ask of them."""

import json

import numpy as np
import pytest

from tests.shared import shared
from traces.generators import GENERATORS
from traces.generators.fit import Lengths, figures
from traces.statistics import statistics
from traces.trace import Trace


def published(name: str) -> dict:
    """The statistics of a public trace as they were measured beside the fits."""
    return json.loads(shared("reference", "stats.json").read_text())[name]


def assert_shorter_is_a_beginning(name: str, **options: object) -> None:
    """The first 100 requests of 1,000 are those of 100, and another seed gives others."""
    generate = GENERATORS[name].generate
    short, long = generate(100, 3, **options), generate(1000, 3, **options)
    assert len(short) == 100 and len(long) == 1000
    for column, values in short.columns().items():
        assert np.array_equal(np.asarray(values), np.asarray(getattr(long, column)[:100]), equal_nan=False), column
    assert not np.array_equal(generate(100, 4, **options).prompt_tokens, short.prompt_tokens)


def assert_tables_are_quantile_functions(name: str) -> None:
    """Levels rise from 0 to 1, tokens never fall; outputs have sixteen parts."""
    lengths = Lengths.of(figures(name)["lengths"])
    assert len(lengths.output) == 16
    for quantiles in (lengths.prompt, *lengths.output):
        assert len(quantiles.levels) == len(quantiles.values) and (quantiles.levels[0], quantiles.levels[-1]) == (0, 1)
        assert np.all(np.diff(quantiles.levels) > 0) and np.all(np.diff(quantiles.values) >= 0)


def assert_published_quantiles(trace: Trace, real: dict, relative: float, names: tuple[str, ...]) -> None:
    """Percentiles and means of both lengths, and their rank correlation, are the source's."""
    ours = statistics(trace)
    for column, key in (("prompt_tokens", "input"), ("output_tokens", "output")):
        for name in names:
            assert ours[column][name] == pytest.approx(real[key][name], rel=relative, abs=1), (column, name)
    assert ours["spearman"] == pytest.approx(real["spearman_in_out"], abs=0.03)


def assert_among_generated_hours(name: str, real: dict, hours: int = 100) -> dict[str, float]:
    """The source is one hour: its rate and burstiness must lie among those of generated hours, between the 2nd and 98th
    percentile. Returns the medians."""
    generated = [statistics(GENERATORS[name].generate(real["n"], seed)) for seed in range(hours)]
    wanted = {key: real[key] for key in ("rate", "gap_cv", "fano_10s", "fano_60s")} | {"acf_60s": real["acf_60s"]["1"]}
    for key, value in wanted.items():
        low, high = np.percentile([hour[key] for hour in generated], [2, 98])
        assert low < value < high, (key, low, value, high)
    return {key: float(np.median([hour[key] for hour in generated])) for key in wanted}
