"""Bad policies (tests/policies/bad), each caught with words that its author understands."""

import re
from pathlib import Path

import pytest

from tests.policies import bad
from twin.check import determinism, lengths, source, stream
from twin.check.adversarial import all_scenarios
from twin.check.children import Child, run
from twin.check.playing import judge
from twin.check.result import Result
from twin.check.subject import Subject

BAD = Path(bad.__file__).parent
ADVERSARIAL = dict(all_scenarios())


def subject(name: str) -> Subject:
    return Subject(name, policy_path=str(BAD))


def said(result: Result) -> str:
    assert result.verdict == "failed"
    return result.failures[0].text()


def untold(scenario: str, content: object = None) -> None:
    """Nobody listens to what begins."""


@pytest.mark.parametrize(
    "name, scenario, words",
    [
        (
            "forgets_a_request",
            "a burst",
            "requests wait, nothing is scheduled and no event is due; "
            "who can never run on: r02 (running, 20 tokens computed, 1 generated)",
        ),
        ("exceeds_the_budget", "a burst", "chunk() gave request r03 20 tokens of 4 on offer"),
        ("preempts_a_finished_one", "oversize", "request small is finished, not running: it cannot be preempted"),
        ("loops_in_plan", "one token a step", "preemptions in a row, and not one token came"),
        ("mutates_a_view", "a single request", "mutates_a_view.py:10 raised AttributeError: a policy may not write"),
        ("declares_steady", "all at a block edge, one by one", "what it declares is not true"),
        ("admits_never", "a single request", "no event is due; who can never run on: A (waiting, 0 tokens computed"),
        ("rejects_all", "a single request", "request A can never run: it fits, it is alone, and the policy answered NEVER"),
        ("takes_twice", "a single request", "a plan may give tokens to a request once: A has 1 already"),
        ("answers_nonsense", "swap with room", "victim() chose <request r04>, which is not one of the running requests"),
        ("keys_do_not_compare", "traits that not everybody has", "keys must compare"),
    ],
)
def test_a_rule_is_broken_in_a_small_scenario(name: str, scenario: str, words: str):
    result = Result("adversarial")
    judge(subject(name), scenario, ADVERSARIAL[scenario], result)
    text = said(result)
    assert text.startswith(f"scenario {scenario}: ") and words in text


def test_what_the_policy_and_the_step_were_is_part_of_the_message():
    result = Result("adversarial")
    judge(subject("takes_twice"), "a single request", ADVERSARIAL["a single request"], result)
    assert "policy TakesTwice, plan 2 at 1 s, 1 running, 0 waiting, 0 swapped, 2 of 4 blocks free: " in said(result)


@pytest.mark.parametrize(
    "name, words",
    [
        ("reads_the_clock", "reads_the_clock.py:12: reads the clock: time.perf_counter; a policy gets the time"),
        ("random_without_seed", "random_without_seed.py:12: draws without a seed: random.random; draw from random.Random"),
        ("reaches_into_a_view", "reaches_into_a_view.py:10: reaches into a view, ._request: a policy sees requests"),
    ],
)
def test_the_source_says_what_a_policy_may_not(name: str, words: str):
    assert said(source.check(subject(name), True, untold)).startswith(words)


def test_the_true_length_is_found_out_though_the_source_does_not_show_it():
    assert source.check(subject("reads_the_true_length"), True, untold).verdict == "passed"
    result = lengths.check(subject("reads_the_true_length"), True, untold)
    assert "it knows the true output length; step 1: scheduled " in said(result)


def test_a_mistake_that_shows_after_a_thousand_steps():
    result = stream.check(subject("raises_late"), False, untold)
    text = said(result)
    assert "policy RaisesLate, plan 1001 " in text
    assert "raises_late.py:14 raised IndexError: list assignment index out of range" in text


def test_what_is_left_over_from_run_to_run():
    result, _ = determinism.check(subject("leaks_between_runs"), True, untold)
    assert "it decides otherwise when it is run again in the same process, step 1: " in said(result)
    assert "attributes of the class" in said(result)


# --- in processes of their own


def in_a_process(name: str, work: str, hash_seeds: tuple[str, ...] = ("0",), limit_s: float = 60) -> list[Child]:
    children = [Child([work], seed) for seed in hash_seeds]
    run(children, subject(name), True, limit_s, frozenset({str(BAD / f"{name}.py")}))
    return children


def test_a_hook_that_never_comes_back_is_named_with_its_line():
    (child,) = in_a_process("loops_for_ever", "adversarial", limit_s=4)
    text = said(child.results[-1])
    assert re.search(r"it does not come back: after 4 s it was in admit\(\), at loops_for_ever\.py:1[12]$", text)
    assert child.results[-1].failures[0].content is not None  # a scenario to play again


def test_an_order_that_depends_on_the_hashes_of_strings():
    children = in_a_process("depends_on_set_order", "rows", determinism.HASH_SEEDS)
    logs = [(f"PYTHONHASHSEED={child.hash_seed}", child.rows or {}) for child in children]
    text = said(determinism.compared(logs))
    assert "its decisions depend on the process: PYTHONHASHSEED=" in text and "Sort it, or keep a dict" in text


def test_the_clock_by_another_name_and_swallowed():
    assert source.check(subject("reads_the_clock_in_disguise"), True, untold).verdict == "passed"
    (child,) = in_a_process("reads_the_clock_in_disguise", "hidden lengths")
    assert "it reads the clock: time.monotonic() at reads_the_clock_in_disguise.py:15" in said(child.results[-1])


def test_a_policy_that_ends_the_process():
    (child,) = in_a_process("leaves_the_process", "adversarial")
    assert "the process ended in the middle of it, with status 0" in said(child.results[-1])


def test_a_copy_of_the_process_is_refused():
    (child,) = in_a_process("copies_the_process", "adversarial")
    assert "it copies its process: os.fork() at copies_the_process.py:12" in said(child.results[-1])


def test_what_is_no_event_ends_the_process_with_a_message():
    (child,) = in_a_process("writes_to_descriptors", "adversarial")
    assert "it writes to a file descriptor that is not its own" in said(child.results[-1])


def test_a_thread_that_never_ends_does_not_keep_the_process():
    (child,) = in_a_process("leaves_a_thread", "steady overload")
    assert child.done and child.process is not None and child.process.returncode == 0


def test_there_is_no_bad_policy_without_a_test():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [path.stem for path in BAD.glob("[!_]*.py") if f'"{path.stem}"' not in text] == []
