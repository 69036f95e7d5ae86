"""The times at which steps end whose durations lie on one straight line: the inner loop of every stretch."""


def add_up(
    ends: list[float],
    now_s: float,
    context: int,
    stop: int,
    sequences: int,
    fixed_s: float,
    per_token_s: float,
    until_s: float,
) -> bool:
    """Append the ends of steps from `now_s` on, one by one; True if the last of them is at or after `until_s`.

    `context` is the sum of the context lengths after the first step; each adds `sequences`, and stays below `stop`. A step
    takes fixed_s + per_token_s * context.
    """
    for here in range(context, stop, sequences):
        now_s += fixed_s + per_token_s * here
        ends.append(now_s)
        if now_s >= until_s:
            return True
    return False
