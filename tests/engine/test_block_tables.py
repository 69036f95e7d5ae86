"""Rows of block tables follow the requests' own, whatever happens to them."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.block_tables import BlockTables


class Named(SimpleNamespace):
    """As much of a request as the tables look at; a key by what it is, as requests are."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def made(*table: int, siblings: tuple[Any, ...] = ()) -> Any:
    return Named(block_table=list(table), siblings=list(siblings))


def batch(
    chunks: tuple[Any, ...] = (), preempted: tuple[Any, ...] = (), admitted: tuple[Any, ...] = (), back: tuple[Any, ...] = ()
) -> Any:
    return SimpleNamespace(
        chunks=[(each, 1) for each in chunks], preempted=dict.fromkeys(preempted, "swap"), admitted=admitted, swapped_in=back
    )


def shown(tables: BlockTables, request: Any) -> list[int]:
    return tables.array[tables.row(request)].tolist()


def test_a_table_grows_at_its_end_and_the_rest_of_its_row_is_nobodys():
    tables, one = BlockTables(rows=2, width=4), made(7)
    assert shown(tables, one) == [7, -1, -1, -1]
    one.block_table += [3, 5]
    assert shown(tables, one) == [7, 3, 5, -1]


def test_rows_and_columns_are_added_when_they_are_needed():
    tables = BlockTables(rows=1, width=2)
    many = [made(*range(10 * number, 10 * number + number)) for number in range(1, 8)]
    for each in many:
        tables.row(each)
    assert len({tables.row(each) for each in many}) == 7 and tables.array.shape[1] >= 7
    for number, each in enumerate(many, 1):
        row = shown(tables, each)
        assert row[:number] == each.block_table and set(row[number:]) <= {-1}


def test_a_row_is_given_to_another_when_its_request_has_ended():
    tables, one, other = BlockTables(rows=1, width=4), made(1, 2, 3), made(9)
    row = tables.row(one)
    tables.end(one)
    assert tables.row(other) == row and shown(tables, other) == [9, -1, -1, -1]
    tables.end(one)  # once more: nothing happens
    assert tables.array.shape == (1, 4)


def test_a_table_that_changed_otherwise_is_written_anew():
    """By a preemption and another life, by a way back from the host, and by a copy before a write of a sample."""
    tables = BlockTables(rows=4, width=4)
    for way in ("preempted", "admitted", "back"):
        one = made(1, 2, 3)
        tables.row(one)
        one.block_table = [8, 2]
        tables.begin(batch(**{way: (one,)}))
        assert shown(tables, one) == [8, 2, -1, -1]
        tables.end(one)
    sample = made(1, 2)
    sample.siblings = [sample, made(1, 2)]
    tables.row(sample)
    sample.block_table = [1, 6]
    tables.begin(batch(chunks=(sample,)))
    assert shown(tables, sample) == [1, 6, -1, -1]


def test_random_lives():
    draw = random.Random(0)
    tables, living = BlockTables(rows=2, width=2), []  # type: BlockTables, list[Any]
    for _ in range(600):
        event = draw.random()
        if event < 0.15 or not living:
            living.append(made(draw.randrange(99)))
        elif event < 0.25:
            tables.end(living.pop(draw.randrange(len(living))))
        changed = [each for each in living if draw.random() < 0.1]
        for each in living:
            if each in changed:
                each.block_table = [draw.randrange(99) for _ in range(draw.randrange(1, 9))]
            elif draw.random() < 0.3:
                each.block_table.append(draw.randrange(99))
        tables.begin(batch(preempted=tuple(changed)))
        scheduled = [each for each in living if each in changed or draw.random() < 0.8]
        rows = [tables.row(each) for each in scheduled]
        assert len(set(rows)) == len(rows)
        for each, row in zip(scheduled, rows, strict=True):
            length = len(each.block_table)
            assert tables.array[row, :length].tolist() == each.block_table
            assert np.all(tables.array[row, length:] == -1)
