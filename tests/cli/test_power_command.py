"""`python -m grb_check power`: repeats for a loss, and their cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_factory import file_of, rich

from grb_check.__main__ import main


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(file_of(rich()), encoding="utf-8")
    return path


def test_a_table_for_each_model_and_dataset(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All cases together first, with repeats and seconds."""
    assert main(["power", str(run), "--loss=5"]) == 0
    out = capsys.readouterr().out
    assert "detect a loss of 5 points beyond a margin of 2 with 80 % probability" in out
    assert "all cases together" in out
    assert "repeats  seconds" in out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--loss=1"],
            "--loss '1' is not a number of accuracy points; give one above the margin of 2",
        ),
        (["--loss=nan"], "--loss 'nan' is not a number"),
        (["--loss=much"], "--loss 'much' is not a number of accuracy points; give one above"),
        (["--margin=-3"], "--margin '-3' is not a number of accuracy points; give one from 0"),
    ],
)
def test_wrong_options_are_one_line(
    run: Path, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4."""
    assert main(["power", str(run), *options]) == 4
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err


def test_a_file_that_is_no_record_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by the other commands."""
    (tmp_path / "x.json").write_text("{}")
    assert main(["power", str(tmp_path / "x.json")]) == 4
    assert main(["power", str(tmp_path / "none.json")]) == 4
    assert "grb_check: " in capsys.readouterr().err
