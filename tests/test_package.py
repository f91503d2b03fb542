"""The house stands: links, imports, layers, no circle, a light import, docstrings, style."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import ubnet

PACKAGE = Path(ubnet.__file__).parent
ROOT = Path(__file__).parents[1]
HEAVY = ("numba", "networkx", "mpi4py", "click", "matplotlib", "rich", "scipy", "numpy")
FACES = {"__init__", "fabrics", "transfer", "run", "launch"}
"""Modules of ubnet/ itself that belong to the faces, not to the core."""
LAYERS = {
    "core": 0,
    "topologies": 1,
    "collectives": 1,
    "kv": 2,
    "pool": 2,
    "face": 3,
    "mpi": 3,
    "moe": 3,
    "report": 3,
    "cli": 3,
}
FORBIDDEN = {
    ("topologies", "collectives"),
    ("collectives", "topologies"),
    *((face, "cli") for face in ("face", "mpi", "moe", "report")),
    *(("mpi", face) for face in ("moe", "report")),
    *(("report", face) for face in ("face", "mpi", "moe")),
    ("moe", "report"),
}
"""Pairs within a layer of which the first must not import the second."""


VERSION = ["ubnet.__version__"]
NOT_ON_IMPORT = ("TYPE_CHECKING", "__name__ == '__main__'")


def module_files() -> dict[str, Path]:
    """Every module of the package, those behind the two links included."""
    found = {}
    folders = [PACKAGE, PACKAGE / "collectives", PACKAGE / "topologies"]
    for path in sorted({p for f in folders for p in f.rglob("*.py")}):
        name = ".".join(("ubnet", *path.relative_to(PACKAGE).with_suffix("").parts))
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def imports() -> dict[str, set[str]]:
    """Which of ubnet's modules each module imports, anywhere but for type checkers and programs."""
    files = module_files()
    return {name: set(imported(path, name, files)) for name, path in files.items()}


def imported(path: Path, name: str, files: dict[str, Path]):
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in files)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            inner = [f"{base}.{a.name}" for a in node.names]
            yield from (i for i in inner if i in files)
            # The version stands in the package itself, which is there before all of its modules.
            if base in files and not all(i in files for i in inner) and inner != VERSION:
                yield base


def statements(tree: ast.AST):
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) in NOT_ON_IMPORT:
            continue
        yield child
        yield from statements(child)


def room(name: str) -> str:
    parts = name.split(".")
    if len(parts) == 1 or parts[1] in FACES:
        return "face"
    if parts[1] == "__main__":
        return "cli"
    return parts[1] if parts[1] in LAYERS else "core"


def test_the_two_links_are_there():
    for name in ("collectives", "topologies"):
        link = PACKAGE / name
        assert (link / "__init__.py").is_file(), (
            f"ubnet/{name} is no folder: this checkout lost the symbolic link ubnet/{name} -> "
            f"../{name} (git config core.symlinks true, then git checkout -- ubnet/{name})"
        )


def test_every_module_imports():
    found = [m.name for m in pkgutil.walk_packages([str(PACKAGE)], "ubnet.")]
    assert len(found) > 20
    for name in found:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    assert {n for n in module_files() if not n.endswith("__main__")} <= {"ubnet", *found}


def test_layers():
    for name, targets in imports().items():
        for target in sorted(targets):
            mine, other = room(name), room(target)
            assert LAYERS[mine] >= LAYERS[other], f"{name} ({mine}) imports {target} ({other})"
            assert (mine, other) not in FORBIDDEN, f"{name} must not import {target}"


def test_no_import_circle():
    graph = nx.DiGraph((a, b) for a, targets in imports().items() for b in targets)
    circle = next(nx.simple_cycles(graph), None)
    assert circle is None, " -> ".join([*circle, circle[0]])


@pytest.mark.parametrize("name", ["ubnet", "ubnet.cli.main"])
def test_import_is_light(name):
    allowed = "click" if name.endswith("main") else ""
    code = f"import sys, {name}; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == allowed, done.stderr


def test_public_names_are_there_and_explained():
    assert ubnet.__all__
    for name in ubnet.__all__:
        assert inspect.getdoc(getattr(ubnet, name)), f"ubnet.{name} has no docstring"
        assert name in dir(ubnet)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ubnet.nothing


def test_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ubnet.__version__ == project["version"]


def test_everything_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["mpi"], *extras["plot"]]
    names = {re.match(r"[\w-]+", line)[0].lower().replace("-", "_") for line in declared}
    for name, path in module_files().items():
        for node in statements(ast.parse(path.read_text())):
            found = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                found = [node.module]
            for module in (
                {f.partition(".")[0] for f in found} - sys.stdlib_module_names - {"ubnet"}
            ):
                assert module in names, f"{name} imports {module}, which pyproject.toml lacks"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "mypy"])
def test_style(command):
    tool, *arguments = command.split()
    run = [sys.executable, "-m", tool, *arguments]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
