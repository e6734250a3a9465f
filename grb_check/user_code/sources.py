"""The source files of what a user names. Imports no torch and nothing of the user's."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final


def source_digest(target: str) -> str:
    """Return the hex digest of the Python files of the package that `pkg.module:attr` is in.

    Those of the whole package, or of the module itself if it is in none; empty without any. The
    user's directories must be on `sys.path`.
    """
    files = _files(_top(target))
    return _digest(path for _, path in files) if files else ""


def sources_digest(target: str) -> str:
    """Return the hex digest of `source_digest` and of all that those files import, and so on.

    Packages of the environment are left out: their versions say what they are.
    """
    top = _top(target)
    result = {top: _digest(path for _, path in _files(top))}
    waiting = [] if _is_known(top) else [top]
    while waiting:
        imported = {name for _, path in _files(waiting.pop()) for name in _imported(path)}
        for name in sorted(imported - result.keys()):
            if not _is_known(name):
                result[name] = _digest(path for _, path in _files(name))
                waiting.append(name)
    return hashlib.sha256(repr(sorted(result.items())).encode()).hexdigest()


@dataclass(frozen=True)
class _Seen:
    """The digest of files when this process asked for it first, before or after their import."""

    module: ModuleType | None
    digest: str


_SEEN: Final[dict[str, _Seen]] = {}  # by the name of a package or module


def imported_digest(target: str) -> str:
    """Return the `sources_digest` of what this process has imported, if it has imported it.

    A process that serves several runs keeps the modules of the first: this is the digest of the
    files when it was asked for first, and not that of files that have changed since. It is to be
    asked for before the import as well as after it.
    """
    top = _top(target)
    module, seen = sys.modules.get(top), _SEEN.get(top)
    known = seen is not None and module is not None and seen.module in (None, module)
    digest = seen.digest if seen is not None and known else sources_digest(top)
    _SEEN[top] = _Seen(module, digest)
    return digest


def _top(target: str) -> str:
    return target.partition(":")[0].strip().partition(".")[0]


def _spec(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except ValueError:  # no name, or a module that was made without a file
        return None


def _files(top: str) -> list[tuple[str, Path]]:
    """The Python files of a package or module, in the order of their names inside it."""
    spec = _spec(top)
    if spec is None:
        return []
    folders = [Path(location) for location in spec.submodule_search_locations or ()]
    if not folders and spec.has_location and spec.origin is not None:
        return [("", Path(spec.origin))]
    return sorted(
        (path.relative_to(folder).as_posix(), path)
        for folder in folders
        for path in folder.rglob("*.py")
        if path.is_file()
    )


def _digest(paths: Iterable[Path]) -> str:
    sha = hashlib.sha256()
    for path in paths:
        sha.update(hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest()


def _imported(path: Path) -> set[str]:
    """The packages and modules that a file imports, wherever in it; none if it cannot be parsed."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {_top(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(_top(node.module))
    return names


def _is_known(top: str) -> bool:
    """Whether a package or module is this one, part of Python, or an installed one."""
    spec = _spec(top)
    if top in (__package__.partition(".")[0], *sys.stdlib_module_names) or spec is None:
        return True
    locations = [*(spec.submodule_search_locations or ()), spec.origin or ""]
    # Debian has the second name, and an environment may see the packages of another one.
    return bool({"site-packages", "dist-packages"} & set(Path(locations[0]).parts))


def definition(factory: object) -> tuple[Path, int] | None:
    """Return the file and the line, counted from 1, where a function or class is defined.

    None if it has no source, such as a functools.partial. Decorators that use functools.wraps are
    looked through.
    """
    try:
        inner = inspect.unwrap(factory)  # type: ignore[arg-type]
        path = inspect.getsourcefile(inner)
        _, line = inspect.getsourcelines(inner)
    except (TypeError, OSError, ValueError):
        return None
    return (Path(path), max(line, 1)) if path else None
