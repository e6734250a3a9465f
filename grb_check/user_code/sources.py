"""The source files of what a user names. Imports no torch and nothing of the user's."""

from __future__ import annotations

import hashlib
import inspect
from importlib.util import find_spec
from pathlib import Path


def source_digest(target: str) -> str:
    """Return the hex digest of the Python files of the package that `pkg.module:attr` is in.

    Those of the whole package, or of the module itself if it is in none; empty without any. The
    user's directories must be on `sys.path`.
    """
    top = target.partition(":")[0].strip().partition(".")[0]
    try:
        spec = find_spec(top)
    except ValueError:  # no name, or a module that was made without a file
        spec = None
    if spec is None:
        return ""
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    files = [
        (path.relative_to(folder).as_posix(), path)
        for folder in folders
        for path in folder.rglob("*.py")
        if path.is_file()
    ]
    if not folders and spec.has_location and spec.origin is not None:
        files = [("", Path(spec.origin))]
    sha = hashlib.sha256()
    for _, path in sorted(files):  # by names that are the same on every machine
        sha.update(hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest() if files else ""


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
