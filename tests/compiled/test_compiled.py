"""`python -m twin compile`: what it makes is used, gives the same files, and is given up when a source changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twin import compiled

ROOT = Path(__file__).resolve().parents[2]
WHICH = "import twin.core.scheduler as s, twin.compiled as c; print(c.in_use(), not s.__file__.endswith('.py'))"
WORKLOAD = [
    "trace=synthetic",
    "trace.prompt_tokens=uniform(50,1500)",
    "trace.output_tokens=uniform(10,200)",
    "trace.num_requests=120",
]
RUNS = {
    "vllm": ["policy=fcfs", "trace=chat", "trace.num_requests=200"],
    "textbook": ["policy=sjf", "predictor=oracle", "system=textbook", *WORKLOAD, "trace.arrivals=poisson(20)"],
    "starved": ["policy=vtc", *WORKLOAD, "trace.arrivals=poisson(30)", "cache.num_gpu_blocks=400"],
    "swap": ["policy=srpt", "predictor=oracle", "system=textbook", *WORKLOAD, "trace.arrivals=poisson(30)",
             "cache.num_gpu_blocks=400", "cache.num_cpu_blocks=800", "policy.preemption_mode=swap"],
    "pauses": ["policy=fcfs", "trace=agent", "trace.num_requests=40", "cache.num_gpu_blocks=40000"],
    "plans": ["policy=sarathi", *WORKLOAD, "trace.arrivals=poisson(10)", "system=textbook"],
    "closed": ["policy=fcfs", *WORKLOAD, "trace.arrivals=closed(9,think=0.1)"],
}  # fmt: skip


def python(*words: str, cache: Path, cwd: Path = ROOT, **more: str) -> str:
    """What a Python of its own prints; with that cache of compiled modules, from the sources in `cwd`."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(cwd)} | more
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the core has been compiled; that of the tests' own run, if it has been made already."""
    if compiled.in_use():
        return compiled.folder().parents[1]
    folder = tmp_path_factory.mktemp("cache")
    assert f"compiled {len(compiled.MODULES)} modules into {folder}" in python("-m", "twin", "compile", cache=folder)
    return folder


def test_it_is_used_when_it_is_there_unless_told_otherwise(cache: Path, tmp_path: Path) -> None:
    assert python("-c", WHICH, cache=cache).split() == ["True", "True"]
    assert python("-c", WHICH, cache=cache, TWIN_COMPILED="0").split() == ["False", "False"]
    assert python("-c", WHICH, cache=tmp_path).split() == ["False", "False"]
    assert python("-m", "twin", "compile", cache=cache).startswith("compiled already: ")


def test_every_module_is_the_compiled_one(cache: Path) -> None:
    program = "import importlib, sys; print([importlib.import_module(name).__file__[-3:] for name in sys.argv[1:]])"
    told = python("-c", program, *compiled.MODULES, cache=cache)
    assert told.count(".so") == len(compiled.MODULES)


@pytest.mark.parametrize("name", RUNS)
def test_the_files_of_a_run_are_the_same(cache: Path, tmp_path: Path, name: str) -> None:
    for folder, switch in (("compiled", "1"), ("interpreted", "0")):
        words = [*RUNS[name], "output.figures=false", "output.report=false", f"hydra.run.dir={tmp_path / folder}"]
        python("-m", "twin", "run", *words, cache=cache, TWIN_COMPILED=switch)
    for file in ("requests.parquet", "steps.parquet"):
        mine, theirs = ((tmp_path / folder / file).read_bytes() for folder in ("compiled", "interpreted"))
        assert mine == theirs, file


def test_a_change_of_a_source_is_what_runs(cache: Path, tmp_path: Path) -> None:
    """In a copy of the package: the compiled form of other sources is not taken."""
    shutil.copytree(ROOT / "twin", tmp_path / "twin", ignore=shutil.ignore_patterns("__pycache__"))
    assert python("-c", WHICH, cache=cache, cwd=tmp_path).split() == ["True", "True"]
    with open(tmp_path / "twin" / "core" / "stretch.py", "a") as file:
        file.write("\n# a change\n")
    assert python("-c", WHICH, cache=cache, cwd=tmp_path).split() == ["False", "False"]


def test_a_folder_in_which_others_can_write_is_not_used(cache: Path, tmp_path: Path) -> None:
    place = tmp_path / "twin-serving" / "compiled"
    shutil.copytree(cache / "twin-serving" / "compiled", place)
    place.chmod(0o700)
    assert python("-c", WHICH, cache=tmp_path).split() == ["True", "True"]
    place.chmod(0o777)
    assert python("-c", WHICH, cache=tmp_path).split() == ["False", "False"]


@pytest.mark.parametrize("words, told", [(["now"], "now: this command has no options"), (["--help"], "")])
def test_the_command_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    from twin.cli.main import main

    assert main(["compile", *words]) == (2 if told else 0)
    out, err = capsys.readouterr()
    assert told in err and ("usage: python -m twin compile" in out) == (not told)


def test_without_mypyc_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from twin.cli import compile as command
    from twin.cli.main import main

    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert main(["compile"]) == 2
    told = "there is no package mypyc and no setuptools: pip install 'twin-serving[compiled]'"
    assert capsys.readouterr().err == f"twin compile: {told}\n"
