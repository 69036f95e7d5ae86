"""Mean times in a single server with Poisson arrivals, in closed form, for lengths in whole steps.

`law[k]` is the probability of k steps (k = 0: none); `rate` arrivals a second, steps of `step_s` seconds. Preemption comes
between steps alone, so the continuous formulas of the sources hold up to terms of a step; here those are worked out, with
the sources' own arguments, and the formulas are exact. Notation: q a step, O the length, rho(k) the load of requests of at
most k steps, W0 = rate E[S²] / 2 the mean rest of the service under way.
"""

import numpy as np

Law = np.ndarray


def geometric(mean: float, most: int) -> Law:
    lengths = np.arange(1, most + 1)
    law = np.concatenate([[0.0], (1 - 1 / mean) ** (lengths - 1) / mean])
    return law / law.sum()


def choice(shares: dict[int, float]) -> Law:
    law = np.zeros(max(shares) + 1)
    for length, share in shares.items():
        law[length] = share
    return law


def moments(law: Law) -> tuple[float, float]:
    lengths = np.arange(len(law))
    return float(law @ lengths), float(law @ lengths**2)


def load_up_to(law: Law, rate: float, step_s: float) -> np.ndarray:
    """rho(k) of k = 0, 1, ..."""
    return rate * step_s * np.cumsum(law * np.arange(len(law)))


def fcfs(law: Law, rate: float, step_s: float) -> float:
    """Pollaczek (1930), Khinchine (1932)."""
    mean, square = (moment * step_s**power for power, moment in enumerate(moments(law), start=1))
    return mean + rate * square / 2 / (1 - rate * mean)


def sjf(law: Law, rate: float, step_s: float) -> float:
    """Phipps (1956): a request of k steps waits W0 / ((1 - rho(k - 1)) (1 - rho(k))): Cobham's, a class a size."""
    mean, square = moments(law)
    load = load_up_to(law, rate, step_s)
    waits = rate * square * step_s**2 / 2 / ((1 - load[:-1]) * (1 - load[1:]))
    return mean * step_s + float(law[1:] @ waits)


def sjf_with_exponential_predictions(law: Law, rate: float, step_s: float) -> float:
    """Mitzenmacher (2020), shortest predicted job first: W0 times the mean over predictions y of 1 / (1 - rho'(y))², rho'(y)
    the load of those whose prediction is at most y; here predictions are exponential with the true length as mean."""
    mean, square = moments(law)
    lengths = np.arange(1, len(law))
    waits = []
    predictions = np.exp(np.linspace(np.log(1e-3), np.log(100 * len(law)), 2000))
    for y in predictions:
        beyond = np.exp(-y / lengths)
        load = rate * step_s * float(law[1:] @ (lengths * (1 - beyond)))
        waits.append(float(law[1:] @ (beyond / lengths)) * y / (1 - load) ** 2)
    return mean * step_s + rate * square * step_s**2 / 2 * float(np.trapezoid(waits, np.log(predictions)))


def srpt(law: Law, rate: float, step_s: float) -> float:
    """Schrage and Miller (1966), in steps.

    A request of n steps first waits for what it finds that goes before it: shorter and equal requests, and larger ones
    from the step on that leaves them n. Such a one holds up newcomers for n + 1 steps on end; its steps before that for
    the rest of one each. That delay is D = (sum over k <= n of p(k) (k q)² + P(O > n) ((n + 1) q)² + sum over k > n + 1 of
    p(k) (k - n - 1) q²) rate / 2 / (1 - rho(n)), and D / (1 - rho(n - 1)) with those that come meanwhile and are shorter.
    Then, from the step that leaves r to the next, it is held up by newcomers of at most r - 1: q / (1 - rho(r - 1)).
    """
    q, lengths, longest = step_s, np.arange(len(law)), len(law) - 1
    load = load_up_to(law, rate, q)
    squares = np.cumsum(law * (lengths * q) ** 2)
    above = 1 - np.cumsum(law)  # P(O > n)
    excess = np.zeros(longest + 1)  # sum over k > n + 1 of p(k) (k - n - 1) = sum over j > n of P(O > j)
    excess[:-1] = above[::-1].cumsum()[::-1][1:]
    residence, total = 0.0, 0.0
    for n in range(1, longest + 1):
        residence = q if n == 1 else residence + q / (1 - load[n - 2])
        if law[n]:
            delay = rate / 2 * (squares[n] + above[n] * ((n + 1) * q) ** 2 + excess[n] * q**2) / (1 - load[n])
            total += law[n] * (delay / (1 - load[n - 1]) + residence)
    return float(total)


def preemptive_priority(law: Law, rates: tuple[float, float], step_s: float) -> tuple[float, float]:
    """Two classes of the same lengths, preemptive and resumed (White and Christie, 1958), between steps: of the others the
    urgent ones find the rest of a step at most; these find all work, and the urgent hold them up before each of their steps.
    """
    mean, square = moments(law)
    urgent, all_of_them = rates[0] * mean * step_s, sum(rates) * mean * step_s
    rest_s = (rates[0] * square + rates[1] * mean) * step_s**2 / 2
    first = rest_s / (1 - urgent) + mean * step_s
    found_s = sum(rates) * square * step_s**2 / 2 / (1 - all_of_them)
    return first, (found_s + (mean - 1) * step_s) / (1 - urgent) + step_s


def sharing(law: Law, rate: float, step_s: float) -> float:
    """Processor sharing: E[S] / (1 - load), whatever the distribution (Sakata et al., 1969), in turns of a step.

    Turns make it less by load q / 2 / (1 - load): who comes finds half of the turn under way, and stands before the rest of
    whom it serves. (That is exact for geometric lengths, where every order that is blind to lengths has the mean of `fcfs`,
    and for lengths of one step, where turns are order of arrival.)
    """
    mean = moments(law)[0] * step_s
    load = rate * mean
    return (mean - load * step_s / 2) / (1 - load)


def las(law: Law, rate: float, step_s: float) -> tuple[float, float]:
    """Schrage (1967), foreground-background, in steps: two bounds, for what happens between equals.

    The n-th step of a request starts when what it found has had its n first steps and it itself n - 1. Who comes meanwhile
    has n - 1 steps before that, if of equals the older goes first, and n at most, if whoever is in service goes on:
    (W(n) + (n - 1) q) / (1 - rho_(n-1)) + q and (W(n) + (n - 1) q) / (1 - rho_n) + q, rho_n = rate q E[min(O, n)].
    """
    q, lengths = step_s, np.arange(len(law))
    found, load = found_up_to(law, rate, q)
    start = found[1:] + (lengths[1:] - 1) * q
    low, high = start / (1 - load[:-1]) + q, start / (1 - load[1:]) + q
    return float(law[1:] @ low), float(law[1:] @ high)


def first_queue(law: Law, rate: float, step_s: float, quantum: int, own: int) -> float:
    """Of feedback queues: a request of own <= quantum steps finds the others' first quanta, and has its own on end."""
    return float(found_up_to(law, rate, step_s)[0][quantum]) + own * step_s


def found_up_to(law: Law, rate: float, step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """W(n), the delay by the first n steps of those that an arrival finds, and by the rest of a later step under way:
    (rate E[min(O, n)²] q² / 2 + rate E[(O - n)+] q² / 2) / (1 - rho_n); and rho_n; n = 0, 1, ..."""
    lengths = np.arange(len(law))
    beyond = 1 - np.cumsum(law)  # P(O > n)
    cut = np.concatenate([[0.0], np.cumsum(beyond)[:-1]])  # E[min(O, n)]
    cut_squares = np.concatenate([[0.0], np.cumsum(beyond * (2 * lengths + 1))[:-1]])
    load = rate * step_s * cut
    return rate * step_s**2 / 2 * (cut_squares + moments(law)[0] - cut) / (1 - load), load


def fcfs_over_srpt(load: float) -> float:
    """Of M/M/1, steps of no length: 1 / (1 - load) over Schrage and Miller's integral, E[S] = 1."""
    size = np.linspace(0, 60, 600_001)
    tail = np.exp(-size)
    load_below = load * (1 - tail * (1 + size))
    squares = 2 - tail * (size**2 + 2 * size + 2)  # the integral of t² exp(-t) from 0 to the size
    wait = load / 2 * (squares + size**2 * tail) / (1 - load_below) ** 2
    slowness = 1 / (1 - load_below)
    residence = np.concatenate([[0.0], np.cumsum((slowness[1:] + slowness[:-1]) / 2) * (size[1] - size[0])])
    return float(1 / (1 - load) / np.trapezoid(tail * (wait + residence), size))
