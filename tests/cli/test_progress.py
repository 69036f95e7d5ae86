"""The progress bar shows itself on a terminal, late, and never elsewhere."""

import io

from twin.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_bar_where_nobody_looks():
    with ProgressBar(10, io.StringIO()) as bar:
        assert bar is None


def test_a_short_run_shows_nothing():
    terminal = Terminal()
    with ProgressBar(10, terminal) as bar:
        assert bar is not None
        bar(5, 1.0)
    assert terminal.getvalue() == ""


def test_a_long_run_shows_finished_requests_and_virtual_time():
    now = iter([0.0, 0.5, 1.5, 1.55, 2.0])
    terminal = Terminal()
    with ProgressBar(10, terminal, clock=lambda: next(now)) as bar:
        assert bar is not None
        for finished in (1, 4, 5, 7):
            bar(finished, 1000.0 * finished)
    shown = terminal.getvalue()
    assert "4/10" in shown and "4,000 s simulated" in shown and "7/10" in shown
    assert "1/10" not in shown and "5/10" not in shown
