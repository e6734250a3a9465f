"""What the pages tell users to type works, and shows what they say."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import preloaded  # noqa: F401 - by being imported
import pytest
from code_blocks import blocks_of, commands_of, same_output

from grb_check.runs.resume import FinishedMeasurements

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
def folder(
    pytester: pytest.Pytester, store: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.Pytester]:
    """The folder of a page: current, importable, and outside any repository."""
    for name in os.environ:
        if name.startswith(("PYTEST", "GITHUB_", "CI_", "COV_")) or name in ("CI", "COLUMNS"):
            monkeypatch.delenv(name)
    path = [str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("GRB_CHECK_STORE", str(store))
    # What several pages measure is measured once, as in an interrupted run that goes on.
    original = FinishedMeasurements.__init__
    monkeypatch.setattr(
        FinishedMeasurements,
        "__init__",
        lambda *given, **how: original(*given, **how | {"resume": True}),
    )
    monkeypatch.syspath_prepend(pytester.path)
    before = set(sys.modules)
    yield pytester
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(pytester.path)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_a_page_runs(page: Path, folder: pytest.Pytester) -> None:
    """In the order of the page."""
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.use == "file":
            path = folder.path / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.use == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), namespace)
        elif block.use == "console":
            for command in commands_of(block):
                exit_code, output = run(command.text, folder)
                shown = f"{where}: $ {command.text}\n{output}"
                assert exit_code == command.exit_code, shown
                if command.output.strip():
                    same = same_output(command.output, output)
                    assert same, f"{shown}\nwanted:\n{command.output}"


def run(command: str, folder: pytest.Pytester) -> tuple[int, str]:
    """Return the exit code of a command and what it writes.

    Plain pytest runs in this process, which has imported torch: that halves the time of all pages.
    """
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[0] == "pytest" and not set(command) & set("|;&<>`$*"):
        result = folder.runpytest_inprocess(*words[1:])
        return int(result.ret), f"{result.stdout}\n{result.stderr}"
    pipe, joined = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(
        ["bash", "-c", command], stdout=pipe, stderr=joined, encoding="utf-8", timeout=300
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ("15 passed in 3.1s", "15 passed in 12.9s", True),
        ("15 passed in 3.1s", "14 passed in 3.1s", False),
        ("pass 58.1%  +- 0.3", "pass  9.0% +- 11.3", True),
        ("first\n...\nlast", "first\n1\n2\nlast", True),
        ("first\n...\nlast", "first\n1\n2", False),
        ("verdict pass", "verdict fail", False),
        ("leaves 13 to 49 % of", "leaves 14 % of", True),
        ("of 3 repeats", "of 4 repeats", False),
    ],
)
def test_outputs_are_the_same_but_for_figures(wanted: str, got: str, same: bool) -> None:
    """Counts and words are compared."""
    assert same_output(wanted, got) is same
