"""Imports go one way: what each package may import of the project, and what may never be imported at its top."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("twin", "engine", "traces", "policies", "conf", "tests", "bench")

ALLOWED = {  # package: what else of the project it may import, by prefix (its own package always)
    "traces": (),
    "policies": ("twin.policy",),
    "twin/policy.py": (),
    "twin/nearest.py": (),
    "twin/compiled.py": (),
    "twin/policy_parameters.py": ("twin.nearest",),
    "twin/policy_code.py": ("twin.policy_parameters",),
    "twin/policy_sources.py": ("twin.nearest", "twin.policy_parameters"),
    "twin/policy_declarations.py": ("twin.policy", "twin.policy_code", "twin.policy_parameters"),
    "twin/class_file.py": ("twin.policy_code", "twin.policy_parameters"),
    "twin/policies_registry.py": (
        "twin.class_file",
        "twin.policy",
        "twin.policy_code",
        "twin.policy_declarations",
        "twin.policy_parameters",
        "twin.policy_sources",
    ),
    "twin/keyed_draws.py": (),
    "twin/predictor.py": ("twin.keyed_draws",),
    "twin/predictors": ("twin.predictor",),
    "twin/predictors_registry.py": (
        "twin.class_file",
        "twin.nearest",
        "twin.policy_code",
        "twin.policy_declarations",
        "twin.policy_parameters",
        "twin.policy_sources",
        "twin.predictor",
    ),
    "twin/policy_parts.py": ("twin.policy", "twin.policy_parameters"),
    "twin/policy_assembly.py": (
        "twin.core.limits",
        "twin.policies_registry",
        "twin.policy",
        "twin.policy_parameters",
        "twin.policy_parts",
    ),
    "twin/memory": (),
    "twin/core": ("twin.policy",),
    "twin/latency": ("twin.core.batch", "twin.keyed_draws", "twin.memory"),
    "twin/sim": ("twin.core", "twin.latency", "twin.policy", "twin.policy_parts", "twin.predictor"),
    "twin/results": (),
    "twin/capacity": ("twin.results", "twin.cli.intervals"),
    "twin/calibrate": (
        "twin.core",
        "twin.latency",
        "twin.memory",
        "twin.nearest",
        "twin.policy",
        "twin.results",
        "twin.sim",
    ),
    "twin/sweep": ("twin.results",),
    "twin/compare": ("twin.cli.intervals", "twin.results", "twin.sweep"),
    "twin/check": (
        "twin.core",
        "twin.sim",
        "twin.results",
        "twin.policy",
        "twin.policy_assembly",
        "twin.policy_parameters",
        "twin.policy_parts",
        "twin.policy_sources",
        "twin.predictor",
        "twin.predictors_registry",
    ),
    "twin/cli": ("twin", "traces"),
    "twin/notebook": ("twin",),
    "twin/reproduce": ("twin",),
    "engine": ("twin", "traces"),
}
STANDARD_LIBRARY_ONLY = ("twin/policy.py", "twin/core", "policies", "twin/nearest.py", "twin/cli/main.py")
HEAVY = ("pandas", "pyarrow", "matplotlib", "hydra", "omegaconf", "rich", "scipy", "torch")


def files_of(package: str) -> list[Path]:
    path = ROOT / package
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def imports(file: Path, top_level: bool = False) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import of a file; with `top_level`, of those that importing the file executes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    late = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or _only_for_types(node)
        for inner in ast.walk(node)
        if inner is not node
    }
    for node in ast.walk(tree):
        if top_level and node in late:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import"
            assert node.module is not None
            # `from twin.core import batch` imports twin.core.batch where that is a module
            for alias in node.names:
                inner = ROOT.joinpath(*node.module.split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
                yield node.lineno, f"{node.module}.{alias.name}" if is_module else node.module


def _only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_lies_below_it(package: str):
    own = package.removesuffix(".py").replace("/", ".")
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in files_of(package)
        for line, name in imports(file)
        if name.split(".")[0] in PROJECT and not any(within(name, prefix) for prefix in (own, *ALLOWED[package]))
    ]
    assert wrong == []


def test_every_package_of_twin_has_its_rule():
    ruled = {package.split("/")[1] for package in ALLOWED if package.startswith("twin/")}
    there = {path.name for path in (ROOT / "twin").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - ruled == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("package", STANDARD_LIBRARY_ONLY)
def test_core_and_policies_need_the_standard_library_alone(package: str):
    import sys

    foreign = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in files_of(package)
        for line, name in imports(file)
        if name.split(".")[0] not in sys.stdlib_module_names and name.split(".")[0] not in PROJECT
    ]
    assert foreign == []


def test_heavy_libraries_are_imported_late():
    """The simulator answers at once and needs no PyTorch; the engine is PyTorch."""
    early = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for package in ("twin", "traces", "policies")
        for file in files_of(package)
        for line, name in imports(file, top_level=True)
        if name.split(".")[0] in HEAVY
    ]
    assert early == []


def test_the_walker_sees_late_imports_and_tells_them_apart(tmp_path: Path):
    file = tmp_path / "module.py"
    file.write_text("import os\n\ndef work():\n    import pandas\n\nclass Thing:\n    import json\n")
    assert dict(imports(file)) == {1: "os", 4: "pandas", 7: "json"}
    assert dict(imports(file, top_level=True)) == {1: "os", 7: "json"}
