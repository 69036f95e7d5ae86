"""Libraries built on first use: kept, told apart, whole, and built by several processes at once."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine import native_build
from engine.errors import EngineError
from engine.native_build import build

FLAGS = ["g++", "-O1", "-shared", "-fPIC"]
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "twin-serving" / "native"


def source_of(folder: Path, text: str = 'extern "C" int answer() { return ANSWER; }\n') -> Path:
    file = folder / "answer.cpp"
    file.write_text(text)
    return file


def answer(library: Path) -> int:
    return ctypes.CDLL(str(library)).answer()


@needs_compiler
def test_a_library_is_built_once_and_found_again(tmp_path: Path, cache: Path):
    source = source_of(tmp_path)
    first = build([source], [*FLAGS, "-DANSWER=7"], [], "answer")
    made = first.stat().st_mtime_ns
    assert answer(first) == 7
    assert build([source], [*FLAGS, "-DANSWER=7"], [], "answer") == first
    assert first.stat().st_mtime_ns == made
    assert [file.name for file in cache.iterdir()] == [first.name]  # no temporary file stays


@needs_compiler
def test_source_flags_headers_and_parts_tell_libraries_apart(tmp_path: Path):
    header = tmp_path / "value.h"
    header.write_text("#define ANSWER 1\n")
    source = source_of(tmp_path, '#include "value.h"\nextern "C" int answer() { return ANSWER; }\n')
    paths = [build([source], FLAGS, [], "answer", [header]), build([source], FLAGS, ["other cpu"], "answer", [header])]
    header.write_text("#define ANSWER 2\n")
    paths += [build([source], FLAGS, [], "answer", [header]), build([source], [*FLAGS, "-O2"], [], "answer", [header])]
    source.write_text('#include "value.h"\nextern "C" int answer() { return 10 * ANSWER; }\n')
    paths.append(build([source], FLAGS, [], "answer", [header]))
    assert len(set(paths)) == 5
    assert list(map(answer, paths)) == [1, 1, 2, 2, 20]


@needs_compiler
def test_an_error_of_the_compiler_is_one_line_and_leaves_nothing(tmp_path: Path, cache: Path):
    with pytest.raises(EngineError, match="cannot build wrong-.*error.*nonsense") as caught:
        build([source_of(tmp_path, "nonsense;\n")], FLAGS, [], "wrong")
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


@needs_compiler
def test_a_compiler_that_takes_too_long_is_stopped(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    slow = tmp_path / "slow-compiler"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] || exec sleep 60\n')
    slow.chmod(0o755)
    monkeypatch.setattr(native_build, "BUILD_TIMEOUT_S", 0.2)
    with pytest.raises(EngineError, match="did not build answer"):
        build([source_of(tmp_path)], [str(slow)], [], "answer")
    assert list(cache.iterdir()) == []


def test_no_compiler_is_said_so(tmp_path: Path):
    with pytest.raises(EngineError, match="there is no c-plus-plus-of-nobody on this machine"):
        build([source_of(tmp_path)], ["c-plus-plus-of-nobody"], [], "answer")


def test_a_cache_that_cannot_be_made_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EngineError, match="cannot make .*file/twin-serving/native .*; set XDG_CACHE_HOME"):
        native_build.cache_folder()


@needs_compiler
def test_processes_that_build_at_once_all_get_a_whole_library(tmp_path: Path, cache: Path):
    source = source_of(tmp_path)
    program = (
        "import ctypes, pathlib, sys; from engine.native_build import build;"
        f"path = build([pathlib.Path(sys.argv[1])], {[*FLAGS, '-DANSWER=5']!r}, [], 'answer');"
        "sys.exit(ctypes.CDLL(str(path)).answer())"
    )
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": root}
    builders = [subprocess.Popen([sys.executable, "-c", program, str(source)], env=environment) for _ in range(4)]
    assert [builder.wait(timeout=60) for builder in builders] == [5, 5, 5, 5]
    assert len(list(cache.iterdir())) == 1
