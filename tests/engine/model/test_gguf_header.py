"""The head of a GGUF file: what the format's own library reads, and a clear word about a broken one."""

import struct
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFWriter

from engine.model.gguf_header import read_header
from tests.engine.model.gguf_writing import refusal_of, write_gguf
from tests.engine.model.reference import saved


def test_truncated_at_any_place(tmp_path):
    file = tmp_path / "m.gguf"
    write_gguf(file, saved(tmp_path, "llama", num_hidden_layers=1))
    content = file.read_bytes()
    for kept in (0, 3, 4, 10, 23, 24, 60, 300, 600, 1500, len(content) // 2, len(content) - 200):
        file.write_bytes(content[:kept])
        wanted = "not a GGUF file: it does not start with the letters GGUF" if kept < 4 else "not a whole GGUF file: "
        assert wanted in refusal_of(file), kept


def test_a_file_of_something_else(tmp_path):
    for content, complaint in (
        (b"a text, and long enough that a head could be in it " * 3, "it does not start with the letters GGUF"),
        (
            b"GGUF" + struct.pack(">I", 3) + bytes(50),
            "GGUF version 50331648; little-endian files of versions 2 and 3 are read",
        ),
        (head(1, string("k") + struct.pack("<I", 77)), "byte 37: a value of type 77, which GGUF does not have"),
        (head(1, struct.pack("<Q", 2) + b"\xff\xff" + bytes(8)), "byte 32: a string that is not UTF-8"),
        (head(1, string("k") + struct.pack("<IIQ", 9, 4, 1 << 60)), "it ends within its head"),
        (head(1, string("k") + struct.pack("<IIQ", 9, 8, 1 << 60)), "it ends within its head"),
        (head(1, struct.pack("<Q", 1 << 63)), "it ends within its head"),
        (head(1 << 62, b""), "it ends within its head"),
    ):
        (tmp_path / "m.gguf").write_bytes(content)
        assert complaint in refusal_of(tmp_path / "m.gguf")


def head(pairs: int, rest: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, pairs) + rest


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_the_head_is_what_the_formats_own_library_reads(tmp_path):
    """Every type of value, a tensor of every number of dimensions, and an alignment of the file's own."""
    file = tmp_path / "m.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_custom_alignment(64)
    values: list[tuple[Any, Any]] = [
        (writer.add_uint8, 200), (writer.add_int8, -3), (writer.add_uint16, 60000), (writer.add_int16, -300),
        (writer.add_uint32, 1 << 31), (writer.add_int32, -70000), (writer.add_float32, 0.1), (writer.add_bool, True),
        (writer.add_uint64, 1 << 40), (writer.add_int64, -(1 << 40)), (writer.add_float64, 0.1),
        (writer.add_string, "naïve"), (writer.add_array, [1, 2, 3]), (writer.add_array, [0.5, 0.25]),
    ]  # fmt: skip
    for add, value in values:
        add(f"key.{add.__name__}.{type(value).__name__}.{value}", value)
    writer.add_array("words", ["a", "bc"])
    for dimensions in (1, 2, 3, 4):
        writer.add_tensor(f"tensor{dimensions}", np.ones((1, 2, 3, 4)[:dimensions], np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader, found = GGUFReader(file), read_header(file)
    wanted = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert wanted.pop("words") == ["a", "bc"]  # lists of strings are left out
    assert found.metadata == wanted
    assert [(tensor.name, tensor.shape, tensor.type_number, tensor.offset) for tensor in found.tensors] == [
        (tensor.name, tuple(reversed(tensor.shape.tolist())), int(tensor.tensor_type), tensor.data_offset)
        for tensor in reader.tensors
    ]
