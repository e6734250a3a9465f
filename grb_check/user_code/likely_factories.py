"""Likely factories of a model in a directory: its Python files are parsed, not imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

from grb_check.user_code.factories import ALIASES

MOST_FILES: Final = 2000
# Arguments that a factory receives by name, see `factories.call_factory`.
OFFERED: Final = frozenset(
    ("data", "dataset", "seed", "device", *ALIASES, *chain.from_iterable(ALIASES.values()))
)
_WIDTHS: Final = frozenset(("num_features", *ALIASES["num_features"]))
_FACTORY: Final = re.compile(r"build(_\w+)?|(make|create|get)_model")
_SKIPPED: Final = re.compile(
    r"\..*|_.*|tests?(_.*)?|testing|conftest|setup|docs?|examples?|benchmarks|build|dist|venv|env|site-packages|node_modules"
)


def likely_factories(folder: Path) -> list[str]:
    """Return `pkg.module:attr` of the functions that look like factories, or else of the classes.

    A function must be named as one (`build`, `build_gcn`, `make_model`, ...), a class must derive
    from a `Module` and take the width of the features. Neither may need an argument that no factory
    receives.

    Args:
        folder: from which modules are imported; those in `src` below it are found as well.
    """
    functions, classes = [], []
    for module, path in islice(_modules(folder), MOST_FILES):
        for node in _statements(path):
            if isinstance(node, ast.FunctionDef) and _FACTORY.fullmatch(node.name):
                functions += [f"{module}:{node.name}"] if _receives_all(node.args) else []
            elif isinstance(node, ast.ClassDef) and _is_model(node):
                classes.append(f"{module}:{node.name}")
    return functions or classes


def _modules(folder: Path, package: str = "") -> Iterator[tuple[str, Path]]:
    """The modules below a directory by the name under which they are imported."""
    for path in sorted(folder.iterdir()):
        name = path.stem if path.suffix == ".py" else path.name
        if package and path.name == "__init__.py":
            yield package, path
        elif _SKIPPED.fullmatch(name) or path.is_symlink():
            continue
        elif path.is_dir() and name == "src" and not package:
            yield from _modules(path)
        elif path.is_dir() and name.isidentifier():
            yield from _modules(path, f"{package}.{name}".lstrip("."))
        elif path.suffix == ".py" and name.isidentifier():
            yield f"{package}.{name}".lstrip("."), path


def _statements(path: Path) -> list[ast.stmt]:
    try:
        return ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []


def _is_model(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    methods = {each.name: each.args for each in node.body if isinstance(each, ast.FunctionDef)}
    made = methods.get("__init__")
    if "Module" not in bases or made is None or "forward" not in methods:
        return False
    return _receives_all(made) and bool(_WIDTHS & {each.arg for each in made.args})


def _receives_all(given: ast.arguments) -> bool:
    """Whether a factory receives every argument that has no default."""
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    needed += [
        each
        for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if default is None
    ]
    return {each.arg for each in needed} <= OFFERED | {"self"}
