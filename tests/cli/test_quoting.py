"""Distributions need no quotes on the command line."""

import pytest

from twin.cli.errors import UserError
from twin.cli.quoting import elements, quoted


@pytest.mark.parametrize(
    ("typed", "for_hydra"),
    [
        ("trace.arrivals=gamma(8,cv=2)", "trace.arrivals='gamma(8,cv=2)'"),
        ("trace.output_tokens=choice(1:0.5,200:0.5)", "trace.output_tokens='choice(1:0.5,200:0.5)'"),
        ("++trace.prompt_tokens=uniform(1, 19)", "++trace.prompt_tokens='uniform(1, 19)'"),
        ("trace.arrivals='gamma(8,cv=2)'", "trace.arrivals='gamma(8,cv=2)'"),
        ('trace.arrivals="poisson(8)"', 'trace.arrivals="poisson(8)"'),
        ("trace.priority=3", "trace.priority=3"),
        ("trace.users=zipf(1.1,n=27)", "trace.users='zipf(1.1,n=27)'"),
        ("trace.deadline_s=lognormal(median=5,sigma=1)", "trace.deadline_s='lognormal(median=5,sigma=1)'"),
        ("trace.deadline_s=2.5", "trace.deadline_s=2.5"),
        ("trace.arrivals=null", "trace.arrivals=null"),
        ("trace.path=a(1)", "trace.path=a(1)"),  # not a distribution: Hydra's own grammar holds
        ("trace.arrivals=f('x')", r"trace.arrivals='f(\'x\')'"),
        ("trace.arrivals=poisson(8", "trace.arrivals='poisson(8'"),  # the trace says what is wrong with it
        ("~trace.arrivals", "~trace.arrivals"),
    ],
)
def test_only_distributions_are_quoted_and_only_once(typed: str, for_hydra: str):
    assert quoted(typed) == for_hydra


def test_several_values_are_a_sweep_and_refused():
    with pytest.raises(UserError, match="sweep"):
        quoted("trace.arrivals=poisson(2),gamma(8,cv=2)")


def test_commas_inside_brackets_and_quotes_do_not_separate():
    assert elements("a(1,2),b,[3,(4,5)],'x,y'") == ["a(1,2)", "b", "[3,(4,5)]", "'x,y'"]
