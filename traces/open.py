"""The one entry: a trace by name, as the command line asks for it."""

import inspect
import math
from types import ModuleType

from traces.generators import GENERATORS
from traces.readers import read_file
from traces.readers.rows import ON_ERROR
from traces.trace import Trace

DEFAULT_REQUESTS = 10_000
MOST_REQUESTS = 50_000_000


def open_trace(
    name: str,
    path: str | None = None,
    format: str | None = None,
    rate: float | None = None,
    num_requests: int | None = None,
    duration_s: float | None = None,
    seed: int = 0,
    on_error: str = "error",
    **parameters: object,
) -> Trace:
    """The trace `name`: a generator's (`chat`, `synthetic`), or `file`, which reads `path`.

    `num_requests` keeps the first of them (generators: makes so many, 10,000 by default or what fills `duration_s`);
    `rate` then rescales the arrivals to exactly this mean rate in requests/s; `duration_s` then keeps what arrives
    before that time. `format` names the file's format (default: found by content); `on_error` is `error` or `skip`
    (count and drop malformed rows). `parameters` go to the generator or the reader; None means not given.

    Raises ValueError with one line that says what is wrong, where, and what would be right.
    """
    given = {key: value for key, value in parameters.items() if value is not None}
    check(num_requests, duration_s, rate, seed)
    if on_error not in ON_ERROR:
        raise ValueError(f"trace.on_error={on_error}: allowed are {', '.join(ON_ERROR)}")
    if name == "file":
        if path is None:
            raise ValueError("trace=file needs trace.path")
        trace = read_file(str(path), format, on_error, **given).limit(num_requests)
    elif name in GENERATORS:
        if path is not None or format is not None:
            raise ValueError(f"trace={name} reads no file: use trace=file for trace.path and trace.format")
        trace = generated(name, rate, num_requests, duration_s, seed, given)
    else:
        raise ValueError(f"there is no trace {name!r}; there are {', '.join([*GENERATORS, 'file'])}")
    if rate is not None:
        trace = trace.rescaled(rate)
    return trace.limit(duration_s=duration_s)


def check(num_requests: int | None, duration_s: float | None, rate: float | None, seed: int) -> None:
    """Raises ValueError for what makes no sense in any trace."""
    for option, count in (("trace.num_requests", num_requests), ("seed", seed)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            raise ValueError(f"{option} is {count}, must be an integer")
    if num_requests is not None and not 1 <= num_requests <= MOST_REQUESTS:
        raise ValueError(f"trace.num_requests is {num_requests}, must be from 1 to {MOST_REQUESTS:,}")
    for option, value, unit in (("trace.duration_s", duration_s, "seconds"), ("trace.rate", rate, "requests/s")):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ValueError(f"{option} is {value}, must be a number of more than 0 {unit}")


def generated(
    name: str, rate: float | None, num_requests: int | None, duration_s: float | None, seed: int, given: dict
) -> Trace:
    """A generator's trace, long enough for `duration_s` if no number of requests is given."""
    generator: ModuleType = GENERATORS[name]
    check_options(f"trace={name}", generator.generate, given)
    if num_requests is not None or duration_s is None:
        return generator.generate(num_requests or DEFAULT_REQUESTS, seed, rate, **given)
    if rate is not None:  # rescaled to exactly this rate, so many arrive before duration_s
        count = math.ceil(rate * duration_s)
        if count > MOST_REQUESTS:
            raise ValueError(f"trace.rate={rate} for trace.duration_s={duration_s} makes {count:,} requests: too many")
        return generator.generate(count, seed, rate, **given)
    count, last_s = DEFAULT_REQUESTS, 0.0
    while count <= MOST_REQUESTS:
        trace = generator.generate(count, seed, rate, **given)
        if not last_s < trace.arrival_s[-1] < duration_s:  # long enough, or all at once, or a closed loop
            return trace
        count, last_s = count * 2, float(trace.arrival_s[-1])
    raise ValueError(f"trace.duration_s={duration_s} needs more than {MOST_REQUESTS:,} requests of {name}")


def check_options(what: str, function: object, given: dict) -> None:
    """Raises ValueError unless every name of `given` is a keyword-only parameter of `function`."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    known = [p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for key in given:
        if key not in known:
            raise ValueError(f"{what} has no option trace.{key}; its own are {', '.join(known) or 'none'}")
