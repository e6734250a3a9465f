"""The source files of what a user names: their digest, and where a factory is defined."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from grb_check.user_code.sources import (
    definition,
    imported_digest,
    source_digest,
    sources_digest,
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that can be imported, with a module that its own one imports."""
    folder = tmp_path / "sourced"
    (folder / "deep").mkdir(parents=True)
    for name in ("__init__.py", "deep/__init__.py", "deep/layers.py"):
        (folder / name).write_text("raise RuntimeError('imported')")
    (tmp_path / "alone.py").write_text("SIZE = 1")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_every_file_of_the_package_counts(package: Path) -> None:
    """Nothing is imported, and files beside the package do not count."""
    before = source_digest("sourced.deep:build")
    assert before == source_digest("sourced:other")
    (package.parent / "beside.py").write_text("")
    (package / "data.txt").write_text("")
    assert source_digest("sourced.deep:build") == before
    (package / "deep" / "layers.py").write_text("SIZE = 2")
    assert source_digest("sourced.deep:build") != before
    assert "sourced" not in sys.modules


@pytest.mark.parametrize(
    "target", ["no_such_module:build", ":build", " :build", "..x:build", "sys:x"]
)
def test_what_has_no_files_has_none(target: str) -> None:
    """The error about such a model comes when it is imported."""
    assert source_digest(target) == ""


def decorated(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def inner() -> object:
        return function()

    return inner


@decorated
def factory() -> None:
    """A factory below a decorator."""


@pytest.mark.parametrize("found", [functools.partial(factory), len, 3])
def test_what_has_no_source_has_no_definition(found: object) -> None:
    """It is not an error."""
    assert definition(found) is None


def test_what_a_model_imports_counts_wherever_it_lies(package: Path) -> None:
    """Also inside functions, and what that imports; not installed packages, nor what is unused."""
    (package / "__init__.py").write_text(
        "def build():\n    from alone import SIZE\n    import numpy"
    )
    (package.parent / "alone.py").write_text("import farther")
    farther = package.parent / "farther.py"
    farther.write_text("SIZE = 1")
    before = sources_digest("sourced:build")
    (package.parent / "unused.py").write_text("")
    assert sources_digest("sourced:build") == before
    farther.write_text("SIZE = 2")
    assert sources_digest("sourced:build") != before
    assert not {"sourced", "alone", "farther"} & set(sys.modules)


def test_the_digest_of_what_is_imported_stays_that_of_its_import(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of it is named; until it is imported again."""
    alone = package.parent / "alone.py"
    first = imported_digest("alone:SIZE")
    assert first == sources_digest("alone")
    monkeypatch.setitem(sys.modules, "alone", ModuleType("alone"))  # as by an import
    alone.write_text("SIZE = 2")
    assert imported_digest("alone:OTHER") == imported_digest("alone") == first
    monkeypatch.setitem(sys.modules, "alone", ModuleType("alone"))  # as by another one
    assert imported_digest("alone:SIZE") == sources_digest("alone") != first
    monkeypatch.delitem(sys.modules, "alone")
    alone.write_text("SIZE = 3")
    assert imported_digest("alone:SIZE") == sources_digest("alone")


def test_two_modules_may_import_each_other(package: Path) -> None:
    """And a file that is no Python counts by its bytes alone."""
    (package.parent / "alone.py").write_text("import other")
    (package.parent / "other.py").write_text("import alone\nthis is no Python")
    before = sources_digest("alone:build")
    (package.parent / "other.py").write_text("import alone\nneither is this")
    assert sources_digest("alone:build") != before
