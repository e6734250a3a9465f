"""Pages name files and modules that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from code_blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
# A file of the project; `pkg/...` are examples of users' files.
FILE = re.compile(r"`([\w/]+/[\w.]+\.(?:py|json|md|css))`")
MODULE = re.compile(r"python -m (benchmarks\.[a-z]\w*)|`(grb_check(?:\.(?!json)[a-z]\w*)+)[:`]")
LINK = re.compile(r"\]\(([^)#:]+)[)#]")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_links_of_a_page_exist(page: Path) -> None:
    """Paths start at the root of the project, at the package or at the page."""
    text = page.read_text("utf-8")
    roots = (ROOT, ROOT / "grb_check", page.parent)
    known = [name for name in FILE.findall(text) if "NAME" not in name]
    named = {name for name in known if not any((r / name).exists() for r in roots)}
    linked = {name for name in LINK.findall(text) if not (page.parent / name).exists()}
    assert (named, linked) == (set(), set())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_of_a_page_exist(page: Path) -> None:
    """An attribute of a module counts as well."""
    for benchmark, module in MODULE.findall(page.read_text("utf-8")):
        name = benchmark or module
        parent, _, attribute = name.rpartition(".")
        if not _exists(name):
            assert _exists(parent), name
            assert hasattr(importlib.import_module(parent), attribute), name


def test_every_decision_is_in_the_index() -> None:
    """Once, under its title."""
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    for path in folder.glob("[!R]*.md"):
        title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        assert index.count(f"- [{title}]({path.name})") == 1, path.name


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_readers_see_the_name_of_a_file(page: Path) -> None:
    """The comment that names it is hidden; the paragraph above says it too."""
    lines = page.read_text("utf-8").splitlines()
    for block in blocks_of(page):
        above = "\n".join(line for line in lines[: block.line - 2] if line.strip())
        assert f"`{block.file}`" in above[-400:] or not block.file, f"{page.name}:{block.line}"
