"""`python -m twin compile`: the core as machine code, for long runs."""

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from twin import compiled
from twin.cli.errors import UserError

HELP = """\
usage: python -m twin compile

Translates the simulator's loop to C (by mypyc) and compiles it, into the user's cache. From then on every command uses it;
results are the same. Takes a minute or two, a C compiler, and the packages of `pip install 'twin-serving[compiled]'`.

When a file of the core is changed, the compiled form is used no longer, until this command has been given again.
TWIN_COMPILED=0 in the environment goes without it.

example: python -m twin compile
"""
SETUP = """\
from setuptools import setup
from mypyc.build import mypycify

setup(name="core", packages=[], ext_modules=mypycify({sources!r}, opt_level="2"))
"""
CHECKER = "[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n"
TIMEOUT_S = 1200
LINES_OF_A_FAILURE = 5


def main(words: list[str]) -> int:
    if words and words[0] in ("--help", "-h"):
        print(HELP, end="")
        return 0
    if words:
        raise UserError(f"{words[0]}: this command has no options")
    _look_for_packages()
    folder = _own_folder()
    place = folder / compiled.key()
    if place.exists():
        print(f"compiled already: {place}")
        return 0
    with tempfile.TemporaryDirectory(dir=folder) as workshop:
        _build(Path(workshop), place)
    print(f"compiled {len(compiled.MODULES)} modules into {place}")
    return 0


def _look_for_packages() -> None:
    missing = [name for name in ("mypyc", "setuptools") if find_spec(name) is None]
    if missing:
        raise UserError(f"there is no package {' and no '.join(missing)}: pip install 'twin-serving[compiled]'")


def _own_folder() -> Path:
    folder = compiled.folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not compiled.is_own(folder):
        raise UserError(f"{folder}: others than you can write there, and what lies there is run; set XDG_CACHE_HOME")
    return folder


def _build(workshop: Path, place: Path) -> None:
    """In a folder of its own; what is made goes to its place whole."""
    shutil.copytree(compiled.ROOT / "twin", workshop / "twin", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (workshop / "twin" / "__init__.py").write_text("")  # it leads to all of the project, and to what that imports
    sources = [str(compiled.source_of(module).relative_to(compiled.ROOT)) for module in compiled.MODULES]
    (workshop / "setup.py").write_text(SETUP.format(sources=sources))
    (workshop / "mypy.ini").write_text(CHECKER)
    print(f"compiling {len(sources)} modules: this takes a minute or two", flush=True)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "built", "--build-temp", "objects"]
    try:
        done = subprocess.run(command, cwd=workshop, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"compiling took more than {TIMEOUT_S} seconds, and was given up") from None
    if done.returncode:
        told = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in told if "error" in line.lower()] or told
        raise UserError("it could not be compiled: " + "; ".join(errors[-LINES_OF_A_FAILURE:]))
    ready = workshop / "ready"
    ready.mkdir(mode=0o700)
    for library in (workshop / "built").rglob(f"*{compiled.SUFFIX}"):
        name = ".".join(library.relative_to(workshop / "built").parts)
        library.rename(ready / name)
    try:
        ready.rename(place)
    except OSError:  # somebody else has made the same meanwhile
        if not place.is_dir():
            raise
