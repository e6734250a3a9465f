"""Reference pages that are written by hand name everything that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from grb_check.__main__ import COMMANDS
from grb_check.cli import console

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"


def test_every_junit_property_is_on_the_page_of_reports() -> None:
    """A name with a variable part is there with `*`."""
    page = (PAGES / "reports.md").read_text("utf-8")
    names = set()
    for path in sorted((ROOT / "grb_check" / "reports").glob("*.py")):
        for name, rest in re.findall(r'"(grb\.[a-z_0-9]+)(\.?)', path.read_text("utf-8")):
            names.add(f"`{name}.*`" if rest else f"`{name}`")
    assert len(names) > 30
    assert [name for name in sorted(names) if name not in page] == []


def test_every_exit_code_is_on_its_page() -> None:
    """Of the commands; those of pytest are listed by hand."""
    page = (PAGES / "exit-codes.md").read_text("utf-8")
    codes = {value for value in vars(console).values() if isinstance(value, int)}
    assert codes
    assert [code for code in sorted(codes) if f"| {code} |" not in page] == []


def test_every_command_is_named_in_the_documentation() -> None:
    """Besides the page of all commands, which is generated."""
    texts = "\n".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    names = [module.__name__.rpartition(".")[2] for module in COMMANDS]
    assert [name for name in names if f"python -m grb_check {name}" not in texts] == []
