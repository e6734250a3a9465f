"""What the pages tell users to type works, and shows what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from code_blocks import Block, blocks_of, commands_of, same_output

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store for all pages, whose black-box perturbations are then made once."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def folder(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a page: current, importable, and outside any repository."""
    for name in os.environ:
        if name.startswith(("PYTEST", "GITHUB_", "CI_", "COV_")) or name in ("CI", "COLUMNS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("GRB_CHECK_STORE", str(store))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_a_page_runs(page: Path, folder: Path) -> None:
    """In the order of the page."""
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.use == "file":
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.use == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), namespace)
        elif block.use == "console":
            run(block, where)


def run(block: Block, where: str) -> None:
    """Run the commands of a block and compare what they write."""
    for command in commands_of(block):
        done = subprocess.run(
            ["bash", "-c", command.text],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
        )
        shown = f"{where}: $ {command.text}\n{done.stdout}"
        assert done.returncode == command.exit_code, shown
        if command.output.strip():
            assert same_output(command.output, done.stdout), f"{shown}\nwanted:\n{command.output}"


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("15 passed in 3.1s", "15 passed in 12.9s", True),
        ("15 passed in 3.1s", "14 passed in 3.1s", False),
        ("pass 58.1%  +- 0.3", "pass  9.0% +- 11.3", True),
        ("first\n...\nlast", "first\n1\n2\nlast", True),
        ("first\n...\nlast", "first\n1\n2", False),
        ("verdict pass", "verdict fail", False),
    ],
)
def test_outputs_are_the_same_but_for_figures(wanted: str, got: str, same: bool) -> None:
    """Counts and words are compared."""
    assert same_output(wanted, got) is same
