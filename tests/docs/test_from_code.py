"""What the reference pages say of the code is what the code says."""

from __future__ import annotations

import importlib
import runpy
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grb_check.attacks.registry import BUILT_IN, load_attack

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "from_code"


class Example:
    """The first line.

    After `A Paper
    <https://example.org/a>`_ (Who 2020), with :math:`x^2` and

    .. math:: a +
        b,

    * one.

    Args:
        first, second: see
            `other.Class`.
        third: of :math:`y` | z.
    """


@pytest.fixture(scope="module")
def writer() -> dict[str, Any]:
    """The names of the script."""
    return runpy.run_path(str(SCRIPT), run_name="writer")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that turns docstrings into Markdown."""
    monkeypatch.syspath_prepend(SCRIPT)
    return importlib.import_module("markdown_text")


def test_a_docstring_becomes_markdown(module: ModuleType) -> None:
    """Links and formulas; lists and code are the same in both."""
    first, rest = module.described(Example)
    assert first == "The first line."
    assert "After [A Paper](https://example.org/a) (Who 2020), with $x^2$ and" in rest
    assert "$$\na +\nb,\n$$\n" in rest
    assert rest.endswith("* one.")
    entries = module.entries(Example, "Args")
    assert list(entries) == ["first", "second", "third"]
    assert entries["first"] == entries["second"]
    assert module.in_cell(entries["third"]) == "of $y$ \\| z."


def test_every_setting_of_every_attack_has_a_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its own class, or from the one that its docstring names."""
    monkeypatch.syspath_prepend(SCRIPT)
    sections = importlib.import_module("attack_sections")
    for pair in BUILT_IN:
        kind = type(load_attack(*pair))
        for setting in fields(kind):
            text = sections.meaning(kind, setting.name)
            assert text, (pair, setting.name)
            assert "Settings" not in text, (pair, setting.name)


def test_a_page_that_is_old_is_found(writer: dict[str, Any]) -> None:
    """A row that is missing, and one that is too many."""
    page = (ROOT / "docs" / "reference" / "suites.md").read_text("utf-8")
    assert writer["written"](page) == page
    lines = page.splitlines(keepends=True)
    row = next(index for index, line in enumerate(lines) if line.startswith("| `standard`"))
    for old in (lines[:row] + lines[row + 1 :], lines[:row] + lines[row : row + 1] + lines[row:]):
        assert writer["written"]("".join(old)) == page


def test_an_option_has_one_place(writer: dict[str, Any]) -> None:
    """Groups on two pages, or on none, are told."""
    page = (ROOT / "docs" / "reference" / "options.md").read_text("utf-8")
    assert writer["missing_options"]([page]) == []
    without = page.replace("option_group limits", "nothing")
    assert any("--grb-max-drop" in each for each in writer["missing_options"]([without]))
    assert any("--grb-only" in each for each in writer["missing_options"]([page, page]))
