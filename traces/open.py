"""The one entry: a trace by name, as the command line asks for it."""

import inspect
import math
from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np

from traces.generators import GENERATORS
from traces.streams import Stream
from traces.trace import ON_ERROR, Trace
from traces.transforms import OPTIONS, Transforms
from traces.transforms.mix import mixed, own_rate

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
    parts: Sequence[Mapping[str, object]] | None = None,
    **parameters: object,
) -> Trace:
    """The trace `name`: a generator's (`chat`, `synthetic`), `file`, which reads `path`, or `mix`, of several `parts`.

    `num_requests` keeps the first of them (generators: makes so many, 10,000 by default or what fills `duration_s`);
    `rate` then rescales the arrivals to exactly this mean rate in requests/s; `duration_s` then keeps what arrives
    before that time. `format` names the file's format (default: found by content); `on_error` is `error` or `skip`
    (count and drop malformed rows). A part of a mix is a mapping of a `name`, a `weight` (default 1) and options of
    its own. `parameters` are those of `traces.transforms.Transforms`, applied in the order that it says, and those of
    the generator or the reader; None means not given.

    Raises ValueError with one line that says what is wrong, where, and what would be right.
    """
    given = {key: value for key, value in parameters.items() if value is not None}
    transforms = Transforms(**{key: given.pop(key) for key in OPTIONS if key in given})  # type: ignore[arg-type]
    check(num_requests, duration_s, rate, seed)
    if on_error not in ON_ERROR:
        raise ValueError(f"trace.on_error={on_error}: allowed are {', '.join(ON_ERROR)}")
    if name != "mix" and parts is not None:
        raise ValueError(f"trace={name} has no parts: use trace=mix for trace.parts")
    if name != "file" and (path is not None or format is not None):
        raise ValueError(f"trace={name} reads no file: use trace=file for trace.path and trace.format")
    even_s = None if duration_s is None else transforms.even_s(duration_s)  # the duration, before the day's curve
    if name == "file":
        if path is None:
            raise ValueError("trace=file needs trace.path")
        from traces.readers import read_file

        trace = transforms.select(read_file(str(path), format, on_error, **given), seed).limit(num_requests)
    elif name == "mix":
        check_options("trace=mix", mix, given)
        trace = transforms.select(mix(parts, rate, num_requests, even_s, seed), seed)
    elif name in GENERATORS:
        trace = generated(name, rate, num_requests, even_s, seed, given, transforms)
    else:
        raise ValueError(f"there is no trace {name!r}; there are {', '.join([*GENERATORS, 'mix', 'file'])}")
    trace = transforms.assign(trace, seed)
    if rate is not None:
        trace = trace.rescaled(rate)
    trace = transforms.along_day(trace).limit(duration_s=duration_s)
    return transforms.set_deadlines(trace, seed)


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
    name: str,
    rate: float | None,
    num_requests: int | None,
    duration_s: float | None,
    seed: int,
    given: dict,
    transforms: Transforms,
) -> Trace:
    """A generator's trace, long enough for what is wanted: so many requests after selection, or a whole duration."""
    generator: ModuleType = GENERATORS[name]
    check_options(f"trace={name}", generator.generate, given)
    wanted = number_wanted(rate, num_requests, duration_s)
    count, last_s = wanted or DEFAULT_REQUESTS, 0.0
    most = MOST_REQUESTS if not transforms.selects else min(MOST_REQUESTS, max(1_000_000, 64 * count))
    while count <= most:
        made = generator.generate(count, seed, rate, **given)
        try:
            trace = transforms.select(made, seed)
        except ValueError:
            if not transforms.selects or made.closed is not None or count * 2 > most:
                raise
            count *= 2  # nothing of so few was selected
            continue
        ended = not transforms.selects or (transforms.to_s is not None and made.arrival_s[-1] >= transforms.to_s)
        if wanted is not None:
            if ended or len(trace) >= wanted:
                return trace.limit(wanted)
        elif ended and transforms.selects:
            return trace
        elif duration_s is not None and not last_s < trace.arrival_s[-1] < duration_s:
            return trace  # long enough, or all at once, or a closed loop
        count, last_s = count * 2, float(trace.arrival_s[-1])
    what = f"num_requests={num_requests}" if wanted is not None else f"duration_s={duration_s}"
    raise ValueError(f"trace.{what} needs more than {most:,} requests of {name}")


def number_wanted(rate: float | None, num_requests: int | None, duration_s: float | None) -> int | None:
    """How many requests are wanted; None: as many as arrive in `duration_s`."""
    if num_requests is not None or duration_s is None:
        return num_requests or DEFAULT_REQUESTS
    if rate is None:
        return None
    count = math.ceil(rate * duration_s)  # rescaled to exactly this rate, so many arrive before duration_s
    if count > MOST_REQUESTS:
        raise ValueError(f"trace.rate={rate} for trace.duration_s={duration_s} makes {count:,} requests: too many")
    return count


def mix(
    parts: Sequence[Mapping[str, object]] | None,
    rate: float | None,
    num_requests: int | None,
    duration_s: float | None,
    seed: int,
) -> Trace:
    """The parts, each opened with its share of the requests and a seed of its own, superposed."""
    weights = part_weights(parts)
    assert parts is not None
    wanted = number_wanted(rate, num_requests, duration_s)
    if wanted is None:  # how many, the parts' own rates say
        trial = [opened(part, seed, row, 1000) for row, part in enumerate(parts)]
        wanted = number_wanted(sum(map(own_rate, trial)), num_requests, duration_s) or DEFAULT_REQUESTS
    counts = [max(2, round(wanted * weight / sum(weights))) for weight in weights]
    traces = [opened(part, seed, row, count) for row, (part, count) in enumerate(zip(parts, counts, strict=True))]
    return mixed(traces, weights, rate).limit(wanted)


def part_weights(parts: object) -> list[float]:
    """The weights of the parts; raises ValueError when they are no parts."""
    form = "[{name: chat, weight: 3}, {name: code, weight: 1}]"
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not parts:
        raise ValueError(f"trace=mix needs trace.parts, e.g. {form}")
    weights = []
    for part in parts:
        if not isinstance(part, Mapping) or "name" not in part:
            raise ValueError(f"trace.parts has {part}: each part has a name and a weight, e.g. {form}")
        for key in ("rate", "num_requests", "duration_s", "seed", "parts"):
            if key in part:
                raise ValueError(f"trace.parts: {key} is not an option of a part, but of the whole mix")
        weight = part.get("weight", 1)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise ValueError(f"trace.parts: the weight of {part['name']} is {weight}, must be more than 0")
        weights.append(float(weight))
    return weights


def opened(part: Mapping[str, object], seed: int, row: int, count: int) -> Trace:
    """Part number `row` of a mix; equal parts differ in their seeds."""
    options = {str(key): value for key, value in part.items() if key != "weight"}
    own_seed = int(Stream(seed, "mix").uniforms(np.array([row]))[0] * 2**31)
    return open_trace(**options, num_requests=count, seed=own_seed)  # type: ignore[arg-type]


def check_options(what: str, function: object, given: dict) -> None:
    """Raises ValueError unless every name of `given` is a keyword-only parameter of `function`."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    known = [p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for key in given:
        if key not in known:
            raise ValueError(f"{what} has no option trace.{key}; its own are {', '.join(known) or 'none'}")
