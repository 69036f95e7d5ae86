"""What a policy may not ask: the clock, chance without a seed, copies of its process; and what to do instead."""

CLOCK = "a policy gets the time as view.now"
COPY = "the copy would go on scheduling too"
CHANCE = "draw from random.Random(seed) of its own, seeded by a parameter and the request's id"

CLOCKS = {
    "time": (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns",
        "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime", "sleep",
    ),
    "datetime.datetime": ("now", "utcnow", "today"),
    "datetime.date": ("today",),
}  # fmt: skip
CHANCES = {
    "random": (
        "random", "uniform", "triangular", "randint", "choice", "randrange", "sample", "shuffle", "choices", "normalvariate",
        "lognormvariate", "expovariate", "vonmisesvariate", "gammavariate", "gauss", "betavariate", "paretovariate",
        "weibullvariate", "getrandbits", "randbytes", "seed", "binomialvariate", "SystemRandom",
    ),
    "os": ("urandom", "getrandom"),
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice"),
    "numpy.random": (
        "random", "rand", "randn", "randint", "choice", "shuffle", "permutation", "uniform", "normal", "exponential", "seed",
        "poisson", "random_sample",
    ),
}  # fmt: skip
COPIES = {"os": ("fork", "forkpty")}
SEEDED = ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState")  # fine with a seed


def words_for(name: str, with_seed: bool = False) -> str | None:
    """What is wrong with the use of the thing of that dotted name, or None. `with_seed`: it is called with arguments."""
    module, _, thing = name.rpartition(".")
    if thing in CLOCKS.get(module, ()):
        return f"reads the clock: {name}; {CLOCK}"
    if thing in CHANCES.get(module, ()) or (name in SEEDED and not with_seed):
        return f"draws without a seed: {name}; {CHANCE}"
    if thing in COPIES.get(module, ()):
        return f"copies its process: {name}; {COPY}"
    return None
