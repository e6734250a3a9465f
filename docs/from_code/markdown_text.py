"""Markdown: tables, code, and docstrings, which are reStructuredText."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from textwrap import dedent
from typing import Final

SECTION: Final = re.compile(r"^(?:Args|Attributes|Returns|Raises):$", re.MULTILINE)
LINK: Final = re.compile(r"`([^`<]+?)\s+<([^>]+)>`_")
FORMULA: Final = re.compile(r":math:`([^`]+)`")
DISPLAYED: Final = re.compile(r"^\.\. math:: ((?:.+\n?)(?:    .+\n?)*)", re.MULTILINE)
ENTRY: Final = re.compile(r"^(\w+(?:, \w+)*): (.*(?:\n    .*)*)", re.MULTILINE)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def codes(names: Iterable[object]) -> str:
    """Return names as code, with commas."""
    return ", ".join(f"`{name}`" for name in names)


def in_cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def described(kind: type) -> tuple[str, str]:
    """Return the first line of a class's docstring, and what follows but for its sections."""
    docstring = inspect.getdoc(kind) or ""
    first, _, rest = SECTION.split(docstring)[0].partition("\n")
    return first, markdown(rest.strip())


def entries(kind: type, section: str) -> dict[str, str]:
    """Return the texts of a section of a class's docstring by the names that they are of."""
    _, found, rest = (inspect.getdoc(kind) or "").partition(f"\n{section}:\n")
    if not found:
        return {}
    block = SECTION.split(dedent(rest))[0]
    return {
        name: markdown(text) for names, text in ENTRY.findall(block) for name in names.split(", ")
    }


def markdown(text: str) -> str:
    """Return a docstring's text as Markdown; lists are the same in both."""
    text = LINK.sub(lambda found: f"[{' '.join(found[1].split())}]({found[2]})", text)
    text = FORMULA.sub(r"$\1$", text)
    return DISPLAYED.sub(lambda found: f"$$\n{dedent('    ' + found[1]).strip()}\n$$\n", text)
