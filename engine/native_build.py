"""Native libraries of the engine, built on first use and kept in the user's cache.

A library's file name carries a hash of everything that its machine code depends on: sources and headers, the command
line, the compiler's version, and what the caller adds (the CPU's model where the command says -march=native, say). So
nothing is ever out of date, and a home directory shared by unlike machines holds one library for each.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from engine.errors import EngineError
from twin import compiled

BUILD_TIMEOUT_S = 600
VERSION_TIMEOUT_S = 30


def build(
    sources: Sequence[Path],
    command: Sequence[str],
    key_parts: Iterable[str],
    name: str,
    headers: Sequence[Path] = (),
    suffix: str = ".so",
) -> Path:
    """The file that `command -o FILE sources...` makes, from the cache where it is there.

    `command` is the compiler and its flags, `headers` are files that the sources include. Processes that build the same
    thing at the same time each make it under a name of their own and then rename it: the last one stays, all are alike.
    """
    compiler = find_compiler(command[0])
    key = _key([*sources, *headers], command, [compiler_version(compiler), *key_parts])
    library = cache_folder() / f"{name}-{key}{suffix}"
    if not library.exists():
        _compile([compiler, *command[1:]], sources, library)
    return library


def find_compiler(compiler: str) -> str:
    """Its path; EngineError where this machine has none."""
    path = shutil.which(compiler)
    if path is None:
        raise EngineError(f"there is no {compiler} on this machine (nothing of that name on PATH)")
    return path


@cache
def compiler_version(compiler: str) -> str:
    """What it says of itself under --version."""
    try:
        answer = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{compiler} does not run: {error}") from error
    return answer.stdout


@cache
def cpu_model() -> str:
    """The processor and its instruction sets: what -march=native stands for."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    telling = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU implementer", "CPU part")
    first = {line.partition(":")[0].strip(): line for line in reversed(lines)}
    return "\n".join([platform.machine(), *(first[word] for word in telling if word in first)])


def cache_folder() -> Path:
    """Where libraries are kept: twin-serving/native in the user's cache ($XDG_CACHE_HOME, by default ~/.cache)."""
    folder = compiled.user_cache() / "native"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the user's alone: what lies there is run
    except OSError as error:
        raise EngineError(f"cannot make {folder} for built libraries ({error.strerror}); set XDG_CACHE_HOME") from error
    if not compiled.is_own(folder):
        raise EngineError(f"{folder}: others than you can write there, and what lies there is run; set XDG_CACHE_HOME")
    return folder


def _key(files: Sequence[Path], command: Sequence[str], parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for piece in (*(file.name.encode() for file in files), *(file.read_bytes() for file in files), *map(str.encode, command),
                  *map(str.encode, parts)):  # fmt: skip
        digest.update(f"{len(piece)}:".encode())
        digest.update(piece)
    return digest.hexdigest()[:20]


def _compile(command: list[str], sources: Sequence[Path], library: Path) -> None:
    """Makes the library under a temporary name beside its own, then renames it."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{library.stem}.", suffix=library.suffix, dir=library.parent)
    except OSError as error:
        raise EngineError(f"cannot write to {library.parent} ({error.strerror}); set XDG_CACHE_HOME") from error
    os.close(handle)
    try:
        line = [*command, "-o", temporary, *map(str, sources)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise EngineError(f"{command[0]} cannot build {library.stem}: {_first_error(done.stderr or done.stdout)}")
        os.chmod(temporary, 0o700)
        os.replace(temporary, library)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{command[0]} did not build {library.stem} within {BUILD_TIMEOUT_S} s") from error
    except OSError as error:
        raise EngineError(f"cannot build {library}: {error.strerror or error}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing")
