"""What a search for the capacity prints: its objectives, each probe or setting, the answer."""

from math import inf
from typing import TYPE_CHECKING

from twin.capacity import files
from twin.capacity.objectives import ATTAINMENT
from twin.capacity.search import ALL, FOUND, NONE, UNFINISHED, Answer
from twin.results.presentation import number

if TYPE_CHECKING:
    from twin.capacity.files import Cell
    from twin.capacity.probe import Probe
    from twin.cli.capacity_study import Study


def print_start(made: "Study", settings: int) -> None:
    """What will be looked for, and how it is measured."""
    print("\n".join(made.job.lines))
    print(f"objectives: {made.objectives.in_words()}")
    print(f"a probe is {made.measured}; first rate {made.bounds.start:.4g} requests/s", flush=True)
    if settings > 1:
        print(f"{settings:,} settings", flush=True)


def print_probe(probe: "Probe") -> None:
    """The rate, the verdict, and how much of each objective it uses."""
    parts = []
    for name in probe.samples[0].ratios:
        mean, half = probe.interval(name)
        spread = f" ± {number(100 * half, 2)}" if half else ""
        parts.append(f"{name} {number(100 * mean, 3) if mean < inf else 'beyond all'}{spread} %")
    grows = "" if not probe.saturated else f"; the queue grows in {100 * probe.saturated:.0f} % of the seeds"
    print(
        f"  {probe.rate:>10.4f}/s  {'met   ' if probe.met() else 'missed'}  {', '.join(parts)} of the limit{grows}",
        flush=True,
    )


def print_cell(cell: "Cell") -> None:
    """A setting and its capacity, a line."""
    setting = " ".join(f"{key}={value}" for key, value in cell.setting.items())
    print(f"  {setting}: {cell.why or _rate_in_words(cell.answer)}", flush=True)


def print_answer(made: "Study") -> bool:
    """The answer; whether there is one: a rate that meets the objectives, and a search that came to its end."""
    from twin.cli.capacity_save import run_command, shown_cell

    best = shown_cell(made)
    answer = best.answer
    assert answer is not None
    if made.several:
        _print_settings(made, best)
    if not best.rate:
        tried = f"none of {len(answer.probes)} rates tried down to {answer.probes[0].rate:.4g} requests/s"
        print(f"no capacity: {tried} meets the objectives; {files.best_in_words(answer, made.objectives)}")
        return False
    print(f"capacity: {_rate_in_words(answer)}{_what_binds(made, answer)}")
    for note in _notes(made, answer):
        print(f"note: {note}")
    print(f"this rate again: {run_command(made, best)}")
    return answer.outcome != UNFINISHED


def _rate_in_words(answer: "Answer | None") -> str:
    if answer is None or answer.rate is None:
        return (
            "no rate meets the objectives" if answer and answer.outcome == NONE else "not known: the search was not finished"
        )
    if answer.outcome == ALL:
        return f"at least {answer.rate:.4g} requests/s, the highest rate tried, which still meets the objectives"
    if answer.outcome != FOUND:
        above = f"; missed at {answer.beyond.rate:.4g}" if answer.beyond else "; no higher rate was tried"
        return f"at least {answer.rate:.4g} requests/s{above} (the search was not finished)"
    return f"{answer.rate:.4g} requests/s{_interval(answer)}"


def _interval(answer: "Answer") -> str:
    assert answer.at is not None
    if len(answer.at.samples) < 2:
        return " (how sure that is cannot be told from one seed)"
    low = "?" if answer.low is None else f"{answer.low:.4g}"
    high = "?" if answer.high is None else f"{answer.high:.4g}"
    return f", {100 * answer.at.confidence:g} % interval {low} to {high}"


def _what_binds(made: "Study", answer: "Answer") -> str:
    assert answer.at is not None
    parts = []
    for name in made.objectives.names:
        mean, half = answer.at.value(name)
        unit, factor = ("%", 100.0) if name == ATTAINMENT else ("s", 1.0)
        spread = f" ± {factor * half:.2g}" if half else ""
        parts.append(f"{name} {factor * mean:.4g}{spread} {unit} of {factor * made.objectives.limit(name):.4g} {unit}")
    above = f"; above it {answer.beyond.why_not()} fails" if answer.beyond else ""
    return f"\n  there {', '.join(parts)}{above}".replace("the queue grows fails", "the queue grows")


def _notes(made: "Study", answer: "Answer") -> list[str]:
    notes = []
    if len(answer.probes[0].samples) < made.first.values["seeds"]:
        notes.append("the seeds do not differ, as nothing in this trace is left to chance: there is no interval to give")
    elif made.first.values["seeds"] == 1:
        notes.append("give seeds=5, say, for an interval")
    if not answer.monotone:
        higher = max(probe.rate for probe in answer.probes if probe.met())
        notes.append(
            f"the objectives do not only get worse with the rate: {higher:.4g} requests/s met them, a lower one did not"
        )
    if answer.at is not None and (lost := sum(sample.counts["rejected"] for sample in answer.at.samples)):
        notes.append(f"{lost:,} requests were rejected at that rate; percentiles and attainment count them as missed")
    return notes


def _print_settings(made: "Study", best: "Cell") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    short = [key.rpartition(".")[2] for key in best.setting]
    for name in short if len(set(short)) == len(short) else best.setting:
        table.add_column(name, justify="right")
    for header in ("requests/s", "interval", "limited by"):
        table.add_column(header, justify="left" if header == "limited by" else "right")
    for cell in sorted(made.cells, key=lambda cell: -cell.rate):
        answer = cell.answer
        ends = ("?" if end is None else f"{end:.4g}" for end in ((answer.low, answer.high) if answer else (None, None)))
        binds = answer.beyond.why_not() if answer and answer.beyond else cell.why
        table.add_row(*cell.setting.values(), f"{cell.rate:.4g}" if cell.rate else "none", " to ".join(ends), binds)
    Console(highlight=False).print(table)
    if best.rate and (close := files.rivals(best, made.cells)):
        print(f"note: {len(close)} more setting{'s' * (len(close) > 1)} whose interval reaches that of the best: "
              "the difference may be chance")  # fmt: skip
