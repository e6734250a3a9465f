"""The source files of what a user names: their digest, and where a factory is defined."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grb_check.user_code.sources import definition, source_digest


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


def test_it_is_that_of_the_content(package: Path, tmp_path: Path) -> None:
    """The same in another folder."""
    before = source_digest("alone:build")
    assert len(before) == 64
    (tmp_path / "alone.py").rename(tmp_path / "moved.py")
    assert source_digest("moved:build") == before
    (package / "lock.py").symlink_to(tmp_path / "nothing")  # as editors leave them
    assert source_digest("sourced:build")


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


class Factory:
    """A class is a factory too."""


def test_a_definition_is_its_file_and_line() -> None:
    """The line of the first decorator, counted from 1; that of the wrapper is of no interest."""
    lines = Path(__file__).read_text().splitlines()
    assert definition(factory) == (Path(__file__), lines.index("@decorated") + 1)
    assert definition(Factory) == (Path(__file__), lines.index("class Factory:") + 1)


@pytest.mark.parametrize("found", [functools.partial(factory), len, 3])
def test_what_has_no_source_has_no_definition(found: object) -> None:
    """It is not an error."""
    assert definition(found) is None
