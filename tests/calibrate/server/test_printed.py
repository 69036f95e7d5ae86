"""Values as a program printed them."""

import pytest

from twin.calibrate.server.printed import LONGEST, CutOff, entries, plain


def test_only_the_top_level_is_cut():
    text = "model='a, b', nested={'max_seq_len': 7, 'x': [1, 2]}, mode=<Mode.NONE: 0>, max_seq_len=1024"
    assert entries(text, "=") == {
        "model": "'a, b'",
        "nested": "{'max_seq_len': 7, 'x': [1, 2]}",
        "mode": "<Mode.NONE: 0>",
        "max_seq_len": "1024",
    }


def test_a_dict_ends_with_its_bracket():
    assert entries("'a': 1, 'b': 'it\\'s, so'} and more, 'c': 3", ":", inside=True) == {"a": "1", "b": "'it\\'s, so'"}


@pytest.mark.parametrize("text", ["'a': 'x", "'a': [1, 2", "'a': {'b': 1", "'a': 1, 'b': 2"])
def test_what_is_never_closed(text: str):
    with pytest.raises(CutOff):
        entries(text, ":", inside=True)


def test_a_line_without_end_is_refused():
    with pytest.raises(ValueError, match="in one line"):
        entries("a=1," * LONGEST, "=")


@pytest.mark.parametrize(
    ("printed", "value"),
    [("True", True), ("None", None), ("16", 16), ("0.9", 0.9), ("'tiny'", "tiny"), ("torch.float32", "torch.float32")],
)
def test_plain_values(printed: str, value: object):
    assert plain(printed) == value and type(plain(printed)) is type(value)


@pytest.mark.parametrize("printed", ["__import__('os')", "{'a': 1}", "<Mode.NONE: 0>", ""])
def test_nothing_else_is_read(printed: str):
    with pytest.raises(ValueError, match="no plain value"):
        plain(printed)
