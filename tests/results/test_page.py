"""Pages: escaped, alone, and what a chart hands to the browser."""

import base64
import json

import numpy as np
import pytest

from tests.results.parsed import Parsed
from twin.results import charts, page
from twin.results.charts import Axis, Heat, Panel, Rule, Series, chart

EVIL = "</script><script>alert(1)</script>&\u2028"


def test_a_page_without_figures_has_neither_scripts_nor_the_library():
    parsed = Parsed(page.document("A page", [page.heading("x"), page.table(("a", "b"), [("c", "1")], sortable=False)]))
    assert parsed.scripts == [] and parsed.library == ""
    assert parsed.tables == [[["a", "b"], ["c", "1"]]]


def test_a_page_with_a_table_that_sorts_has_one_script():
    text = page.document("A page", [page.table(("a", "b"), [("c", "1")])])
    assert len(Parsed(text).scripts) == 1 and len(text) < 20_000


def test_a_page_with_figures_has_the_library_and_its_licence():
    text = page.document("A page", [chart([Panel("p")])])
    parsed = Parsed(text)
    assert "Bokeh.Plotting" in "".join(parsed.scripts) and "embed" in parsed.library
    assert "Redistributions in binary form must reproduce" in text  # from the licence, as text and not packed
    assert len(text) < 1_200_000


def test_nothing_in_a_chart_is_markup():
    series = Series(EVIL, [1.0], [2.0], texts=[EVIL], labels=[EVIL])
    panel = Panel(EVIL, [series], Axis(EVIL), Axis(EVIL), [Rule(EVIL, x=1.0)], note=EVIL)
    heat = Panel("h", heat=Heat([EVIL], [EVIL], [[1.0]], EVIL))
    parsed = Parsed(page.document(EVIL, [chart([panel, heat], EVIL)]))
    assert parsed.panels()[0]["series"][0]["texts"] == [EVIL] and len(parsed.scripts) == 1


def test_a_caller_adds_style_and_scripts_of_its_own():
    parsed = Parsed(page.document("A page", ["<p>x</p>"], style="p { color: red; }", scripts=["1 + 1;"]))
    assert parsed.scripts == ["1 + 1;"]


def test_numbers_keep_seven_digits_and_what_is_not_finite_is_null():
    given = Series("s", np.array([1.0, 2.0, 3.0, 123456789.0]), [1 / 3, np.nan, np.inf, 4], low=[0, 0, 0, 0.5], high=[1] * 4)
    (panel,) = Parsed(page.document("A page", [chart([Panel("p", [given])])])).panels()
    (series,) = panel["series"]
    assert series["y"] == [0.3333333, None, None, 4.0] and series["x"] == [1.0, 2.0, 3.0, 123456800.0]
    assert series["low"] == [0.0, 0.0, 0.0, 0.5] and series["high"] == [1, 1, 1, 1]


def test_bars_stand_over_names_and_cells_may_be_missing():
    bars = Panel("bars", [Series("tokens", ["ann", "bob"], [3, 4], "bars")])
    heat = Panel("heat", heat=Heat(["64", "128"], ["1024"], [[24.1, float("nan")]], "req/s", (0, 0)))
    first, second = Parsed(page.document("A page", [chart([bars, heat], columns=2)])).panels()
    assert first["series"][0]["x"] == ["ann", "bob"] and first["series"][0]["y"] == [3, 4]
    assert second["heat"] == {"x": ["64", "128"], "y": ["1024"], "values": [[24.1, None]], "unit": "req/s", "marked": [0, 0]}


def test_the_same_page_gives_the_same_bytes():
    def made() -> str:
        charts.library.cache_clear()
        return page.document("A page", [chart([Panel("p", [Series("s", [1.0], [2.0])])], "caption")])

    assert made() == made()


def test_colours_do_not_run_out():
    assert [charts.colour(index) for index in (0, 1, len(charts.CYCLE))] == ["blue", "orange", "blue"]
    assert [charts.dashed(index) for index in (0, len(charts.CYCLE))] == [False, True]
    script = page.asset("charts.js")
    assert all(script.count(f" {name}: ") + script.count(f"\n             {name}: ") >= 2 for name in charts.CYCLE)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    charts.library.cache_clear()
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install bokeh"):
        charts.library()


def test_data_is_json_without_markup():
    block = charts.data_block({"x": EVIL})
    inside = block.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert "<" not in inside and json.loads(inside) == {"x": EVIL}
    assert base64.b64decode(charts.library().packed)[:2] == b"\x1f\x8b"
