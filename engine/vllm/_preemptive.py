"""Preemptive orders in vLLM: a head that was refused takes the seat, or the blocks, of running requests that come after it.

vLLM never preempts to admit, and no method of it lies where that is decided. So its own `schedule` is read when the first
such policy starts, and run with four changes in the loop that admits:

    while token_budget > 0:                               while True: (a seat that is taken brings tokens with it)
        ...
        if not request_queue or input_budget <= ...:          if not request_queue:
            break                                                 break
        if num_running >= self.max_num_active_reqs:           if num_running >= self.max_num_active_reqs:
            break                                                 ... take_seat, else break
                                                              if token_budget <= 0 or input_budget <= ...:
        ...                                                       break
        if new_blocks is None:                                if new_blocks is None:
            break                                                 ... take_blocks and once more, else break

A text that has not these lines, once each, is refused. Who gives way is the core's decision (`twin.core.preemptive`).
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import time
from functools import cache
from typing import Any

from engine.vllm._internals import changed
from engine.vllm._request import Record
from engine.vllm._state import State
from twin.core.preemptive import Ranking

LOOP, NO_BUDGET = "token_budget > 0", "input_budget <= draft_slots"
NOBODY, NO_SEAT, NO_BLOCKS = "not request_queue", "num_running >= self.max_num_active_reqs", "new_blocks is None"
GIVEN = (
    "scheduled_running_reqs, scheduled_new_reqs, scheduled_resumed_reqs, num_scheduled_tokens, req_to_new_blocks, "
    "scheduled_encoder_inputs"
)
SEAT = f"""
freed = self.twin_carrier.take_seat({GIVEN})
if freed is None:
    break
token_budget += freed
input_budget += freed
"""
BUDGET = f"""
if not ({LOOP}) or {NO_BUDGET}:
    break
"""
BLOCKS = f"""
freed = self.twin_carrier.take_blocks({GIVEN})
if freed is not None:
    token_budget += freed
    input_budget += freed
    continue
"""


class Ranks(Ranking):
    """The core's ranking of who runs, for one step of vLLM's."""

    def __init__(self, state: State, take_off: Any) -> None:
        super().__init__(state, None)  # type: ignore[arg-type]
        self.take_off = take_off

    def _lends(self, victim: Any) -> bool:
        return self.state.lends(victim)

    def _take_off(self, victim: Any, seat: bool = False) -> None:
        self.asked = [entry for entry in self._asked() if entry.request is not victim]
        self.take_off(victim)


class Takeover:
    """Takes requests off in the middle of vLLM's step."""

    def __init__(self, scheduler: Any, state: State) -> None:
        self.scheduler, self.state = scheduler, state
        self.taken_off: set[Record] = set()  # in this step: they do not come in again
        self.freed = 0
        self.given: tuple[Any, ...] = ()
        self.begin()

    def begin(self) -> None:
        self.ranks = Ranks(self.state, self.take_off)
        self.taken_off.clear()

    def take_seat(self, head: Record, given: tuple[Any, ...]) -> int | None:
        """The tokens that come free with a seat for the head; None: there is none."""
        seats = self.scheduler.max_num_active_reqs
        return self._tried(lambda: self.ranks.make_seat(head, seats), head, given)  # type: ignore[arg-type]

    def take_blocks(self, head: Record, given: tuple[Any, ...]) -> int | None:
        """The tokens that come free with blocks for the head; None: they would not be enough."""
        return self._tried(lambda: self.ranks.make_room(head), head, given)  # type: ignore[arg-type]

    def _tried(self, make: Any, head: Record, given: tuple[Any, ...]) -> int | None:
        if head in self.taken_off:
            return None
        self.freed, self.given = 0, given
        return self.freed if make() else None

    def take_off(self, victim: Record) -> None:
        """Preempt it; what this step had given it is its no more."""
        running, new, resumed, tokens, blocks, encoder_inputs = self.given
        request, scheduler = victim.request, self.scheduler
        scheduler.running.remove(request)
        if request.request_id in tokens:
            self.freed += tokens.pop(request.request_id)
            next(listed for listed in (running, new, resumed) if request in listed).remove(request)
            blocks.pop(request.request_id)
            encoder_inputs.pop(request.request_id, None)
        self.taken_off.add(victim)
        scheduler._preempt_request(request, time.monotonic())


@cache
def with_takeover(schedule: Any) -> Any:
    """vLLM's `Scheduler.schedule`, with the two questions in it. Raises `Unsupported` where they have no place."""
    try:
        text = textwrap.dedent(inspect.getsource(schedule))
    except (OSError, TypeError) as error:
        raise changed("text of Scheduler.schedule") from error
    tree = ast.parse(text)
    loop = _only([node for node in ast.walk(tree) if isinstance(node, ast.While) and _says(node, LOOP)], f"while {LOOP}")
    loop.test = _like(ast.Constant(True), loop.test)
    nobody = _place(loop, f"{NOBODY} or {NO_BUDGET}")
    nobody.test = nobody.test.values[0]
    seat, blocks = _place(loop, NO_SEAT), _place(loop, NO_BLOCKS)
    seat.body = _lines(SEAT, seat)
    where = loop.body.index(seat) + 1
    loop.body[where:where] = _lines(BUDGET, seat)
    blocks.body = [*_lines(BLOCKS, blocks), *blocks.body]
    ast.increment_lineno(tree, schedule.__code__.co_firstlineno - 1)
    made: dict[str, Any] = {}
    module = sys.modules[schedule.__module__]
    exec(compile(tree, schedule.__code__.co_filename, "exec", dont_inherit=True), vars(module), made)
    return made[schedule.__name__]


def _says(node: ast.While | ast.If, test: str) -> bool:
    return ast.unparse(node.test) == test


def _place(loop: ast.While, test: str) -> Any:
    """The question in the loop which, answered by yes, ends it."""
    found = [node for node in ast.walk(loop) if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Break)]
    return _only([node for node in found if _says(node, test)], f"if {test}")


def _only(found: list[Any], words: str) -> Any:
    if len(found) != 1:
        raise changed(f'line "{words}:" with the meaning that it had, in the text of Scheduler.schedule')
    return found[0]


def _lines(text: str, place: ast.AST) -> list[ast.stmt]:
    return [_like(statement, place) for statement in ast.parse(text).body]


def _like(made: Any, place: ast.AST) -> Any:
    """At the line of what stands there."""
    for node in ast.walk(made):
        ast.copy_location(node, place)
    return made
