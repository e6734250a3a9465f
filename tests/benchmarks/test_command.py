"""The command lines of the benchmarks."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SUBJECTS = sorted(path.parent.name for path in FOLDER.glob("*/__main__.py"))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_help_is_shown(
    subject: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A per cent sign in a docstring is none of argparse's formats."""
    monkeypatch.setattr("sys.argv", [subject, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{subject}", run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{subject} ")
