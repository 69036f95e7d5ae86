"""Traces that are made, not read. One module a generator, whose name is the trace's, with

`generate(num_requests, seed, rate, **options) -> Trace`: `rate` is the mean rate wanted in requests/s, or None for
the generator's own; the options are keyword-only. The first requests of a longer trace are those of a shorter one.
"""

from types import ModuleType

from traces.generators import agent, batch, chat, code, long_context, servegen, summarize, synthetic

GENERATORS: dict[str, ModuleType] = {
    "chat": chat,
    "code": code,
    "agent": agent,
    "summarize": summarize,
    "batch": batch,
    "long_context": long_context,
    "servegen": servegen,
    "synthetic": synthetic,
}
