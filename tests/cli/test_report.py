"""`python -m grb_check report`: reports of run records."""

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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.json"], "No such file"),
        (["{run}", "{run}"], "given twice"),
        (["{run}", "--html", "{folder}"], "--html"),
        (["{run}", "--junit", "{run}/a.xml"], "--junit"),
        (["{run}", "--html={folder}/a", "--junit={folder}/./a"], "are the same file"),
        (["{run}", "--html", "-"], "--html '-' does not name a file"),
        (["{run}", "--junit={folder}/new/a.xml", "--html={folder}"], "--html"),
    ],
)
def test_wrong_input_is_a_usage_error(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """One line, and pytest's exit code for it."""
    filled = [argument.format(run=run, folder=run.parent) for argument in arguments]
    assert main(["report", *filled]) == 4
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert list(run.parent.iterdir()) == [run]


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
def test_a_report_that_fails_costs_no_other(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and one line that names it."""
    path = tmp_path / "a.md"
    assert main(["report", str(run), "--html=/dev/full", f"--markdown={path}"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == (
        f"{path}\n",
        "grb_check: /dev/full not written: No space left on device\n",
    )
    assert "\n## " in path.read_text(encoding="utf-8")
