"""The order of a run, with steps that take what the test says and a clock that nobody waits for."""

import pytest

from engine.errors import EngineError, StepFailure
from engine.profile.composition import Composition
from engine.profile.measure import Measuring, Options, Row, describe
from engine.profile.plan import probes
from engine.profile.stepper import Timing
from twin.core.limits import Limits

LIMITS = Limits(64, 16, num_host_blocks=8, max_num_seqs=32, max_num_batched_tokens=256, max_model_len=512)


class Machine:
    """A step lasts `step_s` plus `per_token_s` for each token; `events` happen at the n-th step."""

    def __init__(self, step_s: float = 0.01, per_token_s: float = 0.0) -> None:
        self.now_s, self.step_s, self.per_token_s = 100.0, step_s, per_token_s
        self.steps: list[Composition] = []
        self.stretch = lambda step, point: 1.0

    def clock(self) -> float:
        return self.now_s

    def measure(self, point: Composition) -> Timing:
        step_s = (self.step_s + self.per_token_s * point.tokens) * self.stretch(len(self.steps), point)
        self.steps.append(point)
        self.now_s += step_s
        return Timing(step_s, 0.9 * step_s, step_s, step_s, 0)


class Load:
    """Says at each reading what the test wants."""

    window_s = 1.0

    def __init__(self, machine: Machine, busy: tuple[float, float] = (0.0, 0.0), unknown: str | None = None) -> None:
        self.machine, self.busy, self.unknown, self.last_s = machine, busy, unknown, machine.now_s
        self.read_at: list[float] = []

    def why_not(self) -> str | None:
        return self.unknown

    def read(self) -> str | None:
        since_s, self.last_s = self.last_s, self.machine.now_s
        self.read_at.append(self.last_s)
        return "others" if self.busy[0] < self.last_s and since_s < self.busy[1] else None


def run(machine: Machine, load: Load | None = None, **options) -> Measuring:
    measuring = Measuring(LIMITS, machine.measure, load or Load(machine), Options(**options), machine.clock)
    measuring.run()
    return measuring


def test_each_point_as_often_as_asked_for():
    profile = run(Machine(), budget_s=1000, repeats=3).profile
    points = len(profile.selection.points)
    assert points == profile.selection.planned > 50
    assert sorted((row.point, row.repeat) for row in profile.rows) == [(p, r) for p in range(points) for r in range(3)]
    assert profile.complete
    assert all(row.composition == profile.selection.points[row.point] for row in profile.rows)


def test_repeats_are_interleaved_and_their_order_shuffled():
    """cal-04. In each stretch of as many rows as there are points each point comes once, every time in another order."""
    profile = run(Machine(), budget_s=1000, repeats=4).profile
    points = len(profile.selection.points)
    rounds = [[row.point for row in profile.rows[start : start + points]] for start in range(0, 4 * points, points)]
    assert all(sorted(one) == list(range(points)) for one in rounds)
    assert len({tuple(one) for one in [*rounds, list(range(points))]}) == 5
    assert [row.order for row in profile.rows] == list(range(4 * points))


def test_the_seed_decides_the_order():
    orders = [[row.point for row in run(Machine(), budget_s=30, repeats=2, seed=seed).profile.rows] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_every_point_is_warmed_up_before_any_counts():
    machine = Machine()
    profile = run(machine, budget_s=1000, repeats=2).profile
    points = len(profile.selection.points)
    probed = 3 * sum(point is not None for point in probes(LIMITS))
    assert machine.steps[probed : probed + points] == profile.selection.points
    assert len(machine.steps) == probed + 3 * points == probed + points + len(profile.rows)


def test_the_budget_decides_how_many_points_and_says_so():
    """Steps of 0.1 s, 15 probes: of 31.5 s remain 30, and each point takes 6 * 0.1."""
    machine = Machine(0.1)
    profile = run(machine, budget_s=31.5, repeats=5).profile
    assert len(profile.selection.points) == 50
    assert machine.now_s - 100 == pytest.approx(31.5)
    planned = profile.selection.planned
    assert profile.notes[0] == f"50 of {planned} points of the grid, 5 repeats each: about 30 s of profile.budget_s=31.5"
    assert profile.notes[1] == f"{planned - 50} points left out for which there is no time"
    assert {row.composition.kind for row in profile.rows} == {"decode", "prefill", "mixed", "swap"}


def test_long_points_do_not_eat_the_budget_up():
    """A token costs 0.01 s: chunks of 256 would take 12.8 s with their repeats, above a tenth of a budget of 100."""
    profile = run(Machine(0.001, 0.01), budget_s=100, repeats=4).profile
    assert max(row.composition.tokens for row in profile.rows) <= 200
    assert any("more than a tenth of the budget" in note for note in profile.notes)


def test_a_budget_for_nothing_is_a_mistake():
    with pytest.raises(EngineError, match=r"profile.budget_s=1: no point fits after the probes; .* takes 0.5 s each time"):
        run(Machine(0.5), budget_s=1)


def test_steps_that_become_slow_end_the_run_after_a_whole_round():
    """After the warm-up steps take ten times as long as the probes did: there is no time for five rounds."""
    machine = Machine(0.1)
    machine.stretch = lambda step, point: 10.0 if step >= 15 + 50 else 1.0
    profile = run(machine, budget_s=31.5, repeats=5).profile
    assert {row.repeat for row in profile.rows} == {0} and len(profile.rows) == 50 and profile.complete
    assert profile.notes[-1] == "1 of 5 repeats: steps took longer than the probes said (56 s)"


def test_rows_know_what_others_did_while_they_were_measured():
    machine = Machine(0.1)
    load = Load(machine, busy=(110.0, 111.0))
    profile = run(machine, load, budget_s=31.5, repeats=5).profile
    marked = [row for row in profile.rows if row.foreign]
    ends = [100 + row.started_s + 0.1 for row in marked]
    assert {row.foreign for row in marked} == {"others"}
    assert min(ends) > 109.0 - 1e-9 and max(ends) < 112.2 and 10 <= len(marked) <= 30  # windows of about a second
    inside = [row for row in profile.rows if 110.0 < 100 + row.started_s < 110.9]
    assert inside and all(row in marked for row in inside)


def test_what_others_did_before_the_first_row_does_not_count():
    machine = Machine(0.1)
    profile = run(machine, Load(machine, busy=(0.0, 106.0)), budget_s=31.5, repeats=5).profile
    assert not any(row.foreign for row in profile.rows)


def test_a_load_that_cannot_be_read_is_told():
    machine = Machine()
    assert "nobody knows" in run(machine, Load(machine, unknown="nobody knows"), budget_s=100).profile.notes


def test_points_whose_repeats_differ_are_marked():
    machine = Machine(0.1)
    slow = Composition("decode", 1, 16)
    machine.stretch = lambda step, point: 1 + 0.1 * (step % 7) if point == slow and step > 15 else 1.0
    profile = run(machine, budget_s=31.5, repeats=5).profile
    marked = {row.composition for row, reasons in zip(profile.rows, profile.reasons(), strict=True) if reasons}
    assert marked == {slow}


def test_a_step_that_cannot_be_computed_costs_its_point_alone():
    machine = Machine()
    measure = machine.measure

    def failing(point: Composition) -> Timing:
        if point.chunk == 255:
            raise StepFailure("out of memory")
        return measure(point)

    machine.measure = failing
    profile = run(machine, budget_s=1000, repeats=2).profile
    notes = [note for note in profile.notes if "255" in note]
    assert notes and len(notes) == sum(point.chunk == 255 for point in profile.selection.points)
    assert "prefill (1 x 255 tokens of prompt after 0) could not be computed: out of memory" in notes
    assert not any(row.composition.chunk == 255 for row in profile.rows) and profile.complete


def test_a_probe_that_cannot_be_computed_ends_it():
    machine = Machine()

    def failing(point: Composition) -> Timing:
        raise StepFailure("out of memory")

    machine.measure = failing
    with pytest.raises(EngineError, match=r"decode \(1 decodes at 16\) could not be computed: out of memory"):
        run(machine)


def test_an_interruption_keeps_what_is_done():
    machine = Machine(0.1)
    measure = machine.measure

    def interrupted(point: Composition) -> Timing:
        if len(machine.steps) == 100:
            raise KeyboardInterrupt
        return measure(point)

    measuring = Measuring(LIMITS, interrupted, Load(machine), Options(31.5, 5), machine.clock)
    with pytest.raises(KeyboardInterrupt):
        measuring.run()
    measuring.stop()
    assert not measuring.profile.complete
    assert len(measuring.profile.rows) == 100 - 15 - 50 and isinstance(measuring.profile.rows[-1], Row)


def test_points_in_words():
    assert describe(Composition("swap", 1, 16, blocks_in=4)) == "swap (1 decodes at 16, 0 blocks out, 4 in)"
